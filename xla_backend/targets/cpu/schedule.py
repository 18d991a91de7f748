"""Schedules kernels for a CPU: which loop runs in vector lanes, how many, what goes through square
tiles, and which loop is split over threads. Before that, loops are split where conditions change
(`peeling`) and brought together where something is transposed (`interchange`).

A rough cost (in cycles) compares the choices; steps of `kernels.schedule` carry them out.
Everything depends on shapes only, never on the number of threads, so results do not either. The one
exception are blocks for threads: they go by what a kernel takes as measured, where that is known.
Only iterations that are independent of each other are put into blocks, in whole vectors and tiles:
each element is computed by the same instructions in any block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from xla_backend.kernels.index import QUOTIENTS, Index, Parameter, Var
from xla_backend.kernels.ir import (
    ACCESSES,
    INDEXED,
    Buffer,
    BufferRole,
    Compute,
    Constant,
    IndexValue,
    InRange,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    Value,
    walk,
)
from xla_backend.kernels.lane_patterns import lane_offsets, pieces_of, turns_of
from xla_backend.kernels.schedule.blocks import bind_to_grid
from xla_backend.kernels.schedule.components import join_components
from xla_backend.kernels.schedule.interchange import interchange
from xla_backend.kernels.schedule.interleaving import interleave
from xla_backend.kernels.schedule.lanes import overlap, overlapping, vectorise
from xla_backend.kernels.schedule.moved_bits import move_bits
from xla_backend.kernels.schedule.peeling import cut, peel
from xla_backend.kernels.schedule.splitting import divide, replace
from xla_backend.kernels.schedule.tiles import tile, transposed_loads
from xla_backend.kernels.schedule.turns import vectorise_in_turns
from xla_backend.llvm.target import TargetInfo
from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.targets.cpu.code_interface import CYCLES_PER_MICROSECOND
from xla_backend.targets.cpu.lane_loads import goes_one_by_one
from xla_backend.targets.cpu.long_columns import GROUP_ROWS, reduce_long_columns
from xla_backend.targets.cpu.row_values import compute_rows_ahead
from xla_backend.targets.cpu.short_row_reads import row_length, row_reads, shuffles
from xla_backend.targets.cpu.short_rows import join_short_rows

_PARALLEL_MICROSECONDS = 25.0
_BLOCK_MICROSECONDS = 10.0
_MAX_BLOCKS = 64
_HORIZONTAL_CYCLES = 20.0
# Of a load that waits for a store.
_WAITING_CYCLES = 20.0
_GATHER_CYCLES_PER_LANE = 1.2
# As measured with AVX-512, where a row for each lane took four times as long as one row at a time.
_SCATTER_CYCLES_PER_LANE = 5.0
_CACHE_BYTES = 1 << 20
_CACHE_BYTES_PER_CYCLE = 32.0
_MEMORY_BYTES_PER_CYCLE = 8.0
_TILE_BITS = 512
_MAX_TILE = 32
_MAX_TILED_LOADS = 4
# Blocks of tiles are of so many bytes in either direction.
_BLOCK_BYTES = 512
# Bodies of more work, and taller tiles, run in a loop over the rows of a tile.
_MAX_UNROLLED_WORK = 12
_MAX_UNROLLED_ROWS = 16
# Bodies heavier than this are there once, always masked, instead of once plain and once masked.
_SINGLE_COPY_WEIGHT = 40
# Where the last vector may begin earlier, what is run twice is at most such a part of all: what it
# reads may be in memory.
_LEAST_PARTS = 8
# The same where the extent is known at run time only, of bodies that do so much for each access:
# the copy is then for any number of lanes.
_SINGLE_COPY_WEIGHT_OF_ANY_EXTENT = 12
_SINGLE_COPY_WEIGHT_BY_ACCESS = 6
# Sums down columns: of one operation, where there are 32 registers, in half of them.
_LIGHT_SUM = 4
_LANES_OF_MANY_REGISTERS = 16
_REGISTERS_OF_COLUMNS = 16
# What neighbouring lanes read so far apart is taken from whole vectors.
_FEW_PLACES = 16
# Patterns that come back after several vectors have code for each, of so much work at most.
_MOST_TURNS = 16
_MOST_WORK_IN_TURNS = 400
# Loops with range checks are cut into at most this many pieces.
_MAX_SEGMENTS = 4
_WITH_RESULTS = (Load, Compute)
_OF_AN_INDEX = (IndexValue, InRange)
_TILED_STATEMENTS = (Compute, Constant, IndexValue, InRange, Load, Store)


@dataclass(slots=True)
class _Choice:
    """What is to become of the loops of a stage."""

    lanes: dict[Loop, int] = field(default_factory=dict)
    tiles: dict[Loop, int] = field(default_factory=dict)  # by the outer loop of the two
    turns: dict[Loop, int] = field(default_factory=dict)  # vectors until their patterns come back
    units: dict[Loop, int] = field(default_factory=dict)  # iterations that stay together


def depends_on(index: Index, var: Var, varying: set[Value]) -> bool:
    for atom in index.terms:
        if atom is var or _atom_depends(atom, var, varying):
            return True
    return False


def _is_regular(index: Index, var: Var, varying: set[Value]) -> bool:
    """Whether neighbouring lanes have the same distance everywhere."""
    for atom in index.terms:
        if atom is not var and _atom_depends(atom, var, varying):
            return False
    return True


def _atom_depends(atom: object, var: Var, varying: set[Value]) -> bool:
    if isinstance(atom, QUOTIENTS):
        return depends_on(atom.index, var, varying)
    return atom is var or atom in varying


class _Cost:
    """Cost of statements, with at most one loop variable in vector lanes."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.turns = 1
        self.turns_of: dict[Loop, int] = {}  # of loops that may run in lanes
        self.choice: dict[Loop, bool] = {}

    def _scalar(self, statements: list[Statement]) -> float:
        """The cost of statements without lanes outside of the loops among them."""
        total = 0.0
        for s in statements:
            if isinstance(s, Compute):
                total += s.opcode.cycles
            elif isinstance(s, Loop):
                total += self.loop(s)
            elif isinstance(s, Store):
                total += len(s.values)
            elif not isinstance(s, Constant):
                total += 1.0
        return total

    def _vector(self, statements: list[Statement], var: Var, varying: set[Value]) -> float:
        """The cost of statements with the values of `var` in lanes, among them those of `varying`
        and what is computed of them, which becomes known here."""
        total = 0.0
        for s in statements:
            if isinstance(s, Compute):
                if not varying.isdisjoint(s.operands):
                    varying.add(s.result)
                total += s.opcode.cycles
            elif isinstance(s, Load):
                if depends_on(s.index, var, varying):
                    varying.add(s.result)
                    total += self._access(s.index, var, varying)
                else:
                    if s.guard is not None and s.guard in varying:
                        varying.add(s.result)
                    total += 0.5
            elif isinstance(s, Store):
                total += len(s.values) * self._store(s, var, varying)
            elif isinstance(s, Loop):
                for carry in s.carries:
                    varying.add(carry.phi)
                    varying.add(carry.result)
                total += s.var.extent * self._vector(s.body, var, varying) + 2
            elif not isinstance(s, Constant):
                if isinstance(s, _OF_AN_INDEX) and depends_on(s.index, var, varying):
                    varying.add(s.result)
                total += 1.0
        return total

    def _store(self, s: Store, var: Var, varying: set[Value]) -> float:
        """What it takes to store each of the values."""
        count, coefficient = len(s.values), s.index.coefficient(var)
        if _is_regular(s.index, var, varying):
            if coefficient in (0, 1, -1):
                return 1.0
            if coefficient == count:
                return 1.0 + 0.5 * (count - 1)
        return self.lanes * _SCATTER_CYCLES_PER_LANE

    def _access(self, index: Index, var: Var, varying: set[Value]) -> float:
        coefficient = index.coefficient(var)
        if _is_regular(index, var, varying) and coefficient in (0, 1, -1):
            return 1.0
        count = shuffles(row_length(index, var), self.lanes)
        if count:
            return 1.0 + count
        costs = [self._turn(index, var, varying, turn) for turn in range(self.turns)]
        return sum(costs) / self.turns

    def _turn(self, index: Index, var: Var, varying: set[Value], turn: int) -> float:
        """What a load takes: of pieces, where its lanes are a pattern."""
        depends = lambda atom: _atom_depends(atom, var, varying)
        offsets = lane_offsets(index, var, self.lanes, depends, (turn, self.turns))
        pieces = None if offsets is None else pieces_of(offsets)
        if pieces is None:
            return self.lanes * _GATHER_CYCLES_PER_LANE
        return 1.0 + 1.5 * len(pieces.starts)

    def loop(self, s: Loop) -> float:
        """The cost of a loop with the best of its loops in lanes."""
        extent = s.var.extent
        scalar = extent * self._scalar(s.body) + 2
        if not _vectorizable(s):
            return scalar
        inside: set[Value] = {c.phi for c in s.carries}
        trips = math.ceil(extent / self.lanes)
        self.turns = self.turns_of[s] = _turns(s, self.lanes)
        vector = trips * self._vector(s.body, s.var, inside)
        if s.carries:
            vector += _HORIZONTAL_CYCLES
        elif extent < self.lanes and _may_be_in_place(s):
            vector += _WAITING_CYCLES
        self.choice[s] = vector < scalar
        return min(vector, scalar)


