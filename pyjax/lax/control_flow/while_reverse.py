"""Reverse mode of while: the loop counts its rounds, and its derivative is that of a loop of so
many rounds (counted_loops.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core.effects import has_side_effect
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.interpreters import ad
from pyjax.interpreters.lift_constants import bind_lifted
from pyjax.interpreters.partial_eval import partial_eval_jaxpr, trace_to_jaxpr
from pyjax.interpreters.trace_cache import jaxpr_cache
from pyjax.lax.arithmetic import add
from pyjax.lax.common import aval_of
from pyjax.lax.control_flow.counted_loops import (
    bind_gradient,
    carries_that_vary,
    loop_tangent_p,
)
from pyjax.lax.control_flow.tracing import either, merge, pick, reordered, split_list
from pyjax.lax.control_flow.while_primitive import while_p
from pyjax.lax.creation import full


@jaxpr_cache
def _counting(body: ClosedJaxpr, shape: tuple[int, ...]) -> ClosedJaxpr:
    """The body with the number of rounds as its last carry."""

    def fun(*args: Any) -> list[Any]:
        return [*body.eval(*args[:-1]), add(args[-1], np.ones(shape, np.int32))]

    avals = [*body.in_avals, aval_of(np.zeros(shape, np.int32))]
    return trace_to_jaxpr(fun, avals, debug=body.jaxpr.debug_info)[0]


@jaxpr_cache
def _ignoring_count(cond: ClosedJaxpr, count: Any) -> ClosedJaxpr:
    return trace_to_jaxpr(lambda *args: cond.eval(*args[:-1]), [*cond.in_avals, count])[0]


def _run_counted(
    cond_consts: Sequence[Any],
    body_consts: Sequence[Any],
    init: Sequence[Any],
    cond: ClosedJaxpr,
    body: ClosedJaxpr,
) -> tuple[list[Any], Any]:
    """The loop's results, and its rounds: of a batch, those of each lane, for a lane that stops
    keeps its count as it does its other state."""
    shape = cond.out_avals[0].shape
    count = full(shape, 0, np.dtype(np.int32))
    *outs, trips = bind_lifted(
        while_p,
        *cond_consts,
        *body_consts,
        *init,
        count,
        cond_nconsts=len(cond_consts),
        cond_jaxpr=_ignoring_count(cond, aval_of(count)),
        body_nconsts=len(body_consts),
        body_jaxpr=_counting(body, shape),
    )
    return outs, trips


@jaxpr_cache
def _without_effects(body: ClosedJaxpr) -> ClosedJaxpr:
    """What the backward pass runs again: prints and the like have been done."""
    jaxpr = body.jaxpr
    if not has_side_effect(jaxpr.effects):
        return body
    needed: set[Any] = set(jaxpr.outvars)
    eqns = []
    for eqn in reversed(jaxpr.eqns):
        if needed.isdisjoint(eqn.outvars):
            continue
        if has_side_effect(eqn.effects):
            fail(
                ValueError,
                f"while_loop: reverse-mode differentiation of a body in which {eqn.primitive} has "
                "side effects and gives a result that the loop uses.",
                "the backward pass computes states of the loop again, and the effect would be "
                "repeated.",
                "use lax.scan with a fixed number of steps, which stores what the backward pass "
                "needs, or lax.stop_gradient on what goes into the loop.",
            )
        needed.update(eqn.invars)
        eqns.append(eqn)
    return ClosedJaxpr(jaxpr.replace(eqns=eqns[::-1], effects=None), body.consts)


def while_linearize(
    tape: Any,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    cond_nconsts: int,
    cond_jaxpr: ClosedJaxpr,
    body_nconsts: int,
    body_jaxpr: ClosedJaxpr,
) -> tuple[list[Any], list[Any]]:
    cond_consts, consts, init = split_list(primals, cond_nconsts, body_nconsts)
    _, consts_t, init_t = split_list(tangents, cond_nconsts, body_nconsts)
    consts_on = tuple([type(t) is not ad.Zero for t in consts_t])
    body = _without_effects(body_jaxpr)
    carry_on = carries_that_vary(
        body, body_nconsts, consts_on, [type(t) is not ad.Zero for t in init_t]
    )
    if not any(carry_on):
        outs = while_p.bind(
            *primals,
            cond_nconsts=cond_nconsts,
            cond_jaxpr=cond_jaxpr,
            body_nconsts=body_nconsts,
            body_jaxpr=body_jaxpr,
        )
        return outs, [ad.Zero(aval_of(x).to_tangent_aval()) for x in outs]
    outs, trips = _run_counted(cond_consts, consts, init, cond_jaxpr, body_jaxpr)
    operands = [
        *consts,
        *init,
        trips,
        *pick(consts_t, consts_on),
        *[ad.instantiate_zeros(t) for t in pick(init_t, carry_on)],
    ]
    avals = [a.to_tangent_aval() for a in pick(body.out_avals, carry_on)]
    params = {
        "body": body,
        "num_consts": body_nconsts,
        "consts_on": consts_on,
        "carry_on": carry_on,
    }
    found = tape.emit(loop_tangent_p, operands, avals, params)
    zeros = [ad.Zero(aval_of(x).to_tangent_aval()) for x in outs]
    return outs, merge(carry_on, found, pick(zeros, carry_on, False))


def while_transpose(
    cts: Sequence[Any],
    *args: Any,
    cond_nconsts: int,
    cond_jaxpr: ClosedJaxpr,
    body_nconsts: int,
    body_jaxpr: ClosedJaxpr,
) -> list[Any]:
    """Of a loop that is linear in some of its state: the rest runs first, to count the rounds."""
    linear = [ad.is_undefined_primal(x) for x in args]
    cond_consts, consts, init = split_list(args, cond_nconsts, body_nconsts)
    cond_on, consts_on, carry_on = split_list(linear, cond_nconsts, body_nconsts)
    body = _without_effects(body_jaxpr)
    carry = list(carry_on)
    while True:
        known, _, out, _ = partial_eval_jaxpr(body, consts_on + carry, carry)
        if out == carry:
            break
        carry = either(carry, out)
    known_cond, _, (depends,), _ = partial_eval_jaxpr(cond_jaxpr, cond_on + carry, False)
    if depends:
        fail(
            ValueError,
            "while_loop: transposition of a loop that stops by what it is linear in.",
            "how often a linear loop runs cannot depend on the values it is applied to.",
            "differentiate with respect to the values that the condition uses, by jax.vjp.",
        )
    num_known = len(carry) - sum(carry)
    _, trips = _run_counted(
        cond_consts,
        pick(consts, consts_on, False),
        pick(init, carry, False),
        reordered(known_cond, range(len(known_cond.in_avals)), [0]),
        reordered(known, range(len(known.in_avals)), range(num_known)),
    )
    values = [ad.instantiate_zeros(ad.Zero(x.aval)) if u else x for x, u in zip(args, linear)]
    flags, closed = tuple(consts_on), tuple(carry)
    found = bind_gradient(
        values[cond_nconsts : cond_nconsts + body_nconsts],
        values[cond_nconsts + body_nconsts :],
        trips,
        [ad.instantiate_zeros(ct) for ct in pick(cts, carry)],
        body=body,
        consts_on=flags,
        carry_on=closed,
    )
    of_consts, of_carry = split_list(found, sum(flags))
    none = [None] * len(args)
    every = [*none[:cond_nconsts], *merge(flags, of_consts, none), *merge(closed, of_carry, none)]
    return [ct if u else None for ct, u in zip(every, linear)]
