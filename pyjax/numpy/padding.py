"""jnp.pad in all its modes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.numpy import reductions, util
from pyjax.numpy.array_constructors import asarray
from pyjax.numpy.sorting import ordered

__all__ = ["pad"]

_ALLOWED: dict[str, set[str]] = {
    "constant": {"constant_values"},
    "edge": set(),
    "empty": set(),
    "wrap": set(),
    "linear_ramp": {"end_values"},
    "maximum": {"stat_length"},
    "mean": {"stat_length"},
    "median": {"stat_length"},
    "minimum": {"stat_length"},
    "reflect": {"reflect_type"},
    "symmetric": {"reflect_type"},
}


def pad(array: ArrayLike, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """`array` with elements added before and after along each axis.

    Args:
      pad_width: n, (before, after), or one (before, after) per axis; or a dict from axis to one
        of these.
      mode: 'constant' (with constant_values=), 'edge', 'linear_ramp' (end_values=), 'maximum',
        'mean', 'median', 'minimum' (stat_length=), 'reflect', 'symmetric' (reflect_type=),
        'wrap', 'empty'; or a function of a padded vector, as in NumPy.
    >>> pad(np.array([1, 2]), (1, 2)).tolist()
    [0, 1, 2, 0, 0]
    """
    x = util.ensure_arraylike("pad", array)
    widths = _pairs(_widths(pad_width, x.ndim), x.ndim, "pad_width")
    widths = tuple(
        (util.static_int(a, "pad_width"), util.static_int(b, "pad_width")) for a, b in widths
    )
    if any(n < 0 for pair in widths for n in pair):
        raise new_error(ValueError, "index can't contain negative values in pad_width")
    if callable(mode):
        return _pad_with_function(x, widths, mode, kwargs)
    if mode not in _ALLOWED:
        raise new_error(
            NotImplementedError,
            f"Unimplemented padding mode {mode!r} for np.pad.",
            "NumPy has no other modes than those that are here.",
            "Pass one of them, or a function of a row.",
        )
    extra = set(kwargs) - _ALLOWED[mode]
    if extra:
        raise new_error(
            ValueError, f"unsupported keyword arguments for mode {mode!r}: {sorted(extra)}"
        )
    if mode == "constant":
        values = _pairs(kwargs.get("constant_values", 0), x.ndim, "constant_values")
        return _pad_constant(x, widths, values)
    if mode == "empty":
        return _pad_constant(x, widths, ((0, 0),) * x.ndim)
    for n, pair in zip(x.shape, widths, strict=True):
        if n == 0 and any(pair):
            raise new_error(ValueError, f"Cannot apply '{mode}' padding to empty axis")
    return _pad_other(x, widths, mode, kwargs)


def _widths(pad_width: Any, ndim: int) -> Any:
    if not isinstance(pad_width, dict):
        return pad_width
    widths: list[Any] = [(0, 0)] * ndim
    for axis, value in pad_width.items():
        pair = (value, value) if np.ndim(value) == 0 else tuple(value)
        widths[util.canonicalize_axis(axis, ndim)] = pair
    return tuple(widths)


def _pairs(value: Any, ndim: int, name: str) -> tuple[tuple[Any, Any], ...]:
    """A (before, after) pair for each axis from a scalar, a pair, or a sequence of pairs."""
    if util.is_array(value) or isinstance(value, np.ndarray):
        value = np.asarray(value).tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(value, (tuple, list)):
        return ((value, value),) * ndim
    items = [tuple(v) if isinstance(v, (tuple, list)) else v for v in value]
    if all(not isinstance(v, tuple) for v in items):
        if len(items) == 1:
            return ((items[0], items[0]),) * ndim
        if len(items) == 2:
            return ((items[0], items[1]),) * ndim
    elif all(isinstance(v, tuple) and len(v) in (1, 2) for v in items):
        pairs = [v if len(v) == 2 else (v[0], v[0]) for v in items]
        if len(pairs) == 1:
            return tuple(pairs) * ndim
        if len(pairs) == ndim:
            return tuple(pairs)
    raise new_error(
        ValueError,
        f"jnp.pad: {name} with {ndim} axes must be n, (before, after), or {ndim} pairs; "
        f"got {value!r}",
    )


def _pad_constant(x: Any, widths: Any, values: Any) -> Any:
    weak = dtypes.is_weakly_typed(x)
    first = values[0][0] if values else 0
    if all(
        v is first or (np.ndim(v) == 0 and isinstance(v, (int, float)) and v == first)
        for pair in values
        for v in pair
    ):
        fill = util.convert(first, x.dtype, weak)
        return lax.pad(x, fill, [(a, b, 0) for a, b in widths])
    for axis, ((before, after), (low, high)) in enumerate(zip(widths, values, strict=True)):
        config = [(0, 0, 0)] * x.ndim
        config[axis] = (before, 0, 0)
        x = lax.pad(x, util.convert(low, x.dtype, weak), config) if before else x
        config[axis] = (0, after, 0)
        x = lax.pad(x, util.convert(high, x.dtype, weak), config) if after else x
    return x


def _pad_other(x: Any, widths: Any, mode: str, kwargs: dict[str, Any]) -> Any:
    if mode == "linear_ramp":
        ends = _pairs(kwargs.get("end_values", 0), x.ndim, "end_values")
        return _pad_ramp(x, widths, ends)
    if mode in ("maximum", "mean", "median", "minimum"):
        lengths = kwargs.get("stat_length")
        pairs = _pairs(lengths, x.ndim, "stat_length")
        for n, pair in zip(x.shape, pairs, strict=True):
            if mode in ("maximum", "minimum") and 0 in pair:
                raise new_error(
                    ValueError, f"stat_length of 0 yields no value for padding (axis size {n})"
                )
        return _pad_statistic(x, widths, mode, pairs)
    reflect_type = kwargs.get("reflect_type", "even")
    if reflect_type not in ("even", "odd"):
        raise new_error(ValueError, f"reflect_type must be 'even' or 'odd', got {reflect_type!r}")
    return _pad_copies(x, widths, mode, reflect_type)


@partial(jit, static_argnames=("widths", "mode", "reflect_type"))
def _pad_copies(x: Any, widths: Any, mode: str, reflect_type: str) -> Any:
    """edge, wrap, reflect, symmetric: pieces of `x` itself."""
    for axis, (before, after) in enumerate(widths):
        if mode == "edge":
            n = x.shape[axis]
            left = lax.slice_in_dim(x, 0, 1, axis=axis)
            right = lax.slice_in_dim(x, n - 1, n, axis=axis)
            parts = [_repeated(left, before, axis), x, _repeated(right, after, axis)]
            x = lax.concatenate([p for p in parts if p is not None], axis)
        elif mode == "wrap":
            x = _pad_wrap(x, before, after, axis)
        else:
            x = _pad_reflected(x, before, after, axis, mode, reflect_type)
    return x


def _repeated(edge: Any, times: int, axis: int) -> Any:
    if not times:
        return None
    shape = tuple(times if i == axis else n for i, n in enumerate(edge.shape))
    return util.broadcast_array(edge, shape)


def _pad_wrap(x: Any, before: int, after: int, axis: int) -> Any:
    n = x.shape[axis]
    copies = -(-before // n)
    total = copies + 1 + -(-after // n)
    wide = lax.concatenate([x] * total, axis) if total > 1 else x
    start = copies * n - before
    return lax.slice_in_dim(wide, start, start + before + n + after, axis=axis)


def _pad_reflected(x: Any, before: int, after: int, axis: int, mode: str, reflect_type: str) -> Any:
    # Each round mirrors at most the whole array; long paddings take several rounds.
    skip = 1 if mode == "reflect" else 0  # 'reflect' does not repeat the edge element
    if x.shape[axis] == 1 and mode == "reflect":
        return _pad_copies(
            x,
            tuple((before, after) if i == axis else (0, 0) for i in range(x.ndim)),
            "edge",
            "even",
        )
    while before > 0 or after > 0:
        n = x.shape[axis]
        reach = n - skip
        left, right = min(before, reach), min(after, reach)
        parts = [x]
        if left:
            piece = lax.rev(lax.slice_in_dim(x, skip, skip + left, axis=axis), (axis,))
            edge = lax.slice_in_dim(x, 0, 1, axis=axis)
            parts.insert(0, _mirrored(piece, edge, reflect_type))
        if right:
            piece = lax.rev(lax.slice_in_dim(x, n - skip - right, n - skip, axis=axis), (axis,))
            edge = lax.slice_in_dim(x, n - 1, n, axis=axis)
            parts.append(_mirrored(piece, edge, reflect_type))
        x = lax.concatenate(parts, axis)
        before, after = before - left, after - right
    return x


def _mirrored(piece: Any, edge: Any, reflect_type: str) -> Any:
    return piece if reflect_type == "even" else edge * 2 - piece


def _pad_ramp(x: Any, widths: Any, ends: Any) -> Any:
    for axis, ((before, after), (low, high)) in enumerate(zip(widths, ends, strict=True)):
        n = x.shape[axis]
        parts = [x]
        if before:
            parts.insert(0, _ramp(low, lax.slice_in_dim(x, 0, 1, axis=axis), before, axis, False))
        if after:
            parts.append(_ramp(high, lax.slice_in_dim(x, n - 1, n, axis=axis), after, axis, True))
        x = lax.concatenate(parts, axis) if len(parts) > 1 else x
    return x


def _ramp(end: Any, edge: Any, count: int, axis: int, falling: bool) -> Any:
    compute = dtypes.to_inexact_dtype(edge.dtype)
    steps = np.arange(count) / count  # 0 at the far end
    shape = [1] * edge.ndim
    shape[axis] = count
    steps = steps[::-1] if falling else steps
    fraction = asarray(steps.reshape(shape).astype(compute))
    far = util.convert(util.convert(end, edge.dtype), compute)
    values = far + (util.convert(edge, compute) - far) * fraction
    if dtypes.issubdtype(edge.dtype, np.integer):
        values = lax.floor(values) if not dtypes.issubdtype(compute, np.complexfloating) else values
    return util.convert(values, edge.dtype)


@partial(jit, static_argnames=("widths", "mode", "lengths"))
def _pad_statistic(x: Any, widths: Any, mode: str, lengths: Any) -> Any:
    for axis, ((before, after), (left, right)) in enumerate(zip(widths, lengths, strict=True)):
        n = x.shape[axis]
        left = n if left is None else min(left, n)
        right = n if right is None else min(right, n)
        head = _statistic(lax.slice_in_dim(x, 0, left, axis=axis), axis, mode)
        tail = _statistic(lax.slice_in_dim(x, n - right, n, axis=axis), axis, mode)
        parts = [_repeated(head, before, axis), x, _repeated(tail, after, axis)]
        x = lax.concatenate([p for p in parts if p is not None], axis)
    return x


def _statistic(x: Any, axis: int, mode: str) -> Any:
    if mode == "maximum":
        return reductions.max(x, axis, keepdims=True)
    if mode == "minimum":
        return reductions.min(x, axis, keepdims=True)
    if mode == "mean":
        out = reductions.mean(x, axis, keepdims=True)
    else:
        n = x.shape[axis]
        in_order = ordered(x, axis)
        low = lax.slice_in_dim(in_order, (n - 1) // 2, (n - 1) // 2 + 1, axis=axis)
        high = lax.slice_in_dim(in_order, n // 2, n // 2 + 1, axis=axis)
        kind = dtypes.to_inexact_dtype(x.dtype)
        out = (util.convert(low, kind) + util.convert(high, kind)) / 2
    if dtypes.issubdtype(x.dtype, np.integer):
        out = lax.round(out, lax.RoundingMethod.TO_NEAREST_EVEN)
    return util.convert(out, x.dtype)


def _pad_with_function(x: Any, widths: Any, function: Any, kwargs: dict[str, Any]) -> Any:
    padded = _pad_constant(x, widths, ((0, 0),) * x.ndim)
    for axis in range(x.ndim):
        order = [i for i in range(x.ndim) if i != axis] + [axis]
        rows = lax.transpose(padded, order)
        flat = lax.reshape(
            rows, (-1 if rows.size == 0 else rows.size // rows.shape[-1], rows.shape[-1])
        )
        done = []
        for i in range(flat.shape[0]):
            vector = lax.index_in_dim(flat, i, 0, keepdims=False)
            result = function(vector, widths[axis], axis, kwargs)
            done.append(lax.expand_dims(vector if result is None else result, (0,)))
        rows = lax.reshape(lax.concatenate(done, 0), rows.shape)
        padded = lax.transpose(rows, list(np.argsort(order)))
    return padded
