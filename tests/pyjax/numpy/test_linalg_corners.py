"""Linear algebra on matrices without elements, and with a tolerance for each of many."""

import numpy as np
import pytest

import pyjax.numpy as jnp


@pytest.mark.parametrize("shape", [(0, 2), (3, 0), (0, 0)])
@pytest.mark.parametrize("columns", [(), (4,)])
def test_least_squares_without_elements(shape, columns) -> None:
    b = jnp.ones((shape[0], *columns))
    x, residuals, rank, s = jnp.linalg.lstsq(jnp.zeros(shape), b)
    np.testing.assert_array_equal(x, np.zeros((shape[1], *columns)))
    np.testing.assert_array_equal(residuals, np.full(columns or 1, float(shape[0])))
    assert rank == 0 and s.shape == (0,)


def test_a_tolerance_for_each_matrix() -> None:
    """Also where there are as many matrices as singular values."""
    x = np.broadcast_to(np.diag(np.float32([1, 0.5, 0.1])), (3, 3, 3))
    rtol = np.float32([0.7, 0.3, 0.01])
    np.testing.assert_array_equal(jnp.linalg.matrix_rank(x, rtol=rtol), [1, 2, 3])
    np.testing.assert_array_equal(jnp.linalg.matrix_rank(x, tol=rtol), [1, 2, 3])
    np.testing.assert_allclose(
        jnp.linalg.pinv(x, rtol=rtol), np.linalg.pinv(x, rcond=rtol), rtol=1e-5, atol=1e-7
    )
    assert jnp.linalg.pinv(x, rtol=rtol[:2, None]).shape == (2, 3, 3, 3)


@pytest.mark.parametrize("p", [None, -2, "fro"])
def test_condition_without_elements(p) -> None:
    with pytest.raises(ValueError, match="without elements"):
        jnp.linalg.cond(jnp.zeros((0, 0)), p)


def test_integrals_of_no_samples() -> None:
    assert jnp.trapezoid(jnp.zeros((2, 0))).tolist() == [0, 0]
    assert jnp.trapezoid(jnp.zeros(0), jnp.zeros(0)) == 0


def test_messages_say_what_is_wrong() -> None:
    with pytest.raises(TypeError, match="equal length"):
        jnp.tensordot(jnp.ones((2, 2)), jnp.ones((2, 2)), ((0,), (0, 1)))
    with pytest.raises(ValueError, match="kth 5 is out of bounds for axis 0 with size 3"):
        jnp.partition(jnp.arange(3), 5)
