"""Dead code: what no used output needs goes.

A primitive that holds jaxprs has a rule in `dce_rules`, `rule(used_outputs, eqn) -> (used inputs,
smaller equation, or None if nothing is left)`. It is asked only where some output is used and some
other is not. `dce_call_rule` makes the rule of a primitive that calls one jaxpr. Layer:
interpreters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyjax.core.effects import has_side_effect
from pyjax.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from pyjax.interpreters.rules import dce_rules
from pyjax.interpreters.trace_cache import jaxpr_cache

DceRule = Callable[[Sequence[bool], JaxprEqn], tuple[list[bool], JaxprEqn | None]]


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: bool | Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool]]:
    """Keep the used outputs and what they need.

    Args:
      used_outputs: per output (one flag or one per output).
      instantiate: inputs to keep though unused (one flag or one per input).
    Returns:
      The smaller jaxpr and which inputs it still has.
    """
    if isinstance(used_outputs, bool):
        used_outputs = [used_outputs] * len(jaxpr.outvars)
    needed: set[Var] = {
        v for v, used in zip(jaxpr.outvars, used_outputs) if used and type(v) is not Literal
    }
    eqns: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        used = [v in needed for v in eqn.outvars]
        if not any(used) and not has_side_effect(eqn.effects):
            continue
        rule = dce_rules.get(eqn.primitive)
        kept: JaxprEqn | None = eqn
        if rule is not None and not all(used):
            _, kept = rule(used, eqn)
        elif rule is None and not all(used):
            outvars = [v if u else DropVar(v.aval) for v, u in zip(eqn.outvars, used)]
            kept = eqn.replace(outvars=outvars)
        if kept is None:
            continue
        needed.update(a for a in kept.invars if type(a) is not Literal)
        eqns.append(kept)
    eqns.reverse()
    if isinstance(instantiate, bool):
        instantiate = [instantiate] * len(jaxpr.invars)
    used_inputs = [v in needed or keep for v, keep in zip(jaxpr.invars, instantiate)]
    new = Jaxpr(
        jaxpr.constvars,
        [v for v, used in zip(jaxpr.invars, used_inputs) if used],
        [v for v, used in zip(jaxpr.outvars, used_outputs) if used],
        eqns,
        None,
        jaxpr.debug_info,
    )
    return new, used_inputs


@jaxpr_cache
def dce_closed_jaxpr(
    closed: ClosedJaxpr,
    used_outputs: tuple[bool, ...],
    instantiate: bool | tuple[bool, ...] = False,
) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """`dce_jaxpr` with its constants, remembered."""
    jaxpr, used_inputs = dce_jaxpr(closed.jaxpr, used_outputs, instantiate)
    return ClosedJaxpr(jaxpr, closed.consts), tuple(used_inputs)


def dce_call_rule(
    changed: Callable[[ClosedJaxpr, Mapping[str, Any]], dict[str, Any]], name: str = "jaxpr"
) -> DceRule:
    """The rule of a primitive whose parameter `name` is the jaxpr that it calls.

    `changed(jaxpr, params)`: the parameters with that jaxpr instead.
    """

    def rule(used_outputs: Sequence[bool], eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
        closed, used_inputs = dce_closed_jaxpr(eqn.params[name], tuple(used_outputs))
        if not any(used_inputs) and not any(used_outputs) and not closed.effects:
            return list(used_inputs), None
        new = eqn.replace(
            invars=[v for v, used in zip(eqn.invars, used_inputs) if used],
            outvars=[v for v, used in zip(eqn.outvars, used_outputs) if used],
            params=changed(closed, eqn.params),
            effects=closed.effects,
        )
        return list(used_inputs), new

    return rule