def _may_be_in_place(loop: Loop) -> bool:
    """Whether a loop reads elements as large as those that it writes there: if both are the same
    memory, the vector of a row covers what was just stored of the row before under a mask, which
    processors do not forward."""
    stored = {(s.index, s.buffer.element_type.byte_size) for s in loop.body if isinstance(s, Store)}
    return any(
        isinstance(s, Load) and (s.index, s.buffer.element_type.byte_size) in stored
        for s in loop.body
    )


def _turns(loop: Loop, lanes: int) -> int:
    """How many vectors of a loop have code of their own, after which what they read is in the same
    pattern again; 1 where that would be too much code."""
    if loop.carries:
        return 1
    indices: list[Index] = []
    for s in loop.body:
        if isinstance(s, INDEXED):
            indices.append(s.index)
        elif isinstance(s, Loop):
            return 1
    turns = turns_of(indices, loop.var, lanes)
    if turns == 1:
        return 1
    work = turns * (_work(loop) + len(loop.body))
    fits = turns <= _MOST_TURNS and work <= _MOST_WORK_IN_TURNS
    return turns if fits and loop.var.extent >= 2 * turns * lanes else 1


def _vectorizable(s: Loop) -> bool:
    if not s.may_vectorize or s.var.extent < 2:
        return False
    return not s.carries or s.combiner is not None


