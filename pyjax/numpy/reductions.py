"""Reductions: sum, prod, max, min, all, any, mean, var, std, ptp, count_nonzero, average.

All of them go through `_reduce`, driven by a row of `_Kind`: how the dtype is chosen, the
identity, and the lax reduction.  Functions that ignore nans live in nan_reductions.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.numpy import util
from pyjax.numpy.eager import one_program
from pyjax.numpy.selection import select_where
from pyjax.numpy.ufuncs import is_complex
from xla_backend.process.light_dataclasses import dataclass

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "average",
    "count_nonzero",
    "max",
    "mean",
    "min",
    "prod",
    "ptp",
    "std",
    "sum",
    "var",
]


@dataclass(frozen=True, eq=False)
class _Kind:
    """How one reduction treats dtypes; `identity(dtype)` fills places excluded by where=."""

    name: str
    op: Callable[..., Any]
    combine: Callable[..., Any]
    identity: Callable[[Any], Any]
    boolean: bool = False  # operate on and return booleans
    promote: bool = False  # small integers and booleans become the default integer
    wide: bool = False  # compute half floats in float32
    needs_elements: bool = False  # an empty reduction is an error without initial=


_SUM = _Kind("sum", lax.reduce_sum, lax.add, lambda d: 0, promote=True, wide=True)
_PROD = _Kind("prod", lax.reduce_prod, lax.mul, lambda d: 1, promote=True, wide=True)
_MAX = _Kind("max", lax.reduce_max, lax.max, dtypes.lowest, needs_elements=True)
_MIN = _Kind("min", lax.reduce_min, lax.min, dtypes.highest, needs_elements=True)
_ALL = _Kind("all", lax.reduce_and, lax.bitwise_and, lambda d: True, boolean=True)
_ANY = _Kind("any", lax.reduce_or, lax.bitwise_or, lambda d: False, boolean=True)


def promote_integer_dtype(dtype: Any) -> Any:
    """The dtype of a sum of this dtype: booleans and small integers become the default one."""
    if dtype == np.bool_:
        return dtypes.canonicalize_dtype(np.int64)
    for default in (np.uint64, np.int64):
        kind = np.unsignedinteger if default is np.uint64 else np.signedinteger
        if dtypes.issubdtype(dtype, kind):
            default = dtypes.canonicalize_dtype(default)
            return default if np.dtype(default).itemsize > np.dtype(dtype).itemsize else dtype
    return dtype


def _computation_dtype(kind: _Kind, dtype: Any) -> Any:
    if kind.boolean:
        return np.dtype(np.bool_)
    if kind.wide and dtypes.issubdtype(dtype, np.floating) and dtype.itemsize <= 2:
        return np.dtype(np.float32)
    return dtype


def _reduce(
    kind: _Kind,
    a: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
    promote_integers: bool = True,
) -> Any:
    util.reject_out(kind.name, out)
    util.check_arraylike(kind.name, a)
    where = util.check_mask(kind.name, where)
    dtype = util.check_user_dtype(dtype, kind.name)
    a = util.as_array(a)
    axes = util.canonicalize_axes(axis, a.ndim)
    if dtype is not None:
        result = dtype
    elif kind.boolean:
        result = np.dtype(np.bool_)
    else:
        promotes = kind.promote and (promote_integers or a.dtype == np.bool_)
        result = promote_integer_dtype(a.dtype) if promotes else a.dtype
        result = dtypes.canonicalize_dtype(result)
    if result == np.bool_ and kind.promote:  # sums and products of booleans
        kind = _ANY if kind is _SUM else _ALL
    if kind.needs_elements and initial is None:
        _check_not_empty(kind, a, axes)
        if where is not None:
            raise new_error(
                ValueError,
                f"reduction operation {kind.name} does not have an identity, so to use a where "
                "mask one has to specify 'initial'.",
            )
    compute = _computation_dtype(kind, result)
    if kind.boolean and a.dtype != np.bool_:
        a = util.truth(a)
    elif a.dtype != compute or dtypes.is_weakly_typed(a):
        if is_complex(a) and not dtypes.issubdtype(compute, np.complexfloating):
            a = lax.real(a)
        if compute != result and a.dtype != result:
            a = util.convert(a, result)  # overflows as elements of the result's dtype do
        a = util.convert(a, compute)
    if where is not None:
        fill = np.asarray(kind.identity(compute)).astype(compute)
        a = select_where(where, a, fill)
        axes = util.canonicalize_axes(axis, a.ndim)
    shape = a.shape
    nothing = 0 in [shape[i] for i in axes]
    if axes or dtypes.is_extended(a.dtype):  # which a lone key is refused for, too
        a = kind.op(a, axes)
    if initial is not None:
        util.check_arraylike(kind.name, initial)
        if np.ndim(initial) != 0:
            raise new_error(
                ValueError, f"initial value must be a scalar, got shape {np.shape(initial)}."
            )
        start = util.convert(initial, compute)
        # Combined with the reduction of nothing, which is 0 for a sum, -0.0 would lose its sign.
        a = (
            util.broadcast_array(start, a.shape)
            if nothing
            else kind.combine(*util.promote_shapes(kind.name, start, a))
        )
    if keepdims:
        a = lax.reshape(a, tuple(1 if i in axes else n for i, n in enumerate(shape)))
    return util.convert(a, result)


def _check_not_empty(kind: _Kind, a: Any, axes: tuple[int, ...]) -> None:
    empty = [axis for axis in axes if a.shape[axis] == 0]
    if empty:
        raise new_error(
            ValueError,
            f"zero-size array to reduction operation {kind.name} which has no identity: shape "
            f"{a.shape}, axis {empty[0]} is empty. Pass initial=.",
        )


@one_program()
def sum(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Array:
    """Sum over axes.

    Args:
      a: array.  axis: axis or axes to sum over; default all.
      dtype: dtype to sum and return in; default that of `a`, with booleans and small integers
        promoted to the default integer unless `promote_integers` is False.  Half floats are
        summed in float32 and rounded once.
      keepdims: leave the summed axes with size one.
      initial: scalar added to the result.  where: boolean mask of the elements to include.
    >>> sum(np.array([[1, 2], [3, 4]]), axis=0).tolist()
    [4, 6]
    """
    return _reduce(_SUM, a, axis, dtype, out, keepdims, initial, where, promote_integers)


@one_program()
def prod(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Array:
    """Product over axes; arguments as for `sum`.

    >>> prod(np.array([2, 3, 4])).item()
    24
    """
    return _reduce(_PROD, a, axis, dtype, out, keepdims, initial, where, promote_integers)


@one_program()
def max(
    a: ArrayLike,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Largest element over axes; nan if any is nan.  `where` needs `initial`.

    >>> max(np.array([3, 1, 2])).item()
    3
    """
    return _reduce(_MAX, a, axis, None, out, keepdims, initial, where)


