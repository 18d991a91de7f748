"""Blocks of transposes that were made first, written to where they belong: row by row, in whole
lines, past the caches where a result is larger than they are."""

from __future__ import annotations

from functools import partial

from xla_backend.llvm.bytes import copy_bytes
from xla_backend.llvm.types import vector
from xla_backend.targets.cpu.routines.transpose_plans import LINE
from xla_backend.targets.cpu.routines.transpose_tasks import Task, beyond


def write(task: Task, target: str, source: str, size: str) -> None:
    """Write a row of so many bytes."""
    w, width = task.w, task.width
    ty, whole = vector("i8", width), str(width)

    def short() -> list[str]:
        _write_part(task, target, source, size)
        return []

    def long() -> list[str]:
        address = w.cast("ptrtoint", "ptr", target, "i64")
        before = w.op("and", "i64", w.isub("0", address), str(width - 1))
        end = w.isub(size, width - 1)

        def move(at: str, past: bool) -> None:
            value = w.load(ty, w.gep("i8", source, at), 1)
            w.store(ty, value, w.gep("i8", target, at), width, past_caches=past)

        def beyond() -> list[str]:
            with w.if_(w.cmp("ne", "i64", before, "0")):
                _write_part(task, target, source, before)
            with w.loop(before, end, width) as loop:
                move(loop.index, True)
            left = w.op("and", "i64", w.isub(size, before), str(width - 1))
            at = w.isub(size, left)
            with w.if_(w.cmp("ne", "i64", left, "0")):
                _write_part(task, w.gep("i8", target, at), w.gep("i8", source, at), left)
            return []

        def here() -> list[str]:
            for at in ("0", w.isub(size, width)):
                w.store(ty, w.load(ty, w.gep("i8", source, at), 1), w.gep("i8", target, at), 1)
            with w.loop(before, end, width) as loop:
                move(loop.index, False)
            return []

        return w.if_else(task.past, [], beyond, here)

    w.if_else(w.cmp("slt", "i64", size, whole), [], short, long)


def _write_part(task: Task, target: str, source: str, size: str) -> None:
    """Write less than a line."""
    w, ty = task.w, vector("i8", LINE)
    if not w.target.has_masked_moves(8):
        copy_bytes(w, target, source, size)
        return
    bits = w.isub(w.op("shl", "i64", "1", size), 1)
    mask = w.cast("bitcast", "i64", bits, vector("i1", LINE))
    w.masked_store(ty, w.masked_load(ty, source, mask), target, mask)


def make_places(task: Task, count: str, least: int, joined: str = "false") -> str:
    """The table of where the rows of the block are made: a row begins in a line as its target
    does, and so does all of the block where its rows are `joined`."""
    w = task.w

    def in_stage() -> list[str]:
        with w.loop("0", count) as loop:
            target = task.target(w.select(joined, "i64", "0", loop.index))
            address = w.cast("ptrtoint", "ptr", target, "i64")
            lead = w.op("and", "i64", address, str(LINE - 1))
            row = w.gep("i8", task.stage, w.iadd(w.imul(loop.index, task.pitch), lead))
            w.store("ptr", row, w.gep("ptr", task.made, loop.index))
        with w.loop(count, str(least)) as loop:  # rows of a square that nobody wants
            row = w.gep("i8", task.stage, w.imul(loop.index, task.pitch))
            w.store("ptr", row, w.gep("ptr", task.made, loop.index))
        return [task.made]

    return w.if_else(task.staged, ["ptr"], in_stage, lambda: [task.targets])[0]


def write_rows(task: Task, rows: str, size: str) -> None:
    """Write what was made, in whole lines: what is left of the last one is where the next block
    of the row goes on."""
    w = task.w

    def write(past: bool) -> list[str]:
        with w.loop("0", rows) as loop:
            _write_lines(
                task,
                w.gep("i8", task.stage, w.imul(loop.index, task.pitch)),
                task.target(loop.index),
                size,
                past,
            )
        return []

    w.if_else(task.past, [], partial(write, True), partial(write, False))


def _write_lines(task: Task, made: str, target: str, size: str, past: bool) -> None:
    w, width = task.w, min(task.width, LINE)
    ty = vector("i8", width)
    lead = w.op("and", "i64", w.cast("ptrtoint", "ptr", target, "i64"), str(LINE - 1))
    end = w.iadd(lead, size)
    first = beyond(w, target, w.isub("0", lead))
    whole = w.op("and", "i64", end, str(-LINE))

    def begins() -> list[str]:
        stop = w.imin(end, LINE)
        _write_part(task, w.gep("i8", first, lead), w.gep("i8", made, lead), w.isub(stop, lead))
        return [str(LINE)]

    in_line = w.op("and", "i1", task.is_first, w.cmp("ne", "i64", lead, "0"))
    (start,) = w.if_else(in_line, ["i64"], begins, lambda: ["0"])
    with w.loop(start, whole, width) as loop:
        value = w.load(ty, w.gep("i8", made, loop.index), width)
        w.store(ty, value, w.gep("i8", first, loop.index), width, past_caches=past)
    rest = w.isub(end, whole)

    def ends() -> list[str]:
        some = w.op("and", "i1", w.cmp("ne", "i64", rest, "0"), w.cmp("sge", "i64", whole, start))
        with w.if_(some):
            _write_part(task, w.gep("i8", first, whole), w.gep("i8", made, whole), rest)
        return []

    def goes_on() -> list[str]:
        for at in range(0, LINE, width):
            value = w.load(ty, w.gep("i8", made, w.iadd(whole, at)), width)
            w.store(ty, value, w.gep("i8", made, at), width)
        return []

    w.if_else(task.is_last, [], ends, goes_on)
