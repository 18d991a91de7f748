"""Exceptions of the compiler; all derive from HloError, which tells ours from bugs."""

from __future__ import annotations


class HloError(Exception):
    """Base class."""


class ShapeInferenceError(HloError, ValueError):
    """Operands, attributes and opcode do not fit together."""


class VerificationError(HloError, ValueError):
    """A module breaks an invariant; the message names the instruction, its text and the pass that
    ran last.
    """


class ParseError(HloError, ValueError):
    """Malformed HLO text: message has line, column, the source line and a caret."""


class UnimplementedError(HloError, NotImplementedError):
    """A valid program that this compiler cannot run (yet); the message names opcode, types and a
    way round.
    """


class UnknownTargetError(UnimplementedError):
    """A custom call whose target has no function.

    Attributes:
      target: its name.   place: the line that the call came from, empty if unknown.
    """

    def __init__(self, call: str, target: str, place: str) -> None:
        self.target = target
        self.place = place
        super().__init__(
            f"{call}: no function is registered for custom-call target {target!r}; register one "
            f"with register_custom_call{place and f' (the call came from {place})'}"
        )


class RuntimeFailure(HloError, RuntimeError):
    """A compiled program reported an error while it ran.

    Attributes:
      collectives: where this was noticed, as messages call them; empty: elsewhere.
    """

    collectives: tuple[str, ...] = ()
