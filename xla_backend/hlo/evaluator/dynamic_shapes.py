"""Values of dynamic shapes: arrays of the size they have, at most the bound that the shape gives.

Most opcodes do not care. Those that read sizes from the instruction run on a stand-in for it,
whose shapes and sizes are the actual ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import (
    Attributes,
    DimensionsAttributes,
    DynamicSliceAttributes,
    GatherAttributes,
    SliceAttributes,
)
from xla_backend.hlo.errors import RuntimeFailure, UnimplementedError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_inference import infer_shape_from_shapes

Value = Any

# What hands values on, or runs computations, never reads a size of its own.
_HANDS_ON = frozenset(
    {
        Opcode.TUPLE,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.OPT_BARRIER,
        Opcode.DOMAIN,
        Opcode.COPY,
        Opcode.WHILE,
        Opcode.CONDITIONAL,
        Opcode.CALL,
        Opcode.FUSION,
        Opcode.GET_DIMENSION_SIZE,
        Opcode.SET_DIMENSION_SIZE,
        Opcode.CUSTOM_CALL,
        Opcode.CONSTANT,
        Opcode.IOTA,
        Opcode.ADD_DEPENDENCY,
        Opcode.AFTER_ALL,
        Opcode.ASYNC_START,
        Opcode.ASYNC_UPDATE,
        Opcode.ASYNC_DONE,
    }
)


def touches_dynamic(node: Instruction) -> bool:
    """Whether the result or an operand has a size known at run time only."""
    if node.opcode in _HANDS_ON or node.opcode is Opcode.PARAMETER:
        return False
    return not node.shape.is_static or any(not o.shape.is_static for o in node.operands)


def set_dimension_size(node: Instruction, x: np.ndarray, size: np.ndarray) -> np.ndarray:
    """From here on only the first `size` positions count; beyond what there was come zeros."""
    assert isinstance(node.attributes, DimensionsAttributes)
    (axis,) = node.attributes.dimensions
    wanted, bound = int(size), node.operands[0].shape.dimensions[axis]
    if not 0 <= wanted <= bound:
        raise RuntimeFailure(f"{node} sets size {wanted}, the dimension has {bound}")
    if wanted <= x.shape[axis]:
        return x[(slice(None),) * axis + (slice(0, wanted),)]
    missing = [(0, wanted - n if d == axis else 0) for d, n in enumerate(x.shape)]
    return np.pad(x, missing)


def actual(node: Instruction, inputs: list[Value]) -> tuple[Instruction, list[Value]]:
    """The instruction with actual sizes in place of bounds, and its operands brought to them."""
    if node.opcode.is_elementwise:
        inputs = _cropped(inputs)
    shapes = [_shape_of(o.shape, v) for o, v in zip(node.operands, inputs)]
    attributes = _CLIPS.get(node.opcode, _as_they_are)(node, shapes)
    given = _given(node, shapes, inputs)
    shape = infer_shape_from_shapes(node.opcode, shapes, attributes, node.called, given)
    operands = [
        Instruction(Opcode.PARAMETER, s, name=o.name) for s, o in zip(shapes, node.operands)
    ]
    return Instruction(
        node.opcode, shape, operands, attributes, node.called, node.metadata, node.name
    ), inputs


def _shape_of(shape: Shape, value: Value) -> Shape:
    if isinstance(value, tuple):
        return Shape.tuple([_shape_of(s, v) for s, v in zip(shape.tuple_shapes, value)])
    return shape if value is None else Shape.array(shape.element_type, np.shape(value))


def _cropped(inputs: list[Value]) -> list[Value]:
    """Operands of an elementwise opcode: one of bounded size meets one of the full size, and the
    smaller counts."""
    arrays = [np.asarray(x) for x in inputs]
    full = [x.shape for x in arrays if x.ndim]
    if len(set(full)) < 2:
        return inputs
    sizes = tuple(slice(0, min(column)) for column in zip(*full))
    return [x[sizes] if x.ndim else x for x in arrays]


# -- sizes in attributes ---------------------------------------------------------------------------


def _as_they_are(node: Instruction, shapes: list[Shape]) -> Attributes:
    return node.attributes


def _clip_slice(node: Instruction, shapes: list[Shape]) -> Attributes:
    a, sizes = node.attributes, shapes[0].dimensions
    assert isinstance(a, SliceAttributes)
    starts = tuple(map(min, a.starts, sizes))
    return SliceAttributes(starts, tuple(map(min, a.limits, sizes)), a.strides)


def _clip_dynamic_slice(node: Instruction, shapes: list[Shape]) -> Attributes:
    a = node.attributes
    assert isinstance(a, DynamicSliceAttributes)
    return DynamicSliceAttributes(tuple(map(min, a.sizes, shapes[0].dimensions)))


def _clip_gather(node: Instruction, shapes: list[Shape]) -> Attributes:
    a = node.attributes
    assert isinstance(a, GatherAttributes)
    fields = {name: getattr(a, name) for name in GatherAttributes._fields}
    fields["slice_sizes"] = tuple(map(min, a.slice_sizes, shapes[0].dimensions))
    return GatherAttributes(**fields)


_CLIPS: dict[Opcode, Callable[[Instruction, list[Shape]], Attributes]] = {
    Opcode.SLICE: _clip_slice,
    Opcode.DYNAMIC_SLICE: _clip_dynamic_slice,
    Opcode.GATHER: _clip_gather,
}


# -- results whose sizes do not follow from the operands -------------------------------------------


def _given(node: Instruction, shapes: list[Shape], inputs: list[Value]) -> Shape:
    shape = node.shape
    if not shape.is_array:
        return shape
    if node.opcode is Opcode.BROADCAST:
        assert isinstance(node.attributes, DimensionsAttributes)
        dims = list(shape.dimensions)
        for size, d in zip(shapes[0].dimensions, node.attributes.dimensions):
            dims[d] = size
        return shape.with_dimensions(dims)
    if node.opcode is Opcode.DYNAMIC_RESHAPE:
        return shape.with_dimensions([int(size) for size in inputs[1:]])
    if node.opcode is Opcode.RESHAPE:
        return shape.with_dimensions(_reshaped(node, shapes[0]))
    if node.opcode.is_elementwise:
        return shape.with_dimensions(shapes[0].dimensions)
    return shape


def _reshaped(node: Instruction, operand: Shape) -> list[int]:
    """The sizes of a reshape: as many positions as there are, spread over the one dimension whose
    size may change."""
    dims = list(node.shape.dimensions)
    changing = [d for d, dynamic in enumerate(node.shape.dynamic_dimensions) if dynamic]
    if operand.num_elements == math.prod(dims):
        return dims
    if len(changing) == 1:
        rest = math.prod(n for d, n in enumerate(dims) if d != changing[0])
        dims[changing[0]] = operand.num_elements // rest if rest else 0
    if operand.num_elements != math.prod(dims):
        raise UnimplementedError(
            f"{node} does not tell how {operand.num_elements} elements are spread; "
            "use dynamic-reshape, which takes the sizes"
        )
    return dims
