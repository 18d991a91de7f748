"""What masks choose of long arrays outside of transformations: the same elements and places that
NumPy has, whatever the type, the share that is chosen and the number of threads."""

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp

SIZE = 70_001
TYPES = "bool int8 bfloat16 float16 int32 float32 int64 float64 complex64 complex128".split()


def drawn(dtype, share=0.5, shape=(SIZE,)):
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, shape).astype(jnp.dtype(dtype))
    return x, rng.random(shape) < share


@pytest.mark.parametrize("dtype", TYPES)
def test_elements(dtype):
    x, mask = drawn(dtype)
    with pyjax.enable_x64(True):
        given, chooser = jnp.asarray(x), jnp.asarray(mask)
        for found in (given[chooser], jnp.compress(chooser, given), jnp.extract(chooser, given)):
            assert found.dtype == x.dtype
            np.testing.assert_array_equal(found, x[mask])


@pytest.mark.parametrize("share", [0, 0.001, 0.3, 0.9, 1])
@pytest.mark.parametrize("wide", [False, True])
def test_places(share, wide):
    _, mask = drawn("float32", share)
    with pyjax.enable_x64(wide):
        chooser = jnp.asarray(mask)
        for (found,) in (jnp.nonzero(chooser), jnp.where(chooser), (jnp.flatnonzero(chooser),)):
            assert found.dtype == (np.int64 if wide else np.int32)
            np.testing.assert_array_equal(found, np.flatnonzero(mask))


def test_special_numbers_keep_their_bits():
    x, mask = drawn("float32")
    x[::3], x[1::5], x[::7] = np.nan, -0.0, np.inf
    found = np.asarray(jnp.asarray(x)[jnp.asarray(mask)])
    np.testing.assert_array_equal(found.view(np.int32), x[mask].view(np.int32))


def test_masks_of_several_dimensions():
    x, mask = drawn("float32", shape=(300, 301))
    given, chooser = jnp.asarray(x), jnp.asarray(mask)
    np.testing.assert_array_equal(given[chooser], x[mask])
    for found, wanted in zip(jnp.nonzero(chooser), np.nonzero(mask), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_results_are_arrays_like_others():
    x, mask = drawn("float32")
    given, chooser = jnp.asarray(x), jnp.asarray(mask)
    found = given[chooser]
    del given
    np.testing.assert_array_equal(found * 2 + 1, x[mask] * 2 + 1)
    doubled = pyjax.jit(lambda a: a * 2, donate_argnums=0)
    np.testing.assert_array_equal(doubled(found), x[mask] * 2)


def test_transformations_go_their_own_way():
    x, mask = drawn("float32")
    chooser = jnp.asarray(mask)
    slope = pyjax.grad(lambda a: (a[chooser] ** 2).sum())(jnp.asarray(x))
    np.testing.assert_array_equal(slope, np.where(mask, 2 * x, 0))
    known = pyjax.jit(lambda a: a[chooser] + jnp.nonzero(chooser)[0])
    np.testing.assert_array_equal(known(jnp.asarray(x)), x[mask] + np.flatnonzero(mask))
