"""cholesky, triangular-solve and LU factors as library routines; LU factors of larger matrices are
the host's."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xla_backend.hlo.attributes import (
    CholeskyAttributes,
    CustomCallAttributes,
    TriangularSolveAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Library, Step, aligned
from xla_backend.runtime.host_rules import HOST_RULES
from xla_backend.targets.cpu.routines.blocked_matrices import BLOCK_ROWS
from xla_backend.targets.cpu.routines.small_matrices import (
    CONJUGATED,
    LOWER,
    MOST_ROWS,
    RIGHT,
    TRANSPOSED,
    TYPES,
    UNIT,
)
from xla_backend.targets.cpu.rules import RULES

_LU_TARGETS = frozenset({"lapack.getrf", *(f"lapack_{letter}getrf_ffi" for letter in "sdcz")})
_TRANSPOSES = {"NO_TRANSPOSE": 0, "TRANSPOSE": TRANSPOSED, "ADJOINT": TRANSPOSED | CONJUGATED}
# What a group of lanes takes for a multiplication and its operands.
_CYCLES = 4
# Of larger matrices, most of it in products.
_PRODUCTS_PER_CYCLE = 16.0


def _is_small(shape: Shape) -> bool:
    return shape.element_type in TYPES and max(shape.dimensions[-2:]) <= MOST_ROWS


def _step(
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
    *_, rows, columns = node.shape.dimensions
    whole = Shape.array(type, (rows, columns))
    block = Shape.array(type, (BLOCK_ROWS, n))
    places = builder.scratch(whole), builder.scratch(block, aligned(whole.byte_size))
    cycles = work / _PRODUCTS_PER_CYCLE
    return [Library(node.name, cycles, f"{routine}_blocked_{type}", (*numbers, *arrays, *places))]


@RULES.runs(Opcode.CHOLESKY)
def _cholesky(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    assert isinstance(node.attributes, CholeskyAttributes)
    if node.shape.element_type not in TYPES:
        return HOST_RULES[node.opcode](builder, node)
    *batch, n, _ = node.shape.dimensions
    if not node.shape.num_elements:
        return []
    batches = math.prod(batch)
    return _step(
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
    *batch, n, _ = matrix.dimensions
    sides = node.shape.dimensions[-1 if attributes.left_side else -2]
    batches = math.prod(batch)
    return _step(builder, node, "triangular", (batches, n, sides, flags), batches * n * n * sides)


@RULES.runs(Opcode.CUSTOM_CALL)
def _custom_call(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    attributes = node.attributes
    assert isinstance(attributes, CustomCallAttributes)
    if attributes.target in _LU_TARGETS and _is_lu(node):
        *batch, m, n = node.operands[0].shape.dimensions
        batches = math.prod(batch)
        return _step(builder, node, "lu", (batches, m, n), batches * m * n * n)
    return HOST_RULES[Opcode.CUSTOM_CALL](builder, node)


def _is_lu(node: Instruction) -> bool:
    """Whether a call of getrf is one of small matrices: others, and those that are wrong, are the
    host's to run or refuse."""
    shapes = [operand.shape for operand in node.operands]
    results = node.shape.flatten()
    if len(shapes) != 1 or len(results) != 3 or shapes[0].rank < 2 or not shapes[0].num_elements:
        return False
    *batch, m, n = shapes[0].dimensions
    expected = [[*batch, m, n], [*batch, min(m, n)], batch]
    return _is_small(shapes[0]) and [list(s.dimensions) for s in results] == expected
