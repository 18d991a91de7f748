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


class RuntimeFailure(HloError, RuntimeError):
    """A compiled program reported an error while it ran."""
