"""Sorts of one row of values whose elements lie side by side.

Keys are signed integers that tell the bits of their elements, but for zeros and NaN: all zeros have
one key, and all NaN. Where bits of some differ, they are noted in their order and put back at the
end, so that the sort is stable.
"""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.types import mask_of, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.counting_sort import (
    counts,
    emit_counting_sort,
    is_long,
    return_counted,
)
from xla_backend.targets.cpu.routines.key_sort import sort_keys_name
from xla_backend.targets.cpu.routines.ordered_keys import (
    decode,
    encode,
    flip_of,
    int_type,
    is_lossy,
    key_type,
    widened,
    zero_or_nan,
)
from xla_backend.targets.cpu.routines.workspace import give, take


def row_sort_name(t: P) -> str:
    return f"sort_row.{t}"


def emit_row_sort(module: ModuleWriter, t: P) -> str:
    """void sort_row(ptr in, ptr out, i64 n, i64 flags, i64 lo, i64 hi); returns its name. `in` may
    be `out`; lo and hi as in the sorts of keys."""
    name = row_sort_name(t)
    if t.is_floating:
        _emit_note(module, t)
    params = [("ptr", "in"), ("ptr", "out"), *(("i64", p) for p in ("n", "flags", "lo", "hi"))]
    w = module.function(name, params, internal=True)
    raw, key = int_type(t), key_type(t)
    flip = flip_of(w, "%flags", raw)
    narrow = raw != key
    lo, hi, noted, zeros = "%lo", "%hi", "null", "0"
    if t.is_floating:
        lossy, nans = _any_lossy(w, t), w.alloca("i64")
    if counts(t):
        counted = is_long(w, t, "%n")
        if t.is_floating:
            counted = w.op("and", "i1", counted, w.not_("i1", lossy))
        return_counted(w, counted, emit_counting_sort(module, t), ("%in", "%out"))
    keys = take(w, "%n", key) if narrow else "%out"
    if t.is_floating:

        def note() -> list[str]:
            noted = take(w, "%n", raw)
            args = [("ptr", "%in"), ("ptr", noted), ("i64", "%n"), ("ptr", nans)]
            return [noted, w.call(f"note.{t}", "i64", args), "0", "%n"]

        kinds = ["ptr", "i64", "i64", "i64"]
        plain = ["null", "0", "%lo", "%hi"]
        noted, zeros, lo, hi = w.if_else(lossy, kinds, note, lambda: plain, likely=False)
    _emit_keys(w, t, keys, flip)
    args = [("ptr", keys), ("i64", "%n"), ("i64", lo), ("i64", hi)]
    w.call(sort_keys_name(key), "void", args)
    if t.is_floating:
        _emit_elements(w, t, keys, flip, noted, zeros, nans)
    else:
        _emit_decode(w, t, keys, flip)
    if narrow:
        give(w, keys)
    w.ret()
    return name


def _emit_keys(w: FunctionWriter, t: P, keys: str, flip: str) -> None:
    """Nothing to do where elements are keys themselves, and there already."""
    if not _are_keys(t):
        _emit_encode(w, t, keys, flip)
        return
    flips, elsewhere = w.cmp("ne", int_type(t), flip, "0"), w.cmp("ne", "ptr", "%in", keys)
    with w.if_(w.op("or", "i1", flips, elsewhere)):
        _emit_encode(w, t, keys, flip)


def _emit_elements(
    w: FunctionWriter, t: P, keys: str, flip: str, noted: str, zeros: str, nans: str
) -> None:
    """Floats of sorted keys, with the bits that were noted."""

    def plain() -> list[str]:
        _emit_decode(w, t, keys, flip)
        return []

    def with_noted() -> list[str]:
        zero = widened(w, t, encode(w, t, "0", flip))
        first = _lower_bound(w, key_type(t), keys, zero)
        _emit_decode(w, t, keys, flip)
        _put_back(w, int_type(t), noted, zeros, first, w.load("i64", nans))
        give(w, noted)
        return []

    w.if_else(w.cmp("ne", "ptr", noted, "null"), [], with_noted, plain, likely=False)


def _are_keys(t: P) -> bool:
    """Whether elements in ascending order have their own bits for keys."""
    return t.is_signed_integral and int_type(t) == key_type(t)


def _in_vectors(w: FunctionWriter, t: P, step: Callable[[str, int, str | None], None]) -> None:
    """Steps through all elements: (place of the first, how many, mask of those that are there)."""
    lanes, end = _vectors(w, t)
    with w.loop("0", end, lanes) as loop:
        step(loop.index, lanes, None)
    if lanes > 1 and w.target.has_masked_moves(8 * t.byte_size):
        with w.if_(w.cmp("ne", "i64", end, "%n")):
            step(end, lanes, w.active_mask(lanes, end, "%n"))
        return
    with w.loop(end, "%n") as loop:
        step(loop.index, 1, None)


def _vectors(w: FunctionWriter, t: P) -> tuple[int, str]:
    """(lanes, how many elements are done in vectors)."""
    lanes = w.target.lanes(int(key_type(t)[1:]))
    return lanes, w.op("and", "i64", "%n", str(-lanes))


