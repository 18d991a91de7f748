"""Discrete Fourier transforms, many at a time (see `matrix_lanes`).

  void pyjax_fft_<t>(outer, inner, n, in_outer, in_inner, in_step, out_outer, out_inner, out_step,
                     kept, tail, inverse, pass_count, ptr passes, ptr roots, ptr rotations,
                     ptr places, ptr x, ptr y)
        transforms of length n: problem (o, i) begins at o in_outer + i in_inner, and its elements
        are in_step apart; of the results likewise. The first `kept` results are stored, and the
        next one where i < tail. inverse: the other sign, over n. rotations, if not null: result k
        of problem i is multiplied by the root number i k. places: of a large prime factor of n,
        `fft_plan.generated`. x may be y.
  pyjax_rfft_<t>: the same of real numbers.    pyjax_irfft_<t>: of the first n / 2 + 1 numbers of
        what is conjugate-symmetric; gives real ones
        t: c64 c128; `fft_plan` has the tables

A group of transforms goes into a buffer with a vector for each element, through its passes
(`fft_passes`), and out again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm import elemental
from xla_backend.llvm.transposes import transpose
from xla_backend.llvm.types import const, element
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.targets.cpu.routines.fft_passes import (
    Short,
    Tables,
    register_passes,
    run_passes,
)
from xla_backend.targets.cpu.routines.fft_plan import LOW_BITS
from xla_backend.targets.cpu.routines.matrix_lanes import REALS, Lanes, emit_groups
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.workspace import HEADER, emit_workspace

TYPES = (P.C64, P.C128)
KINDS = ("fft", "rfft", "irfft")
NUMBERS = (
    "outer", "inner", "n", "in_outer", "in_inner", "in_step", "out_outer", "out_inner", "out_step",
    "kept", "tail", "inverse", "pass_count",
)  # fmt: skip
_FIELDS = [
    *(("i64", name) for name in NUMBERS),
    *(("ptr", name) for name in ("passes", "roots", "rotations", "places", "x", "y")),
]
Pair = tuple[str, str]
# Cycles of an element of a group: in and out, and in a pass.
_MOVE, _PASS = 40, 8


# -- a group of transforms -------------------------------------------------------------------------


class _Places:
    """Where the problems of a group begin, in the operand and in the result."""

    def __init__(self, lanes: Lanes, first: str, count: str, parts: tuple[int, int]) -> None:
        w = self.w = lanes.w
        self.lanes = lanes
        outer = w.op("sdiv", "i64", first, "%inner")
        self.first = w.isub(first, w.imul(outer, "%inner"))
        tables = [w.alloca("i32", lanes.count, 64) for _ in range(3)]
        steps = [("%in_outer", "%in_inner", parts[0]), ("%out_outer", "%out_inner", parts[1])]
        with w.loop(0, lanes.count, 1, [("i64", "0"), ("i64", self.first)]) as each:
            ahead, now = each.carried
            places = [
                w.imul(w.iadd(w.imul(ahead, far), w.imul(w.isub(now, self.first), near)), size)
                for far, near, size in steps
            ]
            for table, place in zip(tables, [*places, now], strict=True):
                w.store(
                    "i32", w.cast("trunc", "i64", place, "i32"), w.gep("i32", table, each.index)
                )
            more = w.cmp("slt", "i64", w.iadd(w.iadd(first, each.index), 1), count)
            wraps = w.cmp("eq", "i64", w.iadd(now, 1), "%inner")
            next_ahead = w.select(wraps, "i64", w.iadd(ahead, 1), ahead)
            next_now = w.select(wraps, "i64", "0", w.iadd(now, 1))
            each.next = [
                w.select(more, "i64", a, b) for a, b in ((next_ahead, ahead), (next_now, now))
            ]
        self.inputs, self.outputs, self.numbers = (w.load(lanes.index_ty, t) for t in tables)
        self._tables = tables
        self.starts = [
            w.imul(w.iadd(w.imul(outer, far), w.imul(self.first, near)), size)
            for far, near, size in steps
        ]
        self._whole = w.cmp("sle", "i64", w.iadd(self.first, lanes.count), "%inner")

    def rows(self, array: str, which: int) -> list[str]:
        """Where each lane's problem begins, in the operand (0) or the result (1)."""
        w = self.w
        offsets = [
            w.load("i32", w.gep("i32", self._tables[which], lane))
            for lane in range(self.lanes.count)
        ]
        real = element(self.lanes.ty)
        return [w.gep(real, array, w.as_index("i32", offset)) for offset in offsets]

    def together(self, distance: str) -> str:
        """Whether the lanes lie one behind the other."""
        near = self.w.cmp("eq", "i64", distance, "1")
        return self.w.op("and", "i1", near, self._whole)


