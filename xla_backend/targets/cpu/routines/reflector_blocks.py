"""Reflectors that are applied many at a time, as products.

With the reflectors in the columns of V their product is I - V T V^H, and the inverse of T is the
upper triangle of V^H V with 1 / tau on the diagonal (Puglisi): products with T
are triangular systems.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.bytes import clear_bytes
from xla_backend.llvm.types import const, mask_of
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.blocked_matrices import SUBSTITUTE, emit_substitute
from xla_backend.targets.cpu.routines.matrix_facts import BLOCK
from xla_backend.targets.cpu.routines.matrix_lanes import Element, parts_of
from xla_backend.targets.cpu.routines.matrix_rows import Rows, place, product

_SPREAD = [
    ("ptr", "a"), ("i64", "pitch"), ("i64", "m"), ("i64", "count"), ("ptr", "taus"), ("ptr", "v"),
    ("ptr", "negated"), ("ptr", "s"),
]  # fmt: skip
_APPLY = [
    ("ptr", "c"), ("i64", "pitch"), ("i64", "m"), ("i64", "n"), ("i64", "count"), ("ptr", "v"),
    ("ptr", "negated"), ("ptr", "s"), ("ptr", "w"), ("i1", "adjoint"),
]  # fmt: skip


class Packed(NamedTuple):
    """Reflectors in the columns of a matrix, below its diagonal: its start, the distance of its
    rows, how many there are, and the factors tau."""

    start: str
    pitch: str
    rows: str
    taus: str


class ReflectorAreas(NamedTuple):
    """Memory that reflectors are applied with: themselves and their negatives, a block of as many
    as the matrix has rows, a square of a block, and a block of as many as there are columns."""

    v: str
    negated: str
    s: str
    w: str


def call_function(
    w: FunctionWriter, name: str, fields: Sequence[tuple[str, str]], *values: str
) -> None:
    """Calls a function of this module, by its parameters."""
    w.call(name, "void", [(ty, value) for (ty, _), value in zip(fields, values, strict=True)])


def clear(w: FunctionWriter, t: P, target: str, count: str) -> None:
    clear_bytes(w, target, w.imul(count, t.byte_size))


def emit_reflectors(module: ModuleWriter, t: P) -> None:
    """The functions that `apply_reflectors` and `multiply_by_reflectors` call."""
    emit_substitute(module, t)
    _emit_spread(module, t)
    _emit_apply(module, t)


def apply_reflectors(
    w: FunctionWriter,
    t: P,
    packed: Packed,
    start: str,
    count: str,
    columns: tuple[str, str, str],
    areas: ReflectorAreas,
    adjoint: str,
) -> None:
    """Up to BLOCK of them from `start` on. `columns`: of the target, the start of row `start`, the
    distance of its rows, how many there are."""
    corner = place(w, t, packed.start, w.imul(start, w.iadd(packed.pitch, 1)))
    rows = w.isub(packed.rows, start)
    mine = place(w, t, packed.taus, start)
    target, pitch, width = columns
    matrices = areas.v, areas.negated, areas.s
    call_function(w, "qr.spread", _SPREAD, corner, packed.pitch, rows, count, mine, *matrices)
    call_function(
        w, "qr.apply", _APPLY, target, pitch, rows, width, count, *matrices, areas.w, adjoint
    )


def multiply_by_reflectors(
    w: FunctionWriter,
    t: P,
    packed: Packed,
    count: str,
    target: tuple[str, str, str],
    areas: ReflectorAreas,
    from_diagonal: bool = False,
) -> None:
    """The target becomes Q times itself, for the product Q of `count` reflectors. `target`: its
    start, the distance of its rows, how many columns it has. `from_diagonal`: it is the unit
    matrix, so what is left of the reflectors stays as it is."""
    start_of, pitch, width = target
    blocks = w.op("udiv", "i64", w.iadd(count, BLOCK - 1), str(BLOCK))
    with w.loop("0", blocks) as loop:
        start = w.imul(w.isub(w.isub(blocks, loop.index), 1), BLOCK)
        some = w.imin(w.isub(count, start), BLOCK)
        step = w.iadd(pitch, 1) if from_diagonal else pitch
        columns = (
            place(w, t, start_of, w.imul(start, step)),
            pitch,
            w.isub(width, start) if from_diagonal else width,
        )
        apply_reflectors(w, t, packed, start, some, columns, areas, "false")


# -- functions, once in each group ---------------------------------------------------------------


def _emit_spread(module: ModuleWriter, t: P) -> None:
    """void qr.spread(a, pitch, m, count, taus, v, negated, s): the reflectors in the first columns
    of a as dense rows of v, their negated conjugates, and the triangle s that is the inverse of T.
    Where tau is 0 there is no reflector."""
    w = module.function("qr.spread", _SPREAD, internal=True, attributes="noinline")
    v = Rows(w, t)
    lanes, ty = v.lanes, v.lanes.ty
    count = v.lanes.count
    zero, one = lanes.zero(), lanes.real(const(ty, 1.0))

    def iszero(x: Element) -> str:
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
            value = lanes.select(iszero(v.load("%taus", columns.index, mask)), zero, value)
            at = w.iadd(line, columns.index)
            v.store("%v", at, value, mask)
            v.store("%negated", at, lanes.negated(lanes.conjugate(value)), mask)
    clear(w, t, "%s", w.imul("%count", "%count"))
    product(
        w, t, "%count", "%count", "%m", "%negated", "1", "%count", "%v", "%count", "1", "%s",
        "%count",
    )  # fmt: skip
    with w.loop("0", "%count") as rows:
        line = w.imul(rows.index, "%count")
        number = w.splat(lanes.index_ty, w.cast("trunc", "i64", rows.index, "i32"))
        tau = v.number("%taus", rows.index)
        inverse = lanes.select(iszero(tau), one, lanes.quotient(one, tau))
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
    clear(w, t, "%w", w.imul("%count", "%n"))
    product(w, t, "%count", "%n", "%m", "%negated", "1", "%count", "%c", "%pitch", "1", "%w", "%n")
    last = w.isub("%count", 1)

    def solve(start: str, row: str, column: str, direction: str, conjugated: str) -> list[str]:
        matrix = place(w, t, "%s", w.imul(start, w.iadd("%count", 1)))
        unknowns = place(w, t, "%w", w.imul(start, "%n"))
        call_function(
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
