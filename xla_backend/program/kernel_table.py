"""The kernels of a program while it is built: each distinct one is lowered and scheduled once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Protocol

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.from_hlo.lower import lower
from xla_backend.kernels.ir import Kernel
from xla_backend.passes.fusion_records import record_text
from xla_backend.process.light_dataclasses import dataclass


class Scheduler(Protocol):
    """Makes kernels fit for a target, in place, and says what they cost.

    Attributes:
      reduces_in_parts: large reductions come to it in parts; else it cuts them itself.
    """

    reduces_in_parts: bool

    def kernel(self, kernel: Kernel) -> float:
        """Schedule a kernel; the estimated cycles of one run."""

    def epilogue(self, kernel: Kernel, *, whole: bool) -> float:
        """Schedule what a routine runs on blocks of its result: loops over batch, rows and
        columns. `whole`: blocks begin at whole vectors of columns, and end there but for the last
        ones. The estimated cycles of one element."""


@dataclass(slots=True)
class ScheduledKernel:
    """A kernel and what its scheduler says about its cost."""

    kernel: Kernel
    cycles: float


class KernelTable:
    """Kernels by what they compute, under unique names."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._kernels: list[ScheduledKernel] = []
        self._known: dict[Hashable, ScheduledKernel] = {}
        # The first instruction of each outline has no key until there is a second one.
        self._alone: dict[Hashable, tuple[Instruction, ScheduledKernel] | None] = {}
        # Names taken, and the number to try for the next kernel of that name.
        self._next_number: dict[str, int] = {}
        # Names of the instructions that run each kernel, for listings.
        self.instructions: dict[str, list[str]] = {}

    def get(
        self,
        node: Instruction,
        build: Callable[[str], Kernel] | None = None,
        variant: Hashable = None,
    ) -> ScheduledKernel:
        """The kernel of an instruction or fusion; `build` makes what is not plain loops, the same
        for all that need the same code in the same `variant`."""
        schedule = self.scheduler.kernel
        build = build or partial(lower, node, in_parts=self.scheduler.reduces_in_parts)
        outline = (_outline(node), variant)
        if outline not in self._alone:
            made = self._make(node.name, build, schedule)
            self._alone[outline] = (node, made)
            return self._listed(made, node)
        first = self._alone[outline]
        if first is not None:
            self._known[structural_key(first[0]), variant] = first[1]
            self._alone[outline] = None
        return self._get((structural_key(node), variant), node.name, build, schedule, node)

    def get_built(
        self,
        key: Hashable,
        name: str,
        build: Callable[[str], Kernel],
        instruction: Instruction | None = None,
    ) -> ScheduledKernel:
        """A kernel that is built by hand: `build(name)` makes it if `key` is new."""
        return self._get(key, name, build, self.scheduler.kernel, instruction)

    def get_epilogue(
        self,
        key: Hashable,
        instruction: Instruction,
        build: Callable[[str], Kernel],
        *,
        whole: bool,
    ) -> ScheduledKernel:
        """A kernel that a routine calls on blocks of an instruction's result; `whole`: see
        `Scheduler.epilogue`."""
        schedule = partial(self.scheduler.epilogue, whole=whole)
        return self._get((key, whole), instruction.name, build, schedule, instruction)

    def _get(
        self,
        key: Hashable,
        name: str,
        build: Callable[[str], Kernel],
        schedule: Callable[[Kernel], float],
        instruction: Instruction | None,
    ) -> ScheduledKernel:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._make(name, build, schedule)
        return self._listed(found, instruction)

    def _make(
        self, name: str, build: Callable[[str], Kernel], schedule: Callable[[Kernel], float]
    ) -> ScheduledKernel:
        kernel = build(self._unique(name))
        made = ScheduledKernel(kernel, schedule(kernel))
        self._kernels.append(made)
        return made

    def _listed(self, found: ScheduledKernel, instruction: Instruction | None) -> ScheduledKernel:
        if instruction is not None:
            self.instructions.setdefault(found.kernel.name, []).append(instruction.name)
        return found

    def _unique(self, base: str) -> str:
        base = base.replace(".", "_")
        if not (base.isascii() and base.isidentifier()):
            base = "".join([c if c.isalnum() or c == "_" else "_" for c in base])
        taken = self._next_number
        name, n = base, taken.get(base, 1)
        while name in taken:
            name = f"{base}_{n}"
            n += 1
        taken[base] = n
        taken.setdefault(name, 1)
        return name

    def kernels(self) -> dict[str, Kernel]:
        """Every kernel by name, in the order of first use."""
        return {k.kernel.name: k.kernel for k in self._kernels}


def _outline(node: Instruction) -> tuple:
    """Different only for instructions that need different code, and quickly told."""
    if node.opcode is not Opcode.FUSION:
        return (node.opcode, node.shape, len(node.operands))
    computation = node.called[0]
    root = computation.root
    assert root is not None
    return (node.opcode, root.shape, len(computation), root.opcode)


def structural_key(node: Instruction) -> tuple:
    """Equal for instructions that need the same code, whatever their names."""
    if node.opcode is not Opcode.FUSION:
        operands = tuple(o.shape for o in node.operands)
        first: dict[Instruction, int] = {}
        repeats = tuple(first.setdefault(o, i) for i, o in enumerate(node.operands))
        called = tuple(computation_key(c) for c in node.called)
        return (node.opcode, node.shape, node.attributes, operands, repeats, called)
    return (node.opcode, computation_key(node.called[0]), record_text(node))


def computation_key(computation: Computation) -> tuple:
    order = computation.post_order()
    number = {node: i for i, node in enumerate(order)}
    rows = [
        (
            node.opcode,
            node.shape,
            node.attributes,
            tuple([number[o] for o in node.operands]),
            tuple([computation_key(c) for c in node.called]),
        )
        for node in order
    ]
    assert computation.root is not None
    return (tuple(rows), number[computation.root])
