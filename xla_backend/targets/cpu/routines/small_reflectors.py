"""Householder reflectors of small matrices, many at a time (see `matrix_lanes`), as LAPACK's.

void pyjax_geqrf_<t>(batches, m, n, ptr a, ptr packed, ptr taus)
      R, and below the diagonal the vectors of k = min(m, n) reflectors I - tau v v^H
void pyjax_orgqr_<t>(batches, m, n, k, ptr packed, ptr taus, ptr q)
      the first n columns of the product of k reflectors; packed has m rows and n columns
void pyjax_ormqr_<t>(batches, m, n, k, flags, ptr packed, ptr taus, ptr c, ptr out)
      that product q, or with ADJOINT its adjoint, times c [m, n], or with RIGHT c times it; packed
      has m rows (n with RIGHT) and k columns
      t: f32 f64 c64 c128; all matrices by rows, one behind the other; m, n, k <= MOST_ROWS
"""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.llvm.types import const, element, mask_of
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.cpu.routines.lane_groups import LaneRoutine, register_lane_routines
from xla_backend.targets.cpu.routines.matrix_facts import ADJOINT, MOST_ROWS, RIGHT, TYPES
from xla_backend.targets.cpu.routines.matrix_lanes import Element, Lanes, element_of, parts_of

Place = Callable[[str, str], str]


def by_rows(w: FunctionWriter, columns: str) -> Place:
    """Where element (i, j) lies in a matrix of so many columns."""
    return lambda i, j: w.iadd(w.imul(i, columns), j)


def make_reflectors(lanes: Lanes, matrix: str, m: str, n: str, taus: str) -> None:
    """geqrf of a matrix in scratch memory, in place; taus: scratch memory, too."""
    w = lanes.w
    at = by_rows(w, n)
    with w.loop("0", w.imin(m, n)) as steps:
        k = steps.index
        below = w.iadd(k, 1)
        tau = _reflector(lanes, matrix, m, k, at)
        lanes.store(taus, k, tau)
        with w.loop(below, n) as columns:
            _reflect(
                lanes,
                (below, m),
                lanes.conjugate(tau),
                lambda i: lanes.load(matrix, at(i, k)),
                matrix,
                lambda i, j=columns.index: at(i, j),  # type: ignore[misc]
                k,
            )


def _reflector(lanes: Lanes, matrix: str, m: str, k: str, at: Place) -> Element:
    """What makes column k zero below the diagonal: leaves the diagonal element that becomes of it
    and the vector there, and gives tau, as LAPACK's larfg."""
    w, ty = lanes.w, lanes.ty
    zero, one = const(ty, 0.0), const(ty, 1.0)
    below = w.iadd(k, 1)
    alpha = lanes.load(matrix, at(k, k))
    with w.loop(k, m, 1, [(ty, zero)]) as rows:
        rows.next = [lanes.largest(rows.carried[0], lanes.load(matrix, at(rows.index, k)))]
    power, inverse = lanes.power_of_two(rows.results[0])
    with w.loop(below, m, 1, [(ty, zero)]) as rows:
        x = lanes.times_real(lanes.load(matrix, at(rows.index, k)), inverse)
        rows.next = [lanes.plus_square(rows.carried[0], x)]
    square = rows.results[0]
    real, *imaginary = parts_of(lanes.times_real(alpha, inverse))
    nothing = w.cmp("oeq", ty, square, zero)
    for part in imaginary:
        nothing = w.op("and", mask_of(ty), nothing, w.cmp("oeq", ty, part, zero))
    total = lanes.plus_square(square, element_of([real, *imaginary]))
    norm = w.intrinsic("sqrt", ty, total)
    beta = w.fneg(ty, w.intrinsic("copysign", ty, norm, real))
    divisor = w.select(nothing, ty, one, beta)
    tau = [w.op("fdiv", ty, w.op("fsub", ty, beta, real), divisor)]
    tau += [w.op("fdiv", ty, w.fneg(ty, part), divisor) for part in imaginary]
    top = element_of([w.op("fsub", ty, real, beta), *imaginary])
    top = lanes.select(nothing, lanes.real(one), top)
    factor = lanes.quotient(lanes.real(one), top)
    with w.loop(below, m) as rows:
        place = at(rows.index, k)
        x = lanes.load(matrix, place)
        # Both factors at once would overflow for subnormal numbers.
        scaled = lanes.times(lanes.times_real(x, inverse), factor)
        lanes.store(matrix, place, lanes.select(nothing, x, scaled))
    diagonal = lanes.real(w.op("fmul", ty, beta, power))
    lanes.store(matrix, at(k, k), lanes.select(nothing, alpha, diagonal))
    return lanes.select(nothing, lanes.zero(), element_of(tau))


