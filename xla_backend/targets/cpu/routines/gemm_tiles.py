"""Register tiles and cache blocks of GEMM by machine, and what an element type computes in."""

from __future__ import annotations

from typing import NamedTuple

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.types import bits_of, register_type


class Tile(NamedTuple):
    """A micro-kernel: rows x (vectors * lanes) accumulators, and the blocks around it.

    kc: depth of a packed panel; mc: rows of A packed by one task (a multiple of rows).
    """

    rows: int
    vectors: int
    lanes: int
    kc: int
    mc: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


class GemmType(NamedTuple):
    """Element types of one GEMM: of A and B, of the arithmetic, of C."""

    source: P
    compute: P
    target: P

    @property
    def needs_packing(self) -> bool:
        """Operands are converted while packing unless they already are in the arithmetic's type."""
        return self.source is not self.compute or self.compute.is_complex

    @property
    def name(self) -> str:
        if self.source is self.target and self.source in (P.F32, P.F64):
            return str(self.source)
        return f"{self.source}_{self.target}"


def _types() -> dict[str, GemmType]:
    rows = [
        (P.F32, P.F32, P.F32),
        (P.F64, P.F64, P.F64),
        (P.BF16, P.F32, P.BF16),
        (P.BF16, P.F32, P.F32),
        (P.F16, P.F32, P.F16),
        (P.F16, P.F32, P.F32),
        (P.S8, P.S8, P.S8),
        (P.S8, P.S32, P.S32),
        (P.U8, P.U8, P.U8),
        (P.U8, P.S32, P.S32),
        (P.S16, P.S16, P.S16),
        (P.U16, P.U16, P.U16),
        (P.S32, P.S32, P.S32),
        (P.U32, P.U32, P.U32),
        (P.S64, P.S64, P.S64),
        (P.U64, P.U64, P.U64),
        (P.C64, P.C64, P.C64),
        (P.C128, P.C128, P.C128),
    ]
    types = [GemmType(*row) for row in rows]
    return {t.name: t for t in types}


GEMM_TYPES = _types()


# Two products of 16-bit integers and their sum, by the bits of a vector.
PAIR_PRODUCTS = {
    512: "llvm.x86.avx512.pmaddw.d.512",
    256: "llvm.x86.avx2.pmadd.wd",
    128: "llvm.x86.sse2.pmadd.wd",
}


# Two products of bf16 that are added to an f32, that of the upper halves first.
BFLOAT_PAIR_PRODUCTS = "llvm.x86.avx512bf16.dpbf16ps.512"


def depth_group(t: GemmType, target: TargetInfo) -> int:
    """How many elements of K lie in one of a packed panel: two where an instruction multiplies
    pairs of 16-bit numbers and adds the products. Those of integers are exact in 32 bits."""
    pairs = t.source in (P.S8, P.U8) and t.compute is P.S32
    pairs = pairs and target.is_x86 and target.pointer_bits == 64
    return 2 if pairs or has_bfloat_pairs(t, target) else 1


def has_bfloat_pairs(t: GemmType, target: TargetInfo) -> bool:
    """Whether packed panels hold pairs of bf16. What is computed of them has the bits that widened
    numbers have: where some are so small that a product or a sum may be subnormal, they are."""
    return t.source is P.BF16 and target.adds_bfloat_products


def tile_for(t: GemmType, target: TargetInfo) -> Tile:
    """The tile for a type on a machine.

    Accumulators fill the register file less what one step of B and a broadcast of A need: 24 of 32
    registers on AVX-512 and ARM64, 12 of 16 on AVX2 and SSE.
    """
    lanes = target.lanes(bits_of(register_type(t.compute)))
    many = target.vector_bits == 512 or target.is_aarch64
    if t.compute is P.S32 and depth_group(t, target) > 1:
        return Tile(8 if many else 4, 3 if many else 2, lanes, 384, 192)
    if t.compute.is_complex:
        return Tile(4, 2 if many else 1, lanes, 192, 96)
    if target.vector_bits == 512:
        # Half of a second-level cache of a megabyte for the rows of A.
        return Tile(8, 3, lanes, 32 * lanes, 384)
    if many:
        return Tile(8, 3, lanes, 192, 192)
    return Tile(4 if target.vector_bits == 128 else 6, 2, lanes, 256, 192)
