"""QR factors of larger matrices, by reflectors that are applied many at a time, as products.

  void pyjax_geqrf_blocked_<t>(batches, m, n, tasks, ptr a, ptr packed, ptr taus, ptr work,
                               ptr negated)
  void pyjax_orgqr_blocked_<t>(batches, m, n, k, tasks, ptr packed, ptr taus, ptr q, ptr work,
                               ptr negated)
        as those of `small_reflectors`; for each of the tasks that the batch is divided into, work
        has room for `work_elements`, negated for m BLOCK ones

Columns that fit into one vector are factored in a copy with a vector for each row;
`reflector_blocks` applies what was found to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.bytes import copy_bytes
from xla_backend.llvm.types import const, element, mask_of
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.matrix_facts import BLOCK, MOST_LANES, TYPES
from xla_backend.targets.cpu.routines.matrix_lanes import Element, element_of, parts_of
from xla_backend.targets.cpu.routines.matrix_rows import Rows, place
from xla_backend.targets.cpu.routines.matrix_tasks import emit_tasks
from xla_backend.targets.cpu.routines.reflector_blocks import (
    Packed,
    ReflectorAreas,
    apply_reflectors,
    call_function,
    clear,
    emit_reflectors,
    multiply_by_reflectors,
)
from xla_backend.targets.cpu.routines.registry import register_group

# Sums of squares within these bounds have neither overflown nor lost anything.
_BOUNDS = {"float": (2.0**-80, 2.0**100), "double": (2.0**-900, 2.0**900)}
# Columns whose largest number is below are multiplied.
_TINY = {"float": 2.0**-60, "double": 2.0**-500}
_BASE = [
    ("ptr", "a"), ("i64", "pitch"), ("i64", "m"), ("i64", "n"), ("ptr", "taus"), ("ptr", "panel"),
]  # fmt: skip


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


def _emit_squares(module: ModuleWriter, t: P, real: str) -> None:
    """real qr.squares(panel, m, j, inverse): the squares of column j, divided by a power of two, of
    the rows below j. Where the numbers are near the least ones, their products with what has been
    divided have few bits left."""
    parameters = [("ptr", "panel"), ("i64", "m"), ("i64", "j"), (real, "inverse")]
    w = module.function("qr.squares", parameters, real, internal=True, attributes="noinline")
    lanes = Rows(w, t).lanes
    with w.loop(w.iadd("%j", 1), "%m", 1, [(real, const(real, 0.0))]) as rows:
        at = place(w, t, "%panel", w.iadd(w.imul(rows.index, lanes.count), "%j"))
        total = rows.carried[0]
        for part in range(lanes.parts):
            x = w.op("fmul", real, w.load(real, w.gep(real, at, part)), "%inverse")
            total = w.fma(real, x, x, total)
        rows.next = [total]
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

        def dots_with(inverse: str, j: str = j) -> None:
            w.store(ty, inverse, scale)
            pointers = [("ptr", "%panel"), ("i64", "%m"), ("i64", j)]
            w.call("qr.dots", "void", [*pointers, ("ptr", scale), ("ptr", dots)])

        def summed(inverse: str, below: str, alpha: Element = alpha) -> list[str]:
            """All over a power of two: alpha, and the squares of the column's norm with alpha and
            below it."""
            scaled = [op("fmul", part, inverse) for part in parts_of(alpha)]
            total = below
            for part in scaled:
                total = w.fma(ty, part, part, total)
            return [*scaled, total, below]

        one = const(ty, 1.0)
        dots_with(one)
        first = summed(one, parts_of(v.number(dots, j))[0])
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
            dots_with(inverse)
            divided = [*pointers, (real, w.extract(ty, inverse, 0))]
            below = w.splat(ty, w.call("qr.squares", real, divided))
            return [*summed(inverse, below), power, inverse]

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


# -- routines -----------------------------------------------------------------------------------


_GEQRF = [
    *(("i64", name) for name in ("batches", "m", "n", "tasks")),
    *(("ptr", name) for name in ("a", "packed", "taus", "work", "negated")),
]
_ORGQR = [
    *(("i64", name) for name in ("batches", "m", "n", "k", "tasks")),
    *(("ptr", name) for name in ("packed", "taus", "q", "work", "negated")),
]


def emit_factor(module: ModuleWriter, t: P) -> None:
    """The functions that `factor` calls, but for those of `reflector_blocks`."""
    _emit_dots(module, t)
    real = "double" if t in (P.F64, P.C128) else "float"
    _emit_largest(module, t, real)
    _emit_squares(module, t, real)
    _emit_base(module, t)


def factor(
    w: FunctionWriter, t: P, packed: Packed, n: str, panel: str, areas: ReflectorAreas
) -> None:
    """A matrix of n columns, as they are to be packed, becomes its factors."""
    m, pitch, taus = packed.rows, packed.pitch, packed.taus
    few = w.imin(m, n)
    lanes = Rows(w, t).lanes.count

    def apply(start: str, count: str, stop: str) -> None:
        """The reflectors from `start` on, to the columns behind them up to `stop`."""
        columns = w.isub(w.isub(stop, start), count)
        with w.if_(w.cmp("sgt", "i64", columns, "0")):
            corner = place(w, t, packed.start, w.imul(start, w.iadd(pitch, 1)))
            others = place(w, t, corner, count), pitch, columns
            apply_reflectors(w, t, packed, start, count, others, areas, "true")

    with w.loop("0", few, BLOCK) as blocks:
        start = blocks.index
        stop = w.imin(w.iadd(start, BLOCK), few)
        with w.loop(start, stop, lanes) as vectors:
            j = vectors.index
            count = w.imin(w.isub(stop, j), lanes)
            corner = place(w, t, packed.start, w.imul(j, w.iadd(pitch, 1)))
            mine = place(w, t, taus, j)
            call_function(w, "qr.base", _BASE, corner, pitch, w.isub(m, j), count, mine, panel)
            apply(j, count, stop)
        apply(start, w.isub(stop, start), n)


def _areas(
    w: FunctionWriter, t: P, given: Mapping[str, str], task: str, columns: str
) -> tuple[str, ReflectorAreas]:
    """The panel, and what reflectors are applied with, of a task."""
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
    negated = place(w, t, given["negated"], w.imul(task, vectors))
    return places[0], ReflectorAreas(places[1], negated, places[2], places[3])


def _geqrf(t: P, w: FunctionWriter, given: Mapping[str, str], number: str, task: str) -> None:
    m, n = given["m"], given["n"]
    panel, areas = _areas(w, t, given, task, n)
    size = w.imul(m, n)
    a, packed = (place(w, t, given[name], w.imul(number, size)) for name in ("a", "packed"))
    copy_bytes(w, packed, a, w.imul(size, t.byte_size))
    few = w.imin(m, n)
    taus = place(w, t, given["taus"], w.imul(number, few))
    factor(w, t, Packed(packed, n, m, taus), n, panel, areas)


def _orgqr(t: P, w: FunctionWriter, given: Mapping[str, str], number: str, task: str) -> None:
    m, n, k = given["m"], given["n"], given["k"]
    _, areas = _areas(w, t, given, task, n)
    size = w.imul(m, n)
    packed, q = (place(w, t, given[name], w.imul(number, size)) for name in ("packed", "q"))
    taus = place(w, t, given["taus"], w.imul(number, k))
    clear(w, t, q, size)
    real = element(Rows(w, t).lanes.ty)
    with w.loop("0", n) as columns:
        diagonal = place(w, t, q, w.imul(columns.index, w.iadd(n, 1)))
        w.store(real, const(real, 1.0), diagonal)
    given_packed = Packed(packed, n, m, taus)
    multiply_by_reflectors(w, t, given_packed, k, (q, n, n), areas, from_diagonal=True)


_ROUTINES: Mapping[str, tuple[list[tuple[str, str]], Callable[..., None]]] = {
    "geqrf": (_GEQRF, _geqrf),
    "orgqr": (_ORGQR, _orgqr),
}


def _emit(name: str, t: P, module: ModuleWriter) -> None:
    emit_reflectors(module, t)
    if name == "geqrf":
        emit_factor(module, t)
    parameters, problem = _ROUTINES[name]
    emit_tasks(module, f"pyjax_{name}_blocked_{t}", parameters, partial(problem, t))


def register() -> None:
    """Declares the routines of every element type."""
    for name in _ROUTINES:
        for t in TYPES:
            symbol = f"pyjax_{name}_blocked_{t}"
            register_group(f"{name}_blocked_{t}", (symbol,), partial(_emit, name, t))