class _Group:
    """A group of transforms, from the operand to the result."""

    def __init__(self, kind: str, lanes: Lanes, first: str, count: str) -> None:
        self.w, self.kind, self.lanes = lanes.w, kind, lanes
        w, self.real = lanes.w, element(lanes.ty)
        reals = Lanes(w, REALS[lanes.t])
        self.source = reals if kind == "rfft" else lanes
        self.target = reals if kind == "irfft" else lanes
        self.places = _Places(lanes, first, count, (self.source.parts, self.target.parts))
        self.x, self.y = (
            w.gep(self.real, array, start) for array, start in zip(("%x", "%y"), self.places.starts)
        )
        self.inverse = w.cmp("ne", "i64", "%inverse", "0")

    def transform(self) -> None:
        w, lanes = self.w, self.lanes
        size = w.imul("%n", 2 * lanes.count * (8 if self.real == "double" else 4))
        taken = w.call("pyjax.workspace.take", "ptr", [("i64", w.imul(size, 2))])
        buffers = w.gep("i8", taken, HEADER), w.gep("i8", taken, w.iadd(size, HEADER))
        self._read(buffers[0])
        tables = Tables("%passes", "%pass_count", "%roots", "%places")
        self._write(run_passes(lanes, buffers, tables))
        w.call("pyjax.workspace.give", "void", [("ptr", taken)])

    def _swapped(self, value: Pair) -> Pair:
        """The inverse transform is the transform of numbers whose parts have traded places."""
        (a, b), ty, inverse = value, self.lanes.ty, self.inverse
        given = inverse, a, b
        first = self.w.pure(f"select i1 {inverse}, {ty} {b}, {ty} {a}", *given)
        return first, self.w.pure(f"select i1 {inverse}, {ty} {a}, {ty} {b}", *given)

    def _choose(self, near: str, step: str, ways: tuple[Callable[[], None], ...]) -> None:
        """One of three ways to go through memory: vectors of neighbours that are the same element
        of all problems, squares of as many elements of each problem, or element by element."""

        def way(number: int) -> Callable[[], list[str]]:
            def run() -> list[str]:
                ways[number]()
                return []

            return run

        def otherwise() -> list[str]:
            rows = self.w.cmp("eq", "i64", step, "1")
            return self.w.if_else(rows, [], way(1), way(2))

        self.w.if_else(self.places.together(near), [], way(0), otherwise)

    # -- in ----------------------------------------------------------------------------------------

    def _read(self, buffer: str) -> None:
        w, lanes, source = self.w, self.lanes, self.source
        half = w.iadd(w.op("sdiv", "i64", "%n", "2"), 1)
        given = half if self.kind == "irfft" else "%n"

        def put(k: str, value: Any) -> None:
            pair = value if source is lanes else (value, const(lanes.ty, 0.0))
            lanes.store(buffer, k, self._swapped(pair))

        def each(start: str, read: Callable[[str], Any]) -> None:
            with w.loop(start, given) as loop:
                put(loop.index, read(w.imul(loop.index, "%in_step")))

        def apart(start: str = "0") -> None:
            each(start, lambda at: source.read(self.x, self.places.inputs, at))

        def squares() -> None:
            rows = self.places.rows(self.x, 0)
            whole = w.op("and", "i64", given, str(-lanes.count))
            with w.loop("0", whole, lanes.count) as loop:
                loaded = [elemental.load(w, source.t, lanes.count, row, loop.index) for row in rows]
                for k, value in enumerate(_turned(lanes, source, loaded)):
                    put(w.iadd(loop.index, k), value)
            apart(whole)

        def together() -> None:
            each("0", lambda at: elemental.load(w, source.t, lanes.count, self.x, at))

        self._choose("%in_inner", "%in_step", (together, squares, apart))
        if self.kind == "irfft":
            with w.loop(half, "%n") as loop:
                mirrored = lanes.load(buffer, w.isub("%n", loop.index))
                assert isinstance(mirrored, tuple)
                conjugate = lanes.conjugate(self._swapped(mirrored))
                assert isinstance(conjugate, tuple)
                lanes.store(buffer, loop.index, self._swapped(conjugate))

    # -- out ---------------------------------------------------------------------------------------

    def _write(self, buffer: str) -> None:
        w, lanes, target, ty = self.w, self.lanes, self.target, self.lanes.ty
        scale = w.cast("sitofp", "i64", w.select(self.inverse, "i64", "%n", "1"), self.real)
        scale = w.splat(ty, w.op("fdiv", self.real, const(self.real, 1.0), scale))
        rotates = w.cmp("ne", "ptr", "%rotations", "null")

        def stored(k: str) -> Pair:
            value = lanes.load(buffer, k)
            assert isinstance(value, tuple)
            rotated = lambda: [*_rotated(lanes, value, self.places, k)]
            turned = w.if_else(rotates, [ty, ty], rotated, lambda: [*value])
            real_part, imaginary = self._swapped((turned[0], turned[1]))
            return w.op("fmul", ty, real_part, scale), w.op("fmul", ty, imaginary, scale)

        def result(k: str) -> Any:
            value = stored(k)
            return value if target is lanes else value[0]

        def apart(start: str = "0") -> None:
            with w.loop(start, "%kept") as loop:
                at = w.imul(loop.index, "%out_step")
                target.write(self.y, self.places.outputs, at, result(loop.index))

        def squares() -> None:
            rows = self.places.rows(self.y, 1)
            whole = w.op("and", "i64", "%kept", str(-lanes.count))
            with w.loop("0", whole, lanes.count) as loop:
                values = [result(w.iadd(loop.index, k)) for k in range(lanes.count)]
                for row, value in zip(rows, _turned(lanes, target, values), strict=True):
                    elemental.store(w, target.t, lanes.count, value, row, loop.index)
            apart(whole)

        def together() -> None:
            with w.loop("0", "%kept") as loop:
                at = w.imul(loop.index, "%out_step")
                value = result(loop.index)
                elemental.store(w, target.t, lanes.count, value, self.y, at)

        self._choose("%out_inner", "%out_step", (together, squares, apart))
        with w.if_(w.cmp("sgt", "i64", "%tail", "0")):
            mask = w.cmp("slt", lanes.index_ty, self.places.numbers, lanes.everywhere("%tail"))
            for part, each in enumerate(stored("%kept")):
                at = w.iadd(w.imul(w.imul("%kept", "%out_step"), 2), part)
                place = w.gep(self.real, self.y, at)
                w.scatter(ty, each, place, lanes.index_ty, self.places.outputs, mask)


