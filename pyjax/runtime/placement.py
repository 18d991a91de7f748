"""Moving arrays, and waiting for them: device_put, device_get, block_until_ready."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyjax.core.avals import abstractify
from pyjax.core.errors import fail
from pyjax.core.extended_dtypes import is_extended
from pyjax.core.memory_space import MemorySpace
from pyjax.core.trace import Tracer
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_nodes import leaf_types
from pyjax.core.tree_util import tree_broadcast, tree_leaves, tree_map
from pyjax.runtime.array import (
    DeviceArray,
    array_from_host,
    from_array,
    from_host,
    from_numpy,
    is_cut_by_host,
    relaid,
    sharing,
)
from pyjax.runtime.array_elsewhere import ArrayElsewhere
from pyjax.runtime.array_spec import array_spec, everything_on, spec_over
from pyjax.runtime.devices import get_backend
from pyjax.runtime.dispatch import as_array, resharded
from pyjax.runtime.processes import check_equal_in_processes
from pyjax.runtime.transfers import Direction, Transfer, armed, check_transfer, description
from pyjax.sharding.layouts import Format, Layout
from pyjax.sharding.mesh import get_abstract_mesh
from pyjax.sharding.partition_spec import PartitionSpec
from pyjax.sharding.shardings import (
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
    context_sharding,
    resolve_device,
)
from xla_backend.runtime.client import Device
from xla_backend.runtime.device_group import DeviceGroup


@api_boundary
def device_put(
    x: Any,
    device: Any = None,
    *,
    src: Any = None,
    donate: bool = False,
    may_alias: bool | None = None,
) -> Any:
    """Put a pytree of arrays, NumPy arrays or numbers on a device.

    Args:
      x: pytree of values.
      device: Device, Sharding, PartitionSpec for the mesh in context, None (the default
        device, uncommitted), `memory.Space.Device` (where it is) or Format (a sharding, and NumPy's
        order of elements), or a pytree prefix of those.
      src: where the values are; ignored.
      donate: the memory of `x` may be reused: an array that is there already is returned as another
        array in the same memory.
      may_alias: False: the result is in memory of its own; else an array that is there already is
        returned as it is.
    A value that goes to devices of several processes is the same in each of them.

    Raises:
      TypeError: a leaf is not a valid array type, or `device` is none of the above.
      AssertionError: processes give different values for the devices that they have together.
      ValueError: an array on devices of other processes, for one device; a PartitionSpec without a
        mesh in context; a kind of memory that there is not; a layout of another rank; a spec that
        does not fit; `donate` and `may_alias`.
      NotImplementedError: another memory than the device's; another order of elements than
        NumPy's.

    >>> device_put([1.0, 2]) [1].dtype
    dtype('int32')
    """
    del src
    if donate and may_alias:
        fail(
            ValueError,
            "device_put: may_alias and donate cannot be True at the same time.",
            "a donated array gives its memory away, and an alias shares it",
            "set one of them",
        )
    put = _put_donated if donate else _put_copy if may_alias is False else _put
    if device is None or isinstance(device, (Device, *_TARGETS)):
        return tree_map(lambda leaf: put(leaf, device), x)
    targets = tree_broadcast(device, x, is_leaf=lambda t: t is None or isinstance(t, _TARGETS))
    return tree_map(put, x, targets)


def _put_donated(value: Any, target: Any) -> Any:
    result = _put(value, target)
    return (
        sharing(result, result.spec) if result is value and type(value) is DeviceArray else result
    )


def _put_copy(value: Any, target: Any) -> Any:
    """In memory of its own."""
    result = _put(value, target)
    if type(value) is not DeviceArray or type(result) is not DeviceArray:
        return result
    if result.memory()[0] is not value.memory()[0]:
        return result
    spec = result.spec
    if isinstance(spec.device, DeviceGroup):
        return resharded(result, spec.sharding)
    return from_numpy(result.stored_array, spec)


_TARGETS = (Sharding, PartitionSpec, MemorySpace, Format)


def _put(value: Any, target: Any) -> Any:
    if isinstance(target, Format):
        if isinstance(target.layout, Layout):
            target.layout.check("device_put", value)
        target = target.sharding
    if isinstance(target, MemorySpace):
        _check_memory(target)
        target = None
    sharding = context_sharding("device_put", target)
    device = resolve_device(sharding)
    if isinstance(sharding, NamedSharding) and device is not None:
        aval = value.spec.aval if type(value) is DeviceArray else abstractify(value)
        sharding.shard_shape(aval.shape)
    if isinstance(value, Tracer):
        if isinstance(target, Device) and get_abstract_mesh().manual_axes:
            fail(
                ValueError,
                "device_put with explicit device not allowed within shard_map-decorated functions, "
                f"but got device {target}.",
                "each device of the mesh runs the function on its part",
                "put the arguments or the result of the mapped function there",
            )
        # Where a program runs is the compiler's business.
        return value if device is None else _lay_out[0](value, sharding)
    if isinstance(device, DeviceGroup):
        how = sharding if isinstance(sharding, Sharding) else everything_on(device)
        return _spread(value, device, how)
    put = _put_on(value, device)
    if isinstance(sharding, (NamedSharding, SingleDeviceSharding)) and device is not None:
        return relaid(put, sharding)
    return put


def _spread(value: Any, group: DeviceGroup, sharding: Sharding) -> DeviceArray:
    """An array cut as told over the devices of a group."""
    if isinstance(sharding, NamedSharding) and sharding.spec.unreduced:
        fail(
            NotImplementedError,
            f"device_put to {sharding.spec}.",
            "Devices would have summands of the array, and nothing says which.",
            "Operations make such sums: jnp.dot(x, y, out_sharding=P(unreduced={...})).",
        )
    if type(value) is not DeviceArray:
        aval = abstractify(value)
        if armed:
            check_transfer(Direction.TO_DEVICE, Transfer.EXPLICIT, description(value), group)
        check_equal_in_processes(value, group)
        return from_host(value, spec_over(aval, group, sharding))
    spec = spec_over(value.aval, group, sharding)
    if value.spec is spec:
        return value
    if value.spec.device is group:
        if sharding.is_equivalent_to(value.sharding, value.ndim):
            return relaid(value, sharding)
        if value.is_computed() and is_cut_by_host(value.spec, spec):
            return from_array(value, spec)
        return resharded(value, sharding)
    if armed:
        what = value.aval.str_short()
        check_transfer(Direction.BETWEEN_DEVICES, Transfer.EXPLICIT, what, group)
    return from_array(_whole(value), spec)


def _whole(array: DeviceArray) -> DeviceArray:
    """The array, if this process can read it, else laid out so that each device has all of it."""
    device = array.spec.device
    if not isinstance(device, DeviceGroup) or array.spec.kind.has_all:
        return array
    return resharded(array, everything_on(device))


def _as_it_is(value: Tracer, sharding: Any) -> Tracer:
    return value


# How a program says it is of a higher layer, which puts itself here.
_lay_out: list[Callable[[Tracer, Any], Any]] = [_as_it_is]


def set_layouts_of_tracers(lay_out: Callable[[Tracer, Any], Any]) -> None:
    """What `device_put` inside of a program does."""
    _lay_out[0] = lay_out


def _check_memory(space: MemorySpace) -> None:
    if space is not MemorySpace.Device:
        fail(
            NotImplementedError,
            f"device_put to {space}.",
            "arrays lie in the memory of a device; on CPUs that is the host's",
            "Put it on a CPU device, device_put(x, pyjax.devices('cpu')[0]), or device_get it.",
        )


def _put_on(value: Any, device: Device | None) -> Any:
    if device is not None and not device.is_here:
        return ArrayElsewhere(abstractify(value), SingleDeviceSharding(device))
    if type(value) is DeviceArray:
        return value if device is None else _copied_to(device, value)
    if device is None:
        return as_array(value, Transfer.EXPLICIT)
    if armed:
        check_transfer(Direction.TO_DEVICE, Transfer.EXPLICIT, description(value), device)
    return array_from_host(value, abstractify(value), device, True)


def _copied_to(device: Device, array: DeviceArray) -> DeviceArray:
    if array.spec.device is device:
        committed = array_spec(array.aval, device, True)
        return array if array.committed else sharing(array, committed)
    if not array.is_fully_addressable:
        fail(
            ValueError,
            "When the second argument to `device_put` is a Device, the first argument must be a "
            f"fully addressable array; {array.aval.str_short()} lies over {array.spec.device}.",
            "devices of other processes have parts of it",
            "process_allgather(x, tiled=True) of pyjax.experimental.multihost_utils brings the "
            "whole array to each process; x.addressable_shards are the parts of this one",
        )
    if armed:
        what = array.aval.str_short()
        check_transfer(Direction.BETWEEN_DEVICES, Transfer.EXPLICIT, what, device)
    return from_array(array, array_spec(array.aval, device, True))


def argument_on(device: Device, array: DeviceArray) -> DeviceArray:
    """The array committed to the device that a program is bound to, a copy if it was not."""
    if array.spec.device is device and array.committed:
        return array
    if armed and not array.spec.device.shares_memory_with(device):
        what = array.aval.str_short()
        check_transfer(Direction.BETWEEN_DEVICES, Transfer.IMPLICIT, what, device)
    return from_numpy(array.stored_array, array_spec(array.aval, device, True))


def argument_over(sharding: Any, array: DeviceArray) -> DeviceArray:
    """The array as a program that lies over other devices takes it."""
    device = resolve_device(sharding)
    assert device is not None
    if not isinstance(sharding, NamedSharding):
        return argument_on(device, array)
    if armed:
        what = array.aval.str_short()
        check_transfer(Direction.BETWEEN_DEVICES, Transfer.IMPLICIT, what, device)
    return _put(array, sharding)


def result_on(x: Any, target: Any) -> Any:
    """An array or tracer where the `device=` of the function that makes it says; None: where it is.
    Guards see no transfer that the user asked for."""
    if isinstance(target, (NamedSharding, PartitionSpec)):
        return _put(x, target)
    device = resolve_device(target)
    return argument_on(device, x) if device is not None and type(x) is DeviceArray else x


def device_get(x: Any) -> Any:
    """The same pytree with NumPy arrays (read-only views, no copies) instead of arrays. Random
    keys, which NumPy has no type for, stay as they are.

    >>> pyjax.device_get(jnp.arange(3))
    array([0, 1, 2], dtype=int32)
    """

    def get(leaf: Any) -> Any:
        if type(leaf) is DeviceArray and is_extended(leaf.aval.dtype):
            return leaf
        if type(leaf) is DeviceArray:
            return leaf.host_view(Transfer.EXPLICIT)
        return np.asarray(leaf) if type(leaf) is ArrayElsewhere else leaf

    return tree_map(get, x)


def block_until_ready(x: Any) -> Any:
    """Wait for all arrays of a pytree; returns it.

    >>> pyjax.block_until_ready({"x": jnp.arange(2)})
    {'x': Array([0, 1], dtype=int32)}
    """
    if type(x) is DeviceArray:
        return x.block_until_ready()
    if type(x) in leaf_types:
        return x
    for leaf in tree_leaves(x):
        if type(leaf) is DeviceArray:
            leaf.block_until_ready()
    return x


def live_arrays(platform: str | None = None) -> list[Any]:
    """The arrays on the devices of a platform that somebody holds, and that were neither deleted
    nor donated; those of this library among them (constants of programs).

    Args:
      platform: its name; default that of the default device.
    Raises:
      RuntimeError: there is no such platform.

    >>> x = device_put(1.5)
    >>> any(x is y for y in live_arrays())
    True
    """
    return [x for x in get_backend(platform).live_arrays() if type(x) is DeviceArray]


def effects_barrier() -> None:
    """Wait for the effects (prints, callbacks) of all calls so far. A call of a program that has
    some comes back when it has ended, effects and all, so there is never anything to wait for.

    >>> effects_barrier()
    """


def copy_to_host_async(x: Any) -> Any:
    """Start copying all arrays of a pytree to the host; returns it.

    >>> pyjax.copy_to_host_async(jnp.arange(2))
    Array([0, 1], dtype=int32)
    """
    for leaf in tree_leaves(x):
        if type(leaf) is DeviceArray:
            leaf.copy_to_host_async()
    return x


def typeof(x: Any) -> Any:
    """The abstract value (shape, dtype, weak type) of an array, tracer or number.

    >>> pyjax.typeof(jnp.ones((2, 3)))
    ShapedArray(float32[2,3])
    """
    return abstractify(x)
