"""What scans are made of: what is scanned, the elements of a part of a row, and those that threads
of a warp hold in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import Index, constant
from xla_backend.kernels.ir import BufferRole, LoopKind, ShuffleMode, Value
from xla_backend.kernels.library.places import guard_of
from xla_backend.kernels.library.rows import Rows
from xla_backend.process.light_dataclasses import dataclass

WARP = 32
# Neighbouring elements of one thread.
ELEMENTS = 4


@dataclass(frozen=True)
class Scanned:
    """What is scanned, in terms of lists of values that belong together.

    Fields:
      types: of the values.
      combine: (what comes before, what comes after) -> both together.
      start: what is before the first element.
      element: the element at a place of the array, to be read where a guard holds.
      keep: (place, values, guard): puts a result where it belongs.
    """

    types: Sequence[PrimitiveType]
    combine: Callable[[Sequence[Value], Sequence[Value]], list[Value]]
    start: Callable[[], list[Value]]
    element: Callable[[Index, Value | None], list[Value]]
    keep: Callable[[Index, Sequence[Value], Value | None], None]


@dataclass(frozen=True)
class Part:
    """The elements of a part of a row, by their number in it; where there is none, nothing is read
    and nothing kept.

    Fields:
      element: (number) -> values; keep: (number, values). Where there are vectors, a lane of the
        one that begins at the number comes last.
      vectors: `ELEMENTS` neighbours are neighbours in memory, all there or none.
      backwards: the last lane comes first.
    """

    element: Callable[..., list[Value]]
    keep: Callable[..., None]
    vectors: bool = False
    backwards: bool = False


def reader(
    b: LoopBuilder,
    rows: Rows,
    scanned: Scanned,
    row: Index,
    first: Index,
    real: Value | bool,
    reverse: bool,
) -> Part:
    """The elements of a row from `first` on, where the row is `real`."""

    def where(number: Index, lane: Index | None) -> tuple[Index, Value | None]:
        k = first + number
        guard = guard_of(b, real, b.in_range(k, 0, rows.n))
        if lane is not None:
            k = k + (constant(ELEMENTS - 1) - lane if reverse else lane)
        return place_of(rows, row, k, reverse), guard

    def element(number: Index, lane: Index | None = None) -> list[Value]:
        return scanned.element(*where(number, lane))

    def keep(number: Index, values: Sequence[Value], lane: Index | None = None) -> None:
        at, guard = where(number, lane)
        scanned.keep(at, values, guard)

    return Part(element, keep, rows.inner == 1 and rows.n % ELEMENTS == 0, reverse)


def place_of(rows: Rows, row: Index, k: Index, reverse: bool) -> Index:
    """Where element k of a row lies, from its end in `reverse`."""
    return rows.place(row, constant(rows.n - 1) - k if reverse else k)


class Strip:
    """Neighbouring elements of a row that the threads of a warp hold, `ELEMENTS` each: read, then
    scanned by each thread, then kept with what is in front of them."""

    def __init__(self, b: LoopBuilder, scanned: Scanned, part: Part) -> None:
        self.b = b
        self.part = part
        self._combine = scanned.combine
        self._types = scanned.types
        self._own: list[list[Value]] = []  # up to each element, of those that are no vectors
        made = sum(buffer.role is BufferRole.REGISTERS for buffer in b.kernel.buffers)
        self._held = [
            b.buffer(f"upto{made + i}", type, ELEMENTS, BufferRole.REGISTERS)
            for i, type in enumerate(self._types)
            if part.vectors
        ]

    def read(self, first: Index) -> None:
        """`first`: the number of the thread's first element."""
        b = self.b
        if not self.part.vectors:
            self._own = [self.part.element(first + i) for i in range(ELEMENTS)]
            return
        with b.loop(ELEMENTS, LoopKind.LANES) as lane:
            for buffer, value in zip(self._held, self.part.element(first, lane)):
                b.store(buffer, lane, (value,))

    def scan(self) -> list[Value]:
        """What the elements of a thread come to, all together."""
        if not self.part.vectors:
            for i in range(1, ELEMENTS):
                self._own[i] = self._combine(self._own[i - 1], self._own[i])
            return self._own[-1]
        b, backwards = self.b, self.part.backwards
        mode = ShuffleMode.DOWN if backwards else ShuffleMode.UP
        lane, _ = b.open_loop(ELEMENTS, kind=LoopKind.LANES, independent=True, name="lane")
        values = [b.load(buffer, lane, mutable=True) for buffer in self._held]
        upto = values
        step = 1
        while step < ELEMENTS:
            before = [b.shuffle(value, mode, step, ELEMENTS) for value in upto]
            low, high = (0, ELEMENTS - step) if backwards else (step, ELEMENTS)
            upto = where_all(b, b.in_range(lane, low, high), self._combine(before, upto), upto)
            step *= 2
        for buffer, value in zip(self._held, upto):
            b.store(buffer, lane, (value,))

        def together(lhs: list[Value], rhs: list[Value]) -> list[Value]:
            return self._combine(rhs, lhs) if backwards else self._combine(lhs, rhs)

        return b.close_lanes(values, b.combiner(self._types, together, commutes=False))

    def keep(self, first: Index, front: Sequence[Value]) -> None:
        """Keep what the elements of a thread come to with all that is in front of them."""
        b = self.b
        if self.part.vectors:
            with b.loop(ELEMENTS, LoopKind.LANES) as lane:
                upto = [b.load(buffer, lane, mutable=True) for buffer in self._held]
                self.part.keep(first, self._combine(front, upto), lane)
            return
        for i, prefix in enumerate(self._own):
            self.part.keep(first + i, self._combine(front, prefix))


def scan_warp(b: LoopBuilder, scanned: Scanned, lane: Index, values: list[Value]) -> list[Value]:
    """What the threads of a warp up to each one come to."""
    step = 1
    while step < WARP:
        before = [b.shuffle(value, ShuffleMode.UP, step) for value in values]
        there = b.in_range(lane, step, WARP)
        values = where_all(b, there, scanned.combine(before, values), values)
        step *= 2
    return values


def in_front(
    b: LoopBuilder,
    scanned: Scanned,
    lane: Index,
    front: Sequence[Value],
    within: Sequence[Value],
) -> list[Value]:
    """What is in front of each thread of a warp, from what is in front of the warp and what its
    threads up to each one come to."""
    earlier = [b.shuffle(value, ShuffleMode.UP, 1) for value in within]
    return where_all(b, b.in_range(lane, 1, WARP), scanned.combine(front, earlier), front)


def where_all(
    b: LoopBuilder, condition: Value | bool | None, x: Sequence[Value], y: Sequence[Value]
) -> list[Value]:
    """x where a condition holds (None: it does), else y."""
    if condition is None or isinstance(condition, bool):
        return list(y if condition is False else x)
    return [b.compute(Opcode.SELECT, p.type, (condition, p, q)) for p, q in zip(x, y)]
