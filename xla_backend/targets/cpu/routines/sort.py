"""Sorting along one axis: stable, by order-preserving keys. NaN come last (all NaN equal), -0 is
equal to 0.

  void pyjax_sort_<t>(ptr in, ptr out, outer, n, inner, flags, lo, hi)          in may equal out
  void pyjax_argsort_<t>(ptr keys, ptr perm, outer, n, inner, flags, lo, hi), pyjax_argsort64_<t>
        sorts axis 1 of [outer, n, inner]; n < 2^31; perm: s32, of argsort64 s64; stable order
        flags bit 0: descending (equal keys keep their order)
        bit 1 (argsort): perm holds a permutation of each row on entry, which the sort refines: sort
        by the last key first, then by each earlier key with this bit for several keys
        lo, hi: only places lo .. hi of each row must hold what sorting puts there; what is before
        them is not larger and what is behind them not smaller, in an order that is not said

Symbols end in .strided where inner > 1, so that programs have the code of one way. Rows run in
parallel, and long ones in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.types import bits_of
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.column_sort import (
    LONGEST,
    emit_column_sort,
    emit_side_by_side,
    is_short,
    rows_at_once,
)
from xla_backend.targets.cpu.routines.ordered_keys import int_type
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.row_argsort import emit_row_argsort
from xla_backend.targets.cpu.routines.row_sort import emit_row_sort
from xla_backend.targets.cpu.routines.sort_types import SORT_TYPES
from xla_backend.targets.cpu.routines.strided_rows import emit_copy, spaced, together
from xla_backend.targets.cpu.routines.task_context import TaskContext, run_many_tasks
from xla_backend.targets.cpu.routines.workspace import give, take

_ROWS = ("outer", "n", "inner", "flags", "lo", "hi")
_ORDER = ("keys", "perm", *_ROWS)
_FIELDS = {"sort": ("in", "out", *_ROWS), "argsort": _ORDER, "argsort64": _ORDER}
# What permutations are written as.
_PLACES = {"argsort": "i32", "argsort64": "i64"}
_REFINE = 2
Emit = Callable[[ModuleWriter, P], str]
_EMIT_ROW: dict[str, Emit] = {
    "sort": emit_row_sort,
    **{name: partial(emit_row_argsort, order=order) for name, order in _PLACES.items()},
}


class _Operands:
    """Operands of a routine while a task is emitted."""

    def __init__(self, w: FunctionWriter, name: str, t: P) -> None:
        context = TaskContext(_FIELDS[name], pointers=2)
        self.of = dict(zip(context.names, context.fields(w), strict=True))
        self.source, self.target = (self.of[field] for field in _FIELDS[name][:2])
        self.source_type = int_type(t)
        self.target_type = _PLACES.get(name, self.source_type)
        self.numbers = [("i64", self.of[f]) for f in ("n", "flags", "lo", "hi")]


def _emit_row_task(module: ModuleWriter, t: P, name: str) -> str:
    """void task(ptr ctx, i64 block), for rows whose elements lie side by side; returns its name."""
    row = _EMIT_ROW[name](module, t)
    task = f"{name}.{t}"
    w = module.function(task, [("ptr", "ctx"), ("i64", "block")], internal=True)
    o = _Operands(w, name, t)
    outer, n, flags = (o.of[field] for field in ("outer", "n", "flags"))
    rows = _rows_of_task(w, t, name, n)
    first = w.imul("%block", rows)
    count = w.imin(w.isub(outer, first), rows)

    def ends(number: str) -> list[tuple[str, str]]:
        start = w.imul(number, n)
        places = w.gep(o.source_type, o.source, start), w.gep(o.target_type, o.target, start)
        return [("ptr", place) for place in places]

    if rows != "1":
        # One row is a long one, or the last.
        some = w.cmp("eq", "i64", count, str(rows_at_once(w, t)))
        numbers = [("i64", n), ("i64", flags)]
        exchange = emit_side_by_side(module, t)
        _return_sorted(w, some, lambda: w.call(exchange, "i1", [*ends(first), *numbers]))
    with w.loop("0", count, guard=False) as loop:
        w.call(row, "void", [*ends(w.iadd(first, loop.index)), *o.numbers])
    w.ret()
    return task


def _rows_of_task(w: FunctionWriter, t: P, name: str, n: str) -> str:
    """How many rows of n elements side by side a task has."""
    some = rows_at_once(w, t) if name == "sort" else 0
    if not some:
        return "1"
    return w.select(is_short(w, t, n), "i64", str(some), "1")


def _emit_strided_task(module: ModuleWriter, t: P, name: str) -> str:
    """void task(ptr ctx, i64 block), for neighbouring rows of one `outer`."""
    row = _EMIT_ROW[name](module, t)
    task = f"{name}.{t}.strided"
    w = module.function(task, [("ptr", "ctx"), ("i64", "block")], internal=True)
    o = _Operands(w, name, t)
    n, inner, flags = (o.of[field] for field in ("n", "inner", "flags"))
    rows = together(o.source_type)
    blocks = w.op("udiv", "i64", w.iadd(inner, rows - 1), str(rows))
    outer = w.op("udiv", "i64", "%block", blocks)
    column = w.imul(w.isub("%block", w.imul(outer, blocks)), rows)
    count = w.imin(w.isub(inner, column), rows)
    first = w.iadd(w.imul(w.imul(outer, n), inner), column)
    if name == "sort":
        short = w.cmp("ult", "i64", w.isub(n, 2), str(LONGEST - 1))
        whole = w.cmp("eq", "i64", count, str(rows))
        exchange = emit_column_sort(module, t)

        def exchanged() -> str:
            ends = w.gep(o.source_type, o.source, first), w.gep(o.target_type, o.target, first)
            numbers = [("i64", o.of[field]) for field in ("n", "inner", "flags")]
            return w.call(exchange, "i1", [*(("ptr", end) for end in ends), *numbers])

        _return_sorted(w, w.op("and", "i1", short, whole), exchanged)
    length = spaced(w, n, max(o.source_type, o.target_type, key=bits_of))

    def copy(ty: str, array: str, scratch: str, reads: bool) -> None:
        numbers = [("i64", v) for v in (length, n, count)]
        ends = [("ptr", w.gep(ty, array, first)), ("i64", inner), ("ptr", scratch)]
        w.call(emit_copy(module, ty, reads), "void", [*ends, *numbers])

    source = take(w, w.imul(length, rows), o.source_type)
    copy(o.source_type, o.source, source, reads=True)
    target = source
    if name in _PLACES:
        target = take(w, w.imul(length, rows), o.target_type)
        refines = w.cmp("ne", "i64", w.op("and", "i64", flags, str(_REFINE)), "0")
        with w.if_(refines):
            copy(o.target_type, o.target, target, reads=True)
    with w.loop("0", count, guard=False) as loop:
        start = w.imul(loop.index, length)
        ends = w.gep(o.source_type, source, start), w.gep(o.target_type, target, start)
        w.call(row, "void", [*(("ptr", end) for end in ends), *o.numbers])
    copy(o.target_type, o.target, target, reads=False)
    give(w, source)
    if name in _PLACES:
        give(w, target)
    w.ret()
    return task


def _return_sorted(w: FunctionWriter, some: str, exchange: Callable[[], str]) -> None:
    """Returns where rows, some of them short ones, were sorted lane by lane."""
    (done,) = w.if_else(some, ["i1"], lambda: [exchange()], lambda: ["false"])
    out, other = w.new_label("exchanged"), w.new_label("sorted")
    w.cond_br(done, out, other)
    w.label(out)
    w.ret()
    w.label(other)


def emit_entry(
    module: ModuleWriter,
    symbol: str,
    task: str,
    fields: Sequence[str],
    together: int = 1,
    rows_of_task: Callable[[FunctionWriter], str] = lambda w: "1",
) -> None:
    """The function that runs a task on each row of [outer, n, inner], or each block of so many
    neighbouring rows of one `outer`, or of several where inner = 1; its operands are `fields`, two
    of them addresses."""
    context_of = TaskContext(tuple(fields), pointers=2)
    w = module.function(symbol, context_of.parameters())
    context = context_of.make(w, [f"%{name}" for name in fields])
    inner = "%inner" if "inner" in fields else "1"
    work = w.imul(w.imul("%outer", inner), "%n")
    blocks = w.op("udiv", "i64", w.iadd(inner, together - 1), str(together))
    some = rows_of_task(w)
    outer = "%outer"
    if some != "1":
        outer = w.op("udiv", "i64", w.iadd(outer, w.isub(some, 1)), some)
    tasks = w.imul(outer, blocks)
    large = w.cmp("sge", "i64", work, "4096")

    nothing = w.cmp("sle", "i64", work, "0")
    out, go = w.new_label("nothing"), w.new_label("go")
    w.cond_br(nothing, out, go)
    w.label(out)
    w.ret()
    w.label(go)
    run_many_tasks(w, large, task, context, tasks, polled=False)
    w.ret()


def _emit_group(t: P, name: str, strided: bool, module: ModuleWriter) -> None:
    emit = _emit_strided_task if strided else _emit_row_task
    task = emit(module, t, name)
    symbol = f"pyjax_{name}_{t}{path_of(strided)}"
    if strided:
        emit_entry(module, symbol, task, _FIELDS[name], together(int_type(t)))
        return
    rows_of_task = lambda w: _rows_of_task(w, t, name, "%n")
    emit_entry(module, symbol, task, _FIELDS[name], rows_of_task=rows_of_task)


def path_of(strided: bool) -> str:
    """What the symbol of a sort ends in."""
    return ".strided" if strided else ""


def register() -> None:
    """Declares the sorts of every element type."""
    for t in SORT_TYPES:
        for name in _FIELDS:
            for strided in (False, True):
                group = f"{name}_{t}{path_of(strided)}"
                emit = partial(_emit_group, t, name, strided)
                register_group(group, (f"pyjax_{group}",), emit)
