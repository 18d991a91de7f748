"""custom_linear_solve: a linear solver of the user's, differentiated implicitly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyjax.core.avals import typecompat
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import tree_flatten, tree_structure, tree_unflatten
from pyjax.interpreters import ad
from pyjax.interpreters.batching import batch_jaxpr, bdim_at_front, not_mapped
from pyjax.interpreters.lift_constants import lift_groups, lift_rules
from pyjax.interpreters.rules import FullJvp, define_primitive
from pyjax.interpreters.traced_function import TracedFunction, trace_function
from pyjax.lax.arithmetic import sub
from pyjax.lax.common import aval_of
from pyjax.lax.control_flow.tracing import (
    avals_of,
    require_callable,
    split_list,
)
from pyjax.runtime.dispatch import constant_array


class LinearSolveTuple(NamedTuple):
    """One entry for each of the four functions."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transpose(self) -> LinearSolveTuple:
        return LinearSolveTuple(self.vecmat, self.matvec, self.transpose_solve, self.solve)


def _parts(args: Sequence[Any], lengths: LinearSolveTuple) -> tuple[LinearSolveTuple, list[Any]]:
    *consts, b = split_list(args, *lengths)
    return LinearSolveTuple(*consts), b


def _aval(*avals: Any, const_lengths: LinearSolveTuple, jaxprs: LinearSolveTuple) -> list[Any]:
    return list(jaxprs.solve.out_avals)


def _jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    const_lengths: LinearSolveTuple,
    jaxprs: LinearSolveTuple,
) -> tuple[list[Any], list[Any]]:
    """A x = b gives A x' = b' - A' x."""
    outs = linear_solve_p.bind(*primals, const_lengths=const_lengths, jaxprs=jaxprs)
    consts, b = _parts(primals, const_lengths)
    consts_t, rhs = _parts(tangents, const_lengths)
    x = outs[: len(b)]
    aux_tangents = [ad.Zero(aval_of(a).to_tangent_aval()) for a in outs[len(b) :]]
    matvec: ClosedJaxpr = jaxprs.matvec
    if any(type(t) is not ad.Zero for t in consts_t.matvec):
        _, moved = ad.jvp(lambda *params: matvec.eval(*params, *x), consts.matvec, consts_t.matvec)
        rhs = [_minus(r, m) for r, m in zip(rhs, moved)]
    if all(type(r) is ad.Zero for r in rhs):
        return outs, [ad.Zero(aval_of(o).to_tangent_aval()) for o in outs]
    dense = [ad.instantiate_zeros(r) for r in rhs]
    solved = linear_solve_p.bind(
        *consts.matvec,
        *consts.vecmat,
        *consts.solve,
        *consts.transpose_solve,
        *dense,
        const_lengths=const_lengths,
        jaxprs=jaxprs,
    )
    return outs, [*solved[: len(b)], *aux_tangents]


def _minus(a: Any, b: Any) -> Any:
    if type(b) is ad.Zero:
        return a
    return sub(ad.instantiate_zeros(a), b)


def _transpose(
    cts: Sequence[Any],
    *args: Any,
    const_lengths: LinearSolveTuple,
    jaxprs: LinearSolveTuple,
) -> list[Any]:
    """The transpose of A^-1 is (A^T)^-1: matvec and vecmat, solve and transpose_solve exchange
    roles.
    """
    if jaxprs.transpose_solve is None:
        fail(
            TypeError,
            "transpose_solve required for backwards mode automatic differentiation of "
            "custom_linear_solve",
            "reverse mode solves with the transposed operator.",
            "pass transpose_solve=..., or symmetric=True if the operator is its own transpose.",
        )
    consts, b = _parts(args, const_lengths)
    dense = [ad.instantiate_zeros(ct) for ct in cts[: len(b)]]
    swapped = consts.transpose()
    outs = linear_solve_p.bind(
        *swapped.matvec,
        *swapped.vecmat,
        *swapped.solve,
        *swapped.transpose_solve,
        *dense,
        const_lengths=const_lengths.transpose(),
        jaxprs=jaxprs.transpose(),
    )
    return [None] * (len(args) - len(b)) + list(outs[: len(b)])


def _batching(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[Any],
    *,
    const_lengths: LinearSolveTuple,
    jaxprs: LinearSolveTuple,
) -> Any:
    """Every function works on batched vectors; closed-over values stay unbatched where they are."""
    batched = [d is not not_mapped for d in dims]
    consts_b, b_flags = _parts(batched, const_lengths)
    all_b = [True] * len(b_flags)
    new = []
    for jaxpr, flags in zip(jaxprs, consts_b):
        new.append(
            None if jaxpr is None else batch_jaxpr(jaxpr, axis_size, [*flags, *all_b], True)[0]
        )
    n_consts = len(args) - len(b_flags)
    moved = [
        bdim_at_front(x, d, axis_size) if i >= n_consts or d is not not_mapped else x
        for i, (x, d) in enumerate(zip(args, dims))
    ]
    outs = linear_solve_p.bind(*moved, const_lengths=const_lengths, jaxprs=LinearSolveTuple(*new))
    return outs, [0] * len(outs)


