"""poisson, binomial and multinomial: JAX's samples for the same key, and an end for every input."""
# The expected samples are what JAX 0.10.2 returns for key(42).

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import random

KEY = random.key(42)
RATES = np.float32([0, 0.5, 3, 9.9, 10, 40, 700, -1, np.nan])
TRIALS = np.float32([5, 12, 100, 1000, 30, -1, np.nan, 10, 10, 1e9])
CHANCES = np.float32([0.2, 0.7, 0.3, 0.6, 0.5, 0.5, 0.5, -0.1, 1.5, 1e-9])
nan, inf = np.nan, np.inf

SAMPLES = {
    "poisson": (lambda k: random.poisson(k, RATES), [0, 1, 2, 7, 5, 34, 686, -1, -1]),
    "poisson small": (lambda k: random.poisson(k, 3.0, (8,)), [6, 2, 2, 1, 5, 2, 3, 3]),
    "poisson large": (
        lambda k: random.poisson(k, 50.0, (8,)),
        [55, 56, 43, 45, 40, 43, 46, 39],
    ),
    "poisson uint8": (
        lambda k: random.poisson(k, jnp.array([2.0, 300.0, -1.0]), dtype=jnp.uint8),
        [2, 255, 255],
    ),
    "binomial": (
        lambda k: random.binomial(k, TRIALS, CHANCES),
        [1, 6, 25, 611, 19, nan, nan, nan, nan, 2],
    ),
    "binomial large": (
        lambda k: random.binomial(k, 30.0, 0.4, (8,)),
        [11, 8, 12, 10, 8, 10, 14, 8],
    ),
    "multinomial": (
        lambda k: random.multinomial(
            k, jnp.array([10.0, 1000.0]), jnp.array([[0.2, 0.3, 0.5], [4.0, 1.0, 1.0]])
        ),
        [[1, 2, 7], [691, 149, 160]],
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
def test_samples(name, jitted):
    draw, expected = SAMPLES[name]
    np.testing.assert_array_equal((pyjax.jit(draw) if jitted else draw)(KEY), expected)


LARGEST = np.iinfo(np.int32).max


@pytest.mark.parametrize(
    "rate, sample",
    [(-1.0, -1), (-1e-30, -1), (-inf, -1), (nan, -1), (1e30, LARGEST), (3e38, LARGEST)]
    + [(0.0, 0), (-0.0, 0), (1e-40, 0)],
)
def test_poisson_ends_for_every_rate(rate, sample):
    np.testing.assert_array_equal(random.poisson(KEY, rate, (3,)), sample)
    # Beside a rate that has a distribution nothing changes for either.
    both = random.poisson(KEY, jnp.array([4.0, rate, 40.0]))
    alone = random.poisson(KEY, jnp.array([4.0, 4.0, 40.0]))
    assert both[1] == sample and both[0] == alone[0] and both[2] == alone[2]


def test_poisson_of_an_infinite_rate():
    # Recorded from the reference.
    rates = jnp.array([0.5, inf, 100.0])
    assert random.poisson(random.key(0), jnp.array([inf])).tolist() == [0]
    assert random.poisson(random.key(42), inf, (2,)).tolist() == [LARGEST, LARGEST]
    assert random.poisson(random.key(42), inf, dtype="int8") == 127
    alone = random.poisson(KEY, jnp.array([0.5, 0.5, 100.0]))
    assert random.poisson(KEY, rates)[::2].tolist() == alone[::2].tolist()


@pytest.mark.parametrize(
    "n, p, sample",
    [(inf, 0.0, inf), (inf, 0.5, inf), (inf, 1.0, inf), (inf, nan, nan), (inf, -1.0, nan)]
    + [(-inf, 0.5, nan), (-1e-30, 0.5, nan), (nan, 0.5, nan), (5.0, nan, nan), (5.0, 1.1, nan)]
    + [(0.0, 0.5, 0), (7.5, 0.0, 0), (7.5, 1.0, 7), (1e38, 1e-45, 0), (10.0, 1e-45, 0)],
)
def test_binomial_ends_for_all_parameters(n, p, sample):
    np.testing.assert_array_equal(random.binomial(KEY, n, p, (3,)), np.float32(sample))


def test_half_precision_counts_do_not_wrap():
    # In float16 arithmetic 60000 trials overflow to nan.
    counts = random.binomial(KEY, 60000.0, 0.5, (50,), dtype=jnp.float16)
    assert counts.dtype == jnp.float16
    assert abs(float(counts.astype(jnp.float32).mean()) - 30000) < 100


def test_multinomial_takes_all_draws():
    counts = random.multinomial(KEY, 1000, jnp.array([0.0, 2.0, 0.0, 3.0, 0.0]), shape=(4, 5))
    np.testing.assert_array_equal(counts.sum(-1), np.full(4, 1000))
    np.testing.assert_array_equal(counts[:, ::2], np.zeros((4, 3)))
    with pytest.raises(ValueError, match="at least one dimension"):
        random.multinomial(KEY, 5, 0.5)


def test_poisson_needs_threefry():
    with pytest.raises(NotImplementedError, match=r"threefry2x32 keys only.*rbg"):
        random.poisson(random.key(0, impl="rbg"), 3.0)
    with pytest.raises(ValueError, match="poisson makes integers"):
        random.poisson(KEY, 3.0, dtype=jnp.float32)
