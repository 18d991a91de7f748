"""Elementwise functions of pyjax.numpy, in tables where a function is one lax op after promotion.

A row is the public name, the lax function and the sentence of documentation.  `Inexact` rows
take integers to the default float; `Numeric` rows keep the promoted dtype.  The twelve names
that are ufunc *objects* (`add`, `multiply`, ...) are made in ufunc_objects.py from the plain
functions here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.numpy import util
from pyjax.numpy.eager import compiled_unary

Fn = Callable[..., Any]


# ---------------------------------------------------------------------------------------------
# Table makers


def _inexact_unary(name: str, op: Fn, doc: str) -> Fn:
    """A float or complex function of one array; integers and booleans become floats."""

    @util.named(name, f"{doc}\n\n    Integers and booleans are promoted to the default float.")
    def fn(x: ArrayLike, /) -> Array:
        return op(*util.promote_args_inexact(name, x))

    return compiled_unary(fn)


def _unary(name: str, op: Fn, doc: str) -> Fn:
    """A function of one array that keeps its dtype."""

    @util.named(name, doc)
    def fn(x: ArrayLike, /) -> Array:
        return op(*util.promote_args(name, x))

    return compiled_unary(fn)


def _inexact_binary(name: str, op: Fn, doc: str) -> Fn:
    @util.named(name, f"{doc}\n\n    Operands broadcast; integers and booleans become floats.")
    def fn(x1: ArrayLike, x2: ArrayLike, /) -> Array:
        return op(*util.promote_args_inexact(name, x1, x2))

    return fn


def _binary(name: str, op: Fn, doc: str) -> Fn:
    @util.named(name, f"{doc}\n\n    Operands are promoted to a common dtype and broadcast.")
    def fn(x: ArrayLike, y: ArrayLike, /) -> Array:
        return op(*util.promote_args(name, x, y))

    return fn


def _logical_binary(name: str, op: Fn, doc: str) -> Fn:
    @util.named(name, f"{doc}\n\n    Numbers count as True unless they are zero.")
    def fn(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = util.promote_args(name, x, y)
        return op(_to_bool(x), _to_bool(y))

    return fn


def _to_bool(x: Any) -> Any:
    x = util.as_array(x)
    if x.dtype == np.bool_:
        return x
    return util.as_weak_as_scalars(util.truth(x), x)


def _zero(x: Any) -> np.ndarray:
    return np.zeros((), x.dtype)


def _like(x: Any, value: Any) -> np.ndarray:
    return np.asarray(value).astype(x.dtype)


def is_complex(x: Any) -> bool:
    """Whether the array has a complex dtype."""
    return dtypes.issubdtype(x.dtype, np.complexfloating)


def is_inexact(x: Any) -> bool:
    """Whether the array has a floating or complex dtype."""
    return dtypes.issubdtype(x.dtype, np.inexact)


# ---------------------------------------------------------------------------------------------
# Inexact unary functions

sin = _inexact_unary("sin", lax.sin, "Sine of `x` in radians; nan at infinities.")
cos = _inexact_unary("cos", lax.cos, "Cosine of `x` in radians; nan at infinities.")
tan = _inexact_unary("tan", lax.tan, "Tangent of `x` in radians; nan at infinities.")
arcsin = _inexact_unary("arcsin", lax.asin, "Inverse sine in [-pi/2, pi/2]; nan outside [-1, 1].")
asin = _inexact_unary("asin", lax.asin, "Inverse sine in [-pi/2, pi/2]; nan outside [-1, 1].")
arccos = _inexact_unary("arccos", lax.acos, "Inverse cosine in [0, pi]; nan outside [-1, 1].")
acos = _inexact_unary("acos", lax.acos, "Inverse cosine in [0, pi]; nan outside [-1, 1].")
arctan = _inexact_unary("arctan", lax.atan, "Inverse tangent in [-pi/2, pi/2].")
atan = _inexact_unary("atan", lax.atan, "Inverse tangent in [-pi/2, pi/2].")
sinh = _inexact_unary("sinh", lax.sinh, "Hyperbolic sine.")
cosh = _inexact_unary("cosh", lax.cosh, "Hyperbolic cosine.")
tanh = _inexact_unary("tanh", lax.tanh, "Hyperbolic tangent, in [-1, 1].")
arcsinh = _inexact_unary("arcsinh", lax.asinh, "Inverse hyperbolic sine.")
asinh = _inexact_unary("asinh", lax.asinh, "Inverse hyperbolic sine.")
arccosh = _inexact_unary("arccosh", lax.acosh, "Inverse hyperbolic cosine; nan below 1.")
acosh = _inexact_unary("acosh", lax.acosh, "Inverse hyperbolic cosine; nan below 1.")
arctanh = _inexact_unary("arctanh", lax.atanh, "Inverse hyperbolic tangent; inf at +-1.")
atanh = _inexact_unary("atanh", lax.atanh, "Inverse hyperbolic tangent; inf at +-1.")
exp = _inexact_unary("exp", lax.exp, "e to the power `x`.")
exp2 = _inexact_unary("exp2", lax.exp2, "2 to the power `x`.")
expm1 = _inexact_unary("expm1", lax.expm1, "exp(x) - 1, accurate near zero.")
log = _inexact_unary("log", lax.log, "Natural logarithm; -inf at 0, nan below.")
log1p = _inexact_unary("log1p", lax.log1p, "log(1 + x), accurate near zero.")
sqrt = _inexact_unary("sqrt", lax.sqrt, "Nonnegative square root; nan below zero.")
cbrt = _inexact_unary("cbrt", lax.cbrt, "Cube root, negative for negative `x`.")

# ---------------------------------------------------------------------------------------------
# Binary functions

arctan2 = _inexact_binary(
    "arctan2", lax.atan2, "Angle of the point (x2, x1) in radians, in [-pi, pi], quadrant-aware."
)
atan2 = _inexact_binary(
    "atan2", lax.atan2, "Angle of the point (x2, x1) in radians, in [-pi, pi], quadrant-aware."
)
nextafter = _inexact_binary("nextafter", lax.nextafter, "The next float after x1 towards x2.")


equal = _binary("equal", lax.eq, "x == y, elementwise; nan equals nothing. Keys are equal or not.")
not_equal = _binary("not_equal", lax.ne, "x != y, elementwise; nan differs from everything.")


def _ordered(name: str, op: Fn, doc: str) -> Fn:
    """A comparison; complex numbers are ordered by real, then imaginary part (as in NumPy)."""

    @util.named(name, doc)
    def fn(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = util.promote_args(name, x, y)
        if not is_complex(x):
            return op(x, y)
        real_x, real_y = lax.real(x), lax.real(y)
        return lax.select(
            *util.promote_shapes(
                name, lax.eq(real_x, real_y), op(lax.imag(x), lax.imag(y)), op(real_x, real_y)
            )
        )

    return fn


greater = _ordered("greater", lax.gt, "x > y, elementwise; False where either is nan.")
greater_equal = _ordered("greater_equal", lax.ge, "x >= y, elementwise; False at nan.")
less = _ordered("less", lax.lt, "x < y, elementwise; False where either is nan.")
less_equal = _ordered("less_equal", lax.le, "x <= y, elementwise; False at nan.")


# Plain functions behind the ufunc objects, and behind the operators of arrays.


def add_arrays(x1: Any, x2: Any, /) -> Array:
    """x1 + x2 (logical or for booleans).

    >>> jnp.add(jnp.array([1, 2]), 10)
    Array([11, 12], dtype=int32)
    """
    x1, x2 = util.promote_args("add", x1, x2)
    return lax.add(x1, x2) if x1.dtype != np.bool_ else lax.bitwise_or(x1, x2)


def multiply_arrays(x1: Any, x2: Any, /) -> Array:
    """x1 * x2 (logical and for booleans).

    >>> jnp.multiply(jnp.array([1, 2]), 10)
    Array([10, 20], dtype=int32)
    """
    x1, x2 = util.promote_args("multiply", x1, x2)
    return lax.mul(x1, x2) if x1.dtype != np.bool_ else lax.bitwise_and(x1, x2)


subtract_arrays = _binary("subtract", lax.sub, "x1 - x2.")
negative_array = _unary("negative", lax.neg, "-x.")
maximum_arrays = _binary("maximum", lax.max, "The larger of x1 and x2; nan where either is nan.")
minimum_arrays = _binary("minimum", lax.min, "The smaller of x1 and x2; nan where either is nan.")
bitwise_and_arrays = _binary("bitwise_and", lax.bitwise_and, "x1 & x2 for integers and booleans.")
bitwise_or_arrays = _binary("bitwise_or", lax.bitwise_or, "x1 | x2 for integers and booleans.")
bitwise_xor_arrays = _binary("bitwise_xor", lax.bitwise_xor, "x1 ^ x2 for integers and booleans.")
logical_and_arrays = _logical_binary("logical_and", lax.bitwise_and, "Elementwise `and`.")
logical_or_arrays = _logical_binary("logical_or", lax.bitwise_or, "Elementwise `or`.")
logical_xor_arrays = _logical_binary("logical_xor", lax.bitwise_xor, "Elementwise exclusive or.")

# ---------------------------------------------------------------------------------------------
# Functions with a rule of their own for some dtypes


def _rounding(name: str, op: Fn, doc: str) -> Fn:
    """Integers and booleans are whole already and are returned unchanged."""

    @util.named(name, doc)
    def fn(x: ArrayLike, /) -> Array:
        x = util.ensure_arraylike(name, x)
        return op(x) if is_inexact(x) else x

    return compiled_unary(fn)


ceil = _rounding("ceil", lax.ceil, "The smallest whole number not less than `x`.")
floor = _rounding("floor", lax.floor, "The largest whole number not greater than `x`.")


def trunc(x: ArrayLike) -> Array:
    """`x` rounded towards zero.

    >>> trunc(-1.7).item()
    -1.0
    """
    x = util.ensure_arraylike("trunc", x)
    if not is_inexact(x):
        return x
    return lax.select(lax.lt(x, _full_zero(x)), lax.ceil(x), lax.floor(x))


def _full_zero(x: Any) -> Any:
    return lax.full_like(x, 0)


@compiled_unary
def abs(x: ArrayLike, /) -> Array:
    """Absolute value; the modulus (a real array) for complex `x`.

    The most negative integer has no positive counterpart and is returned unchanged.
    >>> abs(-3.5).item()
    3.5
    """
    x = util.ensure_arraylike("abs", x)
    if x.dtype == np.bool_ or dtypes.issubdtype(x.dtype, np.unsignedinteger):
        return x
    return lax.abs(x)


def absolute(x: ArrayLike, /) -> Array:
    """Same as `abs`.

    >>> jnp.absolute(jnp.array([-1.5, 2.0]))
    Array([1.5, 2. ], dtype=float32)
    """
    return abs(x)


def fabs(x: Any, /) -> Array:
    """Absolute value of a real array, as a float.

    >>> jnp.fabs(-2)
    Array(2., dtype=float32, weak_type=True)
    """
    (x,) = util.promote_args_inexact("fabs", x)
    if is_complex(x):
        raise new_error(
            TypeError, f"jnp.fabs does not take complex arrays ({x.dtype}); use jnp.abs."
        )
    return lax.abs(x)


def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1 by the sign of `x`; `x / abs(x)` for complex; nan stays nan.

    >>> jnp.sign(jnp.array([-2.0, 0.0, 3.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    (x,) = util.promote_args("sign", x)
    return lax.sign(x)


def positive(x: ArrayLike, /) -> Array:
    """`x` itself, as an array.

    >>> jnp.positive(jnp.array([1, -2]))
    Array([ 1, -2], dtype=int32)
    """
    return util.ensure_arraylike("positive", x)


def signbit(x: Any, /) -> Array:
    """True where the sign bit is set: below zero, -0.0 and negative nans.

    >>> jnp.signbit(jnp.array([-0.0, 0.0]))
    Array([ True, False], dtype=bool)
    """
    (x,) = util.promote_args("signbit", x)
    if dtypes.issubdtype(x.dtype, np.integer):
        return lax.lt(x, _zero(x))
    if x.dtype == np.bool_:
        return lax.full_like(x, False)
    if not dtypes.issubdtype(x.dtype, np.floating):
        raise new_error(ValueError, f"jnp.signbit is not defined for {x.dtype}; use a real dtype.")
    bits = np.dtype(f"int{x.dtype.itemsize * 8}")
    return lax.lt(lax.bitcast_convert_type(x, bits), np.zeros((), bits))


def square(x: ArrayLike, /) -> Array:
    """x * x.

    >>> square(-3).item()
    9
    """
    (x,) = util.promote_args_numeric("square", x)
    return lax.square(x)


def reciprocal(x: ArrayLike, /) -> Array:
    """1 / x; inf at zero.

    >>> jnp.reciprocal(4.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    (x,) = util.promote_args_inexact("reciprocal", x)
    return lax.integer_pow(x, -1)


def conjugate(x: ArrayLike, /) -> Array:
    """Complex conjugate; real arrays are returned unchanged.

    >>> jnp.conjugate(1 + 2j)
    Array(1.-2.j, dtype=complex64, weak_type=True)
    """
    x = util.ensure_arraylike("conjugate", x)
    return lax.conj(x) if is_complex(x) else x


def conj(x: ArrayLike, /) -> Array:
    """Same as `conjugate`.

    >>> jnp.conj(1 + 2j)
    Array(1.-2.j, dtype=complex64, weak_type=True)
    """
    return conjugate(x)


def real(val: Any, /) -> Array:
    """Real part.

    >>> jnp.real(1 + 2j)
    Array(1., dtype=float32, weak_type=True)
    """
    x = util.ensure_arraylike("real", val)
    return lax.real(x) if is_complex(x) else x


def imag(val: Any, /) -> Array:
    """Imaginary part; zeros for real arrays.

    >>> jnp.imag(1 + 2j)
    Array(2., dtype=float32, weak_type=True)
    """
    x = util.ensure_arraylike("imag", val)
    return lax.imag(x) if is_complex(x) else lax.full_like(x, 0)


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Argument of the complex number `z`, in (-pi, pi] (degrees with `deg`).

    >>> jnp.angle(jnp.array([1.0, -2.0]), deg=True)
    Array([  0., 180.], dtype=float32)
    """
    z = util.ensure_arraylike("angle", z)
    dtype = z.dtype if is_inexact(z) else dtypes.canonicalize_dtype(np.float64)
    # Only the angle of a complex number keeps the weak type, as in JAX.
    z = util.convert(z, dtype, is_complex(z) and dtypes.is_weakly_typed(z))
    im = lax.imag(z) if is_complex(z) else lax.full_like(z, 0)
    re = lax.real(z) if is_complex(z) else z
    out = lax.atan2(im, re)
    return lax.mul(out, _like(out, 180 / np.pi)) if deg else out


def logical_not(x: ArrayLike, /) -> Array:
    """True where `x` is False or zero.

    >>> jnp.logical_not(jnp.array([0, 2]))
    Array([ True, False], dtype=bool)
    """
    x = util.ensure_arraylike("logical_not", x)
    return lax.bitwise_not(_to_bool(x))


def _invert(name: str) -> Fn:
    @util.named(name, "Bitwise complement for integers, `not` for booleans.")
    def fn(x: ArrayLike, /) -> Array:
        (x,) = util.promote_args(name, x)
        return lax.bitwise_not(x)

    return fn


invert, bitwise_not, bitwise_invert = map(_invert, ("invert", "bitwise_not", "bitwise_invert"))


def bitwise_count(x: ArrayLike, /) -> Array:
    """Number of one bits of the absolute value of each integer, as uint8.

    >>> jnp.bitwise_count(jnp.array([0, 7, 255]))
    Array([0, 3, 8], dtype=uint8)
    """
    (x,) = util.promote_args_numeric("bitwise_count", x)
    return util.convert(lax.population_count(abs(x)), np.dtype(np.uint8))


def _check_integers(name: str, *args: Any) -> None:
    for x in args:
        if x.dtype != np.bool_ and not dtypes.issubdtype(x.dtype, np.integer):
            raise new_error(TypeError, f"{name} does not accept dtype {x.dtype}; use integers.")


def _left_shift(name: str) -> Fn:
    @util.named(name, "x * 2**y for integers, keeping the low bits.")
    def fn(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = util.promote_args_numeric(name, x, y)
        _check_integers(name, x, y)
        return lax.shift_left(x, y)

    return fn


left_shift, bitwise_left_shift = map(_left_shift, ("left_shift", "bitwise_left_shift"))


def _right_shift(name: str) -> Fn:
    @util.named(name, "x1 / 2**x2 rounded down; the sign bit is kept for signed integers.")
    def fn(x1: Any, x2: Any, /) -> Array:
        x1, x2 = util.promote_args_numeric(name, x1, x2)
        _check_integers(name, x1, x2)
        unsigned = dtypes.issubdtype(x1.dtype, np.unsignedinteger)
        return (lax.shift_right_logical if unsigned else lax.shift_right_arithmetic)(x1, x2)

    return fn


right_shift, bitwise_right_shift = map(_right_shift, ("right_shift", "bitwise_right_shift"))


# ---------------------------------------------------------------------------------------------
# Classification


def isfinite(x: ArrayLike, /) -> Array:
    """True where `x` is neither infinite nor nan.

    >>> jnp.isfinite(jnp.array([1.0, jnp.inf, jnp.nan]))
    Array([ True, False, False], dtype=bool)
    """
    x = util.ensure_arraylike("isfinite", x)
    if dtypes.issubdtype(x.dtype, np.floating):
        return lax.is_finite(x)
    if is_complex(x):
        return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    return lax.full_like(x, True, dtype=np.bool_)


def isinf(x: ArrayLike, /) -> Array:
    """True where `x` (or a part of it, if complex) is +inf or -inf.

    >>> jnp.isinf(jnp.array([1.0, -jnp.inf, jnp.nan]))
    Array([False,  True, False], dtype=bool)
    """
    x = util.ensure_arraylike("isinf", x)
    if dtypes.issubdtype(x.dtype, np.floating):
        return lax.eq(lax.abs(x), _like(x, np.inf))
    if is_complex(x):
        return lax.bitwise_or(isinf(lax.real(x)), isinf(lax.imag(x)))
    return lax.full_like(x, False, dtype=np.bool_)


def isnan(x: ArrayLike, /) -> Array:
    """True where `x` is not a number.

    >>> isnan(float("nan")).item()
    True
    """
    x = util.ensure_arraylike("isnan", x)
    return lax.ne(x, x)


def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """True where the real array `x` is +inf.

    >>> jnp.isposinf(jnp.array([jnp.inf, -jnp.inf]))
    Array([ True, False], dtype=bool)
    """
    return _is_signed_inf("isposinf", x, out, np.inf)


def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """True where the real array `x` is -inf.

    >>> jnp.isneginf(jnp.array([jnp.inf, -jnp.inf]))
    Array([False,  True], dtype=bool)
    """
    return _is_signed_inf("isneginf", x, out, -np.inf)


def _is_signed_inf(name: str, x: Any, out: Any, value: float) -> Any:
    util.reject_out(name, out)
    x = util.ensure_arraylike(name, x)
    if dtypes.issubdtype(x.dtype, np.floating):
        return lax.eq(x, _like(x, value))
    if is_complex(x):
        raise new_error(
            ValueError, f"jnp.{name} does not support complex values; test the real part."
        )
    return lax.full_like(x, False, dtype=np.bool_)


def iscomplex(x: ArrayLike) -> Array:
    """True where the imaginary part is not zero.

    >>> jnp.iscomplex(jnp.array([1 + 1j, 1 + 0j]))
    Array([ True, False], dtype=bool)
    """
    im = imag(x)
    return lax.ne(im, _zero(im))


def isreal(x: ArrayLike) -> Array:
    """True where the imaginary part is zero.

    >>> jnp.isreal(jnp.array([1 + 1j, 1 + 0j]))
    Array([False,  True], dtype=bool)
    """
    im = imag(x)
    return lax.eq(im, _zero(im))
