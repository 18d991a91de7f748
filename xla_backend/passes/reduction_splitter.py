"""Reductions over dimensions that are apart, one after the other."""

from __future__ import annotations

from itertools import groupby
from math import prod

from xla_backend.hlo.attributes import DimensionsAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit
from xla_backend.passes.patterns import binary_reducer, dims_of, splat_value

# A row as long fills vectors.
_LONG_ROW = 64
# What the first reduction writes should be little beside what it reads.
_FEWER = 8
# Arrays that no cache of a single core holds, and stretches of these that are long ones of memory.
MEMORY_BYTES = 1 << 22
_LONG_STRETCH_BYTES = 1 << 16
_SPLITS = frozenset({Opcode.ADD, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.AND, Opcode.OR})


class ReductionSplitter(HloPass):
    """reduce over (1, 2, 4) of [8,32,32,8,8] -> reduce over 3 of (reduce over (1, 2)), as in the
    normalisation of groups of channels; reduce over (0, 2) of [300,300,300] -> reduce over 0 of
    (reduce over 2).

    Why: rows of a few elements, from everywhere in the array, leave most lanes of a vector empty;
    whole rows of kept and reduced elements are columns of vectors. What comes from memory comes in
    its order then, not a row from here and a row from there.
    Needs: nothing.
    Leaves: no such reduction over short rows and over much else, and none that goes through memory
    again and again, of types whose sums may be rounded in between.
    """

    name = "reduction-splitter"
    opcodes = frozenset({Opcode.REDUCE})

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.post_order(Opcode.REDUCE):
            first = _before_short_rows(node) or _rows_apart(node) if _splits(node) else ()
            if first:
                computation.replace(node, _split(node, first))
                changed = True
        return changed


def _splits(node: Instruction) -> bool:
    """Whether a reduction may be one of partial results."""
    kind = node.shape.element_type if node.shape.is_array else None
    if kind is None or (kind.is_floating and kind.bits < 32):
        return False
    if len(node.operands) != 2 or binary_reducer(node.called[0]) not in _SPLITS:
        return False
    # What sums begin with counts once.
    return binary_reducer(node.called[0]) is not Opcode.ADD or splat_value(node.operands[1]) == 0


def _before_short_rows(node: Instruction) -> tuple[int, ...]:
    """All but the last dimensions, if the reduction is over these, and few elements, and over
    others."""
    sizes = node.operands[0].shape.dimensions
    reduced = dims_of(node)
    first = len(sizes)
    while first and (first - 1 in reduced or sizes[first - 1] == 1):
        first -= 1
    inner = tuple(d for d in reduced if d >= first)
    others = tuple(d for d in reduced if d < first)
    row = prod(sizes[d] for d in inner)
    few = 1 < row < _LONG_ROW and prod(sizes[d] for d in others) >= _FEWER
    return others if few else ()


def _rows_apart(node: Instruction) -> tuple[int, ...]:
    """The last dimensions that are reduced, if others are before some that are kept, and all that
    is read at one place of these is a short stretch of memory."""
    shape = node.operands[0].shape
    if shape.byte_size < MEMORY_BYTES:
        return ()
    sizes = shape.dimensions
    is_reduced = dims_of(node).__contains__
    places = [d for d, n in enumerate(sizes) if n != 1]
    runs = [tuple(dims) for reduced, dims in groupby(places, is_reduced) if reduced]
    if len(runs) < 2:
        return ()
    row = prod(sizes[d] for d in runs[-1])
    stretch = prod(sizes[runs[-1][0] :]) * shape.byte_size // prod(sizes)
    return runs[-1] if row >= _FEWER and stretch < _LONG_STRETCH_BYTES else ()


def _split(node: Instruction, outer: tuple[int, ...]) -> Instruction:
    b = Emit(node)
    x, start = node.operands

    def reduce(operand: Instruction, dims: tuple[int, ...]) -> Instruction:
        kept = [n for d, n in enumerate(operand.shape.dimensions) if d not in dims]
        shape = operand.shape.with_dimensions(kept)
        attributes = DimensionsAttributes(dims)
        return b.add(Opcode.REDUCE, (operand, start), attributes, node.called, shape=shape)

    first = reduce(x, outer)
    inner = (d for d in dims_of(node) if d not in outer)
    return reduce(first, tuple(d - sum(o < d for o in outer) for d in inner))
