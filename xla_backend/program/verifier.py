"""Checks that a program is whole: slices lie in their memory, kernels and routines get what they
take, and in straight code nothing is read before it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

import numpy as np

from xla_backend.hlo.errors import HloError
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel
from xla_backend.program.collective_checks import problem
from xla_backend.program.ir import (
    CONTEXT_SIZE,
    Call,
    Collective,
    Copy,
    Element,
    Host,
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
    Undefined,
    While,
    all_steps,
    launched_buffers,
    passed_buffers,
)
from xla_backend.program.printer import memory_to_text, slice_to_text
from xla_backend.program.routines import Kind, Parameter, Routine

# Memory that somebody else has filled.
_FILLED = (Space.ARGUMENT, Space.CONSTANT, Space.STATE, Space.CONTEXT)
_READ_ONLY = {Space.CONSTANT: "a constant", Space.CONTEXT: "the context"}


class ProgramError(HloError):
    """A program is not valid: a bug in a builder or a rule. The message names the step."""


class Written:
    """Bytes that are known to be written, per piece of memory, as sorted disjoint stretches."""

    def __init__(self, stretches: Mapping[tuple[Space, int], list[tuple[int, int]]] = {}) -> None:
        self._stretches = {memory: list(parts) for memory, parts in stretches.items()}

    def copy(self) -> Written:
        return Written(self._stretches)

    def add(self, place: Slice) -> None:
        if not place.size:
            return
        start, end = place.offset, place.offset + place.size
        merged: list[tuple[int, int]] = []
        for a, b in self._stretches.get(place.memory, ()):
            if b < start or end < a:
                merged.append((a, b))
            else:
                start, end = min(a, start), max(b, end)
        self._stretches[place.memory] = sorted([*merged, (start, end)])

    def holds(self, place: Slice) -> bool:
        end = place.offset + place.size
        parts = self._stretches.get(place.memory, ())
        return any(a <= place.offset and end <= b for a, b in parts)

    def add_common(self, ways: Sequence[Written]) -> None:
        """Add what is written whichever of several ways was taken."""
        first, *others = ways
        for memory, parts in first._stretches.items():
            for other in others:
                theirs = other._stretches.get(memory, ())
                met = [(max(a, c), min(b, d)) for a, b in parts for c, d in theirs]
                parts = sorted((a, b) for a, b in met if a < b)
            self._stretches[memory] = parts


def verify_program(program: Program, routines: Mapping[str, Routine]) -> None:
    """Check a program against the contracts of the routines it calls.

    Raises:
      ProgramError: it is not valid.
    """
    _Verifier(program, routines).run()


class _Verifier:
    def __init__(self, program: Program, routines: Mapping[str, Routine]) -> None:
        self.program = program
        self.routines = routines
        self.step: Step | None = None
        self._running: list[str] = []  # procedures that are being checked

    def run(self) -> None:
        written = Written()
        self._steps(self.program.steps, written)
        self.step = None
        for number, shape in enumerate(self.program.outputs):
            place = Slice(Space.OUTPUT, number, 0, shape)
            aliased = number in self.program.aliases
            if shape.is_array and shape.byte_size and not aliased and not written.holds(place):
                self._fail(f"{memory_to_text(place)} is not written")

    def _fail(self, what: str) -> NoReturn:
        where = "" if self.step is None else f"step %{self.step.name}: "
        raise ProgramError(f"program {self.program.name!r}: {where}{what}")

    # -- memory ------------------------------------------------------------------------------------

    def _extent(self, place: Slice) -> int | None:
        """Bytes of the memory that a slice is part of; None if there is none."""
        program, number = self.program, place.number

        def shape_size(shapes: Sequence[Shape]) -> int | None:
            return shapes[number].byte_size if number < len(shapes) else None

        def array_size(arrays: Sequence[np.ndarray]) -> int | None:
            return arrays[number].nbytes if number < len(arrays) else None

        match place.space:
            case Space.ARGUMENT:
                return shape_size(program.parameters)
            case Space.OUTPUT:
                return shape_size(program.outputs)
            case Space.CONSTANT:
                return array_size(program.constants)
            case Space.STATE:
                return array_size(program.state)
            case Space.STACK:
                return program.stack[number] if number < len(program.stack) else None
            case Space.TEMP:
                return program.temp_size
            case Space.CONTEXT:
                return CONTEXT_SIZE
        return program.scratch_size

    def _check_slice(self, place: Slice) -> None:
        extent = self._extent(place)
        if extent is None:
            self._fail(f"there is no {memory_to_text(place)}")
        if place.offset < 0 or place.offset + place.size > extent:
            self._fail(f"{slice_to_text(place)} lies outside its memory of {extent} bytes")

    def _read(self, place: Slice, written: Written) -> None:
        self._check_slice(place)
        if place.space in _FILLED or not place.size or written.holds(place):
            return
        self._fail(f"{slice_to_text(place)} is read before it is written")

    def _write(self, place: Slice, written: Written) -> None:
        self._check_slice(place)
        if place.space in _READ_ONLY:
            what = _READ_ONLY[place.space]
            self._fail(f"{slice_to_text(place)} is {what} and cannot be written")
        written.add(place)

    # -- steps -------------------------------------------------------------------------------------

    def _steps(self, steps: Steps, written: Written) -> None:
        """Check steps; `written` is what is written before them, and afterwards after them."""
        for step in steps:
            self.step = step
            if isinstance(step, While):
                self._while(step, written)
            elif isinstance(step, If):
                self._if(step, written)
            elif isinstance(step, Resident):
                self._resident(step, written)
            elif isinstance(step, Call):
                self._call(step, written)
            else:
                self._simple(step, written)

    def _while(self, step: While, written: Written) -> None:
        self._steps(step.condition, written)
        self.step = step
        self._flag(step.predicate, written, (PrimitiveType.PRED,))
        self._steps(step.body, written.copy())  # it may never run

    def _if(self, step: If, written: Written) -> None:
        self._flag(step.selector, written, (PrimitiveType.PRED, PrimitiveType.S32))
        pred = step.selector.shape.element_type is PrimitiveType.PRED
        if not step.branches or (pred and len(step.branches) != 2):
            self._fail(f"{len(step.branches)} branches for a {step.selector.shape} selector")
        ends = []
        for branch in step.branches:
            ends.append(written.copy())
            self._steps(branch, ends[-1])
        written.add_common(ends)

    def _resident(self, step: Resident, written: Written) -> None:
        for inner in all_steps(step.steps):
            if not isinstance(inner, Launch | Copy | Undefined | While | If | Call):
                self.step = inner
                self._fail("threads of a block cannot run it")
        self._steps(step.steps, written)

    def _call(self, step: Call, written: Written) -> None:
        steps = self.program.procedures.get(step.procedure)
        if steps is None:
            self._fail(f"there is no procedure {step.procedure!r}")
        if step.procedure in self._running:
            self._fail(f"procedure {step.procedure!r} calls itself")
        self._running.append(step.procedure)
        self._steps(steps, written)
        self._running.pop()

    def _flag(self, place: Slice, written: Written, types: Sequence[PrimitiveType]) -> None:
        self._read(place, written)
        if place.shape.dimensions or place.shape.element_type not in types:
            expected = " or ".join(f"{t}[]" for t in types)
            self._fail(f"{slice_to_text(place)} decides what runs, expected {expected}")

    def _simple(self, step: Step, written: Written) -> None:
        if isinstance(step, Launch):
            self._launch(step, written)
        elif isinstance(step, Copy):
            self._read(step.source, written)
            self._write(step.target, written)
            if step.source.size != step.target.size:
                self._fail(f"copies {step.source.size} bytes to {step.target.size}")
        elif isinstance(step, Host):
            for place in step.operands:
                self._read(place, written)
            for place in step.results:
                self._write(place, written)
        elif isinstance(step, Library):
            self._library(step, written)
        elif isinstance(step, Collective):
            self._collective(step, written)
        elif isinstance(step, Undefined):
            self._write(step.target, written)
        else:
            self._fail(f"{type(step).__name__} is no step of a program")

    # -- kernels -----------------------------------------------------------------------------------

    def _kernel(self, name: str) -> Kernel:
        kernel = self.program.kernels.get(name)
        if kernel is None:
            self._fail(f"there is no kernel {name!r}")
        return kernel

    def _check_buffers(
        self, kernel: Kernel, buffers: list[Buffer], slices: Sequence[Slice]
    ) -> None:
        if len(buffers) != len(slices):
            self._fail(f"kernel {kernel.name!r} takes {len(buffers)} arrays, got {len(slices)}")
        for buffer, place in zip(buffers, slices):
            size = buffer.size * buffer.element_type.byte_size
            if place.size != size:
                self._fail(
                    f"{buffer.name} of kernel {kernel.name!r} has {size} bytes, "
                    f"{slice_to_text(place)} has {place.size}"
                )

    def _launch(self, step: Launch, written: Written) -> None:
        kernel = self._kernel(step.kernel)
        buffers = launched_buffers(kernel)
        self._check_buffers(kernel, buffers, step.buffers)
        place = dict(zip(buffers, step.buffers))
        for buffer in buffers:
            if buffer.role is BufferRole.OPERAND:
                self._read(place[buffer], written)
        for buffer in buffers:
            if buffer.role is BufferRole.OUTPUT and buffer.number in kernel.in_place:
                self._read(place[buffer], written)
        for a, b in self._overlaps(step, place):
            self._fail(f"kernel {kernel.name!r} writes {a.name}, where {b.name} lies")
        for buffer in buffers:
            if buffer.role is not BufferRole.OPERAND:
                self._write(place[buffer], written)

    def _overlaps(
        self, step: Launch, place: dict[Buffer, Slice]
    ) -> Iterator[tuple[Buffer, Buffer]]:
        """What a launch writes, and what it would destroy by that."""
        for a in place:
            if a.role is BufferRole.OPERAND:
                continue
            for b in place:
                if a is b or not place[a].overlaps(place[b]):
                    continue
                declared = (a.number, b.number) in step.in_place
                operand = a.role is BufferRole.OUTPUT and b.role is BufferRole.OPERAND
                if not (operand and declared and place[a].same_memory(place[b])):
                    yield a, b

    # -- collectives -------------------------------------------------------------------------------

    def _collective(self, step: Collective, written: Written) -> None:
        kernels = [self._kernel(name) for name in step.combiners]
        wrong = problem(step, self.program.topology, kernels)
        if wrong is not None:
            self._fail(wrong)
        for place in step.operands:
            self._read(place, written)
        opcode = str(step.exchange.opcode)
        for number, place in enumerate(step.results):
            self._disjoint(opcode, [place], [*step.operands, *step.results[:number]])
            self._write(place, written)

    # -- routines ----------------------------------------------------------------------------------

    def _library(self, step: Library, written: Written) -> None:
        routine = self.routines.get(step.routine)
        if routine is None:
            self._fail(f"there is no routine {step.routine!r}")
        parameters = routine.parameters
        if len(parameters) != len(step.operands):
            self._fail(f"{routine.name} takes {len(parameters)} operands, got {len(step.operands)}")
        read: list[Slice] = []
        wrote: list[Slice] = []
        places = {p.name: _memory_of(o) for p, o in zip(parameters, step.operands)}
        for parameter, operand in zip(parameters, step.operands):
            if not _fits(parameter, operand):
                self._fail(
                    f"{routine.name} takes {parameter.kind.value} for {parameter.name}, "
                    f"got {operand!r}"
                )
            place = places[parameter.name]
            if place is not None:
                (read if parameter.kind is Kind.READ else wrote).append(place)
                type = place.shape.element_type
                if parameter.type not in (None, type):
                    expected = f"{parameter.type} for {parameter.name}"
                    self._fail(f"{routine.name} takes {expected}, got {type}")
        for place in read:
            self._read(place, written)
        for operand in step.operands:
            if isinstance(operand, KernelOperand):
                results, others = self._handed(operand, written)
                # What the kernel reads at the end of the routine.
                self._disjoint(routine.name, [w for w in wrote if w not in results], others)
                wrote += results
        in_place = [(places[target], places[source]) for target, source in routine.in_place]
        self._disjoint(routine.name, wrote, read, in_place)
        for place in wrote:
            self._write(place, written)

    def _disjoint(
        self,
        routine: str,
        wrote: Sequence[Slice],
        read: Sequence[Slice],
        in_place: Sequence[tuple[Slice | None, Slice | None]] = (),
    ) -> None:
        for target in wrote:
            for source in read:
                if target.same_memory(source) and (target, source) in in_place:
                    continue
                if target.overlaps(source):
                    places = f"{slice_to_text(target)}, where {slice_to_text(source)} lies"
                    self._fail(f"{routine} writes {places}")

    def _handed(self, operand: KernelOperand, written: Written) -> tuple[list[Slice], list[Slice]]:
        """Check what a routine hands to a kernel; the slices that the kernel writes and reads."""
        kernel = self._kernel(operand.kernel)
        buffers = passed_buffers(kernel)
        self._check_buffers(kernel, buffers, operand.buffers)
        results, others = [], []
        for buffer, place in zip(buffers, operand.buffers):
            if buffer.role is BufferRole.OPERAND:
                self._read(place, written)
                others.append(place)
            else:
                results.append(place)
        return results, others


def _fits(parameter: Parameter, operand: Operand) -> bool:
    if operand is None:
        return parameter.optional
    if parameter.kind is Kind.NUMBER:
        return isinstance(operand, int)
    if parameter.kind is Kind.NUMBERS:
        return isinstance(operand, tuple) and all(isinstance(x, int) for x in operand)
    if parameter.kind is Kind.KERNEL:
        return isinstance(operand, KernelOperand)
    return isinstance(operand, Element if parameter.origin else Slice)


def _memory_of(operand: Operand) -> Slice | None:
    if isinstance(operand, Element):
        return operand.slice
    return operand if isinstance(operand, Slice) else None
