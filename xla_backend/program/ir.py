"""A program: what runs when, and in which memory. Data, the same for every target.

A `Program` is a tree of steps over slices of memory (`steps`). Nothing is left to decide but how
code for it is written: a target emits it, the stepper runs it in Python, the verifier checks it,
and it is printed and kept in files as it is. It is built once, from scheduled HLO and the buffers
assigned to it (`build`), and never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType

import numpy as np

from xla_backend.hlo.shape import Shape
from xla_backend.hlo.topology import ALONE, Topology
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel
from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.program.steps import (
    ALIGNMENT,
    CONTEXT_SIZE,
    PARTITION,
    REPLICA,
    Call,
    Collective,
    Copy,
    Element,
    Host,
    HostFunction,
    If,
    KernelOperand,
    Launch,
    Library,
    Operand,
    Resident,
    Slice,
    Space,
    Step,
    Steps,
    Undefined,
    While,
    aligned,
    all_steps,
    inner_steps,
    offsets_of,
)

__all__ = [
    "ALIGNMENT",
    "CONTEXT_SIZE",
    "Call",
    "Collective",
    "Copy",
    "Element",
    "Host",
    "HostFunction",
    "If",
    "KernelOperand",
    "Launch",
    "Library",
    "Operand",
    "PARTITION",
    "Program",
    "REPLICA",
    "Resident",
    "Slice",
    "Space",
    "Step",
    "Steps",
    "Undefined",
    "While",
    "aligned",
    "all_steps",
    "inner_steps",
    "launched_buffers",
    "offsets_of",
    "passed_buffers",
]


@dataclass(frozen=True, eq=False)
class Program:
    """Steps and the memory they need.

    Fields:
      parameters, outputs: shapes of the flat arguments and results, in order (tokens have no
        memory).
      aliases: output -> parameter whose memory it takes over.
      constants: arrays of the CONSTANT slices.  state: what the STATE slices hold at first.
      temp_size, scratch_size, stack: bytes of the arenas and of each piece of the stack.
      kernels: by name, with their schedules.  procedures: what Call steps run.
      topology: the participants of a run; each runs all steps, in memory of its own.
    """

    name: str
    parameters: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    steps: Steps
    kernels: Mapping[str, Kernel]
    procedures: Mapping[str, Steps] = field(default_factory=lambda: MappingProxyType({}))
    aliases: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    constants: tuple[np.ndarray, ...] = ()
    state: tuple[np.ndarray, ...] = ()
    temp_size: int = 0
    scratch_size: int = 0
    stack: tuple[int, ...] = ()
    topology: Topology = ALONE

    @property
    def arena_size(self) -> int:
        """Bytes of both arenas, scratch behind temp."""
        return aligned(self.temp_size) + self.scratch_size

    @property
    def state_offsets(self) -> tuple[int, ...]:
        """Where each array of the state begins in one piece of memory, and where that ends."""
        return offsets_of(self.state)

    @property
    def uses_context(self) -> bool:
        """Whether the program can tell the contexts of two executions apart. Loops of participants
        look whether another one has ended the run."""
        outer = (*self.steps, *chain.from_iterable(self.procedures.values()))
        steps = list(all_steps(outer))
        looks = self.topology.size > 1 and any(isinstance(step, While) for step in steps)
        return bool(self.state) or looks or any(map(_looks_at_context, steps))


def _looks_at_context(step: Step) -> bool:
    if isinstance(step, Copy):
        return step.source.space is Space.CONTEXT
    return isinstance(step, Host | Collective)


def launched_buffers(kernel: Kernel) -> list[Buffer]:
    """Buffers of a kernel whose memory its caller provides, in order."""
    own = BufferRole.CONSTANT
    return [b for b in kernel.buffers if b.role.is_global and b.role is not own]


def passed_buffers(kernel: Kernel) -> list[Buffer]:
    """Those that a routine passes on for its caller: the scratch buffers are its own."""
    return [b for b in launched_buffers(kernel) if b.role is not BufferRole.SCRATCH]
