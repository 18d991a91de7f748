"""What no other family takes: independent loops as threads, everything else as one thread.

for i in range(1000):              for block in grid(8):
    for j in range(3):      ->         for thread in threads(128):
        out[3*i + j] = ...                 if 128*block + thread < 3000 // 3: ...

Values that one stage computes and a later one uses stay in the thread that computes them, so such
stages run in one thread together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xla_backend.kernels.index import Atom, Index, delinearize
from xla_backend.kernels.ir import If, Kernel, Loop, Statement
from xla_backend.kernels.schedule.copying import replace_atoms
from xla_backend.targets.gpu.architectures import Architecture
from xla_backend.targets.gpu.schedule.stages import (
    hands_values_on,
    is_pure,
    is_scheduled,
    launch,
)

_THREADS = 128


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
        threads = None
        if isinstance(stage, Loop) and not is_scheduled(stage):
            threads = _by_threads(stage, str(len(result)))
        if threads is None and not is_scheduled(stage):
            together.append(stage)
            continue
        finish()
        result.append(threads or stage)
    finish()
    return result


def _by_threads(stage: Loop, name: str) -> Loop | None:
    """One thread for each round of the outermost independent loops; None if there are none."""
    path = independent_path(stage)
    if not path:
        return None
    extents = [loop.var.extent for loop in path]
    total = prod(extents)
    threads = min(_THREADS, total)
    outer, inner, here = launch(-(-total // threads), threads, name)
    places = delinearize(here, extents)
    body: list[Statement] = []
    for n, loop in enumerate(path):
        last = n == len(path) - 1
        body += [s for s in loop.body if last or s is not path[n + 1]]
    atoms: dict[Atom, Index] = {loop.var: place for loop, place in zip(path, places)}
    replace_atoms(body, atoms)
    inner.body = [If(here, 0, total, body)] if total % threads else body
    return outer


def independent_path(stage: Loop) -> list[Loop]:
    """Independent loops from the outside inwards, each with nothing but pure statements beside the
    next one; the innermost of them may contain anything."""
    path: list[Loop] = []
    loop: Loop | None = stage
    while loop is not None and loop.independent and not loop.carries and not loop.limits:
        path.append(loop)
        inner = [s for s in loop.body if not is_pure(s)]
        loop = inner[0] if len(inner) == 1 and isinstance(inner[0], Loop) else None
    return path
