"""make_jaxpr: the jaxpr of a function. Layer: api."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from pyjax.api.eval_shape import ShapeDtypeStruct
from pyjax.api.flat import FlatFunction, check_callable, normalize_argnums, wraps
from pyjax.core.avals import abstractify
from pyjax.core.axis_env import under_axis
from pyjax.core.debug_info import debug_info
from pyjax.core.source_info import function_name
from pyjax.core.tree_util import tree_flatten, tree_unflatten
from pyjax.interpreters.partial_eval import trace_to_jaxpr


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Iterable[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
    abstracted_axes: Any = None,
) -> Callable[..., Any]:
    """A function that returns the jaxpr of `fun` for given arguments, without running it.

    Args:
      fun: function of pytrees of arrays.
      static_argnums: positional arguments that are part of the program.
      axis_env: (name, size) of named axes to bind.
      return_shape: also return the output's pytree of ShapeDtypeStructs.
    Returns:
      Function of the arguments (arrays, numbers or ShapeDtypeStructs) -> ClosedJaxpr.

    >>> import pyjax.numpy as jnp
    >>> print(make_jaxpr(jnp.sin)(1.0))
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    """
    check_callable(fun)
    if abstracted_axes is not None:
        raise NotImplementedError("abstracted_axes (dynamic shapes) is not supported by make_jaxpr")
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @wraps(fun)
    def make_jaxpr_f(*args: Any, **kwargs: Any) -> Any:
        fixed = normalize_argnums(static, len(args), "make_jaxpr") if static else ()
        dynamic = tuple(x for i, x in enumerate(args) if i not in fixed)

        def of_dynamic(*xs: Any, **kw: Any) -> Any:
            values = iter(xs)
            return fun(*[x if i in fixed else next(values) for i, x in enumerate(args)], **kw)

        leaves, in_tree = tree_flatten((dynamic, kwargs))
        flat = FlatFunction(of_dynamic, in_tree, kwargs=True)
        debug = debug_info("make_jaxpr", fun, in_tree, fixed)
        trace: Callable[..., Any] = partial(trace_to_jaxpr, debug=debug)
        for name, size in reversed(axis_env or ()):
            trace = partial(under_axis, name, size, trace)
        closed, out_avals = trace(flat, [abstractify(x) for x in leaves])
        if not return_shape:
            return closed
        assert flat.out_tree is not None
        structs = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in out_avals]
        return closed, tree_unflatten(flat.out_tree, structs)

    make_jaxpr_f.__name__ = f"make_jaxpr({function_name(fun)})"
    return make_jaxpr_f
