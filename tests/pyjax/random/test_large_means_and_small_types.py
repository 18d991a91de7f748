"""Poisson counts of large means, and integers of small types."""

from __future__ import annotations

import numpy as np
import pytest

from pyjax import random


@pytest.mark.parametrize("rate", [1e4, 1e6, 1e8, 1e9])
def test_poisson_has_its_variance(rate: float) -> None:
    """The logarithm of the density has terms of 2e10, of which float32 holds no unit."""
    counts = np.asarray(random.poisson(random.key(17), rate, (4000,)), float)
    deviation = np.sqrt(rate)
    assert abs(counts.mean() - rate) < 5 * deviation / np.sqrt(4000)
    assert abs(counts.std() / deviation - 1) < 5 / np.sqrt(2 * 4000)


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint16"])
def test_small_integers_are_drawn_in_32_bits(dtype: str) -> None:
    """The same numbers as of the wide type, and without the bias of 8 bits."""
    wide = "int32" if dtype.startswith("i") else "uint32"
    key = random.key(17)
    got = random.randint(key, (9,), 0, 100, dtype)
    np.testing.assert_array_equal(got, random.randint(key, (9,), 0, 100, wide))
    draws = np.asarray(random.randint(key, (100_000,), 0, 100, dtype))
    shares = np.bincount(draws, minlength=100) / 1000
    assert abs(shares[:56].mean() - 1) < 0.01  # 256 % 100 numbers came up three times for two


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_bounds_beyond_a_small_type_are_its_ends(dtype: str) -> None:
    info = np.iinfo(dtype)
    draws = np.asarray(random.randint(random.key(3), (4000,), -1000, 1000, dtype))
    assert draws.dtype == dtype and draws.min() == info.min and draws.max() == info.max
