"""partition and argpartition against sorts: every place, dtypes, axes, equal elements."""

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from xla_backend.hlo.parser import parse_module

SHAPES = [((1000,), 0), ((33, 50), 0), ((33, 50), 1), ((3, 60, 7), 1)]
DTYPES = "float32 float64 int32 int64 int8 float16 uint64 bfloat16".split()


def drawn(shape, dtype, spread):
    """Numbers some of which are equal; of 64 bits, most differ in their last bits only."""
    rng = np.random.default_rng(0)
    dtype = jnp.dtype(dtype)
    x = rng.normal(size=shape) * spread
    if dtype.kind in "iu":
        x = np.abs(x).round()
        if dtype.itemsize == 8:
            return x.astype(dtype) + rng.choice(np.array([0, 2**62], dtype), shape)
    return x.astype(dtype)


def check(x, found, kth, axis):
    x, found = (np.moveaxis(np.asarray(v), axis, 0) for v in (x, found))
    wanted = np.sort(x, axis=0)
    for part in (slice(0, kth), slice(kth, kth + 1), slice(kth + 1, None)):
        np.testing.assert_array_equal(np.sort(found[part], axis=0), wanted[part])


@pytest.mark.parametrize("dtype", DTYPES)
def test_partition(dtype):
    with pyjax.enable_x64(True):
        for shape, axis in SHAPES:
            x = drawn(shape, dtype, 20)
            for kth in (0, 3, shape[axis] - 1, -5):
                place = kth % shape[axis]
                check(x, jnp.partition(x, kth, axis), place, axis)
                order = np.asarray(jnp.argpartition(x, kth, axis))
                np.testing.assert_array_equal(np.sort(order, axis), np.indices(shape)[axis])
                check(x, np.take_along_axis(x, order, axis), place, axis)


def test_nan_and_zeros():
    x = np.array([np.nan, 0.0, -0.0, 3, -np.inf, np.nan, -0.0] * 99, np.float32)
    for kth in (0, 300, 500, 692):
        check(x, jnp.partition(x, kth), kth, 0)
        check(x, x[np.asarray(jnp.argpartition(x, kth))], kth, 0)


def test_transformations():
    x = np.random.default_rng(1).permutation(60).astype(np.float32)
    slope = pyjax.grad(lambda v: jnp.partition(v, 7)[7])(x)
    assert slope.tolist() == (x == 7).tolist()
    rows = x.reshape(4, 15)
    middle = pyjax.vmap(lambda v: jnp.partition(v, 6)[6])(rows)
    np.testing.assert_array_equal(middle, np.sort(rows)[:, 6])


def test_a_sort_beside_it_is_whole():
    x = np.random.default_rng(2).permutation(5000).astype(np.float32)
    ordered, parts = pyjax.jit(lambda v: (jnp.sort(v), jnp.partition(v, 99)))(x)
    np.testing.assert_array_equal(ordered, np.arange(5000))
    check(x, parts, 99, 0)


def test_text_of_places():
    text = """HloModule m

less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}

ENTRY e {
  p = f32[9]{0} parameter(0)
  ROOT s = f32[9]{0} sort(p), dimensions={0}, places={3,4}, to_apply=less
}
"""
    module = parse_module(text)
    assert "places={3,4}" in str(module)
    assert str(parse_module(str(module))) == str(module)
