"""Fuel: how many rewrites a pass may still do. With `--xla_fuel=fusion=3` the third fusion is the
last, so a search over the number finds the one rewrite that breaks a program.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

logger = logging.getLogger("xla_backend")


class Fuel:
    """Units left for the passes of one name in one compilation; each rewrite uses one."""

    __slots__ = ("_told", "left", "name", "used")

    def __init__(self, name: str, units: int) -> None:
        self.name = name
        self.left = units
        self.used = 0
        self._told = False

    def allows(self) -> bool:
        """Whether one more rewrite may be done; says so once when there is none left."""
        if self.left > 0:
            return True
        if not self._told:
            self._told = True
            logger.warning(
                'Out of fuel for "%s": not rewriting any more after %d rewrite%s',
                self.name,
                self.used,
                "" if self.used == 1 else "s",
            )
        return False

    def burn(self) -> None:
        """Note that a rewrite was done."""
        self.left -= 1
        self.used += 1


def fuel_by_name(units: Iterable[tuple[str, int]]) -> dict[str, Fuel]:
    """One Fuel per pass name."""
    return {name: Fuel(name, count) for name, count in units}


def report_unused(fuels: Iterable[Fuel]) -> None:
    """Name the passes whose fuel nobody asked for: their name is misspelt, or they did nothing."""
    for fuel in fuels:
        if fuel.used == 0 and fuel.left > 0:
            logger.warning('Fuel for "%s" was given and never used', fuel.name)
