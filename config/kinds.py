"""Kinds of option values. A kind parses text (environment, flags) and checks Python values; it
raises ValueError or TypeError with what it would accept, and the registry adds which option and
which source."""

from __future__ import annotations

import math
import os
from importlib import import_module
from typing import Any

_TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
_FALSE = frozenset({"0", "false", "f", "no", "n", "off"})


class AbstractKind:
    """How one type of option value is parsed and checked. Kinds with equal fields are equal."""

    # Plain classes: the decorator for data classes compiles three functions for each at import.
    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"

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


class Int(AbstractKind):
    """An integer from `low` to `high`, both included."""

    def __init__(self, low: int = -(1 << 63), high: int = (1 << 63) - 1) -> None:
        self.low = low
        self.high = high

    @property
    def accepts(self) -> str:
        if self == Int():
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


class Float(AbstractKind):
    """A number from `low` to `high`, both included; never NaN."""

    def __init__(self, low: float = -math.inf, high: float = math.inf) -> None:
        self.low = low
        self.high = high

    @property
    def accepts(self) -> str:
        if self == Float():
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
            with import_module("tempfile").TemporaryFile(dir=text):
                pass
        except (OSError, ValueError) as error:
            raise ValueError(f"expected {self.accepts}: {error}") from None
        return text

    def check(self, value: Any) -> str:
        if not isinstance(value, (str, os.PathLike)):
            raise TypeError(f"expected {self.accepts}")
        return self.parse(os.fspath(value))


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


class Enum(AbstractKind):
    """One of a few strings."""

    def __init__(self, choices: tuple[str, ...]) -> None:
        self.choices = choices

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


class Optional(AbstractKind):
    """A kind that may also be None; the texts `None` and the empty string mean None."""

    def __init__(self, kind: AbstractKind) -> None:
        self.kind = kind

    @property
    def accepts(self) -> str:
        return f"{self.kind.accepts}, or None"

    def parse(self, text: str) -> Any:
        return None if text.strip() in ("", "None", "none") else self.kind.parse(text)

    def check(self, value: Any) -> Any:
        return None if value is None else self.kind.check(value)


class Object(AbstractKind):
    """Any Python object (a device, say); text is passed through for the user of the option to
    resolve.
    """

    def __init__(self, description: str) -> None:
        self.description = description

    @property
    def accepts(self) -> str:
        return self.description

    def parse(self, text: str) -> Any:
        return text

    def check(self, value: Any) -> Any:
        return value
