"""Prints programs: one step a line, with the memory it works on.

  launch add_fusion(p0=arg0 f32[4], out0=temp[0:16] f32[4])  # %add_fusion, 12 cycles

Memory is written `arg0`, `out0`, `const0`, `state0`, `stack0`, `context[0:4]`,
`temp[0:16]` and `scratch[0:16]` (bytes from : to), with the array it holds behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xla_backend.hlo.attributes import NO_ATTRIBUTES
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.topology import Topology
from xla_backend.program.ir import (
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
    launched_buffers,
    passed_buffers,
)
from xla_backend.program.routines import Routine

_SPACES = {Space.ARGUMENT: "arg", Space.OUTPUT: "out", Space.CONSTANT: "const"}
_WITHOUT_NUMBER = (Space.TEMP, Space.SCRATCH, Space.CONTEXT)


def program_to_text(program: Program, routines: Mapping[str, Routine]) -> str:
    """A whole program; `routines` names the operands of library calls."""
    return _Printer(program, routines).text()


def memory_to_text(place: Slice) -> str:
    """Where a slice lies, without the array it holds: `temp[0:16]`."""
    name = _SPACES.get(place.space, place.space.value)
    part = f"[{place.offset}:{place.offset + place.size}]"
    if place.space in _WITHOUT_NUMBER:
        return name + part
    return f"{name}{place.number}{part if place.offset else ''}"


def slice_to_text(place: Slice) -> str:
    return f"{memory_to_text(place)} {place.shape}"


def _topology_to_text(topology: Topology) -> str:
    return f"{topology.replica_count} replica(s) x {topology.num_partitions} partition(s)"


class _Printer:
    def __init__(self, program: Program, routines: Mapping[str, Routine]) -> None:
        self.program = program
        self.routines = routines
        self.lines: list[str] = []

    def text(self) -> str:
        program = self.program
        parameters = ", ".join(f"arg{i}: {s}" for i, s in enumerate(program.parameters))
        results = ", ".join(self._result(i, s) for i, s in enumerate(program.outputs))
        self._line(0, f"program {program.name}({parameters}) -> ({results}):")
        stack = sum(program.stack)
        sizes = (("temp", program.temp_size), ("scratch", program.scratch_size), ("stack", stack))
        used = [f"{name} {size} bytes" for name, size in sizes if size]
        if program.topology.size > 1:
            self._line(1, f"participants: {_topology_to_text(program.topology)}")
        if used:
            self._line(1, f"memory: {', '.join(used)}")
        for name, arrays in (("const", program.constants), ("state", program.state)):
            for i, array in enumerate(arrays):
                self._line(1, f"{name}{i}: {Shape.of(array)}")
        self._steps(program.steps, 1)
        for procedure, steps in program.procedures.items():
            self._line(0, f"procedure {procedure}:")
            self._steps(steps, 1)
        return "\n".join(self.lines) + "\n"

    def _result(self, number: int, shape: Shape) -> str:
        parameter = self.program.aliases.get(number)
        shared = "" if parameter is None else f" in arg{parameter}"
        return f"out{number}: {shape}{shared}"

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def _steps(self, steps: Steps, depth: int) -> None:
        for step in steps:
            self._step(step, depth)

    def _step(self, step: Step, depth: int) -> None:
        cycles = f", {step.cycles:.0f} cycles" if step.cycles else ""
        note = f"  # %{step.name}{cycles}"
        if isinstance(step, While):
            often = "" if step.trips is None else f", {step.trips} times"
            self._line(depth, f"while {slice_to_text(step.predicate)}{often}:{note}")
            self._block("condition", step.condition, depth + 1)
            self._block("body", step.body, depth + 1)
        elif isinstance(step, Resident):
            who = "one block" if step.blocks == 1 else f"at most {step.blocks} blocks at once"
            self._block(f"by {who} of {step.threads} threads", step.steps, depth)
        elif isinstance(step, If):
            self._line(depth, f"if {slice_to_text(step.selector)}:{note}")
            for i, branch in enumerate(step.branches):
                self._block(f"branch {i}", branch, depth + 1)
        else:
            self._line(depth, self._simple(step) + note)

    def _block(self, title: str, steps: Steps, depth: int) -> None:
        self._line(depth, f"{title}:")
        self._steps(steps, depth + 1)

    def _simple(self, step: Step) -> str:
        if isinstance(step, Launch):
            names = [b.name for b in launched_buffers(self.program.kernels[step.kernel])]
            return f"launch {step.kernel}({self._named(names, step.buffers)})"
        if isinstance(step, Copy):
            return f"copy {slice_to_text(step.target)} <- {memory_to_text(step.source)}"
        if isinstance(step, Undefined):
            return f"undefined {slice_to_text(step.target)}"
        if isinstance(step, Library):
            routine = self.routines.get(step.routine)
            names = [] if routine is None else [p.name for p in routine.parameters]
            return f"library {step.routine}({self._named(names, step.operands)})"
        if isinstance(step, Host):
            given = ", ".join(map(slice_to_text, step.operands))
            results = ", ".join(map(slice_to_text, step.results))
            plain = step.attributes is None or step.attributes == NO_ATTRIBUTES
            attributes = "" if plain else f" {step.attributes}"
            return f"host {step.target}({given}) -> ({results}){attributes}"
        if isinstance(step, Collective):
            return self._collective(step)
        assert isinstance(step, Call), step
        return f"call {step.procedure}"

    def _collective(self, step: Collective) -> str:
        x = step.exchange
        given = ", ".join(map(slice_to_text, step.operands))
        results = ", ".join(map(slice_to_text, step.results))
        groups = ", ".join(f"{{{','.join(map(str, group))}}}" for group in x.groups)
        pairs = ", ".join(f"{source}->{target}" for source, target in x.pairs)
        parts = [f"pairs {pairs}" if pairs else f"groups {groups or 'none'}"]
        if x.dimension is not None:
            parts.append(f"dimension {x.dimension}")
        if x.channel is not None:
            parts.append(f"channel {x.channel}")
        if step.combiners:
            parts.append(f"combined by {', '.join(step.combiners)}")
        return f"{x.opcode}({given}) -> ({results}) {'; '.join(parts)}"

    def _named(self, names: Sequence[str], operands: Sequence[Operand]) -> str:
        texts = [self._operand(operand) for operand in operands]
        known = [f"{name}=" for name in names[: len(texts)]]
        known += [""] * (len(texts) - len(known))
        return ", ".join(name + text for name, text in zip(known, texts))

    def _operand(self, operand: Operand) -> str:
        if isinstance(operand, Slice):
            return slice_to_text(operand)
        if isinstance(operand, Element):
            start = f"[{operand.index}:]" if operand.index else ""
            return slice_to_text(operand.slice) + start
        if isinstance(operand, KernelOperand):
            names = [b.name for b in passed_buffers(self.program.kernels[operand.kernel])]
            return f"{operand.kernel}({self._named(names, operand.buffers)})"
        return str(operand)
