"""Reduction of a matrix to an upper bidiagonal one, B = Q^T A P, which reads what is left of it
once for a column and a row.

A reflector of a column needs the product of the matrix with that column, one of a row the product
with that row, and the next column follows from the latter (Howell, Demmel, Fulton, Hammarling and
Marmol): its element in a row is known as soon as that row has been multiplied. So each row is read,
multiplied, and added to the next product while it is in the first-level cache. That product is of a
column which has not been normalised, which is made good behind it.

What PAIRS reflectors of each side change is held back as a product W Z, of narrow matrices, and
taken from the matrix at once. A row of W has what belongs to reflectors of columns (V), then what
belongs to those of rows (X); Z has the corresponding rows, negated.

Numbers must be such that squares do not overflow; columns and rows that are too small for their
squares are multiplied by a power of two.
"""

from __future__ import annotations

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.bytes import clear_bytes, copy_bytes, prefetch
from xla_backend.llvm.types import const, element
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.matrix_lanes import Lanes
from xla_backend.targets.cpu.routines.matrix_rows import place, product
from xla_backend.targets.cpu.routines.reflector_blocks import call_function
from xla_backend.targets.cpu.routines.singular_plan import PAIRS

_WIDTH = 2 * PAIRS
# Rows that are multiplied at a time.
_AT_ONCE = 4
# Threads share products of more multiplications, and what is packed for those of more rows.
_MOST_ALONE, _ROWS_ALONE = (1 << 20) - 1, 64
# Sums of squares within these bounds have neither overflown nor lost anything.
_BOUNDS = {"float": (2.0**-80, 2.0**100), "double": (2.0**-900, 2.0**900)}
_REDUCE = [
    ("ptr", "a"), ("i64", "pitch"), ("i64", "m"), ("i64", "n"), ("ptr", "d"), ("ptr", "e"),
    ("ptr", "lefts"), ("ptr", "rights"), ("ptr", "reflectors"), ("ptr", "work"),
]  # fmt: skip
_PASS = [
    ("ptr", "a"), ("i64", "pitch"), ("ptr", "w"), ("i64", "first"), ("i64", "stop"),
    ("i64", "left"), ("ptr", "c"), ("ptr", "y"), ("ptr", "q"),
]  # fmt: skip
_WHOLE_PASS = [
    *_PASS, ("i64", "column"), ("ptr", "u"), ("ptr", "g"), ("ptr", "h"), ("i64", "lane"),
    ("ptr", "scalars"),
]  # fmt: skip
_COMBINE = [
    ("ptr", "target"), ("ptr", "factors"), ("ptr", "z"), ("i64", "pitch"), ("i64", "left"),
    ("i64", "count"),
]  # fmt: skip
# What is said of a reflector: the element that is left, tau, 1 / (alpha - beta), and beta of the
# numbers as they are in memory.
_BETA, _TAU, _FACTOR, _SCALED = range(4)


def emit_padded(w: FunctionWriter, count: str) -> str:
    """`padded`, of a number that is known when the code runs."""
    blocks = w.op("udiv", "i64", w.iadd(count, PAIRS - 1), str(PAIRS))
    return w.imul(w.op("or", "i64", blocks, "1"), PAIRS)