def _turned(lanes: Lanes, part: Lanes, rows: list[Any]) -> list[Any]:
    """Squares of elements, rows and columns exchanged."""
    w, ty = lanes.w, lanes.ty
    if part.parts == 1:
        return transpose(w, ty, rows)
    reals, imaginaries = (transpose(w, ty, [row[p] for row in rows]) for p in (0, 1))
    return list(zip(reals, imaginaries, strict=True))


def _rotated(lanes: Lanes, value: Pair, places: _Places, k: str) -> Pair:
    """Times the root whose number is the problem's times k."""
    w, ty, ints = lanes.w, lanes.ty, lanes.index_ty
    number = w.op("mul", ints, places.numbers, lanes.everywhere(k))
    low = w.op("and", ints, number, const(ints, (1 << LOW_BITS) - 1))
    high = w.op("lshr", ints, number, const(ints, LOW_BITS))
    high = w.op("add", ints, high, const(ints, 1 << LOW_BITS))
    short = Short(lanes)
    root: Pair | None = None
    for index in (low, high):
        index = w.op("shl", ints, index, const(ints, 1))
        at = [w.gep(element(ty), "%rotations", part) for part in (0, 1)]
        pair = w.gather(ty, at[0], ints, index), w.gather(ty, at[1], ints, index)
        root = pair if root is None else short.times(root, pair)
    assert root is not None
    return short.times(value, root)


def _emit(kind: str, t: P, module: ModuleWriter) -> None:
    emit_workspace(module)
    emit_groups(
        module,
        f"pyjax_{kind}_{t}",
        t,
        _FIELDS,
        lambda w: w.imul("%outer", "%inner"),
        lambda w: w.imul("%n", w.iadd(w.imul("%pass_count", _PASS), _MOVE)),
        lambda lanes, first, count: _Group(kind, lanes, first, count).transform(),
    )


def register() -> None:
    """Declares the transforms of every element type."""
    for t in TYPES:
        register_passes(t)
        for kind in KINDS:
            register_group(f"{kind}_{t}", (f"pyjax_{kind}_{t}",), partial(_emit, kind, t))
