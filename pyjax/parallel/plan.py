"""`plan`: what a program would move, hold and take on a mesh of devices that need not be here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyjax.api.eval_shape import ShapeDtypeStruct
from pyjax.api.jit import PjitFunction, jit
from pyjax.core.array import Array
from pyjax.core.errors import fail
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import tree_map
from pyjax.parallel.clusters import Chip, Cluster, Link, exchange_seconds
from pyjax.parallel.plan_report import Plan, PlannedCollective, PlannedMemory
from pyjax.runtime.devices import pretended_devices
from pyjax.runtime.dispatch import overridden_options
from pyjax.sharding.mesh import AbstractMesh, Mesh, set_mesh
from pyjax.sharding.shardings import NamedSharding
from xla_backend.compile_target import find_target
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import source_places
from xla_backend.hlo.opcode import Opcode
from xla_backend.partition_report import CountedProgram, Work, count_program
from xla_backend.process.bounded_cache import BoundedCache, Budget
from xla_backend.spmd.traffic import Transfer

# Arrays that devices exchange pieces of, without gathering or adding them.
_KEEP_SIZE = frozenset({Opcode.ALL_TO_ALL, Opcode.RAGGED_ALL_TO_ALL})


@api_boundary
def plan(
    f: Callable[..., Any],
    mesh: Mesh | AbstractMesh,
    *specs: Any,
    cluster: Cluster | None = None,
    **named_specs: Any,
) -> Plan:
    """What each device of a mesh would send, hold and compute in one call of a function: the
    function is traced, partitioned and optimised. No array is made, and no code; the devices need
    not be here, and the time that it takes does not depend on how many they are.

    Args:
      f: a function, or what `jit` made of one (with donated arguments and shardings).
      mesh: of any size; in context while the function is traced, so that PartitionSpecs in it are
        understood.
      specs, named_specs: the arguments: pytrees of ShapeDtypeStructs, or arrays, whose shardings
        are over the mesh. Of others the compiler decides how they lie.
      cluster: chips and links; by default H100s with NVLink between 8 and a network between nodes.
    Returns:
      A Plan: `collectives`, `by_line()`, `memory`, `flops`, `seconds` ... Print it for a table.
    Raises:
      ValueError: a sharding is over another mesh, or does not fit its array.
      UnimplementedError: the program cannot be partitioned.

    Seconds are those of a machine that reaches the rates of its data sheet: a lower bound for
    programs that were not measured. A loop whose number of rounds is not known counts as one round.

    >>> from pyjax.sharding import AbstractMesh
    >>> mesh = AbstractMesh((512,), ("data",))
    >>> spec = NamedSharding(mesh, pyjax.P("data"))
    >>> rows = pyjax.ShapeDtypeStruct((4096, 256), "float32", sharding=spec)
    >>> found = pyjax.plan(lambda x: x.sum(0), mesh, rows)
    >>> [(c.kind, c.group, c.array, c.sent) for c in found.collectives]
    [('all-reduce', 512, 'f32[256]', 2044.0)]
    """
    cluster = cluster or Cluster()
    here = _with_devices(mesh)
    args, kwargs = tree_map(lambda x: _described(x, mesh, here), (specs, named_specs))
    function = f if isinstance(f, PjitFunction) else jit(f)
    with set_mesh(here):
        traced = function.trace(*args, **kwargs)
        on_cpus = isinstance(mesh, Mesh) and mesh.devices.flat[0].platform == "cpu"
        platform = "cpu" if on_cpus else "cuda"
        module = traced.lower(lowering_platforms=(platform,)).compiler_ir("hlo")
        options = overridden_options({})
    if platform == "cuda":
        options = options._replace(target=find_target("sm_90"))
    return _report(traced.fun_name, count_program(module, platform, options), here, cluster)


def _with_devices(mesh: Mesh | AbstractMesh) -> Mesh:
    if isinstance(mesh, Mesh):
        return mesh
    if not isinstance(mesh, AbstractMesh):
        fail(
            TypeError,
            f"plan: the mesh is {mesh!r}, a {type(mesh).__name__}.",
            "a program is planned for the devices of a mesh",
            "write pyjax.plan(f, AbstractMesh((64, 8), ('data', 'model')), *specs)",
        )
    return _pretended.make(mesh, lambda: _pretended_mesh(mesh))


# A function that is planned again for a mesh is not traced again.
_pretended: BoundedCache[AbstractMesh, Mesh] = BoundedCache(Budget("pretended meshes", entries=4))


def _pretended_mesh(mesh: AbstractMesh) -> Mesh:
    devices = np.array(pretended_devices(mesh.size), dtype=object)
    return Mesh(devices.reshape(mesh.axis_sizes), mesh.axis_names, mesh.axis_types)


def _described(x: Any, mesh: Mesh | AbstractMesh, here: Mesh) -> Any:
    """An argument; of an array its type, and how it lies if that is over the mesh."""
    own = getattr(x, "sharding", None)
    is_struct = isinstance(x, ShapeDtypeStruct)
    if not is_struct and not isinstance(x, Array):
        return x
    struct = ShapeDtypeStruct.like(x)
    sharding = None
    if isinstance(own, NamedSharding):
        if own.mesh in (mesh, here, here.abstract_mesh):
            sharding = NamedSharding(here, own.spec)
        elif is_struct:
            fail(
                ValueError,
                f"plan: an argument of type {struct.dtype}{list(struct.shape)} lies over "
                f"{own.mesh}, and the program over {mesh}.",
                "all arrays of a program lie over the same devices",
                "make the shardings of the arguments with the mesh of the plan",
            )
    return ShapeDtypeStruct(
        struct.shape, struct.dtype, sharding=sharding, weak_type=struct.weak_type
    )


# -- from what was counted -------------------------------------------------------------------------


def _report(name: str, counted: CountedProgram, mesh: Mesh, cluster: Cluster) -> Plan:
    chip, axes = cluster.described(), dict(mesh.shape)
    links = cluster.links_of(axes)
    m = counted.memory
    largest = [(size, _type(node), _where(node)) for size, node in m.largest]
    return Plan(
        name,
        axes,
        chip,
        links,
        [_collective(t, axes, links) for t in counted.transfers],
        PlannedMemory(m.arguments, m.results, m.aliased, m.constants, m.temporaries, largest),
        sum(w.times * (sum(w.products.values()) + w.flops) for w in counted.work),
        sum(w.times * w.bytes for w in counted.work),
        sum(w.times * _seconds(w, chip) for w in counted.work),
        [_where(node) for node in counted.open_loops],
    )


def _seconds(work: Work, chip: Chip) -> float:
    """At the full rate of what takes longest: arithmetic, or the memory."""
    products = sum(flops / chip.product_rate(t) for t, flops in work.products.items())
    return max(products + work.flops / chip.arithmetic, work.bytes / chip.bandwidth)


def _collective(t: Transfer, axes: dict[Any, int], links: dict[Any, Link]) -> PlannedCollective:
    counts = _members_along(t, tuple(axes.values()))
    along = [(count, links[name]) for name, count in zip(axes, counts) if count > 1]
    if t.passes_on:
        seconds = max((link.seconds(t.bytes) for _, link in along), default=0.0)
    else:
        shrinks = t.opcode not in _KEEP_SIZE
        seconds = exchange_seconds(t.bytes, t.rounds, along, shrinks=shrinks)
    place = next(iter(source_places(t.node)), None)
    return PlannedCollective(
        str(t.opcode),
        tuple(name for name, count in zip(axes, counts) if count > 1),
        len(t.group),
        _type(t.node),
        t.times,
        t.times * t.sent,
        t.times * seconds,
        "" if place is None else place.file,
        0 if place is None else place.line,
        "" if place is None else place.function,
    )


def _members_along(t: Transfer, sizes: tuple[int, ...]) -> list[int]:
    """How many positions along each axis those have who exchange with each other."""
    if not t.pairs:
        return [len(np.unique(c)) for c in np.unravel_index(np.array(t.group), sizes)]
    positions = np.unravel_index(np.array(t.pairs), sizes)
    return [size if (p[:, 0] != p[:, 1]).any() else 1 for size, p in zip(sizes, positions)]


def _type(node: Instruction) -> str:
    """Of its result, without its layout; of several, the largest, and how many there are."""
    shapes = node.shape.flatten()
    shape = max(shapes, key=lambda leaf: leaf.byte_size)
    others = f" + {len(shapes) - 1} more" if len(shapes) > 1 else ""
    return f"{shape.element_type}[{','.join(map(str, shape.dimensions))}]{others}"


def _where(node: Instruction) -> str:
    place = next(iter(source_places(node)), None)
    return "?" if place is None else f"{place.file}:{place.line}"