def _reflect(
    lanes: Lanes,
    below: tuple[str, str],
    tau: Element,
    vector: Callable[[str], Element],
    matrix: str,
    place: Callable[[str], str],
    top: str,
) -> None:
    """x - tau v (v^H x) of numbers x at `place`: v is 1 at `top` and vector(i) in the range
    `below`."""
    w = lanes.w
    x = lanes.load(matrix, place(top))
    with w.loop(*below, 1, lanes.carries(x)) as rows:
        v = lanes.conjugate(vector(rows.index))
        other = lanes.load(matrix, place(rows.index))
        rows.next = [*parts_of(lanes.plus_product(element_of(rows.carried), v, other))]
    amount = lanes.times(tau, element_of(rows.results))
    moved = [
        w.op("fsub", lanes.ty, *pair) for pair in zip(parts_of(x), parts_of(amount), strict=True)
    ]
    lanes.store(matrix, place(top), element_of(moved))
    with w.loop(*below) as rows:
        at = place(rows.index)
        old = lanes.load(matrix, at)
        lanes.store(matrix, at, lanes.minus_product(old, amount, vector(rows.index)))


def apply_reflectors(
    lanes: Lanes,
    packed: tuple[str, Place],
    taus: str,
    count: str,
    target: tuple[str, Place],
    sizes: tuple[str, str],
    *,
    forward: str,
    conjugated: str,
    turned: str = "false",
) -> None:
    """Applies reflectors in scratch memory to each of the columns of `target` of `sizes`: number
    0 first if `forward` (an i1), with tau conjugated if so; where `turned`, to conjugates."""
    w, ty = lanes.w, lanes.ty
    scalar = element(ty)
    rows, columns = sizes

    def sign_of(flag: str) -> str:
        return w.splat(ty, w.select(flag, scalar, const(scalar, -1.0), const(scalar, 1.0)))

    tau_sign, vector_sign = sign_of(conjugated), sign_of(turned)
    last = w.isub(count, 1)
    with w.loop("0", count) as steps:
        k = w.select(forward, "i64", steps.index, w.isub(last, steps.index))
        tau = lanes.with_sign(lanes.load(taus, k), tau_sign)
        with w.loop("0", columns) as each:

            def vector(i: str, k: str = k) -> Element:
                return lanes.with_sign(lanes.load(packed[0], packed[1](i, k)), vector_sign)

            def place(i: str, j: str = each.index) -> str:
                return target[1](i, j)

            _reflect(lanes, (w.iadd(k, 1), rows), tau, vector, target[0], place, k)


def copy_in(lanes: Lanes, array: str, first: str, count: str, size: str, memory: str) -> None:
    """The elements of each lane's matrix into scratch memory, in order."""
    w = lanes.w
    step = w.imul(size, lanes.parts)
    offsets = lanes.offsets(first, count, step)
    start = w.gep(element(lanes.ty), array, w.imul(first, step))
    with w.loop("0", size) as loop:
        lanes.store(memory, loop.index, lanes.read(start, offsets, loop.index))


def copy_out(lanes: Lanes, memory: str, first: str, count: str, size: str, array: str) -> None:
    w = lanes.w
    step = w.imul(size, lanes.parts)
    offsets = lanes.offsets(first, count, step)
    start = w.gep(element(lanes.ty), array, w.imul(first, step))
    with w.loop("0", size) as loop:
        lanes.write(start, offsets, loop.index, lanes.load(memory, loop.index))


