"""Cholesky factors and triangular systems of larger matrices, in blocks of rows.

  void pyjax_cholesky_blocked_<t>(batches, n, lower, tasks, ptr a, ptr out, ptr work, ptr negated)
  void pyjax_triangular_blocked_<t>(batches, n, sides, flags, tasks, ptr a, ptr b, ptr x, ptr work,
                                    ptr negated)
        as pyjax_cholesky_<t> and pyjax_triangular_<t> of `small_matrices`; of each task of a batch
        (`matrix_tasks`) work has room for one result, negated for BLOCK_ROWS rows of n elements

Rows of the upper factor, or of the unknowns, are computed in their order: a product takes away what
earlier blocks contribute, then the rows of the block are substituted one after another, in vectors
along the rows. Diagonal blocks are not inverted, which would cost accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.bytes import copy_bytes
from xla_backend.llvm.types import const, element
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.matrix_facts import (
    BLOCK_ROWS,
    CONJUGATED,
    LOWER,
    RIGHT,
    TRANSPOSED,
    TYPES,
    UNIT,
)
from xla_backend.targets.cpu.routines.matrix_lanes import Element, element_of, parts_of
from xla_backend.targets.cpu.routines.matrix_rows import (
    Rows,
    emit_negate,
    emit_transpose,
    place,
    product,
)
from xla_backend.targets.cpu.routines.matrix_tasks import emit_tasks
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.task_context import read_table, run_tasks, table_of_parameters

# Rows of a factor that are taken away from those behind them in one pass over these.
_AT_ONCE = 4
# Columns of a substitution that one thread does at a time.
_COLUMNS = 128


def _flag(w: FunctionWriter, flags: str, bit: int) -> str:
    return w.cmp("ne", "i64", w.op("and", "i64", flags, str(bit)), "0")


# -- helpers, once in each group -------------------------------------------------------------------


SUBSTITUTE = [
    ("ptr", "m"), ("i64", "row"), ("i64", "column"), ("i64", "direction"), ("i64", "conjugated"),
    ("i64", "unit"), ("i64", "rows"), ("ptr", "x"), ("i64", "pitch"), ("i64", "columns"),
]  # fmt: skip


def emit_substitute(module: ModuleWriter, t: P) -> None:
    """void blocked.substitute(...): rows of x, from the first one on or (direction -1) back, are
    solved for; m and x point to the first one. Element (i, j) of m is at i row + j column."""
    w = module.function(
        "blocked.substitute.task", [("ptr", "ctx"), ("i64", "block")], internal=True
    )
    given = read_table(w, "%ctx", SUBSTITUTE)
    v = Rows(w, t)
    lanes, ty = v.lanes, v.lanes.ty
    real = element(ty)
    conjugated = w.cmp("ne", "i64", given["conjugated"], "0")
    sign = w.splat(ty, w.select(conjugated, real, const(real, -1.0), const(real, 1.0)))
    unit = w.cmp("ne", "i64", given["unit"], "0")
    step = w.imul(given["direction"], given["pitch"])
    start = w.imul("%block", _COLUMNS)
    stop = w.imin(w.iadd(start, _COLUMNS), given["columns"])

    def coefficient(i: str, j: str) -> Element:
        at = w.iadd(w.imul(i, given["row"]), w.imul(j, given["column"]))
        return lanes.with_sign(v.number(given["m"], w.imul(at, given["direction"])), sign)

    with w.loop("0", given["rows"]) as rows:
        i = rows.index
        mine = place(w, t, given["x"], w.imul(i, step))
        with w.loop(start, stop, lanes.count) as columns:
            mask = v.mask(columns.index, stop)
            value = v.load(mine, columns.index, mask)
            with w.loop("0", i, 1, lanes.carries(value)) as sums:
                other = place(w, t, given["x"], w.imul(sums.index, step))
                x = v.load(other, columns.index, mask)
                carried = sums.carried
                total: Element = element_of(carried)
                sums.next = [*parts_of(lanes.minus_product(total, coefficient(i, sums.index), x))]
            results = sums.results
            total = element_of(results)
            parts = w.if_else(
                unit,
                [ty] * lanes.parts,
                lambda: [*parts_of(total)],
                lambda: [*parts_of(lanes.quotient(total, coefficient(i, i)))],
            )
            v.store(mine, columns.index, element_of(parts), mask)
    w.ret()
    w = module.function("blocked.substitute", SUBSTITUTE, internal=True)
    context = table_of_parameters(w, SUBSTITUTE)
    blocks = w.op("udiv", "i64", w.iadd("%columns", _COLUMNS - 1), str(_COLUMNS))
    run_tasks(w, "blocked.substitute.task", context, blocks)
    w.ret()


# -- Cholesky --------------------------------------------------------------------------------------

_CHOLESKY = [
    *(("i64", name) for name in ("batches", "n", "lower", "tasks")),
    *(("ptr", name) for name in ("a", "out", "work", "negated")),
]


def _emit_diagonal(module: ModuleWriter, t: P) -> None:
    """i1 blocked.diagonal(ptr u, pitch, rows): the upper factor of a square at u in its upper
    triangle; whether there is one."""
    w = module.function(
        "blocked.diagonal", [("ptr", "u"), ("i64", "pitch"), ("i64", "rows")], "i1", internal=True
    )
    v = Rows(w, t)
    lanes, ty = v.lanes, v.lanes.ty
    real = element(ty)

    def row(number: str) -> str:
        return place(w, t, "%u", w.imul(number, "%pitch"))

    def take_away(i: str, uppers: list[str]) -> None:
        """From row i what some rows above it contribute. Vectors begin at multiples of their
        length: what changes in the lower triangle is nobody's."""
        factors = [lanes.conjugate(v.number(upper, i)) for upper in uppers]
        mine = row(i)
        with w.loop(w.op("and", "i64", i, str(-lanes.count)), "%rows", lanes.count) as columns:
            mask = v.mask(columns.index, "%rows")
            value = v.load(mine, columns.index, mask)
            for factor, upper in zip(factors, uppers, strict=True):
                x = v.load(upper, columns.index, mask)
                value = lanes.minus_product(value, factor, x)
            v.store(mine, columns.index, value, mask)

    with w.loop("0", "%rows", _AT_ONCE, [("i1", "true")]) as steps:
        first = steps.index
        stop = w.imin(w.iadd(first, _AT_ONCE), "%rows")
        with w.loop(first, stop, 1, [("i1", steps.carried[0])]) as rows:
            k = rows.index
            upper = row(k)
            here = place(w, t, upper, k)
            pivot = w.load(real, here)
            good = w.cmp("ogt", real, pivot, const(real, 0.0))
            root = w.intrinsic("sqrt", real, pivot)
            inverse = w.splat(ty, w.op("fdiv", real, const(real, 1.0), root))
            start = w.op("and", "i64", k, str(-lanes.count))
            with w.loop(start, "%rows", lanes.count) as columns:
                mask = v.mask(columns.index, "%rows")
                value = lanes.times_real(v.load(upper, columns.index, mask), inverse)
                v.store(upper, columns.index, value, mask)
            w.store(real, root, here)
            if t.is_complex:
                w.store(real, const(real, 0.0), w.gep(real, here, 1))
            with w.loop(w.iadd(k, 1), stop) as below:
                take_away(below.index, [upper])
            rows.next = [w.op("and", "i1", rows.carried[0], good)]
        # There are rows behind these only if they are as many.
        with w.loop(stop, "%rows") as below:
            take_away(below.index, [row(w.iadd(first, each)) for each in range(_AT_ONCE)])
        steps.next = [rows.results[0]]
    w.ret("i1", steps.results[0])


