"""The scan primitive: a loop of known length over leading axes. Shapes, jvp, batching, dead code.

Operands: constants, initial carry, xs. The body jaxpr takes (consts, carry, slices of xs) and
returns (carry, slices of ys). Reverse mode is in scan_reverse.py, lowering in scan_lowering.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyjax.core.jaxpr import ClosedJaxpr, DropVar, JaxprEqn
from pyjax.core.primitive import Primitive
from pyjax.interpreters import ad
from pyjax.interpreters.batching import batch_jaxpr, bdim_at_front, move_bdim, not_mapped
from pyjax.interpreters.dead_code import dce_jaxpr
from pyjax.interpreters.lift_constants import bind_lifted
from pyjax.interpreters.trace_cache import jaxpr_cache
from pyjax.lax.common import aval_of
from pyjax.lax.control_flow.tracing import either, pick, reordered, split_list

scan_p = Primitive("scan")


def scan_aval(
    *avals: Any, jaxpr: ClosedJaxpr, length: int, num_carry: int, **params: Any
) -> list[Any]:
    carry, ys = split_list(jaxpr.out_avals, num_carry)
    return carry + [y.with_dim(0, length) for y in ys]


def scan_effects(*avals: Any, jaxpr: ClosedJaxpr, **params: Any) -> Any:
    return jaxpr.effects


def interleaved(counts: Sequence[int], extra: Sequence[int]) -> list[int]:
    """Positions that turn (a, b, c, a', b', c') into (a, a', b, b', c, c')."""
    order: list[int] = []
    start, start_extra = 0, sum(counts)
    for n, m in zip(counts, extra):
        order += range(start, start + n)
        order += range(start_extra, start_extra + m)
        start, start_extra = start + n, start_extra + m
    return order


def scan_jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> tuple[list[Any], list[Any]]:
    nonzero = [type(t) is not ad.Zero for t in tangents]
    consts_nz, carry_nz, xs_nz = split_list(nonzero, num_consts, num_carry)
    num_ys = len(jaxpr.out_avals) - num_carry
    while True:
        pushed, nonzero_out = ad.jvp_jaxpr(
            jaxpr, consts_nz + carry_nz + xs_nz, carry_nz + [False] * num_ys
        )
        carry_out, ys_nz = split_list(nonzero_out, num_carry)
        if carry_out == carry_nz:
            break
        carry_nz = either(carry_nz, carry_out)
    parts = split_list(primals, num_consts, num_carry)
    tangent_parts = split_list(tangents, num_consts, num_carry)
    flags = [consts_nz, carry_nz, xs_nz]
    operands: list[Any] = []
    for part, tangent_part, flag in zip(parts, tangent_parts, flags):
        operands += part
        operands += [ad.instantiate_zeros(t) for t in pick(tangent_part, flag)]
    ins = interleaved([len(p) for p in parts], [sum(f) for f in flags])
    out_order = interleaved([num_carry, num_ys], [sum(carry_nz), sum(ys_nz)])
    outs = bind_lifted(
        scan_p,
        *operands,
        jaxpr=reordered(pushed, ins, out_order),
        num_consts=num_consts + sum(consts_nz),
        num_carry=num_carry + sum(carry_nz),
        **params,
    )
    carry, carry_t, ys, ys_t = split_list(outs, num_carry, sum(carry_nz), num_ys)
    dense = iter([*carry_t, *ys_t])
    outs = carry + ys
    return outs, [
        next(dense) if nz else ad.Zero(aval_of(out).to_tangent_aval())
        for nz, out in zip(carry_nz + ys_nz, outs)
    ]


def scan_batching(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[Any],
    *,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> Any:
    batched = [d is not not_mapped for d in dims]
    consts_b, carry_b, xs_b = split_list(batched, num_consts, num_carry)
    num_ys = len(jaxpr.out_avals) - num_carry
    while True:
        new, out_b = batch_jaxpr(
            jaxpr, axis_size, consts_b + carry_b + xs_b, carry_b + [False] * num_ys
        )
        carry_out, ys_b = split_list(out_b, num_carry)
        if carry_out == carry_b:
            break
        carry_b = either(carry_b, carry_out)
    first_x = num_consts + num_carry
    moved = [
        bdim_at_front(x, d, axis_size) if b else x
        for x, d, b in zip(args[:first_x], dims[:first_x], consts_b + carry_b)
    ]
    # The scanned axis stays first; the batch axis follows, and is first in the slices.
    moved += [
        x if d is not_mapped else move_bdim(x, d, 1) for x, d in zip(args[first_x:], dims[first_x:])
    ]
    outs = scan_p.bind(*moved, jaxpr=new, num_consts=num_consts, num_carry=num_carry, **params)
    out_dims = [0 if b else not_mapped for b in carry_b]
    return outs, out_dims + [1 if b else not_mapped for b in ys_b]


@jaxpr_cache
def _dce_body(
    jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, used_out: tuple[bool, ...]
) -> tuple[ClosedJaxpr, list[bool], list[bool]]:
    """(smaller body, used inputs, used outputs): a carry is used if any step needs it."""
    used_carry, used_ys = split_list(used_out, num_carry)
    num_xs = len(jaxpr.in_avals) - num_consts - num_carry
    while True:
        keep = [False] * num_consts + used_carry + [False] * num_xs
        small, used_in = dce_jaxpr(jaxpr.jaxpr, used_carry + used_ys, keep)
        carry_in = used_in[num_consts : num_consts + num_carry]
        if carry_in == used_carry:
            break
        used_carry = either(used_carry, carry_in)
    return ClosedJaxpr(small, jaxpr.consts), used_in, used_carry + used_ys


def scan_dce(used: Sequence[bool], eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    params = eqn.params
    num_consts, num_carry = params["num_consts"], params["num_carry"]
    small, used_in, used_out = _dce_body(
        params["jaxpr"], num_consts, num_carry, tuple(map(bool, used))
    )
    consts, carry, _ = split_list(used_in, num_consts, num_carry)
    outvars = [
        v if wanted else DropVar(v.aval)
        for v, wanted, kept in zip(eqn.outvars, used, used_out)
        if kept
    ]
    changed = dict(params, jaxpr=small, num_consts=sum(consts), num_carry=sum(carry))
    new = eqn.replace(
        invars=pick(eqn.invars, used_in), outvars=outvars, params=changed, effects=small.effects
    )
    return used_in, new
