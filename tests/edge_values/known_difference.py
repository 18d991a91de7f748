"""What one known difference to the reference is; known_differences.py lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property


def calls_of(module: str, calls: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Keys of calls, by the functions of a module that they are calls of."""
    return tuple(
        f"{module}.{name} {call}"
        for names, found in calls.items()
        for name in names.split()
        for call in found
    )


@dataclass(frozen=True)
class Difference:
    """Cases that differ, and why.

    Args:
      cases: patterns of case keys, as of `fnmatch` but that brackets stand for themselves.
      modes: which of value, jit, vmap, jvp, vjp differ.
      title: what differs, for the documentation.
      reason: why it stays.
      example: the key of a case that differs in the first of the modes.
    """

    cases: tuple[str, ...]
    modes: str
    title: str
    reason: str
    example: str

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(translate(p.replace("[", "[[]")) for p in self.cases))

    def covers(self, key: str, mode: str) -> bool:
        return mode in self.modes.split() and self._pattern.match(key) is not None
