"""Argsorts of one row whose elements lie side by side: stable, for a key and its place are sorted
as one integer of 64 bits.

A place takes as many bits as the row needs. Keys of 64 bits have room in the others for their
first ones, counted from those that tell the keys of this row apart. Runs of keys that have these in
common are sorted by the rest of their bits, which are no more than those of a place, in a second
round.
"""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.bit_counts import leading_zeros
from xla_backend.llvm.types import bits_of, const, mask_of, vector, vector_const
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.counting_sort import (
    counts,
    emit_counted_order,
    is_long,
    return_counted,
)
from xla_backend.targets.cpu.routines.key_sort import sort_keys_name
from xla_backend.targets.cpu.routines.ordered_keys import encode, flip_of, int_type, widened
from xla_backend.targets.cpu.routines.workspace import give, take

_PARAMS = [("ptr", "keys"), ("ptr", "perm"), ("i64", "n"), ("i64", "flags")]
_PLACES = [("i64", "lo"), ("i64", "hi")]
_TOP = -(1 << 63)


def row_argsort_name(t: P) -> str:
    return f"argsort_row.{t}"


def emit_row_argsort(module: ModuleWriter, t: P, order: str = "i32") -> str:
    """void argsort_row(ptr keys, ptr perm, i64 n, i64 flags, i64 lo, i64 hi); returns its name.
    Flags, lo and hi: those of the routine; order: the type of what is in perm."""
    name = row_argsort_name(t)
    wide = t.byte_size == 8
    if wide:
        _emit_runs(module, t, order)
    ascending = _emit_ascending(module)
    w = module.function(name, [*_PARAMS, *_PLACES], internal=True)
    if counts(t):
        counted = emit_counted_order(module, t, order)
        return_counted(w, is_long(w, t, "%n"), counted, ("%keys", "%perm"))
    packed = take(w, "%n", "i64")
    bits = "32"
    if wide:
        bits = w.isub(64, leading_zeros(w, w.isub("%n", 1)))
        least, shift, more = _range(w, t, bits)
        first = lambda key, lanes: _leading(w, key, lanes, least, shift, bits)
        _emit_pack(w, t, packed, first, order)
    else:
        _emit_pack(w, t, packed, lambda key, lanes: _shifted(w, t, key, lanes), order)
    in_order = w.call(ascending, "i1", [("ptr", packed), ("i64", "%n")])
    with w.if_(w.not_("i1", in_order)):
        _sort_places(w, packed, "%lo", "%hi")
    if wide:
        with w.if_(more):
            begin, end = _widened_to_runs(w, packed, bits)
            given = [("ptr", w.gep("i64", packed, begin)), ("ptr", "%keys"), ("ptr", "%perm")]
            numbers = (w.isub(end, begin), "%flags", least, shift, bits)
            w.call(f"runs.{t}", "void", [*given, *(("i64", v) for v in numbers)])
    _emit_places(w, packed, bits, order)
    give(w, packed)
    w.ret()
    return name


def _emit_ascending(module: ModuleWriter) -> str:
    """i1 ascending(ptr packed, i64 n): whether these are in order already, which is seen at once
    where they are not; false for few of them. Its name."""
    name, ty, lanes = "ascending.i64", "i64", module.target.lanes(64)
    w = module.function(name, [("ptr", "packed"), ("i64", "n")], "i1", internal=True)
    row, last = vector(ty, lanes), w.isub(w.isub("%n", 1), lanes)

    def are(at: str) -> str:
        here, next = (w.load(row, w.gep(ty, "%packed", w.iadd(at, k)), 8) for k in range(2))
        bits = w.cast("bitcast", mask_of(row), w.cmp("sle", row, here, next), f"i{lanes}")
        return w.cmp("eq", f"i{lanes}", bits, "-1")

    go_on = lambda state: w.op("and", "i1", state[1], w.cmp("slt", "i64", state[0], last))
    step = lambda state: [w.iadd(state[0], lanes), are(state[0])]
    many = w.cmp("sge", "i64", last, "0")
    _, ordered = w.while_([("i64", "0"), ("i1", many)], go_on, step)
    w.ret("i1", w.if_else(ordered, ["i1"], lambda: [are(last)], lambda: ["false"])[0])
    return name


def _sort_places(w: FunctionWriter, packed: str, lo: str, hi: str) -> None:
    numbers = [("i64", v) for v in ("%n", lo, hi)]
    w.call(sort_keys_name("i64"), "void", [("ptr", packed), *numbers])


