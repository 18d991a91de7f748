"""Handlers of indices, loops, branches and copies of threaded code.

Operands are slots unless it says something else. Integers in slots have 64 bits; a place is where
code goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.extremes import extreme_of_lanes
from xla_backend.llvm.types import register_type, vector
from xla_backend.targets.cpu.routines.threaded import Handler
from xla_backend.targets.cpu.routines.threaded_elementwise import load_lanes, store_lanes
from xla_backend.targets.cpu.routines.threaded_groups import Handlers, declare_handlers
from xla_backend.targets.cpu.routines.threaded_names import LANES, WIDE_LANES

_MOST_TERMS = 4
_TYPES = {"i32": P.S32, "i64": P.S64}
_AT_ONCE = {"i32": LANES, "i64": WIDE_LANES}
_CHUNK_BYTES = 64
_DIVISIONS = {"div": "udiv", "mod": "urem", "shift": "lshr", "and": "and"}
_EXTREMES = ("maximum", "minimum")
_REGISTER_BITS = (512, 256, 128)


def _sum(terms: int, h: Handler) -> None:
    """result = number + slots times numbers."""
    w = h.w
    total = h.word(1)
    for n in range(terms):
        product = w.op("mul", "i64", h.load(2 + 2 * n, "i64"), h.word(3 + 2 * n))
        total = w.op("add", "i64", total, product)
    h.store(0, "i64", total)


def _divided(opcode: str, h: Handler) -> None:
    """result = (slot + number) divided by a number, or its remainder, or shifted, or its bits."""
    w = h.w
    value = w.op("add", "i64", h.load(1, "i64"), h.word(2))
    h.store(0, "i64", w.op(opcode, "i64", value, h.word(3)))


def _widened(bits: int, h: Handler) -> None:
    """result = a narrower integer."""
    h.store(0, "i64", h.w.cast("sext", f"i{bits}", h.load(1, f"i{bits}"), "i64"))


def _point(h: Handler) -> None:
    """result = address + slot times a number."""
    w = h.w
    step = w.op("mul", "i64", h.load(2, "i64"), h.word(3))
    h.store(0, "i64", w.op("add", "i64", h.load(1, "i64"), step))


def _fetch(h: Handler) -> None:
    """result = the word in memory at an address and so many bytes."""
    w = h.w
    h.store(0, "i64", w.load("i64", w.gep("i8", h.load(1, "ptr"), h.word(2))))


def _frame_address(h: Handler) -> None:
    """result = the address of a slot."""
    h.store(0, "ptr", h.slot(1))


def _least(is_number: bool, h: Handler) -> None:
    """result = the smaller of a slot and another, or a number."""
    other = h.word(2) if is_number else h.load(2, "i64")
    h.store(0, "i64", h.w.intrinsic("smin", "i64", h.load(1, "i64"), other))


def _in_range(h: Handler) -> None:
    """result = whether slot + number is in 0 .. span."""
    w = h.w
    value = w.op("add", "i64", h.load(1, "i64"), h.word(2))
    h.store(0, "i1", w.cmp("ult", "i64", value, h.word(3)))


def _copy_word(h: Handler) -> None:
    """result = a slot."""
    h.store(0, "i64", h.load(1, "i64"))


def _copy(h: Handler) -> None:
    """result = a vector of so many times 64 bytes."""
    w = h.w
    ty = f"<{_CHUNK_BYTES // 4} x i32>"
    target, source = h.slot(0), h.slot(1)
    with w.loop("0", h.word(2), guard=False) as loop:
        w.store(ty, w.load(ty, w.gep(ty, source, loop.index)), w.gep(ty, target, loop.index))


def _spread(size: int, h: Handler) -> None:
    """result = a scalar in all lanes of a vector; `size` 0: a bit."""
    w = h.w
    target = h.slot(0)
    if size == 0:
        word = w.cast("sext", "i1", h.load(1, "i1"), f"i{LANES}")
        with w.loop("0", h.word(2), guard=False) as loop:
            w.store(f"i{LANES}", word, w.gep(f"i{LANES}", target, loop.index))
        return
    element = f"i{8 * size}"
    ty = vector(element, LANES)
    value = w.splat(ty, h.load(1, element))
    with w.loop("0", h.word(2), guard=False) as loop:
        w.store(ty, value, w.gep(ty, target, loop.index))


def _mask_bit(h: Handler) -> None:
    """result = a bit of a mask, of which the number is given."""
    w = h.w
    byte = w.load("i8", w.gep("i8", h.slot(1), w.op("lshr", "i64", h.word(2), "3")))
    place = w.cast("trunc", "i64", w.op("and", "i64", h.word(2), "7"), "i8")
    h.store(0, "i1", w.cast("trunc", "i8", w.op("lshr", "i8", byte, place), "i1"))


def _mask_part(h: Handler) -> None:
    """result = the lanes of a mask from the one of a given number on, up to 64 of them."""
    w = h.w
    first = h.word(2)
    word = w.load("i64", w.gep("i8", h.slot(1), w.op("lshr", "i64", first, "3")))
    h.store(0, "i64", w.op("lshr", "i64", word, w.op("and", "i64", first, "7")))


def _along(element: str, h: Handler) -> None:
    """result[lane] = slot + number + step * lane."""
    w, lanes = h.w, _AT_ONCE[element]
    ty = vector(element, lanes)
    start = w.op("add", "i64", h.load(1, "i64"), h.word(2))
    step = h.word(3)
    if element == "i32":
        start, step = (w.cast("trunc", "i64", v, "i32") for v in (start, step))
    first = w.op("add", ty, w.splat(ty, start), w.op("mul", ty, w.splat(ty, step), w.iota(ty)))
    turn = w.splat(ty, w.op("mul", element, step, str(lanes)))
    target = h.slot(0)
    with w.loop("0", h.word(4), carries=[(ty, first)], guard=False) as loop:
        w.store(ty, loop.carried[0], w.gep(ty, target, loop.index))
        loop.next = [w.op("add", ty, loop.carried[0], turn)]


def _lanes(element: str, sources: int, emit: Callable, result: P | None, h: Handler) -> None:
    """result[lane] = emit(w, type, what is in the lanes of some vectors, a number spread)."""
    w, lanes, t = h.w, _AT_ONCE[element], _TYPES[element]
    ty = vector(element, lanes)
    slots = [h.slot(n) for n in range(1 + sources)]
    number = h.word(1 + sources)
    if element == "i32":
        number = w.cast("trunc", "i64", number, "i32")
    spread = w.splat(ty, number)
    with w.loop("0", h.word(2 + sources), guard=False) as loop:
        values = [load_lanes(w, t, lanes, slot, loop.index) for slot in slots[1:]]
        value = emit(w, ty, *values, spread)
        store_lanes(w, result or t, lanes, slots[0], loop.index, value)


def _extreme(name: str, t: P, lanes: int, h: Handler) -> None:
    """result = the maximum or minimum of all lanes of a vector."""
    ty = vector(register_type(t), lanes)
    h.store(0, register_type(t), extreme_of_lanes(h.w, ty, h.load(1, ty), name))


def _plain_handlers() -> Handlers:
    """By name: how many operands there are, and what writes the work."""
    found: Handlers = {
        "point": (4, _point),
        "fetch": (3, _fetch),
        "frame_address": (2, _frame_address),
        "index_min": (3, partial(_least, False)),
        "index_min_number": (3, partial(_least, True)),
        "in_range": (4, _in_range),
        "copy_word": (2, _copy_word),
        "copy": (3, _copy),
        "mask_bit": (3, _mask_bit),
        "mask_part": (3, _mask_part),
    }
    for terms in range(1, 1 + _MOST_TERMS):
        found[f"index{terms}"] = (2 + 2 * terms, partial(_sum, terms))
    for name, opcode in _DIVISIONS.items():
        found[f"index_{name}"] = (4, partial(_divided, opcode))
    for size in (1, 2, 4):
        found[f"widen.{size}"] = (2, partial(_widened, 8 * size))
    for size in (0, 1, 2, 4, 8):
        found[f"spread.{size}"] = (3, partial(_spread, size))
    for element in _TYPES:
        found[f"lanes_along.{element}"] = (5, partial(_along, element))
        times = lambda w, ty, a, n: w.op("mul", ty, a, n)
        added = lambda w, ty, a, b, n: w.op("add", ty, a, w.op("mul", ty, b, n))
        below = lambda w, ty, a, n: w.cmp("ult", ty, a, n)
        found[f"lanes_times.{element}"] = (4, partial(_lanes, element, 1, times, None))
        found[f"lanes_sum.{element}"] = (5, partial(_lanes, element, 2, added, None))
        found[f"lanes_below.{element}"] = (4, partial(_lanes, element, 1, below, P.PRED))
        for name, opcode in _DIVISIONS.items():
            divided = partial(_divided_lanes, opcode)
            found[f"lanes_{name}.{element}"] = (4, partial(_lanes, element, 1, divided, None))
    return found


def _divided_lanes(opcode: str, w, ty: str, a: str, n: str) -> str:  # type: ignore[no-untyped-def]
    # Without hoisting: the divisor is none of the code's constants.
    return w.op(opcode, ty, a, n)  # type: ignore[no-any-return]


def _extremes() -> Handlers:
    return {
        f"lanes_{name}.{t.value}.{bits // t.bits}": (2, partial(_extreme, name, t, bits // t.bits))
        for name in _EXTREMES
        for t in (P.F32, P.F64)
        for bits in _REGISTER_BITS
    }


def _jump(h: Handler) -> None:
    """To a place."""
    h.go(h.word(0, "ptr"))


def _jump_unless(h: Handler) -> None:
    """To a place unless a condition holds."""
    _go_on_if(h, h.load(0, "i1"), 1)


def _jump_unless_positive(h: Handler) -> None:
    """To a place unless a number is positive."""
    _go_on_if(h, h.w.cmp("sgt", "i64", h.load(0, "i64"), "0"), 1)


def _jump_unless_in_range(h: Handler) -> None:
    """To a place unless slot + number is in 0 .. span."""
    value = h.w.op("add", "i64", h.load(0, "i64"), h.word(1))
    _go_on_if(h, h.w.cmp("ult", "i64", value, h.word(2)), 3)


def _count(to_slot: bool, h: Handler) -> None:
    """Add a step to a counter, and go to a place unless it has come to a number, or that of a
    slot."""
    w = h.w
    counted = w.op("add", "i64", h.load(0, "i64"), h.word(1))
    h.store(0, "i64", counted)
    stop = h.load(2, "i64") if to_slot else h.word(2)
    _go_on_if(h, w.cmp("sge", "i64", counted, stop), 3)


def _go_on_if(h: Handler, condition: str, place: int) -> None:
    """To the next instruction if a condition holds, else to a place."""
    w = h.w
    on, away = w.new_label("on"), w.new_label("away")
    w.cond_br(condition, on, away)
    w.label(on)
    h.next()
    w.label(away)
    h.go(h.word(place, "ptr"))


_JUMPS: Handlers = {
    "jump": (1, _jump),
    "jump_unless": (2, _jump_unless),
    "jump_unless_positive": (2, _jump_unless_positive),
    "jump_unless_in_range": (4, _jump_unless_in_range),
    "count": (4, partial(_count, False)),
    "count_to": (4, partial(_count, True)),
}


def register() -> None:
    """Declares handlers of indices, loops and branches."""
    declare_handlers("threaded.index", _plain_handlers(), _JUMPS)
    declare_handlers("threaded.extremes", _extremes())
