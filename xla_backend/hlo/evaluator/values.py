"""Values of the evaluator: NumPy arrays, tuples of values, and None for tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.literal import Literal
from xla_backend.hlo.shape import Shape

Value = Any  # np.ndarray | tuple[Value, ...] | None


def flatten_value(value: Value) -> list[np.ndarray]:
    """Leaves of a nested tuple of values, in order."""
    if not isinstance(value, tuple):
        return [value]
    return [leaf for member in value for leaf in flatten_value(member)]


def unflatten_value(shape: Shape, leaves: Sequence[np.ndarray]) -> Value:
    """The value of `shape` whose array leaves are `leaves`; tokens are None."""
    remaining = iter(leaves)

    def build(part: Shape) -> Value:
        if part.is_tuple:
            return tuple(build(member) for member in part.tuple_shapes)
        return next(remaining) if part.is_array else None

    return build(shape)


def zeros_of(shape: Shape) -> Value:
    """The value of `shape` with every element zero."""
    if shape.is_tuple:
        return tuple(zeros_of(s) for s in shape.tuple_shapes)
    return np.zeros(shape.dimensions, shape.element_type.numpy_dtype) if shape.is_array else None


def literal_value(literal: Literal) -> Value:
    """The value of a constant, tuples included."""
    if literal.shape.is_tuple:
        return tuple(literal_value(element) for element in literal.elements)
    return literal.array