def _widened_to_runs(w: FunctionWriter, packed: str, bits: str) -> tuple[str, str]:
    """Sorts what has the first bits of the first or last of the places, too: they begin and end
    with whole runs then. Returns the first of them and their end."""

    def sort_more() -> list[str]:
        ty, lanes = "i64", w.target.lanes(64)
        first = w.load(ty, w.gep(ty, packed, "%lo"))
        last = w.load(ty, w.gep(ty, packed, w.isub("%hi", 1)))
        mask = _below(w, bits)
        bounds = w.op("and", ty, first, w.not_(ty, mask)), w.op("or", ty, last, mask)
        whole = w.op("and", "i64", "%n", str(-lanes))
        counts = ["0", "0"]
        for start, stop, count in (("0", whole, lanes), (whole, "%n", 1)):
            vec = vector(ty, count)
            init = [(vec, const(vec, 0)) for _ in counts]
            with w.loop(start, stop, count, init) as loop:
                key = w.load(vec, w.gep(ty, packed, loop.index), 8)
                for number, kind in enumerate(("slt", "sle")):
                    before = w.cmp(kind, vec, key, w.splat(vec, bounds[number]))
                    one = w.cast("zext", mask_of(vec), before, vec)
                    loop.next.append(w.op("add", vec, loop.carried[number], one))
            found = [w.reduce("add", vec, v) for v in loop.results]
            counts = [w.iadd(a, b) for a, b in zip(counts, found, strict=True)]
        more = w.cmp("slt", "i64", counts[0], "%lo"), w.cmp("sgt", "i64", counts[1], "%hi")
        with w.if_(w.op("or", "i1", *more)):
            _sort_places(w, packed, *counts)
        return counts

    everything = w.cmp("sge", "i64", w.isub("%hi", "%lo"), "%n")
    first, end = w.if_else(everything, ["i64"] * 2, lambda: ["0", "%n"], sort_more)
    return first, end


def _refines(w: FunctionWriter) -> str:
    return w.cmp("ne", "i64", w.op("and", "i64", "%flags", "2"), "0")


def _source(w: FunctionWriter, refines: str, place: str, order: str) -> str:
    """Where the element is that is at a place in the order to refine."""
    given = lambda: [_given(w, place, order)]
    return w.if_else(refines, ["i64"], given, lambda: [place])[0]


def _given(w: FunctionWriter, place: str, order: str) -> str:
    """What is at a place in the order to refine."""
    return w.cast("sext", order, w.load(order, w.gep(order, "%perm", place)), "i64")


def _key(w: FunctionWriter, t: P, at: str, lanes: int) -> str:
    """The keys of elements from one on."""
    raw = int_type(t)
    ty = vector(raw, lanes)
    bits = w.load(ty, w.gep(raw, "%keys", at), t.byte_size)
    return encode(w, t, bits, w.splat(ty, flip_of(w, "%flags", raw)), ty)


def _emit_pack(
    w: FunctionWriter, t: P, packed: str, high: Callable[[str, int], str], order: str
) -> None:
    """Keys, `high` of whose bits are the first ones of 64, and their places."""
    lanes = w.target.lanes(64)
    refines = _refines(w)
    whole = w.select(refines, "i64", "0", w.op("and", "i64", "%n", str(-lanes)))
    for start, stop, count in (("0", whole, lanes), (whole, "%n", 1)):
        ty = vector("i64", count)
        with w.loop(start, stop, count) as loop:
            at = loop.index if count > 1 else _source(w, refines, loop.index, order)
            first = high(_key(w, t, at, count), count)
            places = w.splat(ty, loop.index)
            if count > 1:
                places = w.op("add", ty, places, vector_const("i64", list(range(count))))
            w.store(ty, w.op("or", ty, first, places), w.gep("i64", packed, loop.index), 8)


def _shifted(w: FunctionWriter, t: P, key: str, lanes: int) -> str:
    ty = vector("i64", lanes)
    return w.op("shl", ty, widened(w, t, key, lanes, "i64"), const(ty, 32))


def _below(w: FunctionWriter, bits: str) -> str:
    """The mask of the last bits."""
    return w.isub(w.op("shl", "i64", "1", bits), 1)


def _range(w: FunctionWriter, t: P, place_bits: str) -> tuple[str, str, str]:
    """The least key, how many bits of the difference to it have no room beside a place, and whether
    these differ between keys (those of small integers as floats do not)."""
    lanes = w.target.lanes(64)
    whole = w.op("and", "i64", "%n", str(-lanes))
    largest = (1 << 63) - 1
    ends, one = [str(largest), str(-largest - 1), "0"], _key(w, t, "0", 1)
    for start, stop, count in (("0", whole, lanes), (whole, "%n", 1)):
        ty = vector("i64", count)
        with w.loop(start, stop, count, [(ty, w.splat(ty, end)) for end in ends]) as loop:
            key = _key(w, t, loop.index, count)
            least, most, differ = loop.carried
            ends = [w.intrinsic("smin", ty, least, key), w.intrinsic("smax", ty, most, key)]
            other = w.op("xor", ty, key, w.splat(ty, one))
            loop.next = [*ends, w.op("or", ty, differ, other)]
        kinds = zip(("smin", "smax", "or"), loop.results, strict=True)
        ends = [w.reduce(kind, ty, end) for kind, end in kinds]
    least, most, differ = ends
    bits = w.isub(64, leading_zeros(w, w.op("sub", "i64", most, least)))
    shift = w.imax(w.isub(bits, w.isub(64, place_bits)), 0)
    tell = w.cmp("ne", "i64", w.op("and", "i64", differ, _below(w, shift)), "0")
    return least, shift, tell


