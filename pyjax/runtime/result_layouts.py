"""How the arguments and results of programs lie over meshes, and which devices run a program.

Layer: runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pyjax.core.avals import Split, physical_aval
from pyjax.core.errors import new_error
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.interpreters.hlo import Spread
from pyjax.interpreters.layouts import Known, Layout, has_sources, layouts_of_results, meshes_of
from pyjax.runtime.array_spec import mesh_of_group
from pyjax.sharding.hlo_shardings import ANY, hlo_sharding, named_sharding
from pyjax.sharding.mesh import AxisType, Mesh, devices_in_context
from pyjax.sharding.partition_spec import UNCONSTRAINED, PartitionSpec
from pyjax.sharding.shardings import NamedSharding, Sharding, resolve_device
from pyjax.sharding.splits import kept, of_summands, spec_of
from xla_backend.hlo.sharding import Sharding as HloSharding
from xla_backend.runtime.client import Device, LoadedExecutable
from xla_backend.runtime.device_group import DeviceGroup, GroupExecutable, device_group

Shardings = Sequence[Sharding | None]


class ProgramLayouts(NamedTuple):
    """How the arguments and results of a program lie; None, and what is left out: nothing is said.

    Attributes:
      mesh: of several devices that run the program together; what the compiler chooses is said by
        the names of its axes.
    """

    inputs: Shardings = ()
    results: Shardings = ()
    mesh: Mesh | None = None

    def check_devices(self) -> None:
        """Raise ValueError for arrays of a program that is to run over a mesh without devices."""
        for sharding in (*self.inputs, *self.results):
            resolve_device(sharding)

    def spread(
        self, device: Device, closed: ClosedJaxpr, trailing: Shardings = ()
    ) -> Spread | None:
        """What lowering is told of a program on a device, whose last arguments lie as `trailing`
        says; None: it runs on one."""
        if not isinstance(device, DeviceGroup):
            return None
        own = len(closed.in_avals) - len(trailing)
        places = {*device.devices}
        here = [s if s is not None and s.device_set == places else None for s in trailing]
        inputs = [*_padded(self.inputs, own), *here]
        results = _padded(self.results, len(closed.out_avals))
        describe = lambda s, aval: _described(s, aval, device.devices)
        given = [describe(s, a) or ANY for s, a in zip(inputs, closed.in_avals)]
        wanted = [describe(s, a) for s, a in zip(results, closed.out_avals)]
        if not given:  # then the results say that it is for several devices
            wanted = [s or ANY for s in wanted]
        return Spread(device.devices, given, wanted)

    def found(self, executable: LoadedExecutable, closed: ClosedJaxpr) -> ProgramLayouts:
        """With what the compiler has chosen, for a program that several devices run, where nothing
        was said."""
        if not isinstance(executable, GroupExecutable):
            return self
        mesh = self.mesh
        assert mesh is not None
        inputs, results = executable.partition
        # Along axes of type Explicit the compiler chooses nothing: types would say it.
        chosen_over = mesh.update(axis_types=AxisType.Auto) if mesh.explicit_axes else mesh

        def complete(
            said: Shardings, chosen: Sequence[HloSharding], avals: Sequence[Any], over: Mesh
        ) -> Any:
            return [
                own
                if isinstance(own, NamedSharding)
                else named_sharding(other, over, len(getattr(aval, "shape", ())))
                for own, other, aval in zip(_padded(said, len(chosen)), chosen, avals)
            ]

        own = complete(self.inputs, inputs, closed.in_avals, mesh)
        made = complete(self.results, results, closed.out_avals, chosen_over)
        said = _padded(self.results, len(made))
        written = [
            as_written(found, aval, own, closed.in_avals) if given is None else found
            for found, given, aval in zip(made, said, closed.out_avals)
        ]
        return ProgramLayouts(own, written, mesh)


def _padded(known: Shardings, count: int) -> list[Sharding | None]:
    return [*known, *[None] * (count - len(known))]


def _described(
    sharding: Sharding | None, aval: Any, devices: Sequence[Device]
) -> HloSharding | None:
    """None: nothing is said. Words of random keys stay together."""
    physical = physical_aval(aval)
    if isinstance(sharding, NamedSharding):
        stored = of_summands(sharding, len(aval.shape))
        return hlo_sharding(stored, devices, len(physical.shape))
    return HloSharding("replicated") if physical is not aval else None


class Place(NamedTuple):
    """Where a program runs.

    Attributes:
      committed: whether its results are committed there.
      mesh: of its devices, if it runs on several.
    """

    device: Device
    committed: bool
    mesh: Mesh | None = None


def place_of(
    closed: ClosedJaxpr, lying: Shardings, device: Device, committed: bool, name: str
) -> Place:
    """Where a program runs: on the devices of the mesh over which its arguments or the arrays that
    it closes over lie, that it names, or that is in context; else on `device`.

    Args:
      lying: how arguments lie, and results are to lie.
      committed: whether arguments are committed to `device`, or the user names it.
    Raises:
      ValueError: arguments are committed to other devices than it names, or it names several lists
        of devices.
    """
    lying = [*lying, *[getattr(const, "sharding", None) for const in closed.consts]]
    meshes = [s.mesh for s in lying if isinstance(s, NamedSharding)]
    named = list(meshes_of(closed.jaxpr))
    found = _first_with_devices([*meshes, *named])
    has_arrays = bool(closed.in_avals or closed.out_avals)
    if found is None and has_arrays and not (committed and not isinstance(device, DeviceGroup)):
        found = _first_with_devices([devices_in_context()])
    if found is None:
        mesh = mesh_of_group(device) if isinstance(device, DeviceGroup) else None
        return Place(device, committed, mesh)
    group = device_group(list(found.devices.flat))
    place = device if committed else group
    own = list(_devices(place))
    for mesh in (found, *named):
        several = isinstance(mesh, Mesh) and (mesh is found or mesh.size > 1)
        if not several or list(mesh.devices.flat) == own:
            continue
        raise new_error(
            ValueError,
            f"Received incompatible devices for jitted computation {name}: "
            f"{'arguments are committed to' if committed else 'it runs on'} {place}, and in it "
            f"arrays lie over {mesh} of {', '.join(map(str, mesh.devices.flat))}.",
            "all arrays of a program lie over the same devices, in one order",
            "make all meshes of the same list of devices; device_put arguments to a sharding over "
            "such a mesh, or leave them uncommitted",
        )
    return Place(place, True, found if isinstance(group, DeviceGroup) else None)


def _devices(device: Device) -> Sequence[Device]:
    return device.devices if isinstance(device, DeviceGroup) else (device,)


def _first_with_devices(meshes: Sequence[Any]) -> Mesh | None:
    """Of several devices, where there is such a one."""
    found = sorted(
        [m for m in meshes if isinstance(m, Mesh) and not m.empty],
        key=lambda m: m.devices.size == 1,
    )
    return found[0] if found else None


def layout_of(sharding: Any, ndim: int) -> Known:
    """The layout of an array over a mesh with devices; None: of another array."""
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh):
        return None
    known = [None if entry is UNCONSTRAINED else entry for entry in sharding.spec]
    entries = (*known, *(None,) * (ndim - len(known)))[:ndim]
    exact = UNCONSTRAINED not in sharding.spec.partitions
    return Layout(sharding.mesh, entries, sharding if exact else None)


def result_shardings(closed: ClosedJaxpr, inputs: Shardings, device: Device) -> Shardings:
    """For each result of a program on a device how it lies; None: as arrays without a mesh do, or
    as the compiler likes.

    Args:
      inputs: how the arguments lie.
    """
    known = [layout_of(s, len(a.shape)) for s, a in zip(inputs, closed.in_avals)]
    context = devices_in_context()
    default = next((layout.mesh for layout in known if layout is not None), None)
    if default is None and not context.empty:
        default = context
    typed = any(aval.split is not None for aval in closed.out_avals)
    if default is None and typed:
        default = _first_with_devices(_closed_over(closed))
    if default is None and not has_sources(closed):
        return ()
    meshes = [default, *meshes_of(closed.jaxpr), context] if typed else []
    found = [
        _sharding(layout, default, len(getattr(aval, "shape", ())), device)
        if aval.split is None
        else _of_type(aval.split, meshes)
        for layout, aval in zip(layouts_of_results(closed, known), closed.out_avals)
    ]
    avals = closed.in_avals
    return [as_written(s, aval, inputs, avals) for s, aval in zip(found, closed.out_avals)]


def as_written(
    sharding: Sharding | None, aval: Any, inputs: Shardings, in_avals: Sequence[Any]
) -> Sharding | None:
    """How the sharding of a result is written that the user did not write: as that of the first
    argument which lies alike over the same mesh, else without what is not split at its end; over
    a mesh with axes of type Explicit with an entry for each dimension, as types are."""
    if not isinstance(sharding, NamedSharding) or UNCONSTRAINED in sharding.spec.partitions:
        return sharding
    mesh, spec, rank = sharding.mesh, sharding.spec, len(getattr(aval, "shape", ()))
    if mesh.explicit_axes:
        return sharding.update(spec=spec.update([*spec, *[None] * (rank - len(spec))]))
    for given, own in zip(inputs, in_avals):
        if not isinstance(given, NamedSharding) or not isinstance(given.mesh, Mesh):
            continue
        if len(getattr(own, "shape", ())) == rank and given.is_equivalent_to(sharding, rank):
            if given.mesh is mesh:
                return given
            break
    split = max((n for n, entry in enumerate(spec, 1) if entry is not None), default=0)
    return sharding.update(spec=spec.update(spec[:split]))


def _closed_over(closed: ClosedJaxpr) -> list[Any]:
    """The meshes of arrays that a program closes over."""
    return [getattr(getattr(const, "sharding", None), "mesh", None) for const in closed.consts]


def _of_type(split: Split, meshes: Sequence[Any]) -> Sharding | None:
    """A result as its type says, over the first of the meshes that has devices and is meant."""
    for mesh in meshes:
        if isinstance(mesh, Mesh) and mesh.shape_tuple == split.mesh.shape_tuple:
            return NamedSharding(mesh.update(axis_types=split.mesh.axis_types), spec_of(split))
    return None


def _sharding(layout: Known, default: Mesh | None, ndim: int, device: Device) -> Sharding | None:
    if layout is None:
        if default is None:
            return None
        layout = Layout(default, (None,) * ndim)
    own, others = layout.mesh.devices.ravel().tolist(), [*_devices(device)]
    if own != others and {*own} != {*others}:  # mostly they are equal, and may be thousands
        return None
    if layout.sharding is not None:
        return layout.sharding
    if isinstance(device, DeviceGroup) and not layout.mesh.explicit_axes:
        return None
    # Along explicit axes nothing splits a result that its type does not say to be split.
    explicit = layout.mesh.explicit_axes
    left_open = {*layout.mesh.axis_names} - {*explicit}
    entries = [kept(entry, left_open) for entry in layout.entries]
    if not explicit:  # the compiler's: what it does not split goes unsaid
        while entries and entries[-1] is None:
            entries.pop()
    return NamedSharding(layout.mesh, PartitionSpec(*entries))
