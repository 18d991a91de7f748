"""Running sums and products: cumsum, cumprod, nan versions, cumulative_sum, cumulative_prod."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.numpy import util
from pyjax.numpy.eager import one_program
from pyjax.numpy.reductions import promote_integer_dtype
from pyjax.numpy.selection import select_where
from pyjax.numpy.ufuncs import is_inexact

__all__ = [
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "nancumprod",
    "nancumsum",
]


def _cumulative(
    name: str,
    op: Callable[..., Any],
    a: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    fill_nan: int | None = None,
    promote_integers: bool = False,
) -> Any:
    util.reject_out(name, out)
    a = util.ensure_arraylike(name, a)
    dtype = util.check_user_dtype(dtype, name)
    if axis is None or a.ndim == 0:
        a = lax.reshape(a, (a.size,)) if a.ndim != 1 else a
        axis = axis or 0
    axis = util.canonicalize_axis(axis, a.ndim)
    if fill_nan is not None and is_inexact(a):
        a = select_where(lax.ne(a, a), np.asarray(fill_nan).astype(a.dtype), a)
    if dtype is None:
        dtype = a.dtype
        if dtype == np.bool_ or promote_integers:
            dtype = promote_integer_dtype(dtype)
    a = util.convert(a, dtypes.canonicalize_dtype(dtype))
    if a.dtype == np.bool_:  # sums are "any so far", products "all so far"
        running = lax.cummax if op is lax.cumsum else lax.cummin
        return util.convert(running(util.convert(a, np.dtype(np.int8)), axis), a.dtype)
    return op(a, axis)


@one_program()
def cumsum(a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None) -> Array:
    """Running sum along `axis` (of the flattened array by default).

    >>> cumsum(np.array([1, 2, 3])).tolist()
    [1, 3, 6]
    """
    return _cumulative("cumsum", lax.cumsum, a, axis, dtype, out)


@one_program()
def cumprod(a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None) -> Array:
    """Running product along `axis` (of the flattened array by default).

    >>> jnp.cumprod(jnp.array([1, 2, 3, 4]))
    Array([ 1,  2,  6, 24], dtype=int32)
    """
    return _cumulative("cumprod", lax.cumprod, a, axis, dtype, out)


def nancumsum(a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None) -> Array:
    """`cumsum` with nans counted as zero.

    >>> jnp.nancumsum(jnp.array([1.0, jnp.nan, 2.0]))
    Array([1., 1., 3.], dtype=float32)
    """
    return _cumulative("nancumsum", lax.cumsum, a, axis, dtype, out, fill_nan=0)


def nancumprod(a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None) -> Array:
    """`cumprod` with nans counted as one.

    >>> jnp.nancumprod(jnp.array([2.0, jnp.nan, 3.0]))
    Array([2., 2., 6.], dtype=float32)
    """
    return _cumulative("nancumprod", lax.cumprod, a, axis, dtype, out, fill_nan=1)


def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Running sum along `axis` (array API); small integers are promoted.

    With `include_initial` the result starts with zero and is one longer.

    >>> jnp.cumulative_sum(jnp.array([2, 3]), include_initial=True)
    Array([0, 2, 5], dtype=int32)
    """
    return _array_api("cumulative_sum", lax.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Running product along `axis` (array API); with `include_initial` it starts with one.

    >>> jnp.cumulative_prod(jnp.array([2, 3]), include_initial=True)
    Array([1, 2, 6], dtype=int32)
    """
    return _array_api("cumulative_prod", lax.cumprod, 1, x, axis, dtype, include_initial)


def _array_api(
    name: str, op: Callable[..., Any], initial: int, x: Any, axis: Any, dtype: Any, include: bool
) -> Any:
    x = util.ensure_arraylike(name, x)
    if x.ndim == 0:
        raise new_error(
            ValueError,
            f"The input must be non-scalar to take {name}; received a scalar of dtype {x.dtype}.",
        )
    if axis is None:
        if x.ndim > 1:
            raise new_error(
                ValueError,
                f"The input array has rank {x.ndim}, however axis was not set to an explicit "
                "value. The axis argument is only optional for one-dimensional arrays.",
            )
        axis = 0
    axis = util.canonicalize_axis(axis, x.ndim)
    out = _cumulative(name, op, x, axis, dtype, None, promote_integers=True)
    if not include:
        return out
    first = [1 if i == axis else n for i, n in enumerate(out.shape)]
    return lax.concatenate([lax.full(tuple(first), initial, out.dtype), out], axis)
