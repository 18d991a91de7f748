"""shard_map on one device: the body mapped over the axes of the mesh. Operands are cut into blocks,
collectives are those of vmap, and results are put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyjax._config import options
from pyjax.core.avals import physical_aval, unsplit
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.structural import reshape
from pyjax.interpreters import batching
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.interpreters.trace_cache import jaxpr_cache
from pyjax.interpreters.varying import Axes
from pyjax.lax.common import aval_of
from pyjax.lax.indexing.slicing import index_in_dim
from pyjax.parallel.blocks import axes_of, in_mesh_order, join, split, stored_spec
from pyjax.sharding.mesh import AbstractMesh, Mesh
from pyjax.sharding.partition_spec import PartitionSpec

AnyMesh = Mesh | AbstractMesh
Specs = tuple[PartitionSpec, ...]


@jaxpr_cache
def _mapped(
    jaxpr: ClosedJaxpr,
    in_specs: Specs,
    out_specs: Specs,
    mesh: AnyMesh,
    manual: Axes,
    avals: tuple[Any, ...],
) -> ClosedJaxpr:
    """The program on whole arrays: the body mapped over the manual axes."""
    sizes = mesh.shape
    axes = in_mesh_order(sizes, manual)
    stored_in, stored_out = (
        [stored_spec(sizes, s) for s in specs] for specs in (in_specs, out_specs)
    )

    def run(level: int, values: Sequence[Any]) -> list[Any]:
        """Of block arrays without dimensions for the axes above this level."""
        if level == len(axes):
            return jaxpr.eval(*values)
        name = axes[level]
        outs, dims = batching.batch_with_dims(
            lambda *inner: run(level + 1, inner),
            values,
            [0 if name in axes_of(spec) else None for spec in stored_in],
            sizes[name],
            name,
            jaxpr.jaxpr.debug_info,
        )
        return [
            _collected(x, d, sizes[name], name in axes_of(spec))
            for x, d, spec in zip(outs, dims, stored_out)
        ]

    def cut(x: Any, spec: PartitionSpec) -> Any:
        x = split(x, sizes, stored_spec(sizes, spec))
        # Each has one summand of a sum that is still to be made.
        at, shape = len(axes_of(spec) | spec.unreduced), aval_of(x).shape
        return reshape(x, (*shape[:at], *shape[at + len(spec.unreduced) :]))

    def joined(x: Any, spec: PartitionSpec) -> Any:
        at, shape = len(axes_of(spec) | spec.unreduced), aval_of(x).shape
        x = reshape(x, (*shape[:at], *(1,) * len(spec.unreduced), *shape[at:]))
        return join(x, sizes, stored_spec(sizes, spec))

    def whole(*args: Any) -> list[Any]:
        outs = run(0, [cut(x, spec) for x, spec in zip(args, in_specs)])
        return [joined(x, spec) for x, spec in zip(outs, out_specs)]

    return trace_to_jaxpr(whole, avals, debug=jaxpr.jaxpr.debug_info)[0]


def _collected(x: Any, dim: int | None, size: int, named: bool) -> Any:
    """With the values of all positions along an axis in front, or, where they are all the same, of
    the first."""
    if named:
        return batching.bdim_at_front(x, dim, size)
    return x if dim is None else index_in_dim(x, 0, dim, keepdims=False)


def has_summands(aval: Any) -> bool:
    """Whether an array is stored as the summands of a sum that is still to be made."""
    return aval.split is not None and bool(aval.split.summed_axes)


def mapped_program(avals: Sequence[Any], params: dict[str, Any]) -> ClosedJaxpr:
    """What an equation of shard_map computes, without shard_map: for operands of these types."""
    mesh, manual = params["mesh"], params["newly_manual_axes"]
    plain = [a.update(vma=frozenset()) for a in avals]
    if manual.issuperset(mesh.explicit_axes):  # then types in the body say nothing of splits
        plain = [physical_aval(a) if has_summands(a) else unsplit(a) for a in plain]
    specs = params["in_specs"], params["out_specs"]
    with options.check_vma(False), batching.over_devices(True):
        return _mapped(params["jaxpr"], *specs, mesh, manual, tuple(plain))
