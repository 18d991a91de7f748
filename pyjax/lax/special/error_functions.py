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
from pyjax.lax.elementwise import erf, exp, sqrt
from pyjax.lax.nary import define_unary
from pyjax.lax.special.common import FLOAT64, const, horner
from xla_backend.hlo.special_function_tables import (
    ERF_INV_CENTRAL_F32,
    ERF_INV_CENTRAL_F64,
    ERF_INV_MIDDLE_F64,
    ERF_INV_TAIL_F32,
    ERF_INV_TAIL_F64,
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


def _high_part(x: Array) -> Array:
    """x with the lower half of its digits cleared, so that its square is exact."""
    wide = dtype_of(x) == FLOAT64
    mask = -(2**27) if wide else -(2**12)
    integer = np.dtype(np.int64 if wide else np.int32)
    bits = bitcast_convert_type(x, integer)
    return bitcast_convert_type(bitwise_and(bits, np.asarray(mask, integer)), dtype_of(x))


def exp_of_minus_square(x: Array, factor: float = 1.0) -> Array:
    """exp(-factor x**2) for a finite x and a power of two, without the rounding error of x**2
    being magnified: split x = h + l.
    """
    high = _high_part(x)
    rest = mul(sub(x, high), add(x, high))
    scale = const(x, -factor)
    return mul(exp(mul(scale, square(high))), exp(mul(scale, rest)))


def scaled_erfc(y: Array) -> Array:
    """exp(y**2) erfc(y) for 0 <= y <= 30, after Shepherd and Laframboise, Math. Comp. 36 (1981)."""
    t = div(sub(y, const(y, 3.75)), add(y, const(y, 3.75)))
    u = mul(add(t, const(t, 0.115)), const(t, 1 / 0.885))
    scaled = horner(u, ERFC_F64 if dtype_of(y) == FLOAT64 else ERFC_F32)
    return div(scaled, add(add(y, y), const(y, 1.0)))


def erfc_by_polynomial(x: Array) -> Array:
    """erfc(x) by one branch for all x."""
    y = abs_(x)
    y = select(lt(y, const(y, 30.0)), y, full_value(y, 30.0))
    upper = mul(exp_of_minus_square(y), scaled_erfc(y))
    result = select(lt(x, const(x, 0.0)), sub(const(x, 2.0), upper), upper)
    return select(eq(x, x), result, x)


def _erfc(x: Array) -> Array:
    """Where erfc(x) is not small, it has all digits of 1 - erf(x)."""
    near = lt(abs_(x), const(x, 0.5))
    return select(near, sub(const(x, 1.0), erf(x)), erfc_by_polynomial(x))


_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
erfc_p: Primitive = define_unary(
    "erfc",
    None,
    FLOATING,
    lambda g, ans, x: mul(const(x, -_TWO_OVER_ROOT_PI), mul(g, exp(neg(square(x))))),
    lowering=lower_fun(_at_least_single(_erfc)),
)


def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), with full relative accuracy where it is tiny.

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
