"""How operations that are not elementwise pass on the layouts of their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyjax.core.jaxpr import JaxprEqn
from pyjax.interpreters.layouts import (
    Entries,
    Known,
    Layout,
    layout_rules,
    layouts_of_results,
    moved,
)
from pyjax.lax.control_flow.cond_rules import cond_p
from pyjax.lax.control_flow.scan import scan_p
from pyjax.lax.control_flow.while_primitive import while_p
from pyjax.lax.convert import convert_element_type_p
from pyjax.lax.cumulative import cumlogsumexp_p, cummax_p, cummin_p, cumprod_p, cumsum_p
from pyjax.lax.dot import dot_general_p
from pyjax.lax.misc import copy_p, optimization_barrier_p, stop_gradient_p
from pyjax.lax.reduce import (
    argmax_p,
    argmin_p,
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_prod_p,
    reduce_sum_p,
    reduce_xor_p,
)
from pyjax.lax.shape import (
    broadcast_in_dim_p,
    reshape_p,
    rev_p,
    squeeze_p,
    transpose_p,
)
from pyjax.lax.shape_join import concatenate_p
from pyjax.lax.sort import sort_p


def _without(entries: Entries, axes: Sequence[int]) -> Entries:
    return tuple(entry for i, entry in enumerate(entries) if i not in axes)


def _broadcast(eqn: JaxprEqn, entries: Entries) -> Entries:
    shape = eqn.outvars[0].aval.shape
    result: list[Any] = [None] * len(shape)
    sizes = eqn.invars[0].aval.shape
    for entry, size, dim in zip(entries, sizes, eqn.params["broadcast_dimensions"]):
        result[dim] = entry if size == shape[dim] else None
    return tuple(result)


def _reshaped(eqn: JaxprEqn, entries: Entries) -> Entries:
    """Dimensions of size 1 come and go; where others change, the result is whole."""
    old, new = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    if [n for n in old if n != 1] != [n for n in new if n != 1]:
        return (None,) * len(new)
    rest = iter([entry for entry, n in zip(entries, old) if n != 1])
    return tuple(None if n == 1 else next(rest) for n in new)


def _dot(eqn: JaxprEqn, operands: Sequence[Known]) -> Sequence[Known]:
    mesh = next((known.mesh for known in operands if known is not None), None)
    if mesh is None:
        return [None]
    left, right = (
        (None,) * atom.aval.ndim if known is None or known.mesh != mesh else known.entries
        for known, atom in zip(operands, eqn.invars)
    )
    (lhs_summed, rhs_summed), (lhs_batch, rhs_batch) = eqn.params["dimension_numbers"]
    entries = [
        *(left[i] if left[i] is not None else right[j] for i, j in zip(lhs_batch, rhs_batch)),
        *_without(left, (*lhs_summed, *lhs_batch)),
        *_without(right, (*rhs_summed, *rhs_batch)),
    ]
    used: set[Any] = set()
    for i, entry in enumerate(entries):
        names = set(entry if isinstance(entry, tuple) else (entry,)) - {None}
        if names & used:
            entries[i] = None  # an axis splits one dimension
        used |= names
    return [Layout(mesh, tuple(entries))]


def _inferred(known: Sequence[Known]) -> list[Known]:
    """Layouts that nobody asked for: what starts a loop, or one branch gives, so lies, and the
    compiler may split the result further, as the others do."""
    return [layout and layout._replace(sharding=None) for layout in known]


def _while(eqn: JaxprEqn, operands: Sequence[Known]) -> Sequence[Known]:
    """Carries lie as they do at the start."""
    return _inferred(operands[eqn.params["cond_nconsts"] + eqn.params["body_nconsts"] :])


def _scan(eqn: JaxprEqn, operands: Sequence[Known]) -> Sequence[Known]:
    consts, carries = eqn.params["num_consts"], eqn.params["num_carry"]
    one = [
        known and Layout(known.mesh, known.entries[1:]) for known in operands[consts + carries :]
    ]
    found = layouts_of_results(eqn.params["jaxpr"], [*operands[: consts + carries], *one])
    each = [known and Layout(known.mesh, (None, *known.entries)) for known in found[carries:]]
    return [*_inferred(operands[consts : consts + carries]), *each]


for _same in (
    convert_element_type_p,
    copy_p,
    stop_gradient_p,
    rev_p,
    cumsum_p,
    cumprod_p,
    cummax_p,
    cummin_p,
    cumlogsumexp_p,
):
    layout_rules[_same] = moved(lambda eqn, entries: entries)
for _each in (optimization_barrier_p, sort_p):
    layout_rules[_each] = lambda eqn, operands: list(operands)
for _reduction in (
    reduce_sum_p,
    reduce_prod_p,
    reduce_max_p,
    reduce_min_p,
    reduce_and_p,
    reduce_or_p,
    reduce_xor_p,
    argmax_p,
    argmin_p,
):
    layout_rules[_reduction] = moved(lambda eqn, entries: _without(entries, eqn.params["axes"]))
layout_rules[transpose_p] = moved(
    lambda eqn, entries: tuple(entries[i] for i in eqn.params["permutation"])
)
layout_rules[broadcast_in_dim_p] = moved(_broadcast)
layout_rules[reshape_p] = moved(_reshaped)
layout_rules[squeeze_p] = moved(lambda eqn, entries: _without(entries, eqn.params["dimensions"]))
layout_rules[concatenate_p] = moved(lambda eqn, entries: entries)
layout_rules[cond_p] = lambda eqn, operands: _inferred(
    layouts_of_results(eqn.params["branches"][0], operands[1:])
)
layout_rules[while_p] = _while
layout_rules[scan_p] = _scan
layout_rules[dot_general_p] = _dot
