"""Programs that several devices run together, exported: how their arguments and results lie.

The text of such a program lays them out itself, over devices that it calls by their numbers, so
that it runs on any list of as many. Layer: export.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pyjax.api.stages import Traced
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.interpreters.hlo import Spread
from pyjax.interpreters.layouts import Known
from pyjax.interpreters.staging import trace_to_jaxpr
from pyjax.lax.sharding_constraint import sharding_constraint_p
from pyjax.runtime.result_layouts import layout_of
from pyjax.sharding.hlo_shardings import ANY, hlo_sharding
from pyjax.sharding.mesh import AbstractMesh, Mesh
from pyjax.sharding.shardings import NamedSharding
from xla_backend.runtime.client import Device
from xla_backend.runtime.device_group import DeviceGroup

Shardings = Sequence[Any]  # a NamedSharding for each leaf, or None: nothing is said


class Over(NamedTuple):
    """Over which devices a program was traced, and how its arguments and results lie there; of a
    mesh without devices, None for each."""

    devices: Sequence[Device | None]
    inputs: Shardings
    results: Shardings

    def of_derivative(self) -> Over:
        """Of the program from arguments and cotangents of results to cotangents of arguments."""
        return Over(self.devices, [*self.inputs, *self.results], self.inputs)


def over_devices(traced: Traced) -> Over | None:
    """None: one device runs the program."""
    place, layouts = traced.placed()
    inputs = _named(layouts.inputs, len(traced.jaxpr.in_avals))
    results = _named(layouts.results, len(traced.jaxpr.out_avals))
    if isinstance(place.device, DeviceGroup):
        return Over(place.device.devices, inputs, results)
    sizes = [s.mesh.size for s in (*inputs, *results) if s is not None]
    if max(sizes, default=1) == 1:
        return None
    if len({*sizes}) > 1:
        fail(
            ValueError,
            f"{traced.fun_name} is to be exported over meshes of {' and '.join(map(str, sizes))} "
            "devices",
            "all arrays of a program lie over the same devices",
            "write all shardings over meshes of as many",
        )
    return Over([None] * sizes[0], inputs, results)


def _named(found: Shardings, count: int) -> list[Any]:
    known = [s if isinstance(s, NamedSharding) else None for s in found]
    return [*known, *[None] * (count - len(known))]


def with_laid_out_inputs(closed: ClosedJaxpr, over: Over) -> ClosedJaxpr:
    """The program, which lays its arguments out; types that say how they lie do it already."""
    wanted = [None if a.split is not None else s for a, s in zip(closed.in_avals, over.inputs)]
    if not any(wanted):
        return closed

    def run(*args: Any) -> list[Any]:
        return closed.eval(
            *[
                x if s is None else sharding_constraint_p.bind1(x, sharding=s)
                for x, s in zip(args, wanted)
            ]
        )

    return trace_to_jaxpr(run, closed.in_avals, debug=closed.jaxpr.debug_info)[0]


def spread_of(over: Over, closed: ClosedJaxpr, passed: Sequence[bool]) -> Spread:
    """What lowering is told: `passed` says which results of the whole program `closed` has."""
    kept = [s for s, p in zip(over.results, passed) if p]
    results = [
        None if s is None or a.split is not None else hlo_sharding(s, over.devices, a.ndim)
        for s, a in zip(kept, closed.out_avals)
    ]
    return Spread(over.devices, [ANY] * len(closed.in_avals), results)


def without_devices(shardings: Shardings) -> tuple[Any, ...]:
    """The same over meshes without devices."""
    return tuple(
        [None if s is None else NamedSharding(s.mesh.abstract_mesh, s.spec) for s in shardings]
    )


def on_mesh(mesh: Mesh | AbstractMesh, sharding: Any) -> Any:
    """A sharding of an exported program over a mesh of those who call it.

    Raises:
      ValueError: the mesh has other axes than that over which the function was exported.
    """
    if sharding is None:
        return None
    if mesh.shape_tuple != sharding.mesh.shape_tuple:
        fail(
            ValueError,
            f"NamedSharding new mesh {mesh} does not match the mesh used for export "
            f"{sharding.mesh}.",
            "the sharding names axes of that mesh",
            "pass a mesh with the same axes; it may be of other devices",
        )
    return NamedSharding(mesh, sharding.spec)


def check_number(name: str, exported_for: int, here: int) -> None:
    """Raise ValueError unless a program for so many devices can be called where so many run one.
    What was exported for one device runs on any number."""
    if exported_for in (1, here):
        return
    fail(
        ValueError,
        f"Function {name} was exported for {exported_for} devices and is called in a context with "
        f"{here} devices, which is not allowed.",
        "its text says what each of them does",
        "lay an argument out over as many devices: device_put(x, NamedSharding(mesh, P(...))); or "
        "call it inside of jit(..., in_shardings=...)",
    )


def layouts_of_call(exported_results: Shardings, operands: Sequence[Known]) -> list[Known]:
    """How the results of a call lie, over the devices over which its arguments do."""
    meshes = [known.mesh for known in operands if known is not None]
    found: list[Known] = []
    for sharding, aval in exported_results:
        where = None if sharding is None else sharding.mesh
        if where is None or not meshes or meshes[0].size != where.size:
            found.append(None)
            continue
        grid = meshes[0].devices.reshape(where.axis_sizes)
        mesh = Mesh(grid, where.axis_names, axis_types=where.axis_types)
        found.append(layout_of(NamedSharding(mesh, sharding.spec), aval.ndim))
    return found
