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
import pyjax.random  # so that key arrays have their methods
from pyjax import lax
from pyjax.lax import random_keys as rk
from pyjax.lax.random_generators import prngs, threefry_prng_impl
from pyjax.lax.random_hashes import counters, indices_in_words
from tests.op_checks import emulated, emulated_gpu, evaluated

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
    yield "seed-x64", lambda: words(_in_64_bits(lambda: rk.random_seed(2**33 + 7, impl)))
    yield "bits64", lambda: _in_64_bits(lambda: rk.random_bits(key, 64, (5,)))


def _in_64_bits(compute):
    with pyjax.enable_x64(True):
        return compute()


@pytest.mark.filterwarnings("ignore:jax_threefry_partitionable is set but has no effect")
@pytest.mark.parametrize("case", sorted(RECORDED))
def test_recorded(case):
    name, partitionable = case.split("-")
    with options.threefry_partitionable(partitionable == "True"):
        for what, compute in _results(prngs[name]):
            assert summary(compute()) == RECORDED[case][what], what


@pytest.mark.parametrize(
    "run",
    [evaluated, *[pytest.param(f, marks=pytest.mark.slow) for f in (emulated, emulated_gpu)]],
)
@pytest.mark.parametrize("name", sorted(prngs))
def test_other_ways_to_run(name, run):
    def drawn(seed):
        first, second = rk.random_split(rk.random_seed(seed, prngs[name]), (2,))
        folded = rk.random_fold_in(second, seed)
        return [rk.random_bits(first, 32, (3, 5)), rk.random_bits(folded, 8, (7,))]

    seed = np.asarray(77, np.int32)
    for a, b in zip(run(drawn, [seed]), drawn(seed)):
        np.testing.assert_array_equal(a, np.asarray(b))


def test_indices_beyond_32_bits():
    shape, strides = (3, 2, 4), (2**33 + 5, 2**32 - 1, 2**31 + 7)
    high, low = indices_in_words(shape, strides)
    expected = sum(i.astype(np.uint64) * s for i, s in zip(np.indices(shape), strides))
    found = (np.asarray(high).astype(np.uint64) << 32) | np.asarray(low)
    np.testing.assert_array_equal(found, expected)


def test_counters_of_more_than_2_to_the_32_elements():
    jaxpr = pyjax.make_jaxpr(lambda: counters((2**20, 2**13)))()
    assert [v.aval.str_short() for v in jaxpr.jaxpr.outvars] == ["uint32[1048576,8192]"] * 2


def test_wrap_unwrap_clone():
    words = np.arange(6, dtype=np.uint32).reshape(3, 2)
    keys = rk.random_wrap(words, threefry_prng_impl)
    assert str(keys.dtype) == "key<fry>" and keys.shape == (3,)
    np.testing.assert_array_equal(np.asarray(rk.random_unwrap(rk.random_clone(keys))), words)


def test_batched_fold_in_equals_each():
    key = rk.random_seed(0, threefry_prng_impl)
    data = np.arange(3, dtype=np.uint32)
    together = rk.random_unwrap(pyjax.vmap(rk.random_fold_in, (None, 0))(key, data))
    each = [np.asarray(rk.random_unwrap(rk.random_fold_in(key, int(d)))) for d in data]
    np.testing.assert_array_equal(np.asarray(together), each)


def test_raw_words_are_refused():
    with pytest.raises(TypeError, match="requires a typed key array"):
        rk.random_split(np.zeros(2, np.uint32), (2,))
    with pytest.raises(TypeError, match="invalid PRNG key data"):
        rk.random_wrap(np.zeros(3, np.uint32), threefry_prng_impl)


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