def _emit_cholesky(t: P, module: ModuleWriter) -> None:
    emit_negate(module, t)
    emit_transpose(module, t)
    emit_substitute(module, t)
    _emit_diagonal(module, t)
    emit_tasks(module, f"pyjax_cholesky_blocked_{t}", _CHOLESKY, partial(_factor, t))


def _factor(t: P, w: FunctionWriter, given: Mapping[str, str], number: str, task: str) -> None:
    """The factor by rows, in the upper triangle."""
    n = given["n"]
    lower = w.cmp("ne", "i64", given["lower"], "0")
    size = w.imul(n, n)
    first = w.imul(number, size)
    a, out = place(w, t, given["a"], first), place(w, t, given["out"], first)
    work = place(w, t, given["work"], w.imul(task, size))
    negated = place(w, t, given["negated"], w.imul(task, w.imul(n, BLOCK_ROWS)))
    upper = w.select(lower, "ptr", work, out)
    turn = [("i64", n), ("i64", n), ("i64", "1")]

    def turned() -> list[str]:
        w.call("rows.transpose", "void", [("ptr", a), *turn, ("ptr", upper)])
        return []

    def copied() -> list[str]:
        copy_bytes(w, upper, a, w.imul(size, str(t.byte_size)))
        return []

    w.if_else(lower, [], turned, copied)
    with w.loop("0", n, BLOCK_ROWS, [("i1", "true")]) as blocks:
        start = blocks.index
        rows = w.imin(w.isub(n, start), BLOCK_ROWS)
        above = place(w, t, upper, start)
        mine = place(w, t, upper, w.imul(start, w.iadd(n, 1)))
        with w.if_(w.cmp("sgt", "i64", start, "0")):
            taken = [("ptr", above), ("i64", n), ("i64", start), ("i64", rows), ("i64", "1")]
            w.call("rows.negate", "void", [*taken, ("ptr", negated)])
            product(w, t, rows, w.isub(n, start), start, negated, "1", rows, above, n, "1", mine, n)
        square = [("ptr", mine), ("i64", n), ("i64", rows)]
        good = w.call("blocked.diagonal", "i1", square)
        rest = w.isub(w.isub(n, start), rows)
        with w.if_(w.cmp("sgt", "i64", rest, "0")):
            values = [mine, "1", n, "1", "1", "0", rows, place(w, t, mine, rows), n, rest]
            pairs = [(ty, x) for (ty, _), x in zip(SUBSTITUTE, values, strict=True)]
            w.call("blocked.substitute", "void", pairs)
        blocks.next = [w.op("and", "i1", blocks.carried[0], good)]
    good = blocks.results[0]

    def back() -> list[str]:
        w.call("rows.transpose", "void", [("ptr", upper), *turn, ("ptr", out)])
        return []

    w.if_else(lower, [], back, list)
    _clear(w, t, out, n, lower, good)


