"""Runs kernels of the loop IR in Python, one statement at a time: slow and plain, the meaning of
the loop IR.

    interpreter = Interpreter(kernel, operands)
    for step in interpreter.steps():      # each statement as it is executed
        print(step)                       # v3 = v1 * v2 -> 6.0
    interpreter.outputs()

Marks of a schedule (parallel, vector) change nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import NO_ATTRIBUTES, ParameterAttributes
from xla_backend.hlo.evaluator.conversions import convert_array
from xla_backend.hlo.evaluator.elementwise import ELEMENTWISE
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.kernels.index import FloorDiv, Index, Var
from xla_backend.kernels.ir import (
    Buffer,
    BufferRole,
    Compute,
    Constant,
    IndexValue,
    InRange,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    Value,
)


@dataclass(frozen=True, slots=True)
class Step:
    """One executed statement, the loop variables around it and what it computed (None for
    stores)."""

    statement: Statement
    position: dict[str, int]
    result: Any

    def __str__(self) -> str:
        where = ", ".join(f"{k}={v}" for k, v in self.position.items())
        return f"[{where}] {type(self.statement).__name__} -> {self.result}"


class Interpreter:
    """State of one execution: buffers (flat arrays of reals) and the values computed so far."""

    def __init__(
        self,
        kernel: Kernel,
        operands: Sequence[np.ndarray] = (),
        *,
        memory: Mapping[Buffer, np.ndarray] | None = None,
    ) -> None:
        """`operands`: by operand number; complex arrays are taken as pairs of reals. In their
        place `memory` may hold a flat array for each buffer that a caller provides: the kernel
        works in it."""
        self.kernel = kernel
        self.memory: dict[Buffer, np.ndarray] = dict(memory or {})
        self.values: dict[Value, np.ndarray] = {}
        self.variables: dict[Var, int] = {}
        self._nodes: dict[Compute, Instruction] = {}
        for buffer in kernel.buffers:
            if buffer in self.memory:
                continue
            dtype = buffer.element_type.numpy_dtype
            if buffer.role is BufferRole.OPERAND:
                self.memory[buffer] = _flat(operands[buffer.number], dtype)
            elif buffer.role is BufferRole.CONSTANT:
                assert buffer.data is not None
                self.memory[buffer] = _flat(buffer.data, dtype)
            else:
                self.memory[buffer] = np.zeros(buffer.size, dtype)
        if memory is not None:
            return
        for output, operand in kernel.in_place.items():
            self.memory[self._output(output)][:] = _flat(
                operands[operand], self._output(output).element_type.numpy_dtype
            )

    def _output(self, number: int) -> Buffer:
        return next(
            b for b in self.kernel.buffers if b.role is BufferRole.OUTPUT and b.number == number
        )

    def outputs(self) -> list[np.ndarray]:
        """Output buffers, flat, in order."""
        found = [b for b in self.kernel.buffers if b.role is BufferRole.OUTPUT]
        return [self.memory[b] for b in sorted(found, key=lambda b: b.number)]

    def run(self) -> list[np.ndarray]:
        """Execute everything; returns the outputs (flat arrays of reals)."""
        for _ in self.steps():
            pass
        return self.outputs()

    def steps(self) -> Iterator[Step]:
        """Execute one statement per item."""
        yield from self._block(self.kernel.stages)

    def _block(self, statements: Sequence[Statement]) -> Iterator[Step]:
        for s in statements:
            if isinstance(s, Loop):
                yield from self._loop(s)
                continue
            result = self._execute(s)
            yield Step(s, {v.name: i for v, i in self.variables.items()}, result)

    def _loop(self, s: Loop) -> Iterator[Step]:
        state = [self.values[c.init] for c in s.carries]
        for i in range(s.var.extent):
            self.variables[s.var] = i
            for carry, value in zip(s.carries, state):
                self.values[carry.phi] = value
            yield from self._block(s.body)
            state = [self.values[c.next] for c in s.carries]  # type: ignore[index]
        del self.variables[s.var]
        for carry, value in zip(s.carries, state):
            self.values[carry.result] = value

    def index(self, index: Index) -> int:
        """The present value of an index expression."""
        return index.constant + sum(c * self._atom(a) for a, c in index.terms.items())

    def _atom(self, atom: Any) -> int:
        if isinstance(atom, Var):
            return self.variables[atom]
        if isinstance(atom, Value):
            return int(self.values[atom])
        inner = self.index(atom.index)
        return inner // atom.divisor if isinstance(atom, FloorDiv) else inner % atom.divisor

    def _execute(self, s: Statement) -> Any:
        if isinstance(s, Store):
            if s.guard is None or bool(self.values[s.guard]):
                at = self._inside(s.buffer, self.index(s.index), len(s.values))
                for i, value in enumerate(s.values):
                    self.memory[s.buffer][at + i] = self.values[value]
            return None
        result = self._result(s)
        self.values[s.result] = result  # type: ignore[attr-defined]
        return result

    def _inside(self, buffer: Buffer, at: int, count: int) -> int:
        if not 0 <= at <= buffer.size - count:
            raise IndexError(
                f"kernel {self.kernel.name!r} accesses {buffer.name}[{at}] of {buffer.size} "
                f"elements"
            )
        return at

    def _result(self, s: Statement) -> Any:
        if isinstance(s, Constant):
            return np.asarray(s.value)
        if isinstance(s, Load):
            if s.guard is not None and not bool(self.values[s.guard]):
                return np.zeros((), s.buffer.element_type.numpy_dtype)
            at = self._inside(s.buffer, self.index(s.index), 1)
            return self.memory[s.buffer][at].copy()
        if isinstance(s, IndexValue):
            return convert_array(np.asarray(self.index(s.index), np.int64), s.result.type)
        if isinstance(s, InRange):
            return np.asarray(s.low <= self.index(s.index) < s.high)
        assert isinstance(s, Compute), s
        operands = [np.asarray(self.values[o]) for o in s.operands]
        if s.opcode is Opcode.BITCAST_CONVERT:
            return operands[0].view(s.result.type.numpy_dtype)
        with np.errstate(all="ignore"):
            result = ELEMENTWISE[s.opcode](self._node(s), *operands)
        return np.asarray(result)

    def _node(self, s: Compute) -> Instruction:
        """An instruction that stands for the statement: the evaluator's rules take one."""
        node = self._nodes.get(s)
        if node is None:
            operands = [
                Instruction(Opcode.PARAMETER, Shape.array(o.type), (), ParameterAttributes(i))
                for i, o in enumerate(s.operands)
            ]
            attributes = s.attributes if s.attributes is not None else NO_ATTRIBUTES
            node = Instruction(s.opcode, Shape.array(s.result.type), operands, attributes)
            self._nodes[s] = node
        return node


def _flat(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    array = np.ascontiguousarray(array)
    return array.reshape(-1).view(dtype).copy()


def run_kernel(
    kernel: Kernel, operands: Sequence[np.ndarray], shapes: Sequence[Shape]
) -> list[np.ndarray]:
    """Interpret a kernel and give its outputs their shapes."""
    results = Interpreter(kernel, operands).run()
    return [
        r.view(s.element_type.numpy_dtype).reshape(s.dimensions) for r, s in zip(results, shapes)
    ]