def _leading(
    w: FunctionWriter, key: str, lanes: int, least: str, shift: str, place_bits: str
) -> str:
    """The first bits of the difference to the least key, above those of a place, as a signed
    integer."""
    ty = vector("i64", lanes)
    above = w.op("sub", ty, key, w.splat(ty, least))
    first = w.op("lshr", ty, above, w.splat(ty, shift))
    first = w.op("shl", ty, first, w.splat(ty, place_bits))
    return w.op("xor", ty, first, const(ty, _TOP))


def _emit_runs(module: ModuleWriter, t: P, order: str) -> None:
    """void runs(ptr packed, keys, perm, n, flags, i64 least, i64 shift, i64 bits): sorts those keys
    that the first round could not tell apart by their last `shift` bits; places have `bits`."""
    numbers = [("i64", name) for name in ("least", "shift", "bits")]
    params = [("ptr", "packed"), *_PARAMS, *numbers]
    w = module.function(f"runs.{t}", params, internal=True)
    lanes = w.target.lanes(64)
    ty = vector("i64", lanes)
    low_bits, place_bits = _below(w, "%shift"), _below(w, "%bits")
    refines = _refines(w)
    last = w.isub("%n", 1)

    def packed(at: str) -> str:
        return w.gep("i64", "%packed", at)

    def differ(a: str, b: str, ty: str) -> str:
        return w.cmp("ugt", ty, w.op("xor", ty, a, b), w.splat(ty, place_bits))

    def next_run(state: list[str]) -> list[str]:
        """From a place on to behind the next run, or past vectors without any."""
        (at,) = state

        def all_differ() -> list[str]:
            a, b = (w.load(ty, packed(i), 8) for i in (at, w.iadd(at, 1)))
            bits = w.cast("bitcast", mask_of(ty), differ(a, b, ty), f"i{lanes}")
            return [w.cmp("eq", f"i{lanes}", bits, "-1")]

        fits = w.cmp("sle", "i64", w.iadd(at, lanes), last)
        (skip,) = w.if_else(fits, ["i1"], all_differ, lambda: ["false"])
        return w.if_else(skip, ["i64"], lambda: [w.iadd(at, lanes)], lambda: [run(at)])

    def run(at: str) -> str:
        first = w.load("i64", packed(at))

        def goes_on(state: list[str]) -> str:
            inside = w.cmp("slt", "i64", state[0], "%n")
            place = w.select(inside, "i64", state[0], at)
            same = w.not_("i1", differ(first, w.load("i64", packed(place)), "i64"))
            return w.op("and", "i1", inside, same)

        step = lambda state: [w.iadd(state[0], 1)]
        (end,) = w.while_([("i64", w.iadd(at, 1))], goes_on, step)
        length = w.isub(end, at)
        with w.if_(w.cmp("sgt", "i64", length, "1")):
            least = str(_TOP)
            with w.loop(at, end, 1, [("i64", least), ("i1", "true")], guard=False) as loop:
                place = w.op("and", "i64", w.load("i64", packed(loop.index)), place_bits)
                key = _key(w, t, _source(w, refines, place, order), 1)
                low = w.op("and", "i64", w.op("sub", "i64", key, "%least"), low_bits)
                again = w.op("or", "i64", w.op("shl", "i64", low, "%bits"), place)
                again = w.op("xor", "i64", again, str(_TOP))
                w.store("i64", again, packed(loop.index))
                ascends = w.cmp("sge", "i64", again, loop.carried[0])
                loop.next = [again, w.op("and", "i1", loop.carried[1], ascends)]
            given = [("ptr", packed(at)), ("i64", length), ("i64", "0"), ("i64", length)]
            # Equal keys, above all, are in order already.
            with w.if_(w.not_("i1", loop.results[1])):
                w.call(sort_keys_name("i64"), "void", given)
        return end

    w.while_([("i64", "0")], lambda state: w.cmp("slt", "i64", state[0], last), next_run)
    w.ret()


def _emit_places(w: FunctionWriter, packed: str, bits: str, order: str) -> None:
    """The order, of which the places among packed keys are a refinement."""
    mask = _below(w, bits)
    refines = _refines(w)
    with w.if_(refines), w.loop("0", "%n") as loop:
        at = w.gep("i64", packed, loop.index)
        place = w.op("and", "i64", w.load("i64", at), mask)
        w.store("i64", _given(w, place, order), at)
    lanes = w.target.lanes(64)
    whole = w.op("and", "i64", "%n", str(-lanes))
    for start, stop, count in (("0", whole, lanes), (whole, "%n", 1)):
        ty, kept = vector("i64", count), vector(order, count)
        with w.loop(start, stop, count) as loop:
            places = w.load(ty, w.gep("i64", packed, loop.index), 8)
            places = w.op("and", ty, places, w.splat(ty, mask))
            target = w.gep(order, "%perm", loop.index)
            w.store(kept, w.cast("trunc", ty, places, kept), target, bits_of(order) // 8)