def _clear(w: FunctionWriter, t: P, out: str, n: str, lower: str, good: str) -> None:
    """Zero in the other triangle, NaN in this one where there is no factor."""
    v = Rows(w, t)
    lanes, ty = v.lanes, v.lanes.ty
    zero, nan = lanes.zero(), lanes.real(const(ty, float("nan")))
    with w.loop("0", n) as rows:
        i = rows.index
        row = place(w, t, out, w.imul(i, n))

        def fill(start: str, stop: str, value: Element) -> None:
            with w.loop(start, stop, lanes.count) as columns:
                v.store(row, columns.index, value, v.mask(columns.index, stop))

        fill(w.select(lower, "i64", w.iadd(i, 1), "0"), w.select(lower, "i64", n, i), zero)
        with w.if_(w.not_("i1", good)):
            fill(
                w.select(lower, "i64", "0", i),
                w.select(lower, "i64", w.iadd(i, 1), n),
                nan,
            )


# -- triangular systems ----------------------------------------------------------------------------

_TRIANGULAR = [
    *(("i64", name) for name in ("batches", "n", "sides", "flags", "tasks")),
    *(("ptr", name) for name in ("a", "b", "x", "work", "negated")),
]


def _emit_triangular(t: P, module: ModuleWriter) -> None:
    emit_negate(module, t)
    emit_transpose(module, t)
    emit_substitute(module, t)
    emit_tasks(module, f"pyjax_triangular_blocked_{t}", _TRIANGULAR, partial(_solve, t))


