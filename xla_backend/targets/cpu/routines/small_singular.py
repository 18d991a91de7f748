"""Singular values and vectors of small matrices, many at a time (see `matrix_lanes`).

void pyjax_svd_<t>(batches, m, n, left, right, ptr a, ptr copy, ptr s, ptr u, ptr vh, ptr info)
      s: descending; u [m, left] and vh [right, n], where left is m or k = min(m, n) and right is n
      or k: orthonormal columns and rows; left = 0: no vectors, u [m, k] and vh [k, n] are zero;
      copy: a again; info, s32: 0, or 1 with NaN where a is not finite
      t: f32 f64 c64 c128; all matrices by rows, one behind the other; n, m <= MOST_ROWS

One-sided Jacobi: rotations of pairs of columns (of rows, where those are fewer) make all of them
orthogonal. Their lengths are the singular values. Reflectors that make the sorted columns
triangular, and so diagonal, give the other vectors, those of zero singular values, too.
"""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.llvm.types import const, element, mask_of
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.cpu.routines.lane_groups import LaneRoutine, register_lane_routines
from xla_backend.targets.cpu.routines.matrix_facts import MOST_ROWS, TYPES
from xla_backend.targets.cpu.routines.matrix_lanes import Element, Lanes, element_of, parts_of
from xla_backend.targets.cpu.routines.small_eigen import rotate_rows, rotation, sweep
from xla_backend.targets.cpu.routines.small_reflectors import (
    apply_reflectors,
    by_rows,
    make_reflectors,
    store_identity,
)

_SVD = [
    *(("i64", name) for name in ("batches", "m", "n", "left", "right")),
    *(("ptr", name) for name in ("a", "copy", "s", "u", "vh", "info")),
]


def _negligible(lanes: Lanes) -> float:
    """The cosine of two columns that count as orthogonal: what rounding leaves of 16 products."""
    return 2.0**-21 if element(lanes.ty) == "float" else 2.0**-50


class _Problem:
    """Sizes, and where the operands of each lane lie. `few` are columns (rows, where those are
    fewer), of length `many`."""

    def __init__(self, lanes: Lanes, first: str, count: str) -> None:
        w, self.lanes = lanes.w, lanes
        self.is_tall = w.cmp("sge", "i64", "%m", "%n")
        self.few, self.many = w.imin("%m", "%n"), w.imax("%m", "%n")
        scalar = element(lanes.ty)
        sign = w.select(self.is_tall, scalar, const(scalar, 1.0), const(scalar, -1.0))
        self.sign = w.splat(lanes.ty, sign)  # -1 where the columns are conjugates of rows
        self._first, self._count = first, count
        self.has_vectors = w.cmp("ne", "i64", "%left", "0")
        self.left = w.select(self.has_vectors, "i64", "%left", self.few)
        self.right = w.select(self.has_vectors, "i64", "%right", self.few)

    def places(self, array: str, size: str, *, real: bool = False) -> tuple[str, str]:
        """(start of the first lane's part, offsets of the lanes) of an array."""
        w = self.lanes.w
        step = size if real else w.imul(size, self.lanes.parts)
        offsets = self.lanes.offsets(self._first, self._count, step)
        start = w.gep(element(self.lanes.ty), f"%{array}", w.imul(self._first, step))
        return start, offsets

    def column(self, c: str, i: str) -> str:
        """Where element i of column c is in the given matrix."""
        w = self.lanes.w
        tall, wide = w.iadd(w.imul(i, "%n"), c), w.iadd(w.imul(c, "%n"), i)
        return w.select(self.is_tall, "i64", tall, wide)


