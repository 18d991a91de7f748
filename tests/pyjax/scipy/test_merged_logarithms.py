"""float32 of gamma functions and their quotients, to a unit in the last place, by mpmath."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax.scipy import special, stats

rng = np.random.default_rng(4)
COUNT = 150


def spread(low: float, high: float) -> np.ndarray:
    return (10 ** rng.uniform(low, high, COUNT)).astype(np.float32)


def signed(low: float, high: float) -> np.ndarray:
    return spread(low, high) * rng.choice(np.float32([-1, 1]), COUNT)


def log_poisson(k: Any, mu: Any) -> Any:
    return k * mpmath.log(mu) - mpmath.loggamma(k + 1) - mu


def log_binomial(k: Any, n: Any, p: Any) -> Any:
    ways = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
    return ways + k * mpmath.log(p) + (n - k) * mpmath.log1p(-p)


def counts(most: int, sides: float) -> tuple[np.ndarray, ...]:
    """k, n, p: k near n p, and as far from it as `sides` says."""
    n = rng.integers(1, most, COUNT).astype(np.float32)
    p = rng.uniform(0.001, 0.999, COUNT).astype(np.float32)
    k = np.clip(np.floor(n * p + sides * rng.normal(size=COUNT) * np.sqrt(n)), 0, n)
    return k.astype(np.float32), n, p


def near_ones() -> tuple[np.ndarray, np.ndarray]:
    p = spread(-3, 0)
    return p, (p * (1 + signed(-7, 1))).astype(np.float32).clip(np.float32(1e-6))


MEANS = spread(-6, 2)
LARGE = rng.integers(1, 10**6, COUNT).astype(np.float32)
slope = pyjax.vmap(pyjax.grad(special.betaln, 1))
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "gamma": (special.gamma, mpmath.gamma, (signed(-3, 1.5),)),
    "factorial": (special.factorial, mpmath.factorial, (spread(-6, 1.5),)),
    "poisson": (
        stats.poisson.logpmf,
        log_poisson,
        (rng.integers(0, 60, COUNT).astype(np.float32), MEANS),
    ),
    "poisson large": (
        stats.poisson.logpmf,
        log_poisson,
        (LARGE, (LARGE + np.sqrt(LARGE)).astype(np.float32)),
    ),
    "binomial": (stats.binom.logpmf, log_binomial, counts(40, 1.0)),
    "binomial large": (stats.binom.logpmf, log_binomial, counts(10**7, 3.0)),
    "binomial ends": (
        stats.binom.logpmf,
        log_binomial,
        (np.float32([0, 0, 9, 9]), np.float32([9] * 4), np.float32([1e-20, 0.5, 0.5, 0.9999999])),
    ),
    "betaln": (special.betaln, lambda a, b: mpmath.log(mpmath.beta(a, b)), (spread(-5, 8),) * 2),
    "betaln beside 1": (
        special.betaln,
        lambda a, b: mpmath.log(mpmath.beta(a, b)),
        ((1 + signed(-6, -1)).astype(np.float32), (1 + signed(-6, -1)).astype(np.float32)),
    ),
    "betaln of negative numbers": (
        special.betaln,
        lambda a, b: mpmath.log(abs(mpmath.beta(a, b))),
        (signed(-3, 1), signed(-3, 1)),
    ),
    "slope of betaln": (
        slope,
        lambda a, b: mpmath.psi(0, b) - mpmath.psi(0, a + b),
        (spread(-3, 6), spread(-3, 6)),
    ),
    "kl_div": (special.kl_div, lambda p, q: p * mpmath.log(p / q) - p + q, near_ones()),
    "rel_entr": (special.rel_entr, lambda p, q: p * mpmath.log(p / q), near_ones()),
    "i0": (special.i0, lambda x: mpmath.besseli(0, x), (signed(-3, 1.9),)),
    "i1": (special.i1, lambda x: mpmath.besseli(1, x), (signed(-3, 1.9),)),
}


@pytest.mark.parametrize("name", CASES)
def test_digits(name: str) -> None:
    function, exact, operands = CASES[name]
    found = np.asarray(pyjax.jit(function)(*map(jnp.asarray, operands)))
    assert found.dtype == np.float32
    with mpmath.workdps(50):
        for got, *given in zip(found, *operands, strict=True):
            want = exact(*(mpmath.mpf(float(x)) for x in given))
            unit = np.spacing(np.float32(max(abs(float(want)), 1e-37)))
            assert abs(mpmath.mpf(float(got)) - want) <= unit, (name, given, got, want)


def test_ends_of_float32() -> None:
    tiny, huge = np.float32(1e-45), np.float32(3e38)
    p, q = np.float32([tiny, huge, tiny, huge]), np.float32([huge, tiny, tiny, huge])
    np.testing.assert_array_equal(special.kl_div(p, q), np.float32([huge, np.inf, 0, 0]))
    np.testing.assert_array_equal(
        special.kl_div(np.float32([0, 1, 0, -1]), 0), [0, np.inf, 0, np.inf]
    )
    np.testing.assert_array_equal(
        special.gamma(np.float32([0.0, -0.0, 40])), [np.inf, -np.inf, np.inf]
    )
    assert np.isnan(special.gamma(np.float32([-1, -np.inf, np.nan]))).all()


def test_slopes_at_the_ends() -> None:
    """Derivatives of what is not chosen are no NaN."""
    inside = pyjax.grad(lambda p: stats.binom.logpmf(0.0, 5.0, p))(0.25)
    assert abs(float(inside) + 5 / 0.75) < 1e-5
    assert abs(float(pyjax.grad(lambda m: stats.poisson.logpmf(0.0, m))(0.5)) + 1) < 1e-6
    assert float(pyjax.grad(special.i1)(0.0)) == 0.5
    assert float(pyjax.grad(pyjax.grad(special.i0))(0.0)) == 0.5
