"""Searches for the first largest or smallest element of long rows in memory, and its place, as a
routine, which `any` and `all` of them are, too. Other reductions, and what is computed first, are
kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xla_backend.hlo.attributes import ComparisonDirection, DimensionsAttributes, FusionKind
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.monoids import identity_of, monoid
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.from_hlo.first_extremes import direction_of
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Library, Step, aligned
from xla_backend.targets.cpu.routines.row_types import EXTREME_TYPES, PART
from xla_backend.targets.cpu.rules import RULES

_NAMES = {ComparisonDirection.GE: "max", ComparisonDirection.LE: "min"}
# Of fewer a loop takes less: it goes through them once.
_LONG = 1 << 13
# Of truth values, where a loop does not stop at the first.
_LONG_TRUTH = 1 << 6
_LONG_ANY = 1 << 12
# That are read in a cycle, at least.
_BYTES_PER_CYCLE = 16
# Places are numbers of 32 bits, of which the last stands for none.
_MOST_PLACES = (1 << 31) - 1
_TRUTHS = {
    Opcode.OR: "max",
    Opcode.MAXIMUM: "max",
    Opcode.AND: "min",
    Opcode.MINIMUM: "min",
}


def _input_fusion(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    found, truth = _search(node), _truth_of_rows(node)
    if found is not None:
        name, outer, n = found
        values, places = (builder.slice(node, leaf) for leaf in range(2))
    elif truth is not None:
        name, outer, n = truth
        values, places = builder.slice(node), builder.scratch(Shape.array(P.S32, (outer,)))
    else:
        return builder.launch(node)
    source = builder.slice(node.operands[0])
    size = outer * -(-n // PART)
    work = builder.scratch(Shape.array(P.S64, (size,)), 0 if truth is None else aligned(4 * outer))
    routine = f"first_{name}_{source.shape.element_type}"
    cycles = node.operands[0].shape.byte_size / _BYTES_PER_CYCLE
    return [Library(node.name, cycles, routine, (source, values, places, work, outer, n))]


def _search(fusion: Instruction) -> tuple[str, int, int] | None:
    """(extreme, rows, elements of a row), if a fusion does nothing but find the first extreme of
    rows that lie in memory."""
    reduce = fusion.called[0].root
    if reduce is None or reduce.opcode is not Opcode.REDUCE or len(fusion.operands) != 1:
        return None
    direction = direction_of(reduce)
    if direction is None or reduce.operands[0].opcode is not Opcode.PARAMETER:
        return None
    shape = reduce.operands[0].shape
    places = reduce.shape.tuple_shapes[1]
    assert isinstance(reduce.attributes, DimensionsAttributes)
    (axis,) = reduce.attributes.dimensions
    n, dims = shape.dimensions[axis], shape.dimensions
    behind = math.prod(dims[axis + 1 :])
    starts_at_first = int(reduce.operands[3].literal_array) == 0
    known = shape.element_type in EXTREME_TYPES and places.element_type is P.S32
    long = _LONG_TRUTH if shape.element_type is P.PRED else _LONG
    if not known or not starts_at_first or behind != 1 or not long <= n < _MOST_PLACES:
        return None
    return _NAMES[direction], math.prod(dims[:axis]), n


def _truth_of_rows(fusion: Instruction) -> tuple[str, int, int] | None:
    """The same if it does nothing but ask whether any or all truth values of rows are true."""
    reduce = fusion.called[0].root
    if reduce is None or reduce.opcode is not Opcode.REDUCE or len(fusion.operands) != 1:
        return None
    operand = reduce.operands[0]
    combiner = monoid(reduce.called[0])
    if len(reduce.operands) != 2 or operand.opcode is not Opcode.PARAMETER:
        return None
    if operand.shape.element_type is not P.PRED or combiner not in _TRUTHS:
        return None
    assert isinstance(reduce.attributes, DimensionsAttributes)
    dims, reduced = operand.shape.dimensions, sorted(reduce.attributes.dimensions)
    first = len(dims) - len(reduced)
    start, n = reduce.operands[1], math.prod(dims[first:])
    if reduced != list(range(first, len(dims))) or not _LONG_ANY <= n < _MOST_PLACES:
        return None
    if start.opcode is not Opcode.CONSTANT:
        return None
    if bool(start.literal_array) != bool(identity_of(combiner, P.PRED)):
        return None
    return _TRUTHS[combiner], math.prod(dims[:first]), n


RULES.fusions[FusionKind.INPUT] = _input_fusion
