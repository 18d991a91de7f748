"""Elementwise functions of `lax` and `numpy`, real and complex."""

from __future__ import annotations

from typing import Any

from tests.accuracy.measure import mp
from tests.accuracy.operands import alike, between, each, nonzero, positive, reals
from tests.accuracy.rows import Row

UNIT = between(-1, 1)
TWO = "f(x, y)"
OF_ONE = "within 4 units in the last place, of 1 where the result is smaller"


def ONE(*_: Any) -> Any:
    return mp.one


def _positive_only(function: Any) -> Any:
    return lambda x: function(x) if x > 0 else mp.ninf if x == 0 else mp.nan


def _i0e(x: Any) -> Any:
    return mp.exp(-abs(x)) * mp.besseli(0, x)


def log_of_sum(x: Any, y: Any) -> Any:
    large, little = max(x, y), min(x, y)
    # Far below, the sum is the larger one to more digits than are compared.
    return large + (mp.log1p(mp.exp(little - large)) if large - little < 2000 else 0)


def _log2_of_sum(x: Any, y: Any) -> Any:
    two = mp.log(2)
    return log_of_sum(x * two, y * two) / two


def sinc(x: Any) -> Any:
    return mp.sincpi(x)


def _power(x: Any, y: Any) -> Any:
    if x == 0:
        return mp.one if y == 0 else mp.zero if y > 0 else mp.inf
    if x < 0 and y != mp.floor(y):
        return mp.nan
    sign = -1 if x < 0 and y % 2 else 1
    exponent = y * mp.log(abs(x))
    return sign * mp.exp(max(min(exponent, mp.mpf(5000)), mp.mpf(-5000)))


_REAL = (
    Row("lax.square numpy.square", lambda x: x * x, reals, 0.5, 0.5),
    Row("lax.sin numpy.sin", mp.sin, reals),
    Row("lax.cos numpy.cos", mp.cos, reals),
    Row("lax.tan numpy.tan", mp.tan, reals),
    Row("lax.sinh numpy.sinh", mp.sinh, between(-800, 800)),
    Row("lax.cosh numpy.cosh", mp.cosh, between(-800, 800)),
    Row("lax.tanh numpy.tanh nn.tanh", mp.tanh, reals),
    Row("lax.asin numpy.arcsin numpy.asin", mp.asin, UNIT),
    Row("lax.acos numpy.arccos numpy.acos", mp.acos, UNIT),
    Row("lax.atan numpy.arctan numpy.atan", mp.atan, reals),
    Row("lax.asinh numpy.arcsinh numpy.asinh", mp.asinh, reals),
    Row("lax.acosh numpy.arccosh numpy.acosh", mp.acosh, reals),
    Row("lax.atanh numpy.arctanh numpy.atanh", mp.atanh, UNIT),
    Row("lax.exp numpy.exp", mp.exp, between(-800, 800)),
    Row("lax.exp2 numpy.exp2", lambda x: mp.power(2, x), between(-1100, 1100)),
    Row("lax.expm1 numpy.expm1", mp.expm1, between(-800, 800)),
    Row("lax.log numpy.log", _positive_only(mp.log), reals),
    Row("numpy.log2", _positive_only(lambda x: mp.log(x, 2)), reals),
    Row("numpy.log10", _positive_only(mp.log10), reals),
    Row("lax.log1p numpy.log1p", mp.log1p, between(-0.99999, 100)),
    Row("lax.log1p numpy.log1p", mp.log1p, positive),
    Row("lax.sqrt numpy.sqrt", mp.sqrt, positive, 0.5, 0.5),
    Row("lax.rsqrt", lambda x: 1 / mp.sqrt(x) if x else mp.inf, positive),
    Row("lax.cbrt numpy.cbrt", lambda x: mp.sign(x) * mp.cbrt(abs(x)), reals),
    Row("lax.logistic nn.sigmoid scipy.special.expit", lambda x: mp.sigmoid(x), between(-800, 800)),
    Row("lax.reciprocal numpy.reciprocal", lambda x: 1 / x if x else mp.inf, positive),
    Row("lax.erf scipy.special.erf", mp.erf, reals),
    Row("lax.integer_pow", lambda x: x**3, reals, call="f(x, 3)"),
    Row("lax.integer_pow", lambda x: x**-2 if x else mp.inf, between(-1e18, 1e18), call="f(x, -2)"),
    Row("numpy.deg2rad numpy.radians", mp.radians, reals),
    Row("numpy.rad2deg numpy.degrees", mp.degrees, reals),
    Row("numpy.sinc", sinc, reals),
    Row("numpy.i0 scipy.special.i0", lambda x: mp.besseli(0, x), between(-93, 93)),
    Row("lax.bessel_i0e scipy.special.i0e", _i0e, between(-1e5, 1e5)),
)

_OF_TWO = (
    Row(
        "lax.div numpy.divide numpy.true_divide",
        lambda x, y: x / y,
        each(reals, between(1e-30, 9)),
        0.5,
        0.5,
        TWO,
    ),
    Row("lax.pow numpy.power numpy.pow numpy.float_power", _power, each(positive, reals), call=TWO),
    Row(
        "lax.pow numpy.power numpy.pow numpy.float_power",
        _power,
        each(reals, between(-9, 9)),
        call=TWO,
    ),
    Row("lax.atan2 numpy.arctan2 numpy.atan2", mp.atan2, alike(nonzero(reals)), call=TWO),
    Row("numpy.hypot", mp.hypot, alike(reals), call=TWO),
    Row("numpy.logaddexp", log_of_sum, alike(reals), call=TWO, scale=ONE, note=OF_ONE),
    Row("numpy.logaddexp", log_of_sum, alike(between(-2, 2)), call=TWO, scale=ONE, note=OF_ONE),
    Row("numpy.logaddexp2", _log2_of_sum, alike(reals), call=TWO, scale=ONE, note=OF_ONE),
    Row("numpy.logaddexp2", _log2_of_sum, alike(between(-2, 2)), call=TWO, scale=ONE, note=OF_ONE),
)

ROWS = (*_REAL, *_OF_TWO)
