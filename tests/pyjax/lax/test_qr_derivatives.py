"""Derivatives of QR factors of any shape, by finite differences; rank-one Cholesky updates."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.test_util import check_grads

SHAPES = [(2, 3), (3, 2), (3, 3), (5, 2), (1, 4), (6, 3)]


def differences(function, x, direction, h: float = 1e-6) -> list[np.ndarray]:
    pairs = zip(function(x + h * direction), function(x - h * direction), strict=True)
    return [(np.asarray(a) - np.asarray(b)) / (2 * h) for a, b in pairs]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("pivoting", [False, True], ids=["plain", "pivoting"])
@pytest.mark.parametrize("full", [False, True], ids=["thin", "full"])
def test_tangents_are_finite_differences(shape, dtype, pivoting, full) -> None:
    rng = np.random.default_rng(sum(shape))
    x, direction = rng.normal(size=(2, *shape)).astype(dtype)
    if dtype == "complex128":
        x, direction = x + 1j * rng.normal(size=shape), direction - 1j * rng.normal(size=shape)
    with pyjax.enable_x64(True):
        factors = partial(lax.linalg.qr, pivoting=pivoting, full_matrices=full)
        want = differences(lambda a: factors(a)[:2], x, direction)
        _, got = pyjax.jvp(lambda a: factors(a)[:2], (x,), (direction,))
        batched = pyjax.vmap(lambda a, d: pyjax.jvp(lambda a: factors(a)[:2], (a,), (d,))[1])
        rows = batched(np.stack([x, x]), np.stack([direction, direction]))
    for g, w, row in zip(got, want, rows, strict=True):
        np.testing.assert_allclose(g, w, atol=1e-6)
        np.testing.assert_allclose(row[1], g, atol=1e-12)


def test_gradient_of_a_wide_matrix() -> None:
    m = jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
    check_grads(lambda m: jnp.linalg.qr(m)[1], (m,), 2, rtol=2e-2, atol=2e-2)


def test_columns_without_reflectors_keep_the_tangent_orthogonal() -> None:
    """No derivative of the added columns: they turn only as far as q makes them."""
    x, direction = np.eye(4, 2, dtype=np.float32), np.ones((4, 2), np.float32)
    (q, _), (dq, dr) = pyjax.jvp(partial(jnp.linalg.qr, mode="complete"), (x,), (direction,))
    np.testing.assert_allclose(dq.T @ q + q.T @ dq, np.zeros((4, 4)), atol=1e-6)
    np.testing.assert_allclose(dr, [[1, 2], [0, 1], [0, 0], [0, 0]], atol=1e-6)


@pytest.mark.parametrize(
    "r, w",
    [
        (np.zeros((3, 3)), [4.0, 1.0, -1.0]),
        (np.zeros((3, 3)), [0.0, 0.0, 0.0]),
        (np.zeros((3, 3)), [0.0, 1.0, -1.0]),
        (np.diag([1.0, 0.0, 2.0]), [4.0, 1.0, -1.0]),
        (-np.eye(3), [-4.0, 1.0, -1.0]),
        (1e25 * np.eye(3), [-4e25, 1e25, -1e25]),
        (np.zeros((0, 0)), np.zeros(0)),
    ],
)
@pytest.mark.parametrize("call", [lax.linalg.cholesky_update, None], ids=["plain", "vmap"])
def test_update_of_any_factor(r, w, call) -> None:
    """Zero, singular, negative and so large that its square overflows."""
    r, w = np.asarray(r, np.float32), np.asarray(w, np.float32)
    if call is None:
        got = np.asarray(pyjax.vmap(lax.linalg.cholesky_update)(r[None], w[None])[0])
    else:
        got = np.asarray(call(r, w))
    assert np.all(np.tril(got, -1) == 0)
    scale = max(np.max(np.abs(w), initial=0), 1)
    want = (r / scale).T @ (r / scale) + np.outer(w / scale, w / scale)
    np.testing.assert_allclose((got / scale).T @ (got / scale), want, atol=1e-5)


def test_gradient_of_the_update() -> None:
    rng = np.random.default_rng(1)
    r, w = np.triu(rng.normal(size=(4, 4))), rng.normal(size=4)
    with pyjax.enable_x64(True):
        check_grads(lax.linalg.cholesky_update, (r, w), 2)


def test_the_update_is_real() -> None:
    with pytest.raises(TypeError, match="cholesky_update does not accept dtype complex64"):
        lax.linalg.cholesky_update(jnp.eye(2) + 0j, jnp.array([1j, 1.0]))


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_products_of_reflectors(dtype, columns) -> None:
    """Derivatives for any numbers: a tau of 0, and products that are not unitary, are included."""
    rng = np.random.default_rng(columns)

    def draw(*shape):
        x = rng.normal(size=shape)
        return x + 1j * rng.normal(size=shape) if dtype == "complex128" else x

    a, taus, c = draw(5, 3), draw(columns), draw(5, 5)
    taus[0] = 0
    with pyjax.enable_x64(True):
        check_grads(lax.linalg.householder_product, (a, taus), order=2)
        if columns == 3:
            for left, transpose in [(True, False), (True, True), (False, False), (False, True)]:
                product = partial(lax.linalg.ormqr, left=left, transpose=transpose)
                check_grads(product, (a, taus, c), order=1)
                tangents = draw(5, 3), draw(3), draw(5, 5)
                batched = pyjax.vmap(
                    lambda *t, f=product: pyjax.jvp(f, (a, taus, c), t)[1], in_axes=(0, None, None)
                )
                got = batched(np.stack([tangents[0]] * 2), *tangents[1:])
                want = pyjax.jvp(product, (a, taus, c), tangents)[1]
                np.testing.assert_allclose(got[1], want, atol=1e-12)
