"""What programs notice inside of shard_map: each position of the mesh has a note of its own, and
that of the equation is what they say together. Layer: parallel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyjax.core.avals import abstractify
from pyjax.core.jaxpr import ClosedJaxpr, JaxprEqn
from pyjax.core.source_info import Frame
from pyjax.core.structural import pvary, reshape
from pyjax.core.tree_util import PyTreeDef, tree_flatten
from pyjax.interpreters.lift_constants import bind_lifted
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.interpreters.trace_cache import jaxpr_cache
from pyjax.interpreters.varying import Axes
from pyjax.lax.faults.noticing import AbstractNoticer, Noted, NotingProgram, noting_rules
from pyjax.lax.faults.search import Search, search_rules
from pyjax.parallel.blocks import in_mesh_order
from pyjax.parallel.shard_map_mapped import AnyMesh, mapped_program
from pyjax.parallel.shard_map_primitive import in_body_of, shard_map_p
from pyjax.sharding.partition_spec import PartitionSpec


def _noted(
    noticer: AbstractNoticer, eqn: JaxprEqn, values: Sequence[Any], at: Frame | None
) -> Noted:
    params = eqn.params
    mesh, manual = params["mesh"], params["newly_manual_axes"]
    noting = in_body_of(params, _noting_body, params["jaxpr"], noticer, at, mesh, manual)
    along = PartitionSpec(in_mesh_order(mesh.shape, manual))
    specs = (*params["out_specs"], *(along,) * len(noting.avals))
    new = {**params, "jaxpr": noting.closed, "out_specs": specs}
    outs, note = noting.split(bind_lifted(shard_map_p, *values, **new))
    return outs, noticer.of_positions(note) if noting.avals else None


@jaxpr_cache
def _noting_body(
    jaxpr: ClosedJaxpr, noticer: AbstractNoticer, at: Frame | None, mesh: AnyMesh, manual: Axes
) -> NotingProgram:
    """The body with its note, which has a dimension in front to be put together along."""
    trees: list[PyTreeDef] = []

    def run(*args: Any) -> list[Any]:
        outs, note = noticer.evaluate(jaxpr, args, at)
        leaves, tree = tree_flatten(note)
        trees.append(tree)
        return [*outs, *[pvary(_in_front(x), manual) for x in leaves]]

    new, _ = trace_to_jaxpr(run, jaxpr.in_avals, debug=jaxpr.jaxpr.debug_info)
    return NotingProgram(new, trees[0], len(jaxpr.out_avals))


def _in_front(x: Any) -> Any:
    return reshape(x, (1, *abstractify(x).shape))


def _search(search: Search, eqn: JaxprEqn, values: Sequence[Any]) -> None:
    """All positions at once, as the compiler sees it."""
    avals = [v.aval for v in eqn.invars]
    search.within("shard_map", mapped_program(avals, eqn.params), values)


noting_rules[shard_map_p] = _noted
search_rules[shard_map_p] = _search
