"""Runs a scheduled module inside the memory that buffer assignment gave it.

Each instruction is evaluated by the NumPy evaluator on views of the assigned slices and its
result is
written to its own slice, so values that wrongly share memory destroy each other and the outputs
come
out wrong. Memory starts out as garbage: reading a place before it is written shows too.
"""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.attributes import ConditionalAttributes
from xla_backend.hlo.computation import Computation
from xla_backend.hlo.evaluator import flatten_value, unflatten_value
from xla_backend.hlo.evaluator.interpreter import Interpreter
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.buffer_assignment import BufferAssignment, BufferKind, BufferSlice
from xla_backend.passes.buffer_sharing import in_place_operands

NAMES_ONLY = {
    Opcode.PARAMETER,
    Opcode.TUPLE,
    Opcode.GET_TUPLE_ELEMENT,
    Opcode.RESHAPE,
    Opcode.BITCAST,
    Opcode.OPT_BARRIER,
    Opcode.ADD_DEPENDENCY,
    Opcode.CONSTANT,
}


class ArenaInterpreter:
    """One execution of a module."""

    def __init__(
        self,
        module: HloModule,
        assignment: BufferAssignment,
        args: list[np.ndarray],
        custom_calls=None,
    ):
        self.module = module
        self.assignment = assignment
        self.interpreter = Interpreter(custom_calls, seed=0)
        garbage = np.random.default_rng(7)
        self.arena = garbage.integers(0, 256, assignment.temp_size, np.uint8)
        self.parameters = [np.ascontiguousarray(a).copy().reshape(-1).view(np.uint8) for a in args]
        self.constants = [
            np.ascontiguousarray(c).reshape(-1).view(np.uint8) for c in assignment.constants
        ]
        shapes = module.entry.root.shape.flatten()
        self.outputs = [garbage.integers(0, 256, s.byte_size, np.uint8) for s in shapes]
        for output, parameter in assignment.aliases.items():
            self.outputs[output] = self.parameters[parameter]

    def bytes_of(self, place: BufferSlice) -> np.ndarray:
        if place.kind is BufferKind.TEMP:
            assert place.offset % 64 == 0
            assert place.offset + place.size <= self.arena.size
            return self.arena[place.offset : place.offset + place.size]
        memory = {
            BufferKind.PARAMETER: self.parameters,
            BufferKind.OUTPUT: self.outputs,
            BufferKind.CONSTANT: self.constants,
        }[place.kind][place.index]
        assert memory.size == place.size
        return memory

    def read(self, node: Instruction):
        leaves = []
        for shape, place in zip(node.shape.flatten(), self.assignment.leaf_slices(node)):
            if place is None:
                assert not shape.is_array
                continue
            array = self.bytes_of(place).view(shape.element_type.numpy_dtype)
            leaves.append(array.reshape(shape.dimensions))
        return unflatten_value(node.shape, leaves)

    def write(self, node: Instruction, value) -> None:
        leaves = [
            np.array(leaf, order="C", copy=True)
            for leaf in flatten_value(value)
            if leaf is not None
        ]
        places = [p for p in self.assignment.leaf_slices(node) if p is not None]
        assert len(leaves) == len(places)
        for leaf, place in zip(leaves, places):
            assert place.kind is not BufferKind.CONSTANT, f"{node} writes a constant"
            if place.kind is BufferKind.PARAMETER:
                assert place.index in self.assignment.aliases.values(), f"{node} writes a parameter"
            self.bytes_of(place)[:] = leaf.reshape(-1).view(np.uint8)

    def same_places(self, a: Instruction, b: Instruction) -> None:
        assert self.assignment.leaf_slices(a) == self.assignment.leaf_slices(b), (a, b)

    def run(self) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            self.run_computation(self.module.entry)
        results = []
        root = self.module.entry.root
        for i, (shape, place) in enumerate(
            zip(root.shape.flatten(), self.assignment.leaf_slices(root))
        ):
            if place is None:
                continue
            if place.kind is BufferKind.PARAMETER:
                assert self.assignment.aliases[i] == place.index
            else:
                assert (place.kind, place.index) == (BufferKind.OUTPUT, i)
            results.append(
                self.outputs[i].view(shape.element_type.numpy_dtype).reshape(shape.dimensions)
            )
        return results

    def run_computation(self, computation: Computation) -> None:
        for node in computation.instructions:
            if node.opcode in NAMES_ONLY:
                continue
            if node.opcode is Opcode.WHILE:
                self.run_while(node)
            elif node.opcode is Opcode.CONDITIONAL:
                self.run_conditional(node)
            else:
                for number, leaf in in_place_operands(node):
                    old = self.assignment.leaf_slices(node.operands[number])[0]
                    assert old == self.assignment.leaf_slices(node)[leaf]
                inputs = [self.read(o) for o in node.operands]
                self.write(node, self.interpreter.apply(node, inputs))

    def run_while(self, node: Instruction) -> None:
        condition, body = node.called
        for same in (node, condition.parameters[0], body.parameters[0], body.root):
            self.same_places(node.operands[0], same)
        while True:
            self.run_computation(condition)
            if not self.read(condition.root):
                return
            self.run_computation(body)

    def run_conditional(self, node: Instruction) -> None:
        assert isinstance(node.attributes, ConditionalAttributes)
        chosen = self.read(node.operands[0])
        if node.attributes.is_indexed:
            branch = int(chosen)
            if not 0 <= branch < len(node.called):
                branch = len(node.called) - 1
        else:
            branch = 0 if chosen else 1
        for called, operand in zip(node.called, node.operands[1:]):
            self.same_places(operand, called.parameters[0])
            self.same_places(node, called.root)
        self.run_computation(node.called[branch])
