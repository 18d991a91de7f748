"""The kernel IR: loop nests over index expressions, with scalar single-assignment statements.

A `Kernel` is what one fusion (or lone instruction) becomes: buffers and a list of top-level
statements, most of them loops. Buffers are flat, row-major arrays; loads and stores have one linear
index. Statements operate on real scalar values: complex numbers are pairs of reals, stored
interleaved.

A schedule is part of the kernel: steps (`kernels.schedule`) split and reorder loops and say what
runs them (`LoopKind`), and nothing about a schedule lives beside the IR. The number of blocks is
the extent of the grid loop, the width of a vector that of the lanes loop, and what is left over
after whole vectors is a statement of its own.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import Attributes
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.index import Index, Parameter, Var
from xla_backend.process.light_dataclasses import dataclass, field


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

    def like(self) -> Value:
        """Another value of the same kind."""
        return Value(self.type, self.depth, self.number, self.bounds)

    def __repr__(self) -> str:
        return f"v{self.number}"


class BufferRole(enum.Enum):
    """Where the memory of a buffer comes from, and so who sees it.

    All threads see operands, outputs, constants and scratch. The others hold nothing between two
    blocks: SHARED belongs to the threads of a block, LOCAL and REGISTERS to one thread. REGISTERS
    are accessed by whole lanes loops, or outside these one by one (each buffer in one way), at
    positions that are constants once unrolled loops are.
    """

    OPERAND = "operand"
    OUTPUT = "output"
    CONSTANT = "constant"
    SCRATCH = "scratch"
    SHARED = "shared"
    LOCAL = "local"
    REGISTERS = "registers"

    def __init__(self, text: str) -> None:
        # Whether every thread of every block sees the same memory.
        self.is_global = text not in ("shared", "local", "registers")


@dataclass(eq=False, slots=True)
class Buffer:
    """`size` elements of `element_type`, which is never complex: a complex array has twice as many
    real elements. Where only the caller knows how many there are, that is `count`, and `size` is
    the most."""

    name: str
    element_type: PrimitiveType
    size: int
    role: BufferRole
    number: int = 0  # operand number, output leaf number
    data: np.ndarray | None = None  # of constants
    count: Index | None = None

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
    """buffer[index + i] = values[i] (a complex number, or neighbours that are computed apart);
    nothing where `guard` is false."""

    buffer: Buffer
    index: Index
    values: tuple[Value, ...]
    guard: Value | None = None


@dataclass(eq=False, slots=True)
class Move(Statement):
    """target[target_index] = source[index]: the bits of one element, unconverted."""

    target: Buffer
    target_index: Index
    buffer: Buffer
    index: Index


@dataclass(eq=False, slots=True)
class Transpose(Statement):
    """target[size * i + j] = source[size * j + i] for all i, j < size: a square tile that is turned
    as a whole, in registers."""

    target: Buffer
    source: Buffer
    size: int


@dataclass(eq=False, slots=True)
class Barrier(Statement):
    """All threads of the block come here before any goes on, and see what the others wrote."""


@dataclass(eq=False, slots=True)
class Atomic(Statement):
    """buffer[index] = opcode(buffer[index], value), which no other access to the element comes
    between; nothing where `guard` is false. Several threads may do so in any order."""

    buffer: Buffer
    index: Index
    opcode: Opcode
    value: Value
    guard: Value | None = None


@dataclass(eq=False, slots=True)
class Ticket(Statement):
    """result = buffer[index]++, once for a block, and the same number for all of its threads, which
    all come here, as to a barrier. Blocks that begin later get higher numbers, in whatever order
    they begin; so those of lower ones have begun, and may be waited for.

    `shared`: an element of shared memory, of the same type, to tell the threads. `taker`: holds for
    one of them.
    """

    result: Value
    buffer: Buffer
    index: Index
    shared: Buffer
    taker: Value


@dataclass(eq=False, slots=True)
class Signal(Statement):
    """buffer[index] = 1 where `guard` holds, after all that the thread has done, or seen of others,
    before. Nobody else signals with the element."""

    buffer: Buffer
    index: Index
    guard: Value | None = None


@dataclass(eq=False, slots=True)
class Await(Statement):
    """Where `guard` holds, the thread goes on when somebody has signalled with buffer[index], which
    began as 0, and sees what was done before that. It may be a thread of another block: one that
    has begun already, whatever order blocks begin in (see `Ticket`)."""

    buffer: Buffer
    index: Index
    guard: Value | None = None


# What blocks of a grid know of each other by, while they run.
HANDOVERS = (Ticket, Signal, Await)


@dataclass(eq=False, slots=True)
class AsyncCopy(Statement):
    """target[target_index + i] = buffer[index + i] for all i < count, zeros where `guard` is false:
    begun here, and done at some time until the thread has waited for it (`AsyncWait`). Until then
    nobody may touch the target, and other threads not before a barrier behind that."""

    target: Buffer
    target_index: Index
    buffer: Buffer
    index: Index
    count: int
    guard: Value | None = None


@dataclass(eq=False, slots=True)
class AsyncGroup(Statement):
    """What each thread has begun to copy since its last group is a group, perhaps of nothing. All
    threads of a block come here."""


@dataclass(eq=False, slots=True)
class AsyncWait(Statement):
    """All groups of each thread are copied but for the last `pending` ones. All threads of a block
    come here."""

    pending: int


class ShuffleMode(enum.Enum):
    """Which of its neighbours a thread or lane takes a value from, given a number n."""

    XOR = "xor"  # the one whose number differs in the bits of n
    DOWN = "down"  # the one n further on
    UP = "up"  # the one n before
    FROM = "from"  # number n of its group


@dataclass(eq=False, slots=True)
class Shuffle(Statement):
    """result = value of a neighbour in the innermost loop of threads or lanes, within groups of
    `width`; its own where there is no such neighbour. All of a group take part."""

    result: Value
    value: Value
    mode: ShuffleMode
    number: int
    width: int


@dataclass(eq=False, slots=True)
class MatrixTile(Statement):
    """results = lhs @ rhs + sums, for matrices of which each of 32 neighbouring threads holds some
    elements (`kernels.matrix_tiles` says which). All 32 take part. Products and sums are in the
    type of the sums."""

    shape: tuple[int, int, int]  # rows, columns, depth
    results: tuple[Value, ...]
    lhs: tuple[Value, ...]
    rhs: tuple[Value, ...]
    sums: tuple[Value, ...]


@dataclass(eq=False, slots=True)
class MatrixLoad(Statement):
    """Small matrices of 8 rows of 16 bytes, from shared memory to 32 neighbouring threads: where
    row j of matrix i begins, at a multiple of 16 bytes, is the index of thread 8 * i + j. All 32
    take part.

    Of each matrix, thread t gets the neighbours that fill four bytes: of row t // 4, the t % 4-th
    of them. `transposed`, of elements of two bytes: those of column t // 4 in rows 2 * (t % 4) and
    2 * (t % 4) + 1, so that matrix tiles have them in both ways; of one byte: those of the columns
    2 * (t // 4) and 2 * (t // 4) + 1 there, by row. `results`: by matrix, of one, two or four.
    """

    results: tuple[Value, ...]
    buffer: Buffer
    index: Index
    transposed: bool = False


@dataclass(frozen=True)
class BoxedArray:
    """An array in global memory, as boxes of it are copied.

    Fields:
      sizes: its dimensions, that of neighbours in memory first, three at most.
      strides: of each dimension but the first, in elements, a multiple of 16 bytes.
      box: the sizes of a box in the first two dimensions; the first one is a line of 128 bytes.
      rounded: f32 is rounded to the bits of tf32 on the way.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, int]
    rounded: bool = False


