"""What a program would take on a card: bytes, operations, registers, occupancy and time of each
launch. Estimated; nothing runs.

    compiled = xla_backend.compile(module, target="sm_90")
    print(compiled.analysis("H200"))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from xla_backend.emitted_kernel import KernelLaunch
from xla_backend.hlo.cost_analysis import CostAnalysis
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.program.ir import (
    Call,
    Copy,
    Host,
    If,
    Launch,
    Library,
    Program,
    Resident,
    Steps,
    While,
    inner_steps,
)
from xla_backend.targets.gpu.cards import Card
from xla_backend.targets.gpu.roofline import Estimate, estimate, estimate_block, estimate_grid
from xla_backend.targets.gpu.work import Work, kernel_work

# Registers of a thread where no assembler says how many.
_ASSUMED_REGISTERS = 40


@dataclass(frozen=True, slots=True)
class LaunchAnalysis:
    """One launch of a kernel.

    Fields:
      executions: how often a run of the program launches it.
      launch: grid, block, registers, spills.   work: bytes and operations.
      estimate: time and occupancy on the card.
    """

    kernel: str
    executions: int
    launch: KernelLaunch
    work: Work
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class RoutineAnalysis:
    """Calls of a library routine or of the host, or a copy: bytes and operations of its HLO
    instruction, and what these take at the card's full rates (None: on the host)."""

    name: str
    routine: str
    executions: int
    bytes: float
    flops: float
    seconds: float | None


@dataclass(frozen=True, slots=True)
class ProgramAnalysis:
    """What a program would take on a card. Its text is a table.

    Fields:
      card, architecture: which it is estimated for.
      launches, routines: in the order in which they are first run.
      open_loops: loops whose number of rounds is not known; they are counted once.
    """

    card: Card
    architecture: str
    launches: Sequence[LaunchAnalysis]
    routines: Sequence[RoutineAnalysis]
    open_loops: Sequence[str]

    @property
    def seconds(self) -> float:
        """Of one run, without what is between launches and what the host does."""
        kernels = sum(k.estimate.seconds * k.executions for k in self.launches)
        return kernels + sum((r.seconds or 0.0) * r.executions for r in self.routines)

    @property
    def bytes(self) -> float:
        kernels = sum(k.work.bytes * k.executions for k in self.launches)
        return kernels + sum(r.bytes * r.executions for r in self.routines)

    @property
    def flops(self) -> float:
        kernels = sum(k.work.flops * k.executions for k in self.launches)
        return kernels + sum(r.flops * r.executions for r in self.routines)

    def __str__(self) -> str:
        rows = [
            "function times blocks threads shared registers spilled occupancy bytes operations "
            "us roofline bound".split()
        ]
        rows += [_launch_row(k) for k in self.launches]
        rows += [_routine_row(r) for r in self.routines]
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        head = (
            f"Estimated for {self.card.name} ({self.architecture}): {1e6 * self.seconds:.2f} us, "
            f"{self.bytes:,.0f} bytes, {self.flops:,.0f} operations"
        )
        loops = [f"counted once, rounds are not known: {name}" for name in self.open_loops]
        return "\n".join([head, *lines, *loops])


def _launch_row(k: LaunchAnalysis) -> list[str]:
    launch, found = k.launch, k.estimate
    return [
        launch.function,
        str(k.executions),
        str(launch.blocks),
        str(launch.threads),
        str(launch.shared_bytes),
        "?" if launch.registers is None else str(launch.registers),
        "?" if launch.spilled_bytes is None else str(launch.spilled_bytes),
        str(found.occupancy),
        f"{k.work.bytes:,.0f}",
        f"{k.work.flops:,.0f}",
        f"{1e6 * found.seconds:.2f}",
        f"{100 * found.fraction:.0f} %",
        found.bound,
    ]


def _routine_row(r: RoutineAnalysis) -> list[str]:
    numbers = [f"{r.bytes:,.0f}", f"{r.flops:,.0f}"]
    time = "-" if r.seconds is None else f"{1e6 * r.seconds:.2f}"
    return [f"{r.name} ({r.routine})", str(r.executions), *["-"] * 6, *numbers, time, "-", "-"]


