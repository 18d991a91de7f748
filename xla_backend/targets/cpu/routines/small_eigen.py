"""Eigenvalues and eigenvectors of small hermitian matrices, many at a time (see `matrix_lanes`).

void pyjax_eigh_<t>(batches, n, lower, ptr a, ptr vectors, ptr values, ptr info)
      a: hermitian, of which the lower (or upper) triangle is read; values: real, ascending;
      columns of vectors: orthonormal; info, s32: 0, or 1 with NaN in both where a is not finite
      t: f32 f64 c64 c128; all matrices by rows, one behind the other; n <= MOST_ROWS

Jacobi's method: plane rotations, each of which makes one pair of elements zero, in sweeps over all
pairs until no element is worth one. Off-diagonal elements then fall quadratically.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from xla_backend.llvm.types import const, element, mask_of
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.cpu.routines.lane_groups import LaneRoutine, register_lane_routines
from xla_backend.targets.cpu.routines.matrix_facts import MOST_ROWS, TYPES
from xla_backend.targets.cpu.routines.matrix_lanes import Element, Lanes, parts_of

# Of 16 rows: 5 to 9 are what random matrices take.
MOST_SWEEPS = 30


class Rotation(NamedTuple):
    """[[cosine, sine], [-conjugate(sine), cosine]] on a pair of columns, where it is `wanted`."""

    wanted: str
    cosine: str
    sine: Element
    shift: str  # what the first diagonal element loses and the second gains


def rotation(lanes: Lanes, first: str, second: str, across: Element, negligible: float) -> Rotation:
    """What makes [[first, across], [conjugate(across), second]] diagonal; not wanted where `across`
    is less than `negligible` of the others' geometric mean."""
    w, ty = lanes.w, lanes.ty
    one = const(ty, 1.0)
    if isinstance(across, str):
        signed, size = across, w.intrinsic("fabs", ty, across)
    else:
        square = lanes.plus_square(const(ty, 0.0), across)
        signed = size = w.intrinsic("sqrt", ty, square)
    roots = [w.intrinsic("sqrt", ty, w.intrinsic("fabs", ty, x)) for x in (first, second)]
    mean = w.op("fmul", ty, *roots)
    least = w.op("fmul", ty, mean, const(ty, negligible))
    # Below this, what rounding leaves of the largest elements, which are near 1, is far larger.
    tiny = const(ty, 2.0**-60 if element(ty) == "float" else 2.0**-500)
    wanted = w.op("and", mask_of(ty), w.cmp("ogt", ty, size, least), w.cmp("ogt", ty, size, tiny))
    difference = w.op("fsub", ty, second, first)
    theta = w.op("fdiv", ty, difference, w.op("fadd", ty, signed, signed))
    root = w.intrinsic("sqrt", ty, w.fma(ty, theta, theta, one))
    denominator = w.op("fadd", ty, w.intrinsic("fabs", ty, theta), root)
    sign = w.intrinsic("copysign", ty, one, theta)
    tangent = w.op("fdiv", ty, sign, denominator)
    cosine = w.op("fdiv", ty, one, w.intrinsic("sqrt", ty, w.fma(ty, tangent, tangent, one)))
    sine: Element = w.op("fmul", ty, tangent, cosine)
    if not isinstance(across, str):
        over = w.op("fdiv", ty, sine, size)  # type: ignore[arg-type]
        sine = lanes.times_real(across, over)
    return Rotation(wanted, cosine, sine, w.op("fmul", ty, tangent, signed))


def rotate(lanes: Lanes, r: Rotation, x: Element, y: Element) -> tuple[Element, Element]:
    """An element of each of the two columns; the same where no rotation is wanted."""
    first = lanes.minus_product(lanes.times_real(x, r.cosine), lanes.conjugate(r.sine), y)
    second = lanes.plus_product(lanes.times_real(y, r.cosine), r.sine, x)
    return lanes.select(r.wanted, first, x), lanes.select(r.wanted, second, y)


def rotate_rows(lanes: Lanes, r: Rotation, memory: str, p: str, q: str, length: str) -> None:
    """Two rows of so many elements in scratch memory."""
    w = lanes.w
    with w.loop("0", length) as loop:
        at = [w.iadd(w.imul(row, length), loop.index) for row in (p, q)]
        pair = rotate(lanes, r, *(lanes.load(memory, each) for each in at))
        for each, value in zip(at, pair):
            lanes.store(memory, each, value)


def sweep(lanes: Lanes, n: str, pair: Callable[[str, str], str]) -> None:
    """pair(p, q) -> lanes that wanted a rotation, of all p < q < n; again while one does."""
    w = lanes.w
    mask = mask_of(lanes.ty)

    def goes_on(carried: list[str]) -> str:
        few = w.cmp("slt", "i64", carried[0], str(MOST_SWEEPS))
        return w.op("and", "i1", few, carried[1])

    def body(carried: list[str]) -> list[str]:
        none = const(mask, 0)
        with w.loop("0", n, 1, [(mask, none)]) as first:
            with w.loop(w.iadd(first.index, 1), n, 1, [(mask, first.carried[0])]) as second:
                wanted = pair(first.index, second.index)
                second.next = [w.op("or", mask, second.carried[0], wanted)]
            first.next = [second.results[0]]
        return [w.iadd(carried[0], 1), lanes.in_any(first.results[0])]

    w.while_([("i64", "0"), ("i1", "true")], goes_on, body)


def negligible_for(lanes: Lanes) -> float:
    """A quarter of the distance from 1 to the next number."""
    return 2.0**-25 if element(lanes.ty) == "float" else 2.0**-54


_EIGH = [
    *(("i64", name) for name in ("batches", "n", "lower")),
    *(("ptr", name) for name in ("a", "vectors", "values", "info")),
]


