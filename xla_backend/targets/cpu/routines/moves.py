"""Copies of parts of arrays, whatever their shapes: one routine for all programs that only move
data.

  i32 pyjax_moves(ptr arguments, ptr outputs, ptr table)
        arguments, outputs: arrays of addresses
        table: what `move_tables.table` makes of moves

It runs on one thread, never fails (returns 0), and does the moves in their order.
"""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.llvm.bytes import copy_bytes
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.move_tables import (
    ABSOLUTE,
    ELEMENT_BYTES,
    FIELDS,
    LOOKUP_FIELDS,
    RANK,
    SCALARS,
    SYMBOL,
)
from xla_backend.targets.cpu.routines.registry import register_group


def _emit(module: ModuleWriter) -> None:
    w = module.function(SYMBOL, [("ptr", "args"), ("ptr", "outs"), ("ptr", "table")], result="i32")
    count = w.load("i64", "%table")
    lookups = w.gep("i64", "%table", w.iadd(w.imul(count, FIELDS), 1))
    with w.loop("0", count) as move:
        fields = _fields(w, w.gep("i64", "%table", w.iadd(w.imul(move.index, FIELDS), 1)), FIELDS)
        element, *places, first, last = fields[:SCALARS]
        grid = [fields[SCALARS + k * RANK : SCALARS + (k + 1) * RANK] for k in range(3)]
        moved = [("i64", "0"), ("i64", "0"), ("i1", "true")]
        with w.loop(first, last, carries=moved) as loop:
            entry = w.gep("i64", lookups, w.imul(loop.index, LOOKUP_FIELDS))
            loop.next = _looked_up(w, _fields(w, entry, LOOKUP_FIELDS), loop.carried)
        from_source, from_target, is_done = loop.results
        with w.if_(is_done):
            source = w.gep("i8", _readable(w, *places[:2]), from_source)
            output = w.load("ptr", w.gep("ptr", "%outs", places[2]))
            target = w.gep("i8", output, w.iadd(places[3], from_target))
            _walk(w, element, grid, source, target)
    w.ret("i32", "0")


def _fields(w: FunctionWriter, first: str, count: int) -> list[str]:
    return [w.load("i64", w.gep("i64", first, k)) for k in range(count)]


def _readable(w: FunctionWriter, number: str, offset: str) -> str:
    """The address of a place that is read."""
    behind = w.isub(ABSOLUTE - 1, number)  # number_of_result, the other way round
    made = w.cmp("sge", "i64", behind, "0")
    argument = w.gep("ptr", "%args", number)
    entry = w.select(made, "ptr", w.gep("ptr", "%outs", behind), argument)
    absolute = w.cmp("eq", "i64", number, str(ABSOLUTE))
    # There may be no arguments at all: then what is loaded is nothing's address.
    entry = w.select(absolute, "ptr", "%table", entry)
    base = w.select(absolute, "ptr", "null", w.load("ptr", entry))
    return w.gep("i8", base, offset)


def _looked_up(w: FunctionWriter, fields: Sequence[str], carried: Sequence[str]) -> list[str]:
    """Offsets of source and target, and whether the move is done, with one index more."""
    number, offset, width, most, drops, source_step, target_step = fields
    place = _readable(w, number, offset)

    def loaded(type: str) -> list[str]:
        value = w.load(type, place)
        return [value if type == "i64" else w.cast("sext", type, value, "i64")]

    narrow = w.cmp("eq", "i64", width, "4")
    (index,) = w.if_else(narrow, ["i64"], lambda: loaded("i32"), lambda: loaded("i64"))
    clamped = w.imax(w.imin(index, most), "0")
    inside = w.cmp("eq", "i64", clamped, index)
    kept = w.op("or", "i1", inside, w.cmp("eq", "i64", drops, "0"))
    return [
        w.iadd(carried[0], w.imul(clamped, source_step)),
        w.iadd(carried[1], w.imul(clamped, target_step)),
        w.op("and", "i1", carried[2], kept),
    ]


def _walk(
    w: FunctionWriter, element: str, grid: Sequence[Sequence[str]], source: str, target: str
) -> None:
    size, source_step, target_step = (numbers[0] for numbers in grid)
    rest = [numbers[1:] for numbers in grid]
    if not rest[0]:
        _row(w, element, size, source_step, target_step, source, target)
        return
    with w.loop("0", size) as loop:
        inner_source = w.gep("i8", source, w.imul(loop.index, source_step))
        inner_target = w.gep("i8", target, w.imul(loop.index, target_step))
        _walk(w, element, rest, inner_source, inner_target)


def _row(
    w: FunctionWriter,
    element: str,
    size: str,
    source_step: str,
    target_step: str,
    source: str,
    target: str,
) -> None:
    steps = (source_step, target_step)
    dense = w.op("and", "i1", *[w.cmp("eq", "i64", step, element) for step in steps])

    def at_once() -> list[str]:
        copy_bytes(w, target, source, w.imul(size, element))
        return []

    def one_by_one() -> list[str]:
        for count in ELEMENT_BYTES:
            with w.if_(w.cmp("eq", "i64", element, str(count))):
                type, align = (f"i{8 * count}", count) if count <= 8 else ("<2 x i64>", 8)
                with w.loop("0", size) as loop:
                    place = w.gep("i8", source, w.imul(loop.index, source_step))
                    value = w.load(type, place, align)
                    place = w.gep("i8", target, w.imul(loop.index, target_step))
                    w.store(type, value, place, align)
        return []

    w.if_else(dense, [], at_once, one_by_one)


def register() -> None:
    register_group("moves", (SYMBOL,), _emit)
