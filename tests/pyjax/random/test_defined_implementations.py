"""`pyjax.extend.random`: implementations of keys that users define."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import random
from pyjax.extend import random as extend_random

THREE = dict(
    key_shape=(3,),
    seed=lambda seed: jnp.stack([seed.astype(np.uint32)] * 3),
    split=lambda key, shape: key + jnp.arange(np.prod(shape), dtype=np.uint32).reshape(*shape, 1),
    random_bits=lambda key, width, shape: jnp.full(shape, key[0], f"uint{width}"),
    fold_in=lambda key, data: key + data,
)
threefry = extend_random.threefry_prng_impl


def defined(**changed):
    return extend_random.define_prng_impl(**{**THREE, **changed})


def again(**changed):
    """threefry2x32 under another name."""
    named = {"name": "again", "tag": "again", **changed}
    return extend_random.define_prng_impl(**{**threefry._asdict(), **named})


def test_functions_of_one_key_are_mapped():
    keys = random.split(random.key(5, impl=defined(tag="three")), (2, 2))
    assert keys.shape == (2, 2) and str(keys.dtype) == "key<three>"
    assert random.key_data(keys)[..., 1].tolist() == [[5, 6], [7, 8]]
    bits = pyjax.vmap(pyjax.vmap(lambda k: random.bits(k, (2,), "uint8")))(keys)
    assert bits.tolist() == [[[5, 5], [6, 6]], [[7, 7], [8, 8]]] and bits.dtype == np.uint8
    folded = pyjax.jit(pyjax.vmap(random.fold_in, (0, None)))(keys[0], 7)
    assert random.key_data(folded)[:, 0].tolist() == [12, 13]
    seeded = pyjax.vmap(lambda s: random.key(s, impl=defined()))(jnp.arange(3))
    assert random.key_data(seeded)[:, 2].tolist() == [0, 1, 2]


def test_distributions_draw_from_them():
    ours, theirs = random.key(3, impl=again()), random.key(3)
    for draw in (random.normal, random.permutation, random.gamma):
        args = ((4,),) if draw is random.normal else (4,)
        assert draw(ours, *args).tolist() == draw(theirs, *args).tolist()


def test_equality_and_names():
    impl = defined()
    assert impl == defined() and hash(impl) == hash(defined()) and str(impl) == "?"
    assert impl != defined(tag="other") and impl != defined(key_shape=(4,))
    key = random.key(0, impl=impl)
    assert random.key_impl(key) == impl and key.dtype == random.key(1, impl=defined()).dtype
    assert random.key(0, dtype=key.dtype).dtype == key.dtype
    assert random.key(0, impl=random.key_impl(key)).dtype == key.dtype
    # Keys of a name that exists are not keys of that implementation.
    assert random.key_impl(random.key(0, impl=again(name="rbg"))) != "rbg"
    with pytest.raises(ValueError, match="unknown PRNG implementation 'again'"):
        random.key(0, impl="again")


@pytest.mark.parametrize(
    "changed, use",
    [
        (dict(seed=lambda seed: jnp.zeros(2, np.uint32)), lambda impl: random.key(0, impl=impl)),
        (dict(seed=lambda seed: jnp.zeros(3, np.int32)), lambda impl: random.key(0, impl=impl)),
        (dict(split=lambda key, shape: key), lambda impl: random.split(random.key(0, impl=impl))),
        (
            dict(random_bits=lambda key, width, shape: key),
            lambda impl: random.bits(random.key(0, impl=impl)),
        ),
        (
            dict(fold_in=lambda key, data: data),
            lambda impl: random.fold_in(random.key(0, impl=impl), 1),
        ),
    ],
)
def test_results_that_do_not_fit(changed, use):
    (role,) = changed
    with pytest.raises(TypeError, match=rf"the {role} of a PRNG implementation returned"):
        use(defined(**changed))


def test_seed_with_impl():
    keys = extend_random.seed_with_impl(threefry, jnp.arange(2))
    assert random.key_data(keys).tolist() == [[0, 0], [0, 1]]
    assert random.key_data(extend_random.random_seed(5, threefry)).tolist() == [0, 5]
    for seed, error in ((1.5, TypeError), (2**63, OverflowError), (-(2**63) - 1, OverflowError)):
        with pytest.raises(error):
            extend_random.random_seed(seed, threefry)


def test_threefry_2x32():
    hashed = extend_random.threefry_2x32
    key = jnp.array([1, 2], np.uint32)
    assert hashed(key, jnp.arange(6, dtype=np.uint32).reshape(2, 3)).tolist() == [
        [2052595727, 3504730591, 1038787879],
        [1880214352, 1914734168, 1027009547],
    ]
    assert hashed(tuple(key), jnp.arange(5, dtype=np.uint32)).tolist() == [
        2052595727,
        3504730591,
        2527474599,
        1880214352,
        1914734168,
    ]
    assert hashed(key, jnp.zeros((0, 2), np.uint32)).shape == (0, 2)
    with pytest.raises(TypeError, match="words of keys and counters are uint32"):
        hashed(key, jnp.arange(6))
