"""erfc and erf_inv. (erf itself is an opcode, in elementwise.py.)"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.primitive import Primitive
from pyjax.interpreters.hlo import lower_fun
from pyjax.lax.arithmetic import abs as abs_
from pyjax.lax.arithmetic import add, div, log, mul, neg, square, sub
from pyjax.lax.bitwise import bitwise_and
from pyjax.lax.common import FLOATING, dtype_of
from pyjax.lax.compare import eq, full_value, gt, lt, select
from pyjax.lax.convert import bitcast_convert_type, convert_element_type
from pyjax.lax.elementwise import exp, sqrt
from pyjax.lax.nary import define_unary
from pyjax.lax.special.common import FLOAT64, const, horner
from xla_backend.hlo.special_function_tables import (
    ERF_INV_CENTRAL_F32,
    ERF_INV_CENTRAL_F64,
    ERF_INV_MIDDLE_F64,
    ERF_INV_TAIL_F32,
    ERF_INV_TAIL_F64,
    ERF_SMALL_F32,
    ERF_SMALL_F64,
    ERFC_F32,
    ERFC_F64,
)

_SINGLE = np.dtype(np.float32)


def _at_least_single(function: Any) -> Any:
    """float16 and bfloat16 are computed in float32."""

    def wrapped(x: Array) -> Array:
        dtype = dtype_of(x)
        if dtype in (_SINGLE, FLOAT64):
            return function(x)
        return convert_element_type(function(convert_element_type(x, _SINGLE)), dtype)

    return wrapped


# -- erfc ------------------------------------------------------------------------------------------


# Of (exp(x) - 1) / x, from the cube down.
_EXPM1_SMALL = (1 / 24, 1 / 6, 0.5, 1.0)


def _high_part(x: Array) -> Array:
    """x with the lower half of its digits cleared, so that its square is exact."""
    wide = dtype_of(x) == FLOAT64
    mask = -(2**27) if wide else -(2**12)
    integer = np.dtype(np.int64 if wide else np.int32)
    bits = bitcast_convert_type(x, integer)
    return bitcast_convert_type(bitwise_and(bits, np.asarray(mask, integer)), dtype_of(x))


def times_exp_of_minus_square(times: Array, x: Array, factor: float = 1.0) -> Array:
    """times exp(-factor x**2) for a finite x and a power of two, without the rounding error of x**2
    being magnified: split x = h + l. What l adds to the exponent is below 0.08 where the result is
    not 0, so a few terms are its exponential.
    """
    high = _high_part(x)
    scale = const(x, -factor)
    rest = mul(scale, mul(sub(x, high), add(x, high)))
    near = add(times, mul(times, mul(rest, horner(rest, _EXPM1_SMALL))))
    return mul(near, exp(mul(scale, square(high))))


def scaled_erfc(y: Array, times: float = 1.0) -> Array:
    """times (1 + 2 y) exp(y**2) erfc(y) for y >= 0.49 (float64: 0), a polynomial in a reciprocal,
    after Shepherd and Laframboise, Math. Comp. 36 (1981). It is between 0.88 and 1.26, so errors of
    the reciprocal hardly reach it.
    """
    s = div(const(y, 1.0), add(y, const(y, 2.5)))
    wide = dtype_of(y) == FLOAT64
    table = [times * c for c in (ERFC_F64 if wide else ERFC_F32)]
    return horner(sub(mul(s, const(s, 5.0)), const(s, 1.0)) if wide else s, table)


def erf_of_small(x: Array, root: float = 1.0, times: float = 1.0) -> Array:
    """times erf(root x) where (root x)**2 is at most 0.5."""
    table = ERF_SMALL_F64 if dtype_of(x) == FLOAT64 else ERF_SMALL_F32
    powers = range(2 * len(table) - 1, 0, -2)
    scaled = [times * root**n * c for n, c in zip(powers, table, strict=True)]
    return mul(x, horner(square(x), scaled))


def erfc_by_polynomial(x: Array) -> Array:
    """erfc(x) by one branch, beyond 0.49 from 0 or, in float64, for all x."""
    y = abs_(x)
    y = select(lt(y, const(y, 30.0)), y, full_value(y, 30.0))
    tail = div(scaled_erfc(y), add(add(y, y), const(y, 1.0)))
    upper = times_exp_of_minus_square(tail, y)
    result = select(lt(x, const(x, 0.0)), sub(const(x, 2.0), upper), upper)
    return select(eq(x, x), result, x)


def _erfc(x: Array) -> Array:
    """Where erfc(x) is not small, it has all digits of 1 - erf(x)."""
    near = lt(abs_(x), const(x, 0.5))
    return select(near, sub(const(x, 1.0), erf_of_small(x)), erfc_by_polynomial(x))


_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
erfc_p: Primitive = define_unary(
    "erfc",
    None,
    FLOATING,
    lambda g, ans, x: mul(const(x, -_TWO_OVER_ROOT_PI), mul(g, exp(neg(square(x))))),
    lowering=lower_fun(_at_least_single(_erfc)),
)


def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), with full relative accuracy where it is tiny: float32 to 5.1 units in the last
    place.

    >>> lax.erfc(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return erfc_p.bind1(x)


# -- erf_inv ---------------------------------------------------------------------------------------


def _erf_inv(x: Array) -> Array:
    """x times a polynomial in w = -log(1 - x**2), or in sqrt(w) in the tails, after Giles
    (2010).
    """
    one = const(x, 1.0)
    # (1 - x)(1 + x) keeps the digits that 1 - x**2 would lose in the tails.
    w = neg(log(mul(sub(one, x), add(one, x))))
    s = sqrt(w)
    if dtype_of(x) == FLOAT64:
        ratio = horner(mul(sub(w, const(x, 3.125)), const(x, 1 / 3.125)), ERF_INV_CENTRAL_F64)
        middle = horner(mul(sub(s, const(x, 3.25)), const(x, 1 / 0.75)), ERF_INV_MIDDLE_F64)
        tail = horner(mul(sub(s, const(x, 5.1)), const(x, 1 / 1.1)), ERF_INV_TAIL_F64)
        ratio = select(lt(w, const(x, 6.25)), ratio, middle)
        ratio = select(lt(w, const(x, 16.0)), ratio, tail)
    else:
        ratio = horner(mul(sub(w, const(x, 2.5)), const(x, 1 / 2.5)), ERF_INV_CENTRAL_F32)
        tail = horner(sub(s, const(x, 3.2)), ERF_INV_TAIL_F32)
        ratio = select(lt(w, const(x, 5.0)), ratio, tail)
    result = mul(x, ratio)
    magnitude = abs_(x)
    result = select(eq(magnitude, one), mul(x, full_value(x, np.inf)), result)
    return select(gt(magnitude, one), full_value(x, np.nan), result)


erf_inv_p: Primitive = define_unary(
    "erf_inv",
    None,
    FLOATING,
    lambda g, ans, x: mul(const(x, math.sqrt(math.pi) / 2), mul(g, exp(square(ans)))),
    lowering=lower_fun(_at_least_single(_erf_inv)),
)


def erf_inv(x: ArrayLike) -> Array:
    """The y with erf(y) = x: infinite at -1 and 1, nan outside.

    >>> lax.erf_inv(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return erf_inv_p.bind1(x)
