"""pmap: one program for each device, which talk through collectives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.api.flat import check_callable
from pyjax.api.jit import jit
from pyjax.api.vmap import vmap
from pyjax.core.errors import fail, new_error
from pyjax.core.structural import moveaxis
from pyjax.core.trace import Tracer
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import (
    broadcast_prefix,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_unflatten,
)
from pyjax.interpreters.batching import over_devices
from pyjax.lax.indexing.slicing import index_in_dim
from pyjax.lax.shape import expand_dims, squeeze
from pyjax.parallel.global_arrays import (
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from pyjax.parallel.shard_map import shard_map
from pyjax.runtime.array import DeviceArray, uncommitted
from pyjax.runtime.array_spec import array_spec, laid_out
from pyjax.runtime.devices import devices as all_devices
from pyjax.runtime.devices import local_devices, process_count
from pyjax.runtime.placement import device_put
from pyjax.sharding.mesh import Mesh
from pyjax.sharding.partition_spec import PartitionSpec as P
from pyjax.sharding.shardings import NamedSharding, PmapSharding, Sharding
from xla_backend.runtime.client import Device
from xla_backend.runtime.device_group import DeviceGroup


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

    On several devices it is a shard_map over a mesh with one axis, on one a vmap, unless the option
    `jax_pmap_shmap_merge` is on; results are the same, up to the order in which floats are added.
    With `jax_pmap_no_rank_reduction` off, the part of a result that is on one device lacks the
    mapped axis, if that has one example.

    Args:
      axis_name: name for collectives.  in_axes, out_axes, axis_size: as in vmap.
      static_broadcasted_argnums: positions of arguments that are compile-time constants.
      devices, backend: where to run; default all devices of the default platform. In a program of
        several processes, that map over the same axis, these are the devices of all of them: each
        process passes the examples of its own devices, and gets their results. Within another
        transformation the devices are those of this process, as in JAX.
    Raises:
      TypeError: `fun` is not callable.
      ValueError: the mapped axis is larger than the number of devices; no argument is mapped; the
        list of devices is empty.

    >>> mean = pyjax.pmap(lambda x: lax.pmean(x, "i"), axis_name="i")
    >>> mean(jnp.array([3.0])).tolist()  # one device, one example
    [3.0]
    """
    check_callable(fun)
    if devices is not None and not len(devices):
        fail(
            ValueError,
            "'devices' argument to pmap must be non-empty, or None.",
            "a program runs on a device",
            "leave it out for all devices of the default platform",
        )
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

        axis = _MappedAxis(axis_name, axes, dynamic, kwargs, axis_size, devices, backend)
        if _together(devices, backend):
            return axis.over_mesh(call, out_axes, dynamic, kwargs)
        name = object() if axis_name is None else axis_name
        mapped_call = vmap(call, axes, out_axes, axis_name=name, axis_size=axis_size)
        with over_devices(True):
            return mapped_call(*dynamic, **kwargs)

    functools.update_wrapper(mapped, fun)
    first = None if devices is None else devices[0]
    together = jit(mapped, static_argnums=static, donate_argnums=donated)
    on_one = jit(
        mapped, static_argnums=static, donate_argnums=donated, device=first, backend=backend
    )
    choose = lambda: together if _together(devices, backend) else on_one
    pmapped = _Pmapped(mapped, choose, out_axes, _mesh_axis(axis_name))
    if devices is not None:
        return pmapped

    def of_this_process() -> _Pmapped:
        return pmap(
            fun, axis_name, in_axes=in_axes, out_axes=out_axes, axis_size=axis_size,
            static_broadcasted_argnums=static_broadcasted_argnums, donate_argnums=donate_argnums,
            devices=local_devices(backend=backend),
        )  # fmt: skip

    return _OfProcesses(pmapped, of_this_process, in_axes, frozenset(static), backend)


def _together(devices: Sequence[Device] | None, backend: str | None) -> bool:
    """Whether it is a shard_map, which several devices run together, and not a vmap."""
    count = len(all_devices(backend) if devices is None else devices)
    return count > 1 or options.pmap_shmap_merge.value


