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


@pytest.mark.parametrize("function", ["quantile", "nanquantile", "percentile"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8"])
def test_results_are_of_the_type_of_the_array(function, dtype) -> None:
    x = jnp.array([58, 15, 83], dtype)
    with pyjax.enable_x64(True):
        results = [
            getattr(jnp, function)(x, q, method=method)
            for q in (0.25, np.float32(0.25), np.float64(0.25), jnp.array([0.25, 0.5]), 1, [0, 1])
            for method in ("linear", "inverted_cdf")
        ]
    assert {str(r.dtype) for r in results} == {"float32" if dtype == "int8" else dtype}


def test_numbers_of_more_axes_are_refused() -> None:
    with pytest.raises(ValueError, match="number or have one axis"):
        jnp.quantile(jnp.arange(3.0), jnp.ones((2, 2)))
