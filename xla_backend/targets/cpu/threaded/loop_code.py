"""Loops of kernels as threaded code: rounds in turn, some at once, apart, and in lanes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import NamedTuple

from xla_backend.codegen.indices import index_element, step_of
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.index import Var
from xla_backend.kernels.ir import (
    Buffer,
    Combination,
    Combiner,
    Loop,
    LoopKind,
    Statement,
    Value,
)
from xla_backend.llvm.extremes import is_quicker_as_integers
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.types import register_type, vector
from xla_backend.targets.cpu.routines.threaded_names import (
    element_bytes,
    lanes_at_once,
    value_bytes,
)
from xla_backend.targets.cpu.routines.threaded_operations import operation_name
from xla_backend.targets.cpu.threaded.assembler import Assembler, Frame, Label
from xla_backend.targets.cpu.threaded.carried import Copy, in_order, next_in_place
from xla_backend.targets.cpu.threaded.code import chunks
from xla_backend.targets.cpu.threaded.memory_code import MemoryCode
from xla_backend.targets.cpu.threaded.strips import (
    Fold,
    Interior,
    Needs,
    Update,
    folds_of,
    interior_of,
    loads_of_operands,
    needs_of,
    outside_values,
    rounds_at_once,
    rounds_inside,
    update_of,
)

# Rounds that are so many in all that it is worth to write the code of some at once, and of those
# that are left.
_MANY = 12_000
# Of rounds of single numbers.
_ALONE_AT_ONCE = 256
# What an update takes.
_UPDATE_CYCLES = 5.0


class _Strip(NamedTuple):
    """Some rounds of a loop that are run at once.

    Fields:
      rounds: how many.
      needs: of what they compute.
      first, last: the first round that may be one of some, and the first one behind these.
      interior: if each is a loop in lanes.
      folds: how all is put together that they carry.
      update: what they update, one after the other.
    """

    rounds: int
    needs: Needs
    first: int
    last: int
    interior: Interior | None = None
    folds: Sequence[Fold] = ()
    update: Update | None = None


class _Rounds(NamedTuple):
    """A loop that is being written: slots of what is carried, of what counts, in which steps, and
    of where it ends if that has limits."""

    loop: Loop
    phis: Sequence[int]
    counter: int
    step: int
    stop: int


class LoopCode(MemoryCode):
    """Code with loops.

    Attributes:
      times: how often it runs, for one after the other.
      operand_loads: what is loaded for one operation that can read it where it is.
      holding: conditions that hold here.
    """

    def __init__(
        self, asm: Assembler, frame: Frame, pointers: dict[Buffer, int], target: TargetInfo
    ) -> None:
        super().__init__(asm, frame, pointers, target)
        self.times = 1.0
        self.operand_loads: Collection[Value] = ()
        self.holding: Collection[Value] = ()
        self._places: dict[Value, int] = {}  # where values go that somebody has a place for

    @abstractmethod
    def statements(self, statements: Sequence[Statement]) -> None:
        """The code of statements."""

    def loop(self, loop: Loop) -> None:
        if loop.kind is LoopKind.LANES:
            self._lanes_loop(loop)
        elif loop.kind is LoopKind.UNROLLED:
            self._rounds_apart(loop)
        elif loop.kind is LoopKind.GRID:
            self.statements(loop.body)  # the code is that of one block
        elif loop.var.extent == 1 and not loop.limits:
            self._rounds_apart(loop)
        else:
            self._rounds(loop)

    def _rounds_apart(self, loop: Loop) -> None:
        """Rounds with code of their own, which hand on what they carry where it is."""
        lanes = self.lanes
        slots = [self.spread(c.init) for c in loop.carries]
        for i in range(loop.var.extent):
            self.var_numbers[loop.var] = i
            for c, slot in zip(loop.carries, slots):
                self.bind(c.phi, slot, lanes)
            self.statements(loop.body)
            slots = [self.spread(c.next) for c in loop.carries if c.next is not None]
        for c, slot in zip(loop.carries, slots):
            self.bind(c.result, slot, lanes)

    def _rounds(self, loop: Loop) -> None:
        lanes, carries, var = self.lanes, loop.carries, loop.var
        step = self.steps[var] = step_of(loop)
        counter = self.frame.slot()
        strip = self._strip(loop)
        self.emit("constant", counter, strip.first * step if strip is not None else 0)
        stop = self._stop(loop, step)
        phis = []
        begins = []
        for c in carries:
            place = self._places.get(c.result)
            size = value_bytes(c.phi.type, lanes)
            phi = self.frame.slot(size) if place is None else place
            phis.append(phi)
            begins.append((phi, self.spread(c.init), size))
        self.copy_all(begins)
        rounds = _Rounds(loop, phis, counter, step, stop)
        done = Label()
        if strip is not None:
            self._rounds_at_once(rounds, strip)
        left = var.extent if strip is None else var.extent - self._behind(strip)
        if left or loop.limits:
            self._rounds_in_turn(rounds, left, strip is not None, done)
        self.place(done)
        if strip is not None and strip.first:
            self._first_rounds(loop, strip.first)
        for c, phi in zip(carries, phis):
            self.is_set_here(phi)
            self.bind(c.result, phi, lanes)
            if c.next is not None:
                self._places.pop(c.next, None)

    def _first_rounds(self, loop: Loop, rounds: int) -> None:
        """Rounds in front of those that were run at once: being independent, they come behind."""
        del self.var_slots[loop.var]
        for i in range(rounds):
            self.var_numbers[loop.var] = i
            self._body(loop.body, ())

    def _rounds_in_turn(self, r: _Rounds, rounds: float, has_begun: bool, done: Label) -> None:
        """Round after round: of a loop that `has_begun` those that are left."""
        loop, lanes = r.loop, self.lanes
        carries, var = loop.carries, loop.var
        start = Label()
        self.begin_loop(rounds)
        if loop.limits:
            left = r.stop
            if has_begun:
                left = self.slot()
                self.emit("index2", left, 0, r.stop, 1, r.counter, -1)
            self.emit("jump_unless_positive", left, done)
        self._begin_rounds(r, start)
        for c, phi, in_place in zip(carries, r.phis, next_in_place(loop) if carries else ()):
            self.bind(c.phi, phi, lanes)
            if in_place and c.next is not None:
                self._places[c.next] = phi
        self._body(loop.body, [c.next for c in carries if c.next is not None])
        sizes = [value_bytes(c.phi.type, lanes) for c in carries]
        nexts = [self.spread(c.next) for c in carries if c.next is not None]
        self.copy_all(list(zip(r.phis, nexts, sizes)))
        if loop.limits:
            self.emit("count_to", r.counter, r.step, r.stop, start)
        else:
            self.emit("count", r.counter, r.step, var.extent * r.step, start)
        self.end()

    def _body(self, statements: Sequence[Statement], kept: Sequence[Value]) -> None:
        """The code of all statements of a loop, of which some values are kept."""
        outer = self.operand_loads
        if self.lanes > 1:
            self.operand_loads = loads_of_operands(statements, kept)
        self.statements(statements)
        self.operand_loads = outer

    def _begin_rounds(self, r: _Rounds, start: Label) -> None:
        """The beginning of each round, or of some."""
        self.place(start)
        self.is_set_here(r.counter)
        self.var_slots[r.loop.var] = r.counter
        for phi in r.phis:
            self.is_set_here(phi)

    def _stop(self, loop: Loop, step: int) -> int:
        """The slot of where a loop with limits ends that counts in multiples of `step`."""
        if not loop.limits:
            return 0
        slots = [self.uniform_slot(limit * step) for limit in loop.limits]
        stop = slots[0]
        for slot in slots[1:]:
            stop = self.pure("index_min", 8, (stop, slot), (stop, slot))
        if loop.limits[0].bounds[1] <= loop.var.extent:
            return stop
        return self.pure("index_min_number", 8, (stop, loop.var.extent * step), (stop,))

    def copy_all(self, copies: list[Copy]) -> None:
        """Copies as if all were done at the same time."""
        saved, done = in_order(copies)
        own = {target: self.slot(size) for target, _, size in saved}
        for target, source, size in [*saved, *done]:
            self.copy(own.get(target, target), own.get(source, source), size)

    def copy(self, target: int, source: int, size: int) -> None:
        """What is in a slot to another one."""
        if size <= 8:
            self.emit("copy_word", target, source)
        else:
            self.emit("copy", target, source, -(-size // 64), cycles=size / 32)

    # -- some rounds at once -----------------------------------------------------------------------

    def _strip(self, loop: Loop) -> _Strip | None:
        """Which rounds of a loop to run at once."""
        rounds = loop.var.extent
        runs = rounds * self.times * self._scopes[-1].weight
        if runs < _MANY and runs * rounds_inside(loop.body) < _MANY:
            return None
        if self.vector_var is not None:
            return self._strip_of_lanes(loop, self.vector_var)
        interior = interior_of(loop)
        if interior is not None:
            inner, first, last, _ = interior
            needs = needs_of(inner.body)
            at_once = rounds_at_once(needs.lane_bytes, inner.var.extent, last - first)
            return _Strip(at_once, needs, first, last, interior) if at_once > 1 else None
        update = update_of(loop) if rounds >= _ALONE_AT_ONCE else None
        if update is None:
            return None
        needs = needs_of(update.before, update.kept())
        return _Strip(_ALONE_AT_ONCE, needs, 0, rounds, None, (), update)

    def _strip_of_lanes(self, loop: Loop, var: Var) -> _Strip | None:
        """The same of a loop that is itself in lanes."""
        if self.mask is not None or self.lanes != var.extent:
            return None
        folds = folds_of(loop, var)
        if not folds:
            return None
        values = outside_values(loop.body) - {fold.phi for fold in folds}
        if any(self.is_vector(v) for v in values):
            return None
        own = [fold.statement for fold in folds]
        needs = needs_of([s for s in loop.body if s not in own], [fold.value for fold in folds])
        at_once = rounds_at_once(needs.lane_bytes, self.lanes, loop.var.extent)
        return _Strip(at_once, needs, 0, loop.var.extent, None, folds) if at_once > 1 else None

    def _behind(self, strip: _Strip) -> int:
        """The number of the first round that is not run with others, behind those that are."""
        return strip.first + (strip.last - strip.first) // strip.rounds * strip.rounds

    def _rounds_at_once(self, r: _Rounds, strip: _Strip) -> None:
        """As many rounds as can be run so many at once."""
        loop, at_once, step = r.loop, strip.rounds, r.step
        together = (strip.last - strip.first) // at_once
        start, others = Label(), Label()
        last = 0
        if loop.limits:
            # The last number from which so many rounds are left, and one.
            last = self.pure("index1", 8, ((1 - at_once) * step, r.stop, 1), (r.stop,))
        self.begin_loop(together)
        if loop.limits:
            self.emit("jump_unless_positive", last, others)
        self._begin_rounds(r, start)
        if strip.interior is not None:
            inner = strip.interior.inner
            self.statements([s for s in loop.body if s is not inner])
            self.holding = strip.interior.holding
            self._lanes_loop(inner, strip)
            self.holding = ()
        elif strip.update is not None:
            self._update(r, strip, strip.update)
        else:
            self._folded(r, strip)
        if loop.limits:
            self.emit("count_to", r.counter, at_once * step, last, start)
        else:
            self.emit("count", r.counter, at_once * step, self._behind(strip) * step, start)
        self.end()
        self.place(others)

    def _folded(self, r: _Rounds, strip: _Strip) -> None:
        """Some rounds of a loop in lanes, and what they carry."""
        lanes = self.lanes
        own = [fold.statement for fold in strip.folds]
        self.lanes = lanes * strip.rounds
        self._thrifty([s for s in r.loop.body if s not in own], strip.needs)
        self.lanes = lanes
        for fold, phi in zip(strip.folds, r.phis):
            self._fold(fold, phi, lanes, strip.rounds)

    def _thrifty(self, statements: Sequence[Statement], needs: Needs) -> None:
        """The code of statements, in which slots of what nobody needs any more are taken again."""
        outer, self.operand_loads = self.operand_loads, needs.operand_loads
        self.reuse_slots(True)
        for s, last in zip(statements, needs.last):
            self.statements([s])
            for value in last:
                self.release(value)
        self.reuse_slots(False)
        self.operand_loads = outer

    def _fold(self, fold: Fold, phi: int, lanes: int, at_once: int) -> None:
        """Combine what some rounds have computed with what is carried, in their order."""
        s = fold.statement
        type, value = fold.phi.type, self.spread(fold.value, lanes * at_once)
        count = chunks(lanes, lanes_at_once(type))
        size = element_bytes(type) * lanes or lanes // 8
        name = operation_name(s) + ".n"
        for n in range(at_once):
            operands = [phi if o is fold.phi else value + n * size for o in s.operands]
            self.emit(name, phi, *operands, count, cycles=s.opcode.cycles * count)

    def _update(self, r: _Rounds, strip: _Strip, update: Update) -> None:
        """What some rounds compute of single numbers, in lanes, and what they update with it."""
        store, lanes = update.store, strip.rounds
        self.lanes, self.vector_var = lanes, r.loop.var
        self.forget_lanes()
        self.count_in_lanes(True)
        self._thrifty(update.before, strip.needs)
        element = index_element(store.index)
        words: tuple[int, ...] = (
            self.pointers[store.buffer],
            self.lanes_of_index(store.index, element),
            self.spread(update.value),
            lanes,
        )
        name = f"update.{update.opcode.value}.{update.value.type.value}.{element}"
        if store.guard is not None:
            name, words = f"{name}.masked", (*words, self.spread(store.guard))
        self.emit(name, *words, cycles=_UPDATE_CYCLES * lanes)
        self.count_in_lanes(False)
        self.lanes, self.vector_var = 1, None
        self.forget_lanes()

    # -- lanes -------------------------------------------------------------------------------------

    def _lanes_loop(self, loop: Loop, strip: _Strip | None = None) -> None:
        """A loop in lanes, of some rounds of the one around it at once."""
        lanes = self.lanes = loop.var.extent * (1 if strip is None else strip.rounds)
        self.vector_var = loop.var
        self.var_numbers[loop.var] = 0
        self.forget_lanes()
        self.count_in_lanes(True)
        c = loop.combination
        if strip is None:
            kept = [v.next for v in loop.carries if v.next is not None]
            self._body(loop.body, [*kept, *(c.values if c is not None else ())])
        else:
            self._thrifty(loop.body, strip.needs)
        self.count_in_lanes(False)
        slots = [self.spread(v) for v in c.values] if c is not None else []
        self.vector_var = None
        self.lanes = 1
        self.forget_lanes()
        if c is not None:
            self._combine_lanes(c, slots, lanes)

    def _combine_lanes(self, c: Combination, slots: list[int], lanes: int) -> None:
        types = [value.type for value in c.values]
        extreme = c.extreme
        width = lanes
        while width > 1:
            if extreme is not None and self._has_extreme_of_lanes(types[0], width):
                name = f"lanes_{extreme.value}.{types[0].value}.{width}"
                result = self.slot()
                self.emit(name, result, slots[0], cycles=20)
                slots = [result]
                break
            half = width // 2
            low = [self._part(t, slot, 0, half) for t, slot in zip(types, slots)]
            high = [self._part(t, slot, half, half) for t, slot in zip(types, slots)]
            slots = self._combine(c.combiner, low, high, half)
            width = half
        if c.inits:
            slots = self._combine(c.combiner, [self.env[v] for v in c.inits], slots, 1)
        for value, slot in zip(c.results, slots):
            self.bind(value, slot)

    def _has_extreme_of_lanes(self, type: P, width: int) -> bool:
        """Whether the extreme of so many lanes is one instruction, as it is in optimised code."""
        ty = vector(register_type(type), width)
        return type in (P.F32, P.F64) and is_quicker_as_integers(self.target, ty)

    def _part(self, type: P, slot: int, first: int, count: int) -> int:
        """The slot of some lanes of a vector."""
        size = element_bytes(type)
        if size:
            part = slot + size * first
            self.is_set_here(part)
            return part
        if count == 1:
            return self.pure("mask_bit", 8, (slot, first), (slot,))
        return self.pure("mask_part", 8, (slot, first), (slot,)) if first else slot

    def _combine(
        self, combiner: Combiner, lhs: Sequence[int], rhs: Sequence[int], lanes: int
    ) -> list[int]:
        for value, slot in zip([*combiner.lhs, *combiner.rhs], [*lhs, *rhs]):
            self.bind(value, slot, lanes)
        self.statements(combiner.body)
        return [self.spread(v, lanes) for v in combiner.results]