def _svd(lanes: Lanes, first: str, count: str) -> None:
    w, ty, ints = lanes.w, lanes.ty, lanes.index_ty
    p = _Problem(lanes, first, count)
    columns, basis, work = (lanes.scratch(MOST_ROWS * MOST_ROWS) for _ in range(3))
    taus, lengths = lanes.scratch(MOST_ROWS), w.alloca(ty, MOST_ROWS, 64)
    zero, nan = const(ty, 0.0), const(ty, float("nan"))
    a, places = p.places("a", w.imul("%m", "%n"))
    copy, _ = p.places("copy", w.imul("%m", "%n"))
    with w.loop("0", w.imul("%m", "%n"), 1, [(ty, zero)]) as loop:
        value = lanes.read(a, places, loop.index)
        lanes.write(copy, places, loop.index, value)
        loop.next = [lanes.largest(loop.carried[0], value)]
    finite = lanes.is_finite(loop.results[0])
    power, inverse = lanes.power_of_two(loop.results[0])
    at = by_rows(w, p.many)
    with w.loop("0", p.few) as c, w.loop("0", p.many) as i:
        value = lanes.read(a, places, p.column(c.index, i.index))
        value = lanes.with_sign(lanes.times_real(value, inverse), p.sign)
        # What is not finite is replaced: nothing of it is wanted but that.
        lanes.store(columns, at(c.index, i.index), lanes.select(finite, value, lanes.zero()))
    store_identity(lanes, basis, p.few, p.few)
    _make_orthogonal(lanes, columns, basis, p)
    with w.loop("0", p.few) as c:
        square = _product(lanes, columns, c.index, c.index, p.many)
        length = w.intrinsic("sqrt", ty, parts_of(square)[0])
        w.store(ty, length, w.gep(ty, lengths, c.index))

    s, of_values = p.places("s", p.few, real=True)
    vectors = {name: p.places(name, w.imul(*size)) for name, size in (
        ("u", ("%m", p.left)), ("vh", (p.right, "%n")),
    )}  # fmt: skip

    def write(name: str, row: str, column: str, value: Element, moved: str | None = None) -> None:
        """An element of u or vh; moved: places that each lane's is further on."""
        start, offsets = vectors[name]
        offsets = offsets if moved is None else w.op("add", ints, offsets, moved)
        width = p.left if name == "u" else "%n"
        value = lanes.select(finite, value, lanes.real(nan))
        lanes.write(start, offsets, by_rows(w, width)(row, column), value)

    with w.loop("0", p.few) as c:
        rank = lanes.ranks(lengths, c.index, p.few, "ogt")
        value = w.op("fmul", ty, w.load(ty, w.gep(ty, lengths, c.index)), power)
        value = w.select(finite, ty, value, nan)
        w.scatter(ty, value, s, ints, w.op("add", ints, of_values, rank))
        with w.if_(p.has_vectors):
            # Column `rank` of what the reflectors are of, and of u; row `rank` of vh.
            start = lanes.place_of(rank, "1")
            with w.loop("0", p.many) as i:
                place = lanes.moved(start, w.imul(i.index, p.few))
                lanes.store_each(work, place, lanes.load(columns, at(c.index, i.index)))
            by_column = w.op("mul", ints, rank, const(ints, lanes.parts))
            by_row = w.op("mul", ints, by_column, lanes.everywhere("%n"))
            with w.loop("0", p.few) as k:
                value = lanes.load(basis, by_rows(w, p.few)(c.index, k.index))

                def right(k: str = k.index, value: Element = value) -> list[str]:
                    write("vh", "0", k, lanes.conjugate(value), by_row)
                    return []

                def left(k: str = k.index, value: Element = value) -> list[str]:
                    write("u", k, "0", value, by_column)
                    return []

                w.if_else(p.is_tall, [], right, left)

    def others() -> list[str]:
        _write_others(lanes, p, work, columns, taus, write)
        return []

    def nothing() -> list[str]:
        for name, rows, width in (("u", "%m", p.left), ("vh", p.right, "%n")):
            start, offsets = vectors[name]
            with w.loop("0", w.imul(rows, width)) as loop:
                lanes.write(start, offsets, loop.index, lanes.zero())
        return []

    w.if_else(p.has_vectors, [], others, nothing)
    failed = w.select(finite, ints, const(ints, 0), const(ints, 1))
    w.scatter(ints, failed, w.gep("i32", "%info", first), ints, lanes.offsets(first, count, "1"))


def _product(lanes: Lanes, columns: str, x: str, y: str, length: str) -> Element:
    """x^H y of two columns."""
    w = lanes.w
    with w.loop("0", length, 1, lanes.carries(lanes.zero())) as loop:
        at = [w.iadd(w.imul(column, length), loop.index) for column in (x, y)]
        pair = [lanes.load(columns, place) for place in at]
        total = lanes.plus_product(element_of(loop.carried), lanes.conjugate(pair[0]), pair[1])
        loop.next = [*parts_of(total)]
    return element_of(loop.results)


def _make_orthogonal(lanes: Lanes, columns: str, basis: str, p: _Problem) -> None:
    """Rotates pairs of columns, and those of the basis with them."""
    w = lanes.w

    def pair(x: str, y: str) -> str:
        first, second, across = (
            _product(lanes, columns, *each, p.many) for each in ((x, x), (y, y), (x, y))
        )
        squares = parts_of(first)[0], parts_of(second)[0]
        r = rotation(lanes, *squares, across, _negligible(lanes))
        with w.if_(lanes.in_any(r.wanted)):
            rotate_rows(lanes, r, columns, x, y, p.many)
            rotate_rows(lanes, r, basis, x, y, p.few)
        return r.wanted

    sweep(lanes, p.few, pair)


def _write_others(
    lanes: Lanes, p: _Problem, work: str, memory: str, taus: str, write: Callable[..., None]
) -> None:
    """The vectors of the longer side, from the sorted columns in `work`."""
    w, ty = lanes.w, lanes.ty
    make_reflectors(lanes, work, p.many, p.few, taus)
    width = w.select(p.is_tall, "i64", p.left, p.right)
    store_identity(lanes, memory, p.many, width)
    at, of_work = by_rows(w, width), by_rows(w, p.few)
    apply_reflectors(
        lanes,
        (work, of_work),
        taus,
        p.few,
        (memory, at),
        (p.many, width),
        forward="false",
        conjugated="false",
    )
    with w.loop("0", width) as c:
        own = w.cmp("slt", "i64", c.index, p.few)
        place = w.select(own, "i64", of_work(c.index, c.index), "0")
        length = parts_of(lanes.load(work, place))[0]
        sign = w.intrinsic("copysign", ty, const(ty, 1.0), length)
        sign = w.select(w.splat(mask_of(ty), own), ty, sign, const(ty, 1.0))
        with w.loop("0", p.many) as i:
            value = lanes.times_real(lanes.load(memory, at(i.index, c.index)), sign)

            def left(i: str = i.index, c: str = c.index, value: Element = value) -> list[str]:
                write("u", i, c, value)
                return []

            def right(i: str = i.index, c: str = c.index, value: Element = value) -> list[str]:
                write("vh", c, i, lanes.conjugate(value))
                return []

            w.if_else(p.is_tall, [], left, right)


def _cycles(w: FunctionWriter) -> str:
    few = w.imin("%m", "%n")
    return w.imul(w.imul(few, few), w.imul(w.iadd(w.imax("%m", "%n"), 8), 64))


_ROUTINES = {"svd": LaneRoutine(_SVD, lambda w: "%batches", _cycles, _svd)}


def register() -> None:
    """Declares the routines of every element type."""
    register_lane_routines(_ROUTINES, TYPES)