def analyze_program(
    program: Program,
    module: HloModule,
    launches: Mapping[str, Sequence[KernelLaunch]],
    residents: Mapping[str, KernelLaunch],
    architecture: str,
    card: Card,
) -> ProgramAnalysis:
    """Analyse a program; `launches`: of each kernel that has some of its own; `residents`: of each
    step that stays on the device.

    Raises:
      ValueError: the card has another architecture.
    """
    if card.architecture != architecture.rstrip("af"):
        raise ValueError(
            f"the code is for {architecture}, and {card.name} has {card.architecture}: compile for "
            f"target={card.architecture!r}"
        )
    nodes = {node.name: node for computation in module.computations for node in computation}
    counts = _Counts(program, nodes)
    counts.add(program.steps)
    analysed = []
    for name, times in counts.kernels.items():
        works = kernel_work(program.kernels[name])
        for launch, work in zip(launches[name], works, strict=True):
            found = estimate(work, card, launch.registers or _ASSUMED_REGISTERS)
            analysed.append(LaunchAnalysis(name, times, launch, work, found))
    routines = [
        counts.routine(name, routine, times, card)
        for (name, routine), times in counts.routines.items()
    ]
    routines += [
        RoutineAnalysis(name, "copy", times, 2.0 * size, 0.0, 2 * size / card.bandwidth)
        for (name, size), times in counts.copies.items()
    ]
    analysed += [
        _resident_analysis(step, times, kernels, residents[step.name], program, card)
        for step, times, kernels in counts.residents
    ]
    return ProgramAnalysis(card, architecture, analysed, routines, counts.open_loops)


def _resident_analysis(
    step: Resident,
    times: int,
    kernels: Counter[str],
    launch: KernelLaunch,
    program: Program,
    card: Card,
) -> LaunchAnalysis:
    """Of steps that one block runs, or a grid."""
    total = Work(step.blocks, step.threads)
    parts = [
        (work, rounds)
        for name, rounds in kernels.items()
        for work in kernel_work(program.kernels[name])
    ]
    for work, rounds in parts:
        total.add(work, rounds)
    registers = launch.registers or _ASSUMED_REGISTERS
    if step.blocks > 1:
        found = estimate_grid(total, parts, card, registers)
    else:
        found = estimate_block(total, card, registers)
    return LaunchAnalysis(step.name, times, launch, total, found)


class _Counts:
    """How often a run of a program launches what."""

    def __init__(self, program: Program, nodes: Mapping[str, Instruction]) -> None:
        self._program = program
        self._nodes = nodes
        self._costs = CostAnalysis()
        self.kernels: Counter[str] = Counter()
        self.routines: Counter[tuple[str, str]] = Counter()
        self.copies: Counter[tuple[str, int]] = Counter()
        self.residents: list[tuple[Resident, int, Counter[str]]] = []
        self.open_loops: list[str] = []

    def add(self, steps: Steps, times: int = 1) -> None:
        """Count steps that are run so many times."""
        for step in steps:
            if isinstance(step, Launch):
                self.kernels[step.kernel] += times
            elif isinstance(step, Library):
                self.routines[step.name, step.routine] += times
            elif isinstance(step, Host):
                target = step.target.value if isinstance(step.target, Opcode) else step.target
                self.routines[step.name, f"host: {target}"] += times
            elif isinstance(step, Copy):
                self.copies[step.name, step.target.size] += times
            elif isinstance(step, Call):
                self.add(self._program.procedures[step.procedure], times)
            elif isinstance(step, Resident):
                self._resident(step, times)
            elif isinstance(step, While):
                rounds = self._rounds(step)
                self.add(step.condition, times * (rounds + 1))
                self.add(step.body, times * rounds)
            elif isinstance(step, If):
                for block in inner_steps(step):  # as if all branches were taken
                    self.add(block, times)

    def _rounds(self, loop: While) -> int:
        if loop.trips is None:
            self.open_loops.append(loop.name)
        return 1 if loop.trips is None else loop.trips

    def _resident(self, step: Resident, times: int) -> None:
        """What one block does: its launches are not the device's."""
        inside = _Counts(self._program, self._nodes)
        inside.add(step.steps)
        self.open_loops += inside.open_loops
        self.residents.append((step, times, inside.kernels))

    def routine(self, name: str, routine: str, times: int, card: Card) -> RoutineAnalysis:
        node = self._nodes.get(name)
        if node is None:
            return RoutineAnalysis(name, routine, times, 0.0, 0.0, 0.0)
        cost = self._costs.instruction(node)
        seconds = None
        # How much solvers compute is not counted.
        if cost.flops and not routine.startswith("host: "):
            kind = str(node.operands[0].shape.flatten()[0].element_type) if node.operands else ""
            rate = card.tensor_rate("tf32" if routine.endswith("_tf32") else kind)
            seconds = max(cost.bytes_accessed / card.bandwidth, cost.flops / rate)
        return RoutineAnalysis(name, routine, times, cost.bytes_accessed, cost.flops, seconds)
