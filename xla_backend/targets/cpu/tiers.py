"""Programs that run at once on code that needs no LLVM, and on LLVM's as soon as that is there.

A module is planned once: passes, buffers, scheduled kernels. Of the plan first code is made, if
it can have some (`threaded`), and the program runs. Of the same plan LLVM makes the
optimised code, on the thread of `process.later`; then all callers are switched to it, by one store
to a word that the first code looks at (`CpuExecutable.switch`). Both compute the same bits.

A program that nobody holds any more when its turn comes is compiled all the same if it can be kept
on disk: functions that are made anew for each call are programs that live for a moment, and the
next one is to find something there. For the same reason each looks there first: an equal program
may have had its turn before.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Protocol

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.persistent.settings import settings_to_keep, under_settings
from xla_backend.process import later
from xla_backend.process.later import Later
from xla_backend.process.no_collections import without_collections
from xla_backend.process.on_first_use import on_first_use
from xla_backend.program.ir import Program, While, all_steps
from xla_backend.runtime.client import Device
from xla_backend.targets.cpu.code_interface import CYCLES_PER_MICROSECOND
from xla_backend.targets.cpu.executable import CpuExecutable
from xla_backend.targets.cpu.planned import (
    Planned,
    Profile,
    linked,
    plan_module,
    refuse_others,
)
from xla_backend.targets.cpu.program_code import ProgramCode, link
from xla_backend.targets.cpu.stages import CompiledStages, KernelTexts
from xla_backend.targets.cpu.target_options import target_for
from xla_backend.targets.cpu.threaded.first_code import first_code

# What writes LLVM's code is not loaded where first code is all that is made for now.
_compile_planned = on_first_use("xla_backend.targets.cpu.compiler", "compile_planned")
_generate = on_first_use("xla_backend.targets.cpu.compiler", "generate")
_write_code = on_first_use("xla_backend.targets.cpu.compiler", "write_code")

logger = logging.getLogger(__name__)

# Programs that wait for their turn. Whoever makes more has to wait for LLVM himself: else there
# would be ever more of them, and the last ones would run on first code for long.
_MOST_WAITING = 64
# LLVM is left alone so long after a program was made: its first run has both processors, and the
# interpreter's lock when it comes back.
_FIRST_RUN = 0.02
# The same, if that run is so long that it may leave off, to be run anew by optimised code: in loops
# of which nobody knows the rounds, or whose rounds take so many cycles together in optimised code.
_LONG_RUN = 0.005
_LONG_LOOP = 1_000.0 * CYCLES_PER_MICROSECOND
# What optimised code and its stages take, until it is known: bytes for an instruction, the median
# of the benchmarks' programs.
_BYTES = 2_100


class OnDisk(Protocol):
    """The place on disk of one program."""

    def find(self) -> ProgramCode | None:
        """Its code, if it is there meanwhile."""

    def keep(self, code: ProgramCode, seconds: float) -> None:
        """Put its code there, which was compiled in so many seconds."""


def compile_in_tiers(
    module: HloModule,
    options: CompileOptions,
    device: Device,
    on_disk: OnDisk | None,
    cache: bool,
) -> CpuExecutable:
    """Optimise `module` (in place) and make an executable of it, with first code if it can have
    that.

    Args:
      on_disk: where its optimised code is kept.
      cache: look for object code on disk, and keep it there.
    """
    refuse_others(module, options)
    start = time.perf_counter()
    profile = Profile()
    # Compilations make many objects that live until their end.
    planned = without_collections(plan_module, module, options, profile)
    first = _first_code(planned, options)
    if first is not None:
        rest = _Rest(planned, options, on_disk, cache, time.perf_counter() - start)
        executable = linked(first, planned, rest.stages(), options, profile, device)
        executable.held_bytes += _BYTES * sum(map(len, module.computations))
        if rest.begin(executable):
            return executable
    made = without_collections(
        _compile_planned, planned, options, profile, device=device, cache=cache
    )
    if on_disk is not None:
        on_disk.keep(made.code, time.perf_counter() - start)
    return made.executable


def _first_code(planned: Planned, options: CompileOptions) -> ProgramCode | None:
    if later.is_over() or later.waiting() >= _MOST_WAITING:
        return None
    # Participants of several processes run the same code.
    if planned.program.topology.size > 1 or options.level != CompileOptions().level:
        return None
    return first_code(planned.program, options, target_for(options))


def _may_leave_off(program: Program) -> bool:
    """Whether one of its loops may be so long that the program is run anew meanwhile."""
    blocks = (program.steps, *program.procedures.values())
    every = [step for steps in blocks for step in all_steps(steps)]
    return any(_is_long(step) for step in every if isinstance(step, While))


def _is_long(loop: While) -> bool:
    return (
        loop.trips is None
        or loop.trips * sum(step.cycles for step in all_steps(loop.body)) >= _LONG_LOOP
    )


class _Dropped(Exception):
    """Nobody wants the code any more."""


class _Rest:
    """What is left to do for a program that runs on its first code."""

    def __init__(
        self,
        planned: Planned,
        options: CompileOptions,
        on_disk: OnDisk | None,
        cache: bool,
        seconds: float,
    ) -> None:
        """`seconds`: that it took so far."""
        self._planned = planned
        self._options = options
        self._on_disk = on_disk
        self._cache = cache
        self._seconds = seconds
        # As they are now: the work is part of the call that asked for it.
        self._settings = settings_to_keep()
        self._context = copy_context()
        self._executable: Callable[[], CpuExecutable | None] = lambda: None
        self._kernels: KernelTexts | None = None
        self._piece = Later(self._work, self._outlives, self._is_wanted)

    def stages(self) -> CompiledStages:
        """What the program goes through."""
        return CompiledStages(self._planned, self._listing)

    def begin(self, executable: CpuExecutable) -> bool:
        """Have it done for an executable; whether there is a thread for that."""
        self._executable = weakref.ref(executable)
        alone = _LONG_RUN if _may_leave_off(self._planned.program) else _FIRST_RUN
        try:
            self._piece.begin(alone)
        except RuntimeError:
            return False
        executable.optimising = self._piece.finish
        return True

    def _is_wanted(self) -> bool:
        return self._executable() is not None

    def _outlives(self) -> bool:
        return self._on_disk is not None

    def _work(self, piece: Later) -> None:
        try:
            with under_settings(self._settings):
                # A copy: of what a parent was in the middle of, the context is taken in a child.
                self._context.copy().run(self._optimise, piece)
        except _Dropped:
            pass
        except Exception as error:
            what = "could not be made, and it goes on with its first code, which computes the same"
            self._tell(f"{what} and is slower", error)
        self._context = Context()

    def _tell(self, what: str, error: Exception) -> None:
        logger.warning(
            "The optimised code of %s %s: %s: %s",
            self._planned.module.name,
            what,
            type(error).__name__,
            error,
            exc_info=logger.isEnabledFor(logging.DEBUG),
        )

    def _optimise(self, piece: Later) -> None:
        def go_on() -> None:
            if piece.is_dropped or not (self._is_wanted() or self._on_disk is not None):
                raise _Dropped

        go_on()
        start = time.perf_counter()
        code = None if self._on_disk is None else self._on_disk.find()
        is_new = code is None
        profile = Profile()
        if code is None:
            code, self._kernels = _generate(
                self._planned, self._options, profile, cache=self._cache, go_on=go_on
            )
        executable = self._executable()
        if executable is not None:
            options = self._options
            with profile.phase("link"):
                library = link(code, target_for(options), options.fast_math, options.num_threads)
            executable.switch(code, library)
            for phase, seconds in profile.seconds.items():
                executable.profile[phase] = executable.profile.get(phase, 0.0) + seconds
        if is_new and self._on_disk is not None:
            try:
                self._on_disk.keep(code, self._seconds + time.perf_counter() - start)
            except Exception as error:  # a warning, where these are errors
                self._tell("is in use, and is not kept on disk", error)

    def _listing(self) -> KernelTexts:
        """What can be read about the kernels is of the optimised code."""
        self._piece.finish()
        if self._kernels is None:  # it was on disk, or failed
            self._kernels = _write_code(self._planned, self._options, shared=True).kernels
        return self._kernels
