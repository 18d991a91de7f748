"""Layouts as part of types: reshard, and functions whose mesh axes are explicit or automatic."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from pyjax.core.errors import fail
from pyjax.core.tree_util import broadcast_prefix, tree_flatten, tree_map, tree_unflatten
from pyjax.lax.out_sharding import explicit_sharding
from pyjax.lax.reshard import reshard_to, under_axis_types, without_types_along
from pyjax.sharding.mesh import AxisType, get_abstract_mesh
from pyjax.sharding.partition_spec import PartitionSpec
from pyjax.sharding.shardings import Sharding


def reshard(xs: Any, out_shardings: Any) -> Any:
    """Arrays laid out anew.

    Args:
      xs: pytree of arrays.
      out_shardings: a NamedSharding, or a PartitionSpec of the mesh in context; or a pytree of
        them, a prefix of xs.
    Returns:
      The same values with these shardings.
    Raises:
      TypeError: another kind of sharding, or a device; what is no array.
      ValueError: a PartitionSpec, and no mesh is in context, or one that does not fit; it names
        axes that are not of type Explicit; None.

    >>> import pyjax, pyjax.numpy as jnp
    >>> mesh = pyjax.make_mesh((1,), ("x",))
    >>> reshard(jnp.arange(2.0), pyjax.NamedSharding(mesh, pyjax.P("x"))).sharding.spec
    P('x',)
    """

    is_layout = lambda v: v is None or isinstance(v, (PartitionSpec, Sharding))
    targets = broadcast_prefix(out_shardings, xs, is_layout)
    leaves, tree = tree_flatten(xs)
    return tree_unflatten(tree, [_reshard(x, target) for x, target in zip(leaves, targets)])


def _reshard(x: Any, target: Any) -> Any:
    if target is None:
        fail(
            ValueError,
            "reshard got None instead of a sharding.",
            "it lays arrays out as it is told",
            "leave the array out, or pass P() for one that is not split",
        )
    return reshard_to(x, explicit_sharding("reshard", target))


def _names(axes: Any) -> tuple[Any, ...]:
    """These axes of the mesh in context; None: all of them."""
    mesh = get_abstract_mesh()
    names = mesh.axis_names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    unknown = [name for name in names if name not in mesh.axis_names]
    if unknown:
        fail(
            ValueError,
            f"the mesh in context has no axis {unknown[0]!r}; it has {mesh.axis_names}.",
            fix="Enter the mesh with jax.set_mesh, and name its axes.",
        )
    return names


def _required(name: str, value: Any) -> Any:
    if value is None:
        raise TypeError(
            f"Missing required keyword argument: {name!r}. Pass it where the function is made, or "
            "where it is called."
        )
    return value


def auto_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: str | tuple[str, ...] | None = None,
    out_sharding: Any = None,
) -> Callable[..., Any]:
    """A function inside of which the compiler decides about layouts.

    Args:
      f: function of pytrees of arrays; left out: what takes it is returned.
      axes: mesh axes that are automatic inside; None: all of them.
      out_sharding: of the results, as `reshard` takes them; here, or as a keyword of the call.
    Raises:
      TypeError: out_sharding is in neither place.

    >>> import pyjax, pyjax.numpy as jnp
    >>> with pyjax.set_mesh(pyjax.make_mesh((1,), ("x",))):
    ...     auto_axes(lambda x: 2 * x, out_sharding=PartitionSpec("x"))(jnp.arange(2.0)).tolist()
    [0.0, 2.0]
    """
    if f is None:
        return lambda g: auto_axes(g, axes=axes, out_sharding=out_sharding)
    made_with = out_sharding

    @wraps(f)
    def call(*args: Any, out_sharding: Any = None, **kwargs: Any) -> Any:
        layouts = made_with if out_sharding is None else out_sharding
        _required("out_sharding", layouts)
        names = _names(axes)
        leaves, tree = tree_flatten((args, kwargs))
        untyped = tree_unflatten(tree, [without_types_along(x, names) for x in leaves])
        with under_axis_types(AxisType.Auto, names):
            results = f(*untyped[0], **untyped[1])
        return reshard(results, layouts)

    return call


def explicit_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: str | tuple[str, ...] | None = None,
    in_sharding: Any = None,
) -> Callable[..., Any]:
    """A function inside of which layouts are part of types.

    Args:
      f: function of pytrees of arrays; left out: what takes it is returned.
      axes: mesh axes that are explicit inside; None: all of them.
      in_sharding: of the positional arguments, as `reshard` takes them; here, or as a keyword of
        the call.
    Raises:
      TypeError: in_sharding is in neither place.   ValueError: no mesh is in context.

    >>> import pyjax, pyjax.numpy as jnp
    >>> mesh = pyjax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))
    >>> with pyjax.set_mesh(mesh):
    ...     explicit_axes(lambda x: 2 * x, in_sharding=PartitionSpec("x"))(jnp.arange(2.0)).tolist()
    [0.0, 2.0]
    """
    if f is None:
        return lambda g: explicit_axes(g, axes=axes, in_sharding=in_sharding)
    made_with = in_sharding

    @wraps(f)
    def call(*args: Any, in_sharding: Any = None, **kwargs: Any) -> Any:
        layouts = made_with if in_sharding is None else in_sharding
        _required("in_sharding", layouts)
        if get_abstract_mesh().empty:
            fail(
                ValueError,
                "explicit_axes: Context mesh cannot be empty.",
                "it makes axes of the mesh in context explicit",
                "call it inside `with jax.set_mesh(mesh):`",
            )
        names = _names(axes)
        automatic = [name for name in names if name in get_abstract_mesh().auto_axes]
        with under_axis_types(AxisType.Explicit, names):
            single = isinstance(layouts, (PartitionSpec, Sharding))
            moved = [reshard(x, layouts) for x in args] if single else reshard(args, layouts)
            results = f(*moved, **kwargs)
        return tree_map(lambda x: without_types_along(x, automatic), results)

    return call


__all__ = ["auto_axes", "explicit_axes", "reshard"]
