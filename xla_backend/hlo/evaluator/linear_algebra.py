"""fft, cholesky, triangular-solve and batch normalisation in NumPy / SciPy (f64 inside)."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.attributes import (
    BatchNormAttributes,
    CholeskyAttributes,
    FftAttributes,
    TriangularSolveAttributes,
)
from xla_backend.hlo.evaluator.conversions import convert_array, type_of
from xla_backend.hlo.evaluator.scalar_computations import Values
from xla_backend.hlo.instruction import Instruction
from xla_backend.process.on_first_use import on_first_use

_fftn, _ifftn, _rfftn, _irfftn = (
    on_first_use("scipy.fft", name) for name in ("fftn", "ifftn", "rfftn", "irfftn")
)
_dtrsm, _ztrsm = (on_first_use("scipy.linalg.blas", name) for name in ("dtrsm", "ztrsm"))


def fft(node: Instruction, x: np.ndarray) -> np.ndarray:
    a = node.attributes
    assert isinstance(a, FftAttributes)
    axes = tuple(range(-len(a.fft_length), 0))
    if 0 in node.shape.dimensions:
        return np.zeros(node.shape.dimensions, node.shape.element_type.numpy_dtype)
    if a.fft_type == "RFFT":
        result = _rfftn(x.astype(np.float64), axes=axes)
    elif a.fft_type == "IRFFT":
        result = _irfftn(x.astype(np.complex128), s=a.fft_length, axes=axes)
    else:
        function = _fftn if a.fft_type == "FFT" else _ifftn
        result = function(x.astype(np.complex128), axes=axes)
    return result.astype(node.shape.element_type.numpy_dtype)


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def cholesky(node: Instruction, x: np.ndarray) -> np.ndarray:
    """Reads one triangle, zeroes the other; a matrix that is not positive definite gives NaN."""
    a = node.attributes
    assert isinstance(a, CholeskyAttributes)
    wide = _wide(x)
    if not a.lower:
        wide = np.conj(np.swapaxes(wide, -1, -2))
    result = np.empty(wide.shape, wide.dtype)
    for index in np.ndindex(wide.shape[:-2]):
        try:
            factor = np.linalg.cholesky(wide[index])
        except np.linalg.LinAlgError:
            factor = np.full_like(wide[index], np.nan)
        if np.isnan(factor.diagonal()).any():  # where NumPy's LAPACK goes on with a NaN
            factor = np.tril(np.full_like(factor, np.nan))
        result[index] = factor
    if not a.lower:
        result = np.conj(np.swapaxes(result, -1, -2))
    return convert_array(result, type_of(x))


def triangular_solve(node: Instruction, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """op(a) x = b, or x op(a) = b; only the named triangle of `a` is read. Division by zero gives
    inf and NaN."""
    attributes = node.attributes
    assert isinstance(attributes, TriangularSolveAttributes)
    left, right = _wide(a), _wide(b)
    solve = _ztrsm if left.dtype.kind == "c" else _dtrsm
    operation = {"NO_TRANSPOSE": 0, "TRANSPOSE": 1, "ADJOINT": 2}[attributes.transpose_a]
    result = np.empty(right.shape, right.dtype)
    if result.size == 0:
        return convert_array(result, type_of(b))
    for index in np.ndindex(right.shape[:-2]):
        result[index] = solve(
            1.0,
            left[index],
            right[index],
            side=0 if attributes.left_side else 1,
            lower=int(attributes.lower),
            trans_a=operation,
            diag=int(attributes.unit_diagonal),
        )
    return convert_array(result, type_of(b))


def _feature_shape(x: np.ndarray, feature: int) -> list[int]:
    return [n if i == feature else 1 for i, n in enumerate(x.shape)]


def _other_axes(x: np.ndarray, feature: int) -> tuple[int, ...]:
    return tuple(i for i in range(x.ndim) if i != feature)


def batch_norm_training(
    node: Instruction, x: np.ndarray, scale: np.ndarray, offset: np.ndarray
) -> Values:
    a = node.attributes
    assert isinstance(a, BatchNormAttributes)
    kind, wide, axes = type_of(x), _wide(x), _other_axes(x, a.feature_index)
    mean, variance = wide.mean(axis=axes), wide.var(axis=axes)
    shape = _feature_shape(x, a.feature_index)
    normal = (wide - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + a.epsilon)
    result = normal * _wide(scale).reshape(shape) + _wide(offset).reshape(shape)
    return tuple(convert_array(np.asarray(v), kind) for v in (result, mean, variance))


def batch_norm_inference(
    node: Instruction,
    x: np.ndarray,
    scale: np.ndarray,
    offset: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
) -> np.ndarray:
    a = node.attributes
    assert isinstance(a, BatchNormAttributes)
    shape = _feature_shape(x, a.feature_index)
    scale, offset, mean, variance = (
        _wide(v).reshape(shape) for v in (scale, offset, mean, variance)
    )
    return convert_array(
        (_wide(x) - mean) / np.sqrt(variance + a.epsilon) * scale + offset, type_of(x)
    )


def _in_range(x: np.ndarray, limit: float) -> np.ndarray:
    """Beyond the largest number of a type there is infinity."""
    return np.where(np.abs(x) > limit, np.copysign(np.inf, x), x)


def batch_norm_grad(
    node: Instruction,
    x: np.ndarray,
    scale: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    gradient: np.ndarray,
) -> Values:
    a = node.attributes
    assert isinstance(a, BatchNormAttributes)
    kind, axes = type_of(x), _other_axes(x, a.feature_index)
    shape = _feature_shape(x, a.feature_index)
    count = x.size / max(x.shape[a.feature_index], 1)
    g = _wide(gradient)
    centered = _wide(x) - _wide(mean).reshape(shape)
    inverse = 1.0 / np.sqrt(_wide(variance).reshape(shape) + a.epsilon)
    grad_offset = g.sum(axis=axes)
    # The gradient is cubic in its operands: what overflows on the way is as infinite as the
    # elementary operations of the compiler make it.
    limit = float(np.finfo(np.float64 if x.dtype == np.float64 else np.float32).max)
    projected = _in_range(_in_range(g * centered, limit).sum(axis=axes), limit).reshape(shape)
    slope = _in_range(inverse * inverse * (projected / count), limit)
    inner = g - grad_offset.reshape(shape) / count - _in_range(centered * slope, limit)
    grad_x = _wide(scale).reshape(shape) * inverse * inner
    grad_scale = (projected * inverse).reshape(grad_offset.shape)
    return tuple(convert_array(np.asarray(v), kind) for v in (grad_x, grad_scale, grad_offset))
