"""Selection: the first few of each row in the stable order of its elements, without sorting the
rest.

  void pyjax_select_<t>(ptr keys, ptr perm, outer, n, first, flags)
        keys: [outer, n]; perm: s32 [outer, first], places in a row; 0 < first <= n < 2^31
        flags bit 0: descending (equal keys keep their order); orders and types are those of sort

A row is read once. Elements before the last of the `first` best so far are kept; when there is no
room for more, those that were kept are sorted and the best of them stay. The order in which the
elements come decides how often, but not what is found. Rows run in parallel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.bit_counts import first_one
from xla_backend.llvm.types import vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.few_selection import FIELDS, SUFFIX, most
from xla_backend.targets.cpu.routines.ordered_keys import encode, flip_of, int_type
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.row_argsort import emit_row_argsort, row_argsort_name
from xla_backend.targets.cpu.routines.sort import (
    SORT_TYPES,
    emit_entry,
)
from xla_backend.targets.cpu.routines.task_context import TaskContext
from xla_backend.targets.cpu.routines.workspace import GIVE, TAKE

# Elements that are compared at once.
_LANES = 64
# Fewer are sorted so quickly that keeping more of them would not pay.
_LEAST_ROOM = 256


class _Kept:
    """The elements of a row that may be among the first: keys, places, and how many there is room
    for, in the order of the row."""

    def __init__(self, w: FunctionWriter, t: P, first: str) -> None:
        self.w, self.first = w, first
        self.type = int_type(t)
        self.argsort = row_argsort_name(_signed(t))
        self.room = w.imax(w.imul(first, 2), _LEAST_ROOM)
        size = w.iadd(self.room, _LANES)
        key_bytes = self._bytes(w.imul(size, t.byte_size))
        index_bytes = self._bytes(w.imul(size, 4))
        total = w.iadd(w.imul(key_bytes, 2), w.imul(index_bytes, 3))
        self.workspace = w.call(TAKE, "ptr", [("i64", total)])
        self.keys = w.gep("i8", self.workspace, _LANES)
        self.best_keys = w.gep("i8", self.keys, key_bytes)
        self.places = w.gep("i8", self.best_keys, key_bytes)
        self.best_places = w.gep("i8", self.places, index_bytes)
        self.order = w.gep("i8", self.best_places, index_bytes)

    def _bytes(self, size: str) -> str:
        return self.w.op("and", "i64", self.w.iadd(size, 63), "-64")

    def add(self, count: str, key: str, place: str) -> str:
        """Keep an element; returns how many there are."""
        w = self.w
        w.store(self.type, key, w.gep(self.type, self.keys, count))
        narrow = w.cast("trunc", "i64", place, "i32")
        w.store("i32", narrow, w.gep("i32", self.places, count))
        return w.iadd(count, 1)

    def shrink(self, count: str) -> str:
        """Leave only the first ones, in order; returns the key of the last of them."""
        w, ty = self.w, self.type
        numbers = [("i64", v) for v in (count, "0", "0", count)]
        given = [("ptr", self.keys), ("ptr", self.order), *numbers]
        w.call(self.argsort, "void", given)
        with w.loop("0", self.first) as loop:
            from_ = w.load("i32", w.gep("i32", self.order, loop.index))
            from_ = w.cast("sext", "i32", from_, "i64")
            for elem, source, target in (
                (ty, self.keys, self.best_keys),
                ("i32", self.places, self.best_places),
            ):
                value = w.load(elem, w.gep(elem, source, from_))
                w.store(elem, value, w.gep(elem, target, loop.index))
        with w.loop("0", self.first) as loop:
            for elem, source, target in (
                (ty, self.best_keys, self.keys),
                ("i32", self.best_places, self.places),
            ):
                value = w.load(elem, w.gep(elem, source, loop.index))
                w.store(elem, value, w.gep(elem, target, loop.index))
        return w.load(ty, w.gep(ty, self.keys, w.isub(self.first, 1)))


def _signed(t: P) -> P:
    return P(f"s{8 * t.byte_size}")


def _emit_task(module: ModuleWriter, t: P) -> str:
    """void task(ptr ctx, i64 row); returns its name."""
    name = f"select.{t}"
    ty = int_type(t)
    w = module.function(name, [("ptr", "ctx"), ("i64", "row")], internal=True)
    keys, perm, _, n, first, flags = TaskContext(FIELDS, pointers=2).fields(w)
    source = w.gep(ty, keys, w.imul("%row", n))
    flip = flip_of(w, flags, ty)
    kept = _Kept(w, t, first)

    def key_at(place: str) -> str:
        return encode(w, t, w.load(ty, w.gep(ty, source, place)), flip)

    begin = w.imin(n, kept.room)
    with w.loop("0", begin) as loop:
        kept.add(loop.index, key_at(loop.index), loop.index)
    last = kept.shrink(begin)
    rest = w.isub(n, begin)
    end = w.iadd(begin, w.op("and", "i64", rest, str(-_LANES)))
    wide = vector(ty, _LANES)
    flips = w.splat(wide, flip)
    with w.loop(begin, end, _LANES, [("i64", first), (ty, last)]) as loop:
        count, last = loop.carried
        found = encode(w, t, w.load(wide, w.gep(ty, source, loop.index)), flips, wide)
        before = w.cmp("slt", wide, found, w.splat(wide, last))
        bits = w.cast("bitcast", vector("i1", _LANES), before, "i64")
        here = loop.index

        def keep(
            bits: str = bits, count: str = count, last: str = last, here: str = here
        ) -> list[str]:
            def one(carried: list[str]) -> list[str]:
                left, count = carried
                place = w.iadd(here, first_one(w, "i64", left, is_there=True))
                count = kept.add(count, key_at(place), place)
                return [w.op("and", "i64", left, w.isub(left, 1)), count]

            more = lambda carried: w.cmp("ne", "i64", carried[0], "0")
            _, count = w.while_([("i64", bits), ("i64", count)], more, one)
            full = w.cmp("sgt", "i64", count, kept.room)
            return w.if_else(full, ["i64", ty], lambda: _shrunk(kept, count), lambda: [count, last])

        some = w.cmp("ne", "i64", bits, "0")
        loop.next = w.if_else(some, ["i64", ty], keep, partial(list, (count, last)), likely=False)
    count, last = loop.results
    with w.loop(end, n, 1, [("i64", count)]) as loop:
        key, count = key_at(loop.index), loop.carried[0]
        before = w.cmp("slt", ty, key, last)
        with_it = partial(kept.add, count, key, loop.index)
        loop.next = w.if_else(before, ["i64"], partial(_alone, with_it), partial(list, (count,)))
    kept.shrink(loop.results[0])
    target = w.gep("i32", perm, w.imul("%row", first))
    with w.loop("0", first) as loop:
        place = w.load("i32", w.gep("i32", kept.places, loop.index))
        w.store("i32", place, w.gep("i32", target, loop.index))
    w.call(GIVE, "void", [("ptr", kept.workspace)])
    w.ret()
    return name


def _alone(emit: Callable[[], str]) -> list[str]:
    return [emit()]


def _shrunk(kept: _Kept, count: str) -> list[str]:
    last = kept.shrink(count)
    return [kept.first, last]


def emit_group(t: P, module: ModuleWriter) -> None:
    """The selection of one element type, with a sort of its keys, which are signed integers."""
    emit_row_argsort(module, _signed(t))
    task = _emit_task(module, t)
    emit_entry(module, f"pyjax_select_{t}", task, FIELDS)


def path_of(t: P, first: int) -> str:
    """What the symbol of a selection of so many of a type ends in."""
    return SUFFIX if first <= most(t) else ""


def register() -> None:
    """Declares the selections of every element type."""
    for t in SORT_TYPES:
        register_group(f"select_{t}", (f"pyjax_select_{t}",), partial(emit_group, t))
