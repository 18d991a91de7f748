"""cholesky and triangular-solve as library routines."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xla_backend.hlo.attributes import (
    CholeskyAttributes,
    TriangularSolveAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Library, Operand, Step, aligned
from xla_backend.runtime.host_rules import HOST_RULES
from xla_backend.targets.cpu.routines.matrix_facts import (
    BLOCK_ROWS,
    CONJUGATED,
    LOWER,
    MOST_ROWS,
    RIGHT,
    TRANSPOSED,
    TYPES,
    UNIT,
)
from xla_backend.targets.cpu.rules import RULES

_TRANSPOSES = {"NO_TRANSPOSE": 0, "TRANSPOSE": TRANSPOSED, "ADJOINT": TRANSPOSED | CONJUGATED}
# What a group of lanes takes for a multiplication and its operands.
_CYCLES = 4
# Of larger matrices, most of it in products.
_PRODUCTS_PER_CYCLE = 16.0
# Batches of problems of at most so many multiplications are divided into so many tasks at most;
# of larger ones the threads share the products.
TASKS = 32
SHARED_WORK = 256**3


def _is_small(shape: Shape) -> bool:
    return shape.element_type in TYPES and max(shape.dimensions[-2:]) <= MOST_ROWS


def matrix_step(
    builder: ProgramBuilder, node: Instruction, routine: str, numbers: Sequence[int], work: int
) -> list[Step]:
    """Numbers first, then the operands, then the results."""
    results = [builder.slice(node, leaf) for leaf in range(len(node.shape.flatten()))]
    arrays = [*(builder.slice(operand) for operand in node.operands), *results]
    type = node.operands[0].shape.element_type
    if _is_small(node.operands[0].shape):
        small = f"{routine}_{type}"
        return [Library(node.name, float(_CYCLES * work), small, (*numbers, *arrays))]
    n = node.operands[0].shape.dimensions[-1]
    *_, rows, columns = node.operands[-1].shape.dimensions
    tasks = tasks_of(numbers[0], work // numbers[0])
    whole = Shape.array(type, (tasks, rows, columns))
    block = Shape.array(type, (tasks, BLOCK_ROWS, n))
    places = builder.scratch(whole), builder.scratch(block, aligned(whole.byte_size))
    cycles = work / _PRODUCTS_PER_CYCLE
    arguments: tuple[Operand, ...] = (*numbers, tasks, *arrays, *places)
    return [Library(node.name, cycles, f"{routine}_blocked_{type}", arguments)]


def tasks_of(batches: int, work: int) -> int:
    """How many tasks a batch is divided into; `work`: multiplications of one problem."""
    return min(batches, TASKS) if work <= SHARED_WORK else 1


@RULES.runs(Opcode.CHOLESKY)
def _cholesky(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    assert isinstance(node.attributes, CholeskyAttributes)
    if node.shape.element_type not in TYPES:
        return HOST_RULES[node.opcode](builder, node)
    *batch, n, _ = node.shape.dimensions
    if not node.shape.num_elements:
        return []
    batches = math.prod(batch)
    return matrix_step(
        builder, node, "cholesky", (batches, n, int(node.attributes.lower)), batches * n**3
    )


@RULES.runs(Opcode.TRIANGULAR_SOLVE)
def _triangular_solve(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    attributes = node.attributes
    assert isinstance(attributes, TriangularSolveAttributes)
    matrix = node.operands[0].shape
    if matrix.element_type not in TYPES:
        return HOST_RULES[node.opcode](builder, node)
    if not node.shape.num_elements:
        return []
    flags = _TRANSPOSES[attributes.transpose_a]
    for flag, is_set in (
        (RIGHT, not attributes.left_side),
        (LOWER, attributes.lower),
        (UNIT, attributes.unit_diagonal),
    ):
        flags |= flag if is_set else 0
    return triangular_step(builder, node, flags)


def triangular_step(builder: ProgramBuilder, node: Instruction, flags: int) -> list[Step]:
    """Solves for what `node` has as its (first) result, with its first two operands."""
    *batch, n, _ = node.operands[0].shape.dimensions
    sides = node.operands[1].shape.dimensions[-2 if flags & RIGHT else -1]
    batches = math.prod(batch)
    work = batches * n * n * sides
    return matrix_step(builder, node, "triangular", (batches, n, sides, flags), work)
