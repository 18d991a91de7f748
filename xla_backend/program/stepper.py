"""Runs a program step by step in Python, in NumPy memory.

  stepper = Stepper(program, arguments, ROUTINES, host_function, context)
  for step in stepper.steps():          # each step before it runs
      print(step.name)
      if isinstance(step, Launch):      # its kernel, statement by statement
          for statement in stepper.interpreter(step).steps():
              print(statement)
  stepper.results()

Kernels run in the kernel interpreter, routines by the reference of their contract, host functions
by being called. A collective needs the others of its group: `lockstep.run_together` runs all
participants. Memory that nobody has written holds a pattern of bits, not zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.exchanges import Members
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.topology import Group
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.counters import KernelCounters
from xla_backend.kernels.interpreter import Interpreter
from xla_backend.kernels.ir import Buffer, BufferRole
from xla_backend.program.ir import (
    Call,
    Collective,
    Copy,
    Element,
    Host,
    HostFunction,
    If,
    KernelOperand,
    Launch,
    Library,
    Operand,
    Program,
    Resident,
    Slice,
    Space,
    Step,
    Steps,
    While,
    launched_buffers,
    passed_buffers,
)
from xla_backend.program.routines import Routine

# What memory holds that nobody has written.
_GARBAGE = 0xA5


class Context(Protocol):
    """What a program itself sees of an execution context; functions of the host are handed all of
    it."""

    replica: int
    partition: int


class Stepper:
    """One execution of a program, and its memory."""

    def __init__(
        self,
        program: Program,
        arguments: Sequence[np.ndarray],
        routines: Mapping[str, Routine],
        host_function: Callable[[str | Opcode], HostFunction],
        context: Context,
        state: Sequence[np.ndarray] | None = None,
        counters: Callable[[str], KernelCounters | None] = lambda kernel: None,
    ) -> None:
        """`arguments`: one for each parameter; they are copied. `state`: arrays that hold what the
        program keeps, changed in place; by default its initial state. `counters(kernel)`: where to
        count what a kernel of this name does, if anywhere.

        Raises:
          ValueError: number, shapes or types of the arguments are not the program's.
        """
        self.program = program
        self.routines = routines
        self.host_function = host_function
        self.context = context
        self.counters = counters
        self.participant = program.topology.number(context.replica, context.partition)
        self._received: Sequence[np.ndarray] | None = None
        self.memory: dict[tuple[Space, int], np.ndarray] = {}
        given = [Shape.of(a) for a in arguments]
        wanted = [s for s in program.parameters if s.is_array]
        if len(given) != len(wanted) or not all(map(Shape.compatible, given, wanted)):
            expected, got = (", ".join(map(str, shapes)) for shapes in (wanted, given))
            raise ValueError(f"program {program.name!r} takes ({expected}), got ({got})")
        left = iter(arguments)
        for i, shape in enumerate(program.parameters):
            if shape.is_array:
                self.memory[Space.ARGUMENT, i] = _bytes_of(next(left)).copy()
        for i, shape in enumerate(program.outputs):
            self.memory[Space.OUTPUT, i] = _garbage(shape.byte_size)
        for i, array in enumerate(program.constants):
            self.memory[Space.CONSTANT, i] = _bytes_of(array)
        for i, size in enumerate(program.stack):
            self.memory[Space.STACK, i] = _garbage(size)
        kept = state if state is not None else [array.copy() for array in program.state]
        for i, array in enumerate(kept):
            self.memory[Space.STATE, i] = _bytes_of(array)
        self.memory[Space.CONTEXT, 0] = _bytes_of(
            np.array([context.replica, context.partition], np.uint32)
        )
        self.memory[Space.TEMP, 0] = _garbage(program.temp_size)
        self.memory[Space.SCRATCH, 0] = _garbage(program.scratch_size)

    def run(self) -> list[np.ndarray]:
        """Run all steps; the results (tokens are left out)."""
        for _ in self.steps():
            pass
        return self.results()

    def results(self) -> list[np.ndarray]:
        """The results as memory has them now (tokens are left out)."""
        found = []
        for i, shape in enumerate(self.program.outputs):
            if shape.is_array:
                parameter = self.program.aliases.get(i)
                place = (Space.OUTPUT, i) if parameter is None else (Space.ARGUMENT, parameter)
                found.append(self.array(Slice(*place, 0, shape)).copy())
        return found

    def steps(self) -> Iterator[Step]:
        """Each step as it is about to run; asking for the next one runs it. Steps of loops and
        branches come after the one they are part of."""
        yield from self._steps(self.program.steps)

    def interpreter(self, launch: Launch) -> Interpreter:
        """The kernel of a launch, to be run by itself, on copies of what memory holds now."""
        kernel = self.program.kernels[launch.kernel]
        slices = zip(launched_buffers(kernel), launch.buffers)
        memory = {b: self.flat(place, b.element_type).copy() for b, place in slices}
        return Interpreter(kernel, memory=memory)

    # -- memory ------------------------------------------------------------------------------------

    def flat(self, place: Slice, type: PrimitiveType | None = None) -> np.ndarray:
        """The elements of a slice, one after another; a view. `type`: what to see them as."""
        raw = self.memory[place.memory][place.offset : place.offset + place.size]
        return raw.view((type or place.shape.element_type).numpy_dtype)

    def array(self, place: Slice) -> np.ndarray:
        """The array that a slice holds; a view."""
        return self.flat(place).reshape(place.shape.dimensions)

    # -- steps -------------------------------------------------------------------------------------

    def _steps(self, steps: Steps) -> Iterator[Step]:
        for step in steps:
            yield step
            if isinstance(step, While):
                while True:
                    yield from self._steps(step.condition)
                    if not self.flat(step.predicate)[0]:
                        break
                    yield from self._steps(step.body)
            elif isinstance(step, Resident):
                yield from self._steps(step.steps)
            elif isinstance(step, If):
                yield from self._steps(step.branches[self._chosen(step)])
            elif isinstance(step, Call):
                yield from self._steps(self.program.procedures[step.procedure])
            else:
                self._run(step)

    def _chosen(self, step: If) -> int:
        selected, last = self.flat(step.selector)[0], len(step.branches) - 1
        if step.selector.shape.element_type is PrimitiveType.PRED:
            return 0 if selected else 1
        return int(selected) if 0 <= selected <= last else last

    def _run(self, step: Step) -> None:
        if isinstance(step, Launch):
            buffers = launched_buffers(self.program.kernels[step.kernel])
            self._kernel(step.kernel, dict(zip(buffers, step.buffers)), {})
        elif isinstance(step, Copy):
            self.flat(step.target)[:] = self.flat(step.source, step.target.shape.element_type)
        elif isinstance(step, Library):
            operands = [self._operand(operand) for operand in step.operands]
            self.routines[step.routine].reference(*operands)
        elif isinstance(step, Host):
            operands, results = (
                [self.array(place) for place in places] for places in (step.operands, step.results)
            )
            self.host_function(step.target)(operands, results, step.attributes, self.context)
        elif isinstance(step, Collective):
            received, self._received = self._received, None
            if received is None:
                received = self._alone(step)
            for place, array in zip(step.results, received):
                self.array(place)[...] = array

    def _kernel(
        self,
        name: str,
        slices: Mapping[Buffer, Slice],
        handed: Mapping[Buffer, np.ndarray],
        parameters: Mapping[str, int] | None = None,
    ) -> None:
        memory = {b: self.flat(place, b.element_type) for b, place in slices.items()}
        memory |= {b: array.view(b.element_type.numpy_dtype) for b, array in handed.items()}
        kernel, counters = self.program.kernels[name], self.counters(name)
        Interpreter(kernel, (), parameters, memory=memory, counters=counters).run()

    def _operand(self, operand: Operand) -> Any:
        """What the reference of a routine takes for an operand."""
        if isinstance(operand, Slice):
            return self.flat(operand)
        if isinstance(operand, Element):
            return self.flat(operand.slice), operand.index
        if not isinstance(operand, KernelOperand):
            return operand
        buffers = launched_buffers(self.program.kernels[operand.kernel])
        own = [b for b in buffers if b.role is BufferRole.SCRATCH]
        passed = passed_buffers(self.program.kernels[operand.kernel])
        slices = dict(zip(passed, operand.buffers))

        def run(*arrays: np.ndarray, **parameters: int) -> None:
            self._kernel(operand.kernel, slices, dict(zip(own, arrays)), parameters)

        return run

    # -- collectives -------------------------------------------------------------------------------

    def group_of(self, step: Collective) -> Group | None:
        """Whom a collective joins, this participant among them; None: nobody.

        Raises:
          RuntimeFailure: it has no result for this participant.
        """
        return step.exchange.group_of(self.participant, f"%{step.name} ({step.exchange.opcode})")

    def operands_of(self, step: Collective) -> list[np.ndarray]:
        """What this participant gives to the others, as memory has it now."""
        return [self.array(place).copy() for place in step.operands]

    def exchanged(self, step: Collective, group: Group, members: Members) -> Members:
        """The results of each member of a group from the operands of each."""

        def combine(number: int, parts: list[np.ndarray]) -> np.ndarray:
            kernel = step.combiners[number]
            buffers = launched_buffers(self.program.kernels[kernel])
            total = parts[0]
            for part in parts[1:]:
                arrays = [total, part, np.empty_like(total)]
                self._kernel(kernel, {}, dict(zip(buffers, (a.reshape(-1) for a in arrays))))
                total = arrays[-1]
            return total

        return step.exchange.results(group, members, combine)

    def receive(self, results: Sequence[np.ndarray]) -> None:
        """Hand over the results of the collective that is about to run."""
        self._received = results

    def _alone(self, step: Collective) -> Sequence[np.ndarray]:
        """The results of a collective that joins this participant to nobody else."""
        group, operands = self.group_of(step), self.operands_of(step)
        if group is None:
            return step.exchange.results_of_nobody(operands)
        if len(group) > 1:
            raise RuntimeFailure(
                f"%{step.name} ({step.exchange.opcode}) joins participants {list(group)}, and "
                f"{self.participant} runs by itself; run all of them with `run_together`"
            )
        return self.exchanged(step, group, [operands])[0]


def _bytes_of(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _garbage(size: int) -> np.ndarray:
    return np.full(size, _GARBAGE, np.uint8)
