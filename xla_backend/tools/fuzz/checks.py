"""One program, several ways: the evaluator; its optimised form, interpreted in the memory that it
was assigned; compiled with and, for some seeds, without optimisation; called again, in dirty
memory, from several threads."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import replace

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import CANONICAL, computation_to_text, module_to_text
from xla_backend.hlo.verifier import verify
from xla_backend.passes.buffer_assignment import BufferAssignment, assign_buffers
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.executable import CpuExecutable
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.tools.arena_interpreter import ArenaInterpreter, MemoryFault
from xla_backend.tools.fuzz.comparison import ROUNDS, Expectation, same_bits
from xla_backend.tools.fuzz.data import arguments_for
from xla_backend.tools.fuzz.native_runs import (
    FILLS,
    MemoryDamage,
    NativeRuns,
    run_in_threads,
)

# Optimisation levels of compiled runs, for even and odd seeds.
STAGES = {"O0": (0, 0), "full": (3, 2)}

# One program in so many: is compiled without optimisation, too (that gives LLVM three times the
# work of one with fusion); runs its passes in checking mode; runs with another number of threads;
# is called from several threads; is printed and parsed. Checking and printing cost most: one in 23
# and one in 3 took more than half of the time.
_PLAIN_PERIOD = 6
_CHECKING_PERIOD = 101
_THREADS_PERIOD = 7
_CALLERS_PERIOD = 5
_TEXT_PERIOD = 8
_CALLERS = 3
_CALLS = 4

# Everything but names.
_NAMELESS = replace(CANONICAL, large_constants=True, backend_config=True, metadata=True)


# Kinds of failures that are exceptions.
RAISED = ("compilation", "execution", "evaluation", "text")


@dataclass(frozen=True)
class Failure:
    """What went wrong with a program.

    Fields:
      kind: generation, evaluation, compilation, memory, execution, divergence, damage, repetition,
        threads, text, crash, timeout.
      stage: "O0" or "full" for a compiled run, else "".
      detail: one line, or the end of a traceback.
    """

    kind: str
    stage: str
    detail: str

    @property
    def signature(self) -> tuple[str, str]:
        """What failures of one cause have in common: the kind and, of an exception, its type and
        the function that raised it."""
        lines = self.detail.splitlines()
        where = (
            lines[1].strip()
            if len(lines) > 1 and self.kind in ("compilation", "execution", "evaluation", "text")
            else ""
        )
        return self.kind, where

    def __str__(self) -> str:
        at = f" ({self.stage})" if self.stage else ""
        return f"{self.kind}{at}: {self.detail}"


def check_module(
    module: HloModule,
    seed: int,
    stages: Sequence[str] | None = None,
    rounds: Sequence[int] = ROUNDS,
) -> Failure | None:
    """The first thing that is wrong with a program, on the arguments of `seed`; None if nothing is.

    The module is not changed. Compiled code may crash: see workers.py. Without `stages`, the seed
    says which.
    """
    if stages is None:
        stages = tuple(STAGES) if seed % _PLAIN_PERIOD == 0 else ("full",)
    expectation = _expectation(module, seed, rounds)
    if isinstance(expectation, Failure):
        return expectation
    if seed % _TEXT_PERIOD == 0:
        failure = _check_text(module)
        if failure is not None:
            return failure
    for stage in stages:
        failure = _check_compiled(module, expectation, stage, seed)
        if failure is not None:
            return failure
    return None


def check_passes(module: HloModule, seed: int) -> Failure | None:
    """As check_module, but without machine code: the optimised program is interpreted."""
    expectation = _expectation(module, seed, ROUNDS)
    if isinstance(expectation, Failure):
        return expectation
    optimised = module.clone()
    try:
        build_pipeline(_options("full", seed)).run(optimised)
        assignment = assign_buffers(optimised)
    except Exception as error:
        return Failure("compilation", "full", told(error))
    return _check_memory(optimised, assignment, expectation, "full")


def _options(stage: str, seed: int) -> CompileOptions:
    checking = seed % _CHECKING_PERIOD == 0
    return CompileOptions(
        optimization_level=STAGES[stage][seed % 2],
        verify=checking,
        overlap_collectives=bool(seed // 2 % 2),
    )


def _expectation(module: HloModule, seed: int, rounds: Sequence[int]) -> Expectation | Failure:
    try:
        return Expectation(module, arguments_for(module, seed), rounds)
    except Exception as error:  # whatever it is, it is a finding
        return Failure("evaluation", "", told(error))


def _check_text(module: HloModule) -> Failure | None:
    """Printing and parsing give the same program again; names become unique in the module, so they
    are compared after a first round only."""
    try:
        parsed = parse_module(module_to_text(module))
        text = module_to_text(parsed) + _nameless_text(module)
        again = module_to_text(parse_module(module_to_text(parsed))) + _nameless_text(parsed)
    except Exception as error:
        return Failure("text", "", told(error))
    if again != text:
        lines = zip(text.splitlines(), again.splitlines())
        first = next(((a, b) for a, b in lines if a != b), ("", ""))
        return Failure("text", "", f"printed {first[0].strip()!r}, then {first[1].strip()!r}")
    return None


def _nameless_text(module: HloModule) -> str:
    """The entry with all it calls, in a style that depends on no names."""
    assert module.entry is not None
    return computation_to_text(module.entry, _NAMELESS)


def _check_compiled(
    module: HloModule, expectation: Expectation, stage: str, seed: int
) -> Failure | None:
    optimised = module.clone()
    try:
        executable = compile_module(optimised, _options(stage, seed))
    except Exception as error:
        return Failure("compilation", stage, told(error))
    return _check_memory(
        executable.module, executable.assignment, expectation, stage
    ) or _check_calls(module, executable, expectation, stage, seed)


def _check_memory(
    optimised: HloModule, assignment: BufferAssignment, expectation: Expectation, stage: str
) -> Failure | None:
    """The optimised program is valid and means what the original one does, and its values do not
    destroy each other in memory."""
    try:
        verify(optimised)
    except Exception as error:
        return Failure("compilation", stage, told(error))
    try:
        results = ArenaInterpreter(optimised, assignment, expectation.arguments).run()
    except MemoryFault as fault:
        return Failure("memory", stage, str(fault))
    except Exception as error:
        return Failure("evaluation", stage, told(error))
    difference = expectation.difference(results)
    return None if difference is None else Failure("divergence", stage, f"passes: {difference}")


def _check_calls(
    module: HloModule,
    executable: CpuExecutable,
    expectation: Expectation,
    stage: str,
    seed: int,
) -> Failure | None:
    """Calls give the right results, the same ones whatever is in memory before."""
    arguments = expectation.arguments
    try:
        runs = NativeRuns(executable, FILLS[seed % len(FILLS)])
        results = runs.run(arguments, FILLS[0])
        difference = expectation.difference(results)
        if difference is not None:
            return Failure("divergence", stage, difference)
        # Other arguments leave another arena behind.
        other = arguments_for(module, seed + 1)
        others = runs.run(other, FILLS[1])
        if not same_bits(results, runs.run(arguments, FILLS[2])):
            return Failure("repetition", stage, "another call gives other results")
        if stage == "full" and seed % _THREADS_PERIOD == 0:
            threads = num_threads()
            set_num_threads(1 if threads > 1 else 3)
            alone = runs.run(arguments, FILLS[1])
            set_num_threads(threads)
            if not same_bits(results, alone):
                return Failure(
                    "threads", stage, f"bits differ between {threads} threads and others"
                )
        if stage == "full" and seed % _CALLERS_PERIOD == 0:
            inputs = [other if caller % 2 else arguments for caller in range(_CALLERS)]
            for caller, calls in enumerate(run_in_threads(executable, inputs, _CALLS)):
                right = others if caller % 2 else results
                if not all(same_bits(right, call) for call in calls):
                    return Failure("threads", stage, "calls of several threads meet")
    except MemoryDamage as damage:
        return Failure("damage", stage, str(damage))
    except Exception as error:
        return Failure("execution", stage, told(error))
    return None


def told(error: Exception) -> str:
    """An exception's type and text, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename.rsplit('/', 1)[-1]} in {frames[-1].name}" if frames else ""
    message = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {message}\n  {where}"