class _Reals:
    """Vectors of real numbers in rows without an end: what is behind them is zero."""

    def __init__(self, w: FunctionWriter, t: P) -> None:
        self.w, self.t, self.lanes = w, t, Lanes(w, t)
        self.ty, self.count = self.lanes.ty, self.lanes.count
        self.real = element(self.ty)
        self.zero = const(self.ty, 0.0)
        self.parts = _WIDTH // self.count

    def load(self, array: str, at: str | int) -> str:
        return self.w.load(self.ty, place(self.w, self.t, array, str(at)))

    def store(self, array: str, at: str | int, value: str) -> None:
        self.w.store(self.ty, value, place(self.w, self.t, array, str(at)))

    def number(self, array: str, at: str | int) -> str:
        return self.w.load(self.real, place(self.w, self.t, array, str(at)))

    def set_number(self, array: str, at: str | int, value: str) -> None:
        self.w.store(self.real, value, place(self.w, self.t, array, str(at)))

    def beyond(self, array: str, at: str) -> str:
        """A place that may lie behind the end."""
        return self.w.pure(f"getelementptr {self.real}, ptr {array}, i64 {at}", array, at)

    def numbered(self, at: str) -> str:
        """The numbers of a vector's places."""
        first = self.w.splat(self.lanes.index_ty, self.w.cast("trunc", "i64", at, "i32"))
        return self.w.op("add", self.lanes.index_ty, self.lanes.ones, first)

    def where(self, predicate: str, at: str, number: str) -> str:
        """Which places of a vector that starts `at` are so to a number."""
        other = self.w.splat(self.lanes.index_ty, self.w.cast("trunc", "i64", number, "i32"))
        return self.w.cmp(predicate, self.lanes.index_ty, self.numbered(at), other)

    def start(self, at: str) -> str:
        """Where the vector of a place starts."""
        return self.w.op("and", "i64", at, str(-self.count))

    def total(self, x: str) -> str:
        return self.w.reduce("fadd", self.ty, x)


def _emit_reflector(module: ModuleWriter, t: P) -> None:
    """i1 bidiagonal.reflector(x, first, stop, out): the reflector that leaves nothing of x behind
    its first element. Whether x has been multiplied for it."""
    fields = [("ptr", "x"), ("i64", "first"), ("i64", "stop"), ("ptr", "out")]
    w = module.function("bidiagonal.reflector", fields, "i1", internal=True, attributes="noinline")
    v = _Reals(w, t)
    ty, real = v.ty, v.real
    start = v.start("%first")
    one, none = const(real, 1.0), const(real, 0.0)

    def squares() -> list[str]:
        with w.loop(start, "%stop", v.count, [(ty, v.zero)]) as loop:
            x = w.select(v.where("sgt", loop.index, "%first"), ty, v.load("%x", loop.index), v.zero)
            loop.next = [w.fma(ty, x, x, loop.carried[0])]
        below, alpha = v.total(loop.results[0]), v.number("%x", "%first")
        return [below, w.fma(real, alpha, alpha, below)]

    below, total = squares()
    least, most = (const(real, bound) for bound in _BOUNDS[real])
    enough, finite = w.cmp("oge", real, total, least), w.cmp("ole", real, total, most)

    def again() -> list[str]:
        with w.loop(start, "%stop", v.count, [(ty, v.zero)]) as loop:
            x = w.select(v.where("sge", loop.index, "%first"), ty, v.load("%x", loop.index), v.zero)
            loop.next = [v.lanes.largest(loop.carried[0], x)]
        largest = w.splat(ty, w.reduce("fmax", ty, loop.results[0]))
        power, inverse = v.lanes.power_of_two(largest)
        with w.loop(start, "%stop", v.count) as loop:
            v.store("%x", loop.index, w.op("fmul", ty, v.load("%x", loop.index), inverse))
        return [*squares(), w.extract(ty, power, 0), "true"]

    below, total, power, rescaled = w.if_else(
        w.op("and", "i1", enough, finite),
        [real, real, real, "i1"],
        lambda: [below, total, one, "false"],
        again,
        likely=True,
    )
    alpha = v.number("%x", "%first")
    idle = w.cmp("oeq", real, below, none)
    root = w.intrinsic("sqrt", real, total)
    beta = w.fneg(real, w.intrinsic("copysign", real, root, alpha))
    tau = w.op("fdiv", real, w.op("fsub", real, beta, alpha), beta)
    factor = w.op("fdiv", real, one, w.op("fsub", real, alpha, beta))
    left = w.select(idle, real, alpha, beta)
    found = (
        w.op("fmul", real, left, power),
        w.select(idle, real, none, tau),
        w.select(idle, real, one, factor),
        w.select(idle, real, none, beta),
    )
    for number, value in enumerate(found):
        v.set_number("%out", number, value)
    w.ret("i1", rescaled)


