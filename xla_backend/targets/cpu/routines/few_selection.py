"""Selection of so few elements that those found so far are kept sorted, a new one being put in
where it belongs: `selection` without a sort, which is a tenth of the code.

  void pyjax_select_<t>.few(ptr keys, ptr perm, outer, n, first, flags): as without the suffix, for
        first <= most(t)
"""

from __future__ import annotations

from functools import partial

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.bit_counts import first_one
from xla_backend.llvm.types import const, mask_of, vector, vector_const
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.ordered_keys import encode, flip_of, int_type
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.sort import emit_entry
from xla_backend.targets.cpu.routines.sort_types import SORT_TYPES
from xla_backend.targets.cpu.routines.task_context import TaskContext

FEW = 64
_FEW_PAIRS = 32
SUFFIX = ".few"
FIELDS = ("keys", "perm", "outer", "n", "first", "flags")
# Elements of a row that are compared at once, and those of the list that move at once.
_LANES, _MOVED = 64, 16


def most(t: P) -> int:
    """How many it pays for: of more elements, sorting what is not far behind is quicker."""
    return _FEW_PAIRS if t.byte_size == 8 else FEW


class _Packed:
    """The list of what is found, for keys of up to 32 bits: each with its place behind it in 64, of
    which no two are equal."""

    def __init__(self, w: FunctionWriter, t: P, first: str) -> None:
        self.w, self.type, self.first = w, int_type(t), first
        self.insert = _emit_insert_packed(w.module)
        self.list = w.alloca("i64", FEW, 64)
        none = const(vector("i64", _MOVED), (1 << 63) - 1)
        with w.loop("0", FEW, _MOVED, guard=False) as loop:
            w.store(vector("i64", _MOVED), none, w.gep("i64", self.list, loop.index))

    def put(self, key: str, place: str, count: str) -> None:
        w = self.w
        if self.type != "i64":
            key = w.cast("sext", self.type, key, "i64")
        packed = w.op("or", "i64", w.op("shl", "i64", key, "32"), place)
        given = [("ptr", self.list), ("i64", packed), ("i64", self.first)]
        w.call(self.insert, "void", given)

    def last_key(self) -> str:
        w = self.w
        last = w.load("i64", w.gep("i64", self.list, w.isub(self.first, 1)))
        return w.cast("trunc", "i64", w.op("lshr", "i64", last, "32"), self.type)

    def place(self, number: str) -> str:
        w = self.w
        return w.cast("trunc", "i64", w.load("i64", w.gep("i64", self.list, number)), "i32")


class _Pairs:
    """The same for keys of 64 bits, with places beside them."""

    def __init__(self, w: FunctionWriter, t: P, first: str) -> None:
        self.w, self.type, self.first = w, int_type(t), first
        self.insert = _emit_insert_pair(w.module, t)
        self.keys, self.places = (
            w.gep(elem, w.alloca(elem, _FEW_PAIRS + 2 * _MOVED, 64), _MOVED)
            for elem in (self.type, "i32")
        )
        with w.loop(str(-_MOVED), _FEW_PAIRS, _MOVED, guard=False) as loop:
            for elem, array in ((self.type, self.keys), ("i32", self.places)):
                w.store(vector(elem, _MOVED), "zeroinitializer", w.gep(elem, array, loop.index))

    def put(self, key: str, place: str, count: str) -> None:
        w = self.w
        numbers = [("i32", w.cast("trunc", "i64", v, "i32")) for v in (place, count)]
        lists = [("ptr", self.keys), ("ptr", self.places)]
        w.call(self.insert, "void", [*lists, (self.type, key), *numbers, ("i64", self.first)])

    def last_key(self) -> str:
        w = self.w
        return w.load(self.type, w.gep(self.type, self.keys, w.isub(self.first, 1)))

    def place(self, number: str) -> str:
        return self.w.load("i32", self.w.gep("i32", self.places, number))


def _emit_insert_packed(module: ModuleWriter) -> str:
    """void insert(ptr list, i64 key, i64 first): puts a key where it belongs among `first` sorted
    ones; the last gives way. Each gets the least of what is no less than what lay in front of it
    and the key, and its own."""
    ty = vector("i64", _MOVED)
    w = module.function(
        "insert", [("ptr", "list"), ("i64", "key"), ("i64", "first")], internal=True,
        attributes="noinline",
    )  # fmt: skip
    key = w.splat(ty, "%key")
    in_front = vector_const("i32", list(range(_MOVED - 1, 2 * _MOVED - 1)))
    with w.loop("0", "%first", _MOVED, [(ty, const(ty, -(1 << 63)))], guard=False) as loop:
        at = w.gep("i64", "%list", loop.index)
        own, previous = w.load(ty, at), loop.carried[0]
        shuffle = f"shufflevector {ty} {previous}, {ty} {own}, {vector('i32', _MOVED)} {in_front}"
        before = w.pure(shuffle, previous, own)
        w.store(ty, w.intrinsic("smin", ty, own, w.intrinsic("smax", ty, before, key)), at)
        loop.next = [own]
    w.ret()
    return w.name


