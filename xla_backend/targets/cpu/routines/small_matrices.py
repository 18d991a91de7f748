"""Factors of small matrices and triangular systems, many at a time (see `matrix_lanes`).

void pyjax_cholesky_<t>(batches, n, lower, ptr a, ptr out)
      a: hermitian, of which the lower (or upper) triangle is read; out: its factor, zero in the
      other triangle, NaN in this one where a is not positive definite
void pyjax_lu_<t>(batches, m, n, ptr a, ptr lu, ptr pivots, ptr info)
      as LAPACK's getrf: rows of lu are exchanged with `pivots`, s32, which count from 1; info,
      s32: the first pivot that is 0, from 1, or 0
void pyjax_triangular_<t>(batches, n, sides, flags, ptr a, ptr b, ptr x)
      op(a) x = b with b [n, sides], or x op(a) = b with b [sides, n]; flags: the sum of RIGHT,
      LOWER, TRANSPOSED, CONJUGATED and UNIT
      t: f32 f64 c64 c128; all matrices by rows, one behind the other; n, m <= MOST_ROWS
"""

from __future__ import annotations

from xla_backend.llvm.types import const, element, mask_of
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.cpu.routines.lane_groups import LaneRoutine, register_lane_routines
from xla_backend.targets.cpu.routines.matrix_facts import (
    CONJUGATED,
    LOWER,
    MOST_ROWS,
    RIGHT,
    TRANSPOSED,
    TYPES,
    UNIT,
)
from xla_backend.targets.cpu.routines.matrix_lanes import Lanes, element_of, parts_of


def _flag(w: FunctionWriter, bit: int) -> str:
    return w.cmp("ne", "i64", w.op("and", "i64", "%flags", str(bit)), "0")


def _at(w: FunctionWriter, i: str, j: str, n: str) -> str:
    return w.iadd(w.imul(i, n), j)


# -- Cholesky --------------------------------------------------------------------------------------

_CHOLESKY = [("i64", "batches"), ("i64", "n"), ("i64", "lower"), ("ptr", "a"), ("ptr", "out")]


def _cholesky(lanes: Lanes, first: str, count: str) -> None:
    """Row by row of the lower factor; for an upper one rows and columns of the arrays trade
    places, and elements are conjugated."""
    w, n, ty = lanes.w, "%n", lanes.ty
    is_lower = w.cmp("ne", "i64", "%lower", "0")
    row, column = w.select(is_lower, "i64", n, "1"), w.select(is_lower, "i64", "1", n)
    scalar = element(ty)
    sign = w.splat(ty, w.select(is_lower, scalar, const(scalar, 1.0), const(scalar, -1.0)))
    step = w.imul(w.imul(n, n), lanes.parts)
    offsets = lanes.offsets(first, count, step)
    a, out = (w.gep(element(ty), array, w.imul(first, step)) for array in ("%a", "%out"))
    factor, inverses = lanes.scratch(MOST_ROWS * MOST_ROWS), w.alloca(ty, MOST_ROWS, 64)

    def place(i: str, j: str) -> str:
        return w.iadd(w.imul(i, row), w.imul(j, column))

    def given(i: str, j: str) -> str | tuple[str, str]:
        return lanes.with_sign(lanes.read(a, offsets, place(i, j)), sign)

    with w.loop("0", n, 1, [(mask_of(ty), const(mask_of(ty), 1))]) as rows:
        i = rows.index
        with w.loop("0", i) as columns:
            j = columns.index
            with w.loop("0", j, 1, lanes.carries(given(i, j))) as sums:
                x, y = (lanes.load(factor, _at(w, r, sums.index, n)) for r in (i, j))
                total = element_of(sums.carried)
                sums.next = [*parts_of(lanes.minus_product(total, x, lanes.conjugate(y)))]
            inverse = w.load(ty, w.gep(ty, inverses, j))
            value = lanes.times_real(element_of(sums.results), inverse)
            lanes.store(factor, _at(w, i, j, n), value)
        diagonal = parts_of(given(i, i))[0]
        with w.loop("0", i, 1, [(ty, diagonal)]) as sums:
            x = lanes.load(factor, _at(w, i, sums.index, n))
            sums.next = [lanes.minus_square(sums.carried[0], x)]
        good = w.cmp("ogt", ty, sums.results[0], const(ty, 0.0))
        root = w.intrinsic("sqrt", ty, sums.results[0])
        w.store(ty, w.op("fdiv", ty, const(ty, 1.0), root), w.gep(ty, inverses, i))
        lanes.store(factor, _at(w, i, i, n), lanes.real(root))
        rows.next = [w.op("and", mask_of(ty), rows.carried[0], good)]
    good = rows.results[0]
    nan = lanes.real(const(ty, float("nan")))
    with w.loop("0", n) as rows:
        i = rows.index
        with w.loop("0", w.iadd(i, 1)) as columns:
            value = lanes.with_sign(lanes.load(factor, _at(w, i, columns.index, n)), sign)
            lanes.write(out, offsets, place(i, columns.index), lanes.select(good, value, nan))
        with w.loop(w.iadd(i, 1), n) as columns:
            lanes.write(out, offsets, place(i, columns.index), lanes.zero())


