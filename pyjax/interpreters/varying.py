"""Along which mesh axes the values of an equation vary, while the body of a shard_map is traced.

Most operations take operands that vary along the same axes, and their results vary along these:
an operand that varies along fewer is cast by `pvary` where the equation is recorded. Collectives,
and primitives with programs inside, say what is different with them in `varying_rules`. Layer:
interpreters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core import axis_env
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.primitive import Primitive

Axes = frozenset[Any]
# What operands must vary along at least, and what results vary along (None: as their avals say).
Variation = tuple[Sequence[Axes], Sequence[Axes] | None]
# `rule(axes of each operand, avals of the results, params)`.
VaryingRule = Callable[[list[Axes], Sequence[Any], dict[str, Any]], Variation]

varying_rules: dict[Primitive, VaryingRule] = {}


def vma_of(avals: Sequence[Any]) -> list[Axes]:
    """Along which mesh axes values of these types vary."""
    return [a.vma for a in avals]


def along_too(what: str, aval: Any, axes: Axes) -> Axes:
    """Along which axes a value of this type varies, if devices along some choose for themselves
    which it is. Along those where it is one of the summands of a sum that is still to be made, it
    stays that.

    Raises:
      ValueError: along one of them its cotangent is such a sum, which needs the same on all.
    """
    split = aval.split
    if split is None:
        return aval.vma | axes
    if marked := axes & split.reduced:
        fail(
            ValueError,
            f"{what} is of type {aval.str_short()}, which says that it is the same on all devices "
            f"along {set(marked)}.",
            "what chooses it may differ from device to device along these axes",
            f"cast it in the function: lax.pcast(x, {tuple(marked)}, to='varying').",
        )
    return aval.vma | (axes - split.unreduced)


def joined(operands: list[Axes], results: Sequence[Any], params: dict[str, Any]) -> Variation:
    """The rule of most primitives: all operands, and the results, vary along the same axes."""
    everywhere = frozenset[Any]().union(*operands)
    return [everywhere] * len(operands), [everywhere] * len(results)


def as_typed(operands: list[Axes], results: Sequence[Any], params: dict[str, Any]) -> Variation:
    """The rule of primitives whose results have their types already, whatever the operands."""
    return operands, None


def as_program_says(parameter: str) -> VaryingRule:
    """The rule of a primitive that calls the program in a parameter: operands vary as its inputs
    do."""

    def rule(operands: list[Axes], results: Sequence[Any], params: dict[str, Any]) -> Variation:
        program: ClosedJaxpr = params[parameter]
        return vma_of(program.in_avals), None

    return rule


def variation(
    primitive: Primitive, operands: list[Axes], results: Sequence[Any], params: dict[str, Any]
) -> Variation:
    """What the operands of an equation must vary along, and its results do."""
    return varying_rules.get(primitive, joined)(operands, results, params)


def refuse_to_cast(name: str, avals: Sequence[Any], axes: Axes) -> None:
    """Raise ValueError for an operation that would cast an operand along these axes."""
    types = ", ".join(a.str_short() for a in avals)
    fail(
        ValueError,
        f"{name} requires varying manual axes to match, but got {types}.",
        f"an operand is the same along {sorted(map(str, axes))}, the operation takes those that "
        "vary, and the option jax_auto_pcast, which casts them, is off",
        f"cast it before: lax.pcast(x, {axis_env.in_order(axes)}, to='varying').",
    )
