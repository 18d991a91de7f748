"""Keys and bits: recorded results of the reference implementation, for every PRNG and both
threefry layouts.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from pyjax._config import options

import pyjax
from pyjax import lax
from pyjax.lax import random_keys as rk

RECORDED = json.loads(Path(__file__).with_name("random_bits_recorded.json").read_text())


def summary(x):
    """First six words, sum of all, shape."""
    x = np.asarray(x)
    total = int(x.astype(np.uint64).sum() % (2**61 - 1))
    return [*[int(v) for v in x.ravel()[:6]], total, list(x.shape)]


def _results(impl):
    words = rk.random_unwrap
    key = rk.random_seed(1234, impl)
    yield "seed", lambda: words(key)
    yield "seed-neg", lambda: words(rk.random_seed(-5, impl))
    yield "seed-big", lambda: words(rk.random_seed(2**33 + 7, impl))
    yield "split", lambda: words(rk.random_split(key, (3,)))
    yield "split2", lambda: words(rk.random_split(key, (2, 3)))
    yield "fold", lambda: words(rk.random_fold_in(key, 77))
    for width in (8, 16, 32):
        yield f"bits{width}", lambda w=width: rk.random_bits(key, w, (7,))
        yield f"bits{width}-2d", lambda w=width: rk.random_bits(key, w, (3, 5))
    yield (
        "vmap",
        lambda: pyjax.vmap(lambda k: rk.random_bits(k, 32, (3,)))(rk.random_split(key, (4,))),
    )


@pytest.mark.filterwarnings("ignore:jax_threefry_partitionable is set but has no effect")
@pytest.mark.parametrize("case", sorted(RECORDED))
def test_recorded(case):
    name, partitionable = case.split("-")
    with options.threefry_partitionable(partitionable == "True"):
        for what, compute in _results(rk.prngs[name]):
            assert summary(compute()) == RECORDED[case][what], what


def test_64_bit_words():
    with pyjax.enable_x64(True):
        bits = np.asarray(rk.random_bits(rk.random_seed(3, rk.threefry_prng_impl), 64, (4,)))
    assert bits.dtype == np.uint64 and len(set(bits.tolist())) == 4
    assert (bits >> 32).max() > 0


def test_wrap_unwrap_clone():
    words = np.arange(6, dtype=np.uint32).reshape(3, 2)
    keys = rk.random_wrap(words, rk.threefry_prng_impl)
    assert str(keys.dtype) == "key<fry>" and keys.shape == (3,)
    np.testing.assert_array_equal(np.asarray(rk.random_unwrap(rk.random_clone(keys))), words)


def test_batched_fold_in_equals_each():
    key = rk.random_seed(0, rk.threefry_prng_impl)
    data = np.arange(3, dtype=np.uint32)
    together = rk.random_unwrap(pyjax.vmap(rk.random_fold_in, (None, 0))(key, data))
    each = [np.asarray(rk.random_unwrap(rk.random_fold_in(key, int(d)))) for d in data]
    np.testing.assert_array_equal(np.asarray(together), each)


def test_raw_words_are_refused():
    with pytest.raises(TypeError, match="requires a typed key array"):
        rk.random_split(np.zeros(2, np.uint32), (2,))
    with pytest.raises(TypeError, match="invalid PRNG key data"):
        rk.random_wrap(np.zeros(3, np.uint32), rk.threefry_prng_impl)


def test_rng_bit_generator_moves_the_key():
    key = np.arange(4, dtype=np.uint32)
    new_key, bits = lax.rng_bit_generator(key, (5,))
    again = lax.rng_bit_generator(key, (5,))[1]
    after = lax.rng_bit_generator(new_key, (5,))[1]
    np.testing.assert_array_equal(np.asarray(bits), np.asarray(again))
    assert not np.array_equal(np.asarray(bits), np.asarray(after))


def test_rng_uniform_stays_in_range():
    draws = np.asarray(lax.rng_uniform(np.float32(2.0), np.float32(3.0), (1000,)))
    assert draws.min() >= 2 and draws.max() < 3 and draws.std() > 0.2


def test_rng_uniform_draws_other_numbers_each_time():
    def draw():
        return lax.rng_uniform(np.float32(0), np.float32(1), (8,))

    twice = pyjax.jit(lambda: (draw(), draw()))
    for draws in (
        [draw(), draw()],
        [*twice(), *twice()],
        lax.scan(lambda carry, _: (carry, draw()), 0, None, length=5)[1],
    ):
        numbers = np.asarray([np.asarray(x) for x in draws])
        assert len(np.unique(numbers)) == numbers.size
