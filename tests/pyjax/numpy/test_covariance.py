"""cov, corrcoef and products of few rows that are long: against NumPy."""

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax

rng = np.random.default_rng(7)


@pytest.mark.parametrize("shape", [(2, 300), (5, 255), (7, 256), (10, 10000), (15, 900), (70, 300)])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_cov(shape, dtype):
    x = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype is np.complex64 else 0)
    x = x.astype(dtype)
    for function in ("cov", "corrcoef"):
        right = getattr(np, function)(x)
        np.testing.assert_allclose(pyjax.jit(getattr(jnp, function))(x), right, atol=2e-5)
    np.testing.assert_allclose(jnp.cov(x.T, rowvar=False), np.cov(x), atol=2e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("sizes", [(3, 2, 257), (64, 7, 1000), (10, 10, 9000), (65, 5, 300)])
def test_rows_by_rows(sizes, dtype):
    m, n, k = sizes
    a, b, c = (jnp.asarray(rng.normal(size=s), dtype) for s in ((m, k), (n, k), (m, n)))
    product = lambda a, b: lax.dot_general(
        a, b, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
    )
    right = np.asarray(a, np.float64) @ np.asarray(b, np.float64).T
    scale = np.abs(right).max()
    np.testing.assert_allclose(pyjax.jit(product)(a, b), right, atol=1e-5 * scale)
    added = pyjax.jit(lambda a, b, c: jnp.tanh(product(a, b) / 50 + c.astype(jnp.float32)))
    right = np.tanh(right / 50 + np.asarray(c, np.float64))
    np.testing.assert_allclose(added(a, b, c), right, atol=2e-5)
