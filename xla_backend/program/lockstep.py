"""Runs a program on all its participants in Python, in lockstep.

  steppers = [Stepper(program, given[n], ..., contexts[n]) for n in range(program.topology.size)]
  results = run_together(steppers)

Each participant runs until it stands at a collective whose group is not complete; who completes a
group lets all its members go on. One thread runs all of them, so nothing depends on timing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np

from xla_backend.hlo.exchanges import never_come
from xla_backend.hlo.topology import Group
from xla_backend.program.ir import Collective, Step
from xla_backend.program.stepper import Stepper


def run_together(steppers: Sequence[Stepper]) -> list[list[np.ndarray]]:
    """Run one program on all its participants, number n in `steppers[n]`; the results of each
    (tokens are left out).

    Raises:
      ValueError: the steppers are not those of all participants of one program, in order.
      RuntimeFailure: participants wait for partners that never come.
    """
    _check(steppers)
    running = [stepper.steps() for stepper in steppers]
    waiting: dict[int, Collective] = {}

    def go_on(participants: Iterable[int]) -> None:
        for number in participants:
            step = _next_meeting(steppers[number], running[number])
            if step is not None:
                waiting[number] = step

    go_on(range(len(steppers)))
    while waiting:
        group = _complete(steppers, waiting)
        if group is None:
            raise never_come({n: f"%{s.name} ({s.exchange.opcode})" for n, s in waiting.items()})
        _exchange(steppers, group, [waiting.pop(member) for member in group])
        go_on(group)
    return [stepper.results() for stepper in steppers]


def _check(steppers: Sequence[Stepper]) -> None:
    numbers = [stepper.participant for stepper in steppers]
    programs = {id(stepper.program) for stepper in steppers}
    if len(programs) == 1 and numbers == list(range(steppers[0].program.topology.size)):
        return
    wanted = [s.program.topology.size for s in steppers[:1]]
    raise ValueError(
        f"steppers of participants {numbers} of {len(programs)} program(s) cannot run together; "
        f"pass one for each of the {wanted[0] if wanted else 0} participants of one program, in "
        "order"
    )


def _next_meeting(stepper: Stepper, steps: Iterator[Step]) -> Collective | None:
    """Run up to a collective with others; None at the end of the program."""
    for step in steps:
        if isinstance(step, Collective) and len(stepper.group_of(step) or ()) > 1:
            return step
    return None


def _complete(steppers: Sequence[Stepper], waiting: dict[int, Collective]) -> Group | None:
    """A group whose members all stand at the same place."""
    for number, step in waiting.items():
        group = steppers[number].group_of(step)
        assert group is not None
        members = [waiting.get(member) for member in group]
        if all(m is not None and _place(m) == _place(step) for m in members):
            return group
    return None


def _place(step: Collective) -> Hashable:
    """Equal for steps that meet: a channel may be spelled by several of them, one per branch."""
    x = step.exchange
    return (x.opcode, x.groups, x.channel, step.name if x.channel is None else "")


def _exchange(steppers: Sequence[Stepper], group: Group, steps: Sequence[Collective]) -> None:
    members = [steppers[number] for number in group]
    operands = [member.operands_of(step) for member, step in zip(members, steps)]
    results = members[0].exchanged(steps[0], group, operands)
    for member, received in zip(members, results):
        member.receive(received)
