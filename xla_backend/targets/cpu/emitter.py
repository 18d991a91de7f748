"""Scheduled kernel IR to LLVM text: loops, lanes and carried values. Memory access is in access.py.

In a lanes loop of extent W, values that depend on its variable are `<W x T>`, others stay scalar; a
condition on the lane is a mask. Nothing is decided here: what is split, masked or kept in registers
is in the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import gcd

import numpy as np

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.index import Atom, FloorDiv, Index, Mod, Parameter, Var
from xla_backend.kernels.ir import (
    Buffer,
    BufferRole,
    Carry,
    Combination,
    Combiner,
    Compute,
    Constant,
    If,
    IndexValue,
    InRange,
    Load,
    Loop,
    LoopKind,
    Move,
    Statement,
    Store,
    Transpose,
    Value,
    walk,
)
from xla_backend.llvm import elemental
from xla_backend.llvm.transposes import transpose
from xla_backend.llvm.types import const, memory_type, register_type, vector
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.cpu.access import Access


class KernelEmitter:
    """Emits statements into one function. `pointers`: the address of each buffer."""

    def __init__(self, w: FunctionWriter, pointers: dict[Buffer, str]) -> None:
        self.w = w
        self.pointers = pointers
        self.env: dict[Value, str] = {}
        self.lanes_of: dict[Value, int] = {}  # values in lanes; others are scalar
        self.vars: dict[Var | Parameter, str] = {}
        self.steps: dict[Atom, int] = {}  # variables of which the code has a multiple
        self.vector_var: Var | None = None
        self.lanes = 1
        self.mask: str | None = None  # lanes in use; None: all
        self.access = Access(self)
        self.preloaded: dict[Load, str] = {}  # loads that the caller has done already
        self.registers: dict[tuple[Buffer, int], str] = {}
        # Guards of loads (the result is zero where the guard does not hold), and zero constants.
        self.guards: dict[Value, Value] = {}
        self.zeros: set[Value] = set()

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
                if not self._is_guarded_load(s):
                    self._compute(s)
            elif isinstance(s, Load):
                if s.guard is not None:
                    self.guards[s.result] = s.guard
                if s in self.preloaded:
                    self.access.bind_loaded(s, self.preloaded[s], self.lanes)
                elif s.buffer.role is BufferRole.REGISTERS:
                    self.access.bind_loaded(s, self.registers[self._register(s)], self.lanes)
                else:
                    self.access.load(s)
            elif isinstance(s, Store):
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
            elif isinstance(s, InRange):
                self.bind(s.result, *self.access.in_range(s.index, s.low, s.high))
            elif isinstance(s, Loop):
                self._loop(s)
            elif isinstance(s, If):
                self._if(s)
            elif isinstance(s, Move):
                self._move(s)
            elif isinstance(s, Transpose):
                self._transpose(s)
            else:
                raise AssertionError(f"statement {s!r} has no emitter")

    def _compute(self, s: Compute) -> None:
        lanes = max([self.lanes_of.get(o, 1) for o in s.operands])
        operands = [self.get(o, lanes) for o in s.operands]
        self.bind(s.result, self._operation(s, operands, lanes), lanes)

    def _is_guarded_load(self, s: Compute) -> bool:
        """Bind a select between what was loaded under a guard and zero: the load is already zero
        where its guard does not hold."""
        if s.opcode is not Opcode.SELECT:
            return False
        guard, loaded, other = s.operands
        if other not in self.zeros or self.guards.get(loaded) is not guard:
            return False
        self.bind(s.result, self.env[loaded], self.lanes_of.get(loaded, 1))
        return True

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
        if loop.kind is LoopKind.LANES:
            self._lanes_loop(loop)
        elif loop.kind is LoopKind.UNROLLED:
            for i in range(loop.var.extent):
                self.vars[loop.var] = str(i)
                self.emit(loop.body)
        elif loop.kind is LoopKind.GRID:
            self.emit(loop.body)  # the function is that of one block
        else:
            self._serial_loop(loop)

    def _serial_loop(self, loop: Loop) -> None:
        w, lanes = self.w, self.lanes if loop.carries else 1
        types = [vector(register_type(c.phi.type), lanes) for c in loop.carries]
        inits = [(t, self.get(c.init, lanes)) for t, c in zip(types, loop.carries)]
        if loop.var.extent == 1 and not loop.limits:
            # A loop of one round is no loop.
            self.vars[loop.var] = "0"
            self._begin(loop.carries, [init for _, init in inits], lanes)
            self.emit(loop.body)
            for carry in loop.carries:
                self.bind(carry.result, self._next(carry, lanes), lanes)
            return
        step = self.steps[loop.var] = _step(loop)
        limits = [self.access.uniform(limit * step) for limit in loop.limits]
        stop = str(loop.var.extent * step)
        for n, limit in enumerate(loop.limits):
            always_less = n == 0 and limit.bounds[1] <= loop.var.extent
            stop = limits[n] if always_less else w.imin(limits[n], stop)
        with w.loop("0", stop, step, inits) as handle:
            self.vars[loop.var] = handle.index
            self._begin(loop.carries, handle.carried, lanes)
            self.emit(loop.body)
            handle.next = [self._next(c, lanes) for c in loop.carries]
        for carry, text in zip(loop.carries, handle.results):
            self.bind(carry.result, text, lanes)

    def _begin(self, carries: Sequence[Carry], texts: Sequence[str], lanes: int) -> None:
        for carry, text in zip(carries, texts):
            self.bind(carry.phi, text, lanes)

    def _next(self, carry: Carry, lanes: int) -> str:
        assert carry.next is not None
        return self.get(carry.next, lanes)

    # -- lanes -------------------------------------------------------------------------------------

    def enter_lanes(self, var: Var, lanes: int, base: str = "0", mask: str | None = None) -> None:
        """Emit for `lanes` values of `var` from `base` on."""
        self.vector_var = var
        self.lanes = lanes
        self.mask = mask
        self.vars[var] = base
        self.access.forget_lanes()

    def leave_lanes(self) -> None:
        self.vector_var = None
        self.lanes = 1
        self.mask = None
        self.access.forget_lanes()

    def _lanes_loop(self, loop: Loop) -> None:
        lanes = loop.var.extent
        self.enter_lanes(loop.var, lanes)
        self.emit(loop.body)
        c = loop.combination
        values = [self.get(v, lanes) for v in c.values] if c is not None else []
        self.leave_lanes()
        if c is not None:
            self._combine_lanes(c, values, lanes)

    def _combine_lanes(self, c: Combination, values: list[str], lanes: int) -> None:
        w = self.w
        width = lanes
        while width > 1:
            half = width // 2
            low, high = [], []
            for value, text in zip(c.values, values):
                ty = vector(register_type(value.type), width)
                if half == 1:
                    low.append(w.extract(ty, text, 0))
                    high.append(w.extract(ty, text, 1))
                else:
                    low.append(w.shuffle(ty, text, "poison", list(range(half))))
                    high.append(w.shuffle(ty, text, "poison", list(range(half, width))))
            values = self._combine(c.combiner, low, high, half)
            width = half
        if c.inits:
            values = self._combine(c.combiner, [self.get(v) for v in c.inits], values, 1)
        for value, text in zip(c.results, values):
            self.bind(value, text)

    def _combine(
        self, combiner: Combiner, lhs: Sequence[str], rhs: Sequence[str], lanes: int
    ) -> list[str]:
        for value, text in zip([*combiner.lhs, *combiner.rhs], [*lhs, *rhs]):
            self.bind(value, text, lanes)
        self.emit(combiner.body)
        return [self.get(v, lanes) for v in combiner.results]

    def _if(self, s: If) -> None:
        w = self.w
        if not self.access.varies(s.index):
            condition, _ = self.access.in_range(s.index, s.low, s.high)
            lanes = self.lanes if s.carries else 1
            if not s.carries:
                with w.if_(condition):
                    self.emit(s.body)
                return
            types = [vector(register_type(c.phi.type), lanes) for c in s.carries]
            inits = [self.get(c.init, lanes) for c in s.carries]
            results = w.if_else(condition, types, partial(self._arm, s, inits), lambda: inits)
            for carry, text in zip(s.carries, results):
                self.bind(carry.result, text, lanes)
            return
        outer, lanes = self.mask, self.lanes
        mask = self.access.lanes_in_range(s.index, s.low, s.high)
        self.mask = mask if outer is None else w.op("and", vector("i1", lanes), mask, outer)
        inits = [self.get(c.init, lanes) for c in s.carries]
        nexts = self._arm(s, inits)
        for carry, before, after in zip(s.carries, inits, nexts):
            ty = vector(register_type(carry.phi.type), lanes)
            self.bind(carry.result, w.select(mask, ty, after, before), lanes)
        self.mask = outer

    def _arm(self, s: If, inits: Sequence[str]) -> list[str]:
        self._begin(s.carries, inits, self.lanes)
        self.emit(s.body)
        return [self._next(c, self.lanes) for c in s.carries]

    # -- registers ---------------------------------------------------------------------------------

    def _register(self, s: Load) -> tuple[Buffer, int]:
        return s.buffer, int(self.access.uniform(s.index))

    def _move(self, s: Move) -> None:
        assert s.target.role is BufferRole.REGISTERS, "only registers are filled by moves"
        place = int(self.access.uniform(s.target_index))
        self.registers[s.target, place] = self.access.raw_row(s)

    def _transpose(self, s: Transpose) -> None:
        w, size = self.w, s.size
        ty = vector(memory_type(s.source.element_type), size)
        rows = transpose(w, ty, [self.registers.pop((s.source, size * i)) for i in range(size)])
        for i, row in enumerate(rows):
            if s.target.role is BufferRole.REGISTERS:
                self.registers[s.target, size * i] = row
            else:
                w.store(ty, row, w.gep(ty, self.pointers[s.target], i))


def _step(loop: Loop) -> int:
    """The largest number that every use of a loop's variable is a multiple of: what the code
    counts in, so that it need not multiply."""
    step = 0
    for s in walk(loop.body):
        if isinstance(s, Load | Store | IndexValue | InRange | If | Move):
            step = _common(s.index, loop.var, step)
            if isinstance(s, Move):
                step = _common(s.target_index, loop.var, step)
        elif isinstance(s, Loop):
            for limit in s.limits:
                step = _common(limit, loop.var, step)
        if step == 1:
            break
    return step or 1


def _common(index: Index, var: Var, step: int) -> int:
    for atom, c in index.terms.items():
        if atom is var:
            step = gcd(step, c)
        elif isinstance(atom, FloorDiv | Mod):
            step = _common(atom.index, var, step)
    return step
