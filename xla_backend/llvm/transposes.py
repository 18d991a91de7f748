"""Squares of vectors, transposed in registers."""

from __future__ import annotations

from xla_backend.llvm.types import lanes
from xla_backend.llvm.writer import FunctionWriter


def transpose(w: FunctionWriter, ty: str, rows: list[str]) -> list[str]:
    """Transpose a square of vectors by exchanging ever larger blocks.

    In this order LLVM finds shorter code for floats than from halves to single lanes (8 by 8 with
    AVX: 42 instructions, not 50); for other types the two are within a tenth of each other.
    """
    step = 1
    while step < len(rows):
        rows = exchange(w, ty, rows, step)
        step *= 2
    return rows


def exchange(w: FunctionWriter, ty: str, rows: list[str], step: int) -> list[str]:
    """Exchange the off-diagonal blocks of `step` lanes between rows r and r + step: a bit of the
    number of the row with one of the number of the lane."""
    n = lanes(ty)
    keep = [i if not i & step else n + i - step for i in range(n)]
    give = [i + step if not i & step else n + i for i in range(n)]
    exchanged = list(rows)
    for r in range(len(rows)):
        if not r & step:
            low, high = rows[r], rows[r + step]
            exchanged[r] = w.shuffle(ty, low, high, keep)
            exchanged[r + step] = w.shuffle(ty, low, high, give)
    return exchanged