def _emit_insert_pair(module: ModuleWriter, t: P) -> str:
    """void insert(ptr keys, ptr places, key, i32 place, i32 count, i64 first): puts an element
    behind those of `count` sorted ones that are no larger; the last of `first` gives way. There is
    a vector in front of the lists, which is read."""
    name, ty = f"insert.{t}", int_type(t)
    params = [
        ("ptr noalias", "keys"), ("ptr noalias", "places"), (ty, "key"), ("i32", "place"),
        ("i32", "count"), ("i64", "first"),
    ]  # fmt: skip
    w = module.function(name, params, internal=True, attributes="noinline")
    numbers, many = vector("i32", _MOVED), vector(ty, _MOVED)
    mask = mask_of(numbers)
    key, place = w.splat(many, "%key"), w.splat(numbers, "%place")
    count = w.splat(numbers, "%count")
    each = vector_const("i32", list(range(_MOVED)))
    # What lies in front of each element of a vector: the last one of the vector before it, and all
    # but its own last one. From memory they would be read where two stores have just written.
    in_front = vector_const("i32", list(range(_MOVED - 1, 2 * _MOVED - 1)))

    def at(elem: str, array: str, number: str) -> str:
        return w.gep(elem, array, w.imul(number, _MOVED))

    def load(elem: str, array: str, number: str) -> str:
        return w.load(vector(elem, _MOVED), at(elem, array, number))

    place_at_most = w.imin(w.as_index("i32", "%count"), w.isub("%first", 1))
    end = w.op("lshr", "i64", place_at_most, "4")
    start = [(many, load(ty, "%keys", end)), (numbers, load("i32", "%places", end))]
    # From the end on: what a vector gets comes from those in front of it.
    with w.loop("0", w.iadd(end, 1), 1, start, guard=False) as loop:
        number = w.isub(end, loop.index)
        previous = w.isub(number, 1)
        loop.next = [load(ty, "%keys", previous), load("i32", "%places", previous)]
        (own, own_place), (previous_key, previous_place) = loop.carried, loop.next
        before, before_place = (
            w.pure(f"shufflevector {vec} {a}, {vec} {b}, {numbers} {in_front}", a, b)
            for vec, a, b in ((many, previous_key, own), (numbers, previous_place, own_place))
        )
        index = w.splat(numbers, w.cast("trunc", "i64", w.imul(number, _MOVED), "i32"))
        index = w.op("add", numbers, index, each)
        stays = w.cmp("slt", numbers, index, count)
        stays = w.op("and", mask, stays, w.cmp("sle", many, own, key))
        behind = w.cmp("sle", numbers, index, count)
        behind = w.op("and", mask, behind, w.cmp("sle", many, before, key))
        behind = w.op("or", mask, behind, w.cmp("eq", numbers, index, w.splat(numbers, "0")))
        for elem, array, new, other, mine in (
            (ty, "%keys", key, before, own),
            ("i32", "%places", place, before_place, own_place),
        ):
            vec = vector(elem, _MOVED)
            moved = w.select(stays, vec, mine, w.select(behind, vec, new, other))
            w.store(vec, moved, at(elem, array, number))
    w.ret()
    return name


def _emit_task(module: ModuleWriter, t: P) -> str:
    """void task(ptr ctx, i64 row); returns its name."""
    ty = int_type(t)
    w = module.function(f"few.{t}", [("ptr", "ctx"), ("i64", "row")], internal=True)
    keys, perm, _, n, first, flags = TaskContext(FIELDS, pointers=2).fields(w)
    source = w.gep(ty, keys, w.imul("%row", n))
    flip = flip_of(w, flags, ty)
    kept = (_Pairs if t.byte_size == 8 else _Packed)(w, t, first)

    def key_at(place: str) -> str:
        return encode(w, t, w.load(ty, w.gep(ty, source, place)), flip)

    def put_if_before(place: str, last: str) -> str:
        """The last of the list afterwards."""
        key = key_at(place)

        def smaller() -> list[str]:
            kept.put(key, place, first)
            return [kept.last_key()]

        return w.if_else(w.cmp("slt", ty, key, last), [ty], smaller, lambda: [last])[0]

    with w.loop("0", first) as loop:
        kept.put(key_at(loop.index), loop.index, loop.index)
    last = kept.last_key()
    end = w.iadd(first, w.op("and", "i64", w.isub(n, first), str(-_LANES)))
    wide = vector(ty, _LANES)
    flips = w.splat(wide, flip)
    with w.loop(first, end, _LANES, [(ty, last)]) as loop:
        (last,) = loop.carried
        at = loop.index
        found = encode(w, t, w.load(wide, w.gep(ty, source, at), t.byte_size), flips, wide)
        before = w.cmp("slt", wide, found, w.splat(wide, last))
        bits = w.cast("bitcast", vector("i1", _LANES), before, "i64")

        def one(carried: list[str], at: str = at) -> list[str]:
            left, last = carried
            last = put_if_before(w.iadd(at, first_one(w, "i64", left, is_there=True)), last)
            return [w.op("and", "i64", left, w.isub(left, 1)), last]

        more = lambda carried: w.cmp("ne", "i64", carried[0], "0")
        loop.next = [w.while_([("i64", bits), (ty, last)], more, one)[1]]
    with w.loop(end, n, 1, [(ty, loop.results[0])]) as loop:
        loop.next = [put_if_before(loop.index, loop.carried[0])]
    target = w.gep("i32", perm, w.imul("%row", first))
    with w.loop("0", first) as loop:
        w.store("i32", kept.place(loop.index), w.gep("i32", target, loop.index))
    w.ret()
    return w.name


def _emit_group(t: P, module: ModuleWriter) -> None:
    emit_entry(module, f"pyjax_select_{t}{SUFFIX}", _emit_task(module, t), FIELDS)


def register() -> None:
    """Declares the selections of a few of every element type."""
    for t in SORT_TYPES:
        name = f"select_{t}{SUFFIX}"
        register_group(name, (f"pyjax_{name}",), partial(_emit_group, t))
