"""Moving arrays: device_put, device_get, block_until_ready."""

from __future__ import annotations

from typing import Any

from pyjax.core.avals import abstractify
from pyjax.core.trace import Tracer
from pyjax.core.tree_util import tree_broadcast, tree_leaves, tree_map
from pyjax.runtime.array import DeviceArray, array_spec, from_numpy
from pyjax.runtime.dispatch import as_array
from pyjax.sharding.shardings import Sharding, resolve_device
from xla_backend.runtime.client import Device


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
      device: Device, one-device Sharding, None (the default device, uncommitted), or a pytree
        prefix of those.
      src: where the values are; ignored.
      donate, may_alias: the memory of `x` may be reused; on the CPU an array that is there already
        is returned as it is.
    Raises:
      TypeError: a leaf is not a valid array type, or `device` is none of the above.

    >>> device_put([1.0, 2]) [1].dtype
    dtype('int32')
    """
    del src, donate, may_alias
    if device is None or isinstance(device, (Device, Sharding)):
        return tree_map(lambda leaf: _put(leaf, device), x)
    targets = tree_broadcast(device, x, is_leaf=lambda t: t is None or isinstance(t, Sharding))
    return tree_map(_put, x, targets)


def _put(value: Any, target: Any) -> Any:
    if isinstance(value, Tracer):
        return value  # placement inside a program is the compiler's business
    device = resolve_device(target)
    array = value if type(value) is DeviceArray else as_array(value)
    if device is None or (array.spec.committed and array.device is device):
        return array
    spec = array_spec(array.aval, device, True)
    return from_numpy(array.stored_array, spec)


def device_get(x: Any) -> Any:
    """The same pytree with NumPy arrays (read-only views, no copies) instead of arrays."""
    return tree_map(lambda leaf: leaf.host_view() if type(leaf) is DeviceArray else leaf, x)


def block_until_ready(x: Any) -> Any:
    """Wait for all arrays of a pytree; returns it."""
    for leaf in tree_leaves(x):
        if type(leaf) is DeviceArray:
            leaf.block_until_ready()
    return x


def copy_to_host_async(x: Any) -> Any:
    """Start copying all arrays of a pytree to the host; returns it."""
    for leaf in tree_leaves(x):
        if type(leaf) is DeviceArray:
            leaf.copy_to_host_async()
    return x


def typeof(x: Any) -> Any:
    """The abstract value (shape, dtype, weak type) of an array, tracer or number."""
    return abstractify(x)