def _eigh(lanes: Lanes, first: str, count: str) -> None:
    w, n, ty, ints = lanes.w, "%n", lanes.ty, lanes.index_ty
    scalar = element(ty)
    is_lower = w.cmp("ne", "i64", "%lower", "0")
    row, column = w.select(is_lower, "i64", n, "1"), w.select(is_lower, "i64", "1", n)
    sign = w.select(is_lower, scalar, const(scalar, 1.0), const(scalar, -1.0))
    sign = w.splat(ty, sign)
    step = w.imul(w.imul(n, n), lanes.parts)
    offsets = lanes.offsets(first, count, step)
    a, vectors = (w.gep(scalar, array, w.imul(first, step)) for array in ("%a", "%vectors"))
    values = w.gep(scalar, "%values", w.imul(first, n))
    matrix, basis = (lanes.scratch(MOST_ROWS * MOST_ROWS) for _ in range(2))
    found = w.alloca(ty, MOST_ROWS, 64)

    def at(i: str, j: str) -> str:
        return w.iadd(w.imul(i, n), j)

    def given(i: str, j: str) -> Element:
        return lanes.with_sign(
            lanes.read(a, offsets, w.iadd(w.imul(i, row), w.imul(j, column))), sign
        )

    def diagonal(i: str) -> str:
        return parts_of(lanes.load(matrix, at(i, i)))[0]

    zero = const(ty, 0.0)
    with w.loop("0", n, 1, [(ty, zero)]) as rows:
        real = parts_of(given(rows.index, rows.index))[0]
        with w.loop("0", rows.index, 1, [(ty, lanes.largest(rows.carried[0], real))]) as columns:
            columns.next = [lanes.largest(columns.carried[0], given(rows.index, columns.index))]
        rows.next = columns.results
    finite = lanes.is_finite(rows.results[0])
    power, inverse = lanes.power_of_two(rows.results[0])
    # What is not finite is replaced: nothing of it is wanted but that.
    factor = w.select(finite, ty, inverse, zero)
    with w.loop("0", n) as rows:
        i = rows.index
        with w.loop("0", i) as columns:
            value = lanes.times_real(given(i, columns.index), factor)
            value = lanes.select(finite, value, lanes.zero())
            lanes.store(matrix, at(i, columns.index), value)
            lanes.store(matrix, at(columns.index, i), lanes.conjugate(value))
        value = w.op("fmul", ty, parts_of(given(i, i))[0], factor)
        lanes.store(matrix, at(i, i), lanes.real(w.select(finite, ty, value, zero)))
        with w.loop("0", n) as columns:
            same = w.cmp("eq", "i64", i, columns.index)
            one = w.select(same, scalar, const(scalar, 1.0), const(scalar, 0.0))
            lanes.store(basis, at(i, columns.index), lanes.real(w.splat(ty, one)))

    def pair(p: str, q: str) -> str:
        across = lanes.load(matrix, at(p, q))
        before = diagonal(p), diagonal(q)
        r = rotation(lanes, *before, across, negligible_for(lanes))
        with w.if_(lanes.in_any(r.wanted)):
            with w.loop("0", n) as loop:
                places = at(loop.index, p), at(loop.index, q)
                x, y = rotate(lanes, r, *(lanes.load(matrix, place) for place in places))
                for place, other, value in zip(
                    places, (at(p, loop.index), at(q, loop.index)), (x, y)
                ):
                    lanes.store(matrix, place, value)
                    lanes.store(matrix, other, lanes.conjugate(value))
            # The four elements where the rows and columns meet.
            for i, opcode, old in ((p, "fsub", before[0]), (q, "fadd", before[1])):
                new = w.select(r.wanted, ty, w.op(opcode, ty, old, r.shift), old)
                lanes.store(matrix, at(i, i), lanes.real(new))
            kept = lanes.select(r.wanted, lanes.zero(), across)
            lanes.store(matrix, at(p, q), kept)
            lanes.store(matrix, at(q, p), lanes.conjugate(kept))
            rotate_rows(lanes, r, basis, p, q, n)
        return r.wanted

    sweep(lanes, n, pair)

    nan = const(ty, float("nan"))
    with w.loop("0", n) as loop:
        w.store(ty, diagonal(loop.index), w.gep(ty, found, loop.index))
    starts = lanes.offsets(first, count, n)
    with w.loop("0", n) as loop:
        i = loop.index
        rank = lanes.ranks(found, i, n, "olt")
        value = w.op("fmul", ty, w.load(ty, w.gep(ty, found, i)), power)
        value = w.select(finite, ty, value, nan)
        w.scatter(ty, value, values, ints, w.op("add", ints, starts, rank))
        places = w.op("mul", ints, rank, const(ints, lanes.parts))
        places = w.op("add", ints, offsets, places)
        with w.loop("0", n) as elements:
            each = lanes.load(basis, at(i, elements.index))
            each = lanes.select(finite, each, lanes.real(nan))
            lanes.write(vectors, places, w.imul(elements.index, n), each)
    failed = w.select(finite, ints, const(ints, 0), const(ints, 1))
    w.scatter(ints, failed, w.gep("i32", "%info", first), ints, lanes.offsets(first, count, "1"))


def _cycles(w: FunctionWriter) -> str:
    """Of six sweeps."""
    return w.imul(w.imul("%n", "%n"), w.imul(w.iadd("%n", 8), 48))


_ROUTINES = {"eigh": LaneRoutine(_EIGH, lambda w: "%batches", _cycles, _eigh)}


def register() -> None:
    """Declares the routines of every element type."""
    register_lane_routines(_ROUTINES, TYPES)
