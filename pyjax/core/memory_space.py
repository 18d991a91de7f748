"""Where values lie, beside the device: names of memories. Layer: core."""

from __future__ import annotations

import enum


class MemorySpace(enum.Enum):
    """The kinds of memory that programs tell apart: that of the device, and that of its host.

    >>> pyjax.memory.Space.Device
    MemorySpace.Device
    """

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"
