"""Layouts written out: bitcasts become transposes and reshapes, every array becomes row-major."""

from __future__ import annotations

import math

from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit


class LayoutNormalization(HloPass):
    """bitcast -> transpose(bitcast-convert(reshape(transpose(x)))); other layouts are dropped.

    Why: an array's value does not depend on its layout, except for bitcast, which means the bytes.
    Programs optimised for another target come with layouts of that target's choice.
    Needs: nothing.  Leaves: no bitcast, and default layouts everywhere.
    """

    name = "layout-normalization"

    def run(self, module: HloModule) -> bool:
        changed = False
        # All bitcasts first: their meaning depends on the layouts of operands.
        for computation in module.computations:
            if Opcode.BITCAST not in computation.opcodes:
                continue
            for node in computation.post_order(Opcode.BITCAST):
                if node.shape.is_array:
                    computation.replace(node, _written_out(node))
                    changed = True
        plain: dict[Shape, Shape] = {}
        for computation in module.computations:
            for node in computation.instructions:
                shape = node.shape
                if shape.layout is None and shape.layout_details is None:
                    if not shape.tuple_shapes and node.opcode is not Opcode.CUSTOM_CALL:
                        continue
                changed |= _drop_layout(node, plain)
        return changed


def without_layout(shape: Shape) -> Shape:
    """The shape with default layouts, also inside tuples."""
    if shape.is_tuple:
        members = tuple(without_layout(member) for member in shape.tuple_shapes)
        return shape if members == shape.tuple_shapes else Shape.tuple(members)
    if shape.layout is None and shape.layout_details is None:
        return shape
    return Shape(shape.element_type, shape.dimensions, dynamic=shape.dynamic)


def _drop_layout(node: Instruction, plain: dict[Shape, Shape]) -> bool:
    shape = plain.get(node.shape)
    if shape is None:
        shape = plain[node.shape] = without_layout(node.shape)
    changed = shape is not node.shape and shape != node.shape
    node.shape = shape
    attributes = node.attributes
    if isinstance(attributes, CustomCallAttributes) and attributes.operand_layouts is not None:
        values = dict(attributes.__dict__)
        layouts = tuple(without_layout(s) for s in attributes.operand_layouts)
        if layouts != attributes.operand_layouts:
            node.attributes = CustomCallAttributes(**{**values, "operand_layouts": layouts})
            changed = True
    return changed


def _written_out(node: Instruction) -> Instruction:
    """The bytes of the operand in the order they have in memory, as the result's elements."""
    b = Emit(node)
    (operand,) = node.operands
    source_order = operand.shape.minor_to_major[::-1]
    target_order = node.shape.minor_to_major[::-1]
    physical = b.transpose(operand, source_order)
    dimensions = [node.shape.dimensions[d] for d in target_order]
    if node.shape.element_type is not operand.shape.element_type:
        physical = _reinterpreted(b, physical, node.shape)
    moved = b.reshape(physical, dimensions)
    inverse = [target_order.index(d) for d in range(node.shape.rank)]
    return b.transpose(moved, inverse)


def _reinterpreted(b: Emit, x: Instruction, result: Shape) -> Instruction:
    """The same bits in another element type; dimensions matter only where the width changes."""
    old, new = x.shape.element_type, result.element_type
    if old.bits == new.bits:
        return b.bitcast_convert(x, new)
    if old.bits > new.bits:
        rows = b.reshape(x, (x.shape.num_elements,))
        dimensions: tuple[int, ...] = (x.shape.num_elements, old.bits // new.bits)
    else:
        dimensions = (math.prod(result.dimensions),)
        rows = b.reshape(x, (*dimensions, new.bits // old.bits))
    return b.add(Opcode.BITCAST_CONVERT, (rows,), shape=Shape.array(new, dimensions))