def _read(w: FunctionWriter, ty: str, place: str, align: int | None, mask: str | None) -> str:
    return w.load(ty, place, align) if mask is None else w.masked_load(ty, place, mask)


def _write(w: FunctionWriter, ty: str, value: str, place: str, mask: str | None) -> None:
    if mask is None:
        w.store(ty, value, place)
    else:
        w.masked_store(ty, value, place, mask)


def _emit_encode(w: FunctionWriter, t: P, keys: str, flip: str) -> None:
    raw, key = int_type(t), key_type(t)

    def step(at: str, count: int, mask: str | None) -> None:
        ty = vector(raw, count)
        bits = _read(w, ty, w.gep(raw, "%in", at), t.byte_size, mask)
        found = widened(w, t, encode(w, t, bits, w.splat(ty, flip), ty), count)
        _write(w, vector(key, count), found, w.gep(key, keys, at), mask)

    _in_vectors(w, t, step)


def _emit_decode(w: FunctionWriter, t: P, keys: str, flip: str) -> None:
    raw, key = int_type(t), key_type(t)

    def decode_all() -> list[str]:
        _in_vectors(w, t, step)
        return []

    def step(at: str, count: int, mask: str | None) -> None:
        ty, wide = vector(raw, count), vector(key, count)
        found = _read(w, wide, w.gep(key, keys, at), None, mask)
        found = w.cast("trunc", wide, found, ty)
        _write(w, ty, decode(w, t, found, w.splat(ty, flip), ty), w.gep(raw, "%out", at), mask)

    if _are_keys(t):
        w.if_else(w.cmp("ne", raw, flip, "0"), [], decode_all, list)
    else:
        decode_all()


def _any_lossy(w: FunctionWriter, t: P) -> str:
    """Whether there is an element whose key does not tell its bits."""
    raw = int_type(t)
    lanes, end = _vectors(w, t)
    ty = vector(raw, lanes)
    mask = mask_of(ty)
    with w.loop("0", end, lanes, [(mask, "zeroinitializer")]) as loop:
        bits = w.load(ty, w.gep(raw, "%in", loop.index), t.byte_size)
        loop.next = [w.op("or", mask, loop.carried[0], is_lossy(w, t, bits, ty))]
    packed = w.cast("bitcast", mask, loop.results[0], f"i{lanes}")
    found = w.cmp("ne", f"i{lanes}", packed, "0")
    with w.loop(end, "%n", 1, [("i1", found)]) as loop:
        bits = w.load(raw, w.gep(raw, "%in", loop.index))
        loop.next = [w.op("or", "i1", loop.carried[0], is_lossy(w, t, bits, raw))]
    return loop.results[0]


def _emit_note(module: ModuleWriter, t: P) -> None:
    """i64 note(ptr in, ptr list, i64 n, ptr nans): bits of zeros from the start of the list on, and
    those of NaN from its end back; the numbers of both."""
    params = [("ptr", "in"), ("ptr", "list"), ("i64", "n"), ("ptr", "nans")]
    w = module.function(f"note.{t}", params, "i64", internal=True)
    raw = int_type(t)
    last = w.isub("%n", 1)
    with w.loop("0", "%n", 1, [("i64", "0"), ("i64", last)]) as loop:
        zeros, end = loop.carried
        bits = w.load(raw, w.gep(raw, "%in", loop.index))
        zero, nan = zero_or_nan(w, t, bits, raw)
        for place in (zeros, end):
            w.store(raw, bits, w.gep(raw, "%list", place))
        more = w.cast("zext", "i1", zero, "i64"), w.cast("zext", "i1", nan, "i64")
        loop.next = [w.iadd(zeros, more[0]), w.isub(end, more[1])]
    w.store("i64", w.isub(last, loop.results[1]), "%nans")
    w.ret("i64", loop.results[0])


def _put_back(w: FunctionWriter, raw: str, noted: str, zeros: str, first: str, nans: str) -> None:
    """Bits of zeros, from place `first` on, and of NaN, at the end or, descending, the start."""
    with w.loop("0", zeros) as loop:
        bits = w.load(raw, w.gep(raw, noted, loop.index))
        w.store(raw, bits, w.gep(raw, "%out", w.iadd(first, loop.index)))
    descending = w.cmp("ne", "i64", w.op("and", "i64", "%flags", "1"), "0")
    last = w.isub("%n", 1)
    with w.loop("0", nans) as loop:
        bits = w.load(raw, w.gep(raw, noted, w.isub(last, loop.index)))
        place = w.select(descending, "i64", loop.index, w.iadd(w.isub("%n", nans), loop.index))
        w.store(raw, bits, w.gep(raw, "%out", place))


def _lower_bound(w: FunctionWriter, ty: str, keys: str, bound: str) -> str:
    """How many of sorted keys are less."""

    def halve(state: list[str]) -> list[str]:
        low, high = state
        middle = w.op("ashr", "i64", w.iadd(low, high), "1")
        less = w.cmp("slt", ty, w.load(ty, w.gep(ty, keys, middle)), bound)
        return [
            w.select(less, "i64", w.iadd(middle, 1), low),
            w.select(less, "i64", high, middle),
        ]

    return w.while_([("i64", "0"), ("i64", "%n")], lambda s: w.cmp("slt", "i64", *s), halve)[0]
