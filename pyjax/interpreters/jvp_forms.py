"""The short forms of jvp rules (per operand, linear, zero) expanded to full rules.

A full rule is `(primals, tangents, **params) -> (outs list, tangent outs list)`. Layer:
interpreters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjax.core.avals import abstractify
from pyjax.core.primitive import Primitive
from pyjax.core.structural import add_jaxvals
from pyjax.interpreters.tangents import Zero, instantiate_zeros

Jvp = Callable[..., tuple[list[Any], list[Any]]]


def _zero_of(out: Any) -> Zero:
    return Zero(abstractify(out).to_tangent_aval())


def operandwise_jvp(primitive: Primitive, rules: Any) -> Jvp:
    """From one rule per operand, `rule(g, ans, *primals, **params) -> tangent`."""
    rules = tuple(rules) if isinstance(rules, (tuple, list)) else (rules,)

    def jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        (ans,) = primitive.bind(*primals, **params)
        if len(tangents) > len(rules):
            raise TypeError(f"{primitive}: {len(rules)} jvp rules for {len(tangents)} operands")
        total = None
        for rule, tangent in zip(rules, tangents):
            if rule is None or type(tangent) is Zero:
                continue
            term = rule(tangent, ans, *primals, **params)
            if type(term) is Zero:
                continue
            total = term if total is None else add_jaxvals(total, term)
        return [ans], [_zero_of(ans) if total is None else total]

    return jvp


def linear_jvp(primitive: Primitive) -> Jvp:
    """The primitive itself applied to the tangents."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        outs = primitive.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return outs, [_zero_of(o) for o in outs]
        dense = [instantiate_zeros(t) for t in tangents]
        return outs, primitive.bind(*dense, **params)

    return jvp


def zero_jvp(primitive: Primitive) -> Jvp:
    """Tangents are zero whatever comes in."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        outs = primitive.bind(*primals, **params)
        return outs, [_zero_of(o) for o in outs]

    return jvp
