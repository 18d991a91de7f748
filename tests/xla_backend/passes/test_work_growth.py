"""The work of each step of the compiler grows as the program does.

Work is what can be counted on any machine: the lines of the compiler that are executed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from benchmarks.scaling_programs import PROGRAMS
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.passes.buffer_assignment import assign_buffers
from xla_backend.targets.cpu.compiler import write_code
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.targets.cpu.planned import plan_scheduled
from xla_backend.targets.cpu.target_options import target_for
from xla_backend.targets.cpu.threaded.errors import NoThreadedCode
from xla_backend.targets.cpu.threaded.program_table import program_table

# Instructions of the smallest program; two and four times as many follow.
SIZE = 160
# Larger where limits (members of a fusion, instructions of a function) are reached later.
SIZES = {"chain": 320, "reductions": 320, "scatters": 320}
# What the second step adds, at most, for each line that the first one adds: 2 is linear.
ALLOWED = 2.5
# Passes that do less than this, at the largest size, are not looked at.
SMALL = 3000


class Lines:
    """Executed lines of Python while it is entered."""

    def __init__(self) -> None:
        self.count = 0

    def _line(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        self.count += event == "line"
        return self._line

    def __enter__(self) -> Lines:
        self._before = sys.gettrace()
        sys.settrace(self._line)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.settrace(self._before)


def work(kind: str, size: int) -> Counter[str]:
    """Lines executed by each pass and by what follows the passes."""
    module = parse_module(PROGRAMS[kind](size))
    options = CompileOptions()
    found: Counter[str] = Counter()
    pipeline = build_pipeline(options)
    for hlo_pass in pipeline.flat_passes():
        hlo_pass.run = counting(hlo_pass.name, hlo_pass.run, found)  # type: ignore[method-assign]
    pipeline.run(module)
    assignment = counting("buffer-assignment", assign_buffers, found)(module)
    planned = counting("code", plan_scheduled, found)(module, assignment, options)
    counting("code", write_code, found)(planned, options)
    with suppress(NoThreadedCode):  # long ones have none
        counting("first code", program_table, found)(planned.program, target_for(options))
    return found


def counting(name: str, function: Callable[..., Any], found: Counter[str]) -> Callable[..., Any]:
    def counted(*arguments: Any) -> Any:
        with Lines() as lines:
            result = function(*arguments)
        found[name] += lines.count
        return result

    return counted


@pytest.mark.parametrize("kind", PROGRAMS)
def test_work_grows_as_the_program_does(kind: str) -> None:
    size = SIZES.get(kind, SIZE)
    work(kind, size)  # loads what such programs are the first to need
    first, second, third = (work(kind, n) for n in (size, 2 * size, 4 * size))
    # Where fusion happens to cut a program in a dearer way, half of it may cost as much as all.
    growth = {
        name: (third[name] - second[name])
        / max(second[name] - first[name], second[name] / 4, SMALL / 8)
        for name in third
        if third[name] > SMALL
    }
    assert {"copy-insertion", "buffer-assignment", "code"} <= third.keys()
    assert {name: ratio for name, ratio in growth.items() if ratio > ALLOWED} == {}
