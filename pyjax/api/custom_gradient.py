"""custom_gradient and closure_convert: helpers around custom rules. Layer: api."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyjax.api.custom_vjp import custom_vjp
from pyjax.api.flat import FlatFunction, check_callable, wraps
from pyjax.core import dtypes
from pyjax.core.avals import abstractify
from pyjax.core.debug_info import debug_info
from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr, Var, eval_jaxpr
from pyjax.core.trace import Tracer
from pyjax.core.tree_util import register_pytree_node_class, tree_flatten, tree_unflatten
from pyjax.interpreters.partial_eval import trace_to_jaxpr


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a function that returns its value together with its vjp function.

    Args:
      fun: returns `(output, vjp)`, where `vjp(cotangent)` gives the cotangent of each argument (a
        tuple
        for several arguments).

    >>> f = custom_gradient(lambda x: (x * x, lambda g: 3.0 * g))
    >>> from pyjax.api.grad import grad
    >>> float(grad(f)(2.0))
    3.0
    """
    check_callable(fun)

    @wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        f = custom_vjp(lambda *xs: fun(*xs, **kwargs)[0])

        def fwd(*xs: Any) -> Any:
            out, rule = fun(*xs, **kwargs)
            cts, ct_tree = tree_flatten(out)
            avals = [abstractify(x).to_tangent_aval() for x in cts]
            flat_rule = FlatFunction(
                lambda *ct: rule(tree_unflatten(ct_tree, ct)), _flat_tree(len(cts))
            )
            closed, _ = trace_to_jaxpr(flat_rule, avals, debug=debug_info("custom_gradient", rule))
            return out, _Residuals(closed.jaxpr, flat_rule.out_tree, closed.consts)

        def bwd(res: _Residuals, ct: Any) -> Any:
            outs = eval_jaxpr(res.jaxpr, res.consts, *tree_flatten(ct)[0])
            result = tree_unflatten(res.out_tree, outs)
            return result if isinstance(result, tuple) else (result,)

        f.defvjp(fwd, bwd)
        return f(*args)

    return wrapped


def _flat_tree(n: int) -> Any:
    return tree_flatten((0,) * n)[1]


@register_pytree_node_class
class _Residuals:
    """A traced vjp function: its constants are the residuals."""

    def __init__(self, jaxpr: Jaxpr, out_tree: Any, consts: list[Any]) -> None:
        self.jaxpr = jaxpr
        self.out_tree = out_tree
        self.consts = consts

    def tree_flatten(self) -> tuple[list[Any], Any]:
        return self.consts, (self.jaxpr, self.out_tree)

    @classmethod
    def tree_unflatten(cls, data: Any, consts: Any) -> _Residuals:
        jaxpr, out_tree = data
        return _Residuals(jaxpr, out_tree, list(consts))


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable, list[Any]]:
    """Turn values that a function closes over into arguments.

    Args:
      fun: function to convert; example_args: arguments of the types it will be called with.
    Returns:
      (converted, consts): `converted(*args, *consts)` computes `fun(*args)`. Only closed-over
      values
      that are differentiated by an enclosing transformation (traced, of inexact dtype) are hoisted.
    """
    leaves, in_tree = tree_flatten(example_args)
    flat = FlatFunction(fun, in_tree)
    avals = [abstractify(x) for x in leaves]
    closed, _ = trace_to_jaxpr(flat, avals, debug=debug_info("closure_convert", fun))
    hoist = [
        isinstance(c, Tracer) and dtypes.issubdtype(c.dtype, np.inexact) for c in closed.consts
    ]
    kept = [c for c, h in zip(closed.consts, hoist) if not h]
    hoisted = [c for c, h in zip(closed.consts, hoist) if h]
    converted = _reorder_consts(closed, hoist)
    num_args = len(example_args)
    out_tree = flat.out_tree
    assert out_tree is not None

    def converted_fun(*args_and_consts: Any) -> Any:
        args = args_and_consts[:num_args]
        values, tree = tree_flatten(tuple(args))
        if tree != in_tree:
            raise TypeError(
                "The inputs to the closure produced by closure_convert must have the same Pytree "
                f"structure as the example arguments passed when closure_convert was called. "
                f"Expected "
                f"{in_tree}, but got {tree}"
            )
        outs = eval_jaxpr(converted, kept, *args_and_consts[num_args:], *values)
        return tree_unflatten(out_tree, outs)

    return converted_fun, hoisted


def _reorder_consts(closed: ClosedJaxpr, hoist: list[bool]) -> Jaxpr:
    """Hoisted constvars become the first inputs."""
    jaxpr = closed.jaxpr
    hoisted: list[Var] = [v for v, h in zip(jaxpr.constvars, hoist) if h]
    kept = [v for v, h in zip(jaxpr.constvars, hoist) if not h]
    return jaxpr.replace(constvars=kept, invars=[*hoisted, *jaxpr.invars])
