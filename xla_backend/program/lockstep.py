"""Runs all participants of a program in one thread, in lockstep.

  steppers = [Stepper(program, given[n], ..., contexts[n]) for n in range(program.topology.size)]
  results = run_together(steppers)

Each participant runs until it stands at a collective; who completes a group lets all its members go
on. One thread runs all of them, so nothing depends on timing. `in_lockstep` is the rule by itself,
for whoever runs participants otherwise than in steppers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np

from xla_backend.hlo.exchanges import never_come
from xla_backend.hlo.topology import Group
from xla_backend.program.ir import Collective
from xla_backend.program.stepper import Stepper

_END = object()


def in_lockstep(
    running: Sequence[Iterator[Collective | None]],
    exchange: Callable[[Group, Sequence[Collective]], None],
) -> None:
    """Run participants to their ends, number n by `running[n]`.

    Args:
      running: each gives the collectives that it comes to, if these join it to anybody, and None
        where it is about to wait for something else, so that others may go first.
      exchange: called with a group whose members all stand at one collective, and the step of each;
        then they go on.
    Raises:
      RuntimeFailure: participants wait for partners that never come.
    """
    waiting: dict[int, Collective] = {}
    ready = deque(range(len(running)))
    while ready:
        number = ready.popleft()
        step = next(running[number], _END)
        if step is None:
            ready.append(number)
        elif isinstance(step, Collective):
            waiting[number] = step
            group = _complete(number, waiting)
            if group is not None:
                exchange(group, [waiting.pop(member) for member in group])
                ready.extend(group)
    if waiting:
        raise never_come({n: title(step) for n, step in waiting.items()})


def title(step: Collective) -> str:
    """What messages call a collective."""
    return f"%{step.name} ({step.exchange.opcode})"


def _complete(number: int, waiting: dict[int, Collective]) -> Group | None:
    """The group of a participant, if all its members stand at the same place."""
    step = waiting[number]
    group = step.exchange.group_of(number, title(step))
    assert group is not None
    members = [waiting.get(member) for member in group]
    met = all(m is not None and _place(m) == _place(step) for m in members)
    return group if met else None


def _place(step: Collective) -> Hashable:
    """Equal for steps that meet: a channel may be spelled by several of them, one per branch."""
    x = step.exchange
    return (x.opcode, x.groups, x.channel, step.name if x.channel is None else "")


def run_together(steppers: Sequence[Stepper]) -> list[list[np.ndarray]]:
    """Run one program on all its participants, number n in `steppers[n]`; the results of each
    (tokens are left out).

    Raises:
      ValueError: the steppers are not those of all participants of one program, in order.
      RuntimeFailure: participants wait for partners that never come.
    """
    _check(steppers)

    def exchange(group: Group, steps: Sequence[Collective]) -> None:
        members = [steppers[number] for number in group]
        operands = [member.operands_of(step) for member, step in zip(members, steps)]
        results = members[0].exchanged(steps[0], group, operands)
        for member, received in zip(members, results):
            member.receive(received)

    in_lockstep([_meetings(stepper) for stepper in steppers], exchange)
    return [stepper.results() for stepper in steppers]


def _meetings(stepper: Stepper) -> Iterator[Collective]:
    """Run, and stop at collectives with others."""
    for step in stepper.steps():
        if isinstance(step, Collective) and len(stepper.group_of(step) or ()) > 1:
            yield step


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
