"""custom_gradient and closure_convert: helpers around custom rules. Layer: api."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyjax.api.custom_vjp import custom_vjp
from pyjax.api.flat import check_callable, wraps
from pyjax.core import dtypes
from pyjax.core.avals import abstractify
from pyjax.core.errors import new_error
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.trace import Tracer
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import register_pytree_node_class, tree_flatten, tree_unflatten
from pyjax.interpreters.traced_function import trace_function


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a function that returns its value together with its vjp function.

    Args:
      fun: returns `(output, vjp)`, where `vjp(cotangent)` gives the cotangent of each argument (a
        tuple for several arguments).

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
            cts, ct_tree = tree_flatten(((out,), {}))
            avals = [abstractify(x).to_tangent_aval() for x in cts]
            traced = trace_function("custom_gradient", rule, ct_tree, avals)
            return out, _Residuals(traced.closed, traced.out_tree, traced.consts)

        def bwd(res: _Residuals, ct: Any) -> Any:
            outs = res.closed.eval(*res.consts, *tree_flatten(ct)[0])
            result = tree_unflatten(res.out_tree, outs)
            return result if isinstance(result, tuple) else (result,)

        f.defvjp(fwd, bwd)
        return f(*args)

    return wrapped


@register_pytree_node_class
class _Residuals:
    """A traced vjp function: its constants are the residuals."""

    def __init__(self, closed: ClosedJaxpr, out_tree: Any, consts: list[Any]) -> None:
        self.closed = closed
        self.out_tree = out_tree
        self.consts = consts

    def tree_flatten(self) -> tuple[list[Any], Any]:
        return self.consts, (self.closed, self.out_tree)

    @classmethod
    def tree_unflatten(cls, data: Any, consts: Any) -> _Residuals:
        closed, out_tree = data
        return _Residuals(closed, out_tree, list(consts))


@api_boundary
def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable, list[Any]]:
    """Turn values that a function closes over into arguments.

    Args:
      fun: function to convert; example_args: arguments of the types it will be called with.
    Returns:
      (converted, consts): `converted(*args, *consts)` computes `fun(*args)`. Only closed-over
      values that are differentiated by an enclosing transformation (traced, of inexact dtype) are
      hoisted.

    >>> f, extra = pyjax.closure_convert(lambda x: 2 * x, 1.0)
    >>> f(3.0, *extra)
    Array(6., dtype=float32, weak_type=True)
    """
    leaves, in_tree = tree_flatten((example_args, {}))
    traced = trace_function("closure_convert", fun, in_tree, [abstractify(x) for x in leaves])
    hoist = [
        isinstance(c, Tracer) and dtypes.issubdtype(c.dtype, np.inexact) for c in traced.consts
    ]
    num_args = len(example_args)

    def converted_fun(*args_and_consts: Any) -> Any:
        values, tree = tree_flatten((args_and_consts[:num_args], {}))
        if tree != in_tree:
            raise new_error(
                TypeError,
                "The inputs to the closure produced by closure_convert must have the same Pytree "
                "structure as the example arguments passed when closure_convert was called. "
                f"Expected {in_tree}, but got {tree}",
            )
        given = iter(args_and_consts[num_args:])
        consts = [next(given) if h else c for c, h in zip(traced.consts, hoist)]
        return tree_unflatten(traced.out_tree, traced.closed.eval(*consts, *values))

    return converted_fun, [c for c, h in zip(traced.consts, hoist) if h]
