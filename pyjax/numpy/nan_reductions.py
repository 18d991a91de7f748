"""Reductions that leave nans out: nansum, nanmax, nanmean, nanvar, nanargmax and relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyjax import lax
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.numpy import reductions, util
from pyjax.numpy.eager import one_program
from pyjax.numpy.searching import argmax, argmin
from pyjax.numpy.selection import select_where
from pyjax.numpy.ufuncs import is_complex, is_inexact

__all__ = [
    "nanargmax",
    "nanargmin",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
]


def _not_nan(a: Any) -> Any:
    return lax.eq(a, a)


def _filled(a: Any, value: Any) -> Any:
    return select_where(_not_nan(a), a, np.asarray(value).astype(a.dtype))


@one_program()
def nansum(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Sum over axes with nans counted as zero (arguments as for `sum`).

    >>> jnp.nansum(jnp.array([1.0, jnp.nan, 2.0]))
    Array(3., dtype=float32)
    """
    util.reject_out("nansum", out)
    where = util.check_mask("nansum", where)
    a = util.ensure_arraylike("nansum", a)
    a = _filled(a, 0) if is_inexact(a) else a
    return reductions.sum(a, axis, dtype, None, keepdims, initial, where)


@one_program()
def nanprod(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Product over axes with nans counted as one (arguments as for `prod`).

    >>> jnp.nanprod(jnp.array([2.0, jnp.nan, 3.0]))
    Array(6., dtype=float32)
    """
    util.reject_out("nanprod", out)
    where = util.check_mask("nanprod", where)
    a = util.ensure_arraylike("nanprod", a)
    a = _filled(a, 1) if is_inexact(a) else a
    return reductions.prod(a, axis, dtype, None, keepdims, initial, where)


def _nan_extreme(
    name: str, reduce: Any, fill: float, a: Any, axis: Any, keepdims: bool, initial: Any, where: Any
) -> Any:
    a = util.ensure_arraylike(name, a)
    where = util.check_mask(name, where)
    if not is_inexact(a):
        return reduce(a, axis, None, keepdims, initial, where)
    fill_value = complex(fill, fill) if is_complex(a) else fill
    out = reduce(_filled(a, fill_value), axis, None, keepdims, initial, where)
    only_nans = reductions.all(lax.ne(a, a), axis, None, keepdims, where=where)
    if initial is not None:
        return out
    return select_where(only_nans, np.asarray(np.nan).astype(a.dtype), out)


def nanmax(
    a: ArrayLike,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Largest element over axes that is not nan; nan if all are.

    >>> jnp.nanmax(jnp.array([1.0, jnp.nan]))
    Array(1., dtype=float32)
    """
    util.reject_out("nanmax", out)
    return _nan_extreme("nanmax", reductions.max, -np.inf, a, axis, keepdims, initial, where)


def nanmin(
    a: ArrayLike,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Smallest element over axes that is not nan; nan if all are.

    >>> jnp.nanmin(jnp.array([1.0, jnp.nan]))
    Array(1., dtype=float32)
    """
    util.reject_out("nanmin", out)
    return _nan_extreme("nanmin", reductions.min, np.inf, a, axis, keepdims, initial, where)


@one_program()
def nanmean(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    where: Any = None,
) -> Array:
    """Mean over axes of the elements that are not nan; nan if there are none.

    >>> nanmean(np.array([1.0, np.nan, 3.0])).item()
    2.0
    """
    util.reject_out("nanmean", out)
    where = util.check_mask("nanmean", where)
    a = util.ensure_arraylike("nanmean", a)
    if not is_inexact(a):
        return reductions.mean(a, axis, dtype, None, keepdims, where=where)
    mask = _not_nan(a)
    if where is not None:
        mask = mask & where
    return reductions.mean(a, axis, dtype, None, keepdims, where=mask)


@one_program()
def nanvar(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: Any = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Array:
    """Variance over axes of the elements that are not nan.

    >>> jnp.nanvar(jnp.array([1.0, jnp.nan, 3.0]))
    Array(1., dtype=float32)
    """
    util.reject_out("nanvar", out)
    where = util.check_mask("nanvar", where)
    a = util.ensure_arraylike("nanvar", a)
    mask = _not_nan(a) if is_inexact(a) else None
    if mask is not None:
        a = select_where(mask, a, 0)  # masked or not, a nan would make gradients nan
    if where is not None:
        mask = where if mask is None else mask & where
    return reductions.var(a, axis, dtype, None, ddof, keepdims, where=mask, mean=mean)


@one_program()
def nanstd(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: Any = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Array:
    """Standard deviation over axes of the elements that are not nan.

    >>> jnp.nanstd(jnp.array([1.0, jnp.nan, 3.0]))
    Array(1., dtype=float32)
    """
    util.reject_out("nanstd", out)
    where = util.check_mask("nanstd", where)
    return lax.sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, where, mean))


def nanargmax(
    a: ArrayLike, axis: Any = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Index of the largest element that is not nan; -1 if all are.

    >>> jnp.nanargmax(jnp.array([1.0, jnp.nan, 3.0]))
    Array(2, dtype=int32)
    """
    util.reject_out("nanargmax", out)
    return _nan_arg("nanargmax", argmax, -np.inf, a, axis, bool(keepdims))


def nanargmin(
    a: ArrayLike, axis: Any = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Index of the smallest element that is not nan; -1 if all are.

    >>> jnp.nanargmin(jnp.array([jnp.nan, 2.0, 1.0]))
    Array(2, dtype=int32)
    """
    util.reject_out("nanargmin", out)
    return _nan_arg("nanargmin", argmin, np.inf, a, axis, bool(keepdims))


def _nan_arg(name: str, search: Any, fill: float, a: Any, axis: Any, keepdims: bool) -> Any:
    a = util.ensure_arraylike(name, a)
    if not dtypes.issubdtype(a.dtype, np.inexact):
        return search(a, axis, keepdims=keepdims)
    out = search(_filled(a, fill), axis, keepdims=keepdims)
    only_nans = reductions.all(lax.ne(a, a), axis, None, keepdims)
    return select_where(only_nans, np.asarray(-1, out.dtype), out)