class Scheduled(NamedTuple):
    """What a kernel costs, and what that decided.

    Fields:
      cycles: of one run on one thread, as measured, or else as estimated.
      estimated: cycles as the shapes tell.
      blocks, estimated_blocks: the most that one of its loops is cut into for threads, 1 for none,
        and the same by the estimate.
    """

    cycles: float
    estimated: float
    blocks: int
    estimated_blocks: int


class _Nest(NamedTuple):
    """A loop nest of a kernel, with what the cost model says of it."""

    stage: Loop
    lanes: int
    cost: _Cost
    cycles: float

    @classmethod
    def of(cls, stage: Loop, target: TargetInfo) -> _Nest:
        every = walk(stage.body)
        lanes = target.lanes(_widest(every))
        cost = _Cost(lanes)
        return cls(stage, lanes, cost, max(cost.loop(stage), _memory_cycles(stage, every)))


def schedule(
    kernel: Kernel,
    target: TargetInfo,
    *,
    threads: bool = True,
    microseconds: float | None = None,
    on_step: Callable[[str, Kernel], None] | None = None,
) -> Scheduled:
    """Schedule all stages of `kernel`, for several `threads` or for one; `microseconds`: that a run
    on one thread took, if somebody knows. `on_step` is called with the name of each step that was
    taken and the kernel."""
    done = on_step or _nothing
    lanes_of = lambda stage: target.lanes(_widest(walk(stage.body)))
    cost = lambda stage: _Cost(lanes_of(stage)).loop(stage)
    if move_bits(kernel):
        done("move_bits", kernel)
    if peel(kernel):
        done("peel", kernel)
    if interleave(kernel):
        done("interleave", kernel)
    if join_components(kernel):
        done("join_components", kernel)
    if interchange(kernel):
        done("interchange", kernel)
    if reduce_long_columns(kernel):
        done("reduce_long_columns", kernel)
    if compute_rows_ahead(kernel, lanes_of, cost):
        done("compute_rows_ahead", kernel)
    if join_short_rows(kernel, lanes_of, cost):
        done("join_short_rows", kernel)
    constants = {s.result: s for s in kernel.stages if isinstance(s, Constant)}
    nests = [_Nest.of(stage, target) for stage in kernel.stages if isinstance(stage, Loop)]
    estimated = sum(nest.cycles for nest in nests)
    cycles = estimated if microseconds is None else microseconds * CYCLES_PER_MICROSECOND
    # What was measured is the whole kernel: its nests have their shares as estimated.
    correction = cycles / estimated if estimated else 1.0
    most = most_estimated = 1
    for nest in nests:
        stage = nest.stage
        choice = _Choice()
        _choose_vectors(stage, nest.cost, choice, target)
        _choose_tiles(stage, choice)
        if threads:
            blocks = estimated_blocks = _blocks(stage, nest.cycles, choice)
            if correction != 1.0:
                blocks = _blocks(stage, nest.cycles * correction, choice)
            most_estimated = max(most_estimated, _count(estimated_blocks))
            most = max(most, _count(blocks))
            if blocks is not None:
                bind_to_grid(kernel, *blocks)
                done("bind_to_grid", kernel)
        for loop, size in choice.tiles.items():
            _run_in_tiles(kernel, loop, size)
            done("tile", kernel)
            done("tile", kernel)
            done("tile", kernel)
        for loop, width in choice.lanes.items():
            if choice.turns[loop] > 1:
                vectorise_in_turns(kernel, loop, width, choice.turns[loop])
            else:
                _run_in_lanes(kernel, loop, width, constants, target)
            done("vectorise", kernel)
    return Scheduled(cycles, estimated, most, most_estimated)


