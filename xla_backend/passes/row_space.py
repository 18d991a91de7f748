"""Rows: fused computations that reduce arrays and use the results for the elements reduced.

In a softmax each row is reduced twice, and every element of the row needs both results. Such a
computation is one nest: for each row, loops over its elements, one after another, while the row
stays in the nearest cache. Here is decided which instructions stand for whole arrays and which for
one value per row, in which of the loops each is computed, and which elements are kept in between.
What became of it is recorded on the fusion (`fusion_records`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from xla_backend.hlo.attributes import DimensionsAttributes, GatherAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import topological_order
from xla_backend.passes.fusion_rules import ELEMENTWISE, cost_of
from xla_backend.process.lazy import lazy
from xla_backend.process.light_dataclasses import dataclass

# Where an instruction is needed: at each element of a row, once for the row, at some computed
# element of the row, or anywhere else.
FULL, ROW, WITHIN, OTHER = 1, 2, 4, 8

# Elements kept between two loops of a row live on the stack of the thread that runs it.
_MAX_KEPT_BYTES = 1 << 18
# Shorter rows run side by side in vector lanes, and keep nothing.
_MIN_KEPT_ROW = 16
# Computing this much again in later loops costs more than writing and reading an element.
_KEEP_COST = 6
_RELABELLINGS = frozenset({Opcode.RESHAPE, Opcode.BITCAST})
_LEAVES = frozenset({Opcode.PARAMETER, Opcode.CONSTANT, Opcode.IOTA})


@dataclass(frozen=True)
class RowSpace:
    """Elements of arrays of `dimensions`; a row is all that differs in `reduced` only."""

    dimensions: tuple[int, ...]
    reduced: tuple[int, ...]

    @staticmethod
    def of(reduce: Instruction) -> RowSpace:
        """The space of a reduce instruction."""
        assert isinstance(reduce.attributes, DimensionsAttributes)
        dimensions = reduce.operands[0].shape.dimensions
        return RowSpace(dimensions, tuple(sorted(reduce.attributes.dimensions)))

    @lazy
    def segments(self) -> list[tuple[int, bool]]:
        """(size, reduced) of maximal runs of neighbouring dimensions, outermost first."""
        result: list[tuple[int, bool]] = []
        for i, size in enumerate(self.dimensions):
            if size == 1:
                continue
            flag = i in self.reduced
            if result and result[-1][1] == flag:
                result[-1] = (result[-1][0] * size, flag)
            else:
                result.append((size, flag))
        return result

    @property
    def elements(self) -> int:
        return math.prod(self.dimensions)

    @lazy
    def row_length(self) -> int:
        return math.prod(size for size, reduced in self.segments if reduced)

    @property
    def rows(self) -> int:
        return self.elements // self.row_length

    @property
    def is_minor(self) -> bool:
        """Whether the elements of a row are neighbours in memory."""
        return bool(self.segments) and self.segments[-1][1]

    @lazy
    def plane(self) -> int:
        """Elements of the smallest contiguous stretch that holds whole rows."""
        first = next((i for i, (_, r) in enumerate(self.segments) if r), len(self.segments))
        return math.prod(size for size, _ in self.segments[first:])

    def flags_of(self, dimensions: Sequence[int]) -> list[bool | None] | None:
        """For each of `dimensions` whether it is reduced (None: of size 1), if an array of these
        dimensions holds the elements of the space in the same order; else None."""
        flags: list[bool | None] = [None] * len(dimensions)
        position = len(dimensions) - 1
        for size, reduced in reversed(self.segments):
            covered = 1
            while covered < size and position >= 0:
                covered *= dimensions[position]
                if dimensions[position] != 1:
                    flags[position] = reduced
                position -= 1
            if covered != size:
                return None
        return flags if all(d == 1 for d in dimensions[: position + 1]) else None

    def place_of_root(self, dimensions: Sequence[int]) -> int | None:
        """FULL or ROW for an output of these dimensions, None if it is neither."""
        if self.flags_of(dimensions) is not None:
            return FULL
        return ROW if math.prod(dimensions) == self.rows else None

    def spreads_rows(self, broadcast: Instruction) -> bool:
        """Whether a broadcast gives each element the value of its row."""
        flags = self.flags_of(broadcast.shape.dimensions)
        assert isinstance(broadcast.attributes, DimensionsAttributes)
        kept = broadcast.attributes.dimensions
        if flags is None or list(kept) != sorted(kept):
            return False
        return all(flag is None or (d in kept) != flag for d, flag in enumerate(flags))


def demands(
    roots: Iterable[Instruction], space: RowSpace, order: Sequence[Instruction]
) -> dict[Instruction, int] | None:
    """Where each instruction of a fused computation is needed (a union of the places above).

    None where a reduction would have to run for elements that are not those of its own row.
    `order`: all instructions, operands first.
    """
    result: dict[Instruction, int] = {}
    for root in roots:
        place = space.place_of_root(root.shape.dimensions)
        if place is None or not root.shape.is_array:
            return None
        result[root] = result.get(root, 0) | place
    for node in reversed(order):
        needed = result.get(node, 0)
        if not needed or node.opcode in _LEAVES:
            continue
        if node.opcode is Opcode.REDUCE and (needed != ROW or not _reduces_rows(node, space)):
            return None
        for i, operand in enumerate(node.operands):
            place = _place_of_operand(node, i, needed, space)
            result[operand] = result.get(operand, 0) | place
    return result


def _reduces_rows(node: Instruction, space: RowSpace) -> bool:
    if len(node.operands) != 2 or node.operands[0].shape.dimensions != space.dimensions:
        return False
    assert isinstance(node.attributes, DimensionsAttributes)
    return tuple(sorted(node.attributes.dimensions)) == space.reduced


def _place_of_operand(node: Instruction, number: int, needed: int, space: RowSpace) -> int:
    operand, opcode = node.operands[number], node.opcode
    if opcode is Opcode.REDUCE:
        return FULL if number == 0 else OTHER
    if opcode in ELEMENTWISE and operand.shape.dimensions == node.shape.dimensions:
        return needed
    places = needed & OTHER
    if opcode in _RELABELLINGS:
        inside = needed & (FULL | WITHIN)
        rows_show = space.flags_of(operand.shape.dimensions) is not None
        return places | needed & ROW | (inside if rows_show or not inside else OTHER)
    if opcode is Opcode.BROADCAST and not needed & ROW:
        return places | (ROW if space.spreads_rows(node) else OTHER)
    if opcode is Opcode.GATHER and needed == ROW and number == 0:
        return WITHIN if _gathers_from_row(node, space) else OTHER
    return OTHER


def _gathers_from_row(node: Instruction, space: RowSpace) -> bool:
    """Whether a gather takes one element of each row, for that row."""
    a = node.attributes
    assert isinstance(a, GatherAttributes)
    flags = space.flags_of(node.operands[0].shape.dimensions)
    if flags is None or a.offset_dims or set(a.slice_sizes) != {1}:
        return False
    kept = [d for d in range(len(flags)) if flags[d] is False]
    pairs = list(zip(a.operand_batching_dims, a.start_indices_batching_dims))
    large = [pair for pair in pairs if flags[pair[0]] is not None]
    return [d for d, _ in large] == kept and large == sorted(large, key=lambda pair: pair[1])


class RowPlanning:
    """Decides how a fused computation runs over the rows of `space`: loop after loop over each row.

    Fields:
      space: the rows.
      reduces: reductions of each loop (the last loop may have none).
      stores: outputs of whole arrays that are written in each loop.
      keeps: elements that each loop stores for later ones, instead of computing them again.
      recomputed: cost per element of what is computed again all the same.
    """

    def __init__(
        self,
        space: RowSpace,
        roots: Sequence[Instruction],
        order: Sequence[Instruction],
        needed: dict[Instruction, int],
    ) -> None:
        self.space = space
        self.demands = needed
        self._order = [node for node in order if node in needed]
        ready = self._ready()
        full_roots = [r for r in dict.fromkeys(roots) if needed[r] & FULL]
        reduces = [n for n in self._order if n.opcode is Opcode.REDUCE]
        loop_of = {n: ready[n] - 1 for n in reduces} | {n: ready[n] for n in full_roots}
        self.loops = 1 + max(loop_of.values())
        self.reduces = [[n for n in reduces if loop_of[n] == i] for i in range(self.loops)]
        self.stores = [[n for n in full_roots if loop_of[n] == i] for i in range(self.loops)]
        self._choose_kept(loop_of)

    @property
    def read_where_written(self) -> list[int]:
        """Parameters a result may have the memory of. The last loop over a row writes where it has
        just read; earlier ones would write over what later ones read."""
        if any(self.stores[:-1]):
            return []
        parameters = (n for n, place in self.demands.items() if place == FULL)
        return sorted(p.parameter_number for p in parameters if p.opcode is Opcode.PARAMETER)

    def _ready(self) -> dict[Instruction, int]:
        """After how many loops an instruction can be computed."""
        ready: dict[Instruction, int] = {}
        for node in self._order:
            latest = max((ready[o] for o in node.operands), default=0)
            ready[node] = latest + 1 if node.opcode is Opcode.REDUCE else latest
        return ready

    def _used_in(
        self, loop_of: dict[Instruction, int], kept: set[Instruction]
    ) -> dict[Instruction, set[int]]:
        """The loops that compute an element of each instruction (or read it, if it is kept)."""
        used: dict[Instruction, set[int]] = {}
        for node in reversed(self._order):
            mine = used.setdefault(node, set())
            if node.opcode is Opcode.REDUCE:
                used.setdefault(node.operands[0], set()).add(loop_of[node])
                continue
            if not self.demands[node] & FULL:
                continue
            if node in loop_of:
                mine.add(loop_of[node])
            passed_on = {min(mine)} if node in kept and mine else mine
            for operand in node.operands:
                if self.demands[operand] & FULL:
                    used.setdefault(operand, set()).update(passed_on)
        return used

    def _choose_kept(self, loop_of: dict[Instruction, int]) -> None:
        used = self._used_in(loop_of, set())
        wanted = self._worth_keeping(used)
        wanted = {n for n, loops in self._used_in(loop_of, wanted).items() if n in wanted}
        used = self._used_in(loop_of, wanted)
        wanted = {n for n in wanted if len(used[n]) > 1}
        space = self.space
        size = sum(n.shape.element_type.byte_size for n in wanted) * space.plane
        if size > _MAX_KEPT_BYTES or (space.is_minor and space.row_length < _MIN_KEPT_ROW):
            wanted = set()
        used = self._used_in(loop_of, wanted)
        self.keeps: list[list[Instruction]] = [[] for _ in range(self.loops)]
        for node in self._order:
            if node in wanted:
                self.keeps[min(used[node])].append(node)
        self.recomputed = sum(
            cost_of(n) * (len(loops) - 1)
            for n, loops in used.items()
            if len(loops) > 1 and n not in wanted and self.demands[n] & FULL
        )

    def _worth_keeping(self, used: dict[Instruction, set[int]]) -> set[Instruction]:
        chain: dict[Instruction, int] = {}
        result: set[Instruction] = set()
        for node in self._order:
            if not self.demands[node] & FULL or node.opcode in _LEAVES:
                continue
            chain[node] = cost_of(node) + sum(chain.get(o, 0) for o in node.operands)
            if (len(used[node]) - 1) * chain[node] >= _KEEP_COST:
                result.add(node)
                chain[node] = 0
        return result


def plan_rows(fused: Computation) -> RowPlanning | None:
    """The plan of a computation that uses reductions inside, or None where rows do not fit it.

    Computations whose reductions are all outputs, and nothing else is, have simpler nests.
    """
    reduces = [n for n in fused.instructions if n.opcode is Opcode.REDUCE]
    if not reduces:
        return None
    roots = fused.outputs
    outputs = set(roots)
    if not roots or outputs == set(reduces) or any(n.shape.is_tuple for n in reduces):
        return None
    space = RowSpace.of(reduces[0])
    if space.row_length < 2 or 0 in space.dimensions:
        return None
    order = [n for n in topological_order(fused) if n.opcode is not Opcode.TUPLE]
    if any(not n.shape.is_array for n in order):
        return None
    needed = demands(roots, space, order)
    if needed is None or any(needed[n] & OTHER for n in reduces if n in needed):
        return None
    return RowPlanning(space, roots, order, needed)
