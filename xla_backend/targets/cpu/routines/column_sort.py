"""Sorts of short rows whose elements are apart: a vector has one element of each of some
neighbouring rows, and vectors are compared and exchanged by merge exchange (Knuth, The Art of
Computer Programming 3, algorithm 5.2.2 M), a network for any number of elements. No row is copied
so that its elements lie side by side.

  i1 sort_columns.<t>(ptr in, ptr out, i64 n, i64 stride, i64 flags)
        whether they are sorted: not where keys do not tell the bits of their elements, and nothing
        is written then; 2 <= n <= LONGEST, flags as in the sorts of rows
"""

from __future__ import annotations

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.bit_counts import leading_zeros
from xla_backend.llvm.bytes import prefetch
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
    lossy = w.cast("bitcast", mask_of(ty), loop.results[0], f"i{lanes}")
    told = w.cmp("eq", f"i{lanes}", lossy, "0")

    def sort() -> list[str]:
        _emit_merge_exchange(w, ty, keys)
        with w.loop("0", "%n", guard=False) as loop:
            bits = decode(w, t, w.load(ty, at(loop.index)), flip, ty)
            place = w.gep(raw, "%out", w.imul(loop.index, "%stride"))
            w.store(ty, bits, place, t.byte_size)
        return []

    w.if_else(told, [], sort, list)
    give(w, keys)
    w.ret("i1", told)
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
