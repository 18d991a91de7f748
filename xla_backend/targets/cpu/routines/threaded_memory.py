"""Handlers of threaded code that load and store, by where the lanes are in memory.

Three operands say where an element is (`element_address`): the slot of an address, the slot of the
number of an element behind that, and bytes to add. Vectors have neighbouring elements, or such as
are `apart` by some bytes, or one for each index of a vector (`gather`, `scatter`), or of a table
(`gather.table`). Lanes outside a mask, and what a condition (`if`) excludes, are not touched and
loaded as zero. Elements are moved as they are in memory; the conversions between that and how
values are in slots are in `threaded_conversions`, but for the commonest ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.conversions import from_memory, to_memory
from xla_backend.llvm.transposes import transpose
from xla_backend.llvm.types import memory_type, register_type, vector
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.cpu.routines.threaded import Handler, load_slot, store_slot
from xla_backend.targets.cpu.routines.threaded_groups import Handlers, declare_handlers
from xla_backend.targets.cpu.routines.threaded_memory_names import (
    CONVERTED,
    DIRECT_LANES,
    ELEMENT_BYTES,
    TILES,
)
from xla_backend.targets.cpu.routines.threaded_names import LANES, element_bytes

INDICES = ("i32", "i64")
# A vector is moved in registers of so many bytes; of more than these, in a loop.
_REGISTER, _MOST_REGISTERS = 64, 8


def register() -> None:
    """Declares the handlers."""
    for group, handlers in (
        ("threaded_memory", _neighbours()),
        ("threaded_memory.apart", _masked() | _turned() | _apart() | _indexed()),
        ("threaded_memory.tiles", _tiles()),
    ):
        declare_handlers(group, handlers)


# -- neighbours ------------------------------------------------------------------------------------


def _neighbours() -> Handlers:
    """Single elements and vectors of neighbours, and addresses of memory in the frame."""
    found: Handlers = {}
    for size in ELEMENT_BYTES:
        for lanes in (1, *DIRECT_LANES):
            name = f"{size}x{lanes}"
            found[f"load.{name}"] = 4, partial(_load, size, lanes, False)
            found[f"load.{name}.if"] = 5, partial(_load, size, lanes, True)
            found[f"store.{name}"] = 4, partial(_store, size, lanes, False)
            found[f"store.{name}.if"] = 5, partial(_store, size, lanes, True)
        found[f"load.{size}.n"] = 5, partial(_load_some, size)
        found[f"load.{size}.n.if"] = 6, partial(_load_some_if, size)
        found[f"store.{size}.n"] = 5, partial(_store_some, size)
        found[f"store.{size}.n.if"] = 6, partial(_store_some_if, size)
    for t in CONVERTED:
        found[f"load.{t}"] = 4, partial(_load_one, t, False)
        found[f"load.{t}.if"] = 5, partial(_load_one, t, True)
        found[f"load.{t}.n"] = 5, partial(_load_converted, t)
        found[f"store.{t}.n"] = 5, partial(_store_converted, t)
    found[f"store.{P.BF16}"] = 4, partial(_store_one, P.BF16, False)
    found[f"store.{P.BF16}.if"] = 5, partial(_store_one, P.BF16, True)
    return found


def element_address(h: Handler, size: int, first: int = 1) -> str:
    """The address that three operands say."""
    w = h.w
    at = w.gep(f"i{8 * size}", h.load(first, "ptr"), h.load(first + 1, "i64"))
    return w.gep("i8", at, h.word(first + 2))


def _readable(h: Handler, address: str, guard: int, size: int) -> str:
    """Zeros instead, where a condition does not hold."""
    w, holds = h.w, h.load(guard, "i1")
    zeros = w.module.constant_bytes(b"\0" * size)
    return w.pure(f"select i1 {holds}, ptr {address}, ptr {zeros}", holds, address)


def _load(size: int, lanes: int, guarded: bool, h: Handler) -> None:
    address = element_address(h, size)
    if guarded:
        address = _readable(h, address, 4, size * lanes)
    _copy(h.w, h.slot(0), address, size * lanes)


def _store(size: int, lanes: int, guarded: bool, h: Handler) -> None:
    address, slot = element_address(h, size), h.slot(0)
    if not guarded:
        _copy(h.w, address, slot, size * lanes)
        return
    with h.w.if_(h.load(4, "i1")):
        _copy(h.w, address, slot, size * lanes)


def _load_some(size: int, h: Handler) -> None:
    """Neighbours, so many times LANES of them."""
    _copy_some(h.w, h.slot(0), element_address(h, size), LANES * size, h.word(4))


def _load_some_if(size: int, h: Handler) -> None:
    """The same, or zeros: time and again the same ones."""
    w, nbytes = h.w, LANES * size
    address = _readable(h, element_address(h, size), 4, nbytes)
    holds = h.load(4, "i1")
    distance = w.pure(f"select i1 {holds}, i64 {nbytes}, i64 0", holds)
    _copy_some(w, h.slot(0), address, nbytes, h.word(5), distance)


def _store_some(size: int, h: Handler) -> None:
    _copy_some(h.w, element_address(h, size), h.slot(0), LANES * size, h.word(4))


def _store_some_if(size: int, h: Handler) -> None:
    address, slot = element_address(h, size), h.slot(0)
    with h.w.if_(h.load(4, "i1")):
        _copy_some(h.w, address, slot, LANES * size, h.word(5))


def _copy_some(
    w: FunctionWriter,
    target: str,
    source: str,
    nbytes: int,
    times: str,
    distance: str | None = None,
) -> None:
    """Copy so many times some bytes, whose sources are so far apart; by default neighbours."""
    with w.loop(0, times, guard=False) as loop:
        place = w.imul(loop.index, nbytes)
        begin = place if distance is None else w.op("mul", "i64", loop.index, distance)
        at = w.gep("i8", target, place), w.gep("i8", source, begin)
        for first in range(0, nbytes, _REGISTER):
            ty = vector("i8", min(nbytes, _REGISTER))
            _copy_one(w, ty, *[w.gep("i8", start, first) for start in at])


def _copy(w: FunctionWriter, target: str, source: str, nbytes: int) -> None:
    """Copy bytes that lie anywhere."""
    if nbytes <= 8:
        _copy_one(w, f"i{8 * nbytes}", target, source)
        return
    ty = vector("i8", min(nbytes, _REGISTER))
    whole = min(nbytes, _REGISTER * _MOST_REGISTERS)
    with w.loop(0, nbytes, whole) as loop:
        for at in range(0, whole, _REGISTER):
            place = w.iadd(loop.index, at)
            _copy_one(w, ty, w.gep("i8", target, place), w.gep("i8", source, place))


def _copy_one(w: FunctionWriter, ty: str, target: str, source: str) -> None:
    w.store(ty, w.load(ty, source, 1), target, 1)


def _load_one(t: P, guarded: bool, h: Handler) -> None:
    address = element_address(h, t.byte_size)
    if guarded:
        address = _readable(h, address, 4, t.byte_size)
    raw = h.w.load(memory_type(t), address)
    h.store(0, register_type(t), from_memory(h.w, t, 1, raw))


def _store_one(t: P, guarded: bool, h: Handler) -> None:
    address, value = element_address(h, t.byte_size), h.load(0, register_type(t))
    raw = to_memory(h.w, t, 1, value)
    if not guarded:
        h.w.store(memory_type(t), raw, address)
        return
    with h.w.if_(h.load(4, "i1")):
        h.w.store(memory_type(t), raw, address)


def _load_converted(t: P, h: Handler) -> None:
    """Neighbours, in the form of values."""
    convert_from(h.w, t, h.slot(0), element_address(h, t.byte_size), h.word(4))


def _store_converted(t: P, h: Handler) -> None:
    convert_to(h.w, t, element_address(h, t.byte_size), h.slot(0), h.word(4))


def convert_from(w: FunctionWriter, t: P, slot: str, memory: str, rounds: str) -> None:
    """Elements from their form in memory to that of values, LANES in a round."""
    raw, ty = vector(memory_type(t), LANES), vector(register_type(t), LANES)
    with w.loop(0, rounds, guard=False) as loop:
        place = w.gep("i8", memory, w.imul(loop.index, LANES * t.byte_size))
        value = from_memory(w, t, LANES, w.load(raw, place))
        store_slot(w, ty, value, _chunk(w, t, slot, loop.index))


def convert_to(w: FunctionWriter, t: P, memory: str, slot: str, rounds: str) -> None:
    """Elements from the form of values to that in memory."""
    raw, ty = vector(memory_type(t), LANES), vector(register_type(t), LANES)
    with w.loop(0, rounds, guard=False) as loop:
        value = load_slot(w, ty, _chunk(w, t, slot, loop.index))
        place = w.gep("i8", memory, w.imul(loop.index, LANES * t.byte_size))
        w.store(raw, to_memory(w, t, LANES, value), place)


def _chunk(w: FunctionWriter, t: P, slot: str, number: str) -> str:
    """Where some LANES of a value are."""
    return w.gep("i8", slot, w.imul(number, LANES * element_bytes(t) or LANES // 8))


# -- lanes of a mask -------------------------------------------------------------------------------


def _masked() -> Handlers:
    """Neighbours under a mask: some lanes at a time. An operand says which of these there are."""
    found: Handlers = {"mask.and": (4, _both)}
    for size in ELEMENT_BYTES:
        found[f"load.{size}.masked"] = 7, partial(_load_masked, size)
        found[f"store.{size}.masked"] = 7, partial(_store_masked, size)
    return found


def _both(h: Handler) -> None:
    """The lanes of two masks."""
    w, ty = h.w, f"i{LANES}"
    slots = [h.slot(i) for i in range(3)]
    with w.loop(0, h.word(3), guard=False) as loop:
        result, a, b = (w.gep(ty, slot, loop.index) for slot in slots)
        w.store(ty, w.op("and", ty, w.load(ty, a), w.load(ty, b)), result)


def _load_masked(size: int, h: Handler) -> None:
    w, ty = h.w, vector(f"i{8 * size}", LANES)
    address, slot = element_address(h, size), h.slot(0)
    zeros = w.module.constant_bytes(b"\0" * (LANES * size))
    for number, mask, some in _masks(h):
        place = w.imul(number, LANES * size)
        # Of no lanes it takes hundreds of cycles where the address is none of the process.
        here = w.gep("i8", address, place)
        there = w.pure(f"select i1 {some}, ptr {here}, ptr {zeros}", some, here)
        loaded = w.masked_load(ty, there, mask)
        w.store(ty, loaded, w.gep("i8", slot, place))


def _store_masked(size: int, h: Handler) -> None:
    w, ty = h.w, vector(f"i{8 * size}", LANES)
    address, slot = element_address(h, size), h.slot(0)
    for number, mask, _ in _masks(h):
        place = w.imul(number, LANES * size)
        value = w.load(ty, w.gep("i8", slot, place))
        w.masked_store(ty, value, w.gep("i8", address, place), mask)


def _masks(h: Handler) -> Iterator[tuple[str, str, str]]:
    """The masks of a vector, with the number of each, and whether it has any lane. Operands 4 to 6
    say: their slot, those of LANES lanes that are lanes of the vector, and how many masks there
    are."""
    w, ty = h.w, f"i{LANES}"
    slot, lanes = h.slot(4), w.cast("trunc", "i64", h.word(5), ty)
    with w.loop(0, h.word(6), guard=False) as loop:
        bits = w.op("and", ty, w.load(ty, w.gep(ty, slot, loop.index)), lanes)
        some = w.cmp("ne", ty, bits, "0")
        yield loop.index, w.cast("bitcast", ty, bits, vector("i1", LANES)), some


# -- lanes that are neighbours in another order ----------------------------------------------------


def _turned() -> Handlers:
    """Neighbours the other way round, and every second element, LANES at a time."""
    found: Handlers = {}
    for size in ELEMENT_BYTES:
        found[f"load.{size}.reversed"] = 5, partial(_load_reversed, size)
        found[f"store.{size}.reversed"] = 5, partial(_store_reversed, size)
        found[f"load.{size}.every2"] = 5, partial(_load_every_second, size)
        found[f"store.{size}.pairs"] = 6, partial(_store_pairs, size)
    return found


_BACKWARDS = tuple(range(LANES - 1, -1, -1))


def _load_reversed(size: int, h: Handler) -> None:
    w, ty = h.w, vector(f"i{8 * size}", LANES)
    address, slot = _last_of_first_lanes(h, size), h.slot(0)
    with w.loop(0, h.word(4), guard=False) as loop:
        place = w.imul(loop.index, LANES * size)
        row = w.load(ty, w.gep("i8", address, w.isub(0, place)))
        w.store(ty, w.shuffle(ty, row, "poison", _BACKWARDS), w.gep("i8", slot, place))


def _store_reversed(size: int, h: Handler) -> None:
    w, ty = h.w, vector(f"i{8 * size}", LANES)
    address, slot = _last_of_first_lanes(h, size), h.slot(0)
    with w.loop(0, h.word(4), guard=False) as loop:
        place = w.imul(loop.index, LANES * size)
        row = w.shuffle(ty, w.load(ty, w.gep("i8", slot, place)), "poison", _BACKWARDS)
        w.store(ty, row, w.gep("i8", address, w.isub(0, place)))


def _last_of_first_lanes(h: Handler, size: int) -> str:
    """Where the last of the first LANES is: before them all."""
    return h.w.gep("i8", element_address(h, size), -(LANES - 1) * size)


def _load_every_second(size: int, h: Handler) -> None:
    """Nothing beyond the last lane is read."""
    w, elem = h.w, f"i{8 * size}"
    ty = vector(elem, LANES)
    address, slot = element_address(h, size), h.slot(0)
    picks = [*range(0, LANES, 2), *range(LANES + 1, 2 * LANES, 2)]
    with w.loop(0, h.word(4), guard=False) as loop:
        first = w.gep(elem, address, w.imul(loop.index, 2 * LANES))
        low, high = w.load(ty, first), w.load(ty, w.gep(elem, first, LANES - 1))
        w.store(ty, w.shuffle(ty, low, high, picks), w.gep(ty, slot, loop.index))


def _store_pairs(size: int, h: Handler) -> None:
    """The lanes of two slots in turn."""
    w, elem = h.w, f"i{8 * size}"
    ty = vector(elem, LANES)
    address, slots = element_address(h, size, 2), (h.slot(0), h.slot(1))
    with w.loop(0, h.word(5), guard=False) as loop:
        a, b = (w.load(ty, w.gep(ty, slot, loop.index)) for slot in slots)
        for half in range(2):
            first = half * LANES // 2
            lanes = range(first, first + LANES // 2)
            pairs = w.shuffle(ty, a, b, [lane for i in lanes for lane in (i, LANES + i)])
            number = w.iadd(w.imul(loop.index, 2), half)
            w.store(ty, pairs, w.gep(ty, address, number))


# -- lanes that are no neighbours ------------------------------------------------------------------


def _apart() -> Handlers:
    """Lanes in equal distances."""
    found: Handlers = {}
    for size in ELEMENT_BYTES:
        for masked, suffix in ((False, ""), (True, ".masked")):
            found[f"load.{size}.apart{suffix}"] = 6 + masked, partial(_load_apart, size, masked)
            found[f"store.{size}.apart{suffix}"] = 6 + masked, partial(_store_apart, size, masked)
    return found


def _load_apart(size: int, masked: bool, h: Handler) -> None:
    w, ty = h.w, f"i{8 * size}"
    address, slot, distance = element_address(h, size), h.slot(0), h.word(4)
    with w.loop(0, h.word(5), guard=False) as loop:
        lane = loop.index
        read = lambda: [w.load(ty, w.gep("i8", address, w.imul(lane, distance)))]
        _put(h, ty, slot, lane, read, 6 if masked else None)


def _put(
    h: Handler, ty: str, slot: str, lane: str, read: Callable[[], list[str]], mask: int | None
) -> None:
    """Into a lane of a slot what is read, or zero outside the mask that an operand says."""
    w = h.w
    value = (
        read()[0] if mask is None else w.if_else(is_in_mask(h, mask, lane), [ty], read, _zero)[0]
    )
    w.store(ty, value, w.gep(ty, slot, lane))


def _zero() -> list[str]:
    return ["0"]


def is_in_mask(h: Handler, mask: int, lane: str) -> str:
    """Whether a lane is in a mask."""
    w = h.w
    word = w.load("i8", w.gep("i8", h.slot(mask), w.op("lshr", "i64", lane, "3")))
    bit = w.cast("trunc", "i64", w.op("and", "i64", lane, "7"), "i8")
    return w.cast("trunc", "i8", w.op("lshr", "i8", word, bit), "i1")


def _store_apart(size: int, masked: bool, h: Handler) -> None:
    w = h.w
    address, slot, distance = element_address(h, size), h.slot(0), h.word(4)
    with w.loop(0, h.word(5), guard=False) as loop:
        place = lambda: w.gep("i8", address, w.imul(loop.index, distance))
        _write(h, size, slot, loop.index, place, 6 if masked else None)


def _write(
    h: Handler, size: int, slot: str, lane: str, place: Callable[[], str], mask: int | None
) -> None:
    """A lane of a slot to a place, unless it is outside the mask that an operand says."""
    w, ty = h.w, f"i{8 * size}"
    if mask is None:
        w.store(ty, w.load(ty, w.gep(ty, slot, lane)), place())
        return
    with w.if_(is_in_mask(h, mask, lane)):
        w.store(ty, w.load(ty, w.gep(ty, slot, lane)), place())


def _indexed() -> Handlers:
    """Lanes at any places. Those that are stored to one place come in their order."""
    found: Handlers = {}
    for size in ELEMENT_BYTES:
        for masked, suffix in ((False, ""), (True, ".masked")):
            for index in INDICES:
                name = f"{size}.{index}{suffix}"
                found[f"gather.{name}"] = 4 + masked, partial(_gather, size, index, masked)
                found[f"scatter.{name}"] = 4 + masked, partial(_scatter, size, index, masked)
            found[f"gather.{size}.table{suffix}"] = 6 + masked, partial(_by_table, size, masked)
    return found


def _gather(size: int, index: str, masked: bool, h: Handler) -> None:
    base, slot, indices = h.load(1, "ptr"), h.slot(0), h.slot(2)
    _gather_lanes(h, size, base, slot, indices, index, 3, 4 if masked else None)


def _by_table(size: int, masked: bool, h: Handler) -> None:
    base, slot, table = element_address(h, size), h.slot(0), h.word(4, "ptr")
    _gather_lanes(h, size, base, slot, table, "i32", 5, 6 if masked else None)


def _gather_lanes(
    h: Handler,
    size: int,
    base: str,
    slot: str,
    indices: str,
    index: str,
    lanes: int,
    mask: int | None,
) -> None:
    w, ty = h.w, f"i{8 * size}"
    with w.loop(0, h.word(lanes), guard=False) as loop:
        read = lambda: [w.load(ty, indexed_place(w, size, base, indices, index, loop.index))]
        _put(h, ty, slot, loop.index, read, mask)


def indexed_place(
    w: FunctionWriter, size: int, base: str, indices: str, index: str, lane: str
) -> str:
    """The address of the element whose index is in a lane."""
    number = w.load(index, w.gep(index, indices, lane))
    wide = number if index == "i64" else w.cast("sext", index, number, "i64")
    return w.gep(f"i{8 * size}", base, wide)


def _scatter(size: int, index: str, masked: bool, h: Handler) -> None:
    w = h.w
    base, slot, indices = h.load(1, "ptr"), h.slot(0), h.slot(2)
    with w.loop(0, h.word(3), guard=False) as loop:
        place = lambda: indexed_place(w, size, base, indices, index, loop.index)
        _write(h, size, slot, loop.index, place, 4 if masked else None)


# -- square tiles ----------------------------------------------------------------------------------


def _tiles() -> Handlers:
    """From the slot of a tile, whose rows lie one behind the other, to an address."""
    return {
        f"transpose.{size}x{rows}": (2, partial(_transpose, size, rows)) for size, rows in TILES
    }


def _transpose(size: int, rows: int, h: Handler) -> None:
    w, ty = h.w, vector(f"i{8 * size}", rows)
    target, source = h.load(0, "ptr"), h.slot(1)
    read = [w.load(ty, w.gep(ty, source, i)) for i in range(rows)]
    for i, row in enumerate(transpose(w, ty, read)):
        w.store(ty, row, w.gep(ty, target, i))
