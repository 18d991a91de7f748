"""Comparing the results of two runs: element by element, with a report of what differs most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xla_backend.process.light_dataclasses import dataclass

_WORST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Elements are close if |actual - expected| <= absolute + relative * |expected|."""

    absolute: float = 1e-3
    relative: float = 1e-3


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One result array that differs: how many of its elements do, and the worst of them."""

    leaf: int
    count: int
    total: int
    text: str

    def __str__(self) -> str:
        share = 100 * self.count / max(self.total, 1)
        head = f"result {self.leaf}: {self.count} of {self.total} elements differ ({share:.3g} %)"
        return f"{head}\n{self.text}" if self.text else head


def compare_results(
    expected: Sequence[np.ndarray], actual: Sequence[np.ndarray], tolerance: Tolerance
) -> list[Mismatch]:
    """The arrays that differ. NaN equals NaN, an infinity only itself, and the two zeros each
    other; integers and booleans must be equal.

    >>> compare_results([np.array([1.0, np.nan])], [np.array([1.0005, np.nan])], Tolerance())
    []
    """
    if len(expected) != len(actual):
        text = f"  expected {len(expected)} arrays, got {len(actual)}"
        return [Mismatch(0, 0, 0, text)]
    found = []
    for leaf, (want, got) in enumerate(zip(expected, actual)):
        mismatch = _compare(leaf, np.asarray(want), np.asarray(got), tolerance)
        if mismatch is not None:
            found.append(mismatch)
    return found


def _compare(leaf: int, want: np.ndarray, got: np.ndarray, tolerance: Tolerance) -> Mismatch | None:
    if want.shape != got.shape or want.dtype != got.dtype:
        text = f"  expected {want.dtype}{list(want.shape)}, got {got.dtype}{list(got.shape)}"
        return Mismatch(leaf, want.size, want.size, text)
    error = _errors(want, got)
    bound = np.zeros(want.shape)
    if want.dtype.kind not in "biu" and not want.dtype.name.startswith(("int", "uint")):
        magnitude = np.abs(_wide(want))
        bound = tolerance.absolute + tolerance.relative * np.where(
            np.isfinite(magnitude), magnitude, 0
        )
    bad = ~(error <= bound)
    if not bad.any():
        return None
    return Mismatch(leaf, int(bad.sum()), want.size, _worst(want, got, error, bad))


def _wide(array: np.ndarray) -> np.ndarray:
    """In a type that holds every element exactly and has NumPy's arithmetic."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        return array.astype(np.longdouble)
    return array.astype(np.float64)


def _errors(want: np.ndarray, got: np.ndarray) -> np.ndarray:
    """|got - want|; 0 where both are the same special value, infinite where only one is special."""
    a, b = _wide(want), _wide(got)
    if a.dtype.kind == "c":
        # Part by part: a complex number with one infinite part has no useful difference.
        return np.maximum(_errors(a.real, b.real), _errors(a.imag, b.imag))
    with np.errstate(all="ignore"):
        error = np.abs(b - a)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0, np.where(np.isnan(error), np.inf, error))


def _worst(want: np.ndarray, got: np.ndarray, error: np.ndarray, bad: np.ndarray) -> str:
    ranked = np.argsort(np.where(bad, -error, np.inf), axis=None, kind="stable")[:_WORST_SHOWN]
    lines = []
    for flat in ranked[: int(bad.sum())]:
        index = tuple(int(i) for i in np.unravel_index(flat, want.shape))
        values = f"expected {want[index]}, got {got[index]}, error {error[index]:.3g}"
        lines.append(f"  at {list(index)}: {values}")
    return "\n".join(lines)
