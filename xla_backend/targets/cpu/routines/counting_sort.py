"""Sorts of one long row of values of 8 or 16 bits: how often each is there is counted, and that is
written; for an order, places are written from where the counts before end. Several tables count in
turn, so that equal neighbours do not wait for each other."""

from __future__ import annotations

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.bytes import clear_bytes, copy_bytes
from xla_backend.llvm.types import bits_of, const, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.ordered_keys import decode, encode, flip_of, int_type
from xla_backend.targets.cpu.routines.workspace import give, take

# By the size of an element: rows that are so long are counted, with so many tables.
_LEAST = {1: 1 << 12, 2: 1 << 18}
_TABLES = {1: 4, 2: 2}
# More threads sort their parts sooner than one counts.
_MOST_THREADS = 2
_UNROLL = 4
_ROW_BITS = 512


def counts(t: P) -> bool:
    """Whether long rows of the type are sorted so."""
    return t.byte_size in _LEAST


def is_long(w: FunctionWriter, t: P, n: str) -> str:
    """Whether a row is, and no longer than the counts are wide."""

    def few() -> list[str]:
        return [w.cmp("sle", "i32", w.call("pyjax_num_threads", "i32"), str(_MOST_THREADS))]

    least = _LEAST[t.byte_size]
    enough = w.cmp("ult", "i64", w.isub(n, least), str((1 << 32) - least))
    return w.if_else(enough, ["i1"], few, lambda: ["false"])[0]


def return_counted(w: FunctionWriter, counted: str, name: str, ends: tuple[str, str]) -> None:
    """Calls one of the functions below for a row, and returns, where it is counted."""
    then, other = w.new_label("counted"), w.new_label("sorted")
    w.cond_br(counted, then, other)
    w.label(then)
    w.call(name, "void", [*(("ptr", end) for end in ends), ("i64", "%n"), ("i64", "%flags")])
    w.ret()
    w.label(other)


def emit_counting_sort(module: ModuleWriter, t: P) -> str:
    """void count(ptr in, ptr out, i64 n, i64 flags), of elements whose keys tell their bits; its
    name. `in` may be `out`."""
    name = f"count.{t}"
    params = [("ptr", "in"), ("ptr", "out"), ("i64", "n"), ("i64", "flags")]
    w = module.function(name, params, internal=True)
    flip = flip_of(w, "%flags", int_type(t))
    table = _emit_counts(w, t, "%in", flip, lossless=True)
    _emit_runs(w, t, table, flip)
    give(w, table)
    w.ret()
    return name


