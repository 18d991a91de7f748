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
  pyjax_packed_rfft_<t>, pyjax_packed_irfft_<t>: the same of 2 n real numbers, which lie as n
        complex ones do, and n + 1 complex ones; rotations are `fft_plan.half_turn`
        t: c64 c128, also with the suffix of a form (`fft_forms`); `fft_plan` has the tables

A group of transforms goes into a buffer with a vector for each element, through its passes
(`fft_passes`), and out again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm import elemental
from xla_backend.llvm.bytes import prefetch
from xla_backend.llvm.transposes import transpose
from xla_backend.llvm.types import const, element
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.targets.cpu.routines.fft_forms import (
    ANY,
    COLUMNS,
    FORMS,
    ROWS,
    Form,
)
from xla_backend.targets.cpu.routines.fft_passes import (
    Short,
    Tables,
    register_passes,
    run_passes,
)
from xla_backend.targets.cpu.routines.fft_plan import (
    KINDS,
    LANE_ROOTS,
    LOW_BITS,
    NUMBERS,
    PACKED_IRFFT,
    PACKED_RFFT,
    TYPES,
)
from xla_backend.targets.cpu.routines.lane_groups import emit_groups
from xla_backend.targets.cpu.routines.matrix_facts import REALS
from xla_backend.targets.cpu.routines.matrix_lanes import Lanes
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.workspace import GIVE, HEADER, TAKE

_FIELDS = [
    *(("i64", name) for name in NUMBERS),
    *(("ptr", name) for name in ("passes", "roots", "rotations", "places", "x", "y")),
]
Pair = tuple[str, str]
# How early the lines of a square are asked for.
_SQUARES_AHEAD = 2
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
        self.whole = w.cmp("sle", "i64", w.iadd(self.first, lanes.count), "%inner")

    def row(self, array: str, which: int, lane: str) -> str:
        """Where a lane's problem begins, in the operand (0) or the result (1)."""
        w = self.w
        offset = w.load("i32", w.gep("i32", self._tables[which], lane))
        return w.gep(element(self.lanes.ty), array, w.as_index("i32", offset))

    def together(self, distance: str) -> str:
        """Whether the lanes lie one behind the other."""
        near = self.w.cmp("eq", "i64", distance, "1")
        return self.w.op("and", "i1", near, self.whole)


