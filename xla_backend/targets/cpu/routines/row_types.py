"""Types and names of routines along one axis, for those who do without what writes them: scans, and
extremes with their places."""

from __future__ import annotations

from xla_backend.hlo.types import PrimitiveType as P

OPERATIONS = {
    "cumsum": "add",
    "cumprod": "multiply",
    "cummax": "maximum",
    "cummin": "minimum",
    "cumlogsumexp": "",
}
SCAN_TYPES = (
    P.S8, P.U8, P.S16, P.U16, P.S32, P.U32, P.S64, P.U64, P.BF16, P.F16, P.F32, P.F64,
)  # fmt: skip


def operations_of(t: P) -> tuple[str, ...]:
    names = tuple(OPERATIONS)
    return names if t.is_floating else names[:-1]


# Where extremes are looked for: elements of a part, a multiple of those of a block.
PART = 1 << 16
EXTREMES = {"max": "maximum", "min": "minimum"}
EXTREME_TYPES = (
    P.PRED, P.S8, P.U8, P.S16, P.U16, P.S32, P.U32, P.S64, P.U64, P.F32, P.F64,
)  # fmt: skip

# What is sorted by truth values: elements of so many bytes, and numbers of places.
PARTITIONED_BYTES = (1, 2, 4, 8, 16)
PARTITIONED_PLACES = (P.S32, P.S64)
