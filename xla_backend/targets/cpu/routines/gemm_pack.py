"""Packing of GEMM operands into panels, with conversion to the type of the arithmetic.

A block of `height` rows becomes [k][row]; a panel of B of `width` columns becomes [k][column] with
the missing columns zero. Complex values become planes: [k][vector][real lanes, imaginary lanes] for
B, [k][row][real, imaginary] for A.
"""

from __future__ import annotations

from xla_backend.llvm import elemental
from xla_backend.llvm.transposes import transpose
from xla_backend.llvm.types import const, register_type, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.gemm_tiles import GemmType, Tile

_PARAMS = [
    ("ptr noalias", "src"),
    ("i64", "rs"),
    ("i64", "cs"),
    ("ptr noalias", "dst"),
    ("i64", "kc"),
]


def _load_one(w: FunctionWriter, t: GemmType, index: str) -> tuple:
    value = elemental.load(w, t.source, 1, "%src", index)
    value = elemental.emit_convert(w, t.source, t.compute, 1, value)
    return value if t.compute.is_complex else (value,)


def emit_pack_a(module: ModuleWriter, prefix: str, t: GemmType, height: int, lanes: int) -> None:
    """void packA<height>(src, rs, cs, dst, kc)"""
    w = module.function(f"{prefix}.packA{height}", _PARAMS, internal=True, attributes="noinline")
    parts = 2 if t.compute.is_complex else 1
    elem = register_type(t.compute)
    start = "0"
    if not t.needs_packing and height == 8 and lanes in (8, 16) and t.compute.is_floating:
        # Contiguous rows: 8 x 8 blocks through registers.
        ty = vector(elem, 8)
        unit = w.cmp("eq", "i64", "%cs", "1")
        whole = w.select(unit, "i64", w.op("and", "i64", "%kc", "-8"), "0")
        with w.loop("0", whole, 8) as loop:
            rows = [
                w.load(ty, w.gep(elem, w.gep(elem, "%src", w.imul("%rs", r)), loop.index))
                for r in range(8)
            ]
            for j, column in enumerate(transpose(w, ty, rows)):
                w.store(ty, column, w.gep(elem, w.gep(elem, "%dst", w.imul(loop.index, 8)), 8 * j))
        start = whole
    with w.loop(start, "%kc") as loop:
        at = w.imul(loop.index, height * parts)
        for r in range(height):
            index = w.iadd(w.imul(loop.index, "%cs"), w.imul("%rs", r))
            for p, value in enumerate(_load_one(w, t, index)):
                w.store(elem, value, w.gep(elem, w.gep(elem, "%dst", at), r * parts + p))
    w.ret()


def _emit_rows(w: FunctionWriter, t: GemmType, lanes: int, vector_at: str) -> None:
    """Copies a vector of columns for every k when the columns of B are contiguous."""
    parts = 2 if t.compute.is_complex else 1
    elem = register_type(t.compute)
    ty = vector(elem, lanes)
    column = w.imul(vector_at, lanes)
    left = w.isub("%valid", column)
    full = w.cmp("sge", "i64", left, str(lanes))

    def copy(mask: str | None) -> None:
        with w.loop("0", "%kc") as loop:
            index = w.iadd(w.imul(loop.index, "%rs"), column)
            value = elemental.load(w, t.source, lanes, "%src", index, mask)
            value = elemental.emit_convert(w, t.source, t.compute, lanes, value)
            planes = value if t.compute.is_complex else (value,)
            at = w.imul(w.iadd(w.imul(loop.index, "%width"), column), parts)
            for p, plane in enumerate(planes):
                w.store(ty, plane, w.gep(elem, w.gep(elem, "%dst", at), p * lanes))

    def whole() -> list[str]:
        copy(None)
        return []

    def partial() -> list[str]:
        if w.target.has_masks:
            copy(w.active_mask(lanes, "0", left))
        else:
            _emit_scalars(w, t, lanes, column)
        return []

    w.if_else(full, [], whole, partial)


