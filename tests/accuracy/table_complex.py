"""Elementwise functions of complex numbers; errors are moduli, in units of the modulus."""

from __future__ import annotations

from typing import Any

from tests.accuracy.measure import mp
from tests.accuracy.operands import between, complexes, each, nonzero
from tests.accuracy.rows import Row
from tests.accuracy.table_elementwise import TWO

ANY = complexes(nonzero(between(-1e38, 1e38)))
# Whose products neither overflow nor vanish.
FACTOR = complexes(between(-1e9, 1e9))
MODERATE = complexes(between(-80, 80))
NEAR = complexes(between(-3, 3))


def _precisely(function: Any) -> Any:
    """With digits for sums of 1 and the smallest numbers."""

    def with_digits(z: Any) -> Any:
        with mp.workprec(2500):
            return function(z)

    return with_digits


def _logistic(z: Any) -> Any:
    return 1 / (1 + mp.exp(-z))


def _wofz(z: Any) -> Any:
    return mp.exp(-z * z) * mp.erfc(-1j * z)


ROWS = (
    Row("lax.abs numpy.abs numpy.absolute", abs, ANY),
    Row("lax.sign numpy.sign", lambda z: z / abs(z), ANY),
    Row("numpy.angle", mp.arg, ANY),
    Row("lax.square numpy.square", lambda z: z * z, FACTOR),
    Row("lax.sqrt numpy.sqrt", mp.sqrt, ANY),
    Row("lax.rsqrt", lambda z: 1 / mp.sqrt(z), ANY),
    Row("lax.exp numpy.exp", mp.exp, MODERATE),
    Row("lax.exp2 numpy.exp2", lambda z: mp.exp(z * mp.log(2)), NEAR),
    Row("lax.expm1 numpy.expm1", mp.expm1, MODERATE),
    Row("lax.log numpy.log", mp.log, ANY),
    Row("numpy.log2", lambda z: mp.log(z) / mp.log(2), ANY),
    Row("numpy.log10", lambda z: mp.log(z) / mp.log(10), ANY),
    Row("lax.log1p numpy.log1p", _precisely(lambda z: mp.log(1 + z)), ANY, cost=10),
    Row("lax.sin numpy.sin", mp.sin, MODERATE),
    Row("lax.cos numpy.cos", mp.cos, MODERATE),
    Row("lax.tan numpy.tan", mp.tan, MODERATE),
    Row("lax.sinh numpy.sinh", mp.sinh, MODERATE),
    Row("lax.cosh numpy.cosh", mp.cosh, MODERATE),
    Row("lax.tanh numpy.tanh", mp.tanh, MODERATE),
    Row("lax.asin numpy.arcsin numpy.asin", mp.asin, ANY),
    Row("lax.acos numpy.arccos numpy.acos", mp.acos, ANY),
    Row("lax.atan numpy.arctan numpy.atan", _precisely(mp.atan), ANY, cost=10),
    Row("lax.asinh numpy.arcsinh numpy.asinh", mp.asinh, ANY),
    Row("lax.acosh numpy.arccosh numpy.acosh", mp.acosh, ANY),
    Row("lax.atanh numpy.arctanh numpy.atanh", _precisely(mp.atanh), ANY, cost=10),
    Row(
        "lax.logistic",
        _logistic,
        MODERATE,
        scale=lambda z: abs(_logistic(z)) ** 2,
        note="within 4 units in the last place, of its square where that is larger",
    ),
    Row("lax.reciprocal numpy.reciprocal", lambda z: 1 / z, ANY),
    Row("lax.integer_pow", lambda z: z**3, NEAR, call="f(x, 3)"),
    Row("numpy.sinc", lambda z: mp.sincpi(z), NEAR, wide=32),
    Row("lax.mul numpy.multiply", lambda x, y: x * y, each(FACTOR, FACTOR), call=TWO),
    Row(
        "lax.div numpy.divide numpy.true_divide",
        lambda x, y: x / y,
        each(FACTOR, complexes(between(1, 1e9))),
        call=TWO,
    ),
    Row(
        "lax.pow numpy.power numpy.pow numpy.float_power",
        mp.power,
        each(complexes(between(0.1, 9)), NEAR),
        32,
        32,
        TWO,
        note="within 32 units in the last place for exponents up to 3",
    ),
    Row("scipy.special.gamma", mp.gamma, complexes(between(-8, 8)), wide=1000),
    Row(
        "scipy.special.wofz",
        _wofz,
        complexes(between(0, 20)),
        16,
        16,
        note="the error is below 1e-6",
        cost=3,
    ),
)
