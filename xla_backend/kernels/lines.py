"""Matrices in shared memory in lines of 128 bytes, as copies of boxes leave them (`ir.BoxCopy`) and
products of 128 threads read them (`ir.GroupProduct`).

Eight lines are a piece of 1024 bytes, which begins at a multiple of that. In line j the access of
16 bytes that would be number n is number n XOR j, so that those of a column lie in different banks:
the mode that the PTX ISA 8.x calls 128-byte swizzle ("Tensor Swizzling Modes" of cp.async.bulk, and
"Matrix Descriptor Format" of wgmma). In terms of addresses: bits 4 to 6 are XORed with bits 7 to 9.

A matrix whose lines go along its depth (K-major): eight rows are a piece; `stride` leads to the
next eight. One whose lines go along outer (MN-major): a piece has 64 elements of outer in eight
steps of the depth; `stride` leads to the next eight steps, `leading` to the next 64 elements of
outer.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from xla_backend.kernels.ir import BoxedArray, Lines

LINE = 128
ROWS = 8
PIECE = LINE * ROWS
_ACCESS = 16

T = TypeVar("T", int, np.ndarray)


def turned(address: T) -> T:
    """Where the byte is that would be at an address (counted from a multiple of 1024)."""
    return address ^ ((address // LINE % ROWS) * _ACCESS)


def box_places(array: BoxedArray, size: int) -> np.ndarray:
    """Where the elements of a box are, by row and column, as numbers of elements of `size` bytes
    from where the box begins."""
    columns, rows = array.box
    address = np.arange(rows)[:, None] * LINE + np.arange(columns)[None, :] * size
    return turned(address) // size


def matrix_places(matrix: Lines, outer: int, depth: int, first: np.ndarray) -> np.ndarray:
    """[..., outer, depth]: the numbers of the elements in the buffer; `first`: that of the first
    one, in each of several blocks or groups."""
    size = matrix.buffer.element_type.byte_size
    row, inner = np.arange(outer)[:, None], np.arange(depth)[None, :]
    if matrix.inner_first:
        offset = row // ROWS * matrix.stride + row % ROWS * LINE + inner * size
    else:
        line = LINE // size
        offset = row // line * matrix.leading + row % line * size
        offset = offset + inner // ROWS * matrix.stride + inner % ROWS * LINE
    return turned(first[..., None, None] * size + offset) // size
