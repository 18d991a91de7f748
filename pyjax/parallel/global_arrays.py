"""Meshes of devices, and arrays put together from parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core import dtypes
from pyjax.core.array import Array
from pyjax.core.avals import ShapedArray, abstractify
from pyjax.core.errors import fail, new_error
from pyjax.core.tree_util import tree_broadcast, tree_map
from pyjax.runtime.array import DeviceArray, array_from, relaid
from pyjax.runtime.array_elsewhere import ArrayElsewhere
from pyjax.runtime.array_spec import spec_over
from pyjax.runtime.devices import devices as all_devices
from pyjax.runtime.placement import device_put
from pyjax.runtime.transfers import Direction, Transfer, armed, check_transfer, description
from pyjax.sharding.mesh import NAMES_AND_SIZES, AxisType, Mesh
from pyjax.sharding.shardings import Sharding, context_sharding, resolve_device
from xla_backend.process.bounded_cache import BoundedCache, Budget
from xla_backend.runtime.client import Device
from xla_backend.runtime.device_group import DeviceGroup, Parts

Index = tuple[Any, ...]


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str],
    axis_types: tuple[AxisType, ...] | None = None,
    *,
    devices: Sequence[Device] | None = None,
) -> Mesh:
    """A mesh of the given shape over the first devices.

    Args:
      axis_shapes, axis_names: size and name of each axis.
      axis_types: default Explicit for all.
      devices: default all devices of the default platform.
    Raises:
      ValueError: there are too few devices, or numbers of names and sizes differ.

    >>> make_mesh((1, 1), ("x", "y")).axis_names
    ('x', 'y')
    """
    found = list(all_devices() if devices is None else devices)
    shape = tuple(int(s) for s in axis_shapes)
    count = math.prod(shape)
    if len(shape) != len(axis_names):
        raise new_error(
            ValueError,
            f"make_mesh: {len(shape)} sizes for {len(axis_names)} axis names",
            *NAMES_AND_SIZES,
        )
    if count > len(found):
        raise new_error(
            ValueError,
            f"Number of devices {len(found)} must be >= the product of mesh_shape {shape}",
            "Each place of a mesh is a device of its own.",
            "Make the mesh smaller: pyjax.device_count() says how many devices there are.",
        )
    grid = np.empty(shape, dtype=object)
    for place, device in zip(np.ndindex(shape), found):
        grid[place] = device
    types = (AxisType.Explicit,) * len(shape) if axis_types is None else axis_types
    return Mesh(grid, tuple(axis_names), types)


def make_array_from_callback(
    shape: Sequence[int],
    sharding: Any,
    data_callback: Callable[[Any], Any],
    dtype: Any = None,
) -> Array:
    """An array whose parts a function gives: data_callback(index) for each index that devices of
    this process have, once.

    Raises:
      ValueError: a part has the wrong shape.

    >>> sharding = pyjax.sharding.SingleDeviceSharding(pyjax.devices()[0])
    >>> data = np.arange(4.0, dtype=np.float32)
    >>> make_array_from_callback((4,), sharding, lambda index: data[index])
    Array([0., 1., 2., 3.], dtype=float32)
    """
    shape = tuple(shape)
    sharding = context_sharding("make_array_from_callback", sharding)
    want = sharding.shard_shape(shape)
    made: dict[Any, np.ndarray] = {}
    for index in sharding.addressable_devices_indices_map(shape).values():
        key = tuple([part.indices(size)[:2] for part, size in zip(index, shape)])
        if key in made:
            continue
        data = made[key] = np.asarray(data_callback(index), dtype)
        if data.shape != want:
            raise new_error(
                ValueError,
                f"make_array_from_callback: the callback returned shape {data.shape} for "
                f"{index}, but {want} is needed.",
            )
    if not made:
        return _array_elsewhere("make_array_from_callback", shape, sharding, dtype)
    device = resolve_device(sharding)
    if not isinstance(device, DeviceGroup):
        return device_put(data, sharding)
    if armed:
        check_transfer(Direction.TO_DEVICE, Transfer.EXPLICIT, description(data), device)
    aval = abstractify(data).update(shape=shape)
    spec = spec_over(aval, device, sharding)
    cut = lambda bounds, kind: kind.from_host(made[bounds])
    return array_from(spec.kind.of, cut, spec)


def _of_parts(shape: tuple[int, ...], sharding: Sharding, parts: Sequence[DeviceArray]) -> Array:
    """The array of arrays in the memory of those of its devices that are here, one each, which it
    shares."""
    group = resolve_device(sharding)
    if not isinstance(group, DeviceGroup):
        return relaid(parts[0], sharding)
    by_device = {part.spec.device: part for part in parts}
    aval = parts[0].aval.update(shape=shape, weak_type=False)
    spec = spec_over(aval, group, sharding)
    buffers = []
    for device in group.here:
        part = by_device[device]
        buffers.append(part.block_until_ready().buffer)
    return array_from(lambda own: own, Parts(tuple(buffers)), spec)


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Any, arrays: Sequence[Any], *, dtype: Any = None
) -> Array:
    """An array made of one array per device of this process.

    Args:
      dtype: needed where no device of the sharding belongs to this process, and `arrays` is empty:
        the result has a shape, a dtype and no elements here (option `jax_enable_empty_arrays`).
    Raises:
      ValueError: a number, shape, dtype or device of arrays that does not fit the sharding; there
        is none, and no dtype, or the option is off.

    >>> x = jnp.arange(4)
    >>> make_array_from_single_device_arrays((4,), x.sharding, [x])
    Array([0, 1, 2, 3], dtype=int32)
    """
    here = len(sharding.addressable_devices)
    if len(arrays) != here:
        fail(
            ValueError,
            f"make_array_from_single_device_arrays: Expected {here} per-device arrays, but got "
            f"{len(arrays)}",
            f"that is how many devices of {sharding} this process has",
        )
    if not here:
        name = "make_array_from_single_device_arrays"
        return _array_elsewhere(name, tuple(shape), sharding, dtype)
    want = sharding.shard_shape(tuple(shape))
    dtype = arrays[0].dtype if dtype is None else np.dtype(dtype)
    # Arrays of one shape and type have one abstract value: the parts that differ are looked at.
    for number, part in enumerate(arrays):
        if number and part.aval is arrays[0].aval:
            continue
        if tuple(part.shape) != want:
            raise new_error(
                ValueError,
                f"make_array_from_single_device_arrays: part {number} has shape {part.shape}, but "
                f"{want} is needed for shape {tuple(shape)}.",
            )
        if part.dtype != dtype:
            raise new_error(
                ValueError,
                f"make_array_from_single_device_arrays: dtype {dtype}, but part {number} has "
                f"{part.dtype}.",
            )
    if sharding.num_devices == 1:
        return device_put(arrays[0], sharding)
    if {part.spec.device for part in arrays} != sharding.addressable_devices:
        fail(
            ValueError,
            "make_array_from_single_device_arrays: the arrays lie on "
            f"{', '.join(str(part.spec.device) for part in arrays)}, and {sharding} has other "
            "devices",
            "each device of the sharding has one of the arrays in its memory already",
            "jax.device_put(part, device) for each of them",
        )
    return _of_parts(tuple(shape), sharding, arrays)


def _array_elsewhere(name: str, shape: tuple[int, ...], sharding: Sharding, dtype: Any) -> Array:
    if not options.enable_empty_arrays.value:
        fail(
            ValueError,
            f"{name}: {sharding} has no device of this process",
            "the array would have no element here",
            "set jax_enable_empty_arrays, if that is meant",
        )
    if dtype is None:
        fail(
            ValueError,
            f"{name}: dtype must be provided if the array has no addressable shards",
            "there is no part that says it",
            "dtype=jnp.float32",
        )
    return ArrayElsewhere(ShapedArray(shape, dtypes.canonicalize_dtype(dtype)), sharding)


def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Any = None
) -> Any:
    """Arrays of which each process gives what its devices have.

    Args:
      local_data: pytree of arrays: of each dimension the part of this process (the parts of its
        devices, in the order in which they stand in the whole), or all of it.
      global_shape: of the whole arrays, a tuple for all, or a pytree of them; None, in it or for
        it: as large as what this process gives, times how many such parts there are.
    Raises:
      ValueError: a dimension is neither that of this process nor the whole one.

    >>> make_array_from_process_local_data(jnp.zeros(2).sharding, np.arange(2))
    Array([0, 1], dtype=int32)
    """
    over = context_sharding("make_array_from_process_local_data", sharding)

    def make(data: Any, shape: Any) -> Array:
        return _of_local_data(over, np.asarray(data), shape)

    if global_shape is None or _is_shape(global_shape):
        return tree_map(lambda x: make(x, global_shape), local_data)
    return tree_map(make, local_data, tree_broadcast(global_shape, local_data, is_leaf=_is_shape))


# Of process-local data: by how it is cut and its shape, the whole shape, and which part of it each
# index of the whole stands for.
_local_parts: BoundedCache[Any, tuple[tuple[int, ...], dict[Index, Index]]] = BoundedCache(
    Budget("process-local data", entries=1024)
)


def _of_local_data(sharding: Sharding, data: np.ndarray, asked: Any) -> Array:
    key = (sharding, data.shape, None if asked is None else tuple(asked))
    shape, local = _local_parts.make(key, lambda: _find_local_parts(*key))
    return make_array_from_callback(shape, sharding, lambda index: data[local[_key(index)]])


def _find_local_parts(
    sharding: Sharding, local_shape: tuple[int, ...], wanted: tuple[Any, ...] | None
) -> tuple[tuple[int, ...], dict[Index, Index]]:
    asked = (None,) * len(local_shape) if wanted is None else wanted
    if len(asked) != len(local_shape):
        fail(
            ValueError,
            f"make_array_from_process_local_data: data of shape {local_shape} for global shape "
            f"{asked}",
            "the part of a process has as many dimensions as the whole",
        )
    inferred = _global_shape(sharding, local_shape)
    shape = tuple(i if a is None else int(a) for i, a in zip(inferred, asked))
    indices = sharding.addressable_devices_indices_map(shape)
    starts = [_local_starts(dim, indices.values(), shape) for dim in range(len(local_shape))]
    for dim, (size, own) in enumerate(zip(local_shape, starts)):
        addressed = sum(part for part, _ in own.values())
        if size not in (shape[dim], addressed):
            fail(
                ValueError,
                "make_array_from_process_local_data: Invalid host data, each dimension should "
                f"match either global or process shape. In dimension {dim} the process data has "
                f"{size} elements. Process addresses {addressed} elements and "
                f"global_shape={shape}.",
                f"the devices of this process have that of {sharding}",
                "give what this process has, or the whole dimension",
            )
    local: dict[Index, Index] = {}
    for index in indices.values():
        bounds = [part.indices(size)[:2] for part, size in zip(index, shape)]
        local[_key(index)] = tuple(
            slice(start, stop)
            if local_shape[dim] == shape[dim]
            else slice(starts[dim][start][1], starts[dim][start][1] + stop - start)
            for dim, (start, stop) in enumerate(bounds)
        )
    return shape, local


def _key(index: Index) -> Index:
    return tuple((part.start, part.stop) for part in index)


def _local_starts(
    dim: int, indices: Iterable[Index], shape: Sequence[int]
) -> dict[int, tuple[int, int]]:
    """Where parts of devices here begin along a dimension, with their sizes, and where they begin
    in what the process has."""
    parts = sorted({index[dim].indices(shape[dim])[:2] for index in indices})
    starts, before = {}, 0
    for start, stop in parts:
        starts[start] = (stop - start, before)
        before += stop - start
    return starts


def _global_shape(sharding: Sharding, local_shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of the whole, if this is what the process has."""
    # Of so many elements each dimension can be cut as the sharding cuts it.
    probe = (sharding.num_devices,) * len(local_shape)
    cut = sharding.shard_shape(probe)
    indices = sharding.addressable_devices_indices_map(probe).values()
    sizes = []
    for dim, size in enumerate(local_shape):
        parts, here = probe[dim] // cut[dim], len(_local_starts(dim, indices, probe))
        sizes.append(size * parts // here if here else size)
    return tuple(sizes)


def _is_shape(x: Any) -> bool:
    return isinstance(x, tuple) and all(s is None or isinstance(s, int) for s in x)
