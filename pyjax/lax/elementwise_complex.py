"""Inverse trigonometric and hyperbolic functions of complex numbers, from real ones and the complex
sqrt.

W. Kahan, "Branch cuts for complex elementary functions", 1987: formulas that keep the sign of zero
on the cuts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyjax.core.array import Array
from pyjax.core.primitive import Primitive
from pyjax.interpreters.hlo import lower_fun
from pyjax.interpreters.rules import lowering_rules
from pyjax.lax.arithmetic import (
    abs,
    add,
    complex,
    conj,
    div,
    imag,
    log,
    max,
    mul,
    neg,
    real,
    reciprocal,
    sign,
    square,
    sub,
)
from pyjax.lax.bitwise import bitwise_or
from pyjax.lax.common import is_complex, scalar_like
from pyjax.lax.compare import clamp, eq, full_value, gt, lt, ne, select
from pyjax.lax.elementwise import (
    acos_p,
    acosh_p,
    asin_p,
    asinh,
    asinh_p,
    atan2,
    atan2_p,
    atan_p,
    atanh_p,
    log1p,
    sqrt,
)


def _half_roots(z: Array) -> tuple[Array, Array]:
    """sqrt(1 - z) and sqrt(1 + z), by parts: 1 + 0i - z would lose the sign of a zero."""
    x, y = real(z), imag(z)
    one = scalar_like(1, x)
    return sqrt(complex(sub(one, x), neg(y))), sqrt(complex(add(one, x), y))


def _infinite(x: Array) -> Array:
    return eq(abs(x), scalar_like(np.inf, x))


def _direction(z: Array) -> tuple[Array, Array, Array]:
    """Where z is infinite, and its direction there: infinite parts are ±1, finite ones ±0."""
    x, y = real(z), imag(z)

    def part(v: Array) -> Array:
        return select(_infinite(v), sign(v), mul(v, scalar_like(0, v)))

    return bitwise_or(_infinite(x), _infinite(y)), part(x), part(y)


def _infinity_like(y: Array) -> Array:
    """inf with the sign of y, zeros told apart; of either sign for nan."""
    signed = mul(atan2(y, full_value(y, -1)), scalar_like(np.inf, y))
    return select(ne(y, y), full_value(y, np.inf), signed)


def complex_asin(z: Array) -> Array:
    """Inverse sine; cuts on the real axis outside [-1, 1]."""
    minus, plus = _half_roots(z)
    angle, size = atan2(real(z), real(mul(minus, plus))), asinh(imag(mul(conj(minus), plus)))
    far, x, y = _direction(z)
    angle = select(far, atan2(x, abs(y)), angle)
    return complex(angle, select(far, _infinity_like(imag(z)), size))


def complex_acos(z: Array) -> Array:
    """Inverse cosine; cuts on the real axis outside [-1, 1]."""
    minus, plus = _half_roots(z)
    angle, size = atan2(real(minus), real(plus)), asinh(imag(mul(conj(plus), minus)))
    far, x, y = _direction(z)
    angle = select(far, atan2(abs(y), x), add(angle, angle))
    return complex(angle, select(far, neg(_infinity_like(imag(z))), size))


def complex_acosh(z: Array) -> Array:
    """Inverse hyperbolic cosine; cut on the real axis left of 1."""
    x, y = real(z), imag(z)
    one = scalar_like(1, x)
    minus, plus = sqrt(complex(sub(x, one), y)), sqrt(complex(add(x, one), y))
    angle, size = atan2(imag(minus), real(plus)), asinh(real(mul(conj(minus), plus)))
    far, x, y = _direction(z)
    angle = select(far, atan2(y, x), add(angle, angle))
    return complex(select(far, full_value(x, np.inf), size), angle)


def _times_i(z: Array) -> Array:
    return complex(neg(imag(z)), real(z))


def _over_i(z: Array) -> Array:
    return complex(imag(z), neg(real(z)))


def complex_asinh(z: Array) -> Array:
    """Inverse hyperbolic sine: asin(i z) / i."""
    return _over_i(complex_asin(_times_i(z)))


def complex_atanh(z: Array) -> Array:
    """Inverse hyperbolic tangent; cuts on the real axis outside [-1, 1]."""
    x, y = real(z), imag(z)
    one, size = scalar_like(1, x), abs(x)
    # log |(1 + z) / (1 - z)| / 2 of the half plane right of 0, where the ratio is above 1.
    below = sub(one, size)
    modulus = log1p(div(mul(scalar_like(4, x), size), add(square(below), square(y))))
    modulus = mul(modulus, scalar_like(0.25, x))
    # Next to 1 the squares may vanish.
    distance = abs(complex(below, y))
    ratio = sub(log(abs(complex(add(one, size), y))), log(distance))
    modulus = select(lt(distance, scalar_like(0.1, x)), mul(ratio, scalar_like(0.5, x)), modulus)
    modulus = select(lt(x, scalar_like(0, x)), neg(modulus), modulus)
    modulus = select(eq(x, scalar_like(0, x)), x, modulus)
    below = sub(one, x)
    opposite, adjacent = add(y, y), sub(mul(below, add(one, x)), square(y))
    # Where the squares may overflow it is 1 / z, and a quarter turn to the side of y.
    far = gt(max(size, abs(y)), scalar_like(1e15, x))
    modulus = select(far, real(reciprocal(z)), modulus)
    infinite, direction, _ = _direction(z)
    nothing = mul(select(ne(x, x), full_value(x, 0), direction), scalar_like(0, x))
    modulus, far = select(infinite, nothing, modulus), bitwise_or(far, infinite)
    opposite = select(far, clamp(scalar_like(-1, x), y, one), opposite)
    adjacent = select(far, full_value(x, -np.inf), adjacent)
    return complex(modulus, mul(atan2(opposite, adjacent), scalar_like(0.5, x)))


def complex_atan(z: Array) -> Array:
    """Inverse tangent: atanh(i z) / i."""
    return _over_i(complex_atanh(_times_i(z)))


def complex_atan2(y: Array, x: Array) -> Array:
    """-i log((x + i y) / sqrt(x**2 + y**2)); nan where the root is zero."""
    radius = sqrt(add(square(x), square(y)))
    return _over_i(log(div(add(x, _times_i(y)), radius)))


def _split_by_dtype(primitive: Primitive, on_complex: Callable[..., Array]) -> None:
    """Lower complex operands through `on_complex`; real ones keep the rule they have."""
    on_real, composed = lowering_rules[primitive], lower_fun(on_complex)

    def rule(ctx: Any, *operands: Any) -> Any:
        chosen = composed if is_complex(ctx.avals_in[0].dtype) else on_real
        return chosen(ctx, *operands)

    lowering_rules[primitive] = rule


_ON_COMPLEX: list[tuple[Primitive, Callable[..., Array]]] = [
    (asin_p, complex_asin),
    (acos_p, complex_acos),
    (atan_p, complex_atan),
    (asinh_p, complex_asinh),
    (acosh_p, complex_acosh),
    (atanh_p, complex_atanh),
    (atan2_p, complex_atan2),
]
for _primitive, _function in _ON_COMPLEX:
    _split_by_dtype(_primitive, _function)
