"""unique against NumPy's, where its results are made in host memory and where they are not."""

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "complex64", "bfloat16"])
def test_all_results(dtype, committed):
    rng = np.random.default_rng(0)
    for shape in ((60,), (7, 9), (5, 4, 3)):
        x = jnp.asarray(rng.integers(0, 4, shape).astype(jnp.dtype(dtype)))
        x = pyjax.device_put(x, pyjax.devices()[0]) if committed else x
        for axis in (None, 0, -1) if dtype in ("float32", "int32", "bool") else (None,):
            wanted = np.unique(np.asarray(x), True, True, True, axis=axis)
            found = jnp.unique(x, True, True, True, axis=axis)
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(a, b.reshape(a.shape))
            values = jnp.unique(x, axis=axis)
            np.testing.assert_array_equal(values, wanted[0])
            assert values.committed == committed and values.dtype == x.dtype


@pytest.mark.parametrize("equal_nan", [True, False])
def test_nan_and_zeros(equal_nan):
    x = np.array([np.nan, 1, np.nan, -0.0, 0.0, 2], np.float32)
    wanted = [0, 1, 2, np.nan] if equal_nan else [0, 1, 2, np.nan, np.nan]
    np.testing.assert_array_equal(jnp.unique(x, equal_nan=equal_nan), wanted)
    counts = jnp.unique(x, return_counts=True, equal_nan=equal_nan)[1]
    assert counts.tolist() == ([2, 1, 1, 2] if equal_nan else [2, 1, 1, 1, 1])


def test_values_can_be_differentiated():
    slope = pyjax.grad(lambda v: (jnp.unique(v) ** 2)[1])(jnp.array([3.0, 1.0, 3.0]))
    assert slope.sum() == 6 and slope[1] == 0


@pytest.mark.parametrize("repeated", [0, 1, 3, 300, 999])
@pytest.mark.parametrize("width", [(), (2,)])
def test_few_and_many_distinct_rows(repeated, width):
    """Which of the rows are kept is a mask of them, or a list of their places."""
    rng = np.random.default_rng(repeated)
    x = rng.permutation(1000).astype(np.float32)
    x[rng.permutation(1000)[:repeated]] = x[0]
    x = np.stack([x, x], 1) if width else x
    axis = 0 if width else None
    wanted = {"return_index": True, "return_inverse": True, "return_counts": True, "axis": axis}
    got, want = jnp.unique(x, **wanted), np.unique(x, **wanted)
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(jnp.unique(x, axis=axis), want[0])
