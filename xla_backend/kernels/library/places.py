"""What kernels for blocks of threads are written with: a thread for each of many elements, and
arithmetic on positions that are known at run time only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from xla_backend.hlo.attributes import CompareAttributes, ComparisonDirection
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import LoopKind, Value

P = PrimitiveType
THREADS = 256
# Of one block, on every GPU that there is code for.
SHARED_BYTES = 48 << 10
_LESS = CompareAttributes(ComparisonDirection.LT)
_EQUAL = CompareAttributes(ComparisonDirection.EQ)


@contextmanager
def for_each(b: LoopBuilder, count: int, threads: int = THREADS) -> Iterator[Index]:
    """A stage with a thread for each of `count` > 0 elements; yields the number of the element."""
    threads = min(threads, count)
    blocks = -(-count // threads)
    with b.loop(blocks, LoopKind.GRID) as block, b.loop(threads, LoopKind.THREAD) as thread:
        at = block * threads + thread
        with within(b, at, count):
            yield at


@contextmanager
def dealt(b: LoopBuilder, count: int, threads: int, thread: Index) -> Iterator[Index]:
    """Elements 0 to `count` > 0 dealt out to the threads of a block, neighbours to neighbours."""
    with b.loop(-(-count // threads)) as turn:
        at = turn * threads + thread
        with within(b, at, count):
            yield at


def within(b: LoopBuilder, index: Index, count: int) -> AbstractContextManager[None]:
    """What is built inside runs where 0 <= index < count."""
    return nullcontext() if b.in_range(index, 0, count) is True else b.where(index, 0, count)


def log2(n: int) -> int:
    """Of a power of two."""
    assert n > 0 and n & (n - 1) == 0
    return n.bit_length() - 1


def power_of_two(n: int) -> int:
    """The smallest that is not below n > 0."""
    return 1 << (n - 1).bit_length()


def at_most(b: LoopBuilder, index: Index, last: int) -> Index:
    """An index that is not negative, or `last` where it is beyond that."""
    high = index.bounds[1]
    if high <= last:
        return index
    type = P.S32 if high < 2**31 else P.S64
    operands = b.index_value(index, type), b.constant(type, last)
    return Index.of(b.compute(Opcode.MINIMUM, type, operands, bounds=(0, last)))


class Places:
    """Arithmetic on integers of one type."""

    def __init__(self, b: LoopBuilder, largest: int) -> None:
        """`largest`: no number is further from zero."""
        self.b = b
        self.type = P.S32 if largest < 2**31 else P.S64

    def of(self, number: Index | int) -> Value:
        if isinstance(number, int):
            return self.b.constant(self.type, number)
        return self.b.index_value(number, self.type)

    def _op(
        self, opcode: Opcode, x: Value, y: Value | int, bounds: tuple[int, int] | None = None
    ) -> Value:
        y = self.of(y) if isinstance(y, int) else y
        return self.b.compute(opcode, self.type, (x, y), bounds=bounds)

    def add(self, x: Value, y: Value | int) -> Value:
        return self._op(Opcode.ADD, x, y)

    def subtract(self, x: Value, y: Value | int) -> Value:
        return self._op(Opcode.SUBTRACT, x, y)

    def both(self, x: Value, y: Value | int) -> Value:
        """The bits that are in both."""
        return self._op(Opcode.AND, x, y)

    def flipped(self, x: Value, y: Value | int) -> Value:
        """x with the bits of y flipped."""
        return self._op(Opcode.XOR, x, y)

    def up(self, x: Value | int, y: Value | int) -> Value:
        """x * 2**y."""
        x = self.of(x) if isinstance(x, int) else x
        return self._op(Opcode.SHIFT_LEFT, x, y)

    def down(self, x: Value, y: Value | int) -> Value:
        """x // 2**y."""
        return self._op(Opcode.SHIFT_RIGHT_LOGICAL, x, y)

    def smaller(self, x: Value, y: Value | int) -> Value:
        return self._op(Opcode.MINIMUM, x, y)

    def larger(self, x: Value, y: Value | int) -> Value:
        return self._op(Opcode.MAXIMUM, x, y)

    def select(self, condition: Value, x: Value | int, y: Value | int) -> Value:
        values = [self.of(v) if isinstance(v, int) else v for v in (x, y)]
        return self.b.compute(Opcode.SELECT, self.type, (condition, *values))

    def less(self, x: Value, y: Value | int) -> Value:
        return self._compare(x, y, _LESS)

    def equal(self, x: Value, y: Value | int) -> Value:
        return self._compare(x, y, _EQUAL)

    def _compare(self, x: Value, y: Value | int, how: CompareAttributes) -> Value:
        y = self.of(y) if isinstance(y, int) else y
        return self.b.compute(Opcode.COMPARE, P.PRED, (x, y), how)

    def index(self, x: Value, bounds: tuple[int, int]) -> Index:
        """A number as an index, which has these bounds wherever an access is made with it."""
        x.bounds = bounds
        return Index.of(x)


def either(b: LoopBuilder, x: Value, y: Value) -> Value:
    return b.compute(Opcode.OR, P.PRED, (x, y))


def both(b: LoopBuilder, x: Value, y: Value) -> Value:
    return b.compute(Opcode.AND, P.PRED, (x, y))


def negated(b: LoopBuilder, x: Value) -> Value:
    return b.compute(Opcode.NOT, P.PRED, (x,))


def guard_of(b: LoopBuilder, *conditions: Value | bool | None) -> Value | None:
    """Conditions that hold together, as the guard of an access; None: always."""
    result: Value | bool | None = None
    for condition in conditions:
        result = b.conjunction(result, condition)
    if result is False:
        return b.constant(P.PRED, False)
    return None if result is True else result
