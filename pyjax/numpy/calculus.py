"""Differences and integrals on samples: diff, ediff1d, gradient, trapezoid, interp, unwrap."""

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
from pyjax.numpy.arithmetic import remainder
from pyjax.numpy.eager import one_program
from pyjax.numpy.indexing_basic import take_rows
from pyjax.numpy.manipulation import moveaxis, ravel
from pyjax.numpy.searching import searchsorted
from pyjax.numpy.selection import clip, select_where
from pyjax.numpy.stacking import concatenate
from pyjax.numpy.ufuncs import is_complex

__all__ = ["diff", "ediff1d", "gradient", "interp", "trapezoid", "unwrap"]


def diff(
    a: ArrayLike, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None
) -> Array:
    """n-th differences of neighbours along `axis` (not-equal for booleans).

    >>> diff(np.array([1, 4, 9])).tolist()
    [3, 5]
    """
    a = util.ensure_arraylike("diff", a)
    n = util.static_int(n, "n")
    if n == 0:
        return a
    if n < 0:
        raise new_error(ValueError, f"order must be non-negative but got {n}")
    if a.ndim == 0:
        raise new_error(
            ValueError, f"diff requires input that is at least one dimensional; got {a}"
        )
    axis = util.canonicalize_axis(axis, a.ndim)
    parts = [_edge(prepend, a, axis), a, _edge(append, a, axis)]
    parts = [p for p in parts if p is not None]
    a = concatenate(parts, axis) if len(parts) > 1 else a
    op = lax.ne if a.dtype == np.bool_ else lax.sub
    for _ in range(n):
        size = a.shape[axis]
        a = op(
            lax.slice_in_dim(a, min(1, size), size, axis=axis),
            lax.slice_in_dim(a, 0, max(size - 1, 0), axis=axis),
        )
    return a


def _edge(value: Any, a: Any, axis: int) -> Any:
    if value is None:
        return None
    util.check_arraylike("diff", value)
    value = util.as_array(value)
    if value.ndim:
        return value
    return util.broadcast_array(value, tuple(1 if i == axis else m for i, m in enumerate(a.shape)))


