"""The loop IR: loop nests over index expressions, with scalar single-assignment statements.

A `Kernel` is what one fusion (or lone instruction) becomes: buffers and a list of top-level
statements, most of them loops. Buffers are flat, row-major arrays; loads and stores have one linear
index. Statements operate on real scalar values: complex numbers are pairs of reals, stored
interleaved. A schedule splits and reorders loops (`peeling`, `interchange`) and sets their marks
(`parallel`, `vector`, `tile`); it never changes what a kernel means, and the interpreter ignores
the marks.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.index import Index, Var


class Value:
    """The result of one statement: a scalar of `type`. `bounds` is known for integers used inside
    indices."""

    __slots__ = ("bounds", "depth", "number", "type")

    def __init__(
        self, type: PrimitiveType, depth: int, number: int, bounds: tuple[int, int] | None = None
    ) -> None:
        self.type = type
        self.depth = depth
        self.number = number
        self.bounds = bounds

    def __repr__(self) -> str:
        return f"v{self.number}"


class BufferRole(enum.Enum):
    """Where the memory of a buffer comes from."""

    OPERAND = "operand"
    OUTPUT = "output"
    CONSTANT = "constant"
    SCRATCH = "scratch"
    LOCAL = "local"  # of the thread that runs a block of iterations; holds nothing between them


@dataclass(eq=False, slots=True)
class Buffer:
    """`size` elements of `element_type`, which is never complex: a complex array has twice as many
    real elements."""

    name: str
    element_type: PrimitiveType
    size: int
    role: BufferRole
    number: int = 0  # operand number, output leaf number
    data: np.ndarray | None = None  # of constants

    def __repr__(self) -> str:
        return self.name


class Statement:
    __slots__ = ()


@dataclass(eq=False, slots=True)
class Constant(Statement):
    result: Value
    value: Any  # NumPy scalar of the result's type


@dataclass(eq=False, slots=True)
class Load(Statement):
    """result = buffer[index]; where `guard` is false nothing is read and the result is 0."""

    result: Value
    buffer: Buffer
    index: Index
    guard: Value | None = None


@dataclass(eq=False, slots=True)
class Store(Statement):
    """buffer[index + i] = values[i] (two values: a complex number); nothing where `guard` is
    false."""

    buffer: Buffer
    index: Index
    values: tuple[Value, ...]
    guard: Value | None = None


@dataclass(eq=False, slots=True)
class Compute(Statement):
    """result = opcode(operands), an elementwise HLO operation on real scalars."""

    result: Value
    opcode: Opcode
    operands: tuple[Value, ...]
    attributes: Any = None


@dataclass(eq=False, slots=True)
class IndexValue(Statement):
    """result = index, converted to the result's type."""

    result: Value
    index: Index


@dataclass(eq=False, slots=True)
class InRange(Statement):
    """result = low <= index < high."""

    result: Value
    index: Index
    low: int
    high: int


@dataclass(eq=False, slots=True)
class Carry:
    """A value carried round a loop: `phi` is `init` in the first trip and the last `next` in later
    ones; after the loop `result` is the last `next`."""

    phi: Value
    init: Value
    result: Value
    next: Value | None = None
    # Neutral start value for the extra lanes of a vectorised reduction; None: `init` may be used
    # many times.
    identity: Any = None


@dataclass(eq=False, slots=True)
class Combiner:
    """The reduction as statements, `results = f(lhs, rhs)`: needed to combine the lanes of a
    vectorised reduction."""

    lhs: list[Value]
    rhs: list[Value]
    body: list[Statement]
    results: list[Value]


@dataclass(eq=False, slots=True)
class Loop(Statement):
    """for var in range(var.extent).

    Facts: `independent` (iterations may run in any order or at once), `may_vectorize` (iterations
    may run in lockstep; lanes of carried values are then combined with `combiner`).
    Marks of the schedule: `parallel` (blocks of iterations go to several threads), `vector` (how
    many iterations run in lockstep; 1: scalar), `tile` (with the vector loop directly inside,
    square tiles of this size: what is read across the rows is transposed in registers).
    """

    var: Var
    body: list[Statement] = field(default_factory=list)
    carries: list[Carry] = field(default_factory=list)
    combiner: Combiner | None = None
    # The loop that the lanes of a vectorised reduction are combined after; inner loops hand lanes
    # on.
    keeps_lanes: bool = False
    independent: bool = False
    may_vectorize: bool = False
    parallel: bool = False
    vector: int = 1
    tile: int = 1


@dataclass(eq=False, slots=True)
class Kernel:
    """Buffers and statements; `stages` are run one after another, each may be split over
    threads."""

    name: str
    buffers: list[Buffer] = field(default_factory=list)
    stages: list[Statement] = field(default_factory=list)
    # Operand whose buffer output i updates in place: the caller copies it there first unless they
    # share memory.
    in_place: dict[int, int] = field(default_factory=dict)


def walk(statements: list[Statement]) -> Iterator[Statement]:
    """All statements, outer before inner."""
    for statement in statements:
        yield statement
        if isinstance(statement, Loop):
            yield from walk(statement.body)
