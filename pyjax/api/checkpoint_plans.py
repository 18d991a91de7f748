"""What `checkpoint` saves: a program is cut in what runs forwards and keeps values that its policy
names, and what computes the others again from them.

The policy is asked about each operation, also of those inside of scan and cond: what a scan saves
is stacked, one value for each step, and what the branches of a cond save shares slots, since one of
them runs. A while_loop has no place for values of each round; it is computed again. Layer: api.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyjax.api.checkpoint_policies import Policy, everything_saveable
from pyjax.api.jit_primitive import jit_p
from pyjax.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    bind_eqn,
    eval_jaxpr,
)
from pyjax.core.primitive import Primitive
from pyjax.interpreters.dead_code import dce_jaxpr
from pyjax.interpreters.linearize import linearize_jaxpr
from pyjax.interpreters.partial_eval import partial_eval_jaxpr, trace_to_jaxpr
from pyjax.interpreters.trace_cache import jaxpr_cache
from pyjax.lax.control_flow.cond_rules import assign_slots, cond_p, with_residual_slots
from pyjax.lax.control_flow.scan_rules import scan_p
from pyjax.lax.control_flow.tracing import reordered, with_leading


class Plan:
    """How a checkpointed jaxpr is split.

    Attributes:
      forward: known inputs -> known outputs + saved values.
      staged: needed known inputs + saved values + unknown inputs -> unknown outputs; recomputes.
      needed: which known inputs `staged` reads.
      num_known: how many outputs of `forward` are no saved values.
      unknown_out: per output.
    """

    def __init__(
        self,
        forward: ClosedJaxpr,
        staged: ClosedJaxpr,
        needed: list[bool],
        num_known: int,
        unknown_out: list[bool],
    ) -> None:
        self.forward = forward
        self.num_known = num_known
        self.staged = staged
        self.needed = needed
        self.unknown_out = unknown_out


@jaxpr_cache
def plan_of(jaxpr: ClosedJaxpr, unknown_in: tuple[bool, ...], policy: Policy | None) -> Plan:
    known, staged, unknown_out, _ = partial_eval_jaxpr(jaxpr, unknown_in, False)
    num_known = sum(not u for u in unknown_out)
    return _plan_for(known, staged, num_known, unknown_out, policy)


@jaxpr_cache
def linear_plan(jaxpr: ClosedJaxpr, nonzero_in: tuple[bool, ...], policy: Policy | None) -> Plan:
    """The plan with primals as what is known, and tangents as what is not."""
    primal, linear, nonzero_out, _ = linearize_jaxpr(jaxpr, nonzero_in)
    return _plan_for(primal, linear, len(nonzero_out), nonzero_out, policy)


def _plan_for(
    known: ClosedJaxpr,
    staged: ClosedJaxpr,
    num_known: int,
    unknown_out: list[bool],
    policy: Policy | None,
) -> Plan:
    """The plan for a program in two parts: `known` gives so many outputs, then residuals."""
    if policy is not None:
        known = _inline_calls(known)
    n, residuals = len(known.jaxpr.invars), known.jaxpr.outvars[num_known:]
    saved, keeping, recomputing = _cut(known.jaxpr, residuals, policy)
    # Recomputation: the known program with saved values as inputs.
    debug = known.jaxpr.debug_info
    inputs = [*known.jaxpr.invars, *saved]
    recompute = Jaxpr(known.jaxpr.constvars, inputs, residuals, recomputing, None, debug)
    recompute, used = dce_jaxpr(recompute, [True] * len(residuals))
    needed, num_inputs = used[:n], sum(used)
    outs = [*known.jaxpr.outvars[:num_known], *[v for v, u in zip(saved, used[n:]) if u]]
    forward = Jaxpr(known.jaxpr.constvars, known.jaxpr.invars, outs, keeping, None, debug)
    forward, _ = dce_jaxpr(forward, [True] * len(outs), True)

    def recompute_then_staged(*args: Any) -> list[Any]:
        values = eval_jaxpr(recompute, known.consts, *args[:num_inputs])
        return eval_jaxpr(staged.jaxpr, staged.consts, *values, *args[num_inputs:])

    avals = [v.aval for v in recompute.invars] + staged.in_avals[len(residuals) :]
    whole, _ = trace_to_jaxpr(recompute_then_staged, avals, debug=debug)
    return Plan(ClosedJaxpr(forward, known.consts), whole, needed, num_known, unknown_out)


# -- what is saved ---------------------------------------------------------------------------------


def _cut(
    jaxpr: Jaxpr, wanted: Sequence[Atom], policy: Policy | None
) -> tuple[list[Var], list[JaxprEqn], list[JaxprEqn]]:
    """Variables to store: saveable ones that the wanted ones are computed from; the equations with
    these, and those that compute the wanted ones from them."""
    needed: set[Atom] = {v for v in wanted if type(v) is not Literal}
    saved: list[Var] = []
    keeping, recomputing = [], []
    for eqn in reversed(jaxpr.eqns):
        kept = eqn
        if not needed.isdisjoint(eqn.outvars):
            inside = _inside(eqn, policy)
            if inside is not None:
                kept, again, found = inside
                saved.extend(found)
                recomputing.append(again)
                needed.update(a for a in eqn.invars if type(a) is not Literal)
            elif policy is not None and policy(
                eqn.primitive, *[a.aval for a in eqn.invars], **eqn.params
            ):
                saved.extend(v for v in eqn.outvars if v in needed)
            else:
                recomputing.append(eqn)
                needed.update(a for a in eqn.invars if type(a) is not Literal)
        keeping.append(kept)
    return saved[::-1], keeping[::-1], recomputing[::-1]


# The equation that saves more, the one that takes it, and the variables for that.
_Inside = tuple[JaxprEqn, JaxprEqn, list[Var]]


def _inside(eqn: JaxprEqn, policy: Policy | None) -> _Inside | None:
    """Look into an equation with programs; None: it is one operation for the policy."""
    rule = _rules.get(eqn.primitive)
    if rule is None or policy is None or policy is everything_saveable or eqn.effects:
        return None
    inside = rule(eqn, policy)
    return inside if inside is not None and inside[2] else None


class _Body(NamedTuple):
    """A program inside of an equation, cut in two.

    Attributes:
      keeping: inputs -> outputs and saved values.
      recomputing: inputs and saved values -> outputs.
      avals: of the saved values.
      as_output: for each, which output it is, if it is one.
    """

    keeping: ClosedJaxpr
    recomputing: ClosedJaxpr
    avals: list[Any]
    as_output: list[int | None]


@jaxpr_cache
def _cut_body(closed: ClosedJaxpr, policy: Policy) -> _Body:
    closed = _inline_calls(closed)
    jaxpr = closed.jaxpr
    saved, keeping, recomputing = _cut(jaxpr, jaxpr.outvars, policy)
    position = {v: i for i, v in enumerate(jaxpr.outvars) if type(v) is not Literal}
    keep = jaxpr.replace(eqns=keeping, outvars=[*jaxpr.outvars, *saved])
    again = jaxpr.replace(eqns=recomputing, invars=[*jaxpr.invars, *saved])
    return _Body(
        ClosedJaxpr(keep, closed.consts),
        ClosedJaxpr(again, closed.consts),
        [v.aval for v in saved],
        [position.get(v) for v in saved],
    )


def _inside_scan(eqn: JaxprEqn, policy: Policy) -> _Inside | None:
    """What is saved in a step becomes one of the ys, unless it is one, and one of the xs."""
    params = eqn.params
    body = _cut_body(params["jaxpr"], policy)
    outs = eqn.outvars
    found: list[Var] = []
    stacked = list(range(len(outs)))
    for i, (aval, position) in enumerate(zip(body.avals, body.as_output)):
        is_y = position is not None and position >= params["num_carry"]
        if is_y and type(outs[position]) is not DropVar and outs[position] not in found:
            found.append(outs[position])
        else:
            found.append(Var(aval.with_dim(0, params["length"])))
            stacked.append(len(outs) + i)
    keeping = reordered(body.keeping, range(len(body.keeping.in_avals)), stacked)
    kept = eqn.replace(
        outvars=[*outs, *[v for v in found if v not in outs]],
        params={**params, "jaxpr": keeping},
    )
    again = eqn.replace(
        invars=[*eqn.invars, *found],
        outvars=[DropVar(v.aval) if v in found else v for v in outs],
        params={**params, "jaxpr": body.recomputing},
    )
    return kept, again, found


def _inside_cond(eqn: JaxprEqn, policy: Policy) -> _Inside | None:
    """What the branches save shares results, and further operands."""
    bodies = [_cut_body(branch, policy) for branch in eqn.params["branches"]]
    slots, slot_avals = assign_slots([body.avals for body in bodies])
    found = [Var(aval) for aval in slot_avals]
    n = len(eqn.outvars)
    keeping, recomputing = [], []
    for body, own in zip(bodies, slots):
        keeping.append(with_residual_slots(body.keeping, n, own, slot_avals))
        num_in = len(body.keeping.in_avals)
        order = [*range(num_in, num_in + len(own)), *range(num_in)]
        first = reordered(body.recomputing, order, range(n))
        recomputing.append(with_leading(first, own, slot_avals))
    index, *operands = eqn.invars
    kept = eqn.replace(
        outvars=[*eqn.outvars, *found], params={**eqn.params, "branches": tuple(keeping)}
    )
    again = eqn.replace(
        invars=[index, *found, *operands],
        params={**eqn.params, "branches": tuple(recomputing)},
    )
    return kept, again, found


_rules: dict[Primitive, Callable[[JaxprEqn, Policy], _Inside | None]] = {
    scan_p: _inside_scan,
    cond_p: _inside_cond,
}


@jaxpr_cache
def _inline_calls(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Splice in the bodies of jit equations, so that policies see their operations."""
    if not any(e.primitive is jit_p for e in closed.eqns):
        return closed

    def evaluate(inner: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        return eval_jaxpr(inner.jaxpr, inner.consts, *args, apply=bind_inlined)

    def bind_inlined(eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
        if eqn.primitive is jit_p:
            return evaluate(eqn.params["jaxpr"], values)
        return bind_eqn(eqn, values)

    new, _ = trace_to_jaxpr(
        lambda *xs: evaluate(closed, xs), closed.in_avals, debug=closed.jaxpr.debug_info
    )
    return new
