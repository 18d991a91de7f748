"""Names that differ: instructions of one module never share a name in the text."""

from __future__ import annotations

_MAX_DIGITS = 18  # longer suffixes are part of the name


class NameUniquer:
    """Hands out names of the form `stem` or `stem.N`, each once.

    A name that was handed out before gets the lowest free number of its stem instead: `x`, `x.1`,
    `x.2`; `y.3` after another `y.3` may become `y.0`.
    """

    def __init__(self) -> None:
        self._used: dict[str, set[int]] = {}
        self._next: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """`name`, or the next free name of its stem."""
        stem, _, suffix = name.rpartition(".")
        numbered = bool(stem) and suffix.isdecimal() and len(suffix) <= _MAX_DIGITS
        if not numbered:
            stem, suffix = name, "0"
        number = int(suffix)
        used = self._used.get(stem)
        if used is None:
            used = self._used[stem] = set()
        if number in used:
            number = self._next.get(stem, 0)
            while number in used:
                number += 1
            self._next[stem] = number + 1
        used.add(number)
        if number or numbered:
            return f"{stem}.{number}"
        return stem
