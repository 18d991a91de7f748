"""Effects: what an equation does besides computing its outputs. Layer: core."""

from __future__ import annotations

from collections.abc import Iterable

Effects = frozenset["Effect"]


class Effect:
    """Base of effects. Equal by identity unless a subclass says otherwise.

    Attributes:
      ordered: equations with this effect run in program order.
      differentiable, in_control_flow: whether ad may drop it / control flow may hold it.
    """

    name = "effect"
    ordered = False

    def __repr__(self) -> str:
        return self.name


class DebugEffect(Effect):
    """Printing and debugging callbacks, unordered."""

    name = "Debug"


class OrderedDebugEffect(Effect):
    """Printing in program order."""

    name = "OrderedDebug"
    ordered = True


class IOEffect(Effect):
    """Callbacks into Python with side effects."""

    name = "IO"


class OrderedIOEffect(Effect):
    """Callbacks into Python that must run in program order."""

    name = "OrderedIO"
    ordered = True


class NamedAxisEffect(Effect):
    """The equation refers to a named axis (collectives)."""

    def __init__(self, name: str) -> None:
        self.axis_name = name
        self.name = f"NamedAxis({name})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedAxisEffect) and other.axis_name == self.axis_name

    def __hash__(self) -> int:
        return hash((NamedAxisEffect, self.axis_name))


debug_effect = DebugEffect()
ordered_debug_effect = OrderedDebugEffect()
io_effect = IOEffect()
ordered_io_effect = OrderedIOEffect()
no_effects: Effects = frozenset()


def join_effects(groups: Iterable[Effects]) -> Effects:
    """Union."""
    result: Effects = no_effects
    for group in groups:
        if group:
            result = result | group
    return result


def has_side_effect(effects: Effects) -> bool:
    """Whether dead-code elimination must keep an equation (named axes are no side effect)."""
    return bool(effects) and any(not isinstance(e, NamedAxisEffect) for e in effects)
