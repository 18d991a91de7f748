"""The arrays of a module, as far as their shardings are one: a member of a tuple is the value that
was put in, and what a loop carries is one value in its condition and its body.

  values = Values(module)
  values.of(node)            the value of each leaf of an instruction's result
  values.links               (from, to): values that others become, at the edges of control flow
"""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape

# Computations that are programs of their own, not part of what an operation means.
CONTROL_FLOW = (Opcode.WHILE, Opcode.CONDITIONAL)
# Their leaves are those of their operands.
_NAMES = (Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT, Opcode.OPT_BARRIER)


class ArrayValue:
    """An array of the program. Equal by identity.

    Attributes:
      shape: its own.
      node: an instruction that it comes from.
    """

    __slots__ = ("node", "shape")

    def __init__(self, shape: Shape, node: Instruction) -> None:
        self.shape = shape
        self.node = node

    def __repr__(self) -> str:
        return f"{self.shape} of %{self.node.name}"


class Values:
    """The values of the entry and of the control flow in it, with how they become each other.

    Attributes:
      links: pairs of values of one shape, of which the second is the first, or may be it.
      computations: that there are values of, callers before what they call.
    """

    def __init__(self, module: HloModule) -> None:
        assert module.entry is not None
        self._of: dict[Instruction, list[ArrayValue]] = {}
        self.links: list[tuple[ArrayValue, ArrayValue]] = []
        self.computations: list[Computation] = []
        self._read(module.entry, [self._new(p) for p in module.entry.parameters])

    def of(self, node: Instruction) -> list[ArrayValue]:
        """A value for each leaf."""
        return self._of[node]

    def all(self) -> list[ArrayValue]:
        """Every value, once."""
        return list(dict.fromkeys(value for values in self._of.values() for value in values))

    def _new(self, node: Instruction) -> list[ArrayValue]:
        return [ArrayValue(shape, node) for shape in node.shape.flatten()]

    def _read(self, computation: Computation, parameters: Sequence[list[ArrayValue]]) -> None:
        self.computations.append(computation)
        self._of.update(zip(computation.parameters, parameters))
        for node in computation.post_order():
            if node.opcode is not Opcode.PARAMETER:
                self._of[node] = self._leaves(node)

    def _leaves(self, node: Instruction) -> list[ArrayValue]:
        if node.opcode in _NAMES:
            leaves = [value for operand in node.operands for value in self._of[operand]]
            if node.opcode is not Opcode.GET_TUPLE_ELEMENT:
                return leaves
            start = node.operands[0].shape.leaf_number((node.tuple_index,))
            return leaves[start : start + node.shape.leaf_count]
        if node.opcode is Opcode.WHILE:
            return self._while(node)
        if node.opcode is Opcode.CONDITIONAL:
            return self._conditional(node)
        return self._new(node)

    def _while(self, node: Instruction) -> list[ArrayValue]:
        carried = self._new(node)
        self._link(self._of[node.operands[0]], carried)
        for computation in node.called:
            self._read(computation, [carried])
        _, body = node.called
        assert body.root is not None
        self._link(self._of[body.root], carried)
        return carried

    def _conditional(self, node: Instruction) -> list[ArrayValue]:
        results = self._new(node)
        for operand, branch in zip(node.operands[1:], node.called):
            parameters = self._new(branch.parameters[0])
            self._link(self._of[operand], parameters)
            self._read(branch, [parameters])
            assert branch.root is not None
            self._link(self._of[branch.root], results)
        return results

    def _link(self, sources: list[ArrayValue], targets: list[ArrayValue]) -> None:
        self.links += zip(sources, targets)
