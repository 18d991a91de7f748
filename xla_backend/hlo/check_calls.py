"""The custom calls `check.*`: programs that carry expected values and compare them themselves.

StableHLO's interpreter tests are written so: `check.expect_eq(actual, expected)` and its relatives.
Under `collecting()` each check adds a CheckResult; without it a check that fails raises.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from xla_backend.hlo.errors import RuntimeFailure

_ALMOST = 1e-4
_FIELD = re.compile(r"(\w+) = (-?[\w.+-]+)")
_INTEGER_OF = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


class CheckResult(NamedTuple):
    """What one check found. `position` is the first element that differs; `line` is that of the
    program's text, 0 if unknown."""

    name: str
    passed: bool
    line: int = 0
    position: tuple[int, ...] = ()
    got: Any = None
    expected: Any = None

    def __str__(self) -> str:
        place = f" (line {self.line})" if self.line else ""
        if self.passed:
            return f"{self.name}{place}: pass"
        where = f"element {list(self.position)}" if self.position else "the value"
        return f"{self.name}{place}: FAIL: {where} is {self.got}, expected {self.expected}"


_collectors: list[list[CheckResult]] = []


@contextlib.contextmanager
def collecting() -> Iterator[list[CheckResult]]:
    """The results of all checks that run inside, in order; nothing raises."""
    results: list[CheckResult] = []
    _collectors.append(results)
    try:
        yield results
    finally:
        _collectors.remove(results)


# -- comparisons: arrays of one real type to a mask of the elements that agree ---------------------


def _equal(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Equal numbers; NaN equals NaN."""
    both_nan = (got != got) & (expected != expected)
    return np.asarray((got == expected) | both_nan)


def _almost_equal(got: np.ndarray, expected: np.ndarray, tolerance: float) -> np.ndarray:
    """Within `tolerance`, relative for numbers above 1, or neighbours of a narrow float type."""
    same = _equal(got, expected)
    if got.dtype.kind in "biu":
        return same
    x, y = got.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(x - y) <= tolerance * np.maximum(1.0, np.abs(y))
    if got.dtype.itemsize <= 2:
        near |= _steps_between(got, expected) <= 1
    return same | (near & np.isfinite(x) & np.isfinite(y))


def _ordered_bits(x: np.ndarray) -> np.ndarray:
    """Unsigned integers in the order of the floats: neighbours differ by 1, zeros are equal."""
    bits = x.view(_INTEGER_OF[x.dtype.itemsize]).astype(np.int64)
    smallest = -(1 << (8 * x.dtype.itemsize - 1))
    ordered = np.where(bits < 0, smallest - bits, bits)
    return ordered.view(np.uint64) ^ np.uint64(1 << 63)


def _steps_between(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """How many steps apart (ulps)."""
    a, b = _ordered_bits(got), _ordered_bits(expected)
    return np.where(a > b, a - b, b - a)


def _close(got: np.ndarray, expected: np.ndarray, low: float, high: float) -> np.ndarray:
    """From `low` to `high` ulps apart."""
    same = _equal(got, expected)
    if not _is_float(got.dtype):
        return same
    finite = np.isfinite(got.astype(np.float64)) & np.isfinite(expected.astype(np.float64))
    steps = _steps_between(got, expected)
    return np.where(finite, (steps >= low) & (steps <= high), same)


def _is_float(dtype: np.dtype) -> bool:
    if dtype.kind == "f":
        return True
    try:
        ml_dtypes.finfo(dtype)
    except ValueError:
        return False
    return True


# -- the calls -------------------------------------------------------------------------------------


def _parts(x: np.ndarray) -> list[np.ndarray]:
    return [x.real, x.imag] if x.dtype.kind == "c" else [x]


def _fields(config: str) -> dict[str, float]:
    return {name: float(value) for name, value in _FIELD.findall(config)}


def _compare(
    name: str, got: np.ndarray, expected: np.ndarray, fields: dict[str, float]
) -> np.ndarray:
    if "expect_close" in name:
        low, high = fields.get("min_ulp_difference", 0), fields.get("max_ulp_difference", 3)
        return _close(got, expected, low, high)
    if "almost_eq" in name:
        return _almost_equal(got, expected, fields.get("tolerance", _ALMOST))
    return _equal(got, expected)


def _check(name: str) -> Callable[[list[np.ndarray], list[np.ndarray], Any, Any], None]:
    def call(
        operands: list[np.ndarray], results: list[np.ndarray], attributes: Any, context: Any
    ) -> None:
        del results, context
        got, expected = operands
        fields = _fields(attributes.backend_config)
        line = int(fields.get("line", 0))
        agree = np.logical_and.reduce(
            [
                _compare(name, np.ascontiguousarray(g), np.ascontiguousarray(e), fields)
                for g, e in zip(_parts(got), _parts(expected))
            ]
        ).reshape(got.shape)
        result = CheckResult(name, bool(agree.all()), line)
        if not result.passed:
            first = np.unravel_index(int(np.argmin(agree)), got.shape) if got.ndim else ()
            at = tuple(int(i) for i in first)
            result = result._replace(position=at, got=got[at], expected=expected[at])
        if _collectors:
            _collectors[-1].append(result)
        elif not result.passed:
            raise RuntimeFailure(str(result))

    return call


CHECK_CALLS = {
    name: _check(name)
    for name in ("check.expect_eq", "check.expect_almost_eq", "check.expect_close")
}
