"""Arithmetic of several lax ops: division, remainders, powers, rounding, parts of floats."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.custom_jvp import custom_jvp
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.core.fault_checks import fault_checks
from pyjax.lax.arithmetic import integer_power
from pyjax.lax.special.bessel import unscaled_i0, unscaled_i1
from pyjax.lax.special.common import in_float64
from pyjax.numpy import util
from pyjax.numpy.eager import one_program
from pyjax.numpy.selection import select_where
from pyjax.numpy.ufuncs import is_complex, is_inexact

__all__ = [
    "around",
    "copysign",
    "deg2rad",
    "degrees",
    "divide",
    "divmod",
    "float_power",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frexp",
    "gcd",
    "heaviside",
    "hypot",
    "i0",
    "lcm",
    "ldexp",
    "log10",
    "log2",
    "mod",
    "modf",
    "pow",
    "power",
    "rad2deg",
    "radians",
    "remainder",
    "rint",
    "round",
    "sinc",
    "spacing",
    "true_divide",
]


def _constant(x: Any, value: Any) -> np.ndarray:
    return np.asarray(value).astype(x.dtype)


def divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 / x2 in floating point, for integers too; division by zero gives inf or nan.

    >>> divide(7, 2).item()
    3.5
    """
    return lax.div(*util.promote_args_inexact("divide", x1, x2))


def true_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Same as `divide`.

    >>> jnp.true_divide(7, 2)
    Array(3.5, dtype=float32, weak_type=True)
    """
    return lax.div(*util.promote_args_inexact("true_divide", x1, x2))


def floor_divide(x1: Any, x2: Any, /) -> Array:
    """The largest whole number not greater than x1 / x2, in the promoted dtype.

    Integer division by zero gives an unspecified integer; float gives inf or nan.
    >>> floor_divide(-7, 2).item()
    -4
    """
    x1, x2 = util.promote_args_numeric("floor_divide", x1, x2)
    if is_complex(x1):
        raise new_error(TypeError, "floor_divide does not support complex-valued inputs")
    if dtypes.issubdtype(x1.dtype, np.unsignedinteger):
        return lax.div(x1, x2)
    return _floor_divide(x1, x2)


@partial(jit, inline=True)
def _floor_divide(x: Any, y: Any) -> Any:
    if dtypes.issubdtype(x.dtype, np.integer):
        quotient, rest = lax.div(x, y), lax.rem(x, y)
        # The truncated quotient is one too large; by zero, the same is done to what `div` gives.
        crosses = (lax.sign(x) != lax.sign(y)) & (rest != 0)
        return select_where(crosses, quotient - 1, quotient)
    rest = lax.rem(x, y)
    # x - rest is an exact multiple of y, so the quotient is whole up to rounding.  Where y is
    # zero the rest is nan, and x / y is the answer.
    exact = select_where(y == 0, x, x - rest) / y
    crosses = (rest != 0) & ((rest < 0) != (y < 0))
    return lax.round(select_where(crosses, exact - 1, exact))


def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Remainder of floor division: has the sign of x2 (Python's %).  Float by zero is nan.

    >>> remainder(-7, 3).item()
    2
    """
    x1, x2 = util.promote_args_numeric("remainder", x1, x2)
    return _remainder(x1, x2)


