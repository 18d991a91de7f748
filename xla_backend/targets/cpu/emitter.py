"""Loop IR to LLVM text: loops, lanes and carried values. Memory access is in access.py.

A loop marked `vector W` runs W iterations in lockstep: values that depend on its variable are `<W x
T>`, others stay scalar. What is left over after whole groups of W is done once more under a
constant mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.index import Var
from xla_backend.kernels.ir import (
    Buffer,
    Combiner,
    Compute,
    Constant,
    IndexValue,
    InRange,
    Load,
    Loop,
    Statement,
    Store,
    Value,
    walk,
)
from xla_backend.llvm import elemental
from xla_backend.llvm.types import const, register_type, vector, vector_const
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.cpu.access import Access
from xla_backend.targets.cpu.schedule import weight
from xla_backend.targets.cpu.tiles import TileEmitter

# Bodies heavier than this are emitted once, always masked, instead of once plain and once masked.
_SINGLE_COPY_WEIGHT = 40
# Loops with range checks are cut into at most this many pieces.
_MAX_SEGMENTS = 4


class KernelEmitter:
    """Emits statements into one function. `pointers`: the address of each buffer."""

    def __init__(self, w: FunctionWriter, pointers: dict[Buffer, str]) -> None:
        self.w = w
        self.pointers = pointers
        self.env: dict[Value, str] = {}
        self.lanes_of: dict[Value, int] = {}  # values in lanes; others are scalar
        self.vars: dict[Var, str] = {}
        self.vector_var: Var | None = None
        self.lanes = 1
        self.mask: str | None = None  # lanes in use; None: all
        self.access = Access(self)
        self.preloaded: dict[Load, str] = {}  # loads that a tile has done already
        # Range checks that are decided where code is emitted now, and what follows from them.
        self.decided: dict[InRange, bool] = {}
        self.known: dict[Value, bool] = {}
        # Guards of loads (the result is zero where the guard does not hold), and zero constants.
        self.guards: dict[Value, Value] = {}
        self.zeros: set[Value] = set()
        # The block of a parallel loop that this function does: (loop, first, last + 1).
        self.block: tuple[Loop, str, str] | None = None

    # -- values ------------------------------------------------------------------------------------

    def bind(self, value: Value, text: str, lanes: int = 1) -> None:
        self.env[value] = text
        if lanes > 1:
            self.lanes_of[value] = lanes
        else:
            self.lanes_of.pop(value, None)

    def is_vector(self, value: Value) -> bool:
        return value in self.lanes_of

    def type_of(self, value: Value) -> str:
        return vector(register_type(value.type), self.lanes_of.get(value, 1))

    def get(self, value: Value, lanes: int = 1) -> str:
        """The text of a value, spread over `lanes` if it is scalar."""
        text = self.env[value]
        if lanes > 1 and value not in self.lanes_of:
            return self.w.splat(vector(register_type(value.type), lanes), text)
        return text

    # -- statements --------------------------------------------------------------------------------

    def emit(self, statements: Sequence[Statement]) -> None:
        for s in statements:
            if isinstance(s, Compute):
                if not self._fold(s):
                    self._compute(s)
            elif isinstance(s, Load):
                if s.guard is not None:
                    self.guards[s.result] = s.guard
                if s.guard is not None and self.known.get(s.guard) is False:
                    self.bind(s.result, const(register_type(s.result.type), 0))
                elif s in self.preloaded:
                    self.access.bind_loaded(s, self.preloaded[s], self.lanes)
                else:
                    self.access.load(s)
            elif isinstance(s, Store):
                if s.guard is None or self.known.get(s.guard) is not False:
                    self.access.store(s)
            elif isinstance(s, Constant):
                value = s.value
                ty = register_type(s.result.type)
                plain = float(value) if s.result.type.is_floating else int(value)
                self.bind(s.result, const(ty, plain))
                if not np.asarray(value).tobytes().strip(b"\0"):  # not -0.0
                    self.zeros.add(s.result)
            elif isinstance(s, IndexValue):
                self._index_value(s)
            elif isinstance(s, InRange) and s in self.decided:
                self._know(s.result, self.decided[s])
            elif isinstance(s, InRange):
                self.known.pop(s.result, None)
                self.bind(s.result, *self.access.in_range(s.index, s.low, s.high))
            elif isinstance(s, Loop):
                self._loop(s)
            else:
                raise AssertionError(f"statement {s!r} has no emitter")

    def _compute(self, s: Compute) -> None:
        lanes = max([self.lanes_of.get(o, 1) for o in s.operands])
        operands = [self.get(o, lanes) for o in s.operands]
        self.bind(s.result, self._operation(s, operands, lanes), lanes)

    # -- range checks whose result is known ----------------------------------------------------

    def guard_of(self, s: Load | Store) -> Value | None:
        """The guard of an access, or None if it is known to hold."""
        return None if s.guard is None or self.known.get(s.guard) else s.guard

    def _know(self, value: Value, truth: bool) -> None:
        self.known[value] = truth
        self.bind(value, "true" if truth else "false")

    def _fold(self, s: Compute) -> bool:
        """Bind what known conditions decide: and, or, not of conditions, select by one. A guarded
        load is already zero where its guard does not hold."""
        self.known.pop(s.result, None)
        if s.opcode is Opcode.SELECT:
            guard, loaded, other = s.operands
            if other in self.zeros and self.guards.get(loaded) is guard:
                self._same(s.result, loaded)
                return True
        if not self.known or not any(o in self.known for o in s.operands):
            return False
        known = [self.known.get(o) for o in s.operands]
        if s.opcode is Opcode.SELECT and known[0] is not None:
            self._same(s.result, s.operands[1 if known[0] else 2])
            return True
        if s.opcode is Opcode.NOT and known[0] is not None:
            self._know(s.result, not known[0])
            return True
        if s.opcode in (Opcode.AND, Opcode.OR):
            decisive = s.opcode is Opcode.OR
            if decisive in known:
                self._know(s.result, decisive)
            elif None not in known:
                self._know(s.result, not decisive)
            else:
                self._same(s.result, s.operands[known.index(None)])
            return True
        return False

    def _same(self, value: Value, other: Value) -> None:
        self.bind(value, self.env[other], self.lanes_of.get(other, 1))
        if other in self.known:
            self.known[value] = self.known[other]

    def _decide(self, loop: Loop, first: int, last: int) -> None:
        """Range checks of the loop variable that come out the same for all of [first, last)."""
        self.decided = {}
        for s, low, high in _range_checks(loop):
            if low <= first and last <= high:
                self.decided[s] = True
            elif last <= low or high <= first:
                self.decided[s] = False

    def _operation(self, s: Compute, operands: list[str], lanes: int) -> str:
        w, opcode, source = self.w, s.opcode, s.operands[0].type
        if opcode is Opcode.COMPARE:
            a = s.attributes
            return elemental.emit_compare(
                w, a.direction.value, source, lanes, operands[0], operands[1], a.total_order
            )
        if opcode is Opcode.SELECT:
            return elemental.emit_select(w, s.result.type, lanes, *operands)
        if opcode is Opcode.CONVERT:
            return elemental.emit_convert(w, source, s.result.type, lanes, operands[0])
        if opcode is Opcode.CLAMP:
            return elemental.emit_clamp(w, s.result.type, lanes, *operands)
        if opcode is Opcode.BITCAST_CONVERT:
            return elemental.emit_bitcast_convert(w, source, s.result.type, lanes, operands[0])
        if opcode is Opcode.REDUCE_PRECISION:
            a = s.attributes
            return elemental.emit_reduce_precision(
                w, source, lanes, operands[0], a.exponent_bits, a.mantissa_bits
            )
        return elemental.emit(w, opcode.value, source, lanes, *operands)

    def _index_value(self, s: IndexValue) -> None:
        type = s.result.type
        text, ty, lanes = self.access.index(s.index)
        target = vector(register_type(type), lanes)
        source_type = PrimitiveType.S64 if ty.endswith(("i64", "i64>")) else PrimitiveType.S32
        if type is source_type:
            self.bind(s.result, text, lanes)
            return
        if type.is_integral and type.bits >= 8:
            narrower = type.bits < source_type.bits
            if type.bits == source_type.bits:
                self.bind(s.result, text, lanes)
                return
            self.bind(
                s.result, self.w.cast("trunc" if narrower else "sext", ty, text, target), lanes
            )
            return
        self.bind(s.result, elemental.emit_convert(self.w, source_type, type, lanes, text), lanes)

    # -- loops -------------------------------------------------------------------------------------

    def _loop(self, loop: Loop) -> None:
        if self.block is not None and self.block[0] is loop:
            first, last = self.block[1], self.block[2]
        else:
            first, last = "0", str(loop.var.extent)
        if loop.tile > 1:
            TileEmitter(self, loop).emit(first, last)
        elif loop.vector > 1:
            if loop.carries:
                self._vector_reduction(loop)
            else:
                self._vector_loop(loop, first, last)
        else:
            self.scalar_loop(loop, first, last)

    def scalar_loop(self, loop: Loop, first: str, last: str) -> None:
        w = self.w
        reduction = _lane_loop(loop) if loop.carries and self.vector_var is None else None
        if reduction is not None:
            self._lane_chain(loop, reduction, first, last)
            return
        lanes = self.lanes if loop.carries else 1
        types = [vector(register_type(c.phi.type), lanes) for c in loop.carries]
        inits = [(t, self.get(c.init, lanes)) for t, c in zip(types, loop.carries)]
        if loop.var.extent == 1 and first == "0":
            # A loop of one round is no loop.
            self.vars[loop.var] = "0"
            for carry, (_, init) in zip(loop.carries, inits):
                self.bind(carry.phi, init, lanes)
            self.emit(loop.body)
            for carry in loop.carries:
                self.bind(carry.result, self._next(carry, lanes), lanes)
            return
        with w.loop(first, last, 1, inits, guard=first != "0") as handle:
            self.vars[loop.var] = handle.index
            for carry, text in zip(loop.carries, handle.carried):
                self.bind(carry.phi, text, lanes)
            self.emit(loop.body)
            handle.next = [self._next(c, lanes) for c in loop.carries]
        for carry, text in zip(loop.carries, handle.results):
            self.bind(carry.result, text, lanes)

    def _next(self, carry: Any, lanes: int) -> str:
        assert carry.next is not None
        return self.get(carry.next, lanes)

    def enter_lanes(self, loop: Loop, base: str, mask: str | None) -> None:
        self.vector_var = loop.var
        self.lanes = loop.vector
        self.mask = mask
        self.vars[loop.var] = base
        self.access.forget_lanes()

    def leave_lanes(self) -> None:
        self.vector_var = None
        self.lanes = 1
        self.mask = None
        self.access.forget_lanes()

    def _tail_mask(self, lanes: int, rest: int) -> str:
        return vector_const("i1", [1 if i < rest else 0 for i in range(lanes)])

    def _vector_loop(self, loop: Loop, first: str, last: str) -> None:
        """Whole groups of lanes in a loop, the rest once under a mask."""
        w, lanes, extent = self.w, loop.vector, loop.var.extent
        whole = extent // lanes * lanes
        rest = extent - whole
        if rest and whole and is_heavy(loop):
            with w.loop(first, last, lanes, guard=first != "0") as handle:
                mask = w.active_mask(lanes, handle.index, extent)
                self.enter_lanes(loop, handle.index, mask)
                self.emit(loop.body)
                self.leave_lanes()
            return
        segments = _segments(loop, whole) if first == "0" and last == str(extent) else []
        for start, end in segments:
            self._decide(loop, start, end)
            with w.loop(start, end, lanes) as handle:
                self.enter_lanes(loop, handle.index, None)
                self.emit(loop.body)
                self.leave_lanes()
            self.decided = {}
        if whole and not segments:
            stop = w.imin(last, whole) if rest else last
            if whole == lanes and first == "0" and last == str(extent):
                self.enter_lanes(loop, "0", None)
                with w.scope():
                    self.emit(loop.body)
                self.leave_lanes()
            else:
                with w.loop(first, stop, lanes, guard=first != "0") as handle:
                    self.enter_lanes(loop, handle.index, None)
                    self.emit(loop.body)
                    self.leave_lanes()
        if rest:
            if last == str(extent):
                self.tail(loop, whole, rest)
            else:
                with w.if_(w.cmp("eq", "i64", last, str(extent))):
                    self.tail(loop, whole, rest)

    def tail(self, loop: Loop, whole: int, rest: int) -> None:
        """The iterations from `whole` on, fewer than the lanes."""
        self._decide(loop, whole, whole + rest)
        if rest == 1:
            # One iteration needs no lanes. (And LLVM 22 writes too many bytes when a truncated
            # vector is stored under a constant mask of one lane.)
            self.vars[loop.var] = str(whole)
            with self.w.scope():
                self.emit(loop.body)
            self.decided = {}
            return
        self.enter_lanes(loop, str(whole), self._tail_mask(loop.vector, rest))
        with self.w.scope():
            self.emit(loop.body)
        self.leave_lanes()
        self.decided = {}

    # -- reductions in lanes -----------------------------------------------------------------------

    def _vector_reduction(self, loop: Loop) -> None:
        starts = self._lane_starts(loop, loop.vector)
        ends = self._reduction_body(loop, starts)
        self._finish_lanes(loop, ends, loop.vector)

    def _lane_starts(self, loop: Loop, lanes: int) -> list[str]:
        starts = []
        for carry in loop.carries:
            ty = vector(register_type(carry.phi.type), lanes)
            if carry.identity is None:
                starts.append(self.get(carry.init, lanes))
            else:
                number = carry.identity
                plain = float(number) if carry.phi.type.is_floating else int(number)
                starts.append(const(ty, plain))
        return starts

    def _reduction_body(self, loop: Loop, starts: list[str]) -> list[str]:
        """The vector loop itself, from lane values to lane values."""
        w, lanes, extent = self.w, loop.vector, loop.var.extent
        whole = extent // lanes * lanes
        rest = extent - whole
        types = [vector(register_type(c.phi.type), lanes) for c in loop.carries]
        values = starts

        def body(base: str, mask: str | None, current: Sequence[str]) -> list[str]:
            self.enter_lanes(loop, base, mask)
            for carry, text in zip(loop.carries, current):
                self.bind(carry.phi, text, lanes)
            self.emit(loop.body)
            nexts = [self._next(c, lanes) for c in loop.carries]
            if mask is not None:
                nexts = [w.select(mask, t, n, c) for t, n, c in zip(types, nexts, current)]
            self.leave_lanes()
            return nexts

        if rest and whole and is_heavy(loop):
            with w.loop(0, extent, lanes, list(zip(types, values))) as handle:
                mask = w.active_mask(lanes, handle.index, extent)
                handle.next = body(handle.index, mask, handle.carried)
            return handle.results
        if whole == lanes:
            values = body("0", None, values)
        elif whole:
            with w.loop(0, whole, lanes, list(zip(types, values))) as handle:
                handle.next = body(handle.index, None, handle.carried)
            values = handle.results
        if rest:
            values = body(str(whole), self._tail_mask(lanes, rest), values)
        return values

    def _lane_chain(self, loop: Loop, inner: Loop, first: str, last: str) -> None:
        """Loops around a vectorised reduction: they carry lanes, which are combined after the
        outermost."""
        lanes = inner.vector
        starts = self._lane_starts(loop, lanes)
        ends = self._chain_body(loop, inner, starts, first, last)
        self._finish_lanes(loop, ends, lanes)

    def _chain_body(
        self, loop: Loop, inner: Loop, starts: list[str], first: str, last: str
    ) -> list[str]:
        if loop is inner:
            return self._reduction_body(loop, starts)
        lanes = inner.vector
        types = [vector(register_type(c.phi.type), lanes) for c in loop.carries]
        with self.w.loop(first, last, 1, list(zip(types, starts)), guard=first != "0") as handle:
            self.vars[loop.var] = handle.index
            nested = loop.body[-1]
            assert isinstance(nested, Loop)
            self.emit(loop.body[:-1])
            handle.next = self._chain_body(
                nested, inner, handle.carried, "0", str(nested.var.extent)
            )
        return handle.results

    def _finish_lanes(self, loop: Loop, ends: list[str], lanes: int) -> None:
        """Combine the lanes by halves, then with the initial value where the lanes started
        neutral."""
        combiner = loop.combiner
        assert combiner is not None
        w = self.w
        width = lanes
        values = ends
        while width > 1:
            half = width // 2
            low, high = [], []
            for carry, text in zip(loop.carries, values):
                ty = vector(register_type(carry.phi.type), width)
                if half == 1:
                    low.append(w.extract(ty, text, 0))
                    high.append(w.extract(ty, text, 1))
                else:
                    low.append(w.shuffle(ty, text, "poison", list(range(half))))
                    high.append(w.shuffle(ty, text, "poison", list(range(half, width))))
            values = self._combine(combiner, low, high, half)
            width = half
        neutral = [c.identity is not None for c in loop.carries]
        if all(neutral):
            values = self._combine(combiner, [self.get(c.init) for c in loop.carries], values, 1)
        for carry, text in zip(loop.carries, values):
            self.bind(carry.result, text)

    def _combine(
        self, combiner: Combiner, lhs: Sequence[str], rhs: Sequence[str], lanes: int
    ) -> list[str]:
        for value, text in zip([*combiner.lhs, *combiner.rhs], [*lhs, *rhs]):
            self.bind(value, text, lanes)
        self.emit(combiner.body)
        return [self.get(v, lanes) for v in combiner.results]


def _range_checks(loop: Loop) -> list[tuple[InRange, int, int]]:
    """Checks of the loop variable itself: (statement, lowest, highest + 1 value that passes)."""
    return [
        (s, s.low - s.index.constant, s.high - s.index.constant)
        for s in loop.body
        if isinstance(s, InRange) and s.index.terms == {loop.var: 1}
    ]


def _segments(loop: Loop, whole: int) -> list[tuple[int, int]]:
    """Stretches of whole vectors in which range checks are decided, and those between them; empty
    if that would be too much code."""
    lanes = loop.vector
    cuts = {0, whole}
    for _, low, high in _range_checks(loop):
        for edge in (low, high):
            below, above = edge // lanes * lanes, -(-edge // lanes) * lanes
            cuts.update(c for c in (below, above) if 0 < c < whole)
    if len(cuts) == 2 or len(cuts) > _MAX_SEGMENTS + 1 or is_heavy(loop):
        return []
    ordered = sorted(cuts)
    return list(pairwise(ordered))


def is_heavy(loop: Loop) -> bool:
    """Whether the body is too much code to be emitted twice."""
    total = 0.0
    for s in walk(loop.body):
        if isinstance(s, Compute):
            total += weight(s.opcode)
        if isinstance(s, Loop):
            return True
    return total > _SINGLE_COPY_WEIGHT


def _lane_loop(loop: Loop) -> Loop | None:
    """The vectorised innermost reduction loop that `loop` carries lanes for, if there is one."""
    current = loop
    while current.vector == 1:
        if not current.body or not isinstance(current.body[-1], Loop):
            return None
        inner = current.body[-1]
        if not inner.carries or not inner.keeps_lanes:
            return None
        phis = {c.phi for c in current.carries}
        if any(c.init not in phis for c in inner.carries):
            return None
        current = inner
    return current if current is not loop else None
