"""Differences to the reference that stay, with their reasons.

The tests accept exactly these; docs/differences_to_jax.md is generated from them by
`python -m tests.edge_values.document`. Each names one case that shows it, and a test fails when
that case no longer differs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Difference:
    """Cases that differ, and why.

    Args:
      cases: patterns of case keys, as of `fnmatch` but that brackets stand for themselves;
        several are separated by `; `.
      modes: which of value, jit, vmap, jvp, vjp differ.
      title: what differs, for the documentation.
      reason: why it stays.
      example: the key of a case that differs in the first of the modes.
    """

    cases: str
    modes: str
    title: str
    reason: str
    example: str

    def covers(self, key: str, mode: str) -> bool:
        patterns = (re.sub(r"\[", "[[]", p) for p in self.cases.split("; "))
        return mode in self.modes.split() and any(fnmatchcase(key, p) for p in patterns)


# What no list of cases can say.
GENERAL = (
    (
        "Subnormal numbers",
        "pyjax computes with subnormals as IEEE 754 says. XLA's CPU backend flushes them to zero "
        "in most operations, and keeps them in some.",
    ),
    (
        "gcd and lcm of the smallest integer",
        "pyjax gives what NumPy gives. JAX does not return for most pairs with the smallest "
        "integer of a signed type, so that no result could be recorded.",
    ),
)

KNOWN: tuple[Difference, ...] = (
    Difference(
        cases="numpy.isreal f(2) *; numpy.iscomplex f(2) *; numpy.logical_* f(2*) *",
        modes="value jit",
        title="Booleans are never weakly typed",
        reason="Some predicates of Python scalars give weakly typed booleans in JAX. A boolean "
        "gives way to every other type anyway, so the mark has no effect, and pyjax drops it.",
        example="numpy.logical_not f(2) float32",
    ),
)


def known(key: str, mode: str) -> bool:
    return any(d.covers(key, mode) for d in KNOWN)
