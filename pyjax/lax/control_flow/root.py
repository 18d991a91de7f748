"""custom_root: a root found by a solver of the user's, differentiated by the implicit function
theorem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import tree_flatten, tree_structure, tree_unflatten
from pyjax.interpreters import ad
from pyjax.interpreters.batching import batch_jaxpr, bdim_at_front, not_mapped
from pyjax.interpreters.lift_constants import lift_groups, lift_rules
from pyjax.interpreters.linearize import linearize
from pyjax.interpreters.rules import FullJvp, Unsupported, define_primitive
from pyjax.interpreters.traced_function import trace_function
from pyjax.lax.arithmetic import neg
from pyjax.lax.common import aval_of
from pyjax.lax.control_flow.linear_solve import check_like, check_solution
from pyjax.lax.control_flow.tracing import (
    avals_of,
    require_callable,
    split_list,
)
from pyjax.runtime.dispatch import constant_array

# Operands: constants of f, of the solver and of the tangent solver, then the initial guess.
Lengths = tuple[int, int, int]
Jaxprs = tuple[ClosedJaxpr, ClosedJaxpr, ClosedJaxpr]


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, const_lengths: Lengths, jaxprs: Jaxprs
) -> tuple[list[Any], list[Any]]:
    """f(x, p) = 0 gives x' = -(df/dx)^-1 (df/dp) p'."""
    outs = custom_root_p.bind(*primals, const_lengths=const_lengths, jaxprs=jaxprs)
    f_consts, _, tangent_consts, guess = split_list(primals, *const_lengths)
    f_tangents = list(tangents[: const_lengths[0]])
    zeros = [ad.Zero(aval_of(o).to_tangent_aval()) for o in outs]
    if all(type(t) is ad.Zero for t in f_tangents):
        return outs, zeros
    x = outs[: len(guess)]
    _, rhs = ad.jvp(lambda *params: jaxprs[0].eval(*params, *x), f_consts, f_tangents)
    if all(type(r) is ad.Zero for r in rhs):
        return outs, zeros
    dense = [ad.instantiate_zeros(r) for r in rhs]
    moved = jaxprs[2].eval(*tangent_consts, *x, *dense)
    return outs, [neg(m) for m in moved] + zeros[len(guess) :]


def _batching(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[Any],
    *,
    const_lengths: Lengths,
    jaxprs: Jaxprs,
) -> Any:
    batched = [d is not not_mapped for d in dims]
    *consts_b, guess_b = split_list(batched, *const_lengths)
    all_b = [True] * len(guess_b)
    vectors = (all_b, all_b, all_b + all_b)
    new = tuple(
        batch_jaxpr(jaxpr, axis_size, [*flags, *vector], True)[0]
        for jaxpr, flags, vector in zip(jaxprs, consts_b, vectors)
    )
    n_consts = sum(const_lengths)
    moved = [
        bdim_at_front(x, d, axis_size) if i >= n_consts or d is not not_mapped else x
        for i, (x, d) in enumerate(zip(args, dims))
    ]
    outs = custom_root_p.bind(*moved, const_lengths=const_lengths, jaxprs=new)
    return outs, [0] * len(outs)


def _lowering(ctx: Any, *operands: Any, const_lengths: Lengths, jaxprs: Jaxprs) -> Any:
    _, solve_consts, _, guess = split_list(operands, *const_lengths)
    return ctx.inline_jaxpr(jaxprs[1], *solve_consts, *guess)


custom_root_p = define_primitive(
    "custom_root",
    multiple_results=True,
    abstract_eval=lambda *avals, const_lengths, jaxprs: list(jaxprs[1].out_avals),
    jvp=FullJvp(_jvp),
    transpose=Unsupported("a root is not linear; its derivative uses tangent_solve"),
    batching=_batching,
    lowering=_lowering,
)
lift_rules[custom_root_p] = lift_groups


@api_boundary
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """Find x with f(x) = 0; differentiable in what f closes over, whatever the solver does.

    Args:
      f: from a pytree like initial_guess to one of the same types; zero at the root.
      solve: `solve(f, initial_guess)` returns the root (with has_aux: `(root, aux)`).
      tangent_solve: `tangent_solve(g, y)` solves g(x) = y for a linear g. For scalars:
        `lambda g, y: y / g(1.0)`.
    Returns:
      the root, or (root, aux). aux is not differentiated.
    Raises:
      TypeError: a function returns another structure or type.

    >>> lax.custom_root(lambda x: x - 3.0, 0.0, lambda f, x: x - f(x), lambda g, y: y / g(1.0))
    Array(3., dtype=float32, weak_type=True)
    """
    require_callable("lax.custom_root: f, solve and tangent_solve", f, solve, tangent_solve)
    guess, tree = tree_flatten(initial_guess)
    avals = avals_of(guess)
    in_tree = tree_structure(((initial_guess,), {}))
    # At the next call the function may be another one, by what it closes over.
    f_traced = trace_function("custom_root", f, in_tree, avals, static_key=None)
    check_like("f() in custom_root", tree, avals, f_traced.out_tree, f_traced.out_avals)
    solved = trace_function("custom_root", lambda x: solve(f, x), in_tree, avals)
    check_solution("solve() in custom_root", tree, avals, solved, has_aux)

    def linearize_and_solve(x: Any, y: Any) -> Any:
        def flat_f(*leaves: Any) -> list[Any]:
            return tree_flatten(f(tree_unflatten(tree, leaves)))[0]

        _, linear = linearize(flat_f, tree_flatten(x)[0])

        def g(t: Any) -> Any:
            outs = linear.apply(tree_flatten(t)[0])
            return tree_unflatten(tree, [ad.instantiate_zeros(o) for o in outs])

        return tangent_solve(g, y)

    pair_tree = tree_structure(((initial_guess, initial_guess), {}))
    tangent = trace_function("custom_root", linearize_and_solve, pair_tree, [*avals, *avals])
    check_like("tangent_solve() in custom_root", tree, avals, tangent.out_tree, tangent.out_avals)
    traced = (f_traced, solved, tangent)
    consts = [t.operands(constant_array) for t in traced]
    outs = custom_root_p.bind(
        *[c for group in consts for c in group],
        *guess,
        const_lengths=tuple(map(len, consts)),
        jaxprs=tuple(t.closed for t in traced),
    )
    return tree_unflatten(solved.out_tree, outs)
