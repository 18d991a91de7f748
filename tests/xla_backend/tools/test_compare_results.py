"""What counts as equal, and how a difference is reported."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from xla_backend.tools.compare_results import Tolerance, compare_results

EXACT = Tolerance(0, 0)
LOOSE = Tolerance(1e-3, 1e-3)

CASES = {
    "close": ([1.0], [1.0015], LOOSE, True),
    "not close": ([1.0], [1.0025], LOOSE, False),
    "nan is nan": ([np.nan], [np.nan], EXACT, True),
    "nan is no number": ([np.nan], [1.0], LOOSE, False),
    "a number is no nan": ([1.0], [np.nan], LOOSE, False),
    "infinity is itself": ([np.inf], [np.inf], EXACT, True),
    "infinity is not the other one": ([np.inf], [-np.inf], LOOSE, False),
    "infinity is no number": ([np.inf], [3e38], LOOSE, False),
    "zeros are equal": ([0.0], [-0.0], EXACT, True),
    "complex": ([1 + 1j], [1 + 1.0005j], LOOSE, True),
    "complex parts": ([complex(np.inf, 0)], [complex(np.inf, 1)], LOOSE, False),
    "integers are exact": (np.array([1000]), np.array([1001]), LOOSE, False),
    "large integers": (np.array([2**62]), np.array([2**62 + 1]), LOOSE, False),
    "small integers": (
        np.array([1], ml_dtypes.int4),
        np.array([2], ml_dtypes.int4),
        Tolerance(5, 5),
        False,
    ),
    "booleans": (np.array([True]), np.array([False]), Tolerance(5, 5), False),
    "bfloat16": (
        np.array([1], ml_dtypes.bfloat16),
        np.array([1.0078125], ml_dtypes.bfloat16),
        Tolerance(0, 1e-2),
        True,
    ),
    "other types": (np.zeros(2, np.float32), np.zeros(2), LOOSE, False),
    "other shapes": (np.zeros(2), np.zeros(3), LOOSE, False),
    "empty": (np.zeros((0, 3)), np.zeros((0, 3)), EXACT, True),
}


@pytest.mark.parametrize("want, got, tolerance, equal", CASES.values(), ids=CASES)
def test_comparison(want, got, tolerance: Tolerance, equal: bool) -> None:  # type: ignore[no-untyped-def]
    found = compare_results([np.asarray(want)], [np.asarray(got)], tolerance)
    assert (not found) == equal


def test_the_report_names_the_worst_elements() -> None:
    want = np.zeros((2, 3), np.float32)
    got = want.copy()
    got[1, 2], got[0, 1] = 5, 7
    (mismatch,) = compare_results([want], [got], LOOSE)
    assert str(mismatch) == (
        "result 0: 2 of 6 elements differ (33.3 %)\n"
        "  at [0, 1]: expected 0.0, got 7.0, error 7\n"
        "  at [1, 2]: expected 0.0, got 5.0, error 5"
    )


def test_numbers_of_results_must_agree() -> None:
    (mismatch,) = compare_results([np.zeros(1)], [], LOOSE)
    assert "expected 1 arrays, got 0" in str(mismatch)
