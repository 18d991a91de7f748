"""The short forms of jvp rules (per operand, linear, zero) expanded to full rules.

A full rule is `(primals, tangents, **params) -> (outs list, tangent outs list)`. A linearization
rule (linearize.py) does the same with outputs that are computed at once, and tangents that the tape
records. Layer: interpreters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjax.core.avals import abstractify
from pyjax.core.errors import new_error
from pyjax.core.primitive import Primitive
from pyjax.core.structural import add_jaxvals
from pyjax.interpreters.tangents import Zero, instantiate_zeros

Jvp = Callable[..., tuple[list[Any], list[Any]]]
Linearization = Callable[..., tuple[list[Any], list[Any]]]


def _zero_of(out: Any) -> Zero:
    return Zero(abstractify(out).to_tangent_aval())


def _sum_of_terms(
    primitive: Primitive,
    rules: Any,
    ans: Any,
    primals: Any,
    tangents: Any,
    params: dict[str, Any],
) -> list[Any]:
    """The tangent of the one output, by the rules of the operands."""
    if len(tangents) > len(rules):
        raise new_error(
            TypeError, f"{primitive}: {len(rules)} jvp rules for {len(tangents)} operands"
        )
    total = None
    for rule, tangent in zip(rules, tangents):
        if rule is None or type(tangent) is Zero:
            continue
        term = rule(tangent, ans, *primals, **params)
        if type(term) is Zero:
            continue
        total = term if total is None else add_jaxvals(total, term)
    return [_zero_of(ans) if total is None else total]


def _of_operands(rules: Any) -> tuple[Any, ...]:
    return tuple(rules) if isinstance(rules, (tuple, list)) else (rules,)


def operandwise_jvp(primitive: Primitive, rules: Any) -> Jvp:
    """From one rule per operand, `rule(g, ans, *primals, **params) -> tangent`."""
    rules = _of_operands(rules)

    def jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        outs = primitive.bind_all(*primals, **params)
        return outs, _sum_of_terms(primitive, rules, outs[0], primals, tangents, params)

    return jvp


def operandwise_linearization(primitive: Primitive, rules: Any) -> Linearization:
    """From the same; coefficients are computed at once, because the tape knows their operands."""
    rules = _of_operands(rules)

    def linearize(
        tape: Any, primals: Any, tangents: Any, **params: Any
    ) -> tuple[list[Any], list[Any]]:
        outs = primitive.bind_all(*primals, **params)
        return outs, tape.run(_sum_of_terms, primitive, rules, outs[0], primals, tangents, params)

    return linearize


def linear_jvp(primitive: Primitive) -> Jvp:
    """The primitive itself applied to the tangents."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        outs = primitive.bind_all(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return outs, [_zero_of(o) for o in outs]
        dense = [instantiate_zeros(t) for t in tangents]
        return outs, primitive.bind_all(*dense, **params)

    return jvp


def linear_linearization(primitive: Primitive) -> Linearization:
    """The primitive itself, recorded for the tangents."""

    def linearize(
        tape: Any, primals: Any, tangents: Any, **params: Any
    ) -> tuple[list[Any], list[Any]]:
        outs = primitive.bind_all(*primals, **params)
        dense = tuple([instantiate_zeros(t) for t in tangents])
        return outs, tape.process_primitive(primitive, dense, params)

    return linearize


def zero_jvp(primitive: Primitive) -> Jvp:
    """Tangents are zero whatever comes in."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        outs = primitive.bind_all(*primals, **params)
        return outs, [_zero_of(o) for o in outs]

    return jvp


def zero_linearization(primitive: Primitive) -> Linearization:
    """There is nothing to record."""

    def linearize(
        tape: Any, primals: Any, tangents: Any, **params: Any
    ) -> tuple[list[Any], list[Any]]:
        outs = primitive.bind_all(*primals, **params)
        return outs, [_zero_of(o) for o in outs]

    return linearize
