"""Lanes of a register that a mask chooses: how many there are, and those alone, in their order.

AVX-512 has an instruction that gathers them; AVX2, SSSE3 and NEON take a permutation from a table.
"""

from __future__ import annotations

from collections.abc import Iterator

from xla_backend.llvm.types import bits_of, element, lanes, mask_of, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter


def count(w: FunctionWriter, mask: str, lanes: int) -> str:
    """How many of so many lanes a mask chooses, an i64."""
    if lanes == 1:
        return w.cast("zext", "i1", mask, "i64")
    ty = f"i{lanes}"
    bits = w.cast("bitcast", f"<{lanes} x i1>", mask, ty)
    if lanes < 32:
        bits, ty = w.cast("zext", ty, bits, "i32"), "i32"
    found = w.intrinsic("ctpop", ty, bits)
    return found if ty == "i64" else w.cast("zext", ty, found, "i64")


def front(w: FunctionWriter, count: str, lanes: int) -> str:
    """The mask of the first `count` lanes, at most all."""
    bits = f"i{lanes}"
    ones = w.not_("i64", w.op("shl", "i64", "-1", count))
    if lanes == 64:  # by which nothing is shifted
        ones = w.select(w.cmp("eq", "i64", count, "64"), "i64", "-1", ones)
    else:
        ones = w.cast("trunc", "i64", ones, bits)
    return w.cast("bitcast", bits, ones, f"<{lanes} x i1>")


def compressed(w: FunctionWriter, ty: str, value: str, mask: str) -> str:
    """The chosen lanes of a register first; the others are anything."""
    name = f"llvm.experimental.vector.compress.v{lanes(ty)}{element(ty)}"
    w.module.declare(name, ty, [ty, mask_of(ty), ty])
    text = f"call {ty} @{name}({ty} {value}, {mask_of(ty)} {mask}, {ty} poison)"
    return w.pure(text, value, mask)


def permutation_table(module: ModuleWriter, ty: str) -> str:
    """What `permuted` needs for the lanes of a register: of 256 bits, or 128."""
    parts = 8 if module.target.vector_bits == 256 else 16
    return module.constant_bytes(bytes(_permutations(module.target.lanes(bits_of(ty)), parts)))


def permuted(w: FunctionWriter, ty: str, table: str, value: str, mask: str) -> str:
    """The chosen lanes of a register first, then the others."""
    lanes = w.target.lanes(bits_of(ty))
    vec = vector(ty, lanes)
    bits = w.cast("bitcast", mask_of(vec), mask, f"i{lanes}")
    row = w.cast("zext", f"i{lanes}", bits, "i64")
    if w.target.vector_bits == 256:
        parts, name = "<8 x i32>", "llvm.x86.avx2.permd"
        packed = w.load("<8 x i8>", w.gep("i64", table, row), 8)
        places = w.cast("zext", "<8 x i8>", packed, parts)
    else:
        parts = "<16 x i8>"
        name = "llvm.x86.ssse3.pshuf.b.128"
        if w.target.is_aarch64:
            name = "llvm.aarch64.neon.tbl1.v16i8"
        places = w.load(parts, w.gep(parts, table, row), 16)
    w.module.declare(name, parts, [parts, parts])
    given = w.cast("bitcast", vec, value, parts)
    moved = w.pure(f"call {parts} @{name}({parts} {given}, {parts} {places})", given, places)
    return w.cast("bitcast", parts, moved, vec)


def _permutations(lanes: int, parts: int) -> Iterator[int]:
    """For each mask of lanes: which `parts` of a register, as many of every lane, make the chosen
    lanes come first."""
    of_lane = parts // lanes
    for mask in range(1 << lanes):
        chosen = [i for i in range(lanes) if mask >> i & 1]
        others = [i for i in range(lanes) if not mask >> i & 1]
        yield from (i * of_lane + part for i in chosen + others for part in range(of_lane))
