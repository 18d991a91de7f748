"""Runs a scheduled module inside the memory that buffer assignment gave it, and says who destroyed
what.

Each instruction is evaluated by the NumPy evaluator twice over: its value goes from instruction to
instruction, and is written to the memory of its own slice. Whenever an instruction reads an
operand, that operand's memory must still hold the operand's value; so values that wrongly share
memory are found where they do harm, whatever the analysis of live ranges believed. Memory starts
out as garbage: reading a place before it is written shows too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xla_backend.hlo.attributes import (
    ConditionalAttributes,
    FusionAttributes,
    FusionKind,
)
from xla_backend.hlo.evaluator import CustomCall, Interpreter, flatten_value, unflatten_value
from xla_backend.hlo.evaluator.values import Value
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.buffer_assignment import BufferAssignment, BufferKind, BufferSlice
from xla_backend.passes.buffer_sharing import in_place_operands
from xla_backend.passes.buffer_values import donations
from xla_backend.passes.fusion_records import rows_of

# They name memory that something else has written.
_NAMES_ONLY = frozenset(
    {
        Opcode.PARAMETER,
        Opcode.TUPLE,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.RESHAPE,
        Opcode.BITCAST,
        Opcode.OPT_BARRIER,
        Opcode.ADD_DEPENDENCY,
        Opcode.CONSTANT,
    }
)


class MemoryFault(Exception):
    """The assignment of memory breaks the program: the message says where."""


class ArenaInterpreter:
    """One execution of a module.

    Example:
      build_pipeline(CompileOptions()).run(module)
      results = ArenaInterpreter(module, assign_buffers(module), arguments).run()
    """

    def __init__(
        self,
        module: HloModule,
        assignment: BufferAssignment,
        arguments: Sequence[np.ndarray],
        custom_calls: Mapping[str, CustomCall] | None = None,
    ) -> None:
        assert module.entry is not None and module.entry.root is not None
        self.entry = module.entry
        self.assignment = assignment
        self.donations = donations(module)
        self.interpreter = Interpreter(custom_calls, seed=0)
        garbage = np.random.default_rng(7)
        self.arena = garbage.integers(0, 256, assignment.temp_size, np.uint8)
        self.values = [np.asarray(a) for a in arguments]
        self.parameters = [_bytes(a).copy() for a in self.values]
        self.constants = [_bytes(c) for c in assignment.constants]
        self.shapes = module.entry.root.shape.flatten()
        self.outputs = [garbage.integers(0, 256, s.byte_size, np.uint8) for s in self.shapes]
        for output, parameter in assignment.aliases.items():
            self.outputs[output] = self.parameters[parameter]
        # Who wrote each place last, with the number of the write.
        self._written: dict[BufferSlice, tuple[int, Instruction]] = {}
        self._writes = 0
        self._proved: set[Instruction] = set()

    def run(self) -> list[np.ndarray]:
        """The results, as they lie in the memory of the outputs.

        Raises:
          MemoryFault: an instruction reads memory that no longer holds what it should, or may not
            have the memory it was given.
        """
        rest = iter(self.values)
        arguments = [
            unflatten_value(p.shape, [next(rest) for s in p.shape.flatten() if s.is_array])
            for p in self.entry.parameters
        ]
        root = self.entry.root
        assert root is not None
        with np.errstate(all="ignore"):
            value = self._run_computation(self.entry, arguments)
        self._read(root, value, "the caller")
        for output, parameter in self.assignment.aliases.items():
            if self.donations.get(output) != parameter:
                raise MemoryFault(f"output {output} took parameter {parameter}, not donated to it")
        results: list[np.ndarray] = []
        for i, (shape, place) in enumerate(zip(self.shapes, self.assignment.leaf_slices(root))):
            if place is None:
                continue
            if place.kind is BufferKind.PARAMETER:
                right = self.assignment.aliases.get(i) == place.index
            else:
                right = (place.kind, place.index) == (BufferKind.OUTPUT, i)
            if not right:
                raise MemoryFault(f"output {i} lies in {place}")
            dtype = shape.element_type.numpy_dtype
            results.append(self.outputs[i].view(dtype).reshape(shape.dimensions))
        return results

    # -- memory ------------------------------------------------------------------------------------

    def _memory(self, place: BufferSlice) -> np.ndarray:
        if place.kind is BufferKind.TEMP:
            if place.offset % 64 or place.offset + place.size > self.arena.size:
                raise MemoryFault(f"{place} is no place in an arena of {self.arena.size} bytes")
            return self.arena[place.offset : place.offset + place.size]
        if place.kind is BufferKind.PARAMETER:
            memory = self.parameters[place.index]
        elif place.kind is BufferKind.OUTPUT:
            memory = self.outputs[place.index]
        else:
            memory = self.constants[place.index]
        if memory.size != place.size:
            raise MemoryFault(f"{place} has {place.size} bytes instead of {memory.size}")
        return memory

    def _read(self, node: Instruction, value: Value, reader: str) -> None:
        """Check that the memory of `node` holds its value."""
        places = self.assignment.leaf_slices(node)
        for leaf, place in zip(flatten_value(value), places):
            if place is None or leaf is None:
                continue
            if self._memory(place).tobytes() != np.asarray(leaf).tobytes():
                raise MemoryFault(
                    f"{reader} reads {place} for %{node.name}, but it holds {self._holder(place)}"
                )

    def _holder(self, place: BufferSlice) -> str:
        """Who wrote last where `place` lies."""
        found = [(w, p) for p, w in self._written.items() if _overlap(p, place)]
        if not found:
            return "what it held at the start"
        (_, writer), where = max(found, key=lambda f: f[0][0])
        return f"what %{writer.name} wrote to {where}"

    def _write(self, node: Instruction, value: Value) -> None:
        for leaf, place in zip(flatten_value(value), self.assignment.leaf_slices(node)):
            if place is None or leaf is None:
                continue
            donated = self.assignment.aliases.values()
            if place.kind is BufferKind.CONSTANT or (
                place.kind is BufferKind.PARAMETER and place.index not in donated
            ):
                raise MemoryFault(f"%{node.name} writes to {place}")
            self._memory(place)[:] = np.frombuffer(np.asarray(leaf).tobytes(), np.uint8)
            self._writes += 1
            self._written[place] = (self._writes, node)

    def _same_places(self, a: Instruction, b: Instruction) -> None:
        if self.assignment.leaf_slices(a) != self.assignment.leaf_slices(b):
            raise MemoryFault(f"%{a.name} and %{b.name} should be the same memory")

    # -- instructions ------------------------------------------------------------------------------

    def _run_computation(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        values: dict[Instruction, Value] = {}
        for node in computation.instructions:
            if node.opcode is Opcode.PARAMETER:
                values[node] = arguments[node.parameter_number]
                continue
            inputs = [values[o] for o in node.operands]
            if node.opcode in _NAMES_ONLY:
                values[node] = self.interpreter.apply(node, inputs)
                continue
            if node.opcode is Opcode.WHILE:
                values[node] = self._run_while(node, inputs[0])
                continue
            if node.opcode is Opcode.CONDITIONAL:
                self._read(node.operands[0], inputs[0], f"%{node.name}")
                values[node] = self._run_conditional(node, inputs)
                continue
            for operand, value in zip(node.operands, inputs):
                self._read(operand, value, f"%{node.name}")
            if node not in self._proved:
                self._proved.add(node)
                self._check_sharing(node, inputs)
            result = self.interpreter.apply(node, inputs)
            values[node] = result if isinstance(result, tuple) else _array(result)
            self._write(node, values[node])
        assert computation.root is not None
        return values[computation.root]

    def _run_while(self, node: Instruction, state: Value) -> Value:
        condition, body = node.called
        assert condition.root is not None and body.root is not None
        for same in (node, condition.parameters[0], body.parameters[0], body.root):
            self._same_places(node.operands[0], same)
        while True:
            going = self._run_computation(condition, [state])
            self._read(condition.root, going, f"%{node.name}")
            if not going:
                return state
            state = self._run_computation(body, [state])

    def _run_conditional(self, node: Instruction, inputs: Sequence[Value]) -> Value:
        assert isinstance(node.attributes, ConditionalAttributes)
        if node.attributes.is_indexed:
            branch = int(inputs[0])
            if not 0 <= branch < len(node.called):
                branch = len(node.called) - 1
        else:
            branch = 0 if inputs[0] else 1
        for called, operand in zip(node.called, node.operands[1:]):
            assert called.root is not None
            self._same_places(operand, called.parameters[0])
            self._same_places(node, called.root)
        return self._run_computation(node.called[branch], [inputs[1 + branch]])

    # -- results over operands ---------------------------------------------------------------------

    def _check_sharing(self, node: Instruction, inputs: list[Value]) -> None:
        """A result lies on an operand only where the instruction can work in place."""
        in_place = set(in_place_operands(node))
        results = self.assignment.leaf_slices(node)
        for number, leaf in in_place:
            if self.assignment.leaf_slices(node.operands[number])[0] != results[leaf]:
                raise MemoryFault(f"%{node.name} does not update its operand {number} in place")
        shared: set[BufferSlice] = set()
        for number, operand in enumerate(node.operands):
            for place in self.assignment.leaf_slices(operand):
                for leaf, result in enumerate(results):
                    if place is None or result is None or not _overlap(place, result):
                        continue
                    if (number, leaf) in in_place:
                        continue
                    if place != result or node.opcode is not Opcode.FUSION:
                        raise MemoryFault(
                            f"%{node.name} writes to {result} while it reads {place} for "
                            f"%{operand.name}"
                        )
                    shared.add(place)
        for place in shared:
            self._check_elementwise(node, inputs, place)

    def _check_elementwise(
        self, node: Instruction, inputs: list[Value], place: BufferSlice
    ) -> None:
        """No element of a fusion's results depends on other elements of the operands at `place`:
        with some of those elements changed, the results elsewhere stay."""
        assert isinstance(node.attributes, FusionAttributes)
        if node.attributes.kind is not FusionKind.LOOP or rows_of(node) is not None:
            return  # their loops read whole rows, or a whole operand, before they write
        if in_place_operands(node):
            return
        changed: np.ndarray | None = None
        other = list(inputs)
        for number, operand in enumerate(node.operands):
            if self.assignment.leaf_slices(operand)[0] != place:
                continue
            value = inputs[number].reshape(-1)
            if changed is None:
                changed = np.random.default_rng(3).random(value.size) < 0.5
            other[number] = np.where(changed, np.roll(value, 1), value).reshape(
                operand.shape.dimensions
            )
        if changed is None:
            return
        first = flatten_value(self.interpreter.apply(node, inputs))
        second = flatten_value(self.interpreter.apply(node, other))
        for leaf, (a, b) in enumerate(zip(first, second)):
            if a.size != changed.size:
                continue
            if a.reshape(-1)[~changed].tobytes() != b.reshape(-1)[~changed].tobytes():
                raise MemoryFault(
                    f"result {leaf} of %{node.name} depends on elements that it has written over "
                    f"in {place}"
                )


def _array(value: Value) -> Value:
    return None if value is None else np.asarray(value)


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(np.asarray(array).tobytes(), np.uint8)


def _overlap(a: BufferSlice, b: BufferSlice) -> bool:
    if a.kind is not b.kind or not a.size or not b.size:
        return False
    if a.kind is not BufferKind.TEMP:
        return a.index == b.index
    return a.offset < b.offset + b.size and b.offset < a.offset + a.size
