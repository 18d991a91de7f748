"""Linear algebra by cuSOLVER and cuBLAS: which instructions they compute, and the calls."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xla_backend.hlo.attributes import (
    CholeskyAttributes,
    CustomCallAttributes,
    TriangularSolveAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.kernels.library.small_matrices import is_small
from xla_backend.passes.solver_rewriter import LapackCall
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Library, Operand, Step
from xla_backend.runtime.host_libraries.lapack_arguments import (
    attributes_of,
    check_arguments,
    check_options,
    routine_of,
)
from xla_backend.runtime.host_libraries.lapack_by_columns import PREFIX
from xla_backend.runtime.host_rules import HOST_RULES
from xla_backend.targets.gpu.routines.solvers import REALS, SOLVERS, Array, routine_name
from xla_backend.targets.gpu.rules import RULES

_DEFAULTS = {
    "potrf": {"uplo": "L"},
    "trsm": {"side": "L", "uplo": "L", "trans_x": "N", "diag": "N"},
    "syevd": {"mode": "V", "uplo": "L"},
    "gesdd": {"mode": "S"},
}
_TRANSPOSES = {"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}


def library_call(node: Instruction) -> LapackCall | None:
    """The routine of the libraries that computes an instruction; None where a kernel of ours or the
    host does.

    Raises:
      RuntimeFailure: a call of LAPACK with operands or results that are not the routine's.
    """
    attributes = node.attributes
    if isinstance(attributes, CustomCallAttributes):
        return _custom_call(node, attributes)
    if node.operands[0].shape.element_type not in REALS or is_small(node):
        return None
    if isinstance(attributes, CholeskyAttributes):
        return LapackCall("cholesky", _codes({"uplo": "L" if attributes.lower else "U"}))
    assert isinstance(attributes, TriangularSolveAttributes)
    return LapackCall(
        "trsm",
        _codes(
            {
                "side": "L" if attributes.left_side else "R",
                "uplo": "L" if attributes.lower else "U",
                "trans_x": _TRANSPOSES[attributes.transpose_a],
                "diag": "U" if attributes.unit_diagonal else "N",
            }
        ),
    )


def _custom_call(node: Instruction, attributes: CustomCallAttributes) -> LapackCall | None:
    name = routine_of(attributes.target)
    if name is None or name not in SOLVERS:
        return None
    options = attributes_of(attributes)
    check_options(name, options)
    operands = [_pretended(operand.shape) for operand in node.operands]
    check_arguments(name, options, operands, [_pretended(s) for s in node.shape.flatten()])
    first, *others = node.operands
    if first.shape.num_elements and any(not other.shape.num_elements for other in others):
        return None  # such as a product of no reflectors
    options = {**_codes(_DEFAULTS.get(name, {})), **options}
    if name == "ormqr":
        options = {"left": options.get("left", 1), "transpose": options.get("transpose", 0)}
    return LapackCall(name, options)


def _codes(letters: dict[str, str]) -> dict[str, int]:
    return {key: ord(letter) for key, letter in letters.items()}


def _pretended(shape: Shape) -> np.ndarray:
    """An array of a shape that takes no memory."""
    return np.broadcast_to(np.zeros((), shape.element_type.numpy_dtype), shape.dimensions)


@RULES.runs(Opcode.CUSTOM_CALL)
def _call(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    attributes = node.attributes
    assert isinstance(attributes, CustomCallAttributes)
    name = attributes.target.removeprefix(PREFIX)
    if name == attributes.target:
        return HOST_RULES[Opcode.CUSTOM_CALL](builder, node)
    solver = SOLVERS[name]
    given = [operand.shape for operand in node.operands]
    sizes: dict[str, int] = {}
    for shape, array in zip(
        [*given, *node.shape.flatten()], (*solver.operands, *solver.results), strict=True
    ):
        sizes |= _extents(shape, array)
    first = solver.operands[0]
    options = attributes_of(attributes)
    operands: list[Operand] = [math.prod(given[0].dimensions[: -len(first.extents)])]
    operands += [sizes[letter] for letter in solver.sizes]
    operands += [options[key] for key in solver.options]
    operands += [builder.slice(operand) for operand in node.operands]
    operands += [builder.slice(node, leaf) for leaf in range(len(solver.results))]
    routine = routine_name(name, given[0].element_type)
    return [Library(node.name, 0.0, routine, tuple(operands))]


def _extents(shape: Shape, array: Array) -> dict[str, int]:
    """What letters stand for: matrices lie by columns."""
    behind = shape.dimensions[shape.rank - len(array.extents) :]
    return dict(zip(array.extents, reversed(behind)))