class _Group:
    """A group of transforms, from the operand to the result."""

    def __init__(self, kind: str, form: Form, lanes: Lanes, first: str, count: str) -> None:
        self.w, self.kind, self.form, self.lanes = lanes.w, kind, form, lanes
        w, self.real = lanes.w, element(lanes.ty)
        self.packed = kind in (PACKED_RFFT, PACKED_IRFFT)
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
        # Packed numbers have one more at the end.
        size = w.imul(w.iadd("%n", 1), 2 * lanes.count * (8 if self.real == "double" else 4))
        taken = w.call(TAKE, "ptr", [("i64", w.imul(size, 2))])
        buffers = w.gep("i8", taken, HEADER), w.gep("i8", taken, w.iadd(size, HEADER))
        self._read(buffers[0])
        tables = Tables("%passes", "%pass_count", "%roots", "%places")
        if self.kind == PACKED_IRFFT:
            self._pack(buffers[0])
        made = run_passes(lanes, buffers, tables, self.form.radices)
        if self.kind == PACKED_RFFT:
            lanes.store(made, "%n", lanes.load(made, "0"))  # one period on
        self._write(made)
        w.call(GIVE, "void", [("ptr", taken)])

    def _swapped(self, value: Pair) -> Pair:
        """The inverse transform is the transform of numbers whose parts have traded places."""
        (a, b), ty, inverse = value, self.lanes.ty, self.inverse
        given = inverse, a, b
        first = self.w.pure(f"select i1 {inverse}, {ty} {b}, {ty} {a}", *given)
        return first, self.w.pure(f"select i1 {inverse}, {ty} {a}, {ty} {b}", *given)

    def _choose(
        self, lies: str | None, near: str, step: str, ways: tuple[Callable[[], None], ...]
    ) -> None:
        """One of three ways to go through memory: vectors of neighbours that are the same element
        of all problems, squares of as many elements of each problem, or element by element."""

        def way(number: int) -> Callable[[], list[str]]:
            def run() -> list[str]:
                ways[number]()
                return []

            return run

        def otherwise() -> list[str]:
            if lies == COLUMNS:
                return way(2)()
            rows = self.w.cmp("eq", "i64", step, "1")
            return self.w.if_else(rows, [], way(1), way(2))

        if lies == ROWS:
            ways[1]()
        else:
            self.w.if_else(self.places.together(near), [], way(0), otherwise)

    def _ask(self, part: Lanes, row: str, at: str, writes: int) -> None:
        """Asks for the lines of a row's next elements: problems are too far from each other for
        the machine to guess, and what waits for them is too much to look ahead."""
        w, per_line = self.w, 16 if self.real == "float" else 8
        first = w.imul(at, part.parts)
        for k in range(0, part.parts * part.count, per_line):
            # Beyond the row there may be nothing; the address must not claim to be in bounds.
            number = w.iadd(first, k)
            place = w.pure(f"getelementptr {self.real}, ptr {row}, i64 {number}", row, number)
            prefetch(w, place, bool(writes))

    def _turn(self, source: str, target: str) -> None:
        """A square of complex numbers: the elements of the lanes become lanes of the elements."""
        w = self.w
        for part in range(2):
            places = [w.gep(self.real, each, part * self.lanes.count) for each in (source, target)]
            w.call(_turn_name(self.lanes.t), "void", [("ptr", place) for place in places])

    # -- in ----------------------------------------------------------------------------------------

    def _read(self, buffer: str) -> None:
        w, lanes, source = self.w, self.lanes, self.source
        half = w.iadd(w.op("sdiv", "i64", "%n", "2"), 1)
        given = {"irfft": half, PACKED_IRFFT: w.iadd("%n", 1)}.get(self.kind, "%n")

        def pair(value: Any) -> Pair:
            return self._swapped(value if source is lanes else (value, const(lanes.ty, 0.0)))

        def put(k: str, value: Any) -> None:
            lanes.store(buffer, k, pair(value))

        def each(start: str, read: Callable[[str], Any]) -> None:
            with w.loop(start, given) as loop:
                put(loop.index, read(w.imul(loop.index, "%in_step")))

        def apart(start: str = "0") -> None:
            each(start, lambda at: source.read(self.x, self.places.inputs, at))

        def squares() -> None:
            rows = lanes.scratch(lanes.count)
            whole = w.op("and", "i64", given, str(-lanes.count))
            with w.loop("0", whole, lanes.count) as loop:
                with w.loop("0", str(lanes.count), guard=False) as problem:
                    row = self.places.row(self.x, 0, problem.index)
                    self._ask(source, row, w.iadd(loop.index, _SQUARES_AHEAD * lanes.count), 0)
                    value = elemental.load(w, source.t, lanes.count, row, loop.index)
                    lanes.store(rows, problem.index, pair(value))
                self._turn(rows, lanes.place(buffer, loop.index))
            apart(whole)

        def together() -> None:
            each("0", lambda at: elemental.load(w, source.t, lanes.count, self.x, at))

        self._choose(self.form.read, "%in_inner", "%in_step", (together, squares, apart))
        if self.kind == "irfft":
            with w.loop(half, "%n") as loop:
                mirrored = lanes.load(buffer, w.isub("%n", loop.index))
                assert isinstance(mirrored, tuple)
                conjugate = lanes.conjugate(self._swapped(mirrored))
                assert isinstance(conjugate, tuple)
                lanes.store(buffer, loop.index, self._swapped(conjugate))

    # -- real numbers as half as many complex ones -------------------------------------------------

    def _halves(self, buffer: str, k: str) -> tuple[Pair, Pair, Pair]:
        """Sum and difference of number k and the conjugate of number n - k, and a root of 2 n."""
        w, lanes, ty = self.w, self.lanes, self.lanes.ty
        low, high = lanes.load(buffer, k), lanes.load(buffer, w.isub("%n", k))
        assert isinstance(low, tuple) and isinstance(high, tuple)
        short, mirrored = Short(lanes), (high[0], w.fneg(ty, high[1]))
        at = w.imul(k, 2)
        root = [
            w.splat(ty, w.load(self.real, w.gep(self.real, "%rotations", w.iadd(at, part))))
            for part in (0, 1)
        ]
        return short.add(low, mirrored), short.sub(low, mirrored), (root[0], root[1])

    def _unpacked(self, buffer: str, k: str) -> Pair:
        """Twice result k of the real numbers: of those with even and odd places, the transforms of
        which are the sum and -i times the difference of what all have together."""
        w, ty = self.w, self.lanes.ty
        even, odd, root = self._halves(buffer, k)
        odd = Short(self.lanes).times(odd, root)
        return w.op("fadd", ty, even[0], odd[1]), w.op("fsub", ty, even[1], odd[0])

    def _pack(self, buffer: str) -> None:
        """The way back, in place: twice the transform of n complex numbers. Parts have traded
        places, so that sums and differences have, too."""
        w, lanes, ty = self.w, self.lanes, self.lanes.ty
        for k in ("0", "%n"):
            ends = lanes.load(buffer, k)
            assert isinstance(ends, tuple)
            lanes.store(buffer, k, (const(ty, 0.0), ends[1]))  # which are real
        middle = w.iadd(w.op("lshr", "i64", "%n", "1"), 1)
        with w.loop("0", middle) as loop:
            odd, even, root = self._halves(buffer, loop.index)
            real, imaginary = Short(lanes).times(odd, root)
            low = w.op("fadd", ty, even[0], imaginary), w.op("fsub", ty, even[1], real)
            high = w.op("fsub", ty, imaginary, even[0]), w.op("fadd", ty, even[1], real)
            lanes.store(buffer, loop.index, low)
            lanes.store(buffer, w.isub("%n", loop.index), high)

    # -- out ---------------------------------------------------------------------------------------

    def _rotated(self, value: Pair, k: str) -> Pair:
        """Multiplied by a root, if results are."""
        w, ty = self.w, self.lanes.ty
        if self.packed:
            return value
        rotated = lambda: [*_rotated(self.lanes, value, self.places, k)]
        if self.form.rotated is None:
            rotates = w.cmp("ne", "ptr", "%rotations", "null")
            real_part, imaginary = w.if_else(rotates, [ty, ty], rotated, lambda: [*value])
            return real_part, imaginary
        if not self.form.rotated:
            return value
        real_part, imaginary = rotated()
        return real_part, imaginary

    def _write(self, buffer: str) -> None:
        w, lanes, target, ty = self.w, self.lanes, self.target, self.lanes.ty
        scale = w.cast("sitofp", "i64", w.select(self.inverse, "i64", "%n", "1"), self.real)
        one = const(self.real, 0.5 if self.packed else 1.0)
        scale = w.splat(ty, w.op("fdiv", self.real, one, scale))

        def stored(k: str) -> Pair:
            value = self._unpacked(buffer, k) if self.kind == PACKED_RFFT else lanes.load(buffer, k)
            assert isinstance(value, tuple)
            real_part, imaginary = self._swapped(self._rotated(value, k))
            return w.op("fmul", ty, real_part, scale), w.op("fmul", ty, imaginary, scale)

        def result(k: str) -> Any:
            value = stored(k)
            return value if target is lanes else value[0]

        def apart(start: str = "0") -> None:
            with w.loop(start, "%kept") as loop:
                at = w.imul(loop.index, "%out_step")
                target.write(self.y, self.places.outputs, at, result(loop.index))

        def squares() -> None:
            columns, rows = (lanes.scratch(lanes.count) for _ in range(2))
            whole = w.op("and", "i64", "%kept", str(-lanes.count))
            with w.loop("0", whole, lanes.count) as loop:
                with w.loop("0", str(lanes.count), guard=False) as each:
                    lanes.store(columns, each.index, stored(w.iadd(loop.index, each.index)))
                self._turn(columns, rows)
                with w.loop("0", str(lanes.count), guard=False) as problem:
                    value = lanes.load(rows, problem.index)
                    value = value if target is lanes else value[0]
                    row = self.places.row(self.y, 1, problem.index)
                    self._ask(target, row, w.iadd(loop.index, _SQUARES_AHEAD * lanes.count), 1)
                    elemental.store(w, target.t, lanes.count, value, row, loop.index)
            apart(whole)

        def together() -> None:
            with w.loop("0", "%kept") as loop:
                at = w.imul(loop.index, "%out_step")
                value = result(loop.index)
                elemental.store(w, target.t, lanes.count, value, self.y, at)

        self._choose(self.form.written, "%out_inner", "%out_step", (together, squares, apart))
        with w.if_(w.cmp("sgt", "i64", "%tail", "0")):
            mask = w.cmp("slt", lanes.index_ty, self.places.numbers, lanes.everywhere("%tail"))
            for part, each in enumerate(stored("%kept")):
                at = w.iadd(w.imul(w.imul("%kept", "%out_step"), 2), part)
                place = w.gep(self.real, self.y, at)
                w.scatter(ty, each, place, lanes.index_ty, self.places.outputs, mask)