def _emit_combine(module: ModuleWriter, t: P) -> None:
    """void bidiagonal.combine(target, factors, z, pitch, left, count): adds a row times Z, of
    which `count` rows of each half are there, from column `left` on."""
    w = module.function("bidiagonal.combine", _COMBINE, internal=True, attributes="noinline")
    v = _Reals(w, t)
    half = w.imul("%pitch", PAIRS)
    with w.loop("0", "%count") as loop:
        k = loop.index
        numbers = [v.number("%factors", at) for at in (k, w.iadd(k, PAIRS))]
        factors = [w.splat(v.ty, number) for number in numbers]
        upper = place(w, t, "%z", w.imul(k, "%pitch"))
        lower = place(w, t, upper, half)
        with w.loop("%left", "%pitch", v.count) as columns:
            j = columns.index
            total = v.load("%target", j)
            for factor, row in zip(factors, (upper, lower), strict=True):
                total = w.fma(v.ty, factor, v.load(row, j), total)
            v.store("%target", j, total)
    w.ret()


def _emit_project(module: ModuleWriter, t: P) -> None:
    """void bidiagonal.project(row, factors, z, pitch, left, count): the products of Z's rows with
    a row."""
    w = module.function("bidiagonal.project", _COMBINE, internal=True, attributes="noinline")
    v = _Reals(w, t)
    half = w.imul("%pitch", PAIRS)
    with w.loop("0", "%count", 2) as loop:
        k = loop.index
        first = place(w, t, "%z", w.imul(k, "%pitch"))
        second = place(w, t, first, "%pitch")
        rows = [first, second, *(place(w, t, row, half) for row in (first, second))]
        with w.loop("%left", "%pitch", v.count, [(v.ty, v.zero)] * len(rows)) as columns:
            u = v.load("%target", columns.index)
            columns.next = [
                w.fma(v.ty, v.load(row, columns.index), u, total)
                for row, total in zip(rows, columns.carried, strict=True)
            ]
        for number, total in enumerate(columns.results):
            at = w.iadd(k, number % 2 + number // 2 * PAIRS)
            v.set_number("%factors", at, v.total(total))
    w.ret()


def _emit_pass(module: ModuleWriter, t: P, *, whole: bool) -> None:
    """void bidiagonal.pass(...): the new element of X in each row, the next column c, and the sums
    y and q of c's elements times rows of the matrix and of W. void bidiagonal.sums(...): only
    those sums, of a column that is there."""
    fields = _WHOLE_PASS if whole else _PASS
    name = "bidiagonal.pass" if whole else "bidiagonal.sums"
    w = module.function(name, fields, internal=True, attributes="noinline")
    v = _Reals(w, t)
    ty, real, parts = v.ty, v.real, v.parts
    places = [str(part * v.count) for part in range(parts)]
    if whole:
        taup, factor = v.number("%scalars", 0), v.number("%scalars", 1)
        projected = [v.load("%g", at) for at in places]
        across = [v.load("%h", at) for at in places]
        x_lane = w.iadd("%lane", PAIRS)
        lanes = ("%lane",) * (parts // 2) + (x_lane,) * (parts - parts // 2)
        is_new = [v.where("eq", at, lane) for at, lane in zip(places, lanes, strict=True)]

    def column_of(rows: list[str], numbers: list[str], beside: list[str]) -> tuple[list, list]:
        """The elements of c, and the rows of W."""
        narrow = [[v.load(row, at) for at in places] for row in beside]
        given = [v.number("%c", number) for number in numbers]
        if not whole:
            return given, narrow
        for values, before in zip(narrow, given, strict=True):
            new = w.splat(ty, w.op("fmul", real, before, factor))
            for part in range(parts // 2):
                values[part] = w.select(is_new[part], ty, new, values[part])
        with w.loop("%left", "%pitch", v.count, [(ty, v.zero)] * len(rows)) as columns:
            u = v.load("%u", columns.index)
            columns.next = [
                w.fma(ty, v.load(row, columns.index), u, total)
                for row, total in zip(rows, columns.carried, strict=True)
            ]
        found = []
        for number, total in enumerate(columns.results):
            old, change = narrow[number], v.zero
            for part in range(parts):
                total = w.fma(ty, old[part], projected[part], total)
                change = w.fma(ty, old[part], across[part], change)
            x = w.op("fmul", real, taup, v.total(total))
            element_of_a = v.number(rows[number], "%column")
            c = w.op("fsub", real, w.op("fadd", real, element_of_a, v.total(change)), x)
            for part in range(parts // 2, parts):
                old[part] = w.select(is_new[part], ty, w.splat(ty, x), old[part])
            for part, at in enumerate(places):
                v.store(beside[number], at, old[part])
            v.set_number("%c", numbers[number], c)
            found.append(c)
        return found, narrow

    def rows_at(first: str, count: int, totals: list[str]) -> list[str]:
        numbers = [w.iadd(first, number) for number in range(count)]
        rows = [place(w, t, "%a", w.imul(number, "%pitch")) for number in numbers]
        beside = [place(w, t, "%w", w.imul(number, _WIDTH)) for number in numbers]
        found, narrow = column_of(rows, numbers, beside)
        factors = [w.splat(ty, c) for c in found]
        with w.loop("%left", "%pitch", v.count) as columns:
            total = v.load("%y", columns.index)
            for c, row in zip(factors, rows, strict=True):
                total = w.fma(ty, c, v.load(row, columns.index), total)
            v.store("%y", columns.index, total)
            if whole and count > 1:
                for row in rows:
                    prefetch(w, v.beyond(row, w.iadd(w.imul("%pitch", count), columns.index)))
        for c, row in zip(factors, narrow, strict=True):
            totals = [w.fma(ty, c, x, total) for x, total in zip(row, totals, strict=True)]
        return totals

    groups = w.op("udiv", "i64", w.isub("%stop", "%first"), str(_AT_ONCE))
    end = w.iadd("%first", w.imul(groups, _AT_ONCE))
    totals = [v.load("%q", at) for at in places]
    for start, stop, count in (("%first", end, _AT_ONCE), (end, "%stop", 1)):
        with w.loop(start, stop, count, [(ty, total) for total in totals]) as loop:
            loop.next = rows_at(loop.index, count, loop.carried)
        totals = loop.results
    for at, total in zip(places, totals, strict=True):
        v.store("%q", at, total)
    w.ret()


class _Reduction:
    """The code of the reduction: its memory by name."""

    def __init__(self, w: FunctionWriter, t: P) -> None:
        self.w, self.t, self.v = w, t, _Reals(w, t)
        sizes = {
            "w": w.imul("%m", _WIDTH), "z": w.imul("%pitch", _WIDTH), "c": emit_padded(w, "%m"),
            "y": "%pitch", "u": "%pitch", "g": str(_WIDTH), "h": str(_WIDTH), "q": str(_WIDTH),
        }  # fmt: skip
        at = "0"
        self._places: dict[str, str] = {}
        for name, size in sizes.items():
            self._places[name] = place(w, t, "%work", at)
            at = w.iadd(at, size)
        self.size = at
        self.out = w.alloca(self.v.real, 4, 64)
        self.scalars = w.alloca(self.v.real, 2, 64)

    def __getitem__(self, name: str) -> str:
        return self._places[name]

    def zero(self, target: str, count: str) -> None:
        clear_bytes(self.w, target, self.w.imul(count, self.t.byte_size))

    def reflector(self, x: str, first: str, stop: str) -> str:
        arguments = [("ptr", x), ("i64", first), ("i64", stop), ("ptr", self.out)]
        return self.w.call("bidiagonal.reflector", "i1", arguments)

    def said(self, what: int) -> str:
        return self.v.number(self.out, what)

    def row(self, number: str) -> str:
        return place(self.w, self.t, "%a", self.w.imul(number, "%pitch"))

    def beside(self, number: str) -> str:
        return place(self.w, self.t, self["w"], self.w.imul(number, _WIDTH))

    def rows_of_z(self, number: str) -> str:
        return place(self.w, self.t, self["z"], self.w.imul(number, "%pitch"))

    def keep_columns(self, first: str) -> None:
        """The reflectors of the columns from `first` on, below these columns' diagonal."""
        w = self.w
        with w.loop(first, "%m") as rows:
            target = place(w, self.t, self.row(rows.index), first)
            copy_bytes(w, target, self.beside(rows.index), str(PAIRS * self.t.byte_size))

    # -- one step ----------------------------------------------------------------------------------

    def normalise(self, i: str, left: str) -> None:
        """Of a column whose products are not known: it and then these."""
        w, v = self.w, self.v
        factor = w.splat(v.ty, self.said(_FACTOR))
        with w.loop(v.start(i), "%m", v.count) as rows:
            x = w.op("fmul", v.ty, v.load(self["c"], rows.index), factor)
            x = w.select(v.where("eq", rows.index, i), v.ty, const(v.ty, 1.0), x)
            v.store(self["c"], rows.index, x)
        v.set_number(self.out, _FACTOR, const(v.real, 1.0))
        v.set_number(self.out, _SCALED, const(v.real, 0.0))
        self.clear_sums(left)
        call_function(
            w, "bidiagonal.sums", _PASS, "%a", "%pitch", self["w"], i, "%m", left, self["c"],
            self["y"], self["q"],
        )  # fmt: skip

    def clear_sums(self, left: str) -> None:
        self.zero(place(self.w, self.t, self["y"], left), self.w.isub("%pitch", left))
        self.zero(self["q"], str(_WIDTH))

    def finish_sums(self, i: str, left: str, active: str) -> None:
        """y becomes the product of what is left of the matrix with the reflector."""
        w, v = self.w, self.v
        factor, beta = (w.splat(v.ty, self.said(what)) for what in (_FACTOR, _SCALED))
        minus = w.fneg(v.ty, beta)

        def finished(sums: str, row: str, at: str) -> None:
            x = w.fma(v.ty, minus, v.load(row, at), v.load(sums, at))
            v.store(sums, at, w.op("fmul", v.ty, x, factor))

        with w.loop(left, "%pitch", v.count) as columns:
            finished(self["y"], self.row(i), columns.index)
        for part in range(v.parts):
            finished(self["q"], self.beside(i), str(part * v.count))
        call_function(
            w,
            "bidiagonal.combine",
            _COMBINE,
            self["y"],
            self["q"],
            self["z"],
            "%pitch",
            left,
            active,
        )

    def take_away(self, i: str, left: str) -> None:
        """What was held back, from the rows and columns from here on: some rows at a time, which
        the calling thread does. Others would take them out of its caches, for the next pass."""
        w, t = self.w, self.t
        target, narrow = place(w, t, self.row(i), left), self.beside(i)
        rows, columns = w.isub("%m", i), w.isub("%pitch", left)
        wide = place(w, t, self["z"], left)
        most = w.op("udiv", "i64", str(_MOST_ALONE), w.imul(columns, _WIDTH))
        most = w.imin(w.imax(most, 1), _ROWS_ALONE)
        with w.loop("0", rows, most) as blocks:
            first = blocks.index
            some = w.imin(w.isub(rows, first), most)
            product(
                w, t, some, columns, str(_WIDTH),
                place(w, t, narrow, w.imul(first, _WIDTH)), str(_WIDTH), "1",
                wide, "%pitch", "1", place(w, t, target, w.imul(first, "%pitch")), "%pitch",
            )  # fmt: skip
        self.zero(narrow, w.imul(rows, _WIDTH))
        self.zero(self["z"], w.imul("%pitch", _WIDTH))

    def reduce_row(self, i: str, left: str, lane: str) -> None:
        """Its reflector, and what the next column is behind it."""
        w, v, t = self.w, self.v, self.t
        ahead = w.iadd(i, 1)
        tau = w.splat(v.ty, w.fneg(v.real, self.said(_TAU)))
        upper, lower = self.rows_of_z(lane), self.rows_of_z(w.iadd(lane, PAIRS))
        with w.loop(left, "%pitch", v.count) as columns:
            j = columns.index
            v.store(upper, j, w.op("fmul", v.ty, tau, v.load(self["y"], j)))
            v.store(self["u"], j, v.load(self.row(i), j))
        v.set_number(self.beside(i), lane, const(v.real, 1.0))
        column_factor = self.said(_FACTOR)
        active = w.iadd(lane, 1)
        call_function(
            w, "bidiagonal.combine", _COMBINE, self["u"], self.beside(i), self["z"], "%pitch", left,
            active,
        )  # fmt: skip
        self.reflector(self["u"], ahead, "%pitch")
        v.set_number("%e", i, self.said(_BETA))
        v.set_number("%rights", i, self.said(_TAU))
        factor = w.splat(v.ty, self.said(_FACTOR))
        kept = w.cmp("ne", "ptr", "%reflectors", "null")
        mine = place(w, t, "%reflectors", w.imul(i, "%pitch"))
        with w.loop(left, "%pitch", v.count) as columns:
            j = columns.index
            u = w.op("fmul", v.ty, v.load(self["u"], j), factor)
            u = w.select(v.where("sgt", j, ahead), v.ty, u, v.zero)
            u = w.select(v.where("eq", j, ahead), v.ty, const(v.ty, 1.0), u)
            v.store(self["u"], j, u)
            v.store(lower, j, w.fneg(v.ty, u))
            with w.if_(kept):
                v.store(mine, j, u)
        call_function(
            w, "bidiagonal.project", _COMBINE, self["u"], self["g"], self["z"], "%pitch", left,
            active,
        )  # fmt: skip
        with w.loop("0", _WIDTH) as loop:
            v.set_number(self["h"], loop.index, v.number(self.rows_of_z(loop.index), ahead))
        self.clear_sums(left)
        v.set_number(self.scalars, 0, self.said(_TAU))
        v.set_number(self.scalars, 1, column_factor)
        call_function(
            w, "bidiagonal.pass", _WHOLE_PASS, "%a", "%pitch", self["w"], ahead, "%m", left,
            self["c"], self["y"], self["q"], ahead, self["u"], self["g"], self["h"], lane,
            self.scalars,
        )  # fmt: skip


def emit_bidiagonal(module: ModuleWriter, t: P) -> None:
    """void bidiagonal.reduce(a, pitch, m, n, d, e, lefts, rights, reflectors, work), of m >= n.

    Rows of a are `pitch` apart, as `padded` says, and zero behind their ends; d and e are what is
    left. Reflectors of columns are put into a, below the diagonal, and those of rows into
    `reflectors`, as rows that are `pitch` apart and zero so far, or nowhere if that is null; lefts
    and rights are their factors tau. There are `reduction_elements` of work."""
    _emit_reflector(module, t)
    _emit_combine(module, t)
    _emit_project(module, t)
    _emit_pass(module, t, whole=True)
    _emit_pass(module, t, whole=False)
    w = module.function("bidiagonal.reduce", _REDUCE, internal=True, attributes="noinline")
    r = _Reduction(w, t)
    v = r.v
    r.zero("%work", r.size)
    with w.loop("0", "%m") as rows:
        v.set_number(r["c"], rows.index, v.number(r.row(rows.index), 0))
    with w.loop("0", "%n") as loop:
        i = loop.index
        lane = w.op("and", "i64", i, str(PAIRS - 1))
        before = w.op("and", "i64", w.isub(i, 1), str(PAIRS - 1))
        started = w.cmp("sgt", "i64", i, "0")
        active = w.select(started, "i64", w.iadd(before, 1), "0")
        full = w.op("and", "i1", started, w.cmp("eq", "i64", lane, "0"))
        with w.if_(full):
            r.keep_columns(w.isub(i, PAIRS))
        rescaled = r.reflector(r["c"], i, "%m")
        v.set_number("%d", i, r.said(_BETA))
        v.set_number("%lefts", i, r.said(_TAU))
        ahead = w.iadd(i, 1)
        with w.if_(w.cmp("slt", "i64", ahead, "%n")):
            left = v.start(ahead)
            with w.if_(w.op("or", "i1", rescaled, w.not_("i1", started))):
                r.normalise(i, left)
            r.finish_sums(i, left, active)
            with w.if_(full):
                r.take_away(i, left)
            r.reduce_row(i, left, lane)
    last = w.isub("%n", 1)
    r.keep_columns(w.op("and", "i64", last, str(-PAIRS)))
    with w.loop("%n", "%m") as rows:
        x = w.op("fmul", v.real, v.number(r["c"], rows.index), r.said(_FACTOR))
        v.set_number(r.row(rows.index), last, x)
    w.ret()


def reduce_matrix(w: FunctionWriter, *arguments: str) -> None:
    """Calls it."""
    call_function(w, "bidiagonal.reduce", _REDUCE, *arguments)
