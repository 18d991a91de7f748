"""Transposes block by block: the part of their routines that is the same for all.

A task does some neighbouring blocks. Where blocks are written at once, they follow each other in
the operand; where they are made first, in the result, so that whole lines of it are written.
"""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.llvm.bytes import prefetch
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.task_context import read_table, run_tasks, table_of
from xla_backend.targets.cpu.routines.transpose_plans import (
    DIGITS,
    FIELDS,
    MOST_ROWS,
    OTHERS,
    SPARE_BYTES,
    STAGE_BYTES,
)
from xla_backend.targets.cpu.routines.workspace import give, take

# Places in the tables of rows: those of a block, what the last one may have more, and a square.
_PLACES = MOST_ROWS + 2 * SPARE_BYTES
_TASKS = 64
# Smaller ones are not worth handing out.
_ALONE_BYTES = 1 << 17
_NUMBER = {name: i for i, name in enumerate(FIELDS)}
# The context of a task: in, out, plan, number of blocks, blocks of a task.
_CONTEXT = (("ptr", "in"), ("ptr", "out"), ("ptr", "plan"), ("i64", "blocks"), ("i64", "each"))
Fill = Callable[["Task"], None]


class Task:
    """The function that does some blocks, while it is written.

    Attributes:
      sources, targets: tables of the addresses of rows: of the operand, and of the result.
      stage: where a block is made; `pitch` bytes from row to row.
      across, along: how many units there are of the block in either direction.
    """

    def __init__(self, w: FunctionWriter) -> None:
        self.w = w
        self.context = read_table(w, "%context", _CONTEXT)
        self.width = w.target.vector_bits // 8
        self.sources = w.alloca("ptr", _PLACES, 64)
        self.targets = w.alloca("ptr", _PLACES, 64)
        self.made = w.alloca("ptr", _PLACES, 64)
        self.counters = w.alloca("i64", OTHERS, 64)
        # Here, so that no loop reads them again.
        self.numbers = {name: self._read(name) for name in FIELDS}
        self.pitch, self.past = self.number("pitch"), w.cmp("ne", "i64", self.number("past"), "0")
        self.staged = w.cmp("ne", "i64", self.number("staged"), "0")
        stage = lambda: [take(w, str(STAGE_BYTES), "i8")]
        (self.stage,) = w.if_else(self.staged, ["ptr"], stage, lambda: ["null"])
        self.source_start = self.target_start = ""
        self.across = self.along = self.across_start = self.along_start = ""
        self.is_first = self.is_last = ""

    def number(self, name: str) -> str:
        return self.numbers[name]

    def _read(self, name: str) -> str:
        place = self.w.gep("i64", self.context["plan"], _NUMBER[name])
        return self.w.load_invariant("i64", place, 8)

    def digits(self, group: str) -> list[tuple[str, str]]:
        return [
            (self.number(f"{group}_size{k}"), self.number(f"{group}_step{k}"))
            for k in range(DIGITS)
        ]

    def source(self, row: str | int) -> str:
        return self.w.load("ptr", self.w.gep("ptr", self.sources, row))

    def target(self, row: str | int) -> str:
        return self.w.load("ptr", self.w.gep("ptr", self.targets, row))


def emit_routine(
    fill: Fill, spare: int, symbol: str, module: ModuleWriter, begin: Fill | None = None
) -> None:
    """A routine. `fill` makes a block; the last one may have so many `spare` units more. `begin`:
    what a task does once."""
    task = f"{symbol}.blocks"
    _emit_task(module, task, fill, spare, begin)
    w = module.function(symbol, [("ptr", "in"), ("ptr", "out"), ("ptr", "plan")])
    number = lambda name: w.load("i64", w.gep("i64", "%plan", _NUMBER[name]), 8)
    blocks = w.imul(_pieces(w, number, "across", spare), _pieces(w, number, "along", spare))
    with w.loop("0", number("others"), 1, [("i64", blocks)]) as loop:
        size = w.load("i64", w.gep("i64", "%plan", w.iadd(w.imul(loop.index, 3), _NUMBER["size0"])))
        loop.next = [w.imul(loop.carried[0], size)]
    (blocks,) = loop.results
    some = w.op("udiv", "i64", w.iadd(blocks, _TASKS - 1), str(_TASKS))
    alone = w.cmp("slt", "i64", number("size"), str(_ALONE_BYTES))
    each = w.select(alone, "i64", blocks, some)
    values = ("%in", "%out", "%plan", blocks, each)
    context = table_of(w, [(ty, value) for (ty, _), value in zip(_CONTEXT, values, strict=True)])
    tasks = w.op("udiv", "i64", w.isub(w.iadd(blocks, each), 1), each)
    run_tasks(w, task, context, tasks)
    w.ret()


