"""Reductions over dimensions that are apart, one after the other."""

from __future__ import annotations

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
_SPLITS = frozenset({Opcode.ADD, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.AND, Opcode.OR})


class ReductionSplitter(HloPass):
    """reduce over (1, 2, 4) of [8,32,32,8,8] -> reduce over 3 of (reduce over (1, 2)), as in the
    normalisation of groups of channels.

    Why: rows of a few elements, from everywhere in the array, leave most lanes of a vector empty;
    whole rows of kept and reduced elements are columns of vectors.
    Needs: nothing.
    Leaves: no such reduction over short rows and over much else, of types whose sums may be
    rounded in between.
    """

    name = "reduction-splitter"
    opcodes = frozenset({Opcode.REDUCE})

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.post_order(Opcode.REDUCE):
            inner = _short_rows(node)
            if inner:
                computation.replace(node, _split(node, inner))
                changed = True
        return changed


def _short_rows(node: Instruction) -> tuple[int, ...]:
    """The last dimensions, if the reduction is over these, and few elements, and over others."""
    kind = node.shape.element_type if node.shape.is_array else None
    if kind is None or (kind.is_floating and kind.bits < 32):
        return ()
    if len(node.operands) != 2 or binary_reducer(node.called[0]) not in _SPLITS:
        return ()
    if binary_reducer(node.called[0]) is Opcode.ADD and splat_value(node.operands[1]) != 0:
        return ()  # what sums begin with counts once
    sizes = node.operands[0].shape.dimensions
    reduced = dims_of(node)
    first = len(sizes)
    while first and (first - 1 in reduced or sizes[first - 1] == 1):
        first -= 1
    inner = tuple(d for d in reduced if d >= first)
    row = prod(sizes[d] for d in inner)
    others = prod(sizes[d] for d in reduced if d < first)
    return inner if 1 < row < _LONG_ROW and others >= _FEWER else ()


def _split(node: Instruction, inner: tuple[int, ...]) -> Instruction:
    b = Emit(node)
    x, start = node.operands
    outer = tuple(d for d in dims_of(node) if d not in inner)

    def reduce(operand: Instruction, dims: tuple[int, ...]) -> Instruction:
        kept = [n for d, n in enumerate(operand.shape.dimensions) if d not in dims]
        shape = operand.shape.with_dimensions(kept)
        attributes = DimensionsAttributes(dims)
        return b.add(Opcode.REDUCE, (operand, start), attributes, node.called, shape=shape)

    first = reduce(x, outer)
    return reduce(first, tuple(d - sum(o < d for o in outer) for d in inner))
