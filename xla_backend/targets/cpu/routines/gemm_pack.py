"""Packing of GEMM operands into panels, with conversion to the type of the arithmetic.

A block of `height` rows becomes [k][row]; a panel of B of `width` columns becomes [k][column] with
the missing columns zero. Complex values become planes: [k][vector][real lanes, imaginary lanes] for
B, [k][row][real, imaginary] for A. Where products are of pairs (`depth_group`), two steps of k are
one: the halves of each element; what is missing of the last pair is zero. The first of a pair of
integers is the lower half; of bf16 the upper one, whose product the instruction adds first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xla_backend.hlo.types import PrimitiveType
from xla_backend.llvm import elemental
from xla_backend.llvm.bytes import prefetch
from xla_backend.llvm.transposes import transpose
from xla_backend.llvm.types import const, register_type, vector
from xla_backend.llvm.types import lanes as lanes_of
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.gemm_tiles import (
    GemmType,
    Tile,
    depth_group,
    has_bfloat_pairs,
)

_SQUARE = 8
# Numbers of bf16 with exponents e and f are multiples of 2^(e - 7) and 2^(f - 7), so their products
# and sums of these, however they are rounded, are multiples of 2^-126, and not subnormal, where
# e + f is not below 14 - 126. Of exponents as they are stored, from 127 up:
MULTIPLES_ARE_NORMAL = 14 - 126 + 2 * 127
# How early the lines of a row of B are asked for.
_ROWS_AHEAD = 8
_PARAMS = [
    ("ptr noalias", "src"),
    ("i64", "rs"),
    ("i64", "cs"),
    ("ptr noalias", "dst"),
    ("i64", "kc"),
]


def _load(w: FunctionWriter, t: GemmType, lanes: int, index: str, mask: str | None = None) -> tuple:
    value = elemental.load(w, t.source, lanes, "%src", index, mask)
    value = elemental.emit_convert(w, t.source, t.compute, lanes, value)
    return value if t.compute.is_complex else (value,)


def _for_depth(
    w: FunctionWriter,
    t: GemmType,
    lanes: int,
    load: Callable[[str], tuple],
    store: Callable[[str, tuple], None],
    start: str = "0",
) -> None:
    """store(k, load(k)) for all k; of pairs store(k / 2, both of them)."""
    if depth_group(t, w.target) == 1:
        with w.loop(start, "%kc") as loop:
            store(loop.index, load(loop.index))
        return
    pair_of = _pair_of_bfloats if has_bfloat_pairs(t, w.target) else _pair_of_integers
    ty = vector(register_type(t.compute), lanes)
    pairs = w.op("lshr", "i64", "%kc", "1")
    first = "0" if start == "0" else w.op("lshr", "i64", start, "1")
    with w.loop(first, pairs) as loop:
        k = w.imul(loop.index, 2)
        both = zip(load(k), load(w.iadd(k, 1)), strict=True)
        store(loop.index, tuple(pair_of(w, ty, *each) for each in both))
    with w.if_(w.cmp("ne", "i64", w.op("and", "i64", "%kc", "1"), "0")):
        store(pairs, tuple(pair_of(w, ty, last, None) for last in load(w.imul(pairs, 2))))


def _pair_of_integers(w: FunctionWriter, ty: str, first: str, second: str | None) -> str:
    low = w.op("and", ty, first, const(ty, 0xFFFF))
    return low if second is None else w.op("or", ty, low, w.op("shl", ty, second, const(ty, 16)))


def _pair_of_bfloats(w: FunctionWriter, ty: str, first: str, second: str | None) -> str:
    """Of numbers that are f32, whose lower halves are zero."""
    if second is None:
        return first
    bits = vector("i32", lanes_of(ty))
    high, low = (w.cast("bitcast", ty, each, bits) for each in (first, second))
    low = w.op("lshr", bits, low, const(bits, 16))
    return w.cast("bitcast", bits, w.op("or", bits, high, low), ty)


def _emit_squares(w: FunctionWriter, t: GemmType) -> str:
    """Contiguous rows of A: square blocks of what is packed, through registers. Returns where the
    rest begins."""
    elem = register_type(t.compute)
    ty, bits = vector(elem, _SQUARE), vector("i32", _SQUARE)
    group = depth_group(t, w.target)
    step = _SQUARE * group
    unit = w.cmp("eq", "i64", "%cs", "1")
    whole = w.select(unit, "i64", w.op("and", "i64", "%kc", str(-step)), "0")

    def row(r: int, k: str) -> str:
        index = w.iadd(w.imul("%rs", r), k)
        if has_bfloat_pairs(t, w.target):
            pairs = w.load(bits, w.gep("i16", "%src", index), 2)
            turned = w.intrinsic("fshl", bits, pairs, pairs, const(bits, 16))
            return w.cast("bitcast", bits, turned, ty)
        value = elemental.load(w, t.source, step, "%src", index)
        if group == 1:
            return elemental.emit_convert(w, t.source, t.compute, step, value)
        halves = elemental.emit_convert(w, t.source, PrimitiveType.S16, step, value)
        return w.cast("bitcast", vector("i16", step), halves, ty)

    with w.loop("0", whole, step) as loop:
        start = w.gep(
            elem, "%dst", w.imul(w.op("lshr", "i64", loop.index, str(group - 1)), _SQUARE)
        )
        rows = [row(r, loop.index) for r in range(_SQUARE)]
        for j, column in enumerate(transpose(w, ty, rows)):
            w.store(ty, column, w.gep(elem, start, _SQUARE * j))
    return whole


def emit_pack_a(module: ModuleWriter, prefix: str, t: GemmType, height: int, lanes: int) -> None:
    """void packA<height>(src, rs, cs, dst, kc)"""
    w = module.function(f"{prefix}.packA{height}", _PARAMS, internal=True, attributes="noinline")
    parts = 2 if t.compute.is_complex else 1
    elem = register_type(t.compute)
    start = "0"
    if height == _SQUARE <= lanes and parts == 1:
        start = _emit_squares(w, t)

    def load(k: str) -> tuple:
        columns = w.imul(k, "%cs")
        rows = [_load(w, t, 1, w.iadd(columns, w.imul("%rs", r))) for r in range(height)]
        return tuple(part for row in rows for part in row)

    def store(k: str, values: tuple) -> None:
        to = w.gep(elem, "%dst", w.imul(k, height * parts))
        for place, value in enumerate(values):
            w.store(elem, value, w.gep(elem, to, place))

    _for_depth(w, t, 1, load, store, start)
    w.ret()


def _emit_whole_rows(w: FunctionWriter, t: GemmType, lanes: int, count: int) -> None:
    """Copies rows of `count` whole vectors, when the columns of B are contiguous. Rows are too far
    from each other for the machine to guess the next ones."""
    parts = 2 if t.compute.is_complex else 1
    elem = register_type(t.compute)
    ty = vector(elem, lanes)
    source = f"i{8 * t.source.byte_size}"
    per_line = max(1, 64 // t.source.byte_size)

    def load(k: str) -> tuple:
        row, ahead = (w.imul(each, "%rs") for each in (k, w.iadd(k, _ROWS_AHEAD)))
        for column in range(0, count * lanes, per_line):
            # The address need not be in the matrix, and must not claim to be.
            at = w.iadd(ahead, column)
            address = w.pure(f"getelementptr {source}, ptr %src, i64 {at}", "%src", at)
            prefetch(w, address)
        loaded = [_load(w, t, lanes, w.iadd(row, v * lanes)) for v in range(count)]
        return tuple(plane for planes in loaded for plane in planes)

    def store(k: str, planes: tuple) -> None:
        to = w.gep(elem, "%dst", w.imul(k, count * lanes * parts))
        for place, plane in enumerate(planes):
            w.store(ty, plane, w.gep(elem, to, place * lanes))

    _for_depth(w, t, lanes, load, store)


def _emit_rows(w: FunctionWriter, t: GemmType, lanes: int, vector_at: str) -> None:
    """Copies a vector of columns for every k when the columns of B are contiguous."""
    parts = 2 if t.compute.is_complex else 1
    elem = register_type(t.compute)
    ty = vector(elem, lanes)
    column = w.imul(vector_at, lanes)
    left = w.isub("%valid", column)
    full = w.cmp("sge", "i64", left, str(lanes))

    def copy(mask: str | None) -> None:
        def load(k: str) -> tuple:
            return _load(w, t, lanes, w.iadd(w.imul(k, "%rs"), column), mask)

        def store(k: str, planes: tuple) -> None:
            at = w.imul(w.iadd(w.imul(k, "%width"), column), parts)
            for p, plane in enumerate(planes):
                w.store(ty, plane, w.gep(elem, w.gep(elem, "%dst", at), p * lanes))

        _for_depth(w, t, lanes, load, store)

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

        def load(k: str, inside: str = inside, base: str = base) -> tuple:
            def read() -> list[str]:
                return list(_load(w, t, 1, w.iadd(w.imul(k, "%rs"), base)))

            return tuple(w.if_else(inside, [elem] * parts, read, lambda: [zero] * parts))

        def store(k: str, values: tuple, lane: str = lane.index) -> None:
            at = w.imul(w.iadd(w.imul(k, "%width"), column), parts)
            for p, value in enumerate(values):
                place = w.iadd(at, w.iadd(lane, p * lanes))
                w.store(elem, value, w.gep(elem, "%dst", place))

        _for_depth(w, t, 1, load, store)


def emit_pack_b(
    module: ModuleWriter,
    prefix: str,
    t: GemmType,
    tile: Tile,
    widths: Sequence[int],
    turned: bool | None,
) -> None:
    """void packB(src, rs, cs, dst, kc, width, valid)

    widths: vectors that a panel may have; turned: whether rows of B are not contiguous, None: it
    depends.
    """
    params = [*_PARAMS, ("i64", "width"), ("i64", "valid")]
    w = module.function(f"{prefix}.packB", params, internal=True, attributes="noinline")
    lanes = tile.lanes
    vectors = w.op("udiv", "i64", "%width", str(lanes))

    def whole_rows() -> list[str]:
        for count in widths:
            with w.if_(w.cmp("eq", "i64", vectors, str(count))):
                _emit_whole_rows(w, t, lanes, count)
        return []

    def vector_by_vector() -> list[str]:
        with w.loop("0", vectors) as loop:
            _emit_rows(w, t, lanes, loop.index)
        return []

    def by_rows() -> list[str]:
        is_whole = w.cmp("eq", "i64", "%width", "%valid")
        return w.if_else(is_whole, [], whole_rows, vector_by_vector)

    def by_elements() -> list[str]:
        with w.loop("0", vectors) as loop:
            _emit_columns(w, t, lanes, w.imul(loop.index, lanes))
        return []

    if turned is None:
        w.if_else(w.cmp("eq", "i64", "%cs", "1"), [], by_rows, by_elements)
    elif turned:
        by_elements()
    else:
        by_rows()
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


def emit_least_exponent(module: ModuleWriter, name: str) -> None:
    """i64 name(packed, pairs): the least exponent, as it is stored, of those of these bf16 that are
    not zero, or one below it."""
    w = module.function(
        name, [("ptr", "packed"), ("i64", "pairs")], "i64", internal=True, attributes="noinline"
    )
    lanes = module.target.lanes(32)
    pairs, numbers = vector("i32", lanes), vector("i16", 2 * lanes)
    whole = w.op("and", "i64", "%pairs", str(-lanes))

    def least(so_far: str, loaded: str) -> str:
        """Without their signs; zeros become the largest numbers."""
        value = w.op("shl", numbers, w.cast("bitcast", pairs, loaded, numbers), const(numbers, 1))
        return w.intrinsic("umin", numbers, so_far, w.op("sub", numbers, value, const(numbers, 1)))

    with w.loop("0", whole, lanes, [(numbers, const(numbers, -1))]) as loop:
        loaded = w.load(pairs, w.gep("i32", "%packed", loop.index), 4)
        loop.next = [least(loop.carried[0], loaded)]
    mask = w.active_mask(lanes, whole, "%pairs")
    loaded = w.masked_load(pairs, w.gep("i32", "%packed", whole), mask, const(pairs, 0))
    smallest = w.reduce("umin", numbers, least(loop.results[0], loaded))
    w.ret("i64", w.cast("zext", "i16", w.op("lshr", "i16", smallest, "8"), "i64"))