def _pieces(w: FunctionWriter, number: Callable[[str], str], group: str, spare: int) -> str:
    """How many blocks there are of a group."""
    most = number(f"most_{group}")
    whole = w.imax(w.isub(number(group), spare), 1)
    return w.op("udiv", "i64", w.isub(w.iadd(whole, most), 1), most)


def _emit_task(module: ModuleWriter, name: str, fill: Fill, spare: int, begin: Fill | None) -> None:
    w = module.function(name, [("ptr", "context"), ("i64", "task")], internal=True)
    task = Task(w)
    if begin is not None:
        begin(task)
    number = task.number
    first = w.imul("%task", task.context["each"])
    last = w.imin(w.iadd(first, task.context["each"]), task.context["blocks"])
    counts = [_pieces(w, number, group, spare) for group in ("across", "along")]
    inner = w.select(task.staged, "i64", counts[1], counts[0])
    outer = w.select(task.staged, "i64", counts[0], counts[1])
    rest = w.op("udiv", "i64", first, inner)
    number_of_place = w.op("udiv", "i64", rest, outer)
    carried = [
        ("i64", w.isub(first, w.imul(rest, inner))),
        ("i64", w.isub(rest, w.imul(number_of_place, outer))),
        *[("ptr", start) for start in _place(task, number_of_place)],
    ]
    with w.loop(first, last, 1, carried) as loop:
        quick, slow, task.source_start, task.target_start = loop.carried
        across = w.select(task.staged, "i64", slow, quick)
        along = w.select(task.staged, "i64", quick, slow)
        task.across_start, task.across, _ = _piece(task, "across", across, counts[0])
        task.along_start, task.along, is_last = _piece(task, "along", along, counts[1])
        begins = w.cmp("eq", "i64", loop.index, first)
        ends = w.cmp("eq", "i64", w.iadd(loop.index, 1), last)
        task.is_first = w.op("or", "i1", w.cmp("eq", "i64", along, "0"), begins)
        task.is_last = w.op("or", "i1", is_last, ends)
        fill(task)
        quick = w.iadd(quick, 1)
        wraps = w.cmp("eq", "i64", quick, inner)
        quick = w.select(wraps, "i64", "0", quick)
        slow = w.iadd(slow, w.cast("zext", "i1", wraps, "i64"))
        wraps = w.cmp("eq", "i64", slow, outer)
        slow = w.select(wraps, "i64", "0", slow)
        here = [task.source_start, task.target_start]
        places = w.if_else(wraps, ["ptr", "ptr"], lambda: _next_place(task, *here), lambda: here)
        loop.next = [quick, slow, *places]
    with w.if_(task.staged):
        give(w, task.stage)
    w.line("fence seq_cst")  # what went past the caches is there before anybody hears of it
    w.ret()


def _piece(task: Task, group: str, number: str, count: str) -> tuple[str, str, str]:
    """Where a piece of a group begins, how many units it has, and whether it is the last one."""
    w, most = task.w, task.number(f"most_{group}")
    start = w.imul(number, most)
    is_last = w.cmp("eq", "i64", number, w.isub(count, 1))
    return start, w.select(is_last, "i64", w.isub(task.number(group), start), most), is_last


def _place(task: Task, number: str) -> tuple[str, str]:
    """The start of operand and result at a place in the other dimensions, which the task's counters
    have, too."""
    w, others = task.w, task.number("others")
    carried = [("i64", number), ("i64", "0"), ("i64", "0")]
    with w.loop("0", others, 1, carried) as loop:
        size, source, target = _other(task, loop.index)
        left, from_source, from_target = loop.carried
        quotient = w.op("udiv", "i64", left, size)
        digit = w.isub(left, w.imul(quotient, size))
        w.store("i64", digit, w.gep("i64", task.counters, loop.index))
        loop.next = [
            quotient,
            w.iadd(from_source, w.imul(digit, source)),
            w.iadd(from_target, w.imul(digit, target)),
        ]
    _, from_source, from_target = loop.results
    return (
        w.gep("i8", task.context["in"], from_source),
        w.gep("i8", task.context["out"], from_target),
    )


