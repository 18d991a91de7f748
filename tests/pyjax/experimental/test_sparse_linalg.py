"""Direct solution of sparse systems, and eigenvalues by products, compared with NumPy."""

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax.experimental import sparse
from pyjax.experimental.sparse import BCOO, CSR
from pyjax.experimental.sparse.linalg import lobpcg_standard, spsolve


def system(dtype=np.float32, n=5):
    rng = np.random.default_rng(0)
    a = np.where(rng.random((n, n)) < 0.4, rng.normal(size=(n, n)), 0) + 4 * np.eye(n)
    if np.issubdtype(dtype, np.complexfloating):
        a = a + 1j * np.triu(a)
    return a.astype(dtype), rng.normal(size=n).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("reorder", [0, 2])
@pytest.mark.parametrize("jit", [False, True])
def test_spsolve(dtype, reorder, jit):
    a, b = system(dtype)
    m = CSR.fromdense(a)
    solve = pyjax.jit(spsolve, static_argnums=(4, 5)) if jit else spsolve
    x = solve(m.data, m.indices, m.indptr, b, 1e-6, reorder)
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-4)


def test_spsolve_transformed():
    a, b = system()
    m = CSR.fromdense(a)

    def loss(data, b):
        return (spsolve(data, m.indices, m.indptr, b) ** 2).sum()

    def dense(a, b):
        return (jnp.linalg.solve(a, b) ** 2).sum()

    found, by_b = pyjax.grad(loss, (0, 1))(m.data, b)
    expected, expected_b = pyjax.grad(dense, (0, 1))(a, b)
    np.testing.assert_allclose(by_b, expected_b, rtol=1e-3, atol=1e-5)
    placed = CSR((found, m.indices, m.indptr), shape=a.shape).todense()
    np.testing.assert_allclose(placed, np.where(a != 0, expected, 0), rtol=1e-3, atol=1e-4)
    several = np.stack([b, 2 * b])
    got = pyjax.vmap(lambda b: spsolve(m.data, m.indices, m.indptr, b))(several)
    np.testing.assert_allclose(got, np.linalg.solve(a, several.T).T, rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (dict(b=np.ones((5, 1), np.float32)), "one-dimensional"),
        (dict(b=np.ones(6, np.float32)), "buffer sizes"),
        (dict(b=np.ones(5, np.int32)), "types do not match"),
        (dict(b=np.ones(5, np.float32), reorder=7), "reorder"),
    ],
)
def test_spsolve_faults(change, said):
    m = CSR.fromdense(system()[0])
    with pytest.raises(ValueError, match=said):
        spsolve(m.data, m.indices, m.indptr, **change)


def spectrum(values, seed=0):
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.normal(size=(len(values),) * 2))[0]
    return ((q * values) @ q.T).astype(np.float32)


SPECTRA = [
    np.arange(1.0, 41.0),
    -np.arange(1.0, 41.0),
    np.repeat([5.0, 1.0, 0.1, -7.0], 10),
    np.r_[np.zeros(38), 1.0, 2.0],
]


@pytest.mark.parametrize("values", SPECTRA, ids=["rising", "negative", "repeated", "low rank"])
@pytest.mark.parametrize("given", ["matrix", "function", "sparse"])
def test_lobpcg(values, given):
    a = spectrum(values)
    x = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)
    form = {"matrix": a, "function": lambda v: a @ v, "sparse": BCOO.fromdense(a)}[given]
    theta, u, steps = lobpcg_standard(form, x)
    best = np.sort(values)[::-1][:3]
    np.testing.assert_allclose(theta, best, atol=2e-3 * np.abs(values).max())
    np.testing.assert_allclose(u.T @ u, np.eye(3), atol=1e-5)
    residual = np.linalg.norm(a @ u - u * theta, axis=0)
    assert residual.max() < 2e-3 * np.abs(values).max() and 0 < int(steps) <= 100


def test_lobpcg_stops():
    a, x = spectrum(np.arange(1.0, 41.0)), np.eye(40, 3, dtype=np.float32)
    assert int(lobpcg_standard(a, x, m=2)[2]) == 2
    loose, tight = (int(lobpcg_standard(a, x, tol=t)[2]) for t in (1e-4, None))
    assert loose < tight
    zeros = lobpcg_standard(a, np.zeros((40, 2), np.float32))
    np.testing.assert_allclose(zeros[0], [40, 39], rtol=1e-3)


@pytest.mark.parametrize(
    ("a", "x", "said"),
    [
        (np.eye(40), np.ones((40, 9), "f"), "search dim"),
        (np.eye(40), np.ones(40, "f"), "must be"),
        (np.eye(40), np.ones((41, 2), "f"), "must be"),
        (lambda v: v[:-1], np.ones((40, 2), "f"), "got output"),
    ],
)
def test_lobpcg_faults(a, x, said):
    with pytest.raises(ValueError, match=said):
        lobpcg_standard(a, x)


def test_public_names():
    assert sparse.linalg.spsolve is spsolve