def _geqrf(lanes: Lanes, first: str, count: str) -> None:
    w, m, n = lanes.w, "%m", "%n"
    matrix, taus = lanes.scratch(MOST_ROWS * MOST_ROWS), lanes.scratch(MOST_ROWS)
    size = w.imul(m, n)
    copy_in(lanes, "%a", first, count, size, matrix)
    make_reflectors(lanes, matrix, m, n, taus)
    copy_out(lanes, matrix, first, count, size, "%packed")
    copy_out(lanes, taus, first, count, w.imin(m, n), "%taus")


def store_identity(lanes: Lanes, memory: str, rows: str, columns: str) -> None:
    w, scalar = lanes.w, element(lanes.ty)
    at = by_rows(w, columns)
    with w.loop("0", rows) as i, w.loop("0", columns) as j:
        same = w.cmp("eq", "i64", i.index, j.index)
        one = w.select(same, scalar, const(scalar, 1.0), const(scalar, 0.0))
        lanes.store(memory, at(i.index, j.index), lanes.real(w.splat(lanes.ty, one)))


def _orgqr(lanes: Lanes, first: str, count: str) -> None:
    w, m, n, k = lanes.w, "%m", "%n", "%k"
    packed, q = (lanes.scratch(MOST_ROWS * MOST_ROWS) for _ in range(2))
    taus = lanes.scratch(MOST_ROWS)
    size = w.imul(m, n)
    copy_in(lanes, "%packed", first, count, size, packed)
    copy_in(lanes, "%taus", first, count, k, taus)
    store_identity(lanes, q, m, n)
    at = by_rows(w, n)
    flags = {"forward": "false", "conjugated": "false"}
    apply_reflectors(lanes, (packed, at), taus, k, (q, at), (m, n), **flags)
    copy_out(lanes, q, first, count, size, "%q")


def _ormqr(lanes: Lanes, first: str, count: str) -> None:
    """c q is the adjoint of q^H c^H: its rows are conjugates of columns that are reflected the
    other way round."""
    w, m, n, k = lanes.w, "%m", "%n", "%k"
    right, adjoint = (
        w.cmp("ne", "i64", w.op("and", "i64", "%flags", str(bit)), "0") for bit in (RIGHT, ADJOINT)
    )
    packed, c = (lanes.scratch(MOST_ROWS * MOST_ROWS) for _ in range(2))
    taus = lanes.scratch(MOST_ROWS)
    rows, columns = w.select(right, "i64", n, m), w.select(right, "i64", m, n)
    down, along = w.select(right, "i64", "1", n), w.select(right, "i64", n, "1")
    copy_in(lanes, "%packed", first, count, w.imul(rows, k), packed)
    copy_in(lanes, "%taus", first, count, k, taus)
    copy_in(lanes, "%c", first, count, w.imul(m, n), c)
    apply_reflectors(
        lanes,
        (packed, by_rows(w, k)),
        taus,
        k,
        (c, lambda i, j: w.iadd(w.imul(i, down), w.imul(j, along))),
        (rows, columns),
        forward=w.op("xor", "i1", right, adjoint),
        conjugated=adjoint,
        turned=right,
    )
    copy_out(lanes, c, first, count, w.imul(m, n), "%out")


def _fields(numbers: str, arrays: str) -> list[tuple[str, str]]:
    fields = [("i64", name) for name in numbers.split()]
    return fields + [("ptr", name) for name in arrays.split()]


def _cycles(w: FunctionWriter) -> str:
    return w.imul(w.imul("%m", "%n"), 128)


_ROUTINES = {
    "geqrf": LaneRoutine(
        _fields("batches m n", "a packed taus"), lambda w: "%batches", _cycles, _geqrf
    ),
    "orgqr": LaneRoutine(
        _fields("batches m n k", "packed taus q"), lambda w: "%batches", _cycles, _orgqr
    ),
    "ormqr": LaneRoutine(
        _fields("batches m n k flags", "packed taus c out"), lambda w: "%batches", _cycles, _ormqr
    ),
}


def register() -> None:
    """Declares the routines of every element type."""
    register_lane_routines(_ROUTINES, TYPES)
