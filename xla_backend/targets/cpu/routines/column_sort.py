"""Sorts of some short rows at once: a vector has one element of each, and vectors are compared and
exchanged by merge exchange (Knuth, The Art of Computer Programming 3, algorithm 5.2.2 M), a network
for any number of elements.

  i1 sort_columns.<t>(ptr in, ptr out, i64 n, i64 stride, i64 flags)
        `together` neighbouring rows whose elements are apart: no row is copied so that its elements
        lie side by side; 2 <= n <= LONGEST
  i1 sort_side_by_side.<t>(ptr in, ptr out, i64 n, i64 flags)
        `rows_at_once` rows, one behind the other, of elements side by side, in squares that are
        transposed as they are read and written; `is_short` says of which n

Whether they are sorted: not where keys do not tell the bits of their elements, and nothing is
written then. Flags are those of the sorts of rows.
"""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.bit_counts import leading_zeros
from xla_backend.llvm.bytes import prefetch
from xla_backend.llvm.transposes import transpose
from xla_backend.llvm.types import lanes as lanes_of
from xla_backend.llvm.types import mask_of, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.ordered_keys import (
    decode,
    encode,
    flip_of,
    int_type,
    is_lossy,
)
from xla_backend.targets.cpu.routines.strided_rows import together
from xla_backend.targets.cpu.routines.workspace import give, take

# A longer row takes more exchanges than partitions.
LONGEST = 256
# Sides of the squares in which rows of elements side by side are read and written, and how long
# such rows are at most, by bytes of an element: a vector has more of the smaller ones.
SHORTEST = 8
_LONGEST_BESIDE = {1: 256, 2: 256, 4: 48, 8: 32}
# Neighbours that are exchanged without a loop of their own.
_UNROLLED = (4, 2, 1)


def emit_column_sort(module: ModuleWriter, t: P) -> str:
    """The name of the function."""
    name = f"sort_columns.{t}"
    params = [("ptr", "in"), ("ptr", "out"), *(("i64", p) for p in ("n", "stride", "flags"))]
    w = module.function(name, params, "i1", internal=True)
    raw = int_type(t)
    lanes = together(raw)
    ty = vector(raw, lanes)
    flip = w.splat(ty, flip_of(w, "%flags", raw))
    keys = take(w, w.imul("%n", lanes), raw)

    def at(place: str) -> str:
        return w.gep(ty, keys, place)

    with w.loop("0", "%n", 1, [(mask_of(ty), "zeroinitializer")], guard=False) as loop:
        place = w.imul(loop.index, "%stride")
        bits = w.load(ty, w.gep(raw, "%in", place), t.byte_size)
        for writes, end in enumerate(("%in", "%out")):
            # Beyond the array there may be nothing; the address must not claim to be in bounds.
            ahead = w.iadd(place, 2 * lanes - 1)
            address = w.pure(f"getelementptr {raw}, ptr {end}, i64 {ahead}", ahead)
            prefetch(w, address, bool(writes))
        w.store(ty, encode(w, t, bits, flip, ty), at(loop.index))
        loop.next = list(loop.carried)
        if t.is_floating:
            loop.next = [w.op("or", mask_of(ty), loop.carried[0], is_lossy(w, t, bits, ty))]

    def sort() -> list[str]:
        _emit_merge_exchange(w, ty, keys)
        with w.loop("0", "%n", guard=False) as loop:
            bits = decode(w, t, w.load(ty, at(loop.index)), flip, ty)
            place = w.gep(raw, "%out", w.imul(loop.index, "%stride"))
            w.store(ty, bits, place, t.byte_size)
        return []

    _finish(w, ty, loop.results[0], keys, sort)
    return name


def _finish(
    w: FunctionWriter, ty: str, lossy: str, keys: str, sort: Callable[[], list[str]]
) -> None:
    """Sorts unless a lane of the mask says that a key does not tell its bits, and returns that."""
    bits = f"i{lanes_of(ty)}"
    told = w.cmp("eq", bits, w.cast("bitcast", mask_of(ty), lossy, bits), "0")
    w.if_else(told, [], sort, list)
    give(w, keys)
    w.ret("i1", told)


def rows_at_once(w: FunctionWriter, t: P) -> int:
    """How many rows of elements side by side are sorted together; 0: none."""
    rows = w.target.lanes(8 * t.byte_size)
    return rows if rows >= SHORTEST else 0


def is_short(w: FunctionWriter, t: P, n: str) -> str:
    """Whether rows of elements side by side are so short that they are."""
    lengths = _LONGEST_BESIDE[t.byte_size] - SHORTEST
    return w.cmp("ule", "i64", w.isub(n, SHORTEST), str(lengths))