def emit_counted_order(module: ModuleWriter, t: P, order: str) -> str:
    """void order(ptr keys, ptr perm, i64 n, i64 flags): the stable order, or what a permutation
    that is there becomes by it, as the sort by several keys has it; its name."""
    name = f"count_places.{t}.{order}"
    params = [("ptr", "keys"), ("ptr", "perm"), ("i64", "n"), ("i64", "flags")]
    w = module.function(name, params, internal=True)
    raw, bins = int_type(t), 1 << (8 * t.byte_size)
    flip = flip_of(w, "%flags", raw)
    table = _emit_counts(w, t, "%keys", flip, lossless=False)
    with w.loop("0", bins, 1, [("i32", "0")], guard=False) as loop:
        total = _total(w, t, table, loop.index)
        w.store("i32", loop.carried[0], w.gep("i32", table, loop.index))
        loop.next = [w.op("add", "i32", loop.carried[0], total)]

    def write(place: str) -> None:
        bits = w.load(raw, w.gep(raw, "%keys", place))
        cell = w.gep("i32", table, _bin(w, t, bits, flip, lossless=False))
        at = w.load("i32", cell)
        w.store("i32", w.op("add", "i32", at, "1"), cell)
        given = w.cast("trunc", "i64", place, order)
        w.store(order, given, w.gep(order, "%perm", w.cast("zext", "i32", at, "i64")))

    def refined() -> list[str]:
        size = w.imul("%n", bits_of(order) // 8)
        before = take(w, "%n", order)
        copy_bytes(w, before, "%perm", size)
        with w.loop("0", "%n") as loop:
            given = w.load(order, w.gep(order, before, loop.index))
            write(w.cast("sext", order, given, "i64"))
        give(w, before)
        return []

    def plain() -> list[str]:
        with w.loop("0", "%n") as loop:
            write(loop.index)
        return []

    refines = w.cmp("ne", "i64", w.op("and", "i64", "%flags", "2"), "0")
    w.if_else(refines, [], refined, plain)
    give(w, table)
    w.ret()
    return name


def _bin(w: FunctionWriter, t: P, bits: str, flip: str, *, lossless: bool) -> str:
    """The number of the key of an element, in their order."""
    raw = int_type(t)
    key = encode(w, t, bits, flip, lossless=lossless)
    return w.cast("zext", raw, w.op("xor", raw, key, _lowest(raw)), "i64")


def _emit_counts(w: FunctionWriter, t: P, row: str, flip: str, *, lossless: bool) -> str:
    """Tables of how often each key is there, to give back."""
    raw, tables = int_type(t), _TABLES[t.byte_size]
    bins = 1 << bits_of(raw)
    table = take(w, str(tables * bins), "i32")
    clear_bytes(w, table, str(4 * tables * bins))

    def count(at: str, number: int) -> None:
        place = _bin(w, t, w.load(raw, w.gep(raw, row, at)), flip, lossless=lossless)
        cell = w.gep("i32", table, w.iadd(place, number % tables * bins))
        w.store("i32", w.op("add", "i32", w.load("i32", cell), "1"), cell)

    whole = w.op("and", "i64", "%n", str(-_UNROLL))
    with w.loop("0", whole, _UNROLL) as loop:
        for number in range(_UNROLL):
            count(w.iadd(loop.index, number), number)
    with w.loop(whole, "%n") as loop:
        count(loop.index, 0)
    return table


def _total(w: FunctionWriter, t: P, table: str, place: str) -> str:
    """How often a key is there, of all tables."""
    bins = 1 << (8 * t.byte_size)
    total = w.load("i32", w.gep("i32", table, place))
    for k in range(1, _TABLES[t.byte_size]):
        more = w.load("i32", w.gep("i32", table, w.iadd(place, k * bins)))
        total = w.op("add", "i32", total, more)
    return total


def _lowest(raw: str) -> str:
    return const(raw, 1 << (bits_of(raw) - 1))


def _emit_runs(w: FunctionWriter, t: P, table: str, flip: str) -> None:
    """Writes each value as often as it was counted. What a vector has too many of is written over
    by the next values, so where there is room nothing depends on a count that is small."""
    raw = int_type(t)
    bins, lanes = 1 << bits_of(raw), _ROW_BITS // bits_of(raw)
    row = vector(raw, lanes)
    with w.loop("0", bins, 1, [("i64", "0")], guard=False) as loop:
        begin = loop.carried[0]
        total = _total(w, t, table, loop.index)
        end = w.iadd(begin, w.cast("zext", "i32", total, "i64"))
        key = w.op("xor", raw, w.cast("trunc", "i64", loop.index, raw), _lowest(raw))
        value = decode(w, t, key, flip)
        values = w.splat(row, value)

        def write(at: str, values: str = values) -> None:
            w.store(row, values, w.gep(raw, "%out", at), t.byte_size)

        def in_rows(begin: str = begin, end: str = end) -> list[str]:
            write(begin)
            with w.loop(w.iadd(begin, lanes), end, lanes) as rest:
                write(rest.index)
            return []

        def one_by_one(begin: str = begin, end: str = end, value: str = value) -> list[str]:
            with w.loop(begin, end) as rest:
                w.store(raw, value, w.gep(raw, "%out", rest.index))
            return []

        room = w.cmp("sle", "i64", w.iadd(end, lanes), "%n")
        w.if_else(room, [], in_rows, one_by_one, likely=True)
        loop.next = [end]
