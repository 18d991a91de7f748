"""How singular values and vectors of larger matrices are computed, and in which memory: decided
from the sizes when a program is planned. `blocked_singular` writes the code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.targets.cpu.routines.matrix_facts import BLOCK, MOST_LANES

# Of a reduction to bidiagonal form: reflectors of each side that are applied at a time, and what
# pitches are multiples of.
PAIRS = 16
# Matrices with so many times as many rows as columns are factored first (as LAPACK does).
_TALL = 11 / 6
_ALIGNMENT = 16
# Of fewer rows or columns LAPACK is as quick.
LEAST = 8


def padded(count: int) -> int:
    """Elements of a row of so many numbers: rows at multiples of pages would meet in few places of
    the caches.

    >>> padded(100), padded(256)
    (112, 272)
    """
    return (-(-count // PAIRS) | 1) * PAIRS


def reduction_elements(m: int, n: int) -> int:
    """Memory of a reduction: W, Z, a column, two rows, and what goes with W's columns."""
    width = 2 * PAIRS
    return m * width + width * padded(n) + padded(m) + 2 * padded(n) + 3 * width


class Sizes(NamedTuple):
    """Fields:
    many, few: the larger and the smaller one of rows and columns.
    columns: of the vectors on the side of `many`, 0 for none.
    turned: whether there are more columns than rows.
    factored: whether the matrix is factored first.
    rows: of what becomes bidiagonal.
    pitch: the distance of its rows.
    """

    many: int
    few: int
    columns: int
    turned: bool
    factored: bool
    rows: int
    pitch: int


def _bidiagonal_work(s: Sizes) -> int:
    """What LAPACK's divide and conquer works in; columns of vectors by rows lie there before."""
    return s.few * (3 * s.few + 4) if s.columns else 8 * s.few


# Elements of each part of a task's memory.
_AREAS: Mapping[str, Callable[[Sizes], int]] = {
    "matrix": lambda s: s.rows * s.pitch,
    "reduction": lambda s: reduction_elements(s.rows, s.few),
    "d": lambda s: s.few,
    "e": lambda s: s.few,
    "lefts": lambda s: s.few,
    "rights": lambda s: s.few,
    "taus": lambda s: s.few,
    # The matrix as it is factored, or by columns.
    "packed": lambda s: s.many * s.few if s.factored or s.turned else 0,
    "panel": lambda s: s.many * MOST_LANES if s.factored else 0,
    # What reflectors are applied with, on each side.
    "v": lambda s: s.many * BLOCK if s.factored or s.columns else 0,
    "negated": lambda s: s.many * BLOCK if s.factored or s.columns else 0,
    "s": lambda s: BLOCK * BLOCK,
    "w": lambda s: max(s.few, s.columns) * BLOCK,
    "right_v": lambda s: s.few * BLOCK if s.columns else 0,
    "right_negated": lambda s: s.few * BLOCK if s.columns else 0,
    "right_s": lambda s: BLOCK * BLOCK if s.columns else 0,
    "right_w": lambda s: s.few * BLOCK if s.columns else 0,
    "reflectors": lambda s: s.few * s.pitch if s.columns else 0,
    "turned_reflectors": lambda s: s.pitch * s.few if s.columns else 0,
    # The vectors of what is bidiagonal.
    "left": lambda s: s.few * s.few if s.columns else 0,
    "right": lambda s: s.few * s.few if s.columns else 0,
    # Those of the matrix, by columns.
    "vectors": lambda s: s.many * s.columns if s.turned else 0,
    "work": _bidiagonal_work,
    "integers": lambda s: 8 * s.few,
}
NUMBERS = (
    "batches", "m", "n", "left", "right", "tasks", "factored", "pitch",
    *(f"at_{area}" for area in _AREAS), "elements",
)  # fmt: skip
TYPES = (P.F32, P.F64)


def sizes_of(m: int, n: int, left: int, right: int) -> Sizes:
    """`left`, `right`: columns of u and rows of vh, 0 for none.

    >>> sizes_of(100, 20, 20, 20)
    Sizes(many=100, few=20, columns=20, turned=False, factored=True, rows=20, pitch=48)
    """
    few, many = sorted((m, n))
    factored = many >= _TALL * few
    rows = few if factored else many
    return Sizes(many, few, left if m >= n else right, m < n, factored, rows, padded(few))


def numbers_for(batches: int, tasks: int, m: int, n: int, left: int, right: int) -> dict[str, int]:
    """The numbers that the routine takes: where the areas of a task are, in elements from its
    first one on, and how many elements it has."""
    sizes = sizes_of(m, n, left, right)
    found = {
        "batches": batches, "m": m, "n": n, "left": left, "right": right, "tasks": tasks,
        "factored": int(sizes.factored), "pitch": sizes.pitch,
    }  # fmt: skip
    at = 0
    for area, count in _AREAS.items():
        found[f"at_{area}"] = at
        at += -(-count(sizes) // _ALIGNMENT) * _ALIGNMENT
    return {**found, "elements": at}
