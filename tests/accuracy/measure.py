"""The distance of results from exact values, in units in the last place.

The exact value is an mpmath number, so nothing is rounded before the comparison. The unit is that
of the exact value's binade; below the smallest normal number it stays that of subnormals. An
infinity counts as the power of two after the largest number, so a result that overflows a little
early is a little wrong. Of complex numbers the error is the modulus of the difference, and the
unit that of the modulus.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

mp = mpmath.MPContext()
mp.prec = 160

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Worst:
    """The largest error, where it is, and what was found there."""

    ulp: float
    operands: tuple[Any, ...]
    found: Any
    exact: str

    def __str__(self) -> str:
        at = ", ".join(repr(x) for x in self.operands)
        return f"{self.ulp:.3g} ulp at ({at}): got {self.found!r}, exact {self.exact}"


def _parts(value: Any) -> tuple[Any, Any]:
    return (value.real, value.imag) if isinstance(value, mp.mpc) else (value, mp.zero)


def _exact_number(x: Any) -> Any:
    """A NumPy scalar as an mpmath number, without rounding."""
    if np.iscomplexobj(x):
        return mp.mpc(float(x.real), float(x.imag))
    return mp.mpf(float(x))


def _of_result(value: Any, limit: Any) -> Any:
    """A finite stand-in for a result."""
    if np.isinf(value):
        return limit if value > 0 else -limit
    return mp.mpf(float(value))


def error(found: Any, exact: Any, beside: Any = mp.zero) -> float:
    """The error of a NumPy scalar in units in the last place of the exact value, or of the larger
    number `beside` it.
    """
    real, imag = _parts(exact)
    if imag and not np.iscomplexobj(found):  # outside of the real function's domain
        real = mp.nan
    if mp.isnan(real) or mp.isnan(imag):
        return 0.0 if np.isnan(found) else np.inf
    if np.isnan(found):
        return np.inf
    info = np.finfo(found.dtype)
    limit = mp.ldexp(mp.one, int(info.maxexp))
    parts = (found.real, found.imag) if np.iscomplexobj(found) else (found, found.dtype.type(0))
    wanted = [max(-limit, min(limit, part)) for part in (real, imag)]
    off = [_of_result(got, limit) - want for got, want in zip(parts, wanted, strict=True)]
    size = max(mp.hypot(*wanted), abs(beside))
    exponent = int(mp.frexp(size)[1]) - 1 if size else int(info.minexp)
    exponent = min(max(exponent, int(info.minexp)), int(info.maxexp) - 1)
    return float(mp.hypot(*off) / mp.ldexp(mp.one, exponent - int(info.nmant)))


def exactly(function: Callable[..., Any], operands: Arrays) -> list[Any]:
    """A function of mpmath numbers, of each element."""
    return [function(*map(_exact_number, xs)) for xs in zip(*operands, strict=True)]


def worst(found: np.ndarray, operands: Arrays, exact: list[Any], scale: list[Any]) -> Worst:
    """The element of `found` with the largest error."""
    result = Worst(-1.0, (), None, "")
    for got, value, beside, *xs in zip(found, exact, scale, *operands, strict=True):
        ulp = error(got, value, beside)
        if ulp > result.ulp:
            result = Worst(ulp, tuple(xs), got, mp.nstr(value, 10))
    return result
