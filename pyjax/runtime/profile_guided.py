"""Programs that are compiled twice: first so that they measure what each kernel takes, or for
arrays of any sizes; then, after some runs, by what was measured, or for their shapes.

The second program runs in the place of the first: nobody who calls it has to know, and nothing is
left of the first that would take time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from pyjax._config import options
from pyjax.core.compile_log import because
from pyjax.runtime.array import DeviceArray
from pyjax.runtime.program import Call, Program
from xla_backend.measured_costs import CostDecision, Costs, MeasuredRuns
from xla_backend.runtime.client import LoadedExecutable

logger = logging.getLogger(__name__)


def recompile_when_measured(
    program: Program,
    runs: MeasuredRuns,
    percentile: int,
    compile_again: Callable[[Costs], LoadedExecutable],
) -> None:
    """Have the call that finds all runs of `program` measured compile it again. Calls of other
    threads go on meanwhile with what there is. It is done before that call takes its arguments: if
    it is interrupted they are as they were, and the next call tries again."""

    def compile_measured() -> Call:
        with because(lambda: "the costs of its kernels were measured"):
            executable = compile_again(runs.aggregated(percentile))
        measured = program.replace(executable)
        _log(program.function, executable.cost_decisions())
        return measured

    _replace_when(program, lambda: runs.complete, compile_measured)


def compile_when_used(
    program: Program,
    calls: int,
    compile_it: Callable[[], LoadedExecutable],
    constants: Sequence[DeviceArray],
) -> None:
    """Have call number `calls` of a program for arrays of any sizes compile it for its shapes.

    Args:
      constants: that it takes then.
    """
    left = iter(range(calls - 1))
    program.is_for_now = True

    def compile_used() -> Call:
        with because(lambda: f"it was called {calls} times with these shapes"):
            executable = compile_it()
        return program.replace(executable, constants)

    _replace_when(program, lambda: next(left, None) is None, compile_used)


def _replace_when(program: Program, ready: Callable[[], bool], replace: Callable[[], Call]) -> None:
    """Have the call that finds it `ready` replace a program, before it takes its arguments."""
    before = program.call
    claim = threading.Lock()  # never waited for; who has compiled keeps it

    def call(arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
        if not ready() or not claim.acquire(blocking=False):
            return before(arguments)
        try:
            after = replace()
        except BaseException:
            claim.release()
            raise
        return after(arguments)

    program.call = call


def _log(function: str, decisions: Sequence[CostDecision]) -> None:
    level = logging.WARNING if options.log_compiles.value else logging.INFO
    changed = [str(d) for d in decisions if d.blocks != d.estimated_blocks]
    logger.log(
        level,
        "Compiled %s again with the measured costs of %d kernels; %s",
        function,
        len(decisions),
        "; ".join(changed) or "they change no decision",
    )
