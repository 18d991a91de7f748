"""Where the parts of an array lie. One device for now: SingleDeviceSharding and Shard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xla_backend.runtime.client import Device

if TYPE_CHECKING:
    from pyjax.array import Array

Index = tuple[slice, ...]


class Sharding:
    """How an array is laid out over devices (base class)."""

    @property
    def device_set(self) -> set[Device]:
        raise NotImplementedError

    @property
    def is_fully_replicated(self) -> bool:
        raise NotImplementedError

    @property
    def is_fully_addressable(self) -> bool:
        return True

    @property
    def addressable_devices(self) -> set[Device]:
        return self.device_set

    @property
    def num_devices(self) -> int:
        return len(self.device_set)

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the part on each device."""
        raise NotImplementedError

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Device, Index]:
        """Which part of the array each device holds."""
        raise NotImplementedError


@dataclass(frozen=True)
class SingleDeviceSharding(Sharding):
    """The whole array on one device.

    >>> import pyjax
    >>> SingleDeviceSharding(pyjax.devices()[0]).shard_shape((4, 2))
    (4, 2)
    """

    device: Device
    memory_kind: str | None = None

    @property
    def device_set(self) -> set[Device]:
        return {self.device}

    @property
    def is_fully_replicated(self) -> bool:
        return True

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Device, Index]:
        return {self.device: tuple(slice(None) for _ in global_shape)}

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        return isinstance(other, SingleDeviceSharding) and other.device is self.device

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self.device!r}, memory_kind={self.memory_kind!r})"


@dataclass(frozen=True)
class Shard:
    """The part of an array on one device."""

    device: Device
    index: Index
    replica_id: int
    data: Array

    def __repr__(self) -> str:
        return f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id})"


def resolve_device(target: Any) -> Device | None:
    """The device of a `device=` argument: a Device, a one-device Sharding, or None.

    Raises:
      TypeError: anything else.
    """
    if target is None or isinstance(target, Device):
        return target
    if isinstance(target, Sharding) and target.num_devices == 1:
        return next(iter(target.device_set))
    raise TypeError(
        f"expected a Device or a sharding over one device, got {type(target).__name__}; "
        "arrays over several devices are not supported yet"
    )
