"""Derivatives of primitives that users define: tables, and short forms of rules.

They are names of `pyjax.interpreters.ad`. Layer: interpreters.
"""

from __future__ import annotations

from typing import Any

from pyjax.core.avals import abstractify
from pyjax.core.errors import new_error
from pyjax.core.primitive import Primitive
from pyjax.core.structural import add_jaxvals
from pyjax.interpreters.rules import (
    LINEAR,
    define_jvp,
    jvp_rules,
    linearize_rules,
    transpose_rules,
)
from pyjax.interpreters.tangents import Zero, is_undefined_primal
from pyjax.interpreters.written_rules import Rule, RuleView, WrittenRule, as_user_sees


class _WrittenJvp(WrittenRule):
    """`(primals, tangents, **params) -> (out, tangent out)`, or of sequences."""

    __slots__ = ()

    def __call__(self, primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        outs, out_tangents = self.written(tuple(primals), tuple(tangents), **params)
        return self.as_list(outs), self.as_list(out_tangents)


def _shown_jvp(primitive: Primitive, rule: Rule) -> Rule:
    def shown(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        outs, out_tangents = rule(list(primals), list(tangents), **params)
        return as_user_sees(primitive, outs), as_user_sees(primitive, out_tangents)

    return shown


class _WrittenTranspose(WrittenRule):
    """`(ct, *operands, **params) -> cotangents of the operands`; `ct` is a list where there are
    several results."""

    __slots__ = ()

    def __call__(self, cts: Any, *args: Any, **params: Any) -> list[Any]:
        found = self.written(as_user_sees(self.primitive, cts), *args, **params)
        if not isinstance(found, (list, tuple)) or len(found) != len(args):
            shown = f"{len(found)}" if isinstance(found, (list, tuple)) else repr(found)
            raise new_error(
                ValueError,
                f"The transpose rule of {self.primitive} returned {shown:.80} for {len(args)} "
                "operands.",
                "it gives a list with one cotangent per operand, None where there is none",
                "Write return [ct_of_first, None, ...].",
            )
        for number, (x, ct) in enumerate(zip(args, found)):
            if is_undefined_primal(x) and ct is not None:
                self._check(number, x.aval.to_tangent_aval(), ct)
        return list(found)

    def _check(self, number: int, wanted: Any, ct: Any) -> None:
        """Of the operand's shape; as in JAX its dtype is not looked at here."""
        aval = ct.aval if type(ct) is Zero else abstractify(ct)
        if aval.shape != wanted.shape:
            raise new_error(
                ValueError,
                f"Expected cotangent type {wanted.str_short()} but got {aval.str_short()}.",
                f"the transpose rule of {self.primitive} returned it for operand {number}, whose "
                "shape a cotangent has",
                "Sum over the axes that the primitive broadcasts, or reshape, in that rule.",
            )


def _shown_transpose(primitive: Primitive, rule: Rule) -> Rule:
    def shown(ct: Any, *args: Any, **params: Any) -> list[Any]:
        return rule(list(ct) if primitive.multiple_results else [ct], *args, **params)

    return shown


# By primitive: `(primals, tangents, **params) -> (out, tangent out)`. Tangents may be `ad.Zero`.
primitive_jvps = RuleView(jvp_rules, _WrittenJvp, _shown_jvp, refined=[linearize_rules])
# By primitive: `(ct, *operands, **params) -> cotangents`. Linear operands are `UndefinedPrimal`.
primitive_transposes = RuleView(transpose_rules, _WrittenTranspose, _shown_transpose)


def get_primitive_transpose(p: Primitive) -> Rule:
    """The transpose rule of a primitive as users write them.

    Raises:
      NotImplementedError: it has none.
    """
    transpose_rules[p]
    return primitive_transposes[p]


def defjvp(primitive: Primitive, *jvprules: Rule | None) -> None:
    """Derivatives of a primitive of one result by its operands, one rule for each:
    `rule(tangent, *operands, **params) -> tangent of the result`; None where it does not depend.

    >>> from pyjax import lax, jvp
    >>> from pyjax.extend.core import Primitive
    >>> from pyjax.interpreters import ad
    >>> square_p = Primitive("square_of")
    >>> _ = square_p.def_impl(lambda x: x * x)
    >>> ad.defjvp(square_p, lambda g, x: 2 * g * x)
    >>> jvp(square_p.bind, (3.0,), (1.0,))
    (9.0, 6.0)
    """

    def without_result(rule: Rule | None) -> Rule | None:
        if rule is None:
            return None
        return lambda g, ans, *primals, **params: rule(g, *primals, **params)

    defjvp2(primitive, *map(without_result, jvprules))


def defjvp2(primitive: Primitive, *jvprules: Rule | None) -> None:
    """`defjvp` by rules that are given the result, too:
    `rule(tangent, result, *operands, **params)`."""
    _check_one_result("defjvp", primitive)
    define_jvp(primitive, jvprules)


def deflinear(primitive: Primitive, transpose_rule: Rule) -> None:
    """A primitive that is linear in all operands jointly: its derivative is itself.

    `transpose_rule(ct, **params) -> list of cotangents`, one per operand.
    """
    deflinear2(primitive, lambda ct, *operands, **params: transpose_rule(ct, **params))


def deflinear2(primitive: Primitive, transpose_rule: Rule) -> None:
    """`deflinear` by a rule that is given the operands, too, as `UndefinedPrimal`:
    `transpose_rule(ct, *operands, **params)`."""
    define_jvp(primitive, LINEAR)
    primitive_transposes[primitive] = transpose_rule


def defbilinear(prim: Primitive, lhs_rule: Rule, rhs_rule: Rule) -> None:
    """A primitive of two operands that is linear in each of them.

    `lhs_rule(ct, x, y, **params)` gives the cotangent of `x`, which is an `UndefinedPrimal` there;
    `rhs_rule` that of `y`.
    """

    def transpose(ct: Any, x: Any, y: Any, **params: Any) -> list[Any]:
        if is_undefined_primal(x):
            return [lhs_rule(ct, x, y, **params), None]
        return [None, rhs_rule(ct, x, y, **params)]

    defjvp(
        prim,
        lambda g, x, y, **params: prim.bind(g, y, **params),
        lambda g, x, y, **params: prim.bind(x, g, **params),
    )
    primitive_transposes[prim] = transpose


def add_tangents(x: Any, y: Any) -> Any:
    """Sum of two (co)tangents, of which either may be `Zero`."""
    if type(x) is Zero:
        return y
    return x if type(y) is Zero else add_jaxvals(x, y)


def _check_one_result(what: str, primitive: Primitive) -> None:
    if primitive.multiple_results:
        raise new_error(
            TypeError,
            f"{what} takes a primitive of one result, {primitive} has several.",
            "there is one tangent per operand and result",
            "Write ad.primitive_jvps[p] = rule, where rule(primals, tangents, **params) returns "
            "the list of results and the list of their tangents.",
        )


__all__ = [
    "add_tangents",
    "defbilinear",
    "defjvp",
    "defjvp2",
    "deflinear",
    "deflinear2",
    "get_primitive_transpose",
    "primitive_jvps",
    "primitive_transposes",
]
