"""Devices as a description that programs are lowered for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyjax.core.errors import fail
from pyjax.experimental.mesh_utils import create_device_mesh
from pyjax.runtime.devices import devices as all_devices
from pyjax.sharding.mesh import Mesh
from xla_backend.runtime.client import Device as Device


class TopologyDescription:
    """Devices that need not be here.

    Attributes:
      devices: all of them.

    >>> len(TopologyDescription(pyjax.devices()[:1]).devices)
    1
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self.devices = list(devices)


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """The devices that are here.

    >>> len(get_attached_topology().devices) >= 1
    True
    """
    return TopologyDescription(all_devices(platform))


def get_topology_desc(
    topology_name: str = "", platform: str | None = None, **kwargs: Any
) -> TopologyDescription:
    """Devices of a machine by its name.

    Raises:
      NotImplementedError: always; it says what there is instead.

    >>> get_topology_desc("v5e:2x2")
    Traceback (most recent call last):
        ...
    NotImplementedError: get_topology_desc('v5e:2x2', None)...
    """
    fail(
        NotImplementedError,
        f"get_topology_desc({topology_name!r}, {platform!r}).",
        "machines are known by what code is made for, not by names of topologies",
        "jit(f).lower(...).compile(target=...) makes code for another machine, and "
        "jax_mock_gpu_topology pretends GPUs to lower for.",
    )


def make_mesh(
    topo: TopologyDescription,
    mesh_shape: Sequence[int],
    axis_names: tuple[str, ...],
    *,
    contiguous_submeshes: bool = False,
) -> Mesh:
    """A mesh over the devices of a topology.

    >>> make_mesh(TopologyDescription(all_devices()[:1]), (1,), ("x",)).axis_names
    ('x',)
    """
    grid = create_device_mesh(mesh_shape, topo.devices, contiguous_submeshes=contiguous_submeshes)
    return Mesh(grid, axis_names)


__all__ = [
    "Device",
    "TopologyDescription",
    "get_attached_topology",
    "get_topology_desc",
    "make_mesh",
]
