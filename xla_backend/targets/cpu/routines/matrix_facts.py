"""What those know who call routines for matrices and do without what writes them: types, flags,
sizes of blocks and of memory."""

from __future__ import annotations

from collections.abc import Mapping

from xla_backend.hlo.types import PrimitiveType as P

# Types of elements, and of their parts.
REALS: Mapping[P, P] = {P.F32: P.F32, P.F64: P.F64, P.C64: P.F32, P.C128: P.F64}
TYPES = tuple(REALS)

# Of small matrices, many at a time.
MOST_ROWS = 16
# Flags of triangular systems, and, with RIGHT, of products with reflectors.
RIGHT, LOWER, TRANSPOSED, CONJUGATED, UNIT = 1, 2, 4, 8, 16
ADJOINT = 2

# Of larger ones: rows of a factor, and reflectors, that are applied at a time.
BLOCK_ROWS = 64
BLOCK = 64
# Of a vector: 512 bits of f32.
MOST_LANES = 16


def work_elements(m: int, n: int) -> int:
    """Memory of one task of a QR factorization: a panel, the reflectors, their triangle, and
    products with columns."""
    return m * (MOST_LANES + BLOCK) + BLOCK * BLOCK + BLOCK * n
