"""What no other family takes, in one thread: scalars, loops that need an order.

Values that one stage computes and a later one uses stay in the thread that computes them, so such
stages run in one thread together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xla_backend.kernels.ir import Kernel, Statement
from xla_backend.targets.gpu.architectures import Architecture
from xla_backend.targets.gpu.schedule.stages import (
    hands_values_on,
    is_pure,
    is_scheduled,
    launch,
)


def schedule(kernel: Kernel, architecture: Architecture, done: Callable[[str], None]) -> None:
    """Make a launch of each stage that is none yet."""
    kernel.stages = _launches(kernel.stages)
    done("serial")


def _launches(stages: Sequence[Statement]) -> list[Statement]:
    shared = [s for s in stages if is_pure(s)]
    others = [s for s in stages if not is_pure(s)]
    if hands_values_on(stages):
        assert not any(map(is_scheduled, others)), "a scheduled stage needs a value of another one"
        outer, inner, _ = launch(1, 1)
        inner.body = list(stages)
        return [outer]
    result: list[Statement] = shared
    together: list[Statement] = []  # stores and serial loops in a row: one thread

    def finish() -> None:
        if together:
            outer, inner, _ = launch(1, 1, str(len(result)))
            inner.body = together[:]
            result.append(outer)
            together.clear()

    for stage in others:
        if is_scheduled(stage):
            finish()
            result.append(stage)
        else:
            together.append(stage)
    finish()
    return result