def mod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Same as `remainder`.

    >>> jnp.mod(-7, 3)
    Array(2, dtype=int32, weak_type=True)
    """
    x1, x2 = util.promote_args_numeric("mod", x1, x2)
    return _remainder(x1, x2)


@partial(jit, inline=True)
def _remainder(x: Any, y: Any) -> Any:
    if dtypes.issubdtype(x.dtype, np.integer):
        y = _no_zero(y)
    rest = lax.rem(x, y)
    if dtypes.issubdtype(x.dtype, np.unsignedinteger):
        return rest
    wrong_sign = (rest != 0) & ((rest < 0) != (y < 0))
    return select_where(wrong_sign, rest + y, rest)


def _no_zero(divisor: Any) -> Any:
    """Integers by zero give zero, unless an option makes that an error."""
    checks = fault_checks()
    return (
        divisor if checks is not None and checks.divide else select_where(divisor == 0, 1, divisor)
    )


def fmod(x1: Any, x2: Any, /) -> Array:
    """Remainder of truncated division: has the sign of x1 (C's fmod).

    >>> jnp.fmod(-7, 3)
    Array(-1, dtype=int32, weak_type=True)
    """
    x1, x2 = util.promote_args_numeric("fmod", x1, x2)
    if dtypes.issubdtype(x1.dtype, np.integer):
        x2 = _no_zero(x2)
    return lax.rem(x1, x2)


@one_program(2)
def divmod(x1: Any, x2: Any, /) -> tuple[Array, Array]:
    """(floor_divide(x1, x2), remainder(x1, x2)).

    >>> jnp.divmod(-7, 3)
    (Array(-3, dtype=int32, weak_type=True), Array(2, dtype=int32, weak_type=True))
    """
    x1, x2 = util.promote_args_numeric("divmod", x1, x2)
    return floor_divide(x1, x2), remainder(x1, x2)


# ---------------------------------------------------------------------------------------------
# Powers and logarithms


def power(x1: Any, x2: Any, /) -> Array:
    """x1 ** x2.

    A Python or NumPy int exponent multiplies (exact, any sign for floats) and leaves the dtype of
    the base; integer arrays with integer exponents stay integers and wrap. Their negative powers
    are 0, but for bases 1 and -1.
    Accuracy: complex powers within 32 units in the last place for exponents up to 3.
    Raises:
      TypeError: an integer array and a negative exponent that is a Python or NumPy int.
    Special cases: power(0, 0) = 1; a negative float to a fractional power is nan.
    >>> power(2.0, -1).item()
    0.5
    """
    util.check_arraylike("power", x1, x2)
    x2 = util.to_jax(x2)
    exponent = _static_exponent(x2)
    if exponent is not None:
        x1 = util.as_array(x1)
        if x1.dtype == np.bool_:
            x1 = util.convert(x1, np.dtype(np.int32))
        if exponent < 0 and not is_inexact(x1):
            raise new_error(
                TypeError,
                f"Integers cannot be raised to negative powers, got power({x1.dtype}, {exponent})."
                "\n  Convert the base to float first: x.astype(float) ** n.",
            )
        return lax.integer_pow(x1, exponent)
    if not _has_int_exponent(x1, x2):
        by_bool = isinstance(x2, bool)
        x1, x2 = util.promote_args_numeric("power", x1, x2)
        if not is_inexact(x1):
            out = integer_power(*_same_shape("power", x1, x2))
            return out if by_bool else util.convert(out, x1.dtype)
        return lax.pow(x1, x2)
    # A float to an integer power: no need to round the exponent to the float dtype.
    dtype, weak = dtypes.result_type(x1, x2, return_weak_type_flag=True)
    x1 = util.convert(x1, dtype, weak)
    x2 = util.as_array(x2)
    return lax.pow(*util.promote_shapes("power", x1, x2))


def _same_shape(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    shape = util.broadcast_shapes(name, [np.shape(x), np.shape(y)])
    return util.broadcast_array(x, shape), util.broadcast_array(y, shape)


def _static_exponent(x: Any) -> int | None:
    if isinstance(x, (bool, np.bool_)) or not isinstance(x, (int, np.integer)):
        return None
    return operator.index(x)


def _has_int_exponent(x1: Any, x2: Any) -> bool:
    kinds = dtypes.dtype(x1), dtypes.dtype(x2)
    return dtypes.issubdtype(kinds[0], np.inexact) and dtypes.issubdtype(kinds[1], np.integer)


def pow(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Same as `power`.

    Accuracy: complex powers within 32 units in the last place for exponents up to 3.

    >>> jnp.pow(2.0, jnp.array([1, 2, 3]))
    Array([2., 4., 8.], dtype=float32)
    """
    return power(x1, x2)


def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x ** y in floating point, whatever the dtypes.

    Accuracy: complex powers within 32 units in the last place for exponents up to 3.

    >>> jnp.float_power(2, -1)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return lax.pow(*util.promote_args_inexact("float_power", x, y))


def _log_base(name: str, base: float) -> Any:
    @util.named(name, f"Logarithm to base {base:g}; -inf at 0, nan below.")
    def fn(x: ArrayLike, /) -> Array:
        (x,) = util.promote_args_inexact(name, x)
        return _scaled_log(x, base)

    return fn


@partial(jit, static_argnames=("base",), inline=True)
def _scaled_log(x: Any, base: float) -> Any:
    if is_complex(x):
        part = lax.real(x).dtype
        scale = np.asarray(np.log(base)).astype(part)
        logarithm = lax.log(x)
        return lax.complex(lax.real(logarithm) / scale, lax.imag(logarithm) / scale)
    return lax.div(lax.log(x), _constant(x, np.log(base)))


log2 = _log_base("log2", 2.0)
log10 = _log_base("log10", 10.0)


# ---------------------------------------------------------------------------------------------
# Rounding


def rint(x: ArrayLike, /) -> Array:
    """The nearest whole number, halves to even, as a float.

    >>> jnp.rint(jnp.array([0.5, 1.5, -1.2]))
    Array([ 0.,  2., -1.], dtype=float32)
    """
    x = util.ensure_arraylike("rint", x)
    if not is_inexact(x):
        return util.convert(x, dtypes.canonicalize_dtype(np.float64))
    return _round_parts(x)


def _round_parts(x: Any) -> Any:
    half_even = lax.RoundingMethod.TO_NEAREST_EVEN
    if is_complex(x):
        return lax.complex(lax.round(lax.real(x), half_even), lax.round(lax.imag(x), half_even))
    return lax.round(x, half_even)


def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """`a` rounded to `decimals` digits after the point, halves to even.

    Negative `decimals` round to tens, hundreds...; integers keep their dtype.
    >>> round(2.5).item(), round(-12.0, -1).item()
    (2.0, -10.0)
    """
    return _round("round", a, decimals, out)


def around(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Same as `round`.

    >>> jnp.around(jnp.array([1.25, 2.75]), 1)
    Array([1.2, 2.8], dtype=float32)
    """
    return _round("around", a, decimals, out)


def _round(name: str, a: Any, decimals: int, out: None) -> Any:
    util.reject_out(name, out)
    x = util.ensure_arraylike(name, a)
    decimals = util.static_int(decimals, "decimals")
    if not is_inexact(x):
        if decimals >= 0:
            return x
        return util.convert(
            _round_scaled(util.convert(x, dtypes.to_inexact_dtype(x.dtype)), decimals), x.dtype
        )
    return _round_parts(x) if decimals == 0 else _round_scaled(x, decimals)


@partial(jit, static_argnames=("decimals",))
def _round_scaled(x: Any, decimals: int) -> Any:
    # Half floats would overflow when scaled: do it in float32.
    compute = np.dtype(np.float32) if x.dtype.itemsize == 2 else x.dtype
    scaled = util.convert(x, compute)
    factor = np.asarray(10.0 ** abs(decimals)).astype(compute)
    if decimals > 0:
        out = lax.div(_round_parts(scaled * factor), _full(scaled, factor))
    else:
        out = _round_parts(lax.div(scaled, _full(scaled, factor))) * factor
    return util.convert(out, x.dtype)


def _full(x: Any, value: Any) -> Any:
    return lax.full_like(x, value)


# ---------------------------------------------------------------------------------------------
# Angles and special functions


def _scale(name: str, factor: float, doc: str) -> Any:
    @util.named(name, doc)
    def fn(x: ArrayLike, /) -> Array:
        (x,) = util.promote_args_inexact(name, x)
        return util.as_weak_as_scalars(lax.mul(x, _constant(x, factor)), x)

    return fn


deg2rad = _scale("deg2rad", np.pi / 180, "Degrees to radians.")
radians = _scale("radians", np.pi / 180, "Degrees to radians.")
rad2deg = _scale("rad2deg", 180 / np.pi, "Radians to degrees.")
degrees = _scale("degrees", 180 / np.pi, "Radians to degrees.")


def sinc(x: ArrayLike, /) -> Array:
    """sin(pi x) / (pi x), and 1 at zero; all derivatives at zero are right to order three.

    >>> jnp.sinc(jnp.array([0.0, 1.0])).round(4)
    Array([ 1., -0.], dtype=float32)
    """
    (x,) = util.promote_args_inexact("sinc", x)
    compute = in_float64(_sinc) if is_complex(x) else _sinc
    return util.as_weak_as_scalars(compute(x), x)


@jit
def _sinc(x: Any) -> Any:
    z = x * _constant(x, np.pi)
    small = lax.abs(z)
    near_zero = small < (1e-2 if small.dtype.itemsize < 8 else 1e-3)
    safe = select_where(near_zero, _constant(z, 1), z)
    # Taylor series: below the threshold its error is under one unit in the last place.
    w = select_where(near_zero, z, _constant(z, 0))
    w = w * w
    series = 1 - w * (1 / 6) * (1 - w * (1 / 20) * (1 - w * (1 / 42)))
    # sin(pi x) up to sign by the distance to the nearest integer, which is exact.
    real = lax.real(x) if is_complex(x) else x
    nearest = lax.round(real, lax.RoundingMethod.TO_NEAREST_EVEN)
    rest = lax.complex(real - nearest, lax.imag(x)) if is_complex(x) else x - nearest
    sine = lax.sin(rest * _constant(x, np.pi))
    odd = lax.ne(lax.rem(nearest, _constant(real, 2)), _constant(real, 0))
    return select_where(near_zero, series, select_where(odd, -sine, sine) / safe)


def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """sqrt(x1**2 + x2**2) without overflow; inf if either is infinite.

    >>> jnp.hypot(jnp.array([3.0, 5.0]), jnp.array([4.0, 12.0]))
    Array([ 5., 13.], dtype=float32)
    """
    x1, x2 = util.promote_args_inexact("hypot", x1, x2)
    if is_complex(x1):
        raise new_error(ValueError, "jnp.hypot does not support complex-valued inputs")
    return util.as_weak_as_scalars(_hypot(x1, x2), x1, x2)


@jit
def _hypot(x: Any, y: Any) -> Any:
    x, y = _same_shape("hypot", lax.abs(x), lax.abs(y))
    large, little = lax.max(x, y), lax.min(x, y)
    ratio = little / select_where(large == 0, _constant(x, 1), large)
    out = select_where(large == 0, large, large * lax.sqrt(_constant(x, 1) + ratio * ratio))
    return select_where((x == np.inf) | (y == np.inf), _constant(x, np.inf), out)


def heaviside(x1: Any, x2: Any, /) -> Array:
    """0 where x1 < 0, 1 where x1 > 0, x2 where x1 is zero; nan stays nan.

    >>> jnp.heaviside(jnp.array([-1.0, 0.0, 1.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x1, x2 = util.promote_args_inexact("heaviside", x1, x2)
    weak = not np.ndim(x1) and dtypes.is_weakly_typed(x1) and dtypes.is_weakly_typed(x2)
    if is_complex(x1):
        raise new_error(
            TypeError, f"heaviside does not support complex-valued inputs, got {x1.dtype}."
        )
    out = _heaviside(x1, x2)
    return util.convert(out, out.dtype, weak)


@jit
def _heaviside(x: Any, at_zero: Any) -> Any:
    zero, one = _constant(x, 0), _constant(x, 1)
    inner = select_where(x > zero, one, select_where(x == zero, at_zero, x))
    return select_where(x < zero, zero, inner)


def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """|x1| with the sign of x2 (of -0.0 too).

    >>> jnp.copysign(3.0, -0.0)
    Array(-3., dtype=float32, weak_type=True)
    """
    x1, x2 = util.promote_args_inexact("copysign", x1, x2)
    if is_complex(x1):
        raise new_error(TypeError, "copysign does not support complex-valued inputs")
    return _copysign(x1, x2)


@jit
def _copysign(x: Any, sign: Any) -> Any:
    bits = np.dtype(f"int{sign.dtype.itemsize * 8}")
    negative = lax.bitcast_convert_type(sign, bits) < 0
    magnitude = lax.abs(x)
    return select_where(negative, -magnitude, magnitude)


def _nan_ignoring(name: str, before: Any, doc: str) -> Any:
    @util.named(name, doc)
    def fn(x1: ArrayLike, x2: ArrayLike) -> Array:
        return _ignore_nan(before, *util.promote_args(name, x1, x2))

    return fn


@partial(jit, static_argnums=(0,))
def _ignore_nan(before: Any, x: Any, y: Any) -> Any:
    # Comparisons with nan are false. Of equal operands it is the second, gradient and all.
    return select_where(before(x, y) | (y != y), x, y)


fmax = _nan_ignoring("fmax", operator.gt, "The larger of x1 and x2; a nan loses to a number.")
fmin = _nan_ignoring("fmin", operator.lt, "The smaller of x1 and x2; a nan loses to a number.")


@one_program()
def i0(x: Any) -> Array:
    """Modified Bessel function of the first kind, order zero.

    >>> jnp.i0(jnp.array([0.0, 1.0])).round(4)
    Array([1.    , 1.2661], dtype=float32)
    """
    (x,) = util.promote_args_inexact("i0", x)
    if is_complex(x):
        raise new_error(ValueError, f"Unsupported input type to jax.numpy.i0: {x.dtype}")
    return _i0(x)


_i0 = custom_jvp(unscaled_i0)


@_i0.defjvp
def _i0_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    # The derivative of I0 is I1, which is odd; going through |x| would be wrong at zero.
    return _i0(x), t * lax.sign(x) * unscaled_i1(lax.abs(x))


def spacing(x: ArrayLike, /) -> Array:
    """Distance from `x` to the next float away from zero, with the sign of `x`.

    In float16, as in NumPy, the distance to the next float above: never negative.

    >>> jnp.spacing(jnp.float32(1)) == 2.0**-23
    Array(True, dtype=bool)
    """
    (x,) = util.promote_args_inexact("spacing", x)
    if is_complex(x):
        raise new_error(ValueError, "jnp.spacing does not support complex-valued inputs")
    out = _spacing(x)
    return util.convert(out, out.dtype)  # never weak, as in JAX


@jit
def _spacing(x: Any) -> Any:
    away = lax.full_like(x, np.inf)
    if x.dtype != np.float16:
        away = _copysign(away, x)
    return select_where(x == x, lax.nextafter(x, away) - x, x)


# ---------------------------------------------------------------------------------------------
# Parts of a float


def modf(x: Any, /, out: None = None) -> tuple[Array, Array]:
    """(fractional part, whole part) of a real array, both with the sign of `x`.

    >>> jnp.modf(jnp.array([-2.5, 3.0]))
    (Array([-0.5,  0. ], dtype=float32), Array([-2.,  3.], dtype=float32))
    """
    util.reject_out("modf", out)
    (x,) = util.promote_args_inexact("modf", x)
    fraction, whole = _modf(x)
    return util.as_weak_as(fraction, x), whole


@jit
def _modf(x: Any) -> tuple[Any, Any]:
    whole = select_where(x >= 0, lax.floor(x), lax.ceil(x))
    fraction = select_where(lax.abs(x) == np.inf, _constant(x, 0), x - whole)
    return _copysign(fraction, x), whole


_MANTISSA_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
_EXPONENT_BITS = {"float16": 5, "bfloat16": 8, "float32": 8, "float64": 11}


def frexp(x: Any, /) -> tuple[Array, Array]:
    """Mantissa in [0.5, 1) with the sign of `x`, and int32 exponent: x = m * 2**e.

    Zeros, infinities and nans are returned unchanged with exponent zero.

    >>> jnp.frexp(12.0)
    (Array(0.75, dtype=float32), Array(4, dtype=int32))
    """
    (x,) = util.promote_args_inexact("frexp", x)
    if is_complex(x):
        raise new_error(TypeError, "frexp does not support complex-valued inputs")
    return _frexp(x)


@jit
def _frexp(x: Any) -> tuple[Any, Any]:
    name = x.dtype.name
    nmant, nexp = _MANTISSA_BITS[name], _EXPONENT_BITS[name]
    bias = 2 ** (nexp - 1) - 1
    int_type = np.dtype(f"int{x.dtype.itemsize * 8}")
    subnormal = (lax.abs(x) < _constant(x, dtypes.finfo(x.dtype).tiny)) & (x != 0)
    up = _constant(x, 2.0**nmant)
    bits = lax.bitcast_convert_type(select_where(subnormal, x * up, x), int_type)
    field = lax.shift_right_logical(bits, np.asarray(nmant, int_type))
    field = field & np.asarray(2**nexp - 1, int_type)
    exponent = util.convert(field, np.dtype(np.int32)) - (bias - 1)
    exponent = select_where(subnormal, exponent - nmant, exponent)
    special = (x == 0) | (lax.abs(x) == np.inf) | (x != x)
    exponent = select_where(special, 0, exponent)
    exponent = util.convert(exponent, np.dtype(np.int32))
    scale = lax.stop_gradient(exponent)
    # m = x * 2**-e, in two steps so that neither factor overflows; linear in x for autodiff.
    half = lax.shift_right_arithmetic(scale, np.int32(1))
    mantissa = _times_power_of_two(_times_power_of_two(x, -half), half - scale)
    return select_where(special, x, mantissa), exponent


def _times_power_of_two(x: Any, n: Any) -> Any:
    """x * 2**n for int32 n within the exponent range, built from bits: exact."""
    name = x.dtype.name
    nmant, nexp = _MANTISSA_BITS[name], _EXPONENT_BITS[name]
    bias = 2 ** (nexp - 1) - 1
    int_type = np.dtype(f"int{x.dtype.itemsize * 8}")
    field = util.convert(n + bias, int_type)
    factor = lax.bitcast_convert_type(lax.shift_left(field, lax.full_like(field, nmant)), x.dtype)
    return x * factor


def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 * 2**x2 for integer x2.

    >>> jnp.ldexp(0.75, 4)
    Array(12., dtype=float32)
    """
    util.check_arraylike("ldexp", x1, x2)
    exponent = util.as_array(x2)
    if not dtypes.issubdtype(exponent.dtype, np.integer):
        raise new_error(
            ValueError, f"ldexp requires x2 to be an integer array, got {exponent.dtype}."
        )
    (x1,) = util.promote_dtypes_inexact(x1)
    if is_complex(x1):
        raise new_error(ValueError, "ldexp does not support complex-valued inputs")
    return _ldexp(x1, exponent)


@jit
def _ldexp(x: Any, n: Any) -> Any:
    nexp = _EXPONENT_BITS[x.dtype.name]
    limit = 2 ** (nexp - 1) - 2
    nmant = _MANTISSA_BITS[x.dtype.name]
    reach = 2 * limit + 2 * nmant
    n = lax.clamp(np.int32(-reach), util.convert(n, np.dtype(np.int32)), np.int32(reach))
    x, n = util.promote_shapes("ldexp", x, n)
    for _ in range(3):  # three steps within the exponent range cover every finite result
        step = lax.clamp(np.int32(-limit), n, np.int32(limit))
        x, n = _times_power_of_two(x, step), n - step
    return x


# ---------------------------------------------------------------------------------------------
# Number theory


def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Greatest common divisor of integers, nonnegative; gcd(0, 0) = 0.

    >>> gcd(12, 18).item()
    6
    """
    x1, x2 = _integers("gcd", x1, x2)
    return _gcd(*_same_shape("gcd", x1, x2))


def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Least common multiple of integers, nonnegative; zero if either is zero.

    >>> jnp.lcm(jnp.array([4, 5]), 6)
    Array([12, 30], dtype=int32)
    """
    x1, x2 = _integers("lcm", x1, x2)
    return util.as_weak_as(_lcm(*_same_shape("lcm", x1, x2)), x1, x2)


def _integers(name: str, x1: Any, x2: Any) -> tuple[Any, Any]:
    util.check_arraylike(name, x1, x2)
    x1, x2 = util.promote_dtypes(x1, x2)
    x1, x2 = util.as_array(x1), util.as_array(x2)
    if not dtypes.issubdtype(x1.dtype, np.integer):
        raise new_error(ValueError, f"Arguments to jnp.{name} must be integers, got {x1.dtype}.")
    return x1, x2


def _absolute_integer(x: Any) -> Any:
    return x if dtypes.issubdtype(x.dtype, np.unsignedinteger) else lax.abs(x)


@jit
def _gcd(x: Any, y: Any) -> Any:
    zero = _constant(x, 0)

    def running(pair: Any) -> Array:
        return lax.reduce_or(pair[1] != zero, tuple(range(np.ndim(pair[1]))))

    def step(pair: Any) -> tuple[Array, Array]:
        a, b = pair
        divisor = select_where(b == zero, _constant(b, 1), b)
        return (select_where(b == zero, a, b), select_where(b == zero, b, lax.rem(a, divisor)))

    x, y = _absolute_integer(x), _absolute_integer(y)
    return lax.while_loop(running, step, (x, y))[0]


@jit
def _lcm(x: Any, y: Any) -> Any:
    x, y = _absolute_integer(x), _absolute_integer(y)
    common = _gcd(x, y)
    divisor = select_where(common == 0, _constant(x, 1), common)
    return select_where(common == 0, _constant(x, 0), x * lax.div(y, divisor))
