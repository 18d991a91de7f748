"""NumPy meaning of the opcodes that move data without computing."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.attributes import (
    DimensionsAttributes,
    DynamicSliceAttributes,
    IotaAttributes,
    PadAttributes,
    SliceAttributes,
)
from xla_backend.hlo.evaluator.conversions import bitcast_array, convert_array
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.types import PrimitiveType


def _dimensions(node: Instruction) -> tuple[int, ...]:
    assert isinstance(node.attributes, DimensionsAttributes)
    return node.attributes.dimensions


def reshape(node: Instruction, x: np.ndarray) -> np.ndarray:
    return x.reshape(node.shape.dimensions)


def bitcast(node: Instruction, x: np.ndarray) -> np.ndarray:
    """Same bytes, other shape. Arrays here are row-major, so other layouts are expressed by a
    transpose."""
    operand, result = node.operands[0].shape, node.shape
    # Walk the bytes in physical order of the operand's layout, then lay them out as the result's.
    physical = x.transpose(operand.minor_to_major[::-1])
    order = result.minor_to_major[::-1]
    dimensions = tuple(result.dimensions[d] for d in order)
    if operand.element_type is result.element_type:
        moved = np.ascontiguousarray(physical).reshape(dimensions)
    else:
        moved = bitcast_array(physical, result.element_type, dimensions)
    return moved.transpose(np.argsort(order)) if order else moved


def bitcast_convert(node: Instruction, x: np.ndarray) -> np.ndarray:
    return bitcast_array(x, node.shape.element_type, node.shape.dimensions)


def dynamic_reshape(node: Instruction, x: np.ndarray, *sizes: np.ndarray) -> np.ndarray:
    return x.reshape(node.shape.dimensions)


def broadcast(node: Instruction, x: np.ndarray) -> np.ndarray:
    dims, result = _dimensions(node), node.shape.dimensions
    if not dims:
        return np.broadcast_to(x, result)
    order = np.argsort(dims)
    if list(dims) != sorted(dims):
        x = x.transpose(order)
    shape = [1] * len(result)
    for d in dims:
        shape[d] = result[d]
    return np.broadcast_to(x.reshape(shape), result)


def transpose(node: Instruction, x: np.ndarray) -> np.ndarray:
    return x.transpose(_dimensions(node))


def reverse(node: Instruction, x: np.ndarray) -> np.ndarray:
    dims = _dimensions(node)
    return x[tuple(slice(None, None, -1) if i in dims else slice(None) for i in range(x.ndim))]


def concatenate(node: Instruction, *operands: np.ndarray) -> np.ndarray:
    return np.concatenate(operands, axis=_dimensions(node)[0])


def slice_(node: Instruction, x: np.ndarray) -> np.ndarray:
    a = node.attributes
    assert isinstance(a, SliceAttributes)
    return x[tuple(map(slice, a.starts, a.limits, a.strides))]


def _window(
    starts: tuple[np.ndarray, ...], sizes: tuple[int, ...], bounds: tuple[int, ...]
) -> tuple[slice, ...]:
    """Starts are clamped so that the window lies inside."""
    result = []
    for start, size, bound in zip(starts, sizes, bounds):
        begin = min(max(int(start), 0), bound - size)
        result.append(slice(begin, begin + size))
    return tuple(result)


def dynamic_slice(node: Instruction, x: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    a = node.attributes
    assert isinstance(a, DynamicSliceAttributes)
    return x[_window(starts, a.sizes, x.shape)]


def dynamic_update_slice(
    node: Instruction, x: np.ndarray, update: np.ndarray, *starts: np.ndarray
) -> np.ndarray:
    result = np.array(x)
    result[_window(starts, update.shape, x.shape)] = update
    return result


def pad(node: Instruction, x: np.ndarray, value: np.ndarray) -> np.ndarray:
    a = node.attributes
    assert isinstance(a, PadAttributes)
    return pad_array(x, value, a.low, a.high, a.interior)


def pad_array(
    x: np.ndarray,
    value: np.ndarray,
    low: tuple[int, ...],
    high: tuple[int, ...],
    interior: tuple[int, ...],
) -> np.ndarray:
    """Interior padding first, then edges; a negative edge removes elements."""
    spread_shape = [n + max(n - 1, 0) * i for n, i in zip(x.shape, interior)]
    shape = [n + lo + hi for n, lo, hi in zip(spread_shape, low, high)]
    if any(n <= 0 for n in shape) or x.size == 0:
        return np.full([max(n, 0) for n in shape], value, x.dtype)
    result = np.full(shape, value, x.dtype)
    target, source = [], []
    for n, size, lo, i in zip(shape, x.shape, low, interior):
        step = i + 1
        first = -(lo // step) if lo < 0 else 0  # first element at or after position 0
        last = min(size, (n - 1 - lo) // step + 1)
        if last <= first:
            return result
        source.append(slice(first, last))
        begin = lo + first * step
        target.append(slice(begin, lo + (last - 1) * step + 1, step))
    result[tuple(target)] = x[tuple(source)]
    return result


def iota(node: Instruction) -> np.ndarray:
    a = node.attributes
    assert isinstance(a, IotaAttributes)
    dimensions, kind = node.shape.dimensions, node.shape.element_type
    size = dimensions[a.dimension]
    values = np.arange(size, dtype=np.float64 if kind.is_floating else np.int64)
    line = convert_array(values, kind)
    shape = [1] * len(dimensions)
    shape[a.dimension] = size
    return np.broadcast_to(line.reshape(shape), dimensions)


def get_dimension_size(node: Instruction, x: np.ndarray) -> np.ndarray:
    """The size the value has; of a dynamic dimension it may be less than the bound."""
    return np.asarray(x.shape[_dimensions(node)[0]], PrimitiveType.S32.numpy_dtype)
