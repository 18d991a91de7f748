"""Tridiagonal systems, many at a time (see `matrix_lanes`), each in as many steps as it has rows.

void pyjax_tridiagonal_<t>(batches, n, sides, ptr lower, ptr diagonal, ptr upper, ptr b, ptr x,
                           ptr info)
      as LAPACK's gtsv: row i of a system has lower[i], diagonal[i] and upper[i], of which the first
      and the last one do not count; b and x are [n, sides]; info, s32: the first pivot that is 0,
      from 1, or 0
      t: f32 f64 c64 c128; all systems one behind the other

Each right-hand side is a problem. Two of them, and very long ones, are one after the other: a row
waits for the one before, and most of the work of lanes is to read what is far apart.
"""

from __future__ import annotations

from xla_backend.llvm.types import const, element, mask_of
from xla_backend.targets.cpu.routines.lane_groups import LaneRoutine, register_lane_routines
from xla_backend.targets.cpu.routines.matrix_facts import TYPES
from xla_backend.targets.cpu.routines.matrix_lanes import Element, Lanes, element_of, parts_of
from xla_backend.targets.cpu.routines.workspace import give, take

_NUMBERS, _ARRAYS = ("batches", "n", "sides"), ("lower", "diagonal", "upper", "b", "x", "info")
_FIELDS = [*(("i64", name) for name in _NUMBERS), *(("ptr", name) for name in _ARRAYS)]
# What a row has after elimination: its diagonal, two numbers to the right, and the right-hand side.
_IN_ROW = 4
_FEW = 2
_LONG = 1 << 16  # what lanes of so many rows keep is out of the third cache
_CYCLES = 130  # of a row of a group


