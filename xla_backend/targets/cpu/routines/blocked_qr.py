"""QR factors of larger matrices, by reflectors that are applied many at a time, as products.

  void pyjax_geqrf_blocked_<t>(batches, m, n, tasks, ptr a, ptr packed, ptr taus, ptr work,
                               ptr negated)
  void pyjax_orgqr_blocked_<t>(batches, m, n, k, tasks, ptr packed, ptr taus, ptr q, ptr work,
                               ptr negated)
        as those of `small_reflectors`; for each of the tasks that the batch is divided into, work
        has room for `work_elements`, negated for m BLOCK ones

Columns that fit into one vector are factored in a copy with a vector for each row. With the
reflectors in the columns of V their product is I - V T V^H, and the inverse of T is the upper
triangle of V^H V with 1 / tau on the diagonal (Puglisi): products with T are triangular systems.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.bytes import copy_bytes
from xla_backend.llvm.types import const, element, mask_of
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.blocked_lu import MOST_LANES
from xla_backend.targets.cpu.routines.blocked_matrices import SUBSTITUTE, emit_substitute
from xla_backend.targets.cpu.routines.matrix_lanes import Element, element_of, parts_of
from xla_backend.targets.cpu.routines.matrix_rows import Rows, place, product
from xla_backend.targets.cpu.routines.matrix_tasks import emit_tasks
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.small_matrices import TYPES

# Reflectors that are applied at a time.
BLOCK = 64
# Sums of squares within these bounds have neither overflown nor lost anything.
_BOUNDS = {"float": (2.0**-80, 2.0**100), "double": (2.0**-900, 2.0**900)}
# Columns whose largest number is below are multiplied.
_TINY = {"float": 2.0**-60, "double": 2.0**-500}
_BASE = [
    ("ptr", "a"), ("i64", "pitch"), ("i64", "m"), ("i64", "n"), ("ptr", "taus"), ("ptr", "panel"),
]  # fmt: skip
_SPREAD = [
    ("ptr", "a"), ("i64", "pitch"), ("i64", "m"), ("i64", "count"), ("ptr", "taus"), ("ptr", "v"),
    ("ptr", "negated"), ("ptr", "s"),
]  # fmt: skip
_APPLY = [
    ("ptr", "c"), ("i64", "pitch"), ("i64", "m"), ("i64", "n"), ("i64", "count"), ("ptr", "v"),
    ("ptr", "negated"), ("ptr", "s"), ("ptr", "w"), ("i1", "adjoint"),
]  # fmt: skip


def work_elements(m: int, n: int) -> int:
    """Memory of one task: a panel, the reflectors, their triangle, and products with columns."""
    return m * (MOST_LANES + BLOCK) + BLOCK * BLOCK + BLOCK * n


def _call(
    w: FunctionWriter, name: str, fields: list[tuple[str, str]], *values: str, result: str = "void"
) -> str:
    arguments = [(ty, value) for (ty, _), value in zip(fields, values, strict=True)]
    return w.call(name, result, arguments)


def _zero(w: FunctionWriter, t: P, target: str, count: str) -> None:
    w.module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
    size = w.imul(count, t.byte_size)
    w.line(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {size}, i1 false)")


# -- one vector of columns -------------------------------------------------------------------------


def _emit_dots(module: ModuleWriter, t: P) -> None:
    """void qr.dots(panel, m, j, ptr scale, out): the products of column j, divided by a power of
    two and conjugated, with all columns, of the rows below j."""
    parameters = [("ptr", "panel"), ("i64", "m"), ("i64", "j"), ("ptr", "inverse"), ("ptr", "out")]
    w = module.function("qr.dots", parameters, internal=True, attributes="noinline")
    v = Rows(w, t)
    lanes, count = v.lanes, v.lanes.count
    inverse = w.load(lanes.ty, "%inverse")
    with w.loop(w.iadd("%j", 1), "%m", 1, lanes.carries(lanes.zero())) as rows:
        at = w.imul(rows.index, count)
        x = lanes.times_real(v.number("%panel", w.iadd(at, "%j")), inverse)
        total, row = element_of(rows.carried), v.load("%panel", at)
        rows.next = [*parts_of(lanes.minus_product(total, lanes.negated(lanes.conjugate(x)), row))]
    v.store("%out", "0", element_of(rows.results))
    w.ret()


def _emit_largest(module: ModuleWriter, t: P, real: str) -> None:
    """real qr.largest(panel, m, j): the largest part of column j from row j on."""
    parameters = [("ptr", "panel"), ("i64", "m"), ("i64", "j")]
    w = module.function("qr.largest", parameters, real, internal=True, attributes="noinline")
    lanes = Rows(w, t).lanes
    with w.loop("%j", "%m", 1, [(real, const(real, 0.0))]) as rows:
        at = place(w, t, "%panel", w.iadd(w.imul(rows.index, lanes.count), "%j"))
        best = rows.carried[0]
        for part in range(lanes.parts):
            size = w.intrinsic("fabs", real, w.load(real, w.gep(real, at, part)))
            best = w.select(w.cmp("ogt", real, size, best), real, size, best)
        rows.next = [best]
    w.ret(real, rows.results[0])


def _emit_base(module: ModuleWriter, t: P) -> None:
    """void qr.base(a, pitch, m, n, taus, panel): the factors of n <= lanes columns, whose rows are
    `pitch` apart."""
    w = module.function("qr.base", _BASE, internal=True, attributes="noinline")
    v = Rows(w, t)
    lanes, ty = v.lanes, v.lanes.ty
    real, count, parts = element(ty), v.lanes.count, v.lanes.parts
    columns = v.mask("0", "%n")
    dots, scale = (w.alloca(real, count * parts, 64) for _ in range(2))

    def op(name: str, x: str, y: str) -> str:
        return w.op(name, ty, x, y)

    with w.loop("0", "%m", 1, [(ty, const(ty, 0.0))]) as rows:
        given = place(w, t, "%a", w.imul(rows.index, "%pitch"))
        value = v.load(given, "0", columns)
        v.store("%panel", w.imul(rows.index, count), value)
        rows.next = [lanes.largest(rows.carried[0], value)]
    # Products of two of the numbers must not underflow. Reflectors are the same for a multiple.
    largest = w.splat(ty, w.reduce("fmax", ty, rows.results[0]))
    unit_power, unit_inverse = lanes.power_of_two(largest)
    is_tiny = w.cmp("olt", ty, largest, const(ty, _TINY[real]))
    tiny = w.extract(mask_of(ty), is_tiny, 0)
    with w.if_(tiny), w.loop("0", "%m") as rows:
        at = w.imul(rows.index, count)
        v.store("%panel", at, lanes.times_real(v.load("%panel", at), unit_inverse))
    with w.loop("0", w.imin("%m", "%n")) as loop:
        j = loop.index
        mine = w.imul(j, count)
        alpha = v.number("%panel", w.iadd(mine, j))

        def summed(inverse: str, j: str = j, mine: str = mine, alpha: Element = alpha) -> list[str]:
            """All over a power of two: alpha, and the squares of the column's norm with alpha and
            below it."""
            w.store(ty, inverse, scale)
            pointers = [("ptr", "%panel"), ("i64", "%m"), ("i64", j)]
            w.call("qr.dots", "void", [*pointers, ("ptr", scale), ("ptr", dots)])
            below = op("fmul", parts_of(v.number(dots, j))[0], inverse)
            scaled = [op("fmul", part, inverse) for part in parts_of(alpha)]
            total = below
            for part in scaled:
                total = w.fma(ty, part, part, total)
            return [*scaled, total, below]

        one = const(ty, 1.0)
        first = summed(one)
        square = w.extract(ty, first[-2], 0)
        least, most = (const(real, bound) for bound in _BOUNDS[real])
        within = w.op(
            "and", "i1", w.cmp("oge", real, square, least), w.cmp("ole", real, square, most)
        )
        # Columns beside it may be much larger.
        finite = lanes.is_finite(lanes.largest(const(ty, 0.0), v.load(dots, "0")))
        within = w.op("and", "i1", within, w.reduce("and", mask_of(ty), finite))

        def again(j: str = j) -> list[str]:
            pointers = [("ptr", "%panel"), ("i64", "%m"), ("i64", j)]
            largest = w.splat(ty, w.call("qr.largest", real, pointers))
            power, inverse = lanes.power_of_two(largest)
            return [*summed(inverse), power, inverse]

        def kept(first: list[str] = first) -> list[str]:
            return [*first, one, one]

        *found, power, inverse = w.if_else(within, [ty] * (parts + 4), kept, again)
        near, *rest, total, below = found
        far = rest[0] if rest else const(ty, 0.0)
        # Nothing to do where the column below is zero and alpha real.
        rest_of = op("fadd", below, w.intrinsic("fabs", ty, far))
        idle = w.cmp("oeq", ty, rest_of, const(ty, 0.0))
        beta = w.fneg(ty, w.intrinsic("copysign", ty, w.intrinsic("sqrt", ty, total), near))
        unit = lanes.real(one)
        difference = element_of([op("fsub", near, beta), far][:parts])
        factor = lanes.select(idle, unit, lanes.quotient(unit, difference))
        tau = element_of(
            [op("fdiv", op("fsub", beta, near), beta), w.fneg(ty, op("fdiv", far, beta))][:parts]
        )
        tau = lanes.select(idle, lanes.zero(), tau)
        beta = op("fmul", w.select(idle, ty, near, beta), power)
        top = v.load("%panel", mine)
        product_of = lanes.times(lanes.conjugate(factor), v.load(dots, "0"))
        product_of = lanes.map_pairs(lambda x, y: op("fadd", x, y), top, product_of)
        change = lanes.times(lanes.conjugate(tau), product_of)
        lane = w.splat(lanes.index_ty, w.cast("trunc", "i64", j, "i32"))
        behind = w.cmp("sgt", lanes.index_ty, lanes.ones, lane)
        here = w.cmp("eq", lanes.index_ty, lanes.ones, lane)
        behind = w.op("and", mask_of(ty), behind, w.not_(mask_of(ty), idle))
        new = lanes.map_pairs(lambda x, y: op("fsub", x, y), top, change)
        new = lanes.select(behind, new, top)
        v.store("%panel", mine, lanes.select(here, lanes.real(beta), new))
        with w.loop(w.iadd(j, 1), "%m") as rows:
            at = w.imul(rows.index, count)
            old = v.load("%panel", at)
            x = lanes.times_real(v.number("%panel", w.iadd(at, j)), inverse)
            x = lanes.times(x, factor)
            new = lanes.select(behind, lanes.minus_product(old, x, change), old)
            v.store("%panel", at, lanes.select(here, x, new))
        target = place(w, t, "%taus", j)
        for part, value in enumerate(parts_of(tau)):
            w.store(real, w.extract(ty, value, 0), w.gep(real, target, part))
    with w.loop("0", "%m") as rows:
        target = place(w, t, "%a", w.imul(rows.index, "%pitch"))
        value = v.load("%panel", w.imul(rows.index, count))
        row = w.splat(lanes.index_ty, w.cast("trunc", "i64", rows.index, "i32"))
        upper = w.cmp("sge", lanes.index_ty, lanes.ones, row)
        small = lanes.select(upper, lanes.times_real(value, unit_power), value)
        v.store(target, "0", lanes.select(is_tiny, small, value), columns)
    w.ret()


# -- many reflectors -------------------------------------------------------------------------------


def _emit_spread(module: ModuleWriter, t: P) -> None:
    """void qr.spread(a, pitch, m, count, taus, v, negated, s): the reflectors in the first columns
    of a as dense rows of v, their negated conjugates, and the triangle s that is the inverse of T.
    Where tau is 0 there is no reflector."""
    w = module.function("qr.spread", _SPREAD, internal=True, attributes="noinline")
    v = Rows(w, t)
    lanes, ty = v.lanes, v.lanes.ty
    count = v.lanes.count
    zero, one = lanes.zero(), lanes.real(const(ty, 1.0))

    def is_zero(x: Element) -> str:
        masks = [w.cmp("oeq", ty, part, const(ty, 0.0)) for part in parts_of(x)]
        return masks[0] if len(masks) == 1 else w.op("and", mask_of(ty), *masks)

    def numbered(start: str) -> str:
        first = w.splat(lanes.index_ty, w.cast("trunc", "i64", start, "i32"))
        return w.op("add", lanes.index_ty, lanes.ones, first)

    with w.loop("0", "%m") as rows:
        source = place(w, t, "%a", w.imul(rows.index, "%pitch"))
        line = w.imul(rows.index, "%count")
        number = w.splat(lanes.index_ty, w.cast("trunc", "i64", rows.index, "i32"))
        with w.loop("0", "%count", count) as columns:
            mask = v.mask(columns.index, "%count")
            places = numbered(columns.index)
            value = v.load(source, columns.index, mask)
            value = lanes.select(w.cmp("slt", lanes.index_ty, places, number), value, zero)
            value = lanes.select(w.cmp("eq", lanes.index_ty, places, number), one, value)
            value = lanes.select(is_zero(v.load("%taus", columns.index, mask)), zero, value)
            at = w.iadd(line, columns.index)
            v.store("%v", at, value, mask)
            v.store("%negated", at, lanes.negated(lanes.conjugate(value)), mask)
    _zero(w, t, "%s", w.imul("%count", "%count"))
    product(
        w, t, "%count", "%count", "%m", "%negated", "1", "%count", "%v", "%count", "1", "%s",
        "%count",
    )  # fmt: skip
    with w.loop("0", "%count") as rows:
        line = w.imul(rows.index, "%count")
        number = w.splat(lanes.index_ty, w.cast("trunc", "i64", rows.index, "i32"))
        tau = v.number("%taus", rows.index)
        inverse = lanes.select(is_zero(tau), one, lanes.quotient(one, tau))
        with w.loop("0", "%count", count) as columns:
            mask = v.mask(columns.index, "%count")
            at = w.iadd(line, columns.index)
            value = lanes.negated(v.load("%s", at, mask))
            same = w.cmp("eq", lanes.index_ty, numbered(columns.index), number)
            v.store("%s", at, lanes.select(same, inverse, value), mask)
    w.ret()


def _emit_apply(module: ModuleWriter, t: P) -> None:
    """void qr.apply(c, pitch, m, n, count, v, negated, s, w, adjoint): c becomes Q c or, adjoint,
    Q^H c; w has room for count rows of n."""
    w = module.function("qr.apply", _APPLY, internal=True)
    _zero(w, t, "%w", w.imul("%count", "%n"))
    product(w, t, "%count", "%n", "%m", "%negated", "1", "%count", "%c", "%pitch", "1", "%w", "%n")
    last = w.isub("%count", 1)

    def solve(start: str, row: str, column: str, direction: str, conjugated: str) -> list[str]:
        matrix = place(w, t, "%s", w.imul(start, w.iadd("%count", 1)))
        unknowns = place(w, t, "%w", w.imul(start, "%n"))
        _call(
            w, "blocked.substitute", SUBSTITUTE, matrix, row, column, direction, conjugated, "0",
            "%count", unknowns, "%n", "%n",
        )  # fmt: skip
        return []

    w.if_else(
        "%adjoint",
        [],
        lambda: solve("0", "1", "%count", "1", "1"),
        lambda: solve(last, "%count", "1", "-1", "0"),
    )
    product(w, t, "%m", "%n", "%count", "%v", "%count", "1", "%w", "%n", "1", "%c", "%pitch")
    w.ret()


class _Areas:
    """The memory of a task."""

    def __init__(
        self, w: FunctionWriter, t: P, given: Mapping[str, str], task: str, columns: str
    ) -> None:
        m = given["m"]
        panel, vectors = w.imul(m, MOST_LANES), w.imul(m, BLOCK)
        sizes = [panel, vectors, str(BLOCK * BLOCK), w.imul(columns, BLOCK)]
        total = "0"
        for size in sizes:
            total = w.iadd(total, size)
        at = w.imul(task, total)
        places = []
        for size in sizes:
            places.append(place(w, t, given["work"], at))
            at = w.iadd(at, size)
        self.panel, self.v, self.s, self.w = places
        self.negated = place(w, t, given["negated"], w.imul(task, vectors))


_GEQRF = [
    *(("i64", name) for name in ("batches", "m", "n", "tasks")),
    *(("ptr", name) for name in ("a", "packed", "taus", "work", "negated")),
]
_ORGQR = [
    *(("i64", name) for name in ("batches", "m", "n", "k", "tasks")),
    *(("ptr", name) for name in ("packed", "taus", "q", "work", "negated")),
]


def _geqrf(t: P, w: FunctionWriter, given: Mapping[str, str], number: str, task: str) -> None:
    m, n = given["m"], given["n"]
    areas = _Areas(w, t, given, task, n)
    size = w.imul(m, n)
    a, packed = (place(w, t, given[name], w.imul(number, size)) for name in ("a", "packed"))
    copy_bytes(w, packed, a, w.imul(size, t.byte_size))
    few = w.imin(m, n)
    taus = place(w, t, given["taus"], w.imul(number, few))
    lanes = Rows(w, t).lanes.count

    def apply(start: str, count: str, stop: str) -> None:
        """The reflectors from `start` on, to the columns behind them up to `stop`."""
        corner = place(w, t, packed, w.imul(start, w.iadd(n, 1)))
        rows, columns = w.isub(m, start), w.isub(w.isub(stop, start), count)
        with w.if_(w.cmp("sgt", "i64", columns, "0")):
            mine = place(w, t, taus, start)
            matrices = areas.v, areas.negated, areas.s
            _call(w, "qr.spread", _SPREAD, corner, n, rows, count, mine, *matrices)
            others = place(w, t, corner, count)
            _call(
                w, "qr.apply", _APPLY, others, n, rows, columns, count, *matrices, areas.w, "true"
            )

    with w.loop("0", few, BLOCK) as blocks:
        start = blocks.index
        stop = w.imin(w.iadd(start, BLOCK), few)
        with w.loop(start, stop, lanes) as vectors:
            j = vectors.index
            count = w.imin(w.isub(stop, j), lanes)
            corner = place(w, t, packed, w.imul(j, w.iadd(n, 1)))
            mine = place(w, t, taus, j)
            _call(w, "qr.base", _BASE, corner, n, w.isub(m, j), count, mine, areas.panel)
            apply(j, count, stop)
        apply(start, w.isub(stop, start), n)


def _orgqr(t: P, w: FunctionWriter, given: Mapping[str, str], number: str, task: str) -> None:
    m, n, k = given["m"], given["n"], given["k"]
    areas = _Areas(w, t, given, task, n)
    size = w.imul(m, n)
    packed, q = (place(w, t, given[name], w.imul(number, size)) for name in ("packed", "q"))
    taus = place(w, t, given["taus"], w.imul(number, k))
    _zero(w, t, q, size)
    real = element(Rows(w, t).lanes.ty)
    with w.loop("0", n) as columns:
        diagonal = place(w, t, q, w.imul(columns.index, w.iadd(n, 1)))
        w.store(real, const(real, 1.0), diagonal)
    blocks = w.op("udiv", "i64", w.iadd(k, BLOCK - 1), str(BLOCK))
    with w.loop("0", blocks) as loop:
        start = w.imul(w.isub(w.isub(blocks, loop.index), 1), BLOCK)
        count = w.imin(w.isub(k, start), BLOCK)
        corner = w.imul(start, w.iadd(n, 1))
        rows, columns_left = w.isub(m, start), w.isub(n, start)
        source, target = place(w, t, packed, corner), place(w, t, q, corner)
        matrices = areas.v, areas.negated, areas.s
        _call(w, "qr.spread", _SPREAD, source, n, rows, count, place(w, t, taus, start), *matrices)
        _call(
            w, "qr.apply", _APPLY, target, n, rows, columns_left, count, *matrices, areas.w, "false"
        )


_ROUTINES: Mapping[str, tuple[list[tuple[str, str]], Callable[..., None]]] = {
    "geqrf": (_GEQRF, _geqrf),
    "orgqr": (_ORGQR, _orgqr),
}


def _emit(name: str, t: P, module: ModuleWriter) -> None:
    real = "double" if t in (P.F64, P.C128) else "float"
    emit_substitute(module, t)
    _emit_spread(module, t)
    _emit_apply(module, t)
    if name == "geqrf":
        _emit_dots(module, t)
        _emit_largest(module, t, real)
        _emit_base(module, t)
    parameters, problem = _ROUTINES[name]
    emit_tasks(module, f"pyjax_{name}_blocked_{t}", parameters, partial(problem, t))


def register() -> None:
    """Declares the routines of every element type."""
    for name in _ROUTINES:
        for t in TYPES:
            symbol = f"pyjax_{name}_blocked_{t}"
            register_group(f"{name}_blocked_{t}", (symbol,), partial(_emit, name, t))
