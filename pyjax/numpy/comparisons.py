"""Whole-array comparisons and tests: allclose, isclose, array_equal, iterable, isscalar..."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyjax import lax
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.numpy import reductions, util
from pyjax.numpy.array_constructors import asarray
from pyjax.numpy.ufuncs import equal, is_complex, is_inexact, isinf, not_equal

__all__ = [
    "allclose",
    "array_equal",
    "array_equiv",
    "iscomplexobj",
    "isclose",
    "isrealobj",
    "isscalar",
    "iterable",
]


def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Array:
    """|a - b| <= atol + rtol |b|, elementwise; infinities of one sign are close; nan is not.

    >>> isclose(1.0, 1.0 + 1e-7).item()
    True
    """
    a, b = util.promote_args("isclose", a, b)
    if not is_inexact(a):
        kind = dtypes.to_inexact_dtype(a.dtype)
        a, b = util.convert(a, kind), util.convert(b, kind)
    difference, magnitude = lax.abs(lax.sub(a, b)), lax.abs(b)
    real = magnitude.dtype
    limit = util.convert(atol, real) + util.convert(rtol, real) * magnitude
    both_finite = lax.bitwise_and(*util.promote_shapes("isclose", _finite(a), _finite(b)))
    close = (difference <= limit) & both_finite | lax.eq(a, b)
    return close | (lax.ne(a, a) & lax.ne(b, b)) if equal_nan else close


def _finite(x: Any) -> Any:
    return ~(isinf(x) | lax.ne(x, x)) if is_complex(x) else lax.is_finite(x)


def allclose(
    a: ArrayLike, b: ArrayLike, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether all elements are close (see `isclose`), as a boolean scalar array.

    >>> jnp.allclose(jnp.array([1.0, 2.0]), jnp.array([1.0, 2.000001]))
    Array(True, dtype=bool)
    """
    util.check_arraylike("allclose", a, b)
    return reductions.all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Array:
    """Whether shapes and all elements are equal.

    >>> jnp.array_equal(jnp.array([1, 2]), jnp.array([1, 2]))
    Array(True, dtype=bool)
    """
    a1, a2 = asarray(a1), asarray(a2)
    if a1.shape != a2.shape:
        return lax.full((), False, np.dtype(np.bool_))
    a1, a2 = util.promote_dtypes(a1, a2)
    same = equal(a1, a2)
    if equal_nan:
        same = same | (not_equal(a1, a1) & not_equal(a2, a2))
    return reductions.all(same)


def array_equiv(a1: Any, a2: Any) -> Array:
    """Whether the arrays are equal after broadcasting.

    >>> jnp.array_equiv(jnp.array([1, 2]), jnp.array([[1, 2], [1, 2]]))
    Array(True, dtype=bool)
    """
    a1, a2 = asarray(a1), asarray(a2)
    try:
        shape = util.broadcast_shapes("array_equiv", [a1.shape, a2.shape])
    except (TypeError, ValueError):
        return lax.full((), False, np.dtype(np.bool_))
    # Broadcast here: to compare ranks is this function's purpose, whatever the rank promotion.
    a1, a2 = util.broadcast_array(a1, shape), util.broadcast_array(a2, shape)
    return reductions.all(equal(a1, a2))


def iscomplexobj(x: Any) -> bool:
    """Whether `x` has a complex dtype.

    >>> jnp.iscomplexobj(jnp.array([1 + 0j]))
    True
    """
    if x is None:
        return False
    x = util.to_jax(x)
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        dtype = asarray(x).dtype if isinstance(x, (list, tuple)) else dtypes.dtype(x)
    return dtypes.issubdtype(dtype, np.complexfloating)


def isrealobj(x: Any) -> bool:
    """Whether `x` does not have a complex dtype.

    >>> jnp.isrealobj(jnp.array([1.0]))
    True
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether `element` is a Python or NumPy scalar, or an array without axes.

    >>> jnp.isscalar(3.0), jnp.isscalar(jnp.ones(1))
    (True, False)
    """
    if np.isscalar(element):
        return True
    return (util.is_array(element) or hasattr(element, "__jax_array__")) and np.ndim(
        util.to_jax(element)
    ) == 0


def iterable(y: ArrayLike) -> bool:
    """Whether `y` can be iterated over.

    >>> jnp.iterable([1]), jnp.iterable(1)
    (True, False)
    """
    return np.iterable(y)
