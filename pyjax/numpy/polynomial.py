"""Polynomials as coefficient arrays, highest power first: poly, polyval, polyfit, roots..."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.numpy import linalg, linear_algebra, reductions, util
from pyjax.numpy.array_constructors import array
from pyjax.numpy.diagonals import vander
from pyjax.numpy.eager import one_program
from pyjax.numpy.manipulation import atleast_1d, trim_zeros
from pyjax.numpy.signal import convolve
from pyjax.numpy.ufuncs import is_complex

__all__ = [
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "roots",
]


def polyval(p: Any, x: ArrayLike, *, unroll: int = 16) -> Array:
    """p[0] x**(n-1) + ... + p[n-1], by Horner's rule; `unroll` terms per loop step.

    >>> polyval(np.array([1, 0, 2]), 3).item()
    11
    """
    util.check_arraylike("polyval", p, x)
    p, x = (util.as_array(v) for v in util.promote_dtypes(p, util.as_array(x)))
    if p.shape[0] == 0:
        return lax.full(x.shape, 0, p.dtype)
    return _polyval(p, x, util.static_int(unroll, "unroll"))


@partial(jit, static_argnames=("unroll",))
def _polyval(p: Any, x: Any, unroll: int) -> Any:
    shape = util.broadcast_shapes("polyval", [p.shape[1:], x.shape])
    x = util.broadcast_array(x, shape)

    def step(total: Any, coefficient: Any) -> tuple[Any, None]:
        return total * x + util.broadcast_array(coefficient, shape), None

    return lax.scan(step, lax.full(shape, 0, p.dtype), p, unroll=unroll)[0]


def _pair(name: str, a1: Any, a2: Any) -> tuple[Any, Any]:
    util.check_arraylike(name, a1, a2)
    a, b = util.promote_dtypes(a1, a2)
    return atleast_1d(a), atleast_1d(b)


def _combine(name: str, op: Any, a1: Any, a2: Any) -> Any:
    a, b = _pair(name, a1, a2)
    size = max(a.shape[0], b.shape[0])
    zero = util.convert(0, a.dtype, dtypes.is_weakly_typed(a))
    a = lax.pad(a, zero, [(size - a.shape[0], 0, 0)])
    b = lax.pad(b, zero, [(size - b.shape[0], 0, 0)])
    return op(a, b)


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Sum of two polynomials.

    >>> jnp.polyadd(jnp.array([1, 2]), jnp.array([5]))
    Array([1, 7], dtype=int32)
    """
    return _combine("polyadd", lax.add, a1, a2)


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Difference of two polynomials.

    >>> jnp.polysub(jnp.array([1, 2]), jnp.array([5]))
    Array([ 1, -3], dtype=int32)
    """
    return _combine("polysub", lax.sub, a1, a2)


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """Product of two polynomials; `trim_leading_zeros` needs concrete values.

    >>> jnp.polymul(jnp.array([1, 1]), jnp.array([1, -1]))
    Array([ 1.,  0., -1.], dtype=float32)
    """
    a, b = _pair("polymul", a1, a2)
    if trim_leading_zeros and (a.shape[0] > 1 or b.shape[0] > 1):
        a, b = trim_zeros(a, "f"), trim_zeros(b, "f")
    a = lax.full((1,), 0, a.dtype) if a.shape[0] == 0 else a
    b = lax.full((1,), 0, b.dtype) if b.shape[0] == 0 else b
    a, b = util.promote_dtypes_inexact(a, b)
    return convolve(a, b, "full")


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """Quotient and remainder of polynomials.

    >>> jnp.polydiv(jnp.array([1.0, -3.0, 2.0]), jnp.array([1.0, -1.0]))
    (Array([ 1., -2.], dtype=float32), Array([0., 0., 0.], dtype=float32))
    """
    util.check_arraylike("polydiv", u, v)
    u, v = (atleast_1d(x) for x in util.promote_dtypes_inexact(u, v))
    m, n = u.shape[0] - 1, v.shape[0] - 1
    scale = 1 / v[0]
    quotient = lax.full((max(m - n + 1, 1),), 0, u.dtype)
    for k in range(m - n + 1):
        d = scale * u[k]
        quotient = quotient.at[k].set(d)
        u = u.at[k : k + n + 1].add(-d * v)
    if trim_leading_zeros:
        u = trim_zeros(u, "f")
        u = u if u.shape[0] else lax.full((1,), 0, u.dtype)
    return quotient, u


def polyder(p: Any, m: int = 1) -> Array:
    """m-th derivative.

    >>> jnp.polyder(jnp.array([1, 2, 3]))
    Array([2., 2.], dtype=float32)
    """
    util.check_arraylike("polyder", p)
    m = util.static_int(m, "m")
    (p,) = util.promote_dtypes_inexact(util.as_array(p))
    if m < 0:
        raise new_error(ValueError, "Order of derivative must be positive")
    if m == 0:
        return p
    n = p.shape[0]
    if m >= n:
        return lax.full((0,), 0, p.dtype)
    powers = np.arange(n - 1, m - 1, -1)
    factors = np.prod([powers - i for i in range(m)], axis=0)
    return lax.slice_in_dim(p, 0, n - m) * factors.astype(p.dtype)


def polyint(p: Any, m: int = 1, k: Any = None) -> Array:
    """m-th antiderivative with integration constants `k` (default 0).

    >>> jnp.polyint(jnp.array([2.0, 1.0]))
    Array([1., 1., 0.], dtype=float32)
    """
    m = util.static_int(m, "m")
    constants = 0 if k is None else k
    util.check_arraylike("polyint", p, constants)
    p, constants = util.promote_dtypes_inexact(util.as_array(p), util.as_array(constants))
    if m < 0:
        raise new_error(ValueError, "Order of integral must be positive")
    constants = atleast_1d(constants)
    if constants.shape[0] == 1:
        constants = util.broadcast_array(constants, (m,))
    if constants.shape != (m,):
        raise new_error(ValueError, "k must be a scalar or a rank-1 array of length 1 or m.")
    if m == 0:
        return p
    grown = lax.concatenate([p, constants], 0)
    n = p.shape[0]
    powers = np.arange(n + m - 1, -1, -1)
    # Coefficient of x**j: p's are divided by j (j-1) ... (j-m+1), the i-th constant by the
    # factorial of the power it has reached.
    divisors = np.ones(n + m)
    for place, power in enumerate(powers):
        steps = m if place < n else power
        divisors[place] = np.prod([power - i for i in range(steps)]) if steps else 1.0
    return grown / divisors.astype(p.dtype)


@one_program()
def poly(seq_of_zeros: Any) -> Array:
    """Coefficients of the polynomial with these roots, or of a matrix's characteristic one.

    >>> jnp.poly(jnp.array([1.0, 2.0]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    util.check_arraylike("poly", seq_of_zeros)
    (zeros,) = util.promote_dtypes_inexact(util.as_array(seq_of_zeros))
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] and zeros.shape[0] > 0:
        zeros = linalg.eigvals(zeros)
    if zeros.ndim == 0:
        zeros = lax.reshape(zeros, (1,))
    if zeros.ndim != 1:
        raise new_error(ValueError, "input must be 1d or non-empty square 2d array.")
    if zeros.shape[0] == 0:  # the empty product, a scalar as in NumPy
        return lax.full((), 1, zeros.dtype)
    out = lax.full((1,), 1, zeros.dtype)
    for i in range(zeros.shape[0]):
        factor = lax.concatenate([lax.full((1,), 1, zeros.dtype), -zeros[i : i + 1]], 0)
        out = convolve(out, factor, "full")
    return out


def roots(p: Any, *, strip_zeros: bool = True) -> Array:
    """Roots of a polynomial, complex: the eigenvalues of its companion matrix.

    Under jit pass strip_zeros=False: leading zeros then give nan roots.

    >>> jnp.sort(jnp.roots(jnp.array([1.0, -3.0, 2.0])).real).round(3)
    Array([1., 2.], dtype=float32)
    """
    util.check_arraylike("roots", p)
    (p,) = util.promote_dtypes_inexact(util.as_array(p))
    p = atleast_1d(p)
    if p.ndim != 1:
        raise new_error(ValueError, "Input must be a rank-1 array.")
    kind = dtypes.to_complex_dtype(p.dtype)
    if p.shape[0] < 2:
        return lax.full((0,), 0, kind)
    if not strip_zeros:
        return _roots(p)
    value = util.concrete_or_none(p)
    if value is None:
        raise util.concretization_error(
            p,
            "jnp.roots: the number of roots depends on leading zeros. Under jit pass "
            "strip_zeros=False.",
        )
    nonzero = np.flatnonzero(value)
    if not nonzero.size:
        return lax.full((0,), 0, kind)
    trailing = p.shape[0] - 1 - int(nonzero[-1])
    p = lax.slice_in_dim(p, int(nonzero[0]), int(nonzero[-1]) + 1)
    found = _roots(p) if p.shape[0] > 1 else lax.full((0,), 0, kind)
    return lax.concatenate([found, lax.full((trailing,), 0, kind)], 0) if trailing else found


@jit
def _roots(p: Any) -> Any:
    n = p.shape[0] - 1
    first = lax.expand_dims(-lax.slice_in_dim(p, 1, n + 1) / p[0], (0,))
    shift = np.eye(n, k=-1)[1:].astype(p.dtype)
    return linalg.eigvals(lax.concatenate([first, util.as_array(shift)], 0))


@one_program(2)
def polyfit(
    x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """Coefficients of the least-squares polynomial of degree `deg` through the points (x, y).

    Args:
      y: 1-d, or 2-d with one data set per column.  w: weights of the residuals.
      full: also return residuals, rank, singular values and rcond; cov: also the covariance.

    >>> jnp.polyfit(jnp.array([0.0, 1.0, 2.0]), jnp.array([1.0, 3.0, 5.0]), 1).round(3)
    Array([2., 1.], dtype=float32)
    """
    util.check_arraylike("polyfit", x, y)
    deg = util.static_int(deg, "deg")
    if deg < 0:
        raise new_error(ValueError, "expected deg >= 0")
    x, y = util.promote_dtypes_inexact(util.as_array(x), util.as_array(y))
    if x.ndim != 1:
        raise new_error(TypeError, "expected 1D vector for x")
    if x.size == 0:
        raise new_error(TypeError, "expected non-empty vector for x")
    if y.ndim not in (1, 2):
        raise new_error(TypeError, "expected 1D or 2D array for y")
    if x.shape[0] != y.shape[0]:
        raise new_error(TypeError, "expected x and y to have same length")
    if rcond is None:
        rcond = x.shape[0] * float(dtypes.finfo(x.dtype).eps)
    left = vander(x, deg + 1)
    right = y
    if w is not None:
        util.check_arraylike("polyfit", w)
        w = util.convert(w, x.dtype)
        if w.ndim != 1:
            raise new_error(TypeError, "expected a 1-d array for weights")
        if w.shape[0] != y.shape[0]:
            raise new_error(TypeError, "expected w and y to have the same length")
        left = left * lax.expand_dims(w, (1,))
        right = right * (lax.expand_dims(w, (1,)) if y.ndim == 2 else w)
    magnitude = lax.real(left * lax.conj(left)) if is_complex(left) else lax.square(left)
    scale = lax.sqrt(reductions.sum(magnitude, 0))
    left = left / lax.expand_dims(util.convert(scale, left.dtype), (0,))
    c, residuals, rank, s = linalg.lstsq(left, right, rcond)
    divisor = util.convert(scale, c.dtype)
    c = c / (lax.expand_dims(divisor, (1,)) if c.ndim == 2 else divisor)
    if full:
        return c, residuals, rank, s, util.convert(rcond, x.dtype)
    if not cov:
        return c
    base = linalg.inv(linear_algebra.dot(lax.transpose(left, (1, 0)), left))
    base = base / linear_algebra.outer(scale, scale)
    if isinstance(cov, str) and cov == "unscaled":
        return c, base
    order = deg + 1
    if x.shape[0] <= order:
        raise new_error(
            ValueError, "the number of data points must exceed order to scale the covariance matrix"
        )
    factor = residuals / np.asarray(x.shape[0] - order, x.dtype)
    if y.ndim == 1:
        return c, base * factor
    return c, lax.expand_dims(base, (2,)) * factor


def coefficients(p: Any) -> Any:
    """A coefficient array from a sequence or array, without leading zeros made concrete."""
    return array(p)
