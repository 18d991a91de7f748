"""Squares of vectors, transposed in registers."""

from __future__ import annotations

from xla_backend.llvm.writer import FunctionWriter


def transpose(w: FunctionWriter, ty: str, rows: list[str]) -> list[str]:
    """Transpose a square of vectors by exchanging ever larger blocks.

    In this order LLVM finds shorter code for floats than from halves to single lanes (8 by 8 with
    AVX: 42 instructions, not 50); for other types the two are within a tenth of each other.
    """
    n = len(rows)
    step = 1
    while step < n:
        # Exchange the off-diagonal blocks of `step` lanes between rows r and r + step.
        keep = [i if not i & step else n + i - step for i in range(n)]
        give = [i + step if not i & step else n + i for i in range(n)]
        exchanged = list(rows)
        for r in range(n):
            if not r & step:
                low, high = rows[r], rows[r + step]
                exchanged[r] = w.shuffle(ty, low, high, keep)
                exchanged[r + step] = w.shuffle(ty, low, high, give)
        rows = exchanged
        step *= 2
    return rows