def _nothing(step: str, kernel: Kernel) -> None:
    pass


def _run_in_tiles(kernel: Kernel, loop: Loop, size: int) -> None:
    (inner,) = (s for s in loop.body if isinstance(s, Loop))
    largest = max(s.buffer.element_type.byte_size for s in transposed_loads(loop, inner))
    block = max(1, _BLOCK_BYTES // (largest * size)) * size
    unrolled = _work(inner) <= _MAX_UNROLLED_WORK and size <= _MAX_UNROLLED_ROWS
    tile(kernel, loop, size, block, unrolled=unrolled)


def _run_in_lanes(
    kernel: Kernel,
    loop: Loop,
    width: int,
    constants: dict[Value, Constant],
    target: TargetInfo,
) -> None:
    """Whole vectors and a rest. A heavy body is there once only: the last vector begins earlier
    where that is the same, or all are masked, unless that would test lane by lane in each round.
    Where a range check comes out the same for many vectors, these have code of their own."""
    work, heavy = _work(loop), _is_heavy(loop)
    # A second copy of the body may cost more than the start of each vector costs that is no
    # multiple.
    if heavy or work > _SINGLE_COPY_WEIGHT_OF_ANY_EXTENT:
        again = overlap(loop, width)
        if again is not None and again * _LEAST_PARTS <= loop.var.extent:
            overlapping(kernel, loop, width)
            return
    if heavy or (_is_of_any_extent(loop) and _mostly_computes(loop)):
        division = divide(loop, width)
        if division.rest and division.groups and _masks_are_instructions(loop, target):
            vectorise(kernel, loop, width, masked=True)
            return
    pieces = [loop]
    places = [] if loop.carries or loop.limits else _segments(loop, width)
    if places:
        pieces = cut(loop, places, constants)
        replace(kernel, loop, [*pieces])
    for piece in pieces:
        vectorise(kernel, piece, width)


def _segments(loop: Loop, lanes: int) -> list[int]:
    """Where to cut a loop so that stretches of whole vectors have their range checks decided; empty
    if that would be too much code."""
    whole = loop.var.extent // lanes * lanes
    places: set[int] = set()
    for s in loop.body:
        if isinstance(s, InRange) and s.index.terms == {loop.var: 1}:
            for edge in (s.low - s.index.constant, s.high - s.index.constant):
                below, above = edge // lanes * lanes, -(-edge // lanes) * lanes
                places.update(c for c in (below, above) if 0 < c < whole)
    if len(places) >= _MAX_SEGMENTS or (places and _is_heavy(loop)):
        return []
    return sorted(places)


def _work(loop: Loop) -> float:
    work = 0
    for s in loop.body:
        if isinstance(s, Compute):
            work += s.opcode.cycles
    return work


def _masks_are_instructions(loop: Loop, target: TargetInfo) -> bool:
    """Whether masked loads and stores of the loop's arrays are not a branch per lane."""
    accesses = [s for s in walk(loop.body) if isinstance(s, ACCESSES)]
    return all(target.has_masked_moves(8 * s.buffer.element_type.byte_size) for s in accesses)


def _is_heavy(loop: Loop) -> bool:
    """Whether the body is too much code to be there twice."""
    return _work(loop) > _SINGLE_COPY_WEIGHT or any(isinstance(s, Loop) for s in loop.body)


def _is_of_any_extent(loop: Loop) -> bool:
    """Whether the size of an array that is known at run time only ends the loop."""
    return any(isinstance(atom, Parameter) for limit in loop.limits for atom in limit.terms)


def _mostly_computes(loop: Loop) -> bool:
    accesses = sum(isinstance(s, ACCESSES) for s in loop.body)
    work = _work(loop)
    enough = work > _SINGLE_COPY_WEIGHT_OF_ANY_EXTENT
    return enough and work >= _SINGLE_COPY_WEIGHT_BY_ACCESS * accesses


def cycles_in_lanes(stage: Loop, lanes: int) -> float:
    """Rough cycles of a nest with the best of its loops in vector lanes; sets no marks."""
    return _Cost(lanes).loop(stage)


def _memory_cycles(stage: Loop, inside: Sequence[Statement]) -> float:
    """What moving the arrays takes at least; parts that are read once may come from far away.
    `inside`: all statements of the stage."""
    touched: dict[Buffer, int] = {}
    for s in inside:
        if isinstance(s, ACCESSES) and s.buffer not in touched:
            touched[s.buffer] = s.buffer.size * s.buffer.element_type.byte_size
    total = sum(touched.values())
    trips = _trips(stage) * 64  # a small part of a large array is not the whole array
    total = min(total, trips)
    return total / (_CACHE_BYTES_PER_CYCLE if total < _CACHE_BYTES else _MEMORY_BYTES_PER_CYCLE)


def _trips(loop: Loop) -> int:
    """Executions of the innermost body."""
    inner = 0
    for s in loop.body:
        if isinstance(s, Loop):
            inner += _trips(s)
    return loop.var.extent * max(1, inner)


def _widest(inside: Sequence[Statement]) -> int:
    """Width of the widest element that a vector must hold which runs these statements, at least
    32."""
    widest = 32
    for s in inside:
        if isinstance(s, _WITH_RESULTS):
            if s.result.type.bits > widest:
                widest = s.result.type.bits
        elif isinstance(s, Store) and s.values[0].type.bits > widest:
            widest = s.values[0].type.bits
    return widest


def _choose_vectors(loop: Loop, cost: _Cost, choice: _Choice, target: TargetInfo) -> None:
    if cost.choice.get(loop):
        lanes = cost.lanes
        choice.turns[loop] = turns = cost.turns_of[loop]
        choice.lanes[loop] = width = _lanes_for(loop, lanes, target) if turns == 1 else lanes
        choice.units[loop] = turns * width
        return
    for s in loop.body:
        if isinstance(s, Loop):
            _choose_vectors(s, cost, choice, target)


def _lanes_for(loop: Loop, lanes: int, target: TargetInfo) -> int:
    """Lanes of a vector loop: several registers where the body is light, to hide latencies; never
    far more than the extent."""
    work = 0.0
    live = 0
    for s in walk(loop.body):
        if isinstance(s, Compute):
            work += s.opcode.cycles
            live += 1
        elif isinstance(s, Load):
            work += 1
            live += 1
    registers = 4 if work <= 8 and live <= 6 else 2 if work <= 60 and live <= 24 else 1
    if target.gathers_slowly and goes_one_by_one(loop.body):
        registers = 1  # so many loads hide what they wait for, and are much code
    if work <= _LIGHT_SUM and lanes == _LANES_OF_MANY_REGISTERS and _is_sum_of_columns(loop):
        # Partial results are few: to add them up narrowly takes hardly longer, and less code.
        few = _reads_partial_results(loop) or _is_in_groups(loop)
        registers = 4 if few else _REGISTERS_OF_COLUMNS
    width = lanes * registers
    for inner in (s for s in loop.body if isinstance(s, Loop)):
        # To take apart what lies side by side is code for each register, and no latency to hide.
        if row_reads(inner, loop.var) or _reads_apart(inner, loop.var):
            width = lanes
    while width > 2 and width >= 2 * loop.var.extent:
        width //= 2
    return width


def _reads_partial_results(loop: Loop) -> bool:
    """Whether all that is read was left by a stage before, one row of it by each block."""
    loads = [s for s in walk(loop.body) if isinstance(s, Load)]
    return all(load.buffer.role is BufferRole.SCRATCH for load in loads)


def _is_in_groups(loop: Loop) -> bool:
    """Whether a few rows are read at a time, of which the next are asked for."""
    return all(s.var.extent <= GROUP_ROWS for s in loop.body if isinstance(s, Loop))


def _reads_apart(loop: Loop, lane: Var) -> bool:
    """Whether neighbouring lanes read what is a few places apart."""
    loads = [s for s in walk(loop.body) if isinstance(s, Load)]
    return any(1 < abs(s.index.coefficient(lane)) <= _FEW_PLACES for s in loads)


def _is_sum_of_columns(loop: Loop) -> bool:
    """Whether each iteration carries one value down the rows of an array: the more columns there
    are at a time, the longer are the stretches of memory that are read one after another."""
    inner = [s for s in loop.body if isinstance(s, Loop)]
    if loop.carries or len(inner) != 1 or len(inner[0].carries) != 1:
        return False
    # Masks of so many registers, made anew in each row, do not stay in registers.
    return not any(isinstance(s, InRange) for s in walk(inner[0].body))


def _element_bits(loop: Loop) -> int:
    """Width of the widest element that the body reads or writes."""
    accesses = [s for s in loop.body if isinstance(s, ACCESSES)]
    return max([8 * s.buffer.element_type.byte_size for s in accesses], default=_TILE_BITS)


def _choose_tiles(loop: Loop, choice: _Choice) -> None:
    """Read transposed arrays in square tiles instead of gathering them."""
    inner = [s for s in loop.body if isinstance(s, Loop)]
    if len(inner) == 1 and inner[0].may_vectorize and not inner[0].carries:
        nested = inner[0]
        plain = not loop.carries and loop.independent and loop not in choice.lanes
        simple = all(isinstance(s, _TILED_STATEMENTS) for s in nested.body)
        quiet = not any(isinstance(s, Store) for s in loop.body)
        size = min(_MAX_TILE, _TILE_BITS // _element_bits(nested))
        large = loop.var.extent >= size and nested.var.extent >= size
        if plain and simple and quiet and large:
            if 1 <= len(transposed_loads(loop, nested)) <= _MAX_TILED_LOADS:
                choice.tiles[loop] = choice.units[loop] = choice.units[nested] = size
                choice.lanes.pop(nested, None)
        return
    for s in inner:
        _choose_tiles(s, choice)


def _blocks(stage: Loop, cycles: float, choice: _Choice) -> tuple[Loop, int] | None:
    """The loop to cut into blocks and the iterations of each, if the work is worth it."""
    microseconds = cycles / CYCLES_PER_MICROSECOND
    if microseconds < _PARALLEL_MICROSECONDS:
        return None
    best: Loop | None = None
    best_units = 1
    loop: Loop | None = stage
    while loop is not None and loop.independent and not loop.carries:
        units = math.ceil(loop.var.extent / choice.units.get(loop, 1))
        if units > best_units:
            best, best_units = loop, units
            if units >= 16:
                break
        # Blocks of an inner loop would each repeat the loops beside it.
        inner = [s for s in loop.body if isinstance(s, Loop)]
        if len(inner) != 1 or any(isinstance(s, Store) for s in loop.body):
            break
        loop = inner[0]
    if best is None:
        return None
    blocks = max(2, min(best_units, int(microseconds / _BLOCK_MICROSECONDS), _MAX_BLOCKS))
    chunk = math.ceil(best_units / blocks) * choice.units.get(best, 1)
    return (best, chunk) if chunk < best.var.extent else None


def _count(blocks: tuple[Loop, int] | None) -> int:
    """How many blocks there are of a loop and the iterations of each."""
    return 1 if blocks is None else math.ceil(blocks[0].var.extent / blocks[1])
