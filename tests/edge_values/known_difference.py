"""What one known difference to the reference is; known_differences.py lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase


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

    def covers(self, key: str, mode: str) -> bool:
        patterns = (re.sub(r"\[", "[[]", p) for p in self.cases)
        return mode in self.modes.split() and any(fnmatchcase(key, p) for p in patterns)