def ediff1d(ary: ArrayLike, to_end: Any = None, to_begin: Any = None) -> Array:
    """Differences of neighbours of the flattened array, with values before and after.

    >>> jnp.ediff1d(jnp.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    ary = util.ensure_arraylike("ediff1d", ary)
    out = diff(ravel(ary))
    for value, first in ((to_begin, True), (to_end, False)):
        if value is not None:
            util.check_arraylike("ediff1d", value)
            piece = util.convert(ravel(value), out.dtype)
            out = lax.concatenate([piece, out] if first else [out, piece], 0)
    return out


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int | None = None) -> Any:
    """Derivative of samples by central differences (one-sided at the ends).

    Args:
      varargs: spacing: one number for all axes, or a number or coordinate array per axis.
      axis: axes to differentiate along; default all.
    Returns:
      One array per axis (a bare array for one axis).

    >>> jnp.gradient(jnp.array([0.0, 1.0, 4.0, 9.0]))
    Array([1., 2., 4., 5.], dtype=float32)
    """
    if edge_order is not None:
        raise new_error(
            NotImplementedError,
            "The 'edge_order' argument to jnp.gradient is not supported.",
            "differences at the ends are of first order.",
            "Leave it out; for second order at the ends, write those two differences.",
        )
    util.check_arraylike("gradient", f)
    f = util.as_array(f)
    single = axis is not None and not isinstance(axis, (tuple, list))
    axes = util.canonicalize_axes(axis, f.ndim)
    if any(f.shape[i] < 2 for i in axes):
        raise new_error(
            ValueError,
            "Shape of array too small to calculate a numerical gradient, at least 2 "
            "elements are required.",
        )
    if len(varargs) == 0:
        spacings: list[Any] = [1.0] * len(axes)
    elif len(varargs) == 1:
        spacings = [varargs[0]] * len(axes)
    elif len(varargs) == len(axes):
        spacings = list(varargs)
    else:
        raise new_error(
            TypeError, f"Invalid number of spacing arguments {len(varargs)} for {axes=}"
        )
    util.check_arraylike("gradient", *spacings)
    out = _gradients(f, spacings if varargs else None, axes)
    return out[0] if single or len(out) == 1 else out


@partial(jit, static_argnames="axes", inline=True)
def _gradients(f: Any, spacings: list[Any] | None, axes: tuple[int, ...]) -> list[Any]:
    if spacings is None:
        (f,) = util.promote_dtypes_inexact(f)
        spacings = [1.0] * len(axes)
    else:
        f, *spacings = util.promote_dtypes_inexact(f, *spacings)
    return [_gradient_along(f, h, i) for h, i in zip(spacings, axes, strict=True)]


def _gradient_along(f: Any, h: Any, axis: int) -> Any:
    n = f.shape[axis]

    def cut(x: Any, start: int, stop: int, along: int = axis) -> Any:
        return lax.slice_in_dim(x, start, stop, axis=along)

    if np.ndim(h) == 0:
        first = (cut(f, 1, 2) - cut(f, 0, 1)) / h
        last = (cut(f, n - 1, n) - cut(f, n - 2, n - 1)) / h
        parts = [first, last]
        if n > 2:
            parts.insert(1, (cut(f, 2, n) - cut(f, 0, n - 2)) / (2 * h))
        return lax.concatenate(parts, axis)
    if np.ndim(h) != 1 or np.shape(h)[0] != n:
        raise new_error(ValueError, "Spacing arrays must be 1D arrays of the length of their axis.")
    steps = diff(h)
    shape = tuple(n - 1 if i == axis else 1 for i in range(f.ndim))
    steps = lax.reshape(steps, shape)
    slopes = diff(f, axis=axis) / steps
    parts = [cut(slopes, 0, 1), cut(slopes, n - 2, n - 1)]
    if n > 2:
        left, right = cut(steps, 0, n - 2), cut(steps, 1, n - 1)
        middle = (right * cut(slopes, 0, n - 2) + left * cut(slopes, 1, n - 1)) / (left + right)
        parts.insert(1, middle)
    return lax.concatenate(parts, axis)


@one_program(3)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Array:
    """Integral of samples `y` along `axis` by the trapezoid rule, at `x` or spacing `dx`.

    Args:
      x: where the samples are: of the shape of `y`, or 1-d along `axis`.
      dx: the distances, broadcast with `y` (with one element less along `axis`).
    Raises:
      TypeError: `dx` does not broadcast.

    >>> trapezoid(np.array([0.0, 1.0, 2.0])).item()
    2.0
    """
    if x is None:
        util.check_arraylike("trapezoid", y)
        (y,) = util.promote_dtypes_inexact(util.as_array(y))
        step: Any = util.as_array(dx)
        if step.ndim:
            (step,) = util.promote_dtypes_inexact(step)
            if step.ndim <= y.ndim:  # aligned with y at the right, as operands of one product
                missing = y.ndim - step.ndim
                step = moveaxis(lax.expand_dims(step, tuple(range(missing))), axis, -1)
        else:
            step = util.convert(step, y.dtype)
    else:
        util.check_arraylike("trapezoid", y, x)
        y, x = util.promote_dtypes_inexact(util.as_array(y), util.as_array(x))
        step = diff(x) if x.ndim == 1 else moveaxis(diff(x, axis=axis), axis, -1)
        if x.ndim == 1:
            step = lax.expand_dims(step, tuple(range(y.ndim - 1)))
    y = moveaxis(y, axis, -1)
    n = y.shape[-1]
    later = lax.slice_in_dim(y, min(1, n), n, axis=y.ndim - 1)
    neighbours = later + lax.slice_in_dim(y, 0, later.shape[-1], axis=y.ndim - 1)
    return reductions.sum(step * neighbours, -1) * np.asarray(0.5, y.dtype)[()]


def interp(
    x: ArrayLike, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Array:
    """Piecewise linear interpolation at `x` of the samples (xp, fp); `xp` rises.

    Args:
      left, right: values below and above the samples (default: the end values;
        'extrapolate' continues the end segments).
      period: treat coordinates modulo this.
    >>> interp(1.5, np.array([1.0, 2.0]), np.array([10.0, 20.0])).item()
    15.0
    """
    if period is not None and not isinstance(period, (int, float)):
        util.check_arraylike("interp", period)
    mode_left = left if isinstance(left, str) else None
    mode_right = right if isinstance(right, str) else None
    for mode in (mode_left, mode_right):
        if mode not in (None, "extrapolate"):
            raise new_error(
                ValueError, f"interp: left, right may be numbers or 'extrapolate', got {mode!r}"
            )
    util.check_arraylike("interp", x, xp, fp)
    if np.ndim(xp) != 1 or np.shape(xp) != np.shape(fp):
        raise new_error(ValueError, "xp and fp must be one-dimensional arrays of equal size")
    x, xp = util.promote_dtypes_inexact(x, util.as_array(xp))
    (fp,) = util.promote_dtypes_inexact(util.as_array(fp))
    return _interp(
        x,
        xp,
        fp,
        None if mode_left else left,
        None if mode_right else right,
        period,
        mode_left,
        mode_right,
    )


@partial(jit, static_argnames=("mode_left", "mode_right"))
def _interp(
    x: Any, xp: Any, fp: Any, left: Any, right: Any, period: Any, mode_left: Any, mode_right: Any
) -> Any:
    if is_complex(x):
        raise new_error(ValueError, "jnp.interp: complex x values not supported.")
    if period is not None:
        period = lax.abs(util.convert(period, xp.dtype))
        x, xp = remainder(x, period), remainder(xp, period)
        xp, order = lax.sort((xp, lax.iota(np.int32, xp.shape[0])), num_keys=1)
        fp = take_rows(fp, order, 0)
        xp = concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = concatenate([fp[-1:], fp, fp[:1]])
    n = xp.shape[0]
    i = clip(searchsorted(xp, x, "right"), 1, max(n - 1, 1))
    low, high = i - 1, lax.min(i, lax.full_like(i, n - 1))
    x0, x1 = take_rows(xp, low, 0), take_rows(xp, high, 0)
    f0, f1 = take_rows(fp, low, 0), take_rows(fp, high, 0)
    width = x1 - x0
    # Coinciding samples: take the left value instead of dividing by zero.
    tiny = lax.abs(width) <= np.asarray(np.spacing(dtypes.finfo(xp.dtype).eps), width.dtype)
    slope = (f1 - f0) / util.convert(select_where(tiny, np.ones((), width.dtype), width), fp.dtype)
    out = select_where(tiny, f0, f0 + util.convert(x - x0, fp.dtype) * slope)
    if period is None:
        if mode_left is None:
            out = select_where(x < xp[0], fp[0] if left is None else left, out)
        if mode_right is None:
            out = select_where(x > xp[-1], fp[-1] if right is None else right, out)
    return out


@one_program()
def unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = 2 * np.pi) -> Array:
    """`p` with jumps of more than half a `period` between neighbours removed along `axis`.

    >>> jnp.unwrap(jnp.array([0.0, 6.0])).round(4)
    Array([ 0.    , -0.2832], dtype=float32)
    """
    util.check_arraylike("unwrap", p)
    p = util.as_array(p)
    if is_complex(p):
        raise new_error(ValueError, "jnp.unwrap does not support complex inputs.")
    kind = dtypes.result_type(p, period)
    axis = util.canonicalize_axis(axis, p.ndim)
    if p.shape[axis] == 0:
        return util.convert(p, kind)
    p, period = util.convert(p, kind), util.convert(period, kind)
    steps = diff(p, axis=axis)
    half = period / 2 if dtypes.issubdtype(kind, np.inexact) else period // 2
    wrapped = remainder(steps + half, period) - half
    wrapped = select_where((wrapped == -half) & (steps > 0), half, wrapped)
    correction = wrapped - steps
    limit = half if discont is None else discont
    correction = select_where(lax.abs(steps) < limit, np.zeros((), kind), correction)
    first = lax.slice_in_dim(p, 0, 1, axis=axis)
    rest = lax.slice_in_dim(p, 1, p.shape[axis], axis=axis) + lax.cumsum(correction, axis)
    return lax.concatenate([first, rest], axis)
