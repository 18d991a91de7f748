"""Kinds of option values. A kind parses text (environment, flags) and checks Python values; it
raises ValueError or TypeError with what it would accept, and the registry adds which option and
which source."""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import dataclass
from typing import Any

_TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
_FALSE = frozenset({"0", "false", "f", "no", "n", "off"})


class AbstractKind:
    """How one type of option value is parsed and checked."""

    def parse(self, text: str) -> Any:
        """Value of a text from the environment or the command line."""
        raise NotImplementedError

    def check(self, value: Any) -> Any:
        """A Python value, normalised."""
        raise NotImplementedError

    @property
    def accepts(self) -> str:
        """What may be written, for messages and help."""
        raise NotImplementedError


@dataclass(frozen=True)
class Bool(AbstractKind):
    @property
    def accepts(self) -> str:
        return "a boolean (1/0, true/false, yes/no, on/off)"

    def parse(self, text: str) -> bool:
        word = text.strip().lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
        raise ValueError(f"expected {self.accepts}")

    def check(self, value: Any) -> bool:
        if isinstance(value, str):
            return self.parse(value)
        if isinstance(value, bool) or (type(value).__name__ in ("bool", "bool_")):
            return bool(value)
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
        raise TypeError(f"expected {self.accepts}")


@dataclass(frozen=True)
class Int(AbstractKind):
    """An integer from `low` to `high`, both included."""

    low: int = -(1 << 63)
    high: int = (1 << 63) - 1

    @property
    def accepts(self) -> str:
        if (self.low, self.high) == (Int.low, Int.high):
            return "an integer of at most 64 bits"
        return f"an integer from {self.low} to {self.high}"

    def parse(self, text: str) -> int:
        try:
            value = int(text.strip())
        except ValueError:
            raise ValueError(f"expected {self.accepts}") from None
        return self._in_range(value)

    def check(self, value: Any) -> int:
        if isinstance(value, str):
            return self.parse(value)
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"expected {self.accepts}")
        return self._in_range(value.__index__())

    def _in_range(self, value: int) -> int:
        if not self.low <= value <= self.high:
            raise ValueError(f"expected {self.accepts}")
        return value


@dataclass(frozen=True)
class Float(AbstractKind):
    """A number from `low` to `high`, both included; never NaN."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def accepts(self) -> str:
        if (self.low, self.high) == (Float.low, Float.high):
            return "a number"
        return f"a number from {self.low:g} to {self.high:g}"

    def parse(self, text: str) -> float:
        try:
            value = float(text.strip())
        except ValueError:
            raise ValueError(f"expected {self.accepts}") from None
        return self._in_range(value)

    def check(self, value: Any) -> float:
        if isinstance(value, str):
            return self.parse(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"expected {self.accepts}")
        return self._in_range(float(value))

    def _in_range(self, value: float) -> float:
        if not self.low <= value <= self.high:
            raise ValueError(f"expected {self.accepts}")
        return value


@dataclass(frozen=True)
class Directory(AbstractKind):
    """A directory to write to, made when it is set; the empty string is none."""

    @property
    def accepts(self) -> str:
        return "a directory that can be made and written, or the empty string"

    def parse(self, text: str) -> str:
        if not text:
            return text
        try:
            os.makedirs(text, exist_ok=True)
            with tempfile.TemporaryFile(dir=text):
                pass
        except (OSError, ValueError) as error:
            raise ValueError(f"expected {self.accepts}: {error}") from None
        return text

    def check(self, value: Any) -> str:
        if not isinstance(value, (str, os.PathLike)):
            raise TypeError(f"expected {self.accepts}")
        return self.parse(os.fspath(value))


@dataclass(frozen=True)
class Str(AbstractKind):
    @property
    def accepts(self) -> str:
        return "a string"

    def parse(self, text: str) -> str:
        return text

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError(f"expected {self.accepts}")
        return value


@dataclass(frozen=True)
class Enum(AbstractKind):
    """One of a few strings."""

    choices: tuple[str, ...]

    @property
    def accepts(self) -> str:
        return "one of " + ", ".join(repr(c) for c in self.choices)

    def parse(self, text: str) -> str:
        if text not in self.choices:
            raise ValueError(f"expected {self.accepts}")
        return text

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"expected {self.accepts}")
        return self.parse(value)


@dataclass(frozen=True)
class Optional(AbstractKind):
    """A kind that may also be None; the texts `None` and the empty string mean None."""

    kind: AbstractKind

    @property
    def accepts(self) -> str:
        return f"{self.kind.accepts}, or None"

    def parse(self, text: str) -> Any:
        return None if text.strip() in ("", "None", "none") else self.kind.parse(text)

    def check(self, value: Any) -> Any:
        return None if value is None else self.kind.check(value)


@dataclass(frozen=True)
class Object(AbstractKind):
    """Any Python object (a device, say); text is passed through for the user of the option to
    resolve.
    """

    description: str

    @property
    def accepts(self) -> str:
        return self.description

    def parse(self, text: str) -> Any:
        return text

    def check(self, value: Any) -> Any:
        return value
