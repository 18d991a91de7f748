"""One program, three ways: the evaluator, compiled without and with optimisation."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.cpu.compiler import compile_module
from xla_backend.cpu.kernels.thread_pool import num_threads, set_num_threads
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import CANONICAL, computation_to_text, module_to_text
from xla_backend.tools.fuzz.comparison import ROUNDS, Expectation, same_bits
from xla_backend.tools.fuzz.data import arguments_for

# Optimisation levels of compiled runs, for even and odd seeds.
STAGES = {"O0": (0, 0), "full": (3, 2)}

# One program in so many runs its passes in checking mode, and runs with one thread, too.
_CHECKING_PERIOD = 23
_THREADS_PERIOD = 7
_TEXT_PERIOD = 3

# Everything but names.
_NAMELESS = replace(CANONICAL, large_constants=True, backend_config=True, metadata=True)


@dataclass(frozen=True)
class Failure:
    """What went wrong with a program.

    Fields:
      kind: generation, evaluation, compilation, execution, divergence, changed argument, threads,
        text, crash, timeout.
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
        where = lines[1].strip() if len(lines) > 1 and self.kind not in ("divergence",) else ""
        return self.kind, where

    def __str__(self) -> str:
        at = f" ({self.stage})" if self.stage else ""
        return f"{self.kind}{at}: {self.detail}"


def check_module(
    module: HloModule,
    seed: int,
    stages: Sequence[str] = tuple(STAGES),
    rounds: Sequence[int] = ROUNDS,
) -> Failure | None:
    """The first thing that is wrong with a program, on the arguments of `seed`; None if nothing is.

    The module is not changed. Compiled code may crash: see workers.py.
    """
    try:
        arguments = arguments_for(module, seed)
        expectation = Expectation(module, arguments, rounds)
    except Exception as error:  # whatever it is, it is a finding
        return Failure("evaluation", "", _told(error))
    if seed % _TEXT_PERIOD == 0:
        failure = _check_text(module)
        if failure is not None:
            return failure
    for stage in stages:
        options = CompileOptions(
            optimization_level=STAGES[stage][seed % 2], verify=seed % _CHECKING_PERIOD == 0
        )
        failure = _check_compiled(module, arguments, expectation, stage, options, seed)
        if failure is not None:
            return failure
    return None


def _check_text(module: HloModule) -> Failure | None:
    """Printing and parsing give the same program again; names become unique in the module, so they
    are compared after a first round only."""
    try:
        parsed = parse_module(module_to_text(module))
        text = module_to_text(parsed) + _nameless_text(module)
        again = module_to_text(parse_module(module_to_text(parsed))) + _nameless_text(parsed)
    except Exception as error:
        return Failure("text", "", _told(error))
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
    module: HloModule,
    arguments: Sequence[np.ndarray],
    expectation: Expectation,
    stage: str,
    options: CompileOptions,
    seed: int,
) -> Failure | None:
    try:
        executable = compile_module(module.clone(), options)
    except Exception as error:
        return Failure("compilation", stage, _told(error))
    before = [argument.copy() for argument in arguments]
    try:
        results = executable.execute(arguments)
    except Exception as error:
        return Failure("execution", stage, _told(error))
    if not same_bits(before, arguments):
        return Failure("changed argument", stage, "a run changed an argument")
    difference = expectation.difference(results)
    if difference is not None:
        return Failure("divergence", stage, difference)
    if stage == "full" and seed % _THREADS_PERIOD == 0:
        threads = num_threads()
        set_num_threads(1 if threads > 1 else 3)
        alone = executable.execute(arguments)
        set_num_threads(threads)
        if not same_bits(results, alone):
            return Failure("threads", stage, f"bits differ between {threads} threads and others")
    return None


def _told(error: Exception) -> str:
    """An exception's type and text, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename.rsplit('/', 1)[-1]} in {frames[-1].name}" if frames else ""
    message = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {message}\n  {where}"
