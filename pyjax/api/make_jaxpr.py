"""make_jaxpr: the jaxpr of a function. Layer: api."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from pyjax.api.call_signature import CallSignature
from pyjax.api.eval_shape import struct_of
from pyjax.api.flat import check_callable, wraps
from pyjax.core.avals import aval_described
from pyjax.core.axis_env import under_axis, under_mesh_axes
from pyjax.core.errors import new_error
from pyjax.core.source_info import function_name
from pyjax.core.tree_util import tree_flatten, tree_unflatten
from pyjax.interpreters.traced_function import TracedFunction, trace_function
from pyjax.sharding.mesh import get_abstract_mesh


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
        raise new_error(
            NotImplementedError,
            "abstracted_axes (dynamic shapes) is not supported by make_jaxpr",
            "a jaxpr has the sizes of the arrays that it was made for",
            "Make one for each shape; pyjax.export has programs of symbolic sizes.",
        )
    signature = CallSignature(fun, static_argnums, None)

    @wraps(fun)
    def make_jaxpr_f(*args: Any, **kwargs: Any) -> Any:
        args, kwargs, static = signature.split(args, kwargs)
        leaves, in_tree = tree_flatten((args, kwargs))
        trace: Callable[..., TracedFunction] = trace_function
        manual = get_abstract_mesh().manual_axes
        for name, size in reversed(axis_env or ()):
            if name in manual:
                trace = partial(under_mesh_axes, ((name, size),), trace)
            else:
                trace = partial(under_axis, name, size, trace)
        avals = [aval_described(x) for x in leaves]
        key = signature.static_key_if_any(static)
        traced = trace("make_jaxpr", fun, in_tree, avals, static, key)
        if not return_shape:
            return traced.with_constants
        structs = [struct_of(a) for a in traced.out_avals]
        return traced.with_constants, tree_unflatten(traced.out_tree, structs)

    make_jaxpr_f.__name__ = f"make_jaxpr({function_name(fun)})"
    return make_jaxpr_f
