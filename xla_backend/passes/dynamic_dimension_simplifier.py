"""Questions about sizes whose answers are known at compile time."""

from __future__ import annotations

from xla_backend.hlo.attributes import DimensionsAttributes
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit


class DynamicDimensionSimplifier(HloPass):
    """get-dimension-size -> a constant, or the size that was set; dynamic-reshape to a known
    shape -> reshape.

    Why: what is left then has sizes that are known at run time only, which has no code yet.
    Needs: nothing.  Leaves: static shapes.

    Raises:
      UnimplementedError: a value's size is known at run time only.
    """

    name = "dynamic-dimension-simplifier"

    def run(self, module: HloModule) -> bool:
        changed = super().run(module)
        for computation in module.computations:
            for node in computation.instructions:
                shape = node.shape
                plain = shape.dynamic is None and not shape.tuple_shapes
                fixed = plain or shape.is_static
                if not fixed or node.opcode is Opcode.SET_DIMENSION_SIZE:
                    raise UnimplementedError(
                        f"{node!r}: its size is known at run time only, and the CPU backend has "
                        "code for fixed sizes; use the `interpreter` platform, or pad to a fixed "
                        "size and mask"
                    )
        return changed

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.post_order(Opcode.GET_DIMENSION_SIZE, Opcode.DYNAMIC_RESHAPE):
            replacement = _simplified(node)
            if replacement is not None:
                computation.replace(node, replacement)
                changed = True
        return changed


def _simplified(node: Instruction) -> Instruction | None:
    b = Emit(node)
    operand = node.operands[0]
    if node.opcode is Opcode.DYNAMIC_RESHAPE:
        if operand.shape.is_static and node.shape.is_static:
            return b.reshape(operand, node.shape.dimensions)
        return None
    dimension = _dimension(node)
    while operand.opcode is Opcode.SET_DIMENSION_SIZE:
        if _dimension(operand) == dimension:
            return operand.operands[1]
        operand = operand.operands[0]
    if operand.shape.dynamic_dimensions[dimension]:
        return None
    return b.splat(node.shape, operand.shape.dimensions[dimension])


def _dimension(node: Instruction) -> int:
    assert isinstance(node.attributes, DimensionsAttributes)
    return node.attributes.dimensions[0]