@dataclass(eq=False, slots=True)
class PrepareArrivals(Statement):
    """Each element of `arrivals`, in shared memory, counts what arrives, beginning with its first
    phase. A phase ends when one thread has said how many bytes come (`ExpectBytes`), and all of
    them are there. One thread does so for all; the others come after a barrier."""

    arrivals: Buffer


@dataclass(eq=False, slots=True)
class ExpectBytes(Statement):
    """In the present phase of arrivals[index] so many bytes arrive. One thread says so."""

    arrivals: Buffer
    index: Index
    count: int


@dataclass(eq=False, slots=True)
class BoxCopy(Statement):
    """Begin to copy a box of an array, from the element at the coordinates `at` on, to shared
    memory from target[target_index] on, a multiple of 1024 bytes; zeros stand for what is beyond
    the array's sizes. One thread does so. Until its bytes have arrived at arrivals[arrival], nobody
    may touch the target.

    The rows of the box are lines of 128 bytes, one after another, in which the access of 16 bytes
    that would be number n is number n XOR (row mod 8): `kernels.lines`.
    """

    target: Buffer
    target_index: Index
    buffer: Buffer
    array: BoxedArray
    at: tuple[Index, ...]
    arrivals: Buffer
    arrival: Index


@dataclass(eq=False, slots=True)
class AwaitArrivals(Statement):
    """Come after the end of a phase of arrivals[index], the last one whose number has this parity:
    number 0 is the first. All threads of a block come here, and see what arrived."""

    arrivals: Buffer
    index: Index
    parity: Index


