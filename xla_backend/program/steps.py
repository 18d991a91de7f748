"""The steps of programs, and the memory that they name; what a process needs to know of a program
whose code is on disk. The whole is a `program.ir.Program`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import Value
from xla_backend.hlo.exchanges import Exchange
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType

# Offsets of slices that are put beside each other are multiples of this.
ALIGNMENT = 64


class Space(enum.Enum):
    """Whose memory a slice is."""

    ARGUMENT = "argument"  # the caller's, by flat parameter
    OUTPUT = "output"  # the caller's, by flat result
    TEMP = "temp"  # one arena for values that live from step to step
    CONSTANT = "constant"  # read-only, by number
    SCRATCH = "scratch"  # one arena that holds nothing between two steps
    STACK = "stack"  # small pieces that hold nothing between two steps, by number
    STATE = "state"  # kept from one execution to the next on the same device, by number
    CONTEXT = "context"  # read-only: which participant this execution is


class Slice(Value):
    """Memory for one array: `offset` counts bytes from the start of the arena, or of the array
    that `number` stands for."""

    space: Space
    number: int
    offset: int
    shape: Shape

    def __init__(self, space: Space, number: int, offset: int, shape: Shape) -> None:
        values = self.__dict__  # programs have many slices
        values["space"] = space
        values["number"] = number
        values["offset"] = offset
        values["shape"] = shape

    @property
    def size(self) -> int:
        return self.shape.byte_size

    @property
    def memory(self) -> tuple[Space, int]:
        """Equal for slices of one piece of memory, which then may overlap."""
        return self.space, self.number

    def overlaps(self, other: Slice) -> bool:
        return (
            self.memory == other.memory
            and self.offset < other.offset + other.size
            and other.offset < self.offset + self.size
        )

    def same_memory(self, other: Slice) -> bool:
        return (
            self.space is other.space
            and self.number == other.number
            and self.offset == other.offset
        )


# What there is to read of the execution context.
REPLICA = Slice(Space.CONTEXT, 0, 0, Shape.array(PrimitiveType.U32, ()))
PARTITION = Slice(Space.CONTEXT, 0, 4, Shape.array(PrimitiveType.U32, ()))
CONTEXT_SIZE = 8


class Element(Value):
    """An operand that is the address of element `index` of an array."""

    slice: Slice
    index: int


class KernelOperand(Value):
    """A kernel that a routine calls, over `buffers` (see `passed_buffers`); its scratch buffers
    are what the routine hands it."""

    kernel: str
    buffers: tuple[Slice, ...]


# What a library routine takes; None is a null address.
Operand = Slice | Element | KernelOperand | int | tuple[int, ...] | None


class Step(Value):
    """Base of all: the HLO instruction it comes from, and estimated cycles of one execution, not
    counting the steps inside."""

    name: str
    cycles: float


class Launch(Step):
    """Run a kernel over slices, one for each of its `launched_buffers`. An output may have the
    memory of an operand where `in_place` lists them (output number, operand number)."""

    name: str
    cycles: float
    kernel: str
    buffers: tuple[Slice, ...]
    in_place: tuple[tuple[int, int], ...] = ()


class Copy(Step):
    """Copy an array."""

    name: str
    cycles: float
    target: Slice
    source: Slice


class Undefined(Step):
    """From here on memory holds an array of any values, such as what it held before."""

    name: str
    cycles: float
    target: Slice


class Library(Step):
    """Call a routine of the target's library: its contract says what the operands are."""

    name: str
    cycles: float
    routine: str
    operands: tuple[Operand, ...]


# Of operands, results, attributes and the context of the execution.
HostFunction = Callable[[list[np.ndarray], list[np.ndarray], Any, Any], None]


class Host(Step):
    """Call a function of the host: a custom call's by its target, or what runs an opcode."""

    name: str
    cycles: float
    target: str | Opcode
    operands: tuple[Slice, ...]
    results: tuple[Slice, ...]
    attributes: Any


class Collective(Step):
    """Exchange arrays with other participants of the run; results are apart from operands. For
    reductions, `combiners` has a kernel for each result: of two arrays, what earlier members of the
    group gave for it and what the next one gives, it makes one (`kernels.from_hlo.combiners`)."""

    name: str
    cycles: float
    exchange: Exchange
    operands: tuple[Slice, ...]
    results: tuple[Slice, ...]
    combiners: tuple[str, ...] = ()


class While(Step):
    """While the condition's steps leave a true value in `predicate`: run the body. `trips`: how
    often that is, where it is known; then nobody needs to look."""

    name: str
    cycles: float
    condition: tuple[Step, ...]
    predicate: Slice
    body: tuple[Step, ...]
    trips: int | None = None


class If(Step):
    """Run one branch: the first if a pred `selector` holds, else the second; or that of an
    integer's number, the last for numbers out of range."""

    name: str
    cycles: float
    selector: Slice
    branches: tuple[tuple[Step, ...], ...]


class Call(Step):
    """Run a procedure of the program."""

    name: str
    cycles: float
    procedure: str


class Resident(Step):
    """Steps that one block of `threads` threads runs as one launch, with a barrier behind each:
    launches, whose blocks come one after another, copies, and control flow among these. More
    `blocks` share the work, as many of them as the device holds at once: their barriers are for
    all threads of all blocks."""

    name: str
    cycles: float
    threads: int
    steps: tuple[Step, ...]
    blocks: int = 1


Steps = tuple[Step, ...]


def offsets_of(arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
    """Where each array begins in one piece of memory, and where that ends."""
    return tuple(accumulate([aligned(array.nbytes) for array in arrays], initial=0))


def aligned(size: int) -> int:
    """Rounded up to ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def inner_steps(step: Step) -> tuple[Steps, ...]:
    """The blocks of steps inside one (a call's procedure is the program's)."""
    if isinstance(step, While):
        return step.condition, step.body
    if isinstance(step, Resident):
        return (step.steps,)
    return step.branches if isinstance(step, If) else ()


def all_steps(steps: Steps) -> Iterator[Step]:
    """Every step, outer before inner."""
    for step in steps:
        yield step
        for block in inner_steps(step):
            yield from all_steps(block)