def _next_place(task: Task, source: str, target: str) -> list[str]:
    """The place behind one."""
    w, others = task.w, task.number("others")

    def some(state: list[str]) -> str:
        return w.op("and", "i1", state[3], w.cmp("slt", "i64", state[0], others))

    def count(state: list[str]) -> list[str]:
        number, source, target, _ = state
        size, *steps = _other(task, number)
        counter = w.gep("i64", task.counters, number)
        digit = w.load("i64", counter)
        wraps = w.cmp("eq", "i64", w.iadd(digit, 1), size)
        w.store("i64", w.select(wraps, "i64", "0", w.iadd(digit, 1)), counter)
        moved = [
            w.gep("i8", start, w.select(wraps, "i64", w.imul(w.isub("0", digit), step), step))
            for start, step in zip((source, target), steps)
        ]
        return [w.iadd(number, 1), *moved, wraps]

    carried = [("i64", "0"), ("ptr", source), ("ptr", target), ("i1", "true")]
    _, source, target, _ = w.while_(carried, some, count)
    return [source, target]


def _other(task: Task, number: str) -> list[str]:
    """Size and steps of one of the other dimensions."""
    w = task.w
    at = w.iadd(w.imul(number, 3), _NUMBER["size0"])
    plan = task.context["plan"]
    return [w.load("i64", w.gep("i64", plan, w.iadd(at, k)), 8) for k in range(3)]


def addresses(task: Task, table: str, base: str, group: str, start: str, count: str) -> None:
    """Fills a table with the places of units `start`, start + 1, ... of a group."""
    w = task.w
    (size, step), (size1, step1), (_, step2) = task.digits(group)

    def straight() -> list[str]:
        first = w.gep("i8", base, w.imul(start, step))
        with w.loop("0", count) as loop:
            w.store(
                "ptr", w.gep("i8", first, w.imul(loop.index, step)), w.gep("ptr", table, loop.index)
            )
        return []

    def counted() -> list[str]:
        quotient = w.op("udiv", "i64", start, size)
        digit = w.isub(start, w.imul(quotient, size))
        digit2 = w.op("udiv", "i64", quotient, size1)
        digit1 = w.isub(quotient, w.imul(digit2, size1))
        at = w.iadd(w.imul(digit, step), w.iadd(w.imul(digit1, step1), w.imul(digit2, step2)))
        jump = w.isub(step1, w.imul(size, step))
        jump1 = w.isub(step2, w.imul(size1, step1))
        carried = [("i64", digit), ("i64", digit1), ("i64", at)]
        with w.loop("0", count, 1, carried) as loop:
            digit, digit1, at = loop.carried
            w.store("ptr", w.gep("i8", base, at), w.gep("ptr", table, loop.index))
            digit, at = w.iadd(digit, 1), w.iadd(at, step)
            wraps = w.cmp("eq", "i64", digit, size)
            digit, at = (
                w.select(wraps, "i64", "0", digit),
                w.iadd(at, w.select(wraps, "i64", jump, "0")),
            )
            digit1 = w.iadd(digit1, w.cast("zext", "i1", wraps, "i64"))
            wraps = w.cmp("eq", "i64", digit1, size1)
            digit1 = w.select(wraps, "i64", "0", digit1)
            loop.next = [digit, digit1, w.iadd(at, w.select(wraps, "i64", jump1, "0"))]
        return []

    w.if_else(w.cmp("eq", "i64", size1, "1"), [], straight, counted)


def beyond(w: FunctionWriter, place: str, offset: str) -> str:
    """An address that may be outside of the array."""
    return w.pure(f"getelementptr i8, ptr {place}, i64 {offset}", place, offset)


def ask_for(task: Task, place: str) -> None:
    """Ask for what the next block reads; its address is that of this block's, and what lies between
    them."""
    w = task.w
    ahead = beyond(w, place, task.number("ahead"))
    prefetch(w, ahead)