def _emit_scalars(w: FunctionWriter, t: GemmType, lanes: int, column: str) -> None:
    """One vector's worth of columns element by element: any strides, zeros beyond `valid`."""
    parts = 2 if t.compute.is_complex else 1
    elem = register_type(t.compute)
    zero = const(elem, 0)
    with w.loop("0", str(lanes), guard=False) as lane:
        here = w.iadd(column, lane.index)
        inside = w.cmp("slt", "i64", here, "%valid")
        base = w.imul(here, "%cs")
        with w.loop("0", "%kc") as loop:
            index = w.iadd(w.imul(loop.index, "%rs"), base)

            def read(index: str = index) -> list[str]:
                return list(_load_one(w, t, index))

            values = w.if_else(inside, [elem] * parts, read, lambda: [zero] * parts)
            at = w.imul(w.iadd(w.imul(loop.index, "%width"), column), parts)
            for p, value in enumerate(values):
                place = w.iadd(at, w.iadd(lane.index, p * lanes))
                w.store(elem, value, w.gep(elem, "%dst", place))


def emit_pack_b(module: ModuleWriter, prefix: str, t: GemmType, tile: Tile) -> None:
    """void packB(src, rs, cs, dst, kc, width, valid)"""
    params = [*_PARAMS, ("i64", "width"), ("i64", "valid")]
    w = module.function(f"{prefix}.packB", params, internal=True, attributes="noinline")
    lanes = tile.lanes
    vectors = w.op("udiv", "i64", "%width", str(lanes))
    unit = w.cmp("eq", "i64", "%cs", "1")

    def by_rows() -> list[str]:
        with w.loop("0", vectors) as loop:
            _emit_rows(w, t, lanes, loop.index)
        return []

    def by_elements() -> list[str]:
        with w.loop("0", vectors) as loop:
            _emit_columns(w, t, lanes, w.imul(loop.index, lanes))
        return []

    w.if_else(unit, [], by_rows, by_elements)
    w.ret()


def _emit_columns(w: FunctionWriter, t: GemmType, lanes: int, column: str) -> None:
    """One vector of columns of a B whose rows are not contiguous."""
    if t.needs_packing or lanes == 1:
        _emit_scalars(w, t, lanes, column)
        return
    # Contiguous along k (a transposed B): square blocks through registers.
    fits = w.cmp("sle", "i64", w.iadd(column, lanes), "%valid")
    quick = w.op("and", "i1", fits, w.cmp("eq", "i64", "%rs", "1"))

    def blocks() -> list[str]:
        _emit_transposed(w, t, lanes, column)
        return []

    def plain() -> list[str]:
        _emit_scalars(w, t, lanes, column)
        return []

    w.if_else(quick, [], blocks, plain)


def _emit_transposed(w: FunctionWriter, t: GemmType, lanes: int, column: str) -> None:
    elem = register_type(t.compute)
    ty = vector(elem, lanes)
    whole = w.op("and", "i64", "%kc", str(-lanes))
    base = w.gep(elem, "%src", w.imul(column, "%cs"))
    with w.loop("0", whole, lanes) as loop:
        rows = [
            w.load(ty, w.gep(elem, w.gep(elem, base, w.imul("%cs", j)), loop.index))
            for j in range(lanes)
        ]
        for k, value in enumerate(transpose(w, ty, rows)):
            at = w.iadd(w.imul(w.iadd(loop.index, k), "%width"), column)
            w.store(ty, value, w.gep(elem, "%dst", at))
    with w.loop(whole, "%kc") as loop:
        for j in range(lanes):
            value = w.load(elem, w.gep(elem, w.gep(elem, base, w.imul("%cs", j)), loop.index))
            at = w.iadd(w.iadd(w.imul(loop.index, "%width"), column), j)
            w.store(elem, value, w.gep(elem, "%dst", at))