class _Systems:
    """Problems in lanes, number `first` on of `count`."""

    def __init__(self, lanes: Lanes, first: str, count: str) -> None:
        w = self.w = lanes.w
        self.lanes = lanes
        system = w.op("udiv", "i64", first, "%sides")
        side = lanes.everywhere(w.isub(first, w.imul(system, "%sides")))
        number = w.op("add", lanes.index_ty, lanes.offsets(first, count, "1"), side)
        sides = lanes.everywhere("%sides")
        self.systems = w.op("udiv", lanes.index_ty, number, sides)
        side = w.op("sub", lanes.index_ty, number, w.op("mul", lanes.index_ty, self.systems, sides))
        self.rows = self._times(self.systems, w.imul("%n", lanes.parts))
        of_system = w.imul(w.imul("%n", "%sides"), lanes.parts)
        self.columns = w.op(
            "add",
            lanes.index_ty,
            self._times(self.systems, of_system),
            self._times(side, str(lanes.parts)),
        )
        real = element(lanes.ty)
        self.lower, self.diagonal, self.upper = (
            w.gep(real, array, w.imul(w.imul(system, "%n"), lanes.parts))
            for array in ("%lower", "%diagonal", "%upper")
        )
        self.b, self.x = (w.gep(real, array, w.imul(system, of_system)) for array in ("%b", "%x"))
        self.info = w.gep("i32", "%info", system)

    def _times(self, numbers: str, step: str) -> str:
        return self.w.op("mul", self.lanes.index_ty, numbers, self.lanes.everywhere(step))

    def solve(self) -> None:
        w, lanes = self.w, self.lanes
        count = w.imul("%n", _IN_ROW * lanes.parts * lanes.count)
        work = take(w, count, element(lanes.ty))
        self._eliminate(work)
        self._substitute(work)
        give(w, work)

    def _right(self, i: str) -> Element:
        return self.lanes.read(self.b, self.columns, _row(self.lanes, i))

    def _upper(self, i: str) -> Element:
        """Beyond the last row there is nothing."""
        lanes, w = self.lanes, self.w
        found = lanes.read(self.upper, self.rows, i)
        last = w.cmp("eq", "i64", w.iadd(i, 1), "%n")
        ty, zero = lanes.ty, const(lanes.ty, 0.0)
        return lanes.map(
            lambda part: w.pure(f"select i1 {last}, {ty} {zero}, {ty} {part}", last, part), found
        )

    def _eliminate(self, work: str) -> None:
        """Row by row, with the larger of two pivots."""
        w, lanes, ty, ints = self.w, self.lanes, self.lanes.ty, self.lanes.index_ty
        parts = lanes.parts
        start = (lanes.read(self.diagonal, self.rows, "0"), self._upper("0"), self._right("0"))
        carries = [carry for each in start for carry in lanes.carries(each)]
        with w.loop("1", "%n", 1, [*carries, (ints, const(ints, 0))]) as loop:
            i = loop.index
            *carried, info = loop.carried
            given = [element_of(carried[k : k + parts]) for k in range(0, 3 * parts, parts)]
            row = (given[0], given[1], lanes.zero(), given[2])
            below = (
                lanes.read(self.lower, self.rows, i), lanes.read(self.diagonal, self.rows, i),
                self._upper(i), self._right(i),
            )  # fmt: skip
            swap = w.cmp("ogt", ty, lanes.size(below[0]), lanes.size(row[0]))
            pivot = [lanes.select(swap, b, a) for a, b in zip(row, below)]
            other = [lanes.select(swap, a, b) for a, b in zip(row, below)]
            at = w.imul(w.isub(i, 1), _IN_ROW)
            for k, each in enumerate(pivot):
                lanes.store(work, w.iadd(at, k), each)
            factor = lanes.quotient(other[0], pivot[0])
            rest = [lanes.minus_product(b, factor, a) for a, b in zip(pivot[1:], other[1:])]
            loop.next = [
                *(part for each in rest for part in parts_of(each)),
                self._failed(info, pivot[0], i),
            ]
        *carried, info = loop.results
        last = [element_of(carried[k : k + parts]) for k in range(0, 3 * parts, parts)]
        at = w.imul(w.isub("%n", 1), _IN_ROW)
        for k, each in enumerate((last[0], lanes.zero(), lanes.zero(), last[2])):
            lanes.store(work, w.iadd(at, k), each)
        w.scatter(ints, self._failed(info, last[0], "%n"), self.info, ints, self.systems)

    def _failed(self, info: str, pivot: Element, number: str) -> str:
        """The number of this row where its pivot is the first that is 0."""
        w, lanes, ints = self.w, self.lanes, self.lanes.index_ty
        zero = w.cmp("oeq", lanes.ty, lanes.size(pivot), const(lanes.ty, 0.0))
        none = w.cmp("eq", ints, info, const(ints, 0))
        first = w.op("and", mask_of(lanes.ty), zero, none)
        return w.select(first, ints, lanes.everywhere(number), info)

    def _substitute(self, work: str) -> None:
        w, lanes = self.w, self.lanes
        parts, nothing = lanes.parts, lanes.zero()
        carries = [*lanes.carries(nothing), *lanes.carries(nothing)]
        with w.loop("0", "%n", 1, carries) as loop:
            i = w.isub(w.isub("%n", 1), loop.index)
            near, far = element_of(loop.carried[:parts]), element_of(loop.carried[parts:])
            at = w.imul(i, _IN_ROW)
            pivot, first, second, total = (lanes.load(work, w.iadd(at, k)) for k in range(_IN_ROW))
            total = lanes.minus_product(total, second, far)
            total = lanes.minus_product(total, first, near)
            x = lanes.quotient(total, pivot)
            lanes.write(self.x, self.columns, _row(lanes, i), x)
            loop.next = [*parts_of(x), *parts_of(near)]


def _row(lanes: Lanes, i: str) -> str:
    """Where row i of the right-hand sides lies."""
    return lanes.w.imul(i, "%sides")


def _solve(lanes: Lanes, first: str, count: str) -> None:
    w = lanes.w
    left = w.imin(w.isub(count, first), lanes.count)

    def alone() -> list[str]:
        one = Lanes(w, lanes.t, alone=True)
        with w.loop(first, w.iadd(first, left)) as loop:
            _Systems(one, loop.index, count).solve()
        return []

    def together() -> list[str]:
        _Systems(lanes, first, count).solve()
        return []

    few = w.cmp("sle", "i64", left, str(_FEW))
    long = w.cmp("sgt", "i64", "%n", str(_LONG))
    w.if_else(w.op("or", "i1", few, long), [], alone, together)


_ROUTINES = {
    "tridiagonal": LaneRoutine(
        _FIELDS,
        lambda w: w.imul("%batches", "%sides"),
        lambda w: w.imul("%n", _CYCLES),
        _solve,
    )
}


def register() -> None:
    """Declares the routine of every element type."""
    register_lane_routines(_ROUTINES, TYPES)