@dataclass(frozen=True, eq=False)
class Lines:
    """A matrix in shared memory, outer x depth, in lines of 128 bytes as `BoxCopy` leaves them:
    `kernels.lines` says where each element is.

    Fields:
      index: of its first element.
      inner_first: whether lines go along the depth, rather than along outer.
      leading: bytes from one line along outer to the next 128 bytes of outer; only of those.
      stride: bytes from eight lines to the next eight.
    """

    buffer: Buffer
    index: Index
    inner_first: bool
    leading: int
    stride: int


@dataclass(eq=False, slots=True)
class GroupProduct(Statement):
    """results = lhs @ rhs.T + sums, for matrices in shared memory and sums of which each of 128
    neighbouring threads holds some (`kernels.matrix_tiles.group_place`): begun here, and done at
    some time until they have waited for it (`GroupWait`). Until then nobody may write to the
    factors, and the sums are only good for another `GroupProduct`. All threads of a block come
    here. `shape`: rows, columns, depth.
    """

    shape: tuple[int, int, int]
    results: tuple[Value, ...]
    lhs: Lines
    rhs: Lines
    sums: tuple[Value, ...]


@dataclass(eq=False, slots=True)
class GroupWait(Statement):
    """results = values, when all `GroupProduct`s but the last `pending` ones are done. All threads
    of a block come here."""

    pending: int
    results: tuple[Value, ...]
    values: tuple[Value, ...]


@dataclass(eq=False, slots=True)
class Compute(Statement):
    """result = opcode(operands), an elementwise HLO operation on real scalars."""

    result: Value
    opcode: Opcode
    operands: tuple[Value, ...]
    attributes: Any = None


class Contraction(Attributes):
    """Of a product, and of the sum that it goes into: the product need not be rounded before."""


CONTRACTED = Contraction()


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
class If(Statement):
    """The body where low <= index < high. Where it does not run, the results of the carried values
    are what they were (`init`)."""

    index: Index
    low: int
    high: int
    body: list[Statement] = field(default_factory=list)
    carries: list[Carry] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Combiner:
    """A reduction as statements, `results = f(lhs, rhs)`, which is associative: needed to combine
    partial results. `commutes`: f(rhs, lhs) is the same, so that any partial results may be
    combined; else those of neighbouring elements, in their order."""

    lhs: list[Value]
    rhs: list[Value]
    body: list[Statement]
    results: list[Value]
    commutes: bool = True


@dataclass(eq=False, slots=True)
class Combination:
    """What becomes of the values that the lanes of a loop end with: `results` are those of all
    lanes put together by `combiner`, the first half of the lanes with the second until one is
    left (each even one with the next, if the combiner does not commute), and then with `inits`
    (if not empty) to their left."""

    values: list[Value]
    inits: list[Value]
    results: list[Value]
    combiner: Combiner

    @property
    def extreme(self) -> Opcode | None:
        """Maximum or minimum, if that is all that the lanes are combined by."""
        combiner = self.combiner
        if len(self.values) != 1 or len(combiner.body) != 1:
            return None
        s = combiner.body[0]
        if not isinstance(s, Compute) or s.opcode not in (Opcode.MAXIMUM, Opcode.MINIMUM):
            return None
        both = {*combiner.lhs, *combiner.rhs} == set(s.operands)
        return s.opcode if both and combiner.results == [s.result] else None


