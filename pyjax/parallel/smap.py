"""smap: shard_map over one axis of the mesh, with numbers of dimensions in the place of specs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

from pyjax.core.errors import fail, new_error
from pyjax.core.tree_util import tree_map
from pyjax.parallel.shard_map import Infer, shard_map
from pyjax.sharding.mesh import AxisType, context_mesh
from pyjax.sharding.partition_spec import PartitionSpec


def smap(
    f: Callable[..., Any] | None = None,
    /,
    *,
    in_axes: Any = Infer,
    out_axes: Any,
    axis_name: Hashable,
) -> Any:
    """Run `f` on each device's block of the arguments, along one axis of the mesh in context.

    Args:
      in_axes: the dimension that is cut: an integer or None for all arguments, or a tuple with one
        (or a pytree prefix) per argument. Left out: as the arguments lie (axes of type Explicit
        only).
      out_axes: the same for the results: along which dimension blocks are put together.
      axis_name: of the mesh; `f` uses it in collectives.
    Returns:
      The mapped function, or a decorator if `f` is left out.
    Raises:
      ValueError: there is no mesh in context, or what `shard_map` raises.
      TypeError: `in_axes`, `out_axes` or `axis_name` are of another kind.
      NotImplementedError: a negative dimension.

    >>> mesh = pyjax.make_mesh((1,), ("i",), axis_types=(pyjax.sharding.AxisType.Auto,))
    >>> with pyjax.set_mesh(mesh):
    ...     f = smap(lambda x: x - x.mean(), in_axes=0, out_axes=0, axis_name="i")
    ...     f(jnp.arange(3.0)).tolist()
    [-1.0, 0.0, 1.0]
    """
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    if isinstance(axis_name, (tuple, list, set)):
        raise new_error(
            TypeError, f"smap axis_name should be a `str` or a `Hashable`, but got {axis_name}"
        )
    if in_axes is not Infer and not (in_axes is None or isinstance(in_axes, (int, tuple))):
        raise new_error(
            TypeError,
            "smap in_axes must be an int, None, jax.sharding.Infer, or a tuple of entries "
            f"corresponding to the positional arguments passed to the function, but got {in_axes}.",
        )
    function = f

    @functools.wraps(function)
    def mapped(*args: Any) -> Any:
        mesh = context_mesh()
        if mesh is None or mesh.empty:
            raise new_error(
                ValueError,
                "The context mesh cannot be empty. Use `set_mesh(mesh)` to enter into a mesh "
                "context.",
            )
        types = dict(zip(mesh.axis_names, mesh.axis_types))
        if in_axes is Infer and types.get(axis_name) is not AxisType.Explicit:
            raise new_error(
                TypeError,
                f"in_axes was not specified, and the mesh axis {axis_name!r} is of type "
                f"{types.get(axis_name)}: only axes of type Explicit say how arguments lie.",
            )
        spec = functools.partial(_spec, axis_name)
        specs: Any = Infer
        if in_axes is not Infer:
            specs = tree_map(spec, in_axes, is_leaf=_is_axis)
        call = shard_map(
            function,
            in_specs=specs,
            out_specs=tree_map(spec, out_axes, is_leaf=_is_axis),
            axis_names={axis_name},
        )
        return call(*args)

    return mapped


def _is_axis(x: Any) -> bool:
    return x is None


def _spec(axis_name: Any, axis: Any) -> PartitionSpec:
    if axis is None:
        return PartitionSpec()
    if not isinstance(axis, int):
        raise new_error(TypeError, f"smap: an axis is an integer or None, got {axis!r}")
    if axis < 0:
        fail(
            NotImplementedError,
            f"smap: the axis {axis} counts from the end.",
            "how many dimensions there are is known of each array only",
            "Count from the front.",
        )
    return PartitionSpec(*[None] * axis, axis_name)