def _turn_name(t: P) -> str:
    return f"pyjax_fft_{t}.turn"


def _emit_turn(t: P, module: ModuleWriter) -> None:
    """void turn(ptr source, ptr target): of as many elements as there are lanes, one part of each:
    elements and lanes exchanged. All forms have it in common."""
    parameters = [("ptr noalias", "source"), ("ptr noalias", "target")]
    w = module.function(_turn_name(t), parameters)
    lanes = Lanes(w, t)
    step = lanes.parts * lanes.count
    places = [
        [w.gep(element(lanes.ty), array, k * step) for k in range(lanes.count)]
        for array in ("%source", "%target")
    ]
    turned = transpose(w, lanes.ty, [w.load(lanes.ty, place) for place in places[0]])
    for place, value in zip(places[1], turned, strict=True):
        w.store(lanes.ty, value, place)
    w.ret()


def _rotated(lanes: Lanes, value: Pair, places: _Places, k: str) -> Pair:
    """Times the root whose number is the problem's times k: that of the first problem of its block
    times that of its place there. Neighbours, in one block or two, have few of the first ones."""
    w, ty, ints = lanes.w, lanes.ty, lanes.index_ty
    short, real = Short(lanes), element(ty)
    low_table = w.imul("%n", 2 * LANE_ROOTS)
    high_table = w.iadd(low_table, 1 << LOW_BITS)
    of_lanes = w.gep(real, "%rotations", w.imul(k, 4 * LANE_ROOTS))
    low_mask = (1 << LOW_BITS) - 1

    def near() -> list[str]:
        def root(first: str) -> Pair:
            number = w.imul(first, k)
            low = w.iadd(w.op("and", "i64", number, str(low_mask)), low_table)
            high = w.iadd(w.op("lshr", "i64", number, str(LOW_BITS)), high_table)
            parts = [
                w.splat(ty, w.load(real, w.gep(real, "%rotations", w.iadd(w.imul(at, 2), part))))
                for at in (low, high)
                for part in (0, 1)
            ]
            return short.times((parts[0], parts[1]), (parts[2], parts[3]))

        begin = w.op("and", "i64", places.first, str(LANE_ROOTS - 1))
        block = w.isub(places.first, begin)
        here = root(block)

        def next_block() -> list[str]:
            other = root(w.iadd(block, LANE_ROOTS))
            end = lanes.everywhere(w.isub(str(LANE_ROOTS), begin))
            mine = w.cmp("slt", ints, lanes.ones, end)
            return [w.select(mine, ty, a, b) for a, b in zip(here, other)]

        aligned = w.cmp("eq", "i64", begin, "0")
        both = w.if_else(aligned, [ty, ty], lambda: [*here], next_block)
        lane = [
            w.load(ty, w.gep(real, of_lanes, w.iadd(begin, part * 2 * LANE_ROOTS)))
            for part in (0, 1)
        ]
        return [*short.times((both[0], both[1]), (lane[0], lane[1]))]

    def anywhere() -> list[str]:
        lane = w.op("and", ints, places.numbers, const(ints, LANE_ROOTS - 1))
        number = w.op("sub", ints, places.numbers, lane)
        number = w.op("mul", ints, number, lanes.everywhere(k))
        low = w.op("and", ints, number, const(ints, low_mask))
        high = w.op("lshr", ints, number, const(ints, LOW_BITS))

        def root(table: str, index: str) -> Pair:
            index = w.op("add", ints, index, lanes.everywhere(table))
            index = w.op("shl", ints, index, const(ints, 1))
            return (
                w.gather(ty, "%rotations", ints, index),
                w.gather(ty, w.gep(real, "%rotations", 1), ints, index),
            )

        both = short.times(root(low_table, low), root(high_table, high))
        of_lane = (
            w.gather(ty, of_lanes, ints, lane),
            w.gather(ty, w.gep(real, of_lanes, 2 * LANE_ROOTS), ints, lane),
        )
        return [*short.times(both, of_lane)]

    found = w.if_else(places.whole, [ty, ty], near, anywhere)
    return short.times(value, (found[0], found[1]))


def _emit(kind: str, t: P, form: Form, module: ModuleWriter) -> None:
    emit_groups(
        module,
        f"pyjax_{kind}_{t}{form.suffix}",
        t,
        _FIELDS,
        lambda w: w.imul("%outer", "%inner"),
        lambda w: w.imul("%n", w.iadd(w.imul("%pass_count", _PASS), _MOVE)),
        lambda lanes, first, count: _Group(kind, form, lanes, first, count).transform(),
    )


def register() -> None:
    """Declares the transforms of every element type."""
    for t in TYPES:
        register_passes(t)
        register_group(f"fft_turn_{t}", (_turn_name(t),), partial(_emit_turn, t))
        for kind, form in itertools.product(KINDS, (ANY, *FORMS)):
            name = f"{kind}_{t}{form.suffix}"
            register_group(name, (f"pyjax_{name}",), partial(_emit, kind, t, form))
