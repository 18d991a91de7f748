"""pmap and shard_map: one program on each device of a mesh, talking through collectives.

Each mesh axis is a mapped axis of size one for now, so collectives are those of vmap.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.api.jit import jit
from pyjax.api.vmap import vmap
from pyjax.core.tree_util import tree_broadcast, tree_leaves, tree_map
from pyjax.lax.shape import squeeze
from pyjax.runtime.devices import default_device
from pyjax.runtime.devices import devices as all_devices
from pyjax.runtime.placement import device_put
from pyjax.sharding.mesh import AbstractMesh, Mesh, context_mesh
from pyjax.sharding.partition_spec import PartitionSpec
from pyjax.sharding.shardings import NamedSharding
from xla_backend.runtime.client import Device


class _Infer:
    """`in_specs`: taken from the arguments."""

    def __repr__(self) -> str:
        return "Infer"


Infer = _Infer()


def _is_spec(x: Any) -> bool:
    return x is None or isinstance(x, PartitionSpec)


def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = Infer,
    mesh: Mesh | AbstractMesh | None = None,
    axis_names: AbstractSet[Any] = frozenset(),
    check_vma: bool = True,
) -> Any:
    """Run `f` on each device's part of the arguments; `f` sees the mesh axes as named axes.

    Args:
      in_specs, out_specs: pytree prefixes of PartitionSpec: how arguments are split, and results
        put together.
      mesh: default the mesh in context.
      axis_names: the axes that `f` sees; default all.
    Returns:
      The mapped function, or a decorator if `f` is left out.
    Raises:
      ValueError: no mesh; or a spec names an unknown axis, or does not fit its array.
      NotImplementedError: the mesh has several devices.

    >>> from pyjax import P, lax, make_mesh, numpy as jnp
    >>> g = shard_map(lambda x: lax.psum(x, "i"), mesh=make_mesh((1,), ("i",)), in_specs=P("i"),
    ...               out_specs=P())
    >>> g(2.0 * jnp.ones(3)).tolist()
    [2.0, 2.0, 2.0]
    """
    if f is None:
        return functools.partial(
            shard_map,
            out_specs=out_specs,
            in_specs=in_specs,
            mesh=mesh,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    function = f

    @functools.wraps(function)
    def mapped(*args: Any) -> Any:
        where = context_mesh() if mesh is None else mesh
        if where is None or where.empty:
            raise ValueError(
                "shard_map needs a mesh: pass mesh=..., or call it inside `with set_mesh(mesh):`."
            )
        if where.size != 1:
            raise NotImplementedError(
                f"shard_map over {where}: programs over several devices are not supported yet; "
                "use a mesh of one device."
            )
        unknown = set(axis_names) - set(where.axis_names)
        if unknown:
            raise ValueError(f"shard_map: axis_names {unknown} are not in {where}")
        if in_specs is not Infer:
            _check_specs("in_specs", where, in_specs, args)
        names = [n for n in where.axis_names if not axis_names or n in axis_names]
        result = _on_device_of(where, _bind_axes(function, names), args)
        _check_specs("out_specs", where, out_specs, result)
        return result

    return mapped


def _check_specs(which: str, mesh: Any, specs: Any, values: Any) -> None:
    try:
        spread = tree_broadcast(specs, values, is_leaf=_is_spec)
    except ValueError as error:
        raise ValueError(f"shard_map: {which} is no prefix of the values: {error}") from error
    for spec, x in zip(tree_leaves(spread, is_leaf=_is_spec), tree_leaves(values)):
        if spec is None:
            continue
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"shard_map: {which} must hold PartitionSpecs, got {spec!r}")
        NamedSharding(mesh, spec).check_compatible_aval(getattr(x, "shape", ()))


def _on_device_of(mesh: Any, f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """`f(*args)` on the device of a mesh that has one."""
    if isinstance(mesh, AbstractMesh):
        return f(*args)
    (device,) = mesh.devices.flat
    if device is default_device():
        return f(*args)
    with options.default_device(device):
        return f(*device_put(args, device))


def _bind_axes(f: Callable[..., Any], names: Sequence[Any]) -> Callable[..., Any]:
    """`f` under mapped axes of size 1 with the given names."""
    for name in reversed(names):
        f = _bind_axis(f, name)
    return f


def _bind_axis(f: Callable[..., Any], name: Any) -> Callable[..., Any]:
    batched = vmap(f, in_axes=None, out_axes=0, axis_name=name, axis_size=1)
    return lambda *args: tree_map(lambda x: squeeze(x, (0,)), batched(*args))


def pmap(
    fun: Callable[..., Any],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Iterable[int] = (),
    devices: Sequence[Device] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Iterable[int] = (),
) -> Any:
    """Compile `fun` and run it on each device, mapped over an axis of the arguments.

    Args:
      axis_name: name for collectives.  in_axes, out_axes, axis_size: as in vmap.
      static_broadcasted_argnums: positions of arguments that are compile-time constants.
      devices, backend: where to run; default all devices of the default platform. An array has
        one device: the program runs on the first of `devices`, and its results lie there.
    Raises:
      ValueError: the mapped axis is larger than the number of devices.
    """
    static = static_broadcasted_argnums
    static = (static,) if isinstance(static, int) else tuple(static)
    donated = (donate_argnums,) if isinstance(donate_argnums, int) else tuple(donate_argnums)

    def mapped(*args: Any, **kwargs: Any) -> Any:
        fixed = {i % len(args): args[i] for i in static}
        dynamic = [a for i, a in enumerate(args) if i not in fixed]
        axes = in_axes
        if isinstance(in_axes, (tuple, list)):
            axes = tuple(a for i, a in enumerate(in_axes) if i not in fixed)

        def call(*parts: Any, **named: Any) -> Any:
            rest = iter(parts)
            return fun(*(fixed[i] if i in fixed else next(rest) for i in range(len(args))), **named)

        _check_devices(axes, dynamic, kwargs, axis_size, devices, backend)
        name = object() if axis_name is None else axis_name
        return vmap(call, axes, out_axes, axis_name=name, axis_size=axis_size)(*dynamic, **kwargs)

    functools.update_wrapper(mapped, fun)
    first = None if devices is None else devices[0]
    return jit(mapped, static_argnums=static, donate_argnums=donated, device=first, backend=backend)


def _check_devices(
    axes: Any, args: Any, kwargs: Any, axis_size: Any, devices: Any, backend: Any
) -> None:
    available = len(all_devices(backend)) if devices is None else len(devices)
    if axis_size is None:
        spread = tree_broadcast(
            axes if isinstance(axes, tuple) else (axes,) * len(args),
            tuple(args),
            is_leaf=lambda a: a is None,
        )
        leaves = zip(tree_leaves(spread, is_leaf=lambda a: a is None), tree_leaves(tuple(args)))
        sizes = [x.shape[a] for a, x in leaves if a is not None and np.ndim(x)]
        sizes += [x.shape[0] for x in tree_leaves(kwargs) if np.ndim(x)]
        axis_size = max(sizes, default=1)
    if axis_size > available:
        raise ValueError(
            f"compiling computation that requires {axis_size} logical devices, but only "
            f"{available} devices are available.\n  pmap runs one example on each device; use "
            "vmap to run several on one."
        )
