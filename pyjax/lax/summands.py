"""Programs with sums over mesh axes that are still to be made (`P(unreduced={...})`).

Such an array is stored with a leading dimension of summands for each of the axes, which splits it.
Operations that are linear compute each summand by itself (`hlo.lower_each_summand`). Here are those
that make summands, and the sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pyjax.core.array import Array
from pyjax.core.avals import Split, physical_aval, unsplit
from pyjax.core.jaxpr import JaxprEqn
from pyjax.core.structural import broadcast_in_dim_p, reduce_sum_p, reshard_p
from pyjax.interpreters.hlo import (
    LoweringContext,
    lower_each_summand,
    summand_lowerings,
)
from pyjax.interpreters.splits import names_of
from pyjax.interpreters.staging import trace_to_jaxpr
from pyjax.lax.common import shape_of
from pyjax.lax.compare import eq, full_value, select
from pyjax.lax.creation import broadcasted_iota
from pyjax.lax.dot import dot_general, dot_general_p
from pyjax.lax.nary import expand_to
from pyjax.lax.reduce import reduce_sum
from pyjax.lax.shape import reshape, transpose
from pyjax.lax.sharding_lowering import lay_out
from pyjax.sharding.splits import sharding_of
from xla_backend.hlo.instruction import Instruction


def _lowered(
    context: LoweringContext, fun: Any, operands: Sequence[Instruction], sharding: Any
) -> list[Instruction]:
    (out,) = context.inline_jaxpr(trace_to_jaxpr(fun, context.avals_in)[0], *operands)
    return [lay_out(context, out, sharding)]


def _axes_of(aval: Any) -> tuple[Any, ...]:
    return () if aval.split is None else aval.split.summed_axes


# -- reshard ---------------------------------------------------------------------------------------


def _resummed(x: Array, old: Sequence[Any], new: Sequence[Any], sizes: Any) -> Array:
    """Summands along these axes instead of those: sums are made over axes that are gone; along new
    ones the first has the value, and the others zeros."""
    gone = [i for i, name in enumerate(old) if name not in new]
    x = reduce_sum(x, gone) if gone else x
    kept = [name for name in old if name in new]
    for at, name in enumerate(new):
        if name in kept:
            continue
        shape = shape_of(x)
        wide = (*shape[:at], sizes[name], *shape[at:])
        x = expand_to(x, wide, tuple(i for i in range(len(wide)) if i != at))
        position = broadcasted_iota("int32", wide, at)
        x = select(eq(position, full_value(position, 0)), x, full_value(x, 0))
    return x


def _reshard(
    context: LoweringContext, eqn: JaxprEqn, operands: list[Instruction]
) -> list[Instruction]:
    target = eqn.params["dst_sharding"]
    old, new = _axes_of(eqn.invars[0].aval), _axes_of(eqn.outvars[0].aval)
    context.avals_in = [unsplit(physical_aval(eqn.invars[0].aval))]
    move = lambda x: [_resummed(x, old, new, target.mesh.shape)]
    return _lowered(context, move, operands, target)


def _broadcast_in_dim(
    context: LoweringContext, eqn: JaxprEqn, operands: list[Instruction]
) -> list[Instruction]:
    """Of a value that is no sum: one of its summands is all of it."""
    (aval,), (out,) = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    if _axes_of(aval):
        return lower_each_summand(context, eqn, operands)
    dims = eqn.params["broadcast_dimensions"]
    make = lambda x: [
        _resummed(expand_to(x, out.shape, dims), (), _axes_of(out), out.split.mesh.shape)
    ]
    return _lowered(context, make, operands, sharding_of(out.split))


# -- contractions and reductions that leave sums to be made ----------------------------------------


def _cut(x: Array, dims: Sequence[int], split: Split) -> tuple[Array, dict[Any, int]]:
    """A dimension for each mesh axis that splits one of these, in front of what is left of it; and
    where that is."""
    shape: list[int] = []
    places: dict[Any, int] = {}
    for i, (size, entry) in enumerate(zip(shape_of(x), split.entries)):
        names = tuple(names_of((entry,))) if i in dims else ()
        for name in names:
            places[name] = len(shape)
            shape.append(split.mesh.shape[name])
        shape.append(size // math.prod(split.mesh.shape[name] for name in names))
    return reshape(x, tuple(shape)), places


def _moved(dims: Sequence[int], places: dict[Any, int], rank: int) -> tuple[int, ...]:
    """Where dimensions are after a cut."""
    left = [i for i in range(rank + len(places)) if i not in places.values()]
    return tuple(left[d] for d in dims)


def _dot_general(
    context: LoweringContext, eqn: JaxprEqn, operands: list[Instruction]
) -> list[Instruction]:
    (left, right), (out,) = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    params = dict(eqn.params)
    (lhs_summed, rhs_summed), (lhs_batch, rhs_batch) = params.pop("dimension_numbers")
    sharding = params.pop("out_sharding")
    axes = _axes_of(out)

    def product(lhs: Array, rhs: Array) -> list[Array]:
        lhs, at_lhs = _cut(lhs, lhs_summed, left.split)
        rhs, at_rhs = _cut(rhs, rhs_summed, right.split)
        numbers = (
            (
                _moved(lhs_summed, at_lhs, left.ndim),
                _moved(rhs_summed, at_rhs, right.ndim),
            ),
            (
                (*(at_lhs[n] for n in axes), *_moved(lhs_batch, at_lhs, left.ndim)),
                (*(at_rhs[n] for n in axes), *_moved(rhs_batch, at_rhs, right.ndim)),
            ),
        )
        return [dot_general(lhs, rhs, numbers, **params)]

    return _lowered(context, product, operands, sharding)


def _reduce_sum(
    context: LoweringContext, eqn: JaxprEqn, operands: list[Instruction]
) -> list[Instruction]:
    (aval,), (out,) = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    if _axes_of(aval):
        return lower_each_summand(context, eqn, operands)
    summed = eqn.params["axes"]

    def total(x: Array) -> list[Array]:
        x, places = _cut(x, summed, aval.split)
        kept = [places[name] for name in _axes_of(out)]
        over = {*_moved(summed, places, aval.ndim), *places.values()} - {*kept}
        x = transpose(x, (*kept, *(i for i in range(len(shape_of(x))) if i not in kept)))
        order = [*kept, *(i for i in range(len(shape_of(x))) if i not in kept)]
        return [reduce_sum(x, [order.index(i) for i in sorted(over)])]

    return _lowered(context, total, operands, eqn.params["out_sharding"])


summand_lowerings[reshard_p] = _reshard
summand_lowerings[broadcast_in_dim_p] = _broadcast_in_dim
summand_lowerings[dot_general_p] = _dot_general
summand_lowerings[reduce_sum_p] = _reduce_sum
