"""dot and its relatives, and convolution. Floats accumulate in f64 (complex in c128) and are
rounded once; integers wrap."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xla_backend.hlo.attributes import (
    ConvolutionAttributes,
    DotAttributes,
    RaggedDotAttributes,
    WindowDimension,
)
from xla_backend.hlo.evaluator.conversions import convert_array, wrap_small
from xla_backend.hlo.evaluator.shape_ops import pad_array
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.shape_rules_contractions import (
    RaggedMode,
    ragged_mode,
    ragged_prefix,
    window_output_size,
)
from xla_backend.hlo.types import PrimitiveType

P = PrimitiveType


def _carrier(a: np.ndarray, b: np.ndarray, result: PrimitiveType) -> np.dtype:
    """The type products are summed in."""
    if a.dtype.kind == "c" or b.dtype.kind == "c" or result.is_complex:
        return np.dtype(np.complex128)
    if result is P.PRED:
        return np.dtype(np.int64)
    if result.is_integral:
        return np.dtype(np.int64) if result.bits < 8 else result.numpy_dtype
    return np.dtype(np.float64)


def _widen(x: np.ndarray, carrier: np.dtype) -> np.ndarray:
    return x if x.dtype == carrier else x.astype(carrier)


def _narrow(x: np.ndarray, result: PrimitiveType) -> np.ndarray:
    if result is P.PRED:
        return x != 0
    if result.is_integral and result.bits < 8:
        return wrap_small(x, result)
    return x if x.dtype == result.numpy_dtype else convert_array(x, result)


def dot(node: Instruction, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    a = node.attributes
    assert isinstance(a, DotAttributes)
    carrier = _carrier(lhs, rhs, node.shape.element_type)
    product = _wide_product(a, _widen(lhs, carrier), _widen(rhs, carrier))
    return _narrow(product, node.shape.element_type)


def scaled_dot(
    node: Instruction,
    lhs: np.ndarray,
    rhs: np.ndarray,
    lhs_scale: np.ndarray,
    rhs_scale: np.ndarray,
) -> np.ndarray:
    """Both operands times the scale of the block each element lies in, then dot."""
    a = node.attributes
    assert isinstance(a, DotAttributes)
    product = _wide_product(a, _scaled(lhs, lhs_scale), _scaled(rhs, rhs_scale))
    return _narrow(product, node.shape.element_type)


def _scaled(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    factor = scale.astype(np.float64)
    for axis, (size, blocks) in enumerate(zip(x.shape, scale.shape)):
        factor = np.repeat(factor, size // max(blocks, 1), axis)
    return x.astype(np.float64) * factor


def ragged_dot(
    node: Instruction, lhs: np.ndarray, rhs: np.ndarray, group_sizes: np.ndarray
) -> np.ndarray:
    """One dot for each group, which sees only its own rows of the ragged dimension; rows beyond
    the last group belong to none. A ragged batch dimension has its own rhs per row, so there the
    groups change nothing."""
    a = node.attributes
    assert isinstance(a, RaggedDotAttributes)
    carrier = _carrier(lhs, rhs, node.shape.element_type)
    left, right = _widen(lhs, carrier), _widen(rhs, carrier)
    numbers = DotAttributes(a.lhs_contracting, a.rhs_contracting, a.lhs_batch, a.rhs_batch)
    mode = ragged_mode(a)
    if mode is RaggedMode.BATCH:
        return _narrow(_wide_product(numbers, left, right), node.shape.element_type)
    masks = _group_masks(a, lhs.shape, group_sizes)
    zero = np.zeros((), carrier)
    if mode is RaggedMode.CONTRACTING:
        parts = [_wide_product(numbers, np.where(m, left, zero), right) for m in masks]
        product = np.stack(parts) if parts else np.zeros(node.shape.dimensions, carrier)
        return _narrow(product, node.shape.element_type)
    (group_dim,) = a.rhs_group
    numbers = DotAttributes(
        a.lhs_contracting,
        tuple(d - (d > group_dim) for d in a.rhs_contracting),
        a.lhs_batch,
        tuple(d - (d > group_dim) for d in a.rhs_batch),
    )
    product = np.zeros(node.shape.dimensions, carrier)
    for g, mask in enumerate(masks):
        matrix = np.take(right, g, axis=group_dim)
        product = product + _wide_product(numbers, np.where(mask, left, zero), matrix)
    return _narrow(product, node.shape.element_type)


def _group_masks(
    a: RaggedDotAttributes, lhs_shape: tuple[int, ...], group_sizes: np.ndarray
) -> list[np.ndarray]:
    """Which elements of lhs belong to each group, broadcastable to lhs."""
    (ragged,) = a.lhs_ragged
    ends = np.cumsum(group_sizes.astype(np.int64), axis=-1)
    prefix = ragged_prefix(a, len(lhs_shape)) if group_sizes.ndim > 1 else []
    shape = [1] * len(lhs_shape)
    shape[ragged] = lhs_shape[ragged]
    position = np.arange(lhs_shape[ragged]).reshape(shape)
    masks = []
    for g in range(group_sizes.shape[-1]):
        bounds = []
        for edge in (ends[..., g] - group_sizes[..., g].astype(np.int64), ends[..., g]):
            lined = [1] * len(lhs_shape)
            for d in prefix:
                lined[d] = lhs_shape[d]
            # `prefix` lists dimensions of lhs in the order of the axes of group_sizes.
            bounds.append(edge.transpose(np.argsort(prefix)).reshape(lined) if prefix else edge)
        masks.append((position >= bounds[0]) & (position < bounds[1]))
    return masks


def _wide_product(a: DotAttributes, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """dot in the element type of the operands: batch, free lhs, free rhs dimensions."""
    lhs_free = [i for i in range(lhs.ndim) if i not in a.lhs_batch and i not in a.lhs_contracting]
    rhs_free = [i for i in range(rhs.ndim) if i not in a.rhs_batch and i not in a.rhs_contracting]
    batch = [lhs.shape[i] for i in a.lhs_batch]
    k = math.prod(lhs.shape[i] for i in a.lhs_contracting)
    m = math.prod(lhs.shape[i] for i in lhs_free)
    n = math.prod(rhs.shape[i] for i in rhs_free)
    left = lhs.transpose([*a.lhs_batch, *lhs_free, *a.lhs_contracting])
    right = rhs.transpose([*a.rhs_batch, *a.rhs_contracting, *rhs_free])
    left = left.reshape([math.prod(batch), m, k])
    right = right.reshape([math.prod(batch), k, n])
    free = [lhs.shape[i] for i in lhs_free] + [rhs.shape[i] for i in rhs_free]
    return np.matmul(left, right).reshape([*batch, *free])


def window_view(padded: np.ndarray, window: Sequence[WindowDimension], first: int) -> np.ndarray:
    """View with the window positions of dimensions `first`... in place, and window offsets as
    extra last dimensions. `padded` already contains padding and base dilation."""
    shape, strides = list(padded.shape[:first]), list(padded.strides[:first])
    offsets_shape, offset_strides = [], []
    for i, w in enumerate(window):
        size, stride = padded.shape[first + i], padded.strides[first + i]
        shape.append(
            window_output_size(
                size, WindowDimension(w.size, w.stride, window_dilation=w.window_dilation)
            )
        )
        strides.append(stride * w.stride)
        offsets_shape.append(w.size)
        offset_strides.append(stride * w.window_dilation)
    # NumPy cannot rebuild every type of ml_dtypes from its description: bytes stand in for f8.
    raw = padded.view(np.uint8) if padded.dtype.itemsize == 1 else padded
    view = np.lib.stride_tricks.as_strided(
        raw, [*shape, *offsets_shape], [*strides, *offset_strides], writeable=False
    )
    return view.view(padded.dtype)


def convolution(node: Instruction, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    a = node.attributes
    assert isinstance(a, ConvolutionAttributes)
    n = a.dimension_numbers
    carrier = _carrier(lhs, rhs, node.shape.element_type)
    if 0 in node.shape.dimensions or lhs.size == 0 or rhs.size == 0:
        return np.zeros(node.shape.dimensions, node.shape.element_type.numpy_dtype)
    x = _widen(lhs.transpose([n.input_batch, n.input_feature, *n.input_spatial]), carrier)
    w = _widen(
        rhs.transpose([n.kernel_output_feature, n.kernel_input_feature, *n.kernel_spatial]), carrier
    )
    w = w[
        (slice(None), slice(None), *[slice(None, None, -1 if d.reversal else 1) for d in a.window])
    ]
    x = pad_array(
        x,
        np.zeros((), carrier),
        (0, 0, *[d.padding_low for d in a.window]),
        (0, 0, *[d.padding_high for d in a.window]),
        (0, 0, *[d.base_dilation - 1 for d in a.window]),
    )
    windows = window_view(np.ascontiguousarray(x), a.window, 2)
    spatial = len(a.window)
    out_spatial = windows.shape[2 : 2 + spatial]
    taps = math.prod(w.shape[2:])
    out_features, kernel_in = w.shape[:2]
    # Bring every case to G independent products [rows, kernel_in * taps] x [kernel_in * taps, out
    # / G].
    groups = max(a.feature_group_count, a.batch_group_count)
    batch = x.shape[0] // a.batch_group_count
    if a.batch_group_count > 1:
        grouped = windows.reshape(groups, batch, *windows.shape[1:])
    else:
        grouped = np.moveaxis(windows.reshape(batch, groups, kernel_in, *windows.shape[2:]), 1, 0)
    # [G, batch, kernel_in, out..., taps...] -> [G, batch, out..., kernel_in, taps...]
    grouped = np.moveaxis(grouped, 2, 2 + spatial)
    rows = batch * math.prod(out_spatial)
    left = np.ascontiguousarray(grouped).reshape(groups, rows, kernel_in * taps)
    right = w.reshape(groups, out_features // groups, kernel_in * taps).transpose(0, 2, 1)
    product = np.matmul(left, right).reshape(groups, batch, *out_spatial, out_features // groups)
    # [G, batch, out..., out/G] -> [batch, out..., features]
    merged = np.moveaxis(product, 0, -2).reshape(batch, *out_spatial, out_features)
    order = [n.output_batch, *n.output_spatial, n.output_feature]
    return _narrow(merged, node.shape.element_type).transpose(np.argsort(order))
