"""Control flow that stays on the device: loops and branches that one block is enough for, or as
many blocks as the device holds at once.

while 100 times:                    by one block of 256 threads:
  body:                      ->       while 100 times:
    launch step(...)                    body:
    copy ...                              launch step(...)
                                          copy ...

A launch takes the host and the device some microseconds, about what one block takes for a few
thousand elements; and where a condition decides, the host would have to wait for it. What is too
much for one block is done by a grid of blocks that wait for each other after each launch, which
takes them about as long as a launch takes the device. Bodies that keep a grid busy much longer than
that, and those with steps of other kinds, are launched from outside, step by step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from xla_backend.kernels.ir import (
    Barrier,
    BoxCopy,
    BufferRole,
    Kernel,
    Loop,
    MatrixLoad,
    MatrixTile,
    Shuffle,
    Statement,
    accessed,
    walk,
)
from xla_backend.kernels.ir import If as KernelIf
from xla_backend.program.ir import (
    Call,
    Copy,
    If,
    Launch,
    Program,
    Resident,
    Step,
    Steps,
    Undefined,
    While,
    all_steps,
)
from xla_backend.targets.gpu.architectures import WARP, Architecture
from xla_backend.targets.gpu.schedule.stages import threads_of

# Rounds that the block makes for one stage, and rounds of serial loops inside of a thread.
_MOST_ROUNDS = 4
_MOST_SERIAL = 1 << 10
_MOST_COPIED = 1 << 16
# Of a grid: threads of a block, of which each multiprocessor has one, so that all are there at once
# whatever registers they take; and the rounds that are worth it, where the host would wait for
# conditions and where it would not.
_GRID_THREADS = 512
_MOST_GRID_ROUNDS = 16
_MOST_COUNTED_ROUNDS = 4
_COPIED_AT_ONCE = 16


def with_residents(program: Program, architecture: Architecture) -> Program:
    """The program with its small loops and branches as steps of one block."""
    finder = _Finder(program, architecture)
    procedures = {name: finder.steps(steps) for name, steps in program.procedures.items()}
    return replace(program, steps=finder.steps(program.steps), procedures=procedures)


class _Finder:
    def __init__(self, program: Program, architecture: Architecture) -> None:
        self._architecture = architecture
        self._kernels: Mapping[str, Kernel] = program.kernels
        self._procedures: Mapping[str, Steps] = program.procedures

    def steps(self, steps: Steps) -> Steps:
        return tuple(map(self._step, steps))

    def _step(self, step: Step) -> Step:
        if not isinstance(step, While | If):
            return step
        # What the host makes of arrays for each launch cannot come from a function that stays.
        boxes = any(
            isinstance(s, BoxCopy) for kernel in self._kernels_of(step) for s in walk(kernel.stages)
        )
        threads = None if boxes else self._threads(step)
        if threads is not None:
            return Resident(step.name, step.cycles, threads, (step,))
        grid = None if boxes else self._grid(step)
        if grid is not None:
            return grid
        if isinstance(step, If):
            branches = tuple(map(self.steps, step.branches))
            return If(step.name, step.cycles, step.selector, branches)
        condition, body = self.steps(step.condition), self.steps(step.body)
        return While(step.name, step.cycles, condition, step.predicate, body, step.trips)

    def _kernels_of(self, step: Step) -> list[Kernel]:
        """Those that run inside."""
        inside = self._inside((step,))
        return [self._kernels[s.kernel] for s in inside if isinstance(s, Launch)]

    # -- several blocks ----------------------------------------------------------------------------

    def _grid(self, step: While | If) -> Resident | None:
        """A step as that of a grid; None if it has steps of other kinds or too much to do."""
        inside = self._inside((step,))
        if not all(isinstance(s, Launch | Copy | Undefined | While | If | Call) for s in inside):
            return None
        kernels = self._kernels_of(step)
        stages = [s for kernel in kernels for s in kernel.stages if isinstance(s, Loop)]
        threads = max([_GRID_THREADS, *(threads_of(s).var.extent for s in stages)])
        tiles = any(isinstance(s, MatrixTile) for s in walk([*stages]))
        if any(
            _shared_bytes(kernel) > self._architecture.shared_per_block for kernel in kernels
        ) or (threads > _GRID_THREADS and tiles):
            return None
        whole = [s for s in stages if works_together(threads_of(s))]
        if any(threads_of(s).var.extent % WARP for s in whole):
            return None
        copied = [s.target.size for s in inside if isinstance(s, Copy)]
        wanted = [s.var.extent for s in whole]
        wanted += [
            -(-s.var.extent * threads_of(s).var.extent // threads)
            for s in stages
            if not works_together(threads_of(s))
        ]
        wanted += [-(-size // (threads * _COPIED_AT_ONCE)) for size in copied]
        most = max(wanted, default=1)
        counted = all(s.trips is not None for s in inside if isinstance(s, While))
        counted = counted and not any(isinstance(s, If) for s in inside)
        rounds = _MOST_COUNTED_ROUNDS if counted else _MOST_GRID_ROUNDS
        blocks = self._architecture.multiprocessors
        if most > rounds * blocks:
            return None
        return Resident(step.name, step.cycles, threads, (step,), max(2, min(most, blocks)))

    def _inside(self, steps: Steps) -> list[Step]:
        """All steps, those of procedures among them."""
        found: list[Step] = []
        for step in all_steps(steps):
            found.append(step)
            if isinstance(step, Call):
                found += self._inside(self._procedures[step.procedure])
        return found

    # -- one block ---------------------------------------------------------------------------------

    def _threads(self, step: Step) -> int | None:
        """How many threads a block needs for a step; None if it is not one block's work."""
        match step:
            case Launch():
                return self._threads_of_kernel(self._kernels[step.kernel])
            case Copy():
                return WARP if step.target.size <= _MOST_COPIED else None
            case Undefined():
                return WARP
            case While():
                return self._most((*step.condition, *step.body))
            case If():
                return self._most(tuple(s for branch in step.branches for s in branch))
            case Call():
                return self._most(self._procedures[step.procedure])
            case _:
                return None

    def _most(self, steps: Steps) -> int | None:
        most = WARP
        for step in steps:
            threads = self._threads(step)
            if threads is None:
                return None
            most = max(most, threads)
        return most

    def _threads_of_kernel(self, kernel: Kernel) -> int | None:
        if _shared_bytes(kernel) > self._architecture.static_shared:
            return None
        needed = [self._threads_of_stage(s) for s in kernel.stages if isinstance(s, Loop)]
        return None if None in needed else max([WARP, *(n for n in needed if n is not None)])

    def _threads_of_stage(self, stage: Loop) -> int | None:
        blocks, inner = stage.var.extent, threads_of(stage)
        threads = inner.var.extent
        if _serial_rounds(inner.body) > _MOST_SERIAL:
            return None
        if works_together(inner):
            # Where the block has more threads, barriers are for some of its warps.
            return threads if blocks <= _MOST_ROUNDS and threads % WARP == 0 else None
        most = self._architecture.threads_per_block
        rounds = -(-blocks * threads // most)
        return min(most, -(-blocks * threads // WARP) * WARP) if rounds <= _MOST_ROUNDS else None


def _shared_bytes(kernel: Kernel) -> int:
    return sum(
        b.size * b.element_type.byte_size for b in kernel.buffers if b.role is BufferRole.SHARED
    )


def works_together(threads: Loop) -> bool:
    """Whether the threads of a block share more than whole warps do: then blocks stay whole."""
    warps = threads.var.extent % WARP == 0
    return any(
        isinstance(s, Barrier)
        or (isinstance(s, Shuffle | MatrixTile | MatrixLoad) and not warps)
        or any(b.role is BufferRole.SHARED for b in accessed(s))
        for s in walk(threads.body)
    )


def _serial_rounds(statements: list[Statement]) -> int:
    """Rounds of the serial loops of a thread, one inside another."""
    total = 1
    for s in statements:
        if isinstance(s, Loop):
            total = max(total, s.var.extent * _serial_rounds(s.body))
        elif isinstance(s, KernelIf):
            total = max(total, _serial_rounds(s.body))
    return total
