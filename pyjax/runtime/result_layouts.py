"""How results of programs say that they lie: over the mesh of the arguments, if it has one device.

Layer: runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.interpreters.layouts import Known, Layout, has_sources, layouts_of_results
from pyjax.sharding.mesh import Mesh, devices_in_context
from pyjax.sharding.partition_spec import UNCONSTRAINED, PartitionSpec
from pyjax.sharding.shardings import NamedSharding, Sharding
from xla_backend.runtime.client import Device

Shardings = Sequence[Sharding | None]


def layout_of(sharding: Any, ndim: int) -> Known:
    """The layout of an array over a mesh with devices; None: of another array."""
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh):
        return None
    known = [None if entry is UNCONSTRAINED else entry for entry in sharding.spec]
    entries = (*known, *(None,) * (ndim - len(known)))[:ndim]
    exact = UNCONSTRAINED not in sharding.spec.partitions
    return Layout(sharding.mesh, entries, sharding if exact else None)


def result_shardings(closed: ClosedJaxpr, inputs: Shardings, device: Device) -> Shardings:
    """For each result of a program on a device how it lies; None: as arrays without a mesh do.

    Args:
      inputs: how the arguments lie.
    """
    known = [layout_of(s, len(a.shape)) for s, a in zip(inputs, closed.in_avals)]
    context = devices_in_context()
    default = next((layout.mesh for layout in known if layout is not None), None)
    if default is None and not context.empty:
        default = context
    if default is None and not has_sources(closed):
        return ()
    return [
        _sharding(layout, default, len(getattr(aval, "shape", ())), device)
        for layout, aval in zip(layouts_of_results(closed, known), closed.out_avals)
    ]


def _sharding(layout: Known, default: Mesh | None, ndim: int, device: Device) -> Sharding | None:
    if layout is None:
        if default is None:
            return None
        layout = Layout(default, (None,) * ndim)
    if layout.mesh.devices.size != 1 or layout.mesh.devices.item() is not device:
        return None
    if layout.sharding is not None:
        return layout.sharding
    entries = list(layout.entries)
    if not layout.mesh.explicit_axes:  # the compiler's: what it does not split goes unsaid
        while entries and entries[-1] is None:
            entries.pop()
    return NamedSharding(layout.mesh, PartitionSpec(*entries))
