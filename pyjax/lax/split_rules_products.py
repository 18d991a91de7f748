"""How contractions, convolutions, Fourier transforms and linear algebra pass on what types say of
mesh axes of type Explicit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyjax.core.avals import Split
from pyjax.core.errors import ShardingTypeError, fail
from pyjax.interpreters.splits import (
    Entries,
    Operation,
    SplitRule,
    names_of,
    refuse_sums,
)
from pyjax.lax.split_rules import Result, plain, resized, said, unless_said, without


def _check_agree(operation: Operation, left: Entries, right: Entries, message: str) -> None:
    if any(a is not None and b is not None and a != b for a, b in zip(left, right)):
        fail(
            ShardingTypeError,
            message,
            f"the operands are {operation.texts()}",
            "lay one of them out as the other: jax.sharding.reshard(x, P(...)).",
        )


def _dot(operation: Operation) -> Sequence[Result]:
    if any(a.split is not None and a.split.unreduced for a in operation.operands):
        fail(
            ShardingTypeError,
            f"lhs or rhs passed to dot_general cannot be unreduced. Got {operation.texts()}",
            "one of them is a sum over mesh axes that is still to be made",
            "make it before: jax.sharding.reshard(x, P(...))."
            if operation.mesh.explicit_axes
            else "make it before: lax.psum(x, axes).",
        )
    left, right = operation.entries
    (lhs_summed, rhs_summed), (lhs_batch, rhs_batch) = operation.params["dimension_numbers"]
    summed = tuple(left[i] for i in lhs_summed), tuple(right[i] for i in rhs_summed)
    batch = tuple(left[i] for i in lhs_batch), tuple(right[i] for i in rhs_batch)
    _check_agree(
        operation,
        *batch,
        "dot_general requires lhs batch dimensions and rhs batch dimensions to have the consistent "
        f"sharding, got {batch[0]} and {batch[1]}.",
    )
    _check_agree(
        operation,
        *summed,
        "dot_general requires contracting dimensions to have consistent sharding, got "
        f"{summed[0]} and {summed[1]}.",
    )
    if any(a is not None and b is not None for a, b in zip(*summed)):
        fail(
            ShardingTypeError,
            "Contracting dimensions are sharded and it is ambiguous how the output should be "
            "sharded. Please specify the output sharding via the `out_sharding` parameter. Got "
            f"lhs_contracting_spec={summed[0]} and rhs_contracting_spec={summed[1]}",
            f"the operands are {operation.texts()}",
            "jnp.dot(x, y, out_sharding=P(...)), and so for matmul, einsum, ...",
        )
    return [
        (
            *batch[0],
            *without(left, (*lhs_summed, *lhs_batch)),
            *without(right, (*rhs_summed, *rhs_batch)),
        )
    ]


def _dot_as_told(operation: Operation) -> Sequence[Result]:
    found = said(operation)
    if found is None:
        return _dot(operation)
    unreduced = found[0].unreduced if isinstance(found[0], Split) else frozenset()
    if unreduced:
        left, right = operation.entries
        (lhs_summed, rhs_summed), _ = operation.params["dimension_numbers"]
        summed = tuple(left[i] for i in lhs_summed), tuple(right[i] for i in rhs_summed)
        if summed[0] != summed[1]:
            fail(
                ShardingTypeError,
                "lhs and rhs contracting dims should be sharded identically when out_sharding "
                "provided to dot_general mentions unreduced_axes. Got lhs_contracting_spec="
                f"{summed[0]}, rhs_contracting_spec={summed[1]}",
                f"the operands are {operation.texts()}",
            )
        if unreduced != {*names_of(summed[0])}:
            fail(
                ShardingTypeError,
                "out_sharding's unreduced axes should be equal to the contracting specs. Got "
                f"unreduced axes={set(unreduced)} and contracting spec={summed[0]}",
                f"the operands are {operation.texts()}",
            )
    return found


def _conv(operation: Operation) -> Sequence[Result]:
    left, right = operation.entries
    numbers = operation.params["dimension_numbers"]
    if any(entry is not None for entry in right) or left[numbers.lhs_spec[1]] is not None:
        fail(
            ShardingTypeError,
            "Please specify the output sharding via `out_sharding` parameter of "
            "`conv_general_dilated`",
            f"the operands are {operation.texts()}; with whole filters, and all features of an "
            "image together, the result is split as the images are",
            "lax.conv_general_dilated(..., out_sharding=P(...)).",
        )
    x, out = operation.operands[0], operation.results[0]
    order = lambda spec, values: tuple(values[i] for i in spec)
    # By batch, feature, and spatial dimensions, whatever their order is.
    moved = operation._replace(
        operands=[_shape_only(order(numbers.lhs_spec, x.shape), x)],
        results=[_shape_only(order(numbers.out_spec, out.shape), out)],
    )
    by_role = tuple(resized("conv_general_dilated")(moved, order(numbers.lhs_spec, left)))
    found: list[Any] = [None] * len(by_role)
    for dim, entry in zip(numbers.out_spec, by_role):
        found[dim] = entry
    found[numbers.out_spec[1]] = None
    return [tuple(found)]


def _shape_only(shape: Sequence[int], aval: Any) -> Any:
    return type(aval).update(aval.with_split(None), shape=tuple(shape))


def _check_batches(operation: Operation, batches: Sequence[Entries]) -> None:
    if any(batch != batches[0] for batch in batches):
        fail(
            ShardingTypeError,
            f"All inputs to {operation.primitive} must have the same batch sharding, but got "
            f"{' and '.join(map(str, batches))}.",
            f"the operands are {operation.texts()}",
            "lay them out alike before: jax.sharding.reshard(x, P(...)).",
        )


def _triangular_solve(operation: Operation) -> Sequence[Result]:
    """Rows or columns of the unknown are split as those of the right-hand side, its others as the
    matrix; those over which products sum are whole."""
    refuse_sums(operation)
    of_a, of_b = operation.entries
    _check_batches(operation, [of_a[:-2], of_b[:-2]])
    left, transposed = operation.params["left_side"], operation.params["transpose_a"]
    summed = {"a": -1 if left != transposed else -2, "b": -2 if left else -1}
    for (name, dim), entries in zip(summed.items(), (of_a, of_b)):
        if entries[dim] is not None:
            fail(
                ShardingTypeError,
                f"triangular solve input `{name}` must be unsharded on the contracting axis, but "
                f"got {entries} with left_side={left} and transpose_a={transposed}.",
                f"the operands are {operation.texts()}",
                "lay the array out as a whole one along these before: reshard(x, P(...)).",
            )
    free = of_a[-2 if summed["a"] == -1 else -1]
    return [(*of_b[:-2], *((free, of_b[-1]) if left else (of_b[-2], free)))]


def _linalg(*ranks: int) -> SplitRule:
    """The rule of an operation on the last dimensions, so many of each operand, of batches."""

    def rule(operation: Operation) -> Sequence[Result]:
        refuse_sums(operation)
        name = operation.primitive
        counts = [*ranks, *[ranks[-1]] * (len(operation.operands) - len(ranks))]
        batches = []
        for i, (entries, rank) in enumerate(zip(operation.entries, counts)):
            batch, rest = entries[: len(entries) - rank], entries[len(entries) - rank :]
            if any(entry is not None for entry in rest):
                fail(
                    ShardingTypeError,
                    f"Input {i} to {name} must be unsharded on non-batch dimensions, but got "
                    f"{entries}.",
                    f"the operands are {operation.texts()}",
                    "lay the array out as a whole one along these before: reshard(x, P(...)).",
                )
            batches.append(batch)
        _check_batches(operation, batches)
        return [(*batches[0], *(None,) * (out.ndim - len(batches[0]))) for out in operation.results]

    return rule


_MATRICES = """
    cholesky eig eigh hessenberg lu qr svd schur geqrf geqp3 getrf symmetric_product
    tridiagonal
"""

RULES: dict[str, SplitRule | None] = {
    "dot_general": _dot_as_told,
    "conv_general_dilated": unless_said(_conv),
    "fft": plain(lambda op, e: e),
    **dict.fromkeys(_MATRICES.split(), _linalg(2)),
    "triangular_solve": _triangular_solve,
    "cholesky_update": _linalg(2, 1),
    "householder_product": _linalg(2, 1),
    "ormqr": _linalg(2, 1, 2),
    "lu_pivots_to_permutation": _linalg(1),
    "tridiagonal_solve": _linalg(1, 1, 1, 2),
}
