"""What the threads of a warp do together: taking values of neighbours, and matrix tiles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.ir import MatrixLoad, MatrixTile, Shuffle, ShuffleMode
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
      name: of the instruction, after mma.sync.aligned, or of LLVM's intrinsic for it.
      factors: the LLVM type of 32 bits that holds neighbouring factors.
      sums: the type of the sums.
      is_text: LLVM has no intrinsic.
    """

    name: str
    factors: str
    sums: P
    is_text: bool = False


_FLOAT_BYTES = {P.F8E4M3FN: "e4m3", P.F8E5M2: "e5m2"}
# By shape and the types of both factors.
_TILES = {
    ((16, 8, 16), P.F16, P.F16): _Tile("m16n8k16.row.col.f32.f32", "<2 x half>", P.F32),
    ((16, 8, 16), P.BF16, P.BF16): _Tile("m16n8k16.row.col.bf16", "i32", P.F32),
    ((16, 8, 8), P.F32, P.F32): _Tile("m16n8k8.row.col.tf32", "i32", P.F32),
    ((16, 8, 32), P.S8, P.S8): _Tile("m16n8k32.row.col.s8", "i32", P.S32),
    ((16, 8, 32), P.S8, P.U8): _Tile("m16n8k32.row.col.s8.u8", "i32", P.S32),
    ((16, 8, 32), P.U8, P.S8): _Tile("m16n8k32.row.col.u8.s8", "i32", P.S32),
    ((16, 8, 32), P.U8, P.U8): _Tile("m16n8k32.row.col.u8", "i32", P.S32),
    **{
        ((16, 8, 32), x, y): _Tile(
            f"m16n8k32.row.col.f32.{_FLOAT_BYTES[x]}.{_FLOAT_BYTES[y]}.f32", "i32", P.F32, True
        )
        for x, y in product(_FLOAT_BYTES, repeat=2)
    },
}


def emit_matrix_tile(
    w: FunctionWriter,
    s: MatrixTile,
    lhs: Sequence[str],
    rhs: Sequence[str],
    sums: Sequence[str],
) -> list[str]:
    """Multiply small matrices that lie in the registers of a warp; the factors in words, as memory
    holds them."""
    types = s.lhs[0].type, s.rhs[0].type
    tile = _TILES.get((s.shape, *types))
    if tile is None or s.sums[0].type is not tile.sums:
        raise AssertionError(
            f"no instruction multiplies tiles {s.shape} of {types[0]} and {types[1]} into "
            f"{s.sums[0].type}"
        )
    factors = [w.cast("bitcast", "i32", word, tile.factors) for word in (*lhs, *rhs)]
    ty = register_type(tile.sums)
    result_ty = f"{{ {', '.join([ty] * len(sums))} }}"
    arguments = [f"{tile.factors} {f}" for f in factors] + [f"{ty} {x}" for x in sums]
    if tile.is_text:
        callee = _instruction(f"mma.sync.aligned.{tile.name}", len(lhs), len(rhs))
    else:
        callee = f"@llvm.nvvm.mma.{tile.name}"
        w.module.declare(callee[1:], result_ty, [tile.factors] * len(factors) + [ty] * len(sums))
    result = w.value(f"call {result_ty} {callee}({', '.join(arguments)}) convergent")
    return [w.pure(f"extractvalue {result_ty} {result}, {i}", result) for i in range(len(sums))]


def _instruction(name: str, lhs: int, rhs: int) -> str:
    """A product of tiles with four sums of f32, in the notation of LLVM's inline assembly."""
    groups, first = [], 0
    for count in (4, lhs, rhs, 4):
        groups.append(f"{{{', '.join(f'${n}' for n in range(first, first + count))}}}")
        first += count
    constraints = ["=f"] * 4 + ["r"] * (lhs + rhs) + ["f"] * 4
    return f'asm "{name} {", ".join(groups)};", "{",".join(constraints)}"'


def emit_matrix_load(w: FunctionWriter, s: MatrixLoad, address: str, count: int) -> list[str]:
    """What a thread gets of `count` small matrices in shared memory: a word of each."""
    turned = ".trans" if s.transposed else ""
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{turned}.b16.p3"
    result_ty = "i32" if count == 1 else f"{{ {', '.join(['i32'] * count)} }}"
    result = w.call(name, result_ty, [("ptr addrspace(3)", address)])
    if count == 1:
        return [result]
    return [w.pure(f"extractvalue {result_ty} {result}, {i}", result) for i in range(count)]


def pack_word(w: FunctionWriter, type: P, raws: Sequence[str]) -> str:
    """Elements as memory holds them in a word of 32 bits, the first one in the lowest bits."""
    stored = memory_type(type)
    if len(raws) == 1:
        return w.cast("bitcast", stored, raws[0], "i32")
    held, together = vector(stored, len(raws)), "poison"
    for i, raw in enumerate(raws):
        together = w.insert(held, together, raw, i)
    return w.cast("bitcast", held, together, "i32")


def choose_bytes(w: FunctionWriter, parts: Sequence[tuple[str, int]]) -> str | None:
    """A word of four bytes, each given by its word and place there; None where they come from more
    than two words."""
    words = list(dict.fromkeys(word for word, _ in parts))
    if len(words) > 2:
        return None
    selector = sum(4 * words.index(word) + place << 4 * n for n, (word, place) in enumerate(parts))
    name = "llvm.nvvm.prmt"
    w.module.declare(name, "i32", ["i32"] * 3)
    first, second = words[0], words[-1]
    text = f"call i32 @{name}(i32 {first}, i32 {second}, i32 {selector})"
    return w.pure(text, first, second)


def unpack_word(w: FunctionWriter, type: P, word: str) -> list[str]:
    """The elements in a word."""
    stored = memory_type(type)
    count = 32 // bits_of(stored)
    if count == 1:
        return [w.cast("bitcast", "i32", word, stored)]
    held = vector(stored, count)
    whole = w.cast("bitcast", "i32", word, held)
    return [w.extract(held, whole, i) for i in range(count)]
