"""Which elements of a matrix each thread of a warp holds when the warp multiplies small tiles.

A layout has a shape (rows, columns, depth) and three parts: `lhs` (rows x depth), `rhs` (depth x
columns) and `sum` (rows x columns). Thread t holds one element of a part in each of its registers;
the element's place is that of NVIDIA's `mma.sync` instructions of the same shape (PTX ISA, section
"Matrix Fragments"), so that a GPU needs no further moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xla_backend.kernels.index import Index

WARP = 32
# Threads that multiply together what lies in shared memory, and rows that they have.
GROUP = 128
GROUP_ROWS = 64

# (row, column) of the element in register r of the thread with these two numbers, of any type that
# adds and multiplies.
Place = Callable[[Any, Any, Any], tuple[Any, Any]]


class Layout:
    """Where the elements of the three parts are."""

    def __init__(
        self, shape: tuple[int, int, int], registers: tuple[int, int, int], places: dict[str, Place]
    ) -> None:
        rows, columns, depth = shape
        self.sizes = {"lhs": (rows, depth), "rhs": (depth, columns), "sum": (rows, columns)}
        self.registers = dict(zip(("lhs", "rhs", "sum"), registers))
        self._places = places

    def place(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        """(row, column) of the elements, as arrays over threads and registers."""
        thread = np.arange(WARP)[:, None]
        register = np.arange(self.registers[part])[None, :]
        row, column = self._places[part](thread // 4, thread % 4, register)
        return np.broadcast_arrays(row, column)  # type: ignore[return-value]

    def element(self, part: str, group: Index, member: Index, register: int) -> tuple[Index, Index]:
        """(row, column) of the element in one register; of a thread of the warp, `group` is a
        fourth of its number, and `member` the rest."""
        return self._places[part](group, member, register)

    def matrices(self, part: str, values: Sequence[np.ndarray]) -> np.ndarray:
        """The matrices of several warps; `values` have a row for each warp."""
        held = np.stack(values, axis=-1)
        result = np.zeros((held.shape[0], *self.sizes[part]), held.dtype)
        row, column = self.place(part)
        result[:, row, column] = held
        return result

    def parts(self, part: str, matrices: np.ndarray) -> list[np.ndarray]:
        """What each thread holds of matrices: for each register, a row for each warp."""
        row, column = self.place(part)
        held = matrices[:, row, column]
        return [held[:, :, r] for r in range(held.shape[2])]


def multiply_add(lhs: np.ndarray, rhs: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """lhs @ rhs + sums for stacks of matrices. Sums of 32 bits are rounded once: as on the machine,
    the bits depend on the numbers alone, not on which factor comes first or how it lies."""
    wide = np.float64 if sums.dtype == np.float32 else sums.dtype
    with np.errstate(all="ignore"):
        total = sums.astype(wide) + lhs.astype(wide) @ rhs.astype(wide)
        return total.astype(sums.dtype)


_SUM: Place = lambda group, member, r: (group + 8 * (r // 2), 2 * member + r % 2)

LAYOUTS = {
    # 16-bit factors.
    (16, 8, 16): Layout(
        (16, 8, 16),
        (8, 4, 4),
        {
            "lhs": lambda group, member, r: (
                group + 8 * (r // 2 % 2),
                2 * member + r % 2 + 8 * (r // 4),
            ),
            "rhs": lambda group, member, r: (2 * member + r % 2 + 8 * (r // 2), group + 0 * r),
            "sum": _SUM,
        },
    ),
    # f32 factors, of which the machine may use the leading bits only.
    (16, 8, 8): Layout(
        (16, 8, 8),
        (4, 2, 4),
        {
            "lhs": lambda group, member, r: (group + 8 * (r % 2), member + 4 * (r // 2)),
            "rhs": lambda group, member, r: (member + 4 * r, group + 0 * r),
            "sum": _SUM,
        },
    ),
    # 8-bit factors.
    (16, 8, 32): Layout(
        (16, 8, 32),
        (16, 8, 4),
        {
            "lhs": lambda group, member, r: (
                group + 8 * (r // 4 % 2),
                4 * member + r % 4 + 16 * (r // 8),
            ),
            "rhs": lambda group, member, r: (4 * member + r % 4 + 16 * (r // 4), group + 0 * r),
            "sum": _SUM,
        },
    ),
}


def group_place(thread: Any, register: int) -> tuple[Any, Any]:
    """(row, column) of the number in one register of a thread, of the sums that 128 threads have
    together: each warp has 16 rows, and of each eight columns what it has of a tile (PTX ISA 8.x,
    section "Register Fragments" of `wgmma.mma_async`). `thread`: its number among the 128."""
    warp, lane = thread // WARP, thread % WARP
    row, column = _SUM(lane // 4, lane % 4, register % 4)
    return warp * 16 + row, column + register // 4 * 8


def group_registers(columns: int) -> int:
    """How many of the sums of 64 rows and so many columns each of 128 threads has."""
    return columns * GROUP_ROWS // GROUP