# -- LU --------------------------------------------------------------------------------------------

_LU = [
    *(("i64", name) for name in ("batches", "m", "n")),
    *(("ptr", name) for name in ("a", "lu", "pivots", "info")),
]


def _lu(lanes: Lanes, first: str, count: str) -> None:
    w, m, n, ty, ints = lanes.w, "%m", "%n", lanes.ty, lanes.index_ty
    size = w.imul(m, n)
    step = w.imul(size, lanes.parts)
    offsets = lanes.offsets(first, count, step)
    a, lu = (w.gep(element(ty), array, w.imul(first, step)) for array in ("%a", "%lu"))
    work = lanes.scratch(MOST_ROWS * MOST_ROWS)
    with w.loop("0", size) as loop:
        lanes.store(work, loop.index, lanes.read(a, offsets, loop.index))
    steps = w.imin(m, n)
    pivots, infos = (lanes.offsets(first, count, each) for each in (steps, "1"))
    zeros = const(ints, 0)
    with w.loop("0", steps, 1, [(ints, zeros)]) as loop:
        k = loop.index
        best = lanes.size(lanes.load(work, _at(w, k, k, n)))
        here = lanes.everywhere(k)
        with w.loop(w.iadd(k, 1), m, 1, [(ty, best), (ints, here)]) as rows:
            found = lanes.size(lanes.load(work, _at(w, rows.index, k, n)))
            row = lanes.everywhere(rows.index)
            larger = w.cmp("ogt", ty, found, rows.carried[0])
            rows.next = [
                w.select(larger, ty, found, rows.carried[0]),
                w.select(larger, ints, row, rows.carried[1]),
            ]
        best, pivot = rows.results
        from_one = w.op("add", ints, pivot, const(ints, 1))
        w.scatter(
            ints, from_one, w.gep("i32", "%pivots", w.iadd(w.imul(first, steps), k)), ints, pivots
        )
        start = lanes.place_of(pivot, n)
        with w.loop("0", n) as columns:
            there = lanes.moved(start, columns.index)
            mine = _at(w, k, columns.index, n)
            above, below = lanes.load(work, mine), lanes.load_each(work, there)
            lanes.store(work, mine, below)
            lanes.store_each(work, there, above)
        zero = w.cmp("oeq", ty, best, const(ty, 0.0))
        chosen = lanes.load(work, _at(w, k, k, n))
        divisor = lanes.select(zero, lanes.real(const(ty, 1.0)), chosen)
        with w.loop(w.iadd(k, 1), m) as rows:
            at = _at(w, rows.index, k, n)
            factor = lanes.quotient(lanes.load(work, at), divisor)
            lanes.store(work, at, factor)
            with w.loop(w.iadd(k, 1), n) as columns:
                at = _at(w, rows.index, columns.index, n)
                upper = lanes.load(work, _at(w, k, columns.index, n))
                lanes.store(work, at, lanes.minus_product(lanes.load(work, at), factor, upper))
        number = w.op("add", ints, here, const(ints, 1))
        first_zero = w.cmp("eq", ints, loop.carried[0], zeros)
        both = w.op("and", mask_of(ty), zero, first_zero)
        loop.next = [w.select(both, ints, number, loop.carried[0])]
    w.scatter(ints, loop.results[0], w.gep("i32", "%info", first), ints, infos)
    with w.loop("0", size) as each:
        lanes.write(lu, offsets, each.index, lanes.load(work, each.index))


# -- triangular systems ----------------------------------------------------------------------------

_TRIANGULAR = [
    *(("i64", name) for name in ("batches", "n", "sides", "flags")),
    *(("ptr", name) for name in ("a", "b", "x")),
]


