"""Scheduled kernel IR to LLVM text on CPUs: values in lanes. Memory access is in access.py.

In a lanes loop of extent W, values that depend on its variable are `<W x T>`, others stay scalar; a
condition on the lane is a mask.
"""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.codegen.emitter import AbstractKernelEmitter
from xla_backend.codegen.indices import step_of
from xla_backend.kernels.index import Var
from xla_backend.kernels.ir import (
    Buffer,
    BufferRole,
    Carry,
    Combination,
    Combiner,
    Compute,
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
)
from xla_backend.llvm.extremes import extreme_of_lanes, is_quicker_as_integers
from xla_backend.llvm.transposes import transpose
from xla_backend.llvm.types import memory_type, register_type, vector
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.cpu.access import Access
from xla_backend.targets.cpu.guarded_tails import GuardedTail, guarded_tail
from xla_backend.targets.cpu.lane_loads import near_others
from xla_backend.targets.cpu.paired_gathers import next_ones
from xla_backend.targets.cpu.short_row_reads import (
    columns,
    lanes_that_fit,
    row_reads,
    whole_row_loads,
)
from xla_backend.targets.cpu.sliding_reads import Window, jump, windows


class KernelEmitter(AbstractKernelEmitter):
    """Emits statements into one function. `pointers`: the address of each buffer."""

    def __init__(self, w: FunctionWriter, pointers: dict[Buffer, str]) -> None:
        super().__init__(w, pointers)
        self.lanes_of: dict[Value, int] = {}  # values in lanes; others are scalar
        self.mask: str | None = None  # lanes in use; None: all
        self.whole: str | None = None  # whether the mask holds for all lanes, if that is known
        self.streaming: Loop | None = None  # the innermost loop of vectors, if it carries values
        self.preloaded: dict[Load, str] = {}  # loads that the caller has done already
        self.registers: dict[tuple[Buffer, int], str] = {}
        self.neighbours: dict[Load, Load] = {}  # loads, and those that read what is next to it
        self.beside: dict[Load, str] = {}  # what was read with the load before
        self.near: set[Load] = set()  # loads whose lanes read near what others read

    @property
    def access(self) -> Access:
        """Made anew each time: kept, it and the emitter would hold each other."""
        return Access(self)

    # -- values ------------------------------------------------------------------------------------

    def bind(self, value: Value, text: str, lanes: int = 1) -> None:
        self.env[value] = text
        if lanes > 1:
            self.lanes_of[value] = lanes
        else:
            self.lanes_of.pop(value, None)

    def rename(self, value: Value, known: Value) -> None:
        self.bind(value, self.env[known], self.lanes_of.get(known, 1))

    def is_vector(self, value: Value) -> bool:
        return value in self.lanes_of

    def scalar(self, value: Value) -> str:
        return self.env[value]

    def get(self, value: Value, lanes: int = 1) -> str:
        """The text of a value, spread over `lanes` if it is scalar."""
        text = self.env[value]
        if lanes > 1 and value not in self.lanes_of:
            return self.w.splat(vector(register_type(value.type), lanes), text)
        return text

    def carried_types(self, carries: Sequence[Carry]) -> list[str]:
        return [vector(register_type(c.phi.type), self.lanes) for c in carries]

    def texts(self, values: Sequence[Value]) -> list[str]:
        return [self.get(v, self.lanes) for v in values]

    def bind_texts(self, values: Sequence[Value], texts: Sequence[str]) -> None:
        for value, text in zip(values, texts):
            self.bind(value, text, self.lanes)

    # -- statements --------------------------------------------------------------------------------

    def emit(self, statements: Sequence[Statement]) -> None:
        if self.vector_var is not None:
            self.neighbours |= next_ones(statements)
            if self.w.target.gathers_slowly:
                self.near |= near_others(statements)
        super().emit(statements)

    def compute(self, s: Compute) -> None:
        lanes = max([self.lanes_of.get(o, 1) for o in s.operands])
        operands = [self.get(o, lanes) for o in s.operands]
        self.bind(s.result, self.operation(s, operands, lanes), lanes)

    def load(self, s: Load) -> None:
        if s in self.preloaded:
            self.access.bind_loaded(s, self.preloaded[s], self.lanes)
        elif s in self.beside:
            self.access.bind_loaded(s, self.beside.pop(s), self.lanes)
        elif s.buffer.role is BufferRole.REGISTERS:
            self.access.bind_loaded(s, self.registers[self._register(s)], self.lanes)
        else:
            self.access.load(s)

    def store(self, s: Store) -> None:
        self.access.store(s)

    def index_value(self, s: IndexValue) -> None:
        text, ty, lanes = self.access.index(s.index)
        self.bind(s.result, self.converted_index(s.result.type, ty, text, lanes), lanes)

    def in_range(self, s: InRange) -> None:
        self.bind(s.result, *self.access.in_range(s.index, s.low, s.high))

    def other(self, s: Statement) -> None:
        if isinstance(s, Move):
            self._move(s)
        elif isinstance(s, Transpose):
            self._transpose(s)
        else:
            raise AssertionError(f"statement {s!r} has no emitter")

    def parallel_loop(self, loop: Loop) -> None:
        if loop.kind is LoopKind.GRID:
            self.emit(loop.body)  # the function is that of one block
        else:
            self.serial_loop(loop)

    # -- lanes -------------------------------------------------------------------------------------

    def enter_lanes(self, var: Var, lanes: int, base: str = "0", mask: str | None = None) -> None:
        """Emit for `lanes` values of `var` from `base` on."""
        self.vector_var = var
        self.lanes = lanes
        self.mask = mask
        self.vars[var] = base
        self.forget_lanes()

    def leave_lanes(self) -> None:
        self.vector_var = None
        self.lanes = 1
        self.mask = self.whole = None
        self.forget_lanes()

    def lanes_loop(self, loop: Loop) -> None:
        lanes = loop.var.extent
        self.enter_lanes(loop.var, lanes)
        outer = self.preloaded
        self.preloaded = {**outer, **self._whole_rows(loop)}
        self.emit(loop.body)
        self.preloaded = outer
        c = loop.combination
        values = [self.get(v, lanes) for v in c.values] if c is not None else []
        self.leave_lanes()
        if c is not None:
            self._combine_lanes(c, values, lanes)

    def serial_loop(self, loop: Loop) -> None:
        """Whole rows that are shorter than a vector are read at once, where all lanes have one, and
        what one round of vectors has in common with the next is carried."""
        sliding = windows(loop, self.w.target) if self.vector_var is None else []
        if sliding:
            self._sliding_rounds(loop, sliding)
            return
        reads = [] if self.vector_var is None else row_reads(loop, self.vector_var)
        some_lanes = self.mask is not None and self.whole is None
        if not reads or some_lanes or self.lanes > lanes_that_fit(loop, reads, self.w.target):
            self._rounds(loop)
            return
        results = [c.result for c in loop.carries]
        if self.whole is None:
            self.bind_texts(results, self._by_columns(loop, reads))
            return

        def some() -> list[str]:
            self._rounds(loop)
            return self.texts(results)

        def every() -> list[str]:
            outer = self.mask, self.whole
            self.mask = self.whole = None
            texts = self._by_columns(loop, reads)
            self.mask, self.whole = outer
            return texts

        types = self.carried_types(loop.carries)
        self.bind_texts(results, self.w.if_else(self.whole, types, every, some, likely=True))

    def _rounds(self, loop: Loop) -> None:
        before = self.streaming
        # What sums and extremes read next is known, and no stores fill their time.
        self.streaming = loop if self.vector_var is not None and loop.carries else None
        super().serial_loop(loop)
        self.streaming = before

    def _sliding_rounds(self, loop: Loop, sliding: list[Window]) -> None:
        """Rounds of vectors of which each carries to the next what that has in common with it."""
        w, var = self.w, loop.var
        (inner,) = (s for s in loop.body if isinstance(s, Loop))
        lanes = inner.var.extent
        types = [vector(memory_type(window.last.result.type), lanes) for window in sliding]

        def starts() -> list[str]:
            places = [self.access.first_lane(window.first) for window in sliding]
            return [x.start(w, ty, at, lanes) for x, ty, at in zip(sliding, types, places)]

        self.vars[var] = "0"
        inits = starts()
        jumps, outer = jump(sliding, var), self.preloaded
        step = self.steps[var] = step_of(loop)
        with w.loop("0", self._stop(loop, step), step, list(zip(types, inits))) as handle:
            self.vars[var], before = handle.index, handle.carried
            if jumps is not None:
                anew = w.cmp("ne", w.index, self.uniform(jumps), "0")
                before = w.if_else(anew, types, starts, lambda: handle.carried)
            self.preloaded = {**outer}
            for window, ty, last in zip(sliding, types, before):
                ahead = w.load(ty, self.access.first_lane(window.last))
                handle.next.append(ahead)
                self.preloaded |= window.loaded(w, ty, last, ahead, lanes)
            self.emit(loop.body)
        self.preloaded = outer

    def _round(
        self, carries: Sequence[Carry], texts: Sequence[str], body: Sequence[Statement]
    ) -> list[str]:
        """Where a body ends with a store under a guard, as that of a scatter does, what only the
        store needs is behind the jump, too."""
        tail = self.guarded_tail(body) if self.vector_var is None and not carries else None
        if tail is None:
            return super()._round(carries, texts, body)
        self.emit(body[: tail.start])
        condition = self.get(tail.guard)
        with self.w.if_(condition, likely=True):
            self.bind(tail.guard, "true")
            self.emit(body[tail.start :])
        self.bind(tail.guard, condition)
        return []

    def guarded_tail(self, body: Sequence[Statement]) -> GuardedTail | None:
        """What a jump may skip at the end of a body."""
        return guarded_tail(body)

    def _whole_rows(self, loop: Loop) -> dict[Load, str]:
        """What the loads of a loop in lanes get that read whole rows together."""
        read: dict[Load, str] = {}
        body = self.in_memory(loop.body)
        for row in whole_row_loads(body, loop.var, self.lanes, self.w.target):
            first, length = row[0][0], max(row) + 1
            registers = columns(self.w, first, self.access.first_lane(first), self.lanes, length)
            read |= {s: registers[place] for place, loads in row.items() for s in loads}
        return read

    def in_memory(self, body: list[Statement]) -> list[Statement]:
        """A body without loads of what is in registers."""
        return body

    def _by_columns(self, loop: Loop, reads: list[Load]) -> list[str]:
        """The rounds of a loop one after another, with what they read in registers; what it
        carries in the end."""
        w, length = self.w, loop.var.extent
        self.steps.pop(loop.var, None)
        self.vars[loop.var] = "0"
        read = {s: columns(w, s, self.access.first_lane(s), self.lanes, length) for s in reads}
        texts = self.texts([c.init for c in loop.carries])
        outer = self.preloaded
        for i in range(length):
            self.vars[loop.var] = str(i)
            self.preloaded = {**outer, **{s: registers[i] for s, registers in read.items()}}
            texts = self._round(loop.carries, texts, loop.body)
        self.preloaded = outer
        return texts

    def _combine_lanes(self, c: Combination, values: list[str], lanes: int) -> None:
        w = self.w
        width = lanes
        extreme = c.extreme
        while width > 1:
            if extreme is not None:
                ty = vector(register_type(c.values[0].type), width)
                if is_quicker_as_integers(w.target, ty):
                    values = [extreme_of_lanes(w, ty, values[0], extreme.value)]
                    break
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

    def if_in_lanes(self, s: If) -> None:
        outer, whole, lanes = self.mask, self.whole, self.lanes
        self.whole = None
        mask = self.access.lanes_in_range(s.index, s.low, s.high)
        self.mask = mask if outer is None else self.w.op("and", vector("i1", lanes), mask, outer)
        inits = self.texts([c.init for c in s.carries])
        for carry, before, after in zip(s.carries, inits, self.arm(s, inits)):
            ty = vector(register_type(carry.phi.type), lanes)
            self.bind(carry.result, self.w.select(mask, ty, after, before), lanes)
        self.mask, self.whole = outer, whole

    # -- registers ---------------------------------------------------------------------------------

    def _register(self, s: Load) -> tuple[Buffer, int]:
        return s.buffer, int(self.uniform(s.index))

    def _move(self, s: Move) -> None:
        assert s.target.role is BufferRole.REGISTERS, "only registers are filled by moves"
        place = int(self.uniform(s.target_index))
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
