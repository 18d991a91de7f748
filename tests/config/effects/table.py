"""Rows of the table: an option, a value, and what is seen without it and with it.

    @effect("jax_enable_x64", True, default="float32", changed="float64")
    def x64() -> str:
        return str(jnp.arange(3.0).dtype)

The function looks at the library the way a program would. It runs with the option at its default,
with the value, and after the value was taken back; it never looks at the option, and the table
raises if it does. An expectation is a value to be equal to, a compiled regular expression that is
searched in the text of what was seen, or a function that says whether it is right.

A function may have several rows. Setting an option in the environment happens at the start of a
process, one for the whole table: for that, an option has one value. Rows after its first are set in
the other ways only.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WAYS = ("environment", "update", "flag", "context")


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
      option: the full name.
      value: to set; of a function, what it makes of the row's scratch folder.
      default, changed: expected without and with the value.
      look: what is observed; called with the row's scratch folder if it has a parameter.
      ways: in which the option is set; None: all that it has.
      at_start: the option is read once, at the first use of a device: each look has a process.
      inert: why the option does nothing; the row observes the warning that says so.
      waits: what it waits for until it does something; the same.
    """

    option: str
    value: Any
    default: Any
    changed: Any
    look: Callable[..., object]
    ways: tuple[str, ...] | None = None
    at_start: bool = False
    inert: str | None = None
    waits: str | None = None

    @property
    def acts(self) -> bool:
        return self.inert is None and self.waits is None

    @property
    def id(self) -> str:
        value = "" if callable(self.value) else f"={self.value}"
        return f"{self.option}{value}-{self.look.__name__}"

    def value_in(self, scratch: Path) -> Any:
        return self.value(scratch) if callable(self.value) else self.value

    def observed(self, scratch: Path) -> object:
        return self.look(scratch) if inspect.signature(self.look).parameters else self.look()


ROWS: list[Row] = []


def effect(
    option: str,
    value: Any,
    *,
    default: Any,
    changed: Any,
    ways: tuple[str, ...] | None = None,
    at_start: bool = False,
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Declare a row; the decorated function looks. See `Row` for the arguments."""

    def declare(look: Callable[..., object]) -> Callable[..., object]:
        ROWS.append(Row(option, value, default, changed, look, ways, at_start))
        return look

    return declare


def inert(option: str, value: Any, reason: str) -> None:
    """Declare the row of an option that does nothing: setting it says why, once."""
    warning = re.compile(re.escape(f"{option} is set but has no effect: {reason}"))
    ROWS.append(Row(option, value, "", warning, warnings_of_setting, inert=reason))


def waits(option: str, value: Any, reason: str) -> None:
    """Declare the row of an option of which one process on a CPU can show nothing: what it waits
    for is said once, where it is set."""
    warning = re.compile(re.escape(f"{option} is set but has no effect yet: {reason}"))
    ROWS.append(Row(option, value, "", warning, warnings_of_setting, waits=reason))


def warnings_of_setting() -> str:
    """Stands for the warnings that came while the option was set: the server knows them."""
    raise AssertionError("the server looks itself")


def meets(expected: Any, seen: object) -> bool:
    """Whether what was seen is what was expected."""
    if isinstance(expected, re.Pattern):
        return expected.search(str(seen)) is not None
    if callable(expected):
        return bool(expected(seen))
    return type(expected) is type(seen) and bool(expected == seen)
