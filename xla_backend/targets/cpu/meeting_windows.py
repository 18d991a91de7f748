"""When participants come to a meeting, and part: as early and as late as the steps around allow.

A member of a collective may come once its operands are there, and parts before their memory holds
anything else. In between it runs other steps of its own, as long as these cannot fail and are not
much work at a time (see `routines/early_meetings`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from xla_backend.hlo.exchanges import Exchange
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.ir import BufferRole, Kernel
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.program.ir import (
    Collective,
    Copy,
    Element,
    KernelOperand,
    Launch,
    Library,
    Slice,
    Step,
    Steps,
    Undefined,
    launched_buffers,
    passed_buffers,
)
from xla_backend.program.routines import Kind
from xla_backend.targets.cpu.routines.contract_table import ROUTINES

Access = tuple[Slice, bool]  # memory, and whether it is written


@dataclass(frozen=True)
class Window:
    """Before which steps of its block a participant comes to a collective, and parts; `step` is the
    collective's number."""

    step: int
    come: int
    part: int


def windows(
    steps: Steps,
    kernels: Mapping[str, Kernel],
    may_move: Callable[[Exchange, str], bool],
    most_cycles: float,
) -> list[Window]:
    """The windows of the collectives in a block of steps; none for one that has nothing to do
    meanwhile.

    Args:
      may_move: whether a collective (and its name) meets at a place that no other one has.
      most_cycles: of the steps of one window.
    """
    found: list[Window] = []
    for number, step in enumerate(steps):
        if isinstance(step, Collective) and may_move(step.exchange, step.name):
            come = number - _free(steps[:number][::-1], kernels, most_cycles, step, True)
            free = _free(steps[number + 1 :], kernels, most_cycles, step, False)
            if come < number or free:
                found.append(Window(number, come, number + 1 + free))
    return found


def _free(
    steps: Steps, kernels: Mapping[str, Kernel], most: float, around: Collective, before: bool
) -> int:
    """How many of the steps, from the first on, may run while the members of a collective have come
    (`before` they meet), or have met and not parted."""
    # Of large arrays members combine blocks into the results of one of them, and read them there.
    combined = around.exchange.opcode is Opcode.ALL_REDUCE
    for count, step in enumerate(steps):
        most -= step.cycles
        if most <= 0 or not isinstance(step, Copy | Launch | Library | Undefined):
            return count
        for place, written in _accesses(step, kernels):
            if written and any(place.overlaps(operand) for operand in around.operands):
                return count
            if combined and (before or written) and any(place.overlaps(r) for r in around.results):
                return count
    return len(steps)


def _accesses(step: Step, kernels: Mapping[str, Kernel]) -> Iterator[Access]:
    if isinstance(step, Copy):
        yield step.source, False
        yield step.target, True
    elif isinstance(step, Undefined):
        yield step.target, True
    elif isinstance(step, Launch):
        for buffer, place in zip(launched_buffers(kernels[step.kernel]), step.buffers):
            yield place, buffer.role is not BufferRole.OPERAND
    elif isinstance(step, Library):
        for operand, parameter in zip(step.operands, ROUTINES[step.routine].parameters):
            if isinstance(operand, KernelOperand):
                buffers = passed_buffers(kernels[operand.kernel])
                for buffer, place in zip(buffers, operand.buffers):
                    yield place, buffer.role is not BufferRole.OPERAND
            elif isinstance(operand, Element):
                yield operand.slice, parameter.kind is not Kind.READ
            elif isinstance(operand, Slice):
                yield operand, parameter.kind is not Kind.READ
