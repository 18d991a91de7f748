"""LU factors of larger matrices: halves of columns, one after the other, and products between them.

  void pyjax_lu_blocked_<t>(batches, m, n, tasks, ptr a, ptr lu, ptr pivots, ptr info, ptr panel,
                            ptr negated)
        as pyjax_lu_<t> of `small_matrices`; for each of the tasks that the batch is divided into,
        panel has room for m rows of MOST_LANES elements, negated for m rows of n

Columns that fit into one vector are factored in a copy with a vector for each row.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.bytes import copy_bytes
from xla_backend.llvm.types import const, element, mask_of
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.blocked_matrices import SUBSTITUTE, emit_substitute
from xla_backend.targets.cpu.routines.matrix_facts import BLOCK_ROWS, MOST_LANES, TYPES
from xla_backend.targets.cpu.routines.matrix_rows import Rows, emit_negate, place, product
from xla_backend.targets.cpu.routines.matrix_tasks import emit_tasks
from xla_backend.targets.cpu.routines.registry import register_group

# Pivots below have no inverse.
_LEAST = {"float": 2.0**-126, "double": 2.0**-1022}
_PARAMETERS = [
    *(("i64", name) for name in ("batches", "m", "n", "tasks")),
    *(("ptr", name) for name in ("a", "lu", "pivots", "info", "panel", "negated")),
]
_BASE = [
    ("ptr", "a"), ("i64", "pitch"), ("i64", "m"), ("i64", "n"), ("ptr", "pivots"),
    ("i64", "first"), ("ptr", "panel"),
]  # fmt: skip
_RECURSE = [*_BASE, ("ptr", "negated")]
_SWAP = [
    ("ptr", "a"), ("i64", "pitch"), ("ptr", "pivots"), ("i64", "first"), ("i64", "count"),
    ("i64", "columns"),
]  # fmt: skip
_SOLVE = [
    ("ptr", "l"), ("ptr", "x"), ("i64", "pitch"), ("i64", "rows"), ("i64", "columns"),
    ("ptr", "negated"),
]  # fmt: skip


def _emit_base(module: ModuleWriter, t: P) -> None:
    """i64 lu.base(a, pitch, m, n, pivots, first, panel): the factors of n <= lanes columns, by rows
    `pitch` apart; pivots count from `first`. The number of the first pivot that is 0, or 0."""
    w = module.function("lu.base", _BASE, "i64", internal=True, attributes="noinline")
    v = Rows(w, t)
    lanes, ty = v.lanes, v.lanes.ty
    real, count = element(ty), lanes.count
    columns = v.mask("0", "%n")

    def row(i: str) -> str:
        return w.imul(i, count)

    def size_at(at: str) -> str:
        """What LAPACK compares, of one element."""
        start = place(w, t, "%panel", at)
        parts = [w.load(real, w.gep(real, start, p)) for p in range(lanes.parts)]
        sizes = [w.intrinsic("fabs", real, part) for part in parts]
        return sizes[0] if len(sizes) == 1 else w.op("fadd", real, *sizes)

    with w.loop("0", "%m") as rows:
        given = place(w, t, "%a", w.imul(rows.index, "%pitch"))
        v.store("%panel", row(rows.index), v.load(given, "0", columns))

    def larger(found: str, i: str, best: str, where: str) -> list[str]:
        wins = w.cmp("ogt", real, found, best)
        return [w.select(wins, real, found, best), w.select(wins, "i64", i, where)]

    with w.loop("1", "%m", 1, [(real, size_at("0")), ("i64", "0")]) as rows:
        rows.next = larger(size_at(row(rows.index)), rows.index, *rows.carried)
    steps = w.imin("%m", "%n")
    start = [("i64", "0"), *zip((real, "i64"), rows.results, strict=True)]
    with w.loop("0", steps, 1, start) as loop:
        j = loop.index
        info, best, pivot = loop.carried
        number = w.iadd(w.iadd(pivot, "%first"), 1)
        w.store("i32", w.cast("trunc", "i64", number, "i32"), w.gep("i32", "%pivots", j))
        upper, other = v.load("%panel", row(pivot)), v.load("%panel", row(j))
        v.store("%panel", row(pivot), other)
        v.store("%panel", row(j), upper)
        zero = w.cmp("oeq", real, best, const(real, 0.0))
        fresh = w.op("and", "i1", zero, w.cmp("eq", "i64", info, "0"))
        info = w.select(fresh, "i64", w.iadd(w.iadd(j, "%first"), 1), info)
        lane = w.splat(lanes.index_ty, w.cast("trunc", "i64", j, "i32"))
        behind = w.cmp("sgt", lanes.index_ty, lanes.ones, lane)
        here = w.cmp("eq", lanes.index_ty, lanes.ones, lane)
        diagonal = v.number("%panel", w.iadd(row(j), j))
        one = lanes.real(const(ty, 1.0))
        below = w.iadd(j, 1)
        tiny = w.cmp("olt", real, best, const(real, _LEAST[real]))
        # Below a pivot of 0 all is 0 and stays.
        with w.if_(w.op("and", "i1", tiny, w.not_("i1", zero))), w.loop(below, "%m") as rows:
            at = row(rows.index)
            old = v.load("%panel", at)
            new = lanes.quotient(v.number("%panel", w.iadd(at, j)), diagonal)
            v.store("%panel", at, lanes.select(here, new, old))
        inverse = lanes.select(w.splat(mask_of(ty), tiny), one, lanes.quotient(one, diagonal))
        ahead = w.imin(below, w.isub("%n", 1))
        carries = [(real, const(real, -1.0)), ("i64", below)]
        with w.loop(below, "%m", 1, carries) as rows:
            at = row(rows.index)
            old = v.load("%panel", at)
            factor = lanes.times(v.number("%panel", w.iadd(at, j)), inverse)
            new = lanes.select(behind, lanes.minus_product(old, factor, upper), old)
            v.store("%panel", at, lanes.select(here, factor, new))
            found = size_at(w.iadd(at, ahead))
            rows.next = larger(found, rows.index, *rows.carried)
        loop.next = [info, *rows.results]
    with w.loop("0", "%m") as rows:
        target = place(w, t, "%a", w.imul(rows.index, "%pitch"))
        v.store(target, "0", v.load("%panel", row(rows.index)), columns)
    w.ret("i64", loop.results[0])


def _emit_swap(module: ModuleWriter, t: P) -> None:
    """void lu.swap(a, pitch, pivots, first, count, columns): row k of a trades places with row
    pivots[k] - first - 1, for all k in order."""
    w = module.function("lu.swap", _SWAP, internal=True, attributes="noinline")
    v = Rows(w, t)
    with w.loop("0", "%count") as loop:
        k = loop.index
        number = w.as_index("i32", w.load("i32", w.gep("i32", "%pivots", k)))
        other = w.isub(w.isub(number, "%first"), 1)
        with w.if_(w.cmp("ne", "i64", other, k)):
            x, y = (place(w, t, "%a", w.imul(i, "%pitch")) for i in (k, other))
            with w.loop("0", "%columns", v.lanes.count) as columns:
                mask = v.mask(columns.index, "%columns")
                below, above = (v.load(each, columns.index, mask) for each in (x, y))
                v.store(x, columns.index, above, mask)
                v.store(y, columns.index, below, mask)
    w.ret()


def _take_away(
    w: FunctionWriter, t: P, left: str, rows: str, depth: str, right: str, target: str, columns: str
) -> None:
    """target -= left right; rows of all three are %pitch apart."""
    given = [("i64", "%pitch"), ("i64", rows), ("i64", depth), ("i64", "0")]
    w.call("rows.negate", "void", [("ptr", left), *given, ("ptr", "%negated")])
    product(
        w, t, rows, columns, depth, "%negated", depth, "1", right, "%pitch", "1", target, "%pitch"
    )


def _half(w: FunctionWriter, count: str, multiple: int) -> str:
    """About half of a number: a multiple."""
    return w.op("and", "i64", w.iadd(w.op("lshr", "i64", count, "1"), multiple - 1), str(-multiple))


def _emit_solve(module: ModuleWriter, t: P) -> None:
    """void lu.solve(l, x, pitch, rows, columns, negated): x for l x, l a unit lower triangle."""
    w = module.function("lu.solve", _SOLVE, internal=True)

    def substituted() -> list[str]:
        values = [
            "%l", "%pitch", "1", "1", "0", "1", "%rows", "%x", "%pitch", "%columns",
        ]  # fmt: skip
        pairs = [(ty, value) for (ty, _), value in zip(SUBSTITUTE, values, strict=True)]
        w.call("blocked.substitute", "void", pairs)
        return []

    def halved() -> list[str]:
        top = _half(w, "%rows", 16)
        bottom = w.isub("%rows", top)
        lower = w.imul(top, "%pitch")
        rest = place(w, t, "%x", lower)
        numbers = [("i64", "%pitch"), ("i64", top), ("i64", "%columns"), ("ptr", "%negated")]
        w.call("lu.solve", "void", [("ptr", "%l"), ("ptr", "%x"), *numbers])
        _take_away(w, t, place(w, t, "%l", lower), bottom, top, "%x", rest, "%columns")
        corner = place(w, t, "%l", w.iadd(lower, top))
        numbers[1] = ("i64", bottom)
        w.call("lu.solve", "void", [("ptr", corner), ("ptr", rest), *numbers])
        return []

    w.if_else(w.cmp("sle", "i64", "%rows", str(BLOCK_ROWS)), [], substituted, halved)
    w.ret()


def _emit_recurse(module: ModuleWriter, t: P) -> None:
    """i64 lu.recurse(a, pitch, m, n, pivots, first, panel, negated): as lu.base, of any n."""
    w = module.function("lu.recurse", _RECURSE, "i64", internal=True)
    lanes = Rows(w, t).lanes.count
    few = w.imin("%m", "%n")
    is_base = w.cmp("sle", "i64", few, str(lanes))
    left = w.select(is_base, "i64", few, _half(w, few, lanes))
    given = {name: (ty, f"%{name}") for ty, name in _RECURSE} | {"n": ("i64", left)}

    def base() -> list[str]:
        return [w.call("lu.base", "i64", [given[name] for _, name in _BASE])]

    def half() -> list[str]:
        return [w.call("lu.recurse", "i64", [given[name] for _, name in _RECURSE])]

    (info,) = w.if_else(is_base, ["i64"], base, half)
    right = w.isub("%n", left)

    def swap(a: str, pivots: str, first: str, count: str, columns: str) -> None:
        values = [a, "%pitch", pivots, first, count, columns]
        w.call("lu.swap", "void", [(ty, x) for (ty, _), x in zip(_SWAP, values, strict=True)])

    def rest() -> list[str]:
        top, lower = place(w, t, "%a", left), w.imul(left, "%pitch")
        swap(top, "%pivots", "%first", left, right)
        numbers = [("i64", "%pitch"), ("i64", left), ("i64", right), ("ptr", "%negated")]
        w.call("lu.solve", "void", [("ptr", "%a"), ("ptr", top), *numbers])
        rows = w.isub("%m", left)

        def below() -> list[str]:
            beside = place(w, t, "%a", lower)
            corner = place(w, t, "%a", w.iadd(lower, left))
            _take_away(w, t, beside, rows, left, top, corner, right)
            pivots, first = w.gep("i32", "%pivots", left), w.iadd("%first", left)
            values = [corner, "%pitch", rows, right, pivots, first, "%panel", "%negated"]
            arguments = [(ty, x) for (ty, _), x in zip(_RECURSE, values, strict=True)]
            found = w.call("lu.recurse", "i64", arguments)
            swap(beside, pivots, first, w.imin(rows, right), left)
            return [found]

        (found,) = w.if_else(w.cmp("sgt", "i64", rows, "0"), ["i64"], below, lambda: ["0"])
        return [w.select(w.cmp("ne", "i64", info, "0"), "i64", info, found)]

    (info,) = w.if_else(w.cmp("sgt", "i64", right, "0"), ["i64"], rest, lambda: [info])
    w.ret("i64", info)


def _emit(t: P, module: ModuleWriter) -> None:
    emit_negate(module, t)
    emit_substitute(module, t)
    for emit in (_emit_base, _emit_swap, _emit_solve, _emit_recurse):
        emit(module, t)
    emit_tasks(module, f"pyjax_lu_blocked_{t}", _PARAMETERS, partial(_problem, t))


def _problem(t: P, w: FunctionWriter, given: Mapping[str, str], number: str, task: str) -> None:
    m, n = given["m"], given["n"]
    size = w.imul(m, n)
    panel = place(w, t, given["panel"], w.imul(task, w.imul(m, MOST_LANES)))
    negated = place(w, t, given["negated"], w.imul(task, size))
    start = w.imul(number, size)
    a, lu = place(w, t, given["a"], start), place(w, t, given["lu"], start)
    copy_bytes(w, lu, a, w.imul(size, t.byte_size))
    pivots = w.gep("i32", given["pivots"], w.imul(number, w.imin(m, n)))
    values = [lu, n, m, n, pivots, "0", panel, negated]
    arguments = [(ty, x) for (ty, _), x in zip(_RECURSE, values, strict=True)]
    info = w.cast("trunc", "i64", w.call("lu.recurse", "i64", arguments), "i32")
    w.store("i32", info, w.gep("i32", given["info"], number))


def register() -> None:
    """Declares the routine of every element type."""
    for t in TYPES:
        register_group(f"lu_blocked_{t}", (f"pyjax_lu_blocked_{t}",), partial(_emit, t))
