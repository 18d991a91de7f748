"""cholesky and triangular-solve as library routines, and those calls of LAPACK that have one; other
calls, and those with larger matrices, are the host's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xla_backend.hlo.attributes import (
    CholeskyAttributes,
    CustomCallAttributes,
    TriangularSolveAttributes,
)
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Library, Step, aligned
from xla_backend.program.routines import Kind
from xla_backend.runtime.host_libraries.lapack_arguments import (
    attributes_of,
    check_arguments,
    check_options,
    routine_of,
)
from xla_backend.runtime.host_rules import HOST_RULES
from xla_backend.targets.cpu.routines.blocked_matrices import BLOCK_ROWS
from xla_backend.targets.cpu.routines.contracts import ROUTINES
from xla_backend.targets.cpu.routines.small_matrices import (
    CONJUGATED,
    LOWER,
    MOST_ROWS,
    RIGHT,
    TRANSPOSED,
    TYPES,
    UNIT,
)
from xla_backend.targets.cpu.routines.small_reflectors import ADJOINT
from xla_backend.targets.cpu.routines.small_reflectors import RIGHT as REFLECTED_RIGHT
from xla_backend.targets.cpu.rules import RULES

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


# -- calls of LAPACK -------------------------------------------------------------------------------

Options = Mapping[str, int]
Shapes = Sequence[Shape]
# The numbers of a routine behind the count of problems; None: it has no such variant.
Numbers = Callable[[Options, Shapes, Shapes], Sequence[int] | None]


def _is_letter(options: Options, key: str, letter: str, default: str) -> bool:
    return options.get(key, ord(default)) == ord(letter)


def _size(shape: Shape) -> tuple[int, ...]:
    return shape.dimensions[-2:]


def _eigh_numbers(options: Options, operands: Shapes, results: Shapes) -> Sequence[int] | None:
    if not _is_letter(options, "mode", "V", "V"):
        return None
    return operands[0].dimensions[-1], int(_is_letter(options, "uplo", "L", "L"))


def _ormqr_numbers(options: Options, operands: Shapes, results: Shapes) -> Sequence[int]:
    flags = 0 if options.get("left", 1) else REFLECTED_RIGHT
    flags |= ADJOINT if options.get("transpose", 0) else 0
    return *_size(operands[2]), operands[1].dimensions[-1], flags


def _svd_numbers(options: Options, operands: Shapes, results: Shapes) -> Sequence[int] | None:
    m, n = _size(operands[0])
    few = min(m, n)
    left, right = results[2].dimensions[-1], results[3].dimensions[-2]
    wanted = {"A": (m, n), "S": (few, few), "N": (few, few)}
    mode = chr(options.get("mode", ord("S")))
    if (left, right) != wanted.get(mode):
        return None
    return (m, n, 0, 0) if mode == "N" else (m, n, left, right)


# Routine of LAPACK: ours, and its numbers.
_CALLS: Mapping[str, tuple[str, Numbers]] = {
    "getrf": ("lu", lambda options, operands, results: _size(operands[0])),
    "syevd": ("eigh", _eigh_numbers),
    "geqrf": ("geqrf", lambda options, operands, results: _size(operands[0])),
    "orgqr": (
        "orgqr",
        lambda options, operands, results: (*_size(operands[0]), operands[1].dimensions[-1]),
    ),
    "ormqr": ("ormqr", _ormqr_numbers),
    "gesdd": ("svd", _svd_numbers),
}


@RULES.runs(Opcode.CUSTOM_CALL)
def _custom_call(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    attributes = node.attributes
    assert isinstance(attributes, CustomCallAttributes)
    name = routine_of(attributes.target)
    options = attributes_of(attributes)
    if name is None or name not in _CALLS or not _is_native(name, node, options):
        return HOST_RULES[Opcode.CUSTOM_CALL](builder, node)
    operands, results = [o.shape for o in node.operands], node.shape.flatten()
    routine, numbers_of = _CALLS[name]
    numbers = numbers_of(options, operands, results)
    if numbers is None:
        return HOST_RULES[Opcode.CUSTOM_CALL](builder, node)
    *batch, m, n = operands[0].dimensions
    batches = math.prod(batch)
    return _step(builder, node, routine, (batches, *numbers), batches * m * n * (m + n))


def _is_native(name: str, node: Instruction, options: Options) -> bool:
    """Whether a call is one of small matrices: others, and those that are wrong, are the host's to
    run or refuse."""
    operands, results = [o.shape for o in node.operands], node.shape.flatten()
    try:
        check_options(name, options)
        check_arguments(name, options, *([_pretended(s) for s in x] for x in (operands, results)))
    except RuntimeFailure:
        return False
    shapes = [*operands, *results]
    if any(not shape.num_elements for shape in shapes):
        return False
    batch = operands[0].rank - 2
    if any(max(shape.dimensions[batch:], default=1) > MOST_ROWS for shape in shapes):
        return False
    routine = ROUTINES.get(f"{_CALLS[name][0]}_{operands[0].element_type}")
    if routine is None:
        return False
    arrays = [p.type for p in routine.parameters if p.kind is not Kind.NUMBER]
    return arrays == [shape.element_type for shape in shapes]


def _pretended(shape: Shape) -> np.ndarray:
    """An array of a shape that takes no memory."""
    return np.broadcast_to(np.zeros((), shape.element_type.numpy_dtype), shape.dimensions)
