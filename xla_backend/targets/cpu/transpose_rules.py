"""Transposes of large arrays as a routine. Small ones, and those that are part of a larger fusion,
are loops like others."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import DimensionsAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Library, Step
from xla_backend.targets.cpu.routines.transpose_plans import Plan, plan
from xla_backend.targets.cpu.rules import RULES, cycles_of

# Code for the sizes is as quick for less.
_LEAST_BYTES = 1 << 16
_SAME_BYTES = frozenset({Opcode.RESHAPE, Opcode.BITCAST, Opcode.COPY})


@RULES.runs(Opcode.TRANSPOSE)
def _transpose(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    return _moved(builder, node, node)


def loops(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    """The steps of a loop fusion: the routine, if it only transposes."""
    transpose = _only_transpose(node)
    return builder.launch(node) if transpose is None else _moved(builder, node, transpose)


def _moved(builder: ProgramBuilder, node: Instruction, transpose: Instruction) -> Sequence[Step]:
    """The steps of an instruction that does nothing but a transpose."""
    found = _plan_of(transpose)
    source, target = builder.slice(node.operands[0]), builder.slice(node)
    if found is None or source.same_memory(target):
        return builder.launch(node)
    operands = (source, target, found.numbers)
    return [Library(node.name, cycles_of(node), found.routine, operands)]


def _plan_of(transpose: Instruction) -> Plan | None:
    shape = transpose.operands[0].shape
    if shape.byte_size < _LEAST_BYTES:
        return None
    assert isinstance(transpose.attributes, DimensionsAttributes)
    element = shape.byte_size // shape.num_elements
    # The parts of complex numbers are elements of their own in loops.
    in_tiles = not shape.element_type.is_complex
    return plan(shape.dimensions, transpose.attributes.dimensions, element, in_tiles=in_tiles)


def _only_transpose(fusion: Instruction) -> Instruction | None:
    """The transpose of a fusion, if there is one and nothing else is done."""
    node, found = fusion.called[0].root, None
    if node is None or node.shape.is_tuple or len(fusion.operands) != 1:
        return None
    while node.opcode is not Opcode.PARAMETER:
        if node.opcode is Opcode.TRANSPOSE and found is None:
            found = node
        elif node.opcode not in _SAME_BYTES:
            return None
        node = node.operands[0]
    return found
