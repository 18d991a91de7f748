"""Branch cuts, padded windows, long running logsumexp, reflectors, rank-one updates."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import pyjax
import pyjax.numpy as jnp
from pyjax import lax

ON_THE_CUTS = np.array(
    [3, -3, complex(3, -0.0), complex(-3, -0.0), 0.5, complex(0.5, -0.0), 1 + 2j, -2 - 1j],
    np.complex64,
)


@pytest.mark.parametrize("name", ["asin", "acos", "atan", "asinh", "acosh", "atanh"])
@pytest.mark.parametrize("compiled", [False, True])
def test_complex_inverse_functions_on_branch_cuts(name: str, compiled: bool) -> None:
    """C99's sides of the cuts, told by the signs of zeros, which are NumPy's."""
    function = getattr(lax, name)
    got = np.asarray((pyjax.jit(function) if compiled else function)(ON_THE_CUTS))
    want = getattr(np, f"arc{name[1:]}")(ON_THE_CUTS)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_complex_atan2() -> None:
    rng = np.random.default_rng(0)
    y, x = (rng.normal(size=(2, 5)) + 1j * rng.normal(size=(2, 5))).astype(np.complex64)
    root = np.sqrt(x.astype(complex) ** 2 + y.astype(complex) ** 2)
    want = -1j * np.log((x + 1j * y) / root)
    np.testing.assert_allclose(lax.atan2(y, x), want, rtol=2e-5, atol=2e-5)
    # Its derivatives are those of the real function.
    _, tangent = pyjax.jvp(lax.atan2, (y, x), (np.ones_like(y), np.zeros_like(x)))
    np.testing.assert_allclose(tangent, x / (x**2 + y**2), rtol=1e-4, atol=1e-5)


def test_window_sums_start_from_the_initial_value_in_padding_too() -> None:
    x = np.arange(6, dtype=np.int32)
    got = lax.reduce_window(x, np.int32(1), lax.add, (2,), (1,), ((1, 1),))
    np.testing.assert_array_equal(got, [1, 2, 4, 6, 8, 10, 6])


@pytest.mark.parametrize("size", [4096, 5000, 10007])
@pytest.mark.parametrize("reverse", [False, True])
def test_long_cumlogsumexp(size: int, reverse: bool) -> None:
    """Blocks of a long axis: terms hundreds apart, where exp alone would under- or overflow."""
    x = np.random.default_rng(0).normal(size=(2, size)).astype(np.float32) * 200
    x[:, :100] = -np.inf
    wide = x.astype(np.float64)
    ordered = wide[:, ::-1] if reverse else wide
    with np.errstate(invalid="ignore"):
        want = np.logaddexp.accumulate(ordered, axis=1)
    want = want[:, ::-1] if reverse else want
    got = lax.cumlogsumexp(x, axis=1, reverse=reverse)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


def test_long_cumlogsumexp_keeps_infinities_and_nans() -> None:
    x = np.zeros(5000, np.float32)
    x[2500], x[4000] = np.inf, np.nan
    got = np.asarray(lax.cumlogsumexp(x))
    np.testing.assert_allclose(got[:2500], np.log(np.arange(1, 2501)), rtol=1e-5, atol=1e-6)
    assert np.all(got[2500:4000] == np.inf)
    assert np.all(np.isnan(got[4000:]))


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 4, 3)])
def test_qr_raw_gives_lapack_reflectors(shape: tuple[int, ...]) -> None:
    a = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    h, tau = jnp.linalg.qr(a, mode="raw")
    want_h, want_tau = np.linalg.qr(a, mode="raw")
    np.testing.assert_allclose(h, want_h, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(tau, want_tau, rtol=2e-5, atol=2e-5)


def test_geqrf_and_householder_product_rebuild_the_matrix() -> None:
    a = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    packed, taus = lax.linalg.geqrf(a)
    q = lax.linalg.householder_product(packed, taus)
    np.testing.assert_allclose(q @ jnp.triu(packed[:3]), a, rtol=1e-5, atol=1e-5)


def _factor_and_vector() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    r = np.triu(rng.normal(size=(3, 3))) + 3 * np.eye(3)
    return r.astype(np.float32), rng.normal(size=3).astype(np.float32)


def test_cholesky_update_derivative() -> None:
    r, w = _factor_and_vector()
    dr, dw = np.triu(np.ones_like(r)), np.ones_like(w)

    def update(t: float) -> np.ndarray:
        factor, vector = r.astype(float) + t * dr, w.astype(float) + t * dw
        return scipy.linalg.cholesky(factor.T @ factor + np.outer(vector, vector))

    out, tangent = pyjax.jvp(lax.linalg.cholesky_update, (r, w), (dr, dw))
    np.testing.assert_allclose(out, update(0), rtol=1e-5, atol=1e-5)
    want = (update(1e-5) - update(-1e-5)) / 2e-5
    np.testing.assert_allclose(tangent, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("in_axes", [(0, None), (None, 1), (0, 1)])
def test_cholesky_update_is_mapped(in_axes: tuple[int | None, int | None]) -> None:
    r, w = _factor_and_vector()
    rs = np.stack([r, 2 * r]) if in_axes[0] is not None else r
    ws = np.stack([w, -3 * w], axis=1) if in_axes[1] is not None else w
    got = pyjax.vmap(lax.linalg.cholesky_update, in_axes)(rs, ws)
    for i in range(2):
        one_r = rs if in_axes[0] is None else rs[i]
        one_w = ws if in_axes[1] is None else ws[:, i]
        want = lax.linalg.cholesky_update(one_r, one_w)
        np.testing.assert_allclose(got[i], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("full_matrices", [True, False])
@pytest.mark.parametrize("shape", [(5, 0), (0, 5), (2, 3, 0), (0, 0), (2, 0, 4)])
def test_singular_vectors_of_nothing_are_unitary(shape, full_matrices):
    for dtype in ("float32", "complex64"):
        matrix = np.zeros(shape, dtype)
        got = jnp.linalg.svd(matrix, full_matrices=full_matrices)
        for ours, numpys in zip(got, np.linalg.svd(matrix, full_matrices=full_matrices)):
            np.testing.assert_array_equal(ours, numpys, strict=True)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("compute_uv", [True, False])
def test_singular_values_of_what_is_not_finite(dtype, compute_uv):
    """LAPACK's gesdd never ended for such a matrix."""
    a = np.random.default_rng(0).standard_normal((2, 18, 12)).astype(dtype)
    a[1, 0, 0] = np.inf
    found = jnp.linalg.svd(a, compute_uv=compute_uv)
    for part in found if compute_uv else (found,):
        assert np.isfinite(part[0]).all() and np.isnan(part[1]).all()