def _triangular(lanes: Lanes, first: str, count: str) -> None:
    """Each right-hand side is a problem. m x = b, where m is op(a), or its transpose where x stands
    to the left; a triangle that is an upper one is solved from its last row."""
    w, n, sides, ty = lanes.w, "%n", "%sides", lanes.ty
    turned = w.op("xor", "i1", _flag(w, TRANSPOSED), _flag(w, RIGHT))
    forward = w.op("xor", "i1", _flag(w, LOWER), turned)
    row, column = w.select(turned, "i64", "1", n), w.select(turned, "i64", n, "1")
    b_row, b_side = (w.select(_flag(w, RIGHT), "i64", *each) for each in (("1", sides), (n, "1")))
    origin = w.select(forward, "i64", "0", w.isub(n, 1))
    direction = w.select(forward, "i64", "1", "-1")
    scalar = element(ty)
    sign = _flag(w, CONJUGATED)
    sign = w.splat(ty, w.select(sign, scalar, const(scalar, -1.0), const(scalar, 1.0)))
    unit = _flag(w, UNIT)
    solved = lanes.scratch(MOST_ROWS)

    # Where the matrix and the side of each lane begin.
    tables = [w.alloca("i32", lanes.count, 64) for _ in range(2)]
    matrix = w.op("sdiv", "i64", first, sides)
    side = w.isub(first, w.imul(matrix, sides))
    with w.loop(0, lanes.count, 1, [("i64", "0"), ("i64", side)]) as each:
        ahead, now = each.carried
        places = (
            w.imul(ahead, w.imul(n, n)),
            w.iadd(w.imul(ahead, w.imul(n, sides)), w.imul(now, b_side)),
        )
        for table, place in zip(tables, places):
            number = w.cast("trunc", "i64", w.imul(place, lanes.parts), "i32")
            w.store("i32", number, w.gep("i32", table, each.index))
        more = w.cmp("slt", "i64", w.iadd(w.iadd(first, each.index), 1), count)
        wraps = w.cmp("eq", "i64", w.iadd(now, 1), sides)
        next_side = w.select(wraps, "i64", "0", w.iadd(now, 1))
        next_matrix = w.select(wraps, "i64", w.iadd(ahead, 1), ahead)
        each.next = [
            w.select(more, "i64", next_matrix, ahead),
            w.select(more, "i64", next_side, now),
        ]
    a_places, b_places = (w.load(lanes.index_ty, table) for table in tables)
    matrices = w.gep(scalar, "%a", w.imul(matrix, w.imul(w.imul(n, n), lanes.parts)))
    start = w.imul(matrix, w.imul(w.imul(n, sides), lanes.parts))
    right, out = (w.gep(scalar, array, start) for array in ("%b", "%x"))

    def coefficient(i: str, j: str) -> str | tuple[str, str]:
        at = w.iadd(w.imul(i, row), w.imul(j, column))
        return lanes.with_sign(lanes.read(matrices, a_places, at), sign)

    with w.loop("0", n) as steps:
        i = w.iadd(origin, w.imul(steps.index, direction))
        value = lanes.read(right, b_places, w.imul(i, b_row))
        with w.loop("0", steps.index, 1, lanes.carries(value)) as sums:
            j = w.iadd(origin, w.imul(sums.index, direction))
            x = lanes.load(solved, sums.index)
            total = lanes.minus_product(element_of(sums.carried), coefficient(i, j), x)
            sums.next = [*parts_of(total)]
        total = element_of(sums.results)

        def divided() -> list[str]:
            return [*parts_of(lanes.quotient(total, coefficient(i, i)))]

        parts = w.if_else(unit, [ty] * lanes.parts, lambda: [*parts_of(total)], divided)
        lanes.store(solved, steps.index, element_of(parts))
        lanes.write(out, b_places, w.imul(i, b_row), element_of(parts))


# -- the groups ------------------------------------------------------------------------------------


def _cubed(w: FunctionWriter, m: str, n: str) -> str:
    return w.imul(w.imul(m, n), w.iadd(n, 32))


_ROUTINES = {
    "cholesky": LaneRoutine(
        _CHOLESKY, lambda w: "%batches", lambda w: _cubed(w, "%n", "%n"), _cholesky
    ),
    "lu": LaneRoutine(_LU, lambda w: "%batches", lambda w: _cubed(w, "%m", "%n"), _lu),
    "triangular": LaneRoutine(
        _TRIANGULAR,
        lambda w: w.imul("%batches", "%sides"),
        lambda w: w.imul(w.imul("%n", "%n"), 16),
        _triangular,
    ),
}


def register() -> None:
    """Declares the routines of every element type."""
    register_lane_routines(_ROUTINES, TYPES)
