"""What the threads of a warp do together: taking values of neighbours, and matrix tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.ir import MatrixTile, Shuffle, ShuffleMode
from xla_backend.llvm.types import bits_of, is_float, memory_type, register_type, vector
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.gpu.architectures import WARP

_MODES = {
    ShuffleMode.XOR: "bfly",
    ShuffleMode.DOWN: "down",
    ShuffleMode.UP: "up",
    ShuffleMode.FROM: "idx",
}


def emit_shuffle(w: FunctionWriter, s: Shuffle, value: str, threads: int) -> str:
    """The value of a neighbour. Groups that are narrower than a warp may be at different places of
    the code: each only speaks of its own threads then."""
    if s.width > WARP:
        raise AssertionError(f"a shuffle of {s.width} threads: no more than {WARP} are in lockstep")
    ty = register_type(s.value.type)
    # The first number of a group, and the last one it may take from (PTX ISA, shfl.sync).
    last = 0 if s.mode is ShuffleMode.UP else WARP - 1
    clamp = (WARP - s.width) << 8 | last
    members = _group(w, s.width) if s.width < WARP else str(_all_of(threads))
    name = f"llvm.nvvm.shfl.sync.{_MODES[s.mode]}.i32"
    w.module.declare(name, "i32", ["i32"] * 4)

    def moved(word: str) -> str:
        # In order: every thread of the group must come here.
        return w.value(f"call i32 @{name}(i32 {members}, i32 {word}, i32 {s.number}, i32 {clamp})")

    bits = bits_of(ty)
    if bits <= 32:
        if is_float(ty):
            word = w.cast("bitcast", ty, value, "i32")
            return w.cast("bitcast", "i32", moved(word), ty)
        word = w.cast("zext", ty, value, "i32")
        return w.cast("trunc", "i32", moved(word), ty)
    whole = w.cast("bitcast", ty, value, "i64")
    low = w.cast("trunc", "i64", whole, "i32")
    high = w.cast("trunc", "i64", w.op("lshr", "i64", whole, "32"), "i32")
    low, high = (w.cast("zext", "i32", moved(word), "i64") for word in (low, high))
    whole = w.op("or", "i64", w.op("shl", "i64", high, "32"), low)
    return w.cast("bitcast", "i64", whole, ty)


def _all_of(threads: int) -> int:
    """The threads of a warp as a mask; those of a block that is smaller."""
    return -1 if threads >= WARP else (1 << threads) - 1


def _group(w: FunctionWriter, width: int) -> str:
    """The mask of the threads in the own group of `width`."""
    name = "llvm.nvvm.read.ptx.sreg.laneid"
    w.module.declare(name, "i32", [])
    lane = w.pure(f"call i32 @{name}()")
    first = w.op("and", "i32", lane, str(WARP - width))
    return w.op("shl", "i32", str((1 << width) - 1), first)


class _Tile(NamedTuple):
    """How a tile is multiplied.

    Fields:
      name: of the intrinsic, after llvm.nvvm.mma.
      factors: the LLVM type of 32 bits that holds neighbouring factors.
      sums: the type of the sums.
    """

    name: str
    factors: str
    sums: PrimitiveType


# By shape and the type of both factors.
_TILES = {
    ((16, 8, 16), PrimitiveType.F16): _Tile(
        "m16n8k16.row.col.f32.f32", "<2 x half>", PrimitiveType.F32
    ),
    ((16, 8, 16), PrimitiveType.BF16): _Tile("m16n8k16.row.col.bf16", "i32", PrimitiveType.F32),
    ((16, 8, 8), PrimitiveType.F32): _Tile("m16n8k8.row.col.tf32", "i32", PrimitiveType.F32),
    ((16, 8, 32), PrimitiveType.S8): _Tile("m16n8k32.row.col.s8", "i32", PrimitiveType.S32),
    ((16, 8, 32), PrimitiveType.U8): _Tile("m16n8k32.row.col.u8", "i32", PrimitiveType.S32),
}


def emit_matrix_tile(
    w: FunctionWriter,
    s: MatrixTile,
    lhs: Sequence[str],
    rhs: Sequence[str],
    sums: Sequence[str],
) -> list[str]:
    """Multiply small matrices that lie in the registers of a warp; the factors as they are in
    memory."""
    type = s.lhs[0].type
    tile = _TILES.get((s.shape, type))
    if tile is None or s.rhs[0].type is not type or s.sums[0].type is not tile.sums:
        raise AssertionError(
            f"no instruction multiplies tiles {s.shape} of {type} and {s.rhs[0].type} into "
            f"{s.sums[0].type}"
        )
    factors = [*_packed(w, type, tile.factors, lhs), *_packed(w, type, tile.factors, rhs)]
    name, ty = f"llvm.nvvm.mma.{tile.name}", register_type(tile.sums)
    result_ty = f"{{ {', '.join([ty] * len(sums))} }}"
    w.module.declare(name, result_ty, [tile.factors] * len(factors) + [ty] * len(sums))
    arguments = [f"{tile.factors} {f}" for f in factors] + [f"{ty} {x}" for x in sums]
    result = w.value(f"call {result_ty} @{name}({', '.join(arguments)})")
    return [w.pure(f"extractvalue {result_ty} {result}, {i}", result) for i in range(len(sums))]


def _packed(w: FunctionWriter, type: PrimitiveType, ty: str, raws: Sequence[str]) -> list[str]:
    """Factors in registers of 32 bits, the first of several in the lowest bits."""
    stored = memory_type(type)
    count = 32 // bits_of(stored)
    if count == 1:
        return [w.cast("bitcast", stored, raw, ty) for raw in raws]
    held = vector(stored, count)
    result = []
    for first in range(0, len(raws), count):
        together = "poison"
        for i, raw in enumerate(raws[first : first + count]):
            together = w.insert(held, together, raw, i)
        result.append(w.cast("bitcast", held, together, ty))
    return result