def emit_side_by_side(module: ModuleWriter, t: P) -> str:
    """The name of the function."""
    name = f"sort_side_by_side.{t}"
    params = [("ptr", "in"), ("ptr", "out"), ("i64", "n"), ("i64", "flags")]
    w = module.function(name, params, "i1", internal=True)
    raw, rows = int_type(t), rows_at_once(w, t)
    square = vector(raw, SHORTEST)
    mask = mask_of(square)
    flip = w.splat(square, flip_of(w, "%flags", raw))
    keys = take(w, w.imul("%n", rows), raw)
    last = w.isub("%n", SHORTEST)

    def places(array: str, row: str, column: str) -> list[str]:
        """Of some rows, where their elements from a column on are."""
        first = w.gep(raw, array, w.iadd(w.imul(row, "%n"), column))
        return [w.gep(raw, first, w.imul("%n", k)) for k in range(SHORTEST)]

    def columns(row: str, column: str) -> list[str]:
        """The same of their keys, column by column."""
        first = w.gep(raw, keys, w.iadd(w.imul(column, rows), row))
        return [w.gep(raw, first, k * rows) for k in range(SHORTEST)]

    with w.loop("0", "%n", SHORTEST, [(mask, "zeroinitializer")], guard=False) as loop:
        column = w.imin(loop.index, last)
        with w.loop("0", rows, SHORTEST, [(mask, loop.carried[0])], guard=False) as down:
            found = [w.load(square, p, t.byte_size) for p in places("%in", down.index, column)]
            lossy = down.carried[0]
            if t.is_floating:
                for bits in found:
                    lossy = w.op("or", mask, lossy, is_lossy(w, t, bits, square))
            coded = [encode(w, t, bits, flip, square) for bits in found]
            for value, place in zip(transpose(w, square, coded), columns(down.index, column)):
                w.store(square, value, place, t.byte_size)
            down.next = [lossy]
        loop.next = down.results

    def sort() -> list[str]:
        _emit_merge_exchange(w, vector(raw, rows), keys)
        with w.loop("0", "%n", SHORTEST, guard=False) as loop:
            column = w.imin(loop.index, last)
            with w.loop("0", rows, SHORTEST, guard=False) as down:
                found = [w.load(square, p, t.byte_size) for p in columns(down.index, column)]
                values = transpose(w, square, found)
                for value, place in zip(values, places("%out", down.index, column)):
                    w.store(square, decode(w, t, value, flip, square), place, t.byte_size)
        return []

    _finish(w, square, loop.results[0], keys, sort)
    return name


def _emit_merge_exchange(w: FunctionWriter, ty: str, keys: str) -> None:
    """Sorts n vectors, lane by lane."""
    bits = w.isub(64, leading_zeros(w, w.isub("%n", 1)))
    half = w.op("shl", "i64", "1", w.isub(bits, 1))

    def exchange(i: str, distance: str) -> None:
        ends = [w.gep(ty, keys, place) for place in (i, w.iadd(i, distance))]
        a, b = (w.load(ty, end) for end in ends)
        for kind, end in zip(("smin", "smax"), ends, strict=True):
            w.store(ty, w.intrinsic(kind, ty, a, b), end)

    def merge(group: str, known: int | None) -> None:
        """Exchanges of groups of so many neighbours, every second of which they are."""
        size = group if known is None else str(known)
        twice = w.op("shl", "i64", group, "1") if known is None else str(2 * known)

        def one_distance(state: list[str]) -> list[str]:
            distance, left, first = state
            last = w.isub("%n", distance)
            whole = last if known is None else w.isub(last, known - 1)
            with w.loop(first, whole, twice, [("i64", first)]) as loop:
                if known is None:
                    with w.loop(loop.index, w.imin(w.iadd(loop.index, size), last)) as inner:
                        exchange(inner.index, distance)
                else:
                    for k in range(known):
                        exchange(w.iadd(loop.index, k), distance)
                loop.next = [w.iadd(loop.index, twice)]
            if known not in (None, 1):
                with w.loop(loop.results[0], last) as rest:
                    exchange(rest.index, distance)
            # The last round had as many left as a group has: none are left behind it.
            more = w.cmp("ne", "i64", left, size)
            following = w.isub(left, size)
            return [following, w.select(more, "i64", w.op("lshr", "i64", left, "1"), "0"), size]

        w.while_(
            [("i64", size), ("i64", half), ("i64", "0")],
            lambda state: w.cmp("ne", "i64", state[1], "0"),
            one_distance,
        )

    def step(state: list[str]) -> list[str]:
        merge(state[0], None)
        return [w.op("lshr", "i64", state[0], "1")]

    w.while_([("i64", half)], lambda state: w.cmp("sgt", "i64", state[0], str(_UNROLLED[0])), step)
    for known in _UNROLLED:
        with w.if_(w.cmp("sge", "i64", half, str(known))):
            merge(str(known), known)