def _lowering(
    ctx: Any, *operands: Any, const_lengths: LinearSolveTuple, jaxprs: LinearSolveTuple
) -> Any:
    consts, b = _parts(operands, const_lengths)
    return ctx.inline_jaxpr(jaxprs.solve, *consts.solve, *b)


linear_solve_p = define_primitive(
    "custom_linear_solve",
    multiple_results=True,
    abstract_eval=_aval,
    jvp=FullJvp(_jvp),
    transpose=_transpose,
    batching=_batching,
    lowering=_lowering,
)
lift_rules[linear_solve_p] = lift_groups


def check_like(
    what: str, tree: Any, avals: Sequence[Any], out_tree: Any, out_avals: Sequence[Any]
) -> None:
    """A function must return the structure and types of its vector argument."""
    if out_tree != tree:
        fail(
            TypeError,
            f"{what} output must have the same pytree structure as its input: expected {tree}, got "
            f"{out_tree}.",
        )
    for have, need in zip(out_avals, avals):
        if not typecompat(have, need):
            fail(
                TypeError,
                f"{what} output must have the types of its input: expected {need.str_short()}, got "
                f"{have.str_short()}.",
            )


@api_boundary
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Solve matvec(x) = b with the given solver; derivatives come from the equation, not the
    solver.

    Args:
      matvec: linear function of a pytree like b; may close over differentiated values.
      b: right-hand side.
      solve: `solve(matvec, b)` returns x (with has_aux: `(x, aux)`).
      transpose_solve: `transpose_solve(vecmat, b)`, for reverse mode of unsymmetric operators.
      symmetric: matvec is its own transpose; solve serves as transpose_solve.
    Returns:
      x, or (x, aux).
    Raises:
      TypeError: a function returns another structure or type; reverse mode without transpose_solve.

    >>> lax.custom_linear_solve(lambda x: 4.0 * x, jnp.float32(2), lambda _, b: b / 4.0)
    Array(0.5, dtype=float32)
    """
    require_callable("lax.custom_linear_solve: matvec and solve", matvec, solve)
    if transpose_solve is None and symmetric:
        transpose_solve = solve
    b_flat, tree = tree_flatten(b)
    avals = avals_of(b_flat)
    in_tree = tree_structure(((b,), {}))
    # At the next call the matrix may be another one, by what `matvec` closes over.
    mat = trace_function("custom_linear_solve", matvec, in_tree, avals, static_key=None)
    check_like("matvec() in custom_linear_solve", tree, avals, mat.out_tree, mat.out_avals)

    def vecmat(ct: Any) -> Any:
        undefined = [ad.UndefinedPrimal(a) for a in avals]
        found = ad.backward_pass(
            mat.closed.jaxpr, mat.closed.consts, [*mat.consts, *undefined], tree_flatten(ct)[0]
        )
        return tree_unflatten(tree, [ad.instantiate_zeros(x) for x in found[len(mat.consts) :]])

    solved = trace_function("custom_linear_solve", lambda v: solve(matvec, v), in_tree, avals)
    check_solution("solve() in custom_linear_solve", tree, avals, solved, has_aux)
    vec = transposed = None
    if transpose_solve is not None:
        backwards = matvec if symmetric else vecmat
        vec = mat if symmetric else trace_function("custom_linear_solve", vecmat, in_tree, avals)
        reverse_solve = transpose_solve
        transposed = trace_function(
            "custom_linear_solve", lambda v: reverse_solve(backwards, v), in_tree, avals
        )
        check_solution("transpose_solve() in custom_linear_solve", tree, avals, transposed, has_aux)
    traced = LinearSolveTuple(mat, vec, solved, transposed)
    consts = [[] if t is None else t.operands(constant_array) for t in traced]
    outs = linear_solve_p.bind(
        *[c for group in consts for c in group],
        *b_flat,
        const_lengths=LinearSolveTuple(*map(len, consts)),
        jaxprs=LinearSolveTuple(*[None if t is None else t.closed for t in traced]),
    )
    return tree_unflatten(solved.out_tree, outs)


def check_solution(
    what: str, tree: Any, avals: Sequence[Any], traced: TracedFunction, has_aux: bool
) -> None:
    """The result of a solver is like b, or a pair whose first member is."""
    out_tree, out_avals = traced.out_tree, traced.out_avals
    if has_aux:
        children = out_tree.children()
        if len(children) != 2:
            fail(TypeError, f"{what} must return a pair (x, aux) with has_aux, got {out_tree}.")
        out_tree = children[0]
        out_avals = out_avals[: out_tree.num_leaves]
    check_like(what, tree, avals, out_tree, out_avals)
