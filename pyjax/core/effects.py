"""Effects: what an equation does besides computing its outputs. Layer: core."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Effects = frozenset["Effect"]


class Effect:
    """Base of effects. Equal by identity unless a subclass says otherwise.

    Attributes:
      ordered: equations with this effect run in program order.
      differentiable, in_control_flow: whether ad may drop it / control flow may hold it.

    >>> class Logged(Effect):
    ...     name = "Logged"
    >>> Logged(), Logged.ordered
    (Logged, False)
    """

    name = "effect"
    ordered = False

    def __repr__(self) -> str:
        return self.name


class DebugEffect(Effect):
    """Printing and debugging callbacks, unordered.

    >>> jaxpr = pyjax.make_jaxpr(lambda x: pyjax.debug.print("{}", x))(1.0)
    >>> [type(effect) is DebugEffect for effect in jaxpr.effects]
    [True]
    """

    name = "Debug"


class OrderedDebugEffect(Effect):
    """Printing in program order.

    >>> jaxpr = pyjax.make_jaxpr(lambda x: pyjax.debug.print("{}", x, ordered=True))(1.0)
    >>> [type(effect) is OrderedDebugEffect for effect in jaxpr.effects]
    [True]
    """

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


class NewRefEffect(Effect):
    """The equation makes a mutable reference, or reads one for the last time."""

    name = "NewRef"


class RefEffect(Effect):
    """The equation uses the mutable reference that is its operand number `input_index`.

    Of a jaxpr it is the number of the input, constants first; references that the jaxpr itself
    makes are nobody else's business.
    """

    kind = "Ref"

    def __init__(self, input_index: int) -> None:
        self.input_index = input_index
        self.name = f"{self.kind}<{input_index}>"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.input_index == self.input_index

    def __hash__(self) -> int:
        return hash((type(self), self.input_index))


class ReadEffect(RefEffect):
    kind = "Read"


class WriteEffect(RefEffect):
    kind = "Write"


class AccumEffect(RefEffect):
    """What is added to an element does not depend on what it was."""

    kind = "Accum"


class EffectTypeSet:
    """Types of effects; a subclass of one that is in it is in it, too."""

    def __init__(self, *types: type[Effect]) -> None:
        self._types = types

    def add_type(self, effect_type: type[Effect]) -> None:
        """Take in a type."""
        self._types = (*self._types, effect_type)

    def contains(self, effect: Effect) -> bool:
        """Whether the effect is of one of the types."""
        return isinstance(effect, self._types)

    def filter_in(self, effects: Iterable[Effect]) -> list[Effect]:
        """Those of the types."""
        return [e for e in effects if isinstance(e, self._types)]

    def filter_not_in(self, effects: Iterable[Effect]) -> list[Effect]:
        """The others."""
        return [e for e in effects if not isinstance(e, self._types)]


# What programs may do besides computing: others say nothing of what becomes of them.
lowerable_effects = EffectTypeSet(
    DebugEffect,
    OrderedDebugEffect,
    IOEffect,
    OrderedIOEffect,
    NamedAxisEffect,
    NewRefEffect,
    RefEffect,
)
debug_effect = DebugEffect()
ordered_debug_effect = OrderedDebugEffect()
io_effect = IOEffect()
ordered_io_effect = OrderedIOEffect()
new_ref_effect = NewRefEffect()
no_effects: Effects = frozenset()


def join_effects(groups: Iterable[Effects]) -> Effects:
    """Union."""
    result: Effects = no_effects
    for group in groups:
        if group:
            result = result | group
    return result


def has_side_effect(effects: Effects) -> bool:
    """Whether dead-code elimination must keep an equation (to read a reference or to make one is no
    side effect, nor are named axes)."""
    return bool(effects) and any(not isinstance(e, _WITHOUT_TRACE) for e in effects)


_WITHOUT_TRACE = (NamedAxisEffect, ReadEffect, NewRefEffect)


def refer_to_refs(effects: Effects) -> bool:
    """Whether some of the effects are on references that come from outside."""
    return any(isinstance(e, RefEffect) for e in effects)


def moved_effects(effects: Effects, positions: Sequence[int]) -> Effects:
    """Effects of a jaxpr as those of an equation with other operands: the position there of each of
    its inputs."""
    if not effects or not refer_to_refs(effects):
        return effects
    return frozenset(
        type(e)(positions[e.input_index]) if isinstance(e, RefEffect) else e for e in effects
    )


def written_inputs(effects: Effects) -> frozenset[int]:
    """The inputs that are references which are written to."""
    return frozenset(e.input_index for e in effects if isinstance(e, (WriteEffect, AccumEffect)))
