"""Bytes divided by a constant, as in images whose values are to be between 0 and 1: a product and a
fused multiply-add, which take a third of a division's time, where they give its bits.

1 / c is high + low, two floats, and x / c the nearest number to high x + (the nearest to low x)
for nearly all c (Brisebarre, Muller and Raina, 2004). Here x is one of so few numbers that all are
tried.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from xla_backend.llvm.types import const, constant_number, element
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.process.bounded_cache import BoundedCache, Budget

_DIGITS = {"float": 24, "double": 53}
# Factors and products of bytes with them are normal numbers.
_FARTHEST_EXPONENT = 60
_LARGEST = 256


class _Number(NamedTuple):
    """digits 2^exponent."""

    digits: int
    exponent: int


class _Reciprocal(NamedTuple):
    high: float
    low: float


_reciprocals: BoundedCache[tuple[str, float], _Reciprocal | None] = BoundedCache(
    Budget("reciprocals for bytes", entries=256)
)


def byte_quotient(w: FunctionWriter, ty: str, x: str, divisor: str) -> str | None:
    """x / divisor with the bits of a division; None where that is to be one."""
    number = constant_number(divisor)
    if x not in w.bytes or number is None or element(ty) not in _DIGITS or not w.target.has_fma:
        return None
    key = (element(ty), number)
    known = _reciprocals.find(key, ...)
    if known is ...:
        known = _reciprocals.put(key, _reciprocal(number, _DIGITS[element(ty)]))
    if known is None:
        return None
    rest = w.op("fmul", ty, x, const(ty, known.low))
    return w.fma(ty, x, const(ty, known.high), rest)


def _reciprocal(divisor: float, digits: int) -> _Reciprocal | None:
    """What all bytes, with a sign or without, may be multiplied by."""
    # A negative divisor would need other signs of zeros.
    if not 2.0**-_FARTHEST_EXPONENT < divisor < 2.0**_FARTHEST_EXPONENT:
        return None
    numerator, denominator = divisor.as_integer_ratio()
    power = numerator & -numerator
    odd = numerator // power  # powers of two change no digits
    scale = denominator.bit_length() - power.bit_length()
    high = _nearest(1, odd, digits)
    missing = (1 << -high.exponent) - odd * high.digits
    if missing == 0:
        return None
    low = _nearest(abs(missing), odd << -high.exponent, digits)
    sign = 1 if missing > 0 else -1
    for x in range(1, _LARGEST, 2):
        rest = _nearest(x * low.digits, 1, digits)
        exponent = rest.exponent + low.exponent
        total = (x * high.digits << high.exponent - exponent) + sign * rest.digits
        found = _nearest(total, 1, digits)
        if _Number(found.digits, found.exponent + exponent) != _nearest(x, odd, digits):
            return None
    factors = [math.ldexp(n.digits, n.exponent + scale) for n in (high, low)]
    return _Reciprocal(factors[0], sign * factors[1])


def _nearest(numerator: int, denominator: int, digits: int) -> _Number:
    """The number of so many digits that is nearest a quotient of natural numbers; the even one of
    two."""
    length = numerator.bit_length() - denominator.bit_length()
    below = (numerator << max(-length, 0)) < (denominator << max(length, 0))
    exponent = length - digits + (0 if below else 1)
    numerator, denominator = numerator << max(-exponent, 0), denominator << max(exponent, 0)
    found, left = divmod(numerator, denominator)
    found += 2 * left > denominator or (2 * left == denominator and found & 1)
    if found >> digits:  # rounded up to the next power of two
        found, exponent = found >> 1, exponent + 1
    return _Number(found, exponent)
