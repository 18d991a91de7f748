"""What CPUs sort by value."""

from __future__ import annotations

from xla_backend.hlo.types import PrimitiveType as P

SORT_TYPES = (
    P.PRED, P.S8, P.U8, P.S16, P.U16, P.S32, P.U32, P.S64, P.U64, P.BF16, P.F16, P.F32, P.F64,
)  # fmt: skip
