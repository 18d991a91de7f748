"""What long Fourier transforms are besides transforms of rows: products with tables, and pairs.

void pyjax_chirp_fft_<t>(rows, given, made, in_row, out_row, ptr table, ptr x, ptr y)
      y[k] = x[k] table[k] for k < given, 0 up to `made`, of rows that begin in_row apart; of the
      results likewise. x may be y.
pyjax_chirp_rfft_<t>: x is real.   pyjax_chirp_irfft_<t>: the first given / 2 + 1 numbers, from 0
      on, of what is conjugate-symmetric.   pyjax_chirp_real_<t>: the real part is stored
void pyjax_pairs_rfft_<t>(outer, n, ptr half_turn, ptr x, ptr y)
      from transforms of n pairs of real numbers, taken as complex ones, those of the 2 n real
      numbers: the first n + 1 results. half_turn: `fft_plan.half_turn(2 n)`
pyjax_pairs_irfft_<t>: from n + 1 numbers those whose inverse transforms are n pairs
      t: c64 c128
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xla_backend.llvm import elemental
from xla_backend.llvm.types import const, element
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.cpu.routines.fft_passes import Pair, Short
from xla_backend.targets.cpu.routines.fft_plan import (
    CHIRP_IRFFT,
    CHIRP_NUMBERS,
    CHIRPS,
    PAIRS_IRFFT,
    PAIRS_NUMBERS,
    PAIRS_RFFT,
    TYPES,
)
from xla_backend.targets.cpu.routines.lane_groups import LaneRoutine, register_lane_routines
from xla_backend.targets.cpu.routines.matrix_facts import REALS
from xla_backend.targets.cpu.routines.matrix_lanes import Lanes

# Elements of a segment, each of which is a problem of `lane_groups`, and cycles of an element.
_SEGMENT = 1024
_CYCLES = 2

Body = Callable[[str, str | None], None]


def _segments(w: FunctionWriter, length: str) -> str:
    """How many a row has."""
    return w.op("udiv", "i64", w.iadd(length, _SEGMENT - 1), str(_SEGMENT))


def _each_segment(
    lanes: Lanes, first: str, count: str, length: str, body: Callable[[str, str, str], None]
) -> None:
    """Writes `body` for the row, the beginning and the end of each segment of a group."""
    w = lanes.w
    in_row = _segments(w, length)
    with w.loop(first, w.imin(w.iadd(first, lanes.count), count)) as loop:
        row = w.op("udiv", "i64", loop.index, in_row)
        start = w.imul(w.isub(loop.index, w.imul(row, in_row)), _SEGMENT)
        body(row, start, w.imin(w.iadd(start, _SEGMENT), length))


def _vectors(lanes: Lanes, start: str, end: str, body: Body) -> None:
    """Writes `body` for each vector, and with a mask for the rest."""
    w = lanes.w
    whole = w.iadd(start, w.op("and", "i64", w.isub(end, start), str(-lanes.count)))
    with w.loop(start, whole, lanes.count) as loop:
        body(loop.index, None)
    with w.if_(w.cmp("slt", "i64", whole, end)):
        body(whole, w.active_mask(lanes.count, whole, end))


# -- products with a table -------------------------------------------------------------------------


class _Chirp:
    """A row that is multiplied by a table."""

    def __init__(self, kind: str, lanes: Lanes, row: str) -> None:
        w = self.w = lanes.w
        self.kind, self.lanes, self.ty = kind, lanes, lanes.ty
        self.real = element(lanes.ty)
        self.source, self.target = CHIRPS[kind](lanes.t, REALS[lanes.t])
        self.x, self.y = (
            w.gep(self.real, array, w.imul(w.imul(row, pitch), 2 if t.is_complex else 1))
            for array, pitch, t in (("%x", "%in_row", self.source), ("%y", "%out_row", self.target))
        )

    def run(self, start: str, end: str) -> None:
        w = self.w
        middle = w.imax(w.imin("%given", end), start)
        load = self._load_symmetric if self.kind == CHIRP_IRFFT else self._load

        def product(k: str, mask: str | None) -> None:
            value = load(k, mask)

            def times() -> list[str]:
                root = elemental.load(w, self.lanes.t, self.lanes.count, "%table", k, mask)
                return [*Short(self.lanes).times(value, root)]

            is_given = w.cmp("ne", "ptr", "%table", "null")
            real, imaginary = w.if_else(is_given, [self.ty] * 2, times, lambda: [*value])
            self._store(k, mask, (real, imaginary))

        def nothing(k: str, mask: str | None) -> None:
            zero = const(self.ty, 0.0)
            self._store(k, mask, (zero, zero))

        _vectors(self.lanes, start, middle, product)
        _vectors(self.lanes, middle, end, nothing)

    def _load(self, k: str, mask: str | None) -> Pair:
        value = elemental.load(self.w, self.source, self.lanes.count, self.x, k, mask)
        return value if isinstance(value, tuple) else (value, const(self.ty, 0.0))

    def _store(self, k: str, mask: str | None, value: Pair) -> None:
        stored = value if self.target.is_complex else value[0]
        elemental.store(self.w, self.target, self.lanes.count, stored, self.y, k, mask)

    def _load_symmetric(self, k: str, mask: str | None) -> Pair:
        """Numbers of the second half are conjugates of those of the first; the first is real."""
        w, lanes, ty, ints = self.w, self.lanes, self.ty, self.lanes.index_ty
        numbers = w.op("add", ints, lanes.everywhere(k), lanes.ones)
        others = w.op("sub", ints, lanes.everywhere("%given"), numbers)
        mirrored = w.cmp("slt", ints, others, numbers)
        first = w.cmp("eq", ints, numbers, const(ints, 0))
        numbers = w.select(mirrored, ints, others, numbers)
        places = w.op("mul", ints, numbers, const(ints, 2))
        real, imaginary = (
            w.gather(ty, w.gep(self.real, self.x, part), ints, places, mask) for part in (0, 1)
        )
        imaginary = w.select(mirrored, ty, w.fneg(ty, imaginary), imaginary)
        return real, w.select(first, ty, const(ty, 0.0), imaginary)


def _chirp(kind: str, lanes: Lanes, first: str, count: str) -> None:
    def segment(row: str, start: str, end: str) -> None:
        _Chirp(kind, lanes, row).run(start, end)

    _each_segment(lanes, first, count, "%made", segment)


# -- pairs of real numbers -------------------------------------------------------------------------


class _Pairs:
    """A row of results of real numbers, from those of pairs, or the way back. The first and the
    last number, which are real, depend on each other only."""

    def __init__(self, kind: str, lanes: Lanes, row: str) -> None:
        w = self.w = lanes.w
        self.inverse = kind == PAIRS_IRFFT
        self.lanes, self.ty, self.real = lanes, lanes.ty, element(lanes.ty)
        self.half = const(self.ty, 0.5)
        more = w.iadd("%n", 1)
        lengths = (more, "%n") if self.inverse else ("%n", more)
        self.x, self.y = (
            w.gep(self.real, array, w.imul(w.imul(row, length), 2))
            for array, length in zip(("%x", "%y"), lengths)
        )

    def ends(self) -> None:
        w, real = self.w, self.real

        def number(array: str, k: str, part: int) -> str:
            return w.gep(real, array, w.iadd(w.imul(k, 2), part))

        if self.inverse:
            first, last = (w.load(real, number(self.x, k, 0)) for k in ("0", "%n"))
            half = const(real, 0.5)
            for part, op in enumerate(("fadd", "fsub")):
                value = w.op("fmul", real, half, w.op(op, real, first, last))
                w.store(real, value, number(self.y, "0", part))
            return
        even, odd = (w.load(real, number(self.x, "0", part)) for part in (0, 1))
        for k, op in (("0", "fadd"), ("%n", "fsub")):
            w.store(real, w.op(op, real, even, odd), number(self.y, k, 0))
            w.store(real, const(real, 0.0), number(self.y, k, 1))

    def run(self, start: str, end: str) -> None:
        _vectors(self.lanes, start, end, self._between)

    def _between(self, k: str, mask: str | None) -> None:
        """Results k on, counted from 1."""
        w, lanes, ty = self.w, self.lanes, self.ty
        short, half = Short(lanes), self.half
        k = w.iadd(k, 1)
        low = elemental.load(w, lanes.t, lanes.count, self.x, k, mask)
        high = self._load_down(w.isub("%n", k), mask)
        root = elemental.load(w, lanes.t, lanes.count, "%half_turn", k, mask)
        mirrored = high[0], w.fneg(ty, high[1])
        even, odd = short.add(low, mirrored), short.sub(low, mirrored)
        if self.inverse:
            real, imaginary = short.times(odd, (root[0], w.fneg(ty, root[1])))
            odd = w.fneg(ty, imaginary), real  # times i
        else:
            real, imaginary = short.times(odd, root)
            odd = imaginary, w.fneg(ty, real)  # over i
        total = short.add(even, odd)
        value = w.op("fmul", ty, half, total[0]), w.op("fmul", ty, half, total[1])
        elemental.store(w, lanes.t, lanes.count, value, self.y, k, mask)

    def _load_down(self, k: str, mask: str | None) -> Pair:
        """Numbers k, k - 1 and so on."""
        w, lanes, ty, ints = self.w, self.lanes, self.ty, self.lanes.index_ty
        if mask is None:
            start = w.isub(k, lanes.count - 1)
            found = elemental.load(w, lanes.t, lanes.count, self.x, start)
            return self._reversed(found[0]), self._reversed(found[1])
        numbers = w.op("sub", ints, lanes.everywhere(k), lanes.ones)
        places = w.op("mul", ints, numbers, const(ints, 2))
        real, imaginary = (
            w.gather(ty, w.gep(self.real, self.x, part), ints, places, mask) for part in (0, 1)
        )
        return real, imaginary

    def _reversed(self, value: str) -> str:
        if self.lanes.count == 1:
            return value
        return self.w.shuffle(self.ty, value, value, range(self.lanes.count)[::-1])


def _pairs(kind: str, lanes: Lanes, first: str, count: str) -> None:
    w = lanes.w

    def segment(row: str, start: str, end: str) -> None:
        pairs = _Pairs(kind, lanes, row)
        with w.if_(w.cmp("eq", "i64", start, "0")):
            pairs.ends()
        pairs.run(start, end)

    _each_segment(lanes, first, count, _between_ends(w), segment)


def _between_ends(w: FunctionWriter) -> str:
    return w.isub("%n", 1)


# -- both ------------------------------------------------------------------------------------------


def _routine(
    numbers: Sequence[str],
    table: str,
    problems: Callable[[FunctionWriter], str],
    group: Callable[[Lanes, str, str], None],
) -> LaneRoutine:
    fields = [*(("i64", name) for name in numbers), *(("ptr", name) for name in (table, "x", "y"))]
    return LaneRoutine(fields, problems, lambda w: str(_SEGMENT * 16 * _CYCLES), group)


def _chirp_problems(w: FunctionWriter) -> str:
    return w.imul("%rows", _segments(w, "%made"))


def _pairs_problems(w: FunctionWriter) -> str:
    return w.imul("%outer", _segments(w, _between_ends(w)))


def register() -> None:
    """Declares them for every element type."""
    chirps = {
        kind: _routine(CHIRP_NUMBERS, "table", _chirp_problems, partial(_chirp, kind))
        for kind in CHIRPS
    }
    pairs = {
        kind: _routine(PAIRS_NUMBERS, "half_turn", _pairs_problems, partial(_pairs, kind))
        for kind in (PAIRS_RFFT, PAIRS_IRFFT)
    }
    register_lane_routines({**chirps, **pairs}, TYPES)
