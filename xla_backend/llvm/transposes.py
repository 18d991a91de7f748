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


def interleaved(w: FunctionWriter, ty: str, rows: list[str], part: int) -> list[str]:
    """Transpose the squares that lie side by side in rows, of as many lanes (`part`) as there are
    rows: register k then has column k of each of them.

    The halves of rows are interleaved within parts, which registers of any width have instructions
    for where a part is 128 bits.
    """
    n = lanes(ty)
    half = part // 2
    picks = [
        [n * (j % 2) + start + first + j // 2 for start in range(0, n, part) for j in range(part)]
        for first in (0, half)
    ]
    done = 1
    while done < part:
        pairs = zip(rows[:half], rows[half:])
        rows = [w.shuffle(ty, a, b, pick) for a, b in pairs for pick in picks]
        done *= 2
    return rows


def exchange(w: FunctionWriter, ty: str, rows: list[str], step: int, unit: int = 1) -> list[str]:
    """Exchange the off-diagonal blocks of `step` lanes between rows r and r + step: a bit of the
    number of the row with one of the number of the lane. `unit`: lanes that count as one."""
    n, distance = lanes(ty), step * unit
    keep = [i if not i & distance else n + i - distance for i in range(n)]
    give = [i + distance if not i & distance else n + i for i in range(n)]
    exchanged = list(rows)
    for r in range(len(rows)):
        if not r & step:
            low, high = rows[r], rows[r + step]
            exchanged[r] = w.shuffle(ty, low, high, keep)
            exchanged[r + step] = w.shuffle(ty, low, high, give)
    return exchanged