class LoopKind(enum.Enum):
    """What runs the iterations of a loop.

    SERIAL: one after another. GRID: blocks of work, in any order or at once; a whole stage. THREAD:
    the threads of a block, in any order between two barriers. LANES: the lanes of a vector, in
    lockstep. UNROLLED: one after another, each with code of its own.
    """

    SERIAL = "range"
    GRID = "grid"
    THREAD = "threads"
    LANES = "lanes"
    UNROLLED = "unrolled"


@dataclass(eq=False, slots=True)
class Loop(Statement):
    """for var in kind(min(var.extent, *limits)).

    Limits are known at run time only: parameters of the kernel, and what is left of an array for
    the block that runs the loop.

    Facts: `independent` (iterations may run in any order or at once), `may_vectorize` (iterations
    may run in lockstep; lanes of carried values are then combined with `combiner`), `combiner`
    (partial results may be), `elements` (the values in the body that an iteration combines with
    those that are carried).
    """

    var: Var
    body: list[Statement] = field(default_factory=list)
    carries: list[Carry] = field(default_factory=list)
    combiner: Combiner | None = None
    independent: bool = False
    may_vectorize: bool = False
    kind: LoopKind = LoopKind.SERIAL
    limits: tuple[Index, ...] = ()
    combination: Combination | None = None  # of a lanes loop
    elements: tuple[Value, ...] = ()


@dataclass(eq=False, slots=True)
class Kernel:
    """Buffers, run-time parameters and statements; `stages` run one after another."""

    name: str
    buffers: list[Buffer] = field(default_factory=list)
    stages: list[Statement] = field(default_factory=list)
    # Operand whose buffer output i updates in place: the caller copies it there first unless they
    # share memory.
    in_place: dict[int, int] = field(default_factory=dict)
    parameters: list[Parameter] = field(default_factory=list)


# What has statements inside, what does nothing but compute a value, what moves elements, and what
# has an index. (Asking for a class of a tuple takes half as long as for one of a union.)
BODIES = (Loop, If)
PURE = (Compute, Constant, IndexValue, InRange, Load)
ACCESSES = (Load, Store)
INDEXED = (Load, Store, IndexValue, InRange)


def walk(statements: Sequence[Statement]) -> list[Statement]:
    """All statements, outer before inner."""
    found: list[Statement] = []
    for statement in statements:
        found.append(statement)
        if type(statement) in BODIES:  # no class derives from these
            found += walk(statement.body)  # type: ignore[attr-defined]
    return found


def group_indices(s: Statement) -> tuple[Index, ...]:
    """The indices of what one thread begins for all of a block, or all do together; of other
    statements none."""
    if isinstance(s, ExpectBytes):
        return (s.index,)
    if isinstance(s, AwaitArrivals):
        return s.index, s.parity
    if isinstance(s, BoxCopy):
        return s.target_index, *s.at, s.arrival
    return (s.lhs.index, s.rhs.index) if isinstance(s, GroupProduct) else ()


def accessed(s: Statement) -> tuple[Buffer, ...]:
    """The buffers that a statement itself reads or writes."""
    if isinstance(s, Load | Store | Atomic | MatrixLoad | Signal | Await):
        return (s.buffer,)
    if isinstance(s, Ticket):
        return s.buffer, s.shared
    if isinstance(s, Move | AsyncCopy):
        return s.buffer, s.target
    if isinstance(s, PrepareArrivals | ExpectBytes | AwaitArrivals):
        return (s.arrivals,)
    if isinstance(s, BoxCopy):
        return s.buffer, s.target, s.arrivals
    if isinstance(s, GroupProduct):
        return s.lhs.buffer, s.rhs.buffer
    return (s.source, s.target) if isinstance(s, Transpose) else ()