def _first_of_each_process(backend: str | None, size: int) -> list[Device]:
    """Devices for so many examples, as many of each process."""
    count = process_count(backend)
    of_each = [local_devices(process, backend)[: size // count] for process in range(count)]
    return [device for found in of_each for device in found]


def _mesh_axis(axis_name: Any) -> Any:
    return "_internal_pmap_axis_name" if axis_name is None else axis_name


class _Pmapped:
    """The compiled function, with the stages of `jit`; its results say how they are laid out."""

    def __init__(
        self, wrapped: Any, choose: Callable[[], Any], out_axes: Any, axis_name: Any
    ) -> None:
        """`choose`: gives the compiled function, when devices are there."""
        self._choose = choose
        self.out_axes = out_axes
        self.axis_name = axis_name
        functools.update_wrapper(self, wrapped, updated=())

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(_movable, (args, kwargs))
        result = self._choose()(*args, **kwargs)
        keeps_rank = options.pmap_no_rank_reduction.value
        axes = broadcast_prefix(self.out_axes, result, lambda a: a is None)
        for x, axis in zip(tree_leaves(result), axes):
            _lay_out(x, axis, self.axis_name if keeps_rank else None)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._choose(), name)


# Methods of compiled functions that make something of the program alone.
_STAGES = ("eval_shape", "lower", "trace")


class _OfProcesses:
    """pmap over the devices of all processes, if there are several: the examples that this process
    passes become its part of whole arrays, and its part of the results is what it gets."""

    def __init__(
        self,
        pmapped: _Pmapped,
        of_this_process: Callable[[], _Pmapped],
        in_axes: Any,
        static: frozenset[int],
        backend: str | None,
    ) -> None:
        """`of_this_process`: makes one over the devices of this process."""
        self._pmapped = pmapped
        self._of_this_process = of_this_process
        self._in_axes = in_axes
        self._static = static
        self._backend = backend
        functools.update_wrapper(self, pmapped, updated=())

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if process_count(self._backend) == 1:
            return self._pmapped(*args, **kwargs)
        if any(isinstance(x, Tracer) for x in tree_leaves((args, kwargs))):
            return self._of_this_process()(*args, **kwargs)
        dims = self._dims(args, kwargs)
        leaves, tree = tree_flatten((args, kwargs))
        if any(d is not None and not -np.ndim(x) <= d < np.ndim(x) for x, d in zip(leaves, dims)):
            return self._pmapped(*args, **kwargs)  # which says what is wrong
        size = max([np.shape(x)[d] for x, d in zip(leaves, dims) if d is not None], default=1)
        size *= process_count(self._backend)
        found = _first_of_each_process(self._backend, size)
        _check_size(size, len(found))
        mesh = Mesh(found, (self._pmapped.axis_name,))
        whole = [
            x if d is None else make_array_from_process_local_data(_over(mesh, d, np.ndim(x)), x)
            for x, d in zip(leaves, dims)
        ]
        args, kwargs = tree_unflatten(tree, whole)
        result = self._pmapped(*args, **kwargs)
        axes = broadcast_prefix(self._pmapped.out_axes, result, lambda a: a is None)
        outs, out_tree = tree_flatten(result)
        return tree_unflatten(out_tree, [_own_part(x, a, mesh) for x, a in zip(outs, axes)])

    def _dims(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int | None]:
        """Which dimension of each leaf is mapped."""
        fixed = {number % len(args) for number in self._static}
        axes = self._in_axes
        of_args = axes if isinstance(axes, (tuple, list)) else [axes] * len(args)
        prefix = tuple(None if n in fixed else axis for n, axis in enumerate(of_args))
        found = broadcast_prefix(prefix, args, lambda a: a is None)
        return [*found, *[0] * len(tree_leaves(kwargs))]

    def __getattr__(self, name: str) -> Any:
        if name in _STAGES and process_count(self._backend) > 1:
            fail(
                NotImplementedError,
                f"pmap(...).{name} over the devices of {process_count(self._backend)} processes.",
                "the program is one of whole arrays, of which a process has its part only",
                "call the function; or use jit and shard_map, with whole arrays",
            )
        return getattr(self._pmapped, name)


def _over(mesh: Mesh, axis: int, rank: int) -> NamedSharding:
    return NamedSharding(mesh, P(*[None] * (axis % rank), *mesh.axis_names))


def _own_part(x: Any, axis: int | None, mesh: Mesh) -> Any:
    """The part of a result that this process has, over its own devices."""
    over = NamedSharding(mesh, P()) if axis is None else _over(mesh, axis, x.ndim)
    shards = device_put(x, over).addressable_shards
    shape = list(x.shape)
    if axis is not None:
        shape[axis] = sum(shard.data.shape[axis] for shard in shards)
    own = NamedSharding(mesh.local_mesh, over.spec)
    return make_array_from_single_device_arrays(tuple(shape), own, [s.data for s in shards])


def _movable(x: Any) -> Any:
    """Each device takes its example, wherever the array was put."""
    if type(x) is DeviceArray and x.committed and not isinstance(x.spec.device, DeviceGroup):
        return uncommitted(x)
    return x


def _lay_out(x: Any, axis: int | None, name: Any) -> None:
    """Lay out a result that was just made, of one example on one device: over a mesh of one axis,
    or (no name) without the mapped axis."""
    if axis is None or type(x) is not DeviceArray or isinstance(x.spec.device, DeviceGroup):
        return
    device = x.spec.device
    axis = axis + x.ndim if axis < 0 else axis
    if x.shape[axis] != 1:
        return
    sharding: Sharding = PmapSharding(device, axis)
    if name is not None:
        sharding = NamedSharding(Mesh([device], (name,)), P(*[None] * axis, name))
    x.spec = laid_out(array_spec(x.aval, device, True), sharding)


def _check_size(size: int, available: int) -> None:
    if size > available:
        raise new_error(
            ValueError,
            f"compiling computation that requires {size} logical devices, but only {available} "
            "devices are available.",
            "pmap runs one example on each device.",
            "use vmap to run several on one, or pmap(vmap(f)) of a batch for each device.",
        )


class _MappedAxis:
    """The axis that pmap maps: where it is in each argument, its size, and its devices."""

    def __init__(
        self,
        name: Any,
        axes: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        size: int | None,
        devices: Sequence[Device] | None,
        backend: str | None,
    ) -> None:
        is_none = lambda a: a is None
        per_argument = axes if isinstance(axes, tuple) else (axes,) * len(args)
        leaves, self._tree = tree_flatten((tuple(args), kwargs))
        of_args = broadcast_prefix(per_argument, tuple(args), is_none)
        self._dims = of_args + [0] * (len(leaves) - len(of_args))
        if all(d is None for d in self._dims):
            fail(
                ValueError,
                "pmap requires at least one argument with a mapped axis.",
                "each device takes its example of one",
                "map an argument (in_axes), or call the function without pmap",
            )
        for x, d in zip(leaves, self._dims):
            if d is not None and not -np.ndim(x) <= d < np.ndim(x):
                fail(
                    ValueError,
                    f"pmap was requested to map its argument along axis {d}, which an array of "
                    f"shape {np.shape(x)} does not have.",
                    "each device takes its example of every mapped argument",
                    "pass an array with an example for each device, or None in in_axes for what "
                    "all devices get whole",
                )
        if size is None:
            mapped = [(np.shape(x), d) for x, d in zip(leaves, self._dims) if d is not None]
            sizes = [shape[d] for shape, d in mapped]
            size = max(sizes, default=1)
            if len({*sizes}) > 1:
                fail(
                    ValueError,
                    f"pmap got inconsistent sizes for array axes to be mapped: {sizes}.",
                    "each device takes its example of every mapped argument.",
                    "pass arguments with as many examples, or map some along another axis "
                    "(in_axes=None: all devices get the whole).",
                )
        available = list(all_devices(backend) if devices is None else devices)
        _check_size(size, len(available))
        self._name = _mesh_axis(name)
        if devices is None and process_count(backend) > 1:
            available = _first_of_each_process(backend, size)
        self._mesh = Mesh(available[:size], (self._name,))

    def over_mesh(
        self, fun: Callable[..., Any], out_axes: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        """`fun` by shard_map: each device takes the dimension of size 1 out of its blocks, and puts
        one in front of its results."""
        leaves, tree = tree_flatten((tuple(args), kwargs))
        dims = [
            d + np.ndim(x) if d is not None and d < 0 else d for x, d in zip(leaves, self._dims)
        ]

        def of_block(*blocks: Any) -> Any:
            own = [x if d is None else squeeze(x, (d,)) for x, d in zip(blocks, dims)]
            parts, named = tree_unflatten(tree, own)
            return tree_map(lambda y: expand_dims(y, (0,)), fun(*parts, **named))

        mapped = shard_map(
            of_block,
            mesh=self._mesh,
            in_specs=tuple(P() if d is None else P(*[None] * d, self._name) for d in dims),
            out_specs=P(self._name),
            check_vma=False,
        )
        result = mapped(*leaves)
        wanted = broadcast_prefix(out_axes, result, lambda a: a is None)
        outs, out_tree = tree_flatten(result)
        return tree_unflatten(out_tree, [_placed(x, d) for x, d in zip(outs, wanted)])


def _placed(x: Any, dim: int | None) -> Any:
    """The mapped dimension, which is in front, where it is wanted; without one, the first."""
    if dim is None:
        return index_in_dim(x, 0, 0, keepdims=False)
    return moveaxis(x, 0, dim + x.ndim if dim < 0 else dim)
