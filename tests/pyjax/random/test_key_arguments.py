"""Arguments of functions that make keys: seeds, implementations, data."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import random

NAMES = ("threefry2x32", "threefry4x32", "philox2x32", "philox4x32", "rbg", "unsafe_rbg")

# Seed, its words without 64-bit types, and with them.
SEEDS = [
    (-1, [0, 2**32 - 1], [2**32 - 1, 2**32 - 1]),
    (2**32 + 1, [0, 1], [1, 1]),
    (2**63 - 1, [0, 2**32 - 1], [2**31 - 1, 2**32 - 1]),
    (-(2**63), [0, 0], [2**31, 0]),
    (True, [0, 1], [0, 1]),
    (np.int32(-1), [0, 2**32 - 1], [0, 2**32 - 1]),
    (np.uint32(2**32 - 1), [0, 2**32 - 1], [0, 2**32 - 1]),
    (np.int64(2**33 + 1), [0, 1], [2, 1]),
    (np.uint64(2**63 + 1), [0, 1], [2**31, 1]),
]


@pytest.mark.parametrize("seed, narrow, wide", SEEDS, ids=[repr(s[0]) for s in SEEDS])
def test_words_of_seeds(seed, narrow, wide):
    for x64, words in ((False, narrow), (True, wide)):
        with pyjax.enable_x64(x64):
            assert random.key_data(random.key(seed)).tolist() == words
            assert random.PRNGKey(seed).tolist() == words


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_default(name):
    with pyjax.default_prng_impl(name):
        raw, typed = random.PRNGKey(3), random.key(3)
        assert random.key_impl(typed) == random.key_impl(raw) == name
        assert random.key_data(typed).tolist() == raw.tolist()
        assert random.uniform(raw) == random.uniform(typed)
    assert random.key_dtype(name) == typed.dtype
    assert random.wrap_key_data(np.asarray(raw), dtype=typed.dtype) == typed


ERRORS = {
    "seed beyond int64": (lambda: random.key(2**63), OverflowError, "does not fit into int64"),
    "seed below int64": (lambda: random.PRNGKey(-(10**25)), OverflowError, "does not fit"),
    "rbg": (lambda: random.key(2**64, impl="unsafe_rbg"), OverflowError, "does not fit"),
    "float seed": (lambda: random.key(1.0), TypeError, "must be an integer"),
    "seeds": (lambda: random.key(jnp.arange(2)), TypeError, "must be a scalar"),
    "unknown name": (lambda: random.key(0, impl="mt"), ValueError, "known: threefry2x32"),
    "no implementation": (lambda: random.key(0, impl=3), TypeError, "says no PRNG"),
    "no key dtype": (lambda: random.key(0, dtype=np.uint32), TypeError, "says no PRNG"),
    "both": (
        lambda: random.key(0, impl="rbg", dtype=random.key_dtype("rbg")),
        ValueError,
        "key got both impl='rbg' and dtype=key<rbg>",
    ),
    "both of data": (
        lambda: random.wrap_key_data(
            np.zeros(4, np.uint32), impl="rbg", dtype=random.key_dtype("rbg")
        ),
        ValueError,
        "wrap_key_data got both",
    ),
    "list as data": (lambda: random.wrap_key_data([1, 2]), TypeError, "needs an array"),
    "data of another type": (
        lambda: random.wrap_key_data(np.zeros(2, np.int32)),
        TypeError,
        "expected uint32",
    ),
    "data of another shape": (
        lambda: random.wrap_key_data(np.zeros(2, np.uint32), impl="rbg"),
        TypeError,
        r"trailing shape \(4,\)",
    ),
    "scalar data": (
        lambda: random.wrap_key_data(np.uint32(2), impl="philox2x32"),
        TypeError,
        r"trailing shape \(1,\)",
    ),
    "negative number": (lambda: random.fold_in(random.key(0), -1), OverflowError, "uint32"),
    "large number": (lambda: random.fold_in(random.key(0), 2**32), OverflowError, "uint32"),
    "numbers": (lambda: random.fold_in(random.key(0), jnp.arange(2)), TypeError, "scalar"),
    "fold into keys": (
        lambda: random.fold_in(random.split(random.key(0)), 1),
        ValueError,
        "single key",
    ),
    "split keys": (lambda: random.split(random.split(random.key(0))), ValueError, "single key"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, error, message = ERRORS[case]
    with pytest.raises(error, match=message):
        call()


def test_axes_out_of_bounds():
    key, x = random.key(0), jnp.zeros((2, 3))
    for draw in (
        random.permutation,
        random.categorical,
        lambda k, x, a: random.choice(k, x, axis=a),
    ):
        for axis in (2, -3):
            with pytest.raises(ValueError, match="out of bounds"):
                draw(key, x, axis)


# Recorded from the reference, with the key of the seed 42.
BOUNDS = [
    ((0.0, 10.0), "int32", [4, 4, 1, 9]),
    ((0.5, 9.7), "int32", [0, 6, 0, 1]),
    ((-1.5, 3.2), "int32", [-1, 1, 2, 0]),
    ((True, 5), "int32", [1, 3, 4, 2]),
    ((0, np.nan), "int32", [0, 0, 0, 0]),
    ((0, np.inf), "int32", [977810629, 1236381715, 780371127, 1127988417]),
    ((0.0, 300.0), "uint8", [196, 18, 183, 193]),
]


@pytest.mark.parametrize("bounds, dtype, drawn", BOUNDS, ids=[repr(b[0]) for b in BOUNDS])
def test_bounds_of_randint_are_converted(bounds, dtype, drawn):
    assert random.randint(random.key(42), (4,), *bounds, dtype).tolist() == drawn


def test_multinomial_of_any_dtype():
    for dtype in (int, "int8", "complex64"):
        counts = random.multinomial(random.key(42), 20, jnp.array([0.2, 0.3, 0.5]), dtype=dtype)
        assert counts.tolist() == [4, 4, 12] and counts.dtype == jnp.zeros((), dtype).dtype


def test_permutations_of_keys():
    keys = random.split(random.key(0), (3, 2))
    order = random.permutation(random.key(1), 3)
    for x in (keys[:, 0], keys):
        assert (random.permutation(random.key(1), x) == x[order]).all()
    words = random.key_data(random.permutation(random.key(1), keys, independent=True))
    for column in range(2):
        found = sorted(words[:, column].tolist())
        assert found == sorted(random.key_data(keys)[:, column].tolist())
    assert random.permutation(random.key(1), np.uint8(5)).dtype == np.int32


def test_what_fold_in_takes():
    key = random.key(0)
    one = random.key_data(random.fold_in(key, 1)).tolist()
    for data in (True, 1.5, np.float32(1), np.int64(1), jnp.uint8(1)):
        assert random.key_data(random.fold_in(key, data)).tolist() == one
    last = random.key_data(random.fold_in(key, 2**32 - 1)).tolist()
    assert random.key_data(random.fold_in(key, np.int32(-1))).tolist() == last
