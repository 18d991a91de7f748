"""The facts about a program's code (`program_code`) that follow from the program itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xla_backend.measured_costs import Costs
from xla_backend.program.ir import (
    Collective,
    Host,
    Library,
    Program,
    Step,
    While,
    aligned,
    all_steps,
)
from xla_backend.targets.cpu.code_interface import TIMES_BYTES
from xla_backend.targets.cpu.meeting_places import NO_MEETINGS, Meetings
from xla_backend.targets.cpu.program_code import CodeFacts
from xla_backend.targets.cpu.routines.contract_table import ROUTINES


def program_facts(
    program: Program,
    *,
    bound: Mapping[str, int],
    tables: Mapping[str, np.ndarray],
    host_calls: Sequence[Host],
    routines: Sequence[str],
    text_size: int,
    code_size: int,
    timed: tuple[str, ...] = (),
    measured: Costs = (),
    meetings: Meetings = NO_MEETINGS,
) -> CodeFacts:
    """The facts about code of a program.

    Args:
      bound: symbols that are constants of the program.  tables: symbols that are other arrays.
      host_calls, routines, timed, measured, meetings: as in CodeFacts.
      text_size: of its LLVM text.  code_size: of its object code.
    """
    times = TIMES_BYTES * len(timed)
    constants = [(symbol, program.constants[number]) for symbol, number in bound.items()]
    return CodeFacts(
        program.parameters,
        program.outputs,
        tuple(program.aliases.items()),
        program.uses_context,
        aligned(program.arena_size) + times if times else program.arena_size,
        program.state,
        (*constants, *tables.items()),
        tuple(host_calls),
        tuple(routines),
        estimated_cycles(program),
        # As measured: the objects that stages are shown from take six bytes per byte of LLVM text.
        (1 << 16) + 6 * text_size + 2 * code_size + sum(data.nbytes for data in program.constants),
        timed,
        measured,
        program.topology,
        meetings,
    )


def estimated_cycles(program: Program) -> float:
    """Of one execution; infinite where loops and routines hide it."""
    every = [*all_steps(program.steps)]
    for steps in program.procedures.values():
        every += all_steps(steps)
    if any(_may_take_any_time(step) for step in every):
        return float("inf")
    return sum(step.cycles for step in every)


def _may_take_any_time(step: Step) -> bool:
    if isinstance(step, Library):
        return not ROUTINES[step.routine].steady
    return isinstance(step, While | Host | Collective)
