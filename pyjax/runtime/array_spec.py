"""ArraySpec: what arrays of one kind share, made once for each kind.

Layer: runtime.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core.avals import MeshArray, ShapedArray, physical_aval
from pyjax.core.errors import fail
from pyjax.sharding.mesh import Mesh
from pyjax.sharding.partition_spec import PartitionSpec
from pyjax.sharding.shardings import NamedSharding, Sharding, SingleDeviceSharding
from pyjax.sharding.splits import of_summands, split_of
from xla_backend.process.bounded_cache import InternTable
from xla_backend.runtime.client import Device
from xla_backend.runtime.device_group import DeviceGroup
from xla_backend.runtime.host_buffer import HostBufferKind


class ArraySpec:
    """What arrays of one kind share: abstract value, device, whether they are committed to it, how
    they are laid out there, and the kind of their buffers.

    Interned: `array_spec(a, d, c) is array_spec(a, d, c)`, so call caches key on the object itself.
    """

    __slots__ = (
        "__weakref__",
        "_shards",
        "aval",
        "committed",
        "device",
        "kind",
        "number",
        "sharding",
        "view",
    )

    def __init__(
        self, aval: ShapedArray, device: Device, committed: bool, sharding: Sharding | None = None
    ) -> None:
        if not isinstance(aval, ShapedArray):
            fail(
                NotImplementedError,
                f"A {aval.str_short()} is an argument or a result of a program.",
                "Tokens order effects inside of one program; outside of programs there are arrays.",
                "Call lax.create_token and lax.after_all in the jitted function that uses them; "
                "effects with ordered=True need no token.",
            )
        if not device.is_here:
            fail(
                ValueError,
                f"A {aval.str_short()} of this process is to lie on {device}, which process "
                f"{device.process_index} has.",
                "Programs on one device run in the process that has it.",
                "Use pyjax.local_devices(), or a sharding over devices of several processes.",
            )
        physical = physical_aval(aval)
        dtype = np.dtype(physical.dtype)
        self.aval = aval
        self.device = device
        self.committed = committed
        self.sharding = everything_on(device) if sharding is None else sharding
        if isinstance(device, DeviceGroup):
            stored, shape = self.sharding, aval.shape
            if isinstance(stored, NamedSharding) and stored.spec.unreduced:
                stored, shape = of_summands(stored, aval.ndim), physical.shape
            parts = stored.devices_indices_map(shape)
            indices = [parts[one] for one in device.devices]
            self.kind: Any = device.parts_kind(physical.shape, dtype, indices)
        else:
            self.kind = device.client.buffer_kind(device, physical.shape, dtype)
        plain = isinstance(self.kind, HostBufferKind) and type(aval) is ShapedArray
        # How the number is read that a scalar is: a NumPy array takes ten times as long.
        self.number = self.kind.number if plain and isinstance(aval.dtype, np.dtype) else None
        # What native code answers to who asks for buffers (see `DeviceArray.__buffer__`).
        self.view: bytes | None = None
        self._shards: tuple[tuple[Any, ...], ...] | None = None

    @property
    def shards(self) -> tuple[tuple[Any, ...], ...]:
        """Of arrays over a group, for each of its devices: the device, its part, how many before it
        have the same, which of the parts in this process it is, and of which kind that is as an
        array; None twice: another process's."""
        if self._shards is None:
            self._shards = self._find_shards()
        return self._shards

    def _find_shards(self) -> tuple[tuple[Any, ...], ...]:
        group, shape = self.device, self.aval.shape
        assert isinstance(group, DeviceGroup)
        indices = self.sharding.devices_indices_map(shape)
        aval = self.aval.update(shape=self.sharding.shard_shape(shape))
        here = {device: number for number, device in enumerate(group.here)}
        seen: dict[Any, int] = {}
        found = []
        for device in group.devices:
            index = indices[device]
            bounds = tuple((s.start, s.stop) for s in index)
            replica = seen[bounds] = seen.get(bounds, -1) + 1
            own = array_spec(aval, device, True) if device in here else None
            found.append((device, index, replica, here.get(device), own))
        return tuple(found)

    def __repr__(self) -> str:
        return f"ArraySpec({self.aval}, {self.device}, committed={self.committed})"


def everything_on(device: Device) -> Sharding:
    """All of an array on a device, or on each one of a group."""
    if isinstance(device, DeviceGroup):
        return NamedSharding(mesh_of_group(device), PartitionSpec())
    return SingleDeviceSharding(device)


def mesh_of_group(group: DeviceGroup) -> Mesh:
    """Its devices along one axis."""
    return Mesh(np.array(group.devices, object), ("devices",))


# A spec lives as long as an array or a program of its kind.
_specs: InternTable[tuple[Any, ...], ArraySpec] = InternTable()


def array_spec(aval: ShapedArray, device: Device, committed: bool = False) -> ArraySpec:
    """The one spec object of this kind of array."""
    key = (aval, device, committed)
    ref = _specs.refs.get(key)
    spec = None if ref is None else ref()
    if spec is None:
        if type(aval) is MeshArray:
            return array_spec(aval.update(vma=frozenset()).with_split(None), device, committed)
        spec = _specs.intern(key, ArraySpec(aval, device, committed))
    return spec


def laid_out(spec: ArraySpec, sharding: Sharding) -> ArraySpec:
    """The one spec object of such arrays with another layout on their device, or group of them."""
    return spec_over(spec.aval, spec.device, sharding, spec.committed)


def spec_over(
    aval: ShapedArray, device: Device, sharding: Sharding, committed: bool = True
) -> ArraySpec:
    """The one spec object of arrays that lie on a device, or over a group, as a sharding says."""
    if type(aval) is MeshArray:
        aval = aval.update(vma=frozenset()).with_split(None)
    leaves_out = options.remove_size_one_mesh_axis_from_type.here()[0].value  # of the type
    key = (aval, device, committed, sharding, leaves_out)
    found = _specs.find(key)
    if found is None:
        typed = aval.with_split(split_of(sharding, aval.ndim))
        found = _specs.intern(key, ArraySpec(typed, device, committed, sharding))
    return found
