"""Quantiles whose number is a part of the program: what is not read is not sorted."""

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax.numpy import statistics

Q = (0.0, 0.31, 0.5, 0.9, 1.0, 1.5, -1.0)


def numbers(dtype: str, nan: bool) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal((7, 301)).astype(dtype)
    x[3, 5] = np.inf
    if nan:
        x[4, 8] = np.nan
    return x


@pytest.mark.parametrize("method", [m for m in statistics.METHODS if m != "inverted_cdf"])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_bits_are_those_of_a_number_that_is_given(monkeypatch, method, axis, dtype) -> None:
    monkeypatch.setattr(statistics, "_MANY", 0)
    for nan in (False, True):
        x = numbers(dtype, nan)
        for q in Q:
            known = jnp.quantile(x, q, axis=axis, method=method)
            given = jnp.quantile(x, jnp.asarray(q, dtype), axis=axis, method=method)
            assert known.dtype == given.dtype
            assert np.asarray(known).tobytes() == np.asarray(given).tobytes(), q


def test_those_that_are_no_numbers(monkeypatch) -> None:
    monkeypatch.setattr(statistics, "_MANY", 0)
    assert np.isnan(jnp.quantile(numbers("float32", False), np.nan))


def test_derivatives(monkeypatch) -> None:
    x = numbers("float32", False)
    before = pyjax.grad(lambda v: jnp.quantile(v, 0.3))(x)
    monkeypatch.setattr(statistics, "_MANY", 0)
    np.testing.assert_array_equal(pyjax.grad(lambda v: jnp.quantile(v, 0.3))(x), before)
    assert np.isfinite(pyjax.grad(lambda q: jnp.quantile(x[0], q))(0.3))
    assert pyjax.vmap(lambda v: jnp.quantile(v, 0.3))(x).shape == (7,)


def test_medians_of_few_and_many() -> None:
    for n in (1, 2, 3, 1000, (1 << 19) + 1):
        x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
        assert float(jnp.median(x)) == float(np.median(x))
        assert float(jnp.percentile(x, 100.0)) == x.max()