def _solve(t: P, w: FunctionWriter, given: Mapping[str, str], number: str, task: str) -> None:
    """Solves for one array of sides."""
    n, sides, flags = given["n"], given["sides"], given["flags"]
    right = _flag(w, flags, RIGHT)
    turned = w.op("xor", "i1", _flag(w, flags, TRANSPOSED), right)
    forward = w.op("xor", "i1", _flag(w, flags, LOWER), turned)
    direction = w.select(forward, "i64", "1", "-1")
    row, column = w.select(turned, "i64", "1", n), w.select(turned, "i64", n, "1")
    conjugated = w.cast("zext", "i1", _flag(w, flags, CONJUGATED), "i64")
    unit = w.cast("zext", "i1", _flag(w, flags, UNIT), "i64")
    a = place(w, t, given["a"], w.imul(number, w.imul(n, n)))
    size = w.imul(n, sides)
    offset = w.imul(number, size)
    b, x = place(w, t, given["b"], offset), place(w, t, given["x"], offset)
    work = place(w, t, given["work"], w.imul(task, size))
    negated = place(w, t, given["negated"], w.imul(task, w.imul(n, BLOCK_ROWS)))
    solved = w.select(right, "ptr", work, x)

    def taken() -> list[str]:
        sizes = [("i64", sides), ("i64", n), ("i64", "0")]
        w.call("rows.transpose", "void", [("ptr", b), *sizes, ("ptr", solved)])
        return []

    def copied() -> list[str]:
        bytes_ = w.imul(size, t.byte_size)
        w.module.declare("llvm.memmove.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"])
        w.line(f"call void @llvm.memmove.p0.p0.i64(ptr {solved}, ptr {b}, i64 {bytes_}, i1 false)")
        return []

    w.if_else(right, [], taken, copied)
    with w.loop("0", n, BLOCK_ROWS) as blocks:
        done = blocks.index
        rows = w.imin(w.isub(n, done), BLOCK_ROWS)
        # First rows of the block and of those that are solved, in memory.
        top = w.select(forward, "i64", done, w.isub(w.isub(n, done), rows))
        known = w.select(forward, "i64", "0", w.isub(n, done))
        corner = w.iadd(w.imul(top, row), w.imul(known, column))
        source = place(w, t, a, corner)
        mine = place(w, t, solved, w.imul(top, sides))
        with w.if_(w.cmp("sgt", "i64", done, "0")):
            copy_rows = w.select(turned, "i64", done, rows)
            copy_columns = w.select(turned, "i64", rows, done)
            numbers = [("i64", v) for v in (n, copy_rows, copy_columns, conjugated)]
            w.call("rows.negate", "void", [("ptr", source), *numbers, ("ptr", negated)])
            product(
                w, t, rows, sides, done,
                negated,
                w.select(turned, "i64", "1", done), w.select(turned, "i64", rows, "1"),
                place(w, t, solved, w.imul(known, sides)), sides, "1", mine, sides,
            )  # fmt: skip
        begin = w.select(forward, "i64", top, w.isub(w.iadd(top, rows), 1))
        values = [
            place(w, t, a, w.imul(begin, w.iadd(n, 1))), row, column, direction, conjugated,
            unit, rows, place(w, t, solved, w.imul(begin, sides)), sides, sides,
        ]  # fmt: skip
        pairs = [(ty, value) for (ty, _), value in zip(SUBSTITUTE, values, strict=True)]
        w.call("blocked.substitute", "void", pairs)
    with w.if_(right):
        sizes = [("i64", n), ("i64", sides), ("i64", "0")]
        w.call("rows.transpose", "void", [("ptr", solved), *sizes, ("ptr", x)])


_EMITTERS = {"cholesky_blocked": _emit_cholesky, "triangular_blocked": _emit_triangular}


def register() -> None:
    """Declares the routines of every element type."""
    for name, emit in _EMITTERS.items():
        for t in TYPES:
            register_group(f"{name}_{t}", (f"pyjax_{name}_{t}",), partial(emit, t))