@one_program()
def min(
    a: ArrayLike,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Smallest element over axes; nan if any is nan.  `where` needs `initial`.

    >>> jnp.min(jnp.array([[3, 1], [2, 5]]), axis=0)
    Array([2, 1], dtype=int32)
    >>> jnp.min(jnp.array([1.0, jnp.nan]))
    Array(nan, dtype=float32)
    """
    return _reduce(_MIN, a, axis, None, out, keepdims, initial, where)


def amax(
    a: ArrayLike,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Same as `max`.

    >>> jnp.amax(jnp.array([[1, 5], [3, 2]]), axis=0)
    Array([3, 5], dtype=int32)
    """
    return max(a, axis, out, keepdims, initial, where)


def amin(
    a: ArrayLike,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Same as `min`.

    >>> jnp.amin(jnp.array([[1, 5], [3, 2]]), axis=0)
    Array([1, 2], dtype=int32)
    """
    return min(a, axis, out, keepdims, initial, where)


@one_program()
def all(
    a: ArrayLike, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Array:
    """Whether all elements over axes are true (nonzero); True for none.

    >>> jnp.all(jnp.array([[True, False], [True, True]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    return _reduce(_ALL, a, axis, None, out, keepdims, None, where)


@one_program()
def any(
    a: ArrayLike, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Array:
    """Whether an element over axes is true (nonzero); False for none.

    >>> jnp.any(jnp.array([[True, False], [False, False]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    return _reduce(_ANY, a, axis, None, out, keepdims, None, where)


def ptp(a: ArrayLike, axis: Any = None, out: None = None, keepdims: bool = False) -> Array:
    """Largest minus smallest element over axes.

    >>> jnp.ptp(jnp.array([3, 9, 1]))
    Array(8, dtype=int32)
    """
    util.reject_out("ptp", out)
    a = util.ensure_arraylike("ptp", a)
    return lax.sub(max(a, axis, None, keepdims), min(a, axis, None, keepdims))


def count_nonzero(a: ArrayLike, axis: Any = None, keepdims: bool = False) -> Array:
    """Number of nonzero elements over axes, as the default integer.

    >>> jnp.count_nonzero(jnp.array([[1, 0], [2, 3]]), axis=0)
    Array([2, 1], dtype=int32)
    """
    a = util.ensure_arraylike("count_nonzero", a)
    return sum(util.truth(a), axis, dtypes.canonicalize_dtype(np.int64), None, keepdims)


# ---------------------------------------------------------------------------------------------
# Means and spreads


def element_count(a: Any, axes: tuple[int, ...], where: Any) -> Array | int:
    """Number of elements reduced: an int, or an array if a mask excludes some."""
    count = util.size_of([a.shape[axis] for axis in axes])
    if where is None:
        return count
    mask = util.broadcast_array(where, a.shape)
    return sum(mask, axes, dtypes.canonicalize_dtype(np.int64), None, True)


@one_program()
def mean(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Array:
    """Arithmetic mean over axes, in floating point; nan for none.

    Half floats are averaged in float32.
    >>> mean(np.array([1, 2, 6])).item()
    3.0
    """
    util.reject_out("mean", out)
    util.check_arraylike("mean", a)
    where = util.check_mask("mean", where)
    dtype = util.check_user_dtype(dtype, "mean")
    a = util.as_array(a)
    return _mean(a, util.canonicalize_axes(axis, a.ndim), dtype, bool(keepdims), where)


@partial(jit, static_argnames=("axes", "dtype", "keepdims"), inline=True)
def _mean(a: Any, axes: tuple[int, ...], dtype: Any, keepdims: bool, where: Any) -> Any:
    result = dtypes.canonicalize_dtype(dtypes.to_inexact_dtype(a.dtype)) if dtype is None else dtype
    compute = _computation_dtype(_SUM, result)
    count: Any = element_count(a, axes, where)
    total = sum(a, axes, compute, None, keepdims, where=where)
    if where is not None:
        count = lax.reshape(util.convert(count, compute), total.shape)
    elif isinstance(count, int):  # not of a size that is traced
        count = np.asarray(count).astype(total.dtype)[()]
    return util.convert(lax.div(total, util.convert(count, total.dtype)), result)


@one_program()
def var(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Array:
    """Variance over axes: the mean squared distance from the mean.

    Args:
      ddof, correction: the divisor is the count minus this (give one of them).
      mean: the mean if known, with the reduced axes kept.
    Returns:
      Real array, also for complex input; nan where the divisor is not positive.
    >>> var(np.array([1.0, 3.0])).item()
    1.0
    """
    util.reject_out("var", out)
    util.check_arraylike("var", a)
    where = util.check_mask("var", where)
    dtype = util.check_user_dtype(dtype, "var")
    if correction is None:
        correction = ddof
    elif not (isinstance(ddof, int) and ddof == 0):
        raise new_error(ValueError, "ddof and correction can't be provided simultaneously.")
    a = util.as_array(a)
    axes = util.canonicalize_axes(axis, a.ndim)
    return _var(a, axes, dtype, correction, bool(keepdims), where, mean)


@partial(jit, static_argnames=("axes", "dtype", "keepdims"))
def _var(
    a: Any,
    axes: tuple[int, ...],
    dtype: Any,
    correction: Any,
    keepdims: bool,
    where: Any,
    center: Any,
) -> Any:
    compute, result = _var_dtypes(a.dtype, dtype)
    a = util.convert(a, compute)
    if center is None:
        center = _mean(a, axes, compute, True, where)
    centered = lax.sub(*util.promote_args("var", a, util.convert(center, compute)))
    if is_complex(a):
        centered = lax.real(lax.mul(centered, lax.conj(centered)))
    else:
        centered = lax.square(centered)
    real = centered.dtype
    count = util.convert(element_count(a, axes, where), real)
    divisor = lax.sub(*util.promote_args("var", count, util.convert(correction, real)))
    total = sum(centered, axes, None, None, keepdims, where=where)
    divisor = (
        lax.reshape(divisor, total.shape)
        if np.ndim(divisor)
        else lax.broadcast(divisor, total.shape)
    )
    out = select_where(lax.gt(divisor, lax.full_like(divisor, 0)), lax.div(total, divisor), np.nan)
    return util.convert(out, result)


def _var_dtypes(a_dtype: Any, dtype: Any) -> tuple[Any, Any]:
    """(dtype to compute in, dtype of the result)."""
    if dtype is not None:
        if not dtypes.issubdtype(dtype, np.complexfloating) and dtypes.issubdtype(
            a_dtype, np.complexfloating
        ):
            raise new_error(
                ValueError,
                "jax.numpy.var does not yet support real dtype parameters when computing the "
                "variance of an array of complex values. The semantics of numpy.var seem unclear "
                "in this case: pass a complex dtype, or none.",
            )
        compute = dtypes.to_inexact_dtype(dtypes.result_type(a_dtype, dtype))
        result = dtype
    else:
        compute = dtypes.canonicalize_dtype(dtypes.to_inexact_dtype(a_dtype))
        result = (
            np.zeros((), compute).real.dtype
            if dtypes.issubdtype(compute, np.complexfloating)
            else compute
        )
    return _computation_dtype(_SUM, compute), result


@one_program()
def std(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Array:
    """Standard deviation over axes: the square root of `var` (same arguments).

    >>> jnp.std(jnp.array([1.0, 3.0]))
    Array(1., dtype=float32)
    """
    util.reject_out("std", out)
    util.check_arraylike("std", a)
    where = util.check_mask("std", where)
    dtype = util.check_user_dtype(dtype, "std")
    if dtype is not None and not dtypes.issubdtype(dtype, np.inexact):
        raise new_error(ValueError, f"dtype argument to jnp.std must be inexact; got {dtype}")
    return lax.sqrt(
        var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    )


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """Mean over axes weighted by `weights` (of the shape of `a`, or 1-d along one axis).

    With `returned`, a pair of the average and the sum of the weights.
    >>> average(np.array([1.0, 3.0]), weights=np.array([3.0, 1.0])).item()
    1.5
    """
    a = util.ensure_arraylike("average", a)
    if weights is None:
        out = mean(a, axis, keepdims=keepdims)
        if not returned:
            return out
        axes = util.canonicalize_axes(axis, a.ndim)
        return out, lax.full_like(out, util.size_of([a.shape[i] for i in axes]))
    util.check_arraylike("average", a, weights)
    a, weights = util.promote_dtypes_inexact(a, util.as_array(weights))
    if np.shape(weights) != a.shape:
        weights = _align_weights(weights, a, axis)
    total_weight = sum(weights, axis, None, None, keepdims)
    out = lax.div(
        *util.promote_args(
            "average", sum(lax.mul(a, weights), axis, None, None, keepdims), total_weight
        )
    )
    return (out, util.broadcast_array(total_weight, out.shape)) if returned else out


def _align_weights(weights: Any, a: Any, axis: Any) -> Any:
    if axis is None:
        raise new_error(ValueError, "Axis must be specified when shapes of a and weights differ.")
    axes = util.canonicalize_axes(axis, a.ndim)
    expected = tuple(a.shape[i] for i in axes)
    if np.shape(weights) != expected:
        raise new_error(
            ValueError,
            f"Shape of weights must be consistent with shape of a along specified axis: weights "
            f"have shape {np.shape(weights)}, expected {expected}.",
        )
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    weights = lax.transpose(weights, order)
    return lax.broadcast_in_dim(weights, a.shape, tuple(sorted(axes)))
