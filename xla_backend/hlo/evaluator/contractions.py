"""dot and convolution. Floats accumulate in f64 (complex in c128) and are rounded once; integers
wrap."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xla_backend.hlo.attributes import ConvolutionAttributes, DotAttributes, WindowDimension
from xla_backend.hlo.evaluator.conversions import convert_array, wrap_small
from xla_backend.hlo.evaluator.shape_ops import pad_array
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.shape_rules_contractions import window_output_size
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
    lhs_free = [i for i in range(lhs.ndim) if i not in a.lhs_batch and i not in a.lhs_contracting]
    rhs_free = [i for i in range(rhs.ndim) if i not in a.rhs_batch and i not in a.rhs_contracting]
    batch = [lhs.shape[i] for i in a.lhs_batch]
    k = math.prod(lhs.shape[i] for i in a.lhs_contracting)
    m = math.prod(lhs.shape[i] for i in lhs_free)
    n = math.prod(rhs.shape[i] for i in rhs_free)
    left = lhs.transpose([*a.lhs_batch, *lhs_free, *a.lhs_contracting])
    right = rhs.transpose([*a.rhs_batch, *a.rhs_contracting, *rhs_free])
    left = _widen(left, carrier).reshape([math.prod(batch), m, k])
    right = _widen(right, carrier).reshape([math.prod(batch), k, n])
    product = np.matmul(left, right)
    return _narrow(product, node.shape.element_type).reshape(node.shape.dimensions)


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
    return np.lib.stride_tricks.as_strided(
        padded, [*shape, *offsets_shape], [*strides, *offset_strides], writeable=False
    )


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
