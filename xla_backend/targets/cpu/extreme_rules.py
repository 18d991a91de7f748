"""Searches for the first largest or smallest element of long rows in memory, and its place, as a
routine. Other reductions, and what is computed first, are kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xla_backend.hlo.attributes import ComparisonDirection, DimensionsAttributes, FusionKind
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.from_hlo.first_extremes import direction_of
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Library, Step
from xla_backend.targets.cpu.routines.first_extremes import EXTREME_TYPES, PART
from xla_backend.targets.cpu.rules import RULES, cycles_of

_NAMES = {ComparisonDirection.GE: "max", ComparisonDirection.LE: "min"}
# Of fewer a loop takes less: it goes through them once.
_LONG = 1 << 17


def _input_fusion(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    found = _search(node)
    if found is None:
        return builder.launch(node)
    name, outer, n = found
    source = builder.slice(node.operands[0])
    values, places = (builder.slice(node, leaf) for leaf in range(2))
    work = builder.scratch(Shape.array(P.S64, (outer * -(-n // PART),)))
    routine = f"first_{name}_{source.shape.element_type}"
    return [Library(node.name, cycles_of(node), routine, (source, values, places, work, outer, n))]


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
    if not known or not starts_at_first or behind != 1 or n < _LONG:
        return None
    return _NAMES[direction], math.prod(dims[:axis]), n


RULES.fusions[FusionKind.INPUT] = _input_fusion
