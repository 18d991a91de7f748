"""jvp and linearize: forward-mode derivatives. Layer: api."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.api.flat import check_arrays, check_callable
from pyjax.core import dtypes
from pyjax.core.avals import abstractify
from pyjax.core.debug_info import DebugInfo
from pyjax.core.errors import new_error
from pyjax.core.jaxpr import Jaxpr, eval_jaxpr
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import Partial, PyTreeDef, tree_flatten, tree_unflatten
from pyjax.interpreters import ad
from pyjax.interpreters.flat_function import FlatFunction
from pyjax.interpreters.linearize import Linearized, linearize_aux
from pyjax.interpreters.tangents import Zero


@api_boundary
def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """Value and directional derivative: a Jacobian-vector product.

    Args:
      fun: function of pytrees of arrays.
      primals: tuple or list of arguments.
      tangents: tuple or list of the same structure, shapes and dtypes (float0 for integers).
      has_aux: `fun` returns (output, auxiliary data).
    Returns:
      (output, tangent of output), or these and aux.
    Raises:
      TypeError, ValueError: tangents do not match primals.

    >>> [float(v) for v in jvp(lambda x: x * x, (3.0,), (1.0,))]
    [9.0, 6.0]
    """
    check_callable(fun)
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise new_error(
            TypeError,
            "primal and tangent arguments to jax.jvp must be tuples or lists; found "
            f"{type(primals).__name__} and {type(tangents).__name__}.",
            "They hold one entry for each argument of the function.",
            "jvp(f, (x,), (t,))",
        )
    check_arrays("jvp", primals)
    leaves, in_tree = tree_flatten(tuple(primals))
    tangent_leaves, tangent_tree = tree_flatten(tuple(tangents))
    if in_tree != tangent_tree:
        raise new_error(
            TypeError,
            "primal and tangent arguments to jax.jvp must have the same tree structure; primals "
            f"have tree structure {in_tree} whereas tangents have tree structure {tangent_tree}.",
            "Each argument has a tangent of its own.",
            "Give as many tangents as primals, in the same containers.",
        )
    for p, t in zip(leaves, tangent_leaves):
        _check_tangent(p, t)
    flat = FlatFunction(fun, in_tree, has_aux)
    debug = DebugInfo("jvp", fun)
    outs, out_tangents, aux = ad.jvp_aux(flat.with_aux, leaves, tangent_leaves, debug)
    assert flat.out_tree is not None
    dense = [
        ad.zero_tangent_array(abstractify(p)) if type(t) is Zero else t
        for p, t in zip(outs, out_tangents)
    ]
    result = tree_unflatten(flat.out_tree, outs), tree_unflatten(flat.out_tree, dense)
    if not has_aux:
        return result
    assert flat.aux_tree is not None
    return (*result, tree_unflatten(flat.aux_tree, aux))


def _check_tangent(primal: Any, tangent: Any) -> None:
    primal_aval = abstractify(primal)
    expected = primal_aval.to_tangent_aval()
    check_arrays("jvp", tangent, "Tangent")
    got = abstractify(tangent)
    if got.dtype != expected.dtype:
        raise new_error(
            TypeError,
            "primal and tangent arguments to jax.jvp do not match; dtypes must be equal, or in "
            "case of int/bool primal dtype the tangent dtype must be float0. Got primal dtype "
            f"{_name(primal_aval.dtype)} and so expected tangent dtype {_name(expected.dtype)}, "
            f"but got tangent dtype {_name(got.dtype)} instead.",
        )
    if got.shape != expected.shape:
        raise new_error(
            ValueError,
            "jvp called with different primal and tangent shapes; "
            f"Got primal shape {primal_aval.shape} and tangent shape as {got.shape}",
            "A tangent is a small change of its primal: it has its shape.",
            "jnp.ones_like(primal) is one.",
        )


def _name(dtype: Any) -> str:
    return "float0" if dtype == dtypes.float0 else str(dtype)


class _LinearMap:
    """The static part of a linearized function; residuals are passed at each call."""

    def __init__(
        self, linear: Linearized, in_tree: PyTreeDef, in_avals: list[Any], out_tree: PyTreeDef
    ) -> None:
        self._jaxpr: Jaxpr = linear.jaxpr
        self._nonzero_in = linear.nonzero_in
        self._nonzero_out = linear.nonzero_out
        self._out_avals = linear.out_avals
        self._in_tree = in_tree
        self._in_avals = in_avals
        self._out_tree = out_tree

    @api_boundary
    def __call__(self, residuals: list[Any], *tangents: Any) -> Any:
        leaves, tree = tree_flatten(tangents)
        if tree != self._in_tree:
            raise new_error(
                TypeError,
                "the linearized function was called on tangents with tree structure "
                f"{tree}, the primals had {self._in_tree}",
            )
        for t, aval in zip(leaves, self._in_avals):
            expected, got = aval.to_tangent_aval(), abstractify(t)
            if (expected.shape, expected.dtype) != (got.shape, got.dtype):
                raise new_error(
                    ValueError,
                    "linearized function called on tangent values inconsistent with the original "
                    f"primal values: got tangent aval {got.str_short()} for primal aval "
                    f"{aval.str_short()}",
                )
        dense = [t for t, nz in zip(leaves, self._nonzero_in) if nz]
        found = iter(eval_jaxpr(self._jaxpr, residuals, *dense))
        outs = [
            next(found) if nz else ad.instantiate_zeros(Zero(a))
            for nz, a in zip(self._nonzero_out, self._out_avals)
        ]
        return tree_unflatten(self._out_tree, outs)


@api_boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Value of `fun` at `primals` and its derivative there as a function of tangents.

    The derivative is recorded once; applying it does not evaluate `fun` again.

    Returns:
      (output, f_jvp) or (output, f_jvp, aux); `f_jvp(*tangents)` has the structure of the output.

    >>> y, f_jvp = linearize(lambda x: x * x, 3.0)
    >>> float(f_jvp(2.0))
    12.0
    """
    check_callable(fun)
    check_arrays("linearize", primals)
    leaves, in_tree = tree_flatten(primals)
    flat = FlatFunction(fun, in_tree, has_aux)
    debug = DebugInfo("linearize", fun)
    outs, linear, aux = linearize_aux(flat.with_aux, leaves, None, debug)
    assert flat.out_tree is not None
    in_avals = [abstractify(x) for x in leaves]
    f_jvp = Partial(_LinearMap(linear, in_tree, in_avals, flat.out_tree), linear.residuals)
    out = tree_unflatten(flat.out_tree, outs)
    if not has_aux:
        return out, f_jvp
    assert flat.aux_tree is not None
    return out, f_jvp, tree_unflatten(flat.aux_tree, aux)
