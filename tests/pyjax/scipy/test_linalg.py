"""pyjax.scipy.linalg against scipy.linalg and the defining equations."""

import numpy as np
import pytest
import scipy.linalg as reference

import pyjax
import pyjax.numpy as jnp
from pyjax.scipy import linalg

rng = np.random.default_rng(1)
A = rng.normal(size=(4, 4)) + 4 * np.eye(4)
Z = A + 1j * rng.normal(size=(4, 4))
TALL = rng.normal(size=(5, 3))
B = rng.normal(size=(4, 2))


def positive(a):
    return a @ a.conj().T


def close(x, y, tolerance=1e-10):
    np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=tolerance, atol=tolerance)


@pytest.fixture(autouse=True)
def double_precision():
    with pyjax.enable_x64(True):
        yield


@pytest.mark.parametrize("a", [A, Z], ids=["real", "complex"])
def test_cholesky(a):
    p = positive(a)
    for lower in (False, True):
        close(linalg.cholesky(p, lower=lower), reference.cholesky(p, lower=lower))
        factors = linalg.cho_factor(p, lower=lower)
        for b in (B, B[:, 0]):
            close(linalg.cho_solve(factors, b), np.linalg.solve(p, b))
            close(
                pyjax.jit(
                    lambda p, b, lower=lower: linalg.solve(p, b, lower=lower, assume_a="pos")
                )(p, b),
                np.linalg.solve(p, b),
            )
    assert np.isnan(linalg.cholesky(-p)).any()


@pytest.mark.parametrize("a", [A, Z], ids=["real", "complex"])
@pytest.mark.parametrize("trans", [0, 1, 2, "N", "T", "C"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit_diagonal", [False, True])
def test_solve_triangular(a, trans, lower, unit_diagonal):
    for b in (B, B[:, 0]):
        options = {"trans": trans, "lower": lower, "unit_diagonal": unit_diagonal}
        close(
            linalg.solve_triangular(a, b, **options),
            reference.solve_triangular(a, b, **options),
            1e-8,
        )


def test_solve_batches_and_errors():
    batch = np.stack([A, A.T, A @ A])
    close(linalg.solve_triangular(batch, B)[1], reference.solve_triangular(A.T, B))
    close(linalg.solve(batch, B[:, 0])[2], np.linalg.solve(A @ A, B[:, 0]))
    close(pyjax.vmap(linalg.solve)(batch, np.stack([B] * 3))[1], np.linalg.solve(A.T, B))
    with pytest.raises(ValueError, match="trans"):
        linalg.solve_triangular(A, B, trans="X")
    with pytest.raises(ValueError, match="square"):
        linalg.solve_triangular(TALL, B)
    with pytest.raises(ValueError):
        linalg.solve_triangular(A, np.ones(3))
    with pytest.raises(ValueError, match="assume_a"):
        linalg.solve(A, B, assume_a="other")


@pytest.mark.parametrize("function", ["solve", "solve_triangular", "pos", "cho_solve", "lu_solve"])
def test_gradients_of_solvers(function):
    p = positive(A)

    def f(a, b):
        if function == "pos":
            return jnp.sum(linalg.solve((a + a.T) / 2, b, assume_a="pos") ** 2)
        if function == "cho_solve":
            return jnp.sum(linalg.cho_solve(linalg.cho_factor((a + a.T) / 2), b) ** 2)
        if function == "lu_solve":
            return jnp.sum(linalg.lu_solve(linalg.lu_factor(a), b) ** 2)
        return jnp.sum(getattr(linalg, function)(a, b) ** 2)

    direction = rng.normal(size=(4, 4))
    ga, gb = pyjax.grad(f, (0, 1))(p, B)
    h = 1e-5
    close(
        np.sum(ga * direction), (f(p + h * direction, B) - f(p - h * direction, B)) / (2 * h), 1e-6
    )
    db = rng.normal(size=B.shape)
    close(np.sum(gb * db), (f(p, B + h * db) - f(p, B - h * db)) / (2 * h), 1e-6)


@pytest.mark.parametrize("a", [A, Z, TALL, TALL.T], ids=["real", "complex", "tall", "wide"])
def test_lu(a):
    p, lower, upper = linalg.lu(a)
    for found, expected in zip((p, lower, upper), reference.lu(a)):
        close(found, expected)
    pl, upper = linalg.lu(a, permute_l=True)
    close(pl @ upper, a)


def test_lu_solve():
    for a in (A, Z):
        factors = linalg.lu_factor(a)
        for trans, matrix in ((0, a), (1, a.T), (2, a.conj().T)):
            for b in (B, B[:, 0]):
                close(linalg.lu_solve(factors, b, trans), np.linalg.solve(matrix, b))
    with pytest.raises(ValueError, match="trans"):
        linalg.lu_solve(factors, B, trans=5)


def test_inv_det():
    close(linalg.inv(A), np.linalg.inv(A))
    close(linalg.det(Z), np.linalg.det(Z))


def test_qr():
    for a in (A, TALL, Z):
        q, r = linalg.qr(a)
        assert q.shape == (len(a), len(a))
        close(q @ r, a)
        q, r = linalg.qr(a, mode="economic")
        close(q @ r, a)
        (only,) = linalg.qr(a, mode="r")
        close(jnp.abs(only[: a.shape[1]]), jnp.abs(r))
        q, r, p = linalg.qr(a, pivoting=True)
        close(q @ r, a[:, p])
    with pytest.raises(ValueError, match="mode"):
        linalg.qr(A, mode="other")


def test_svd_eigh():
    u, s, vh = linalg.svd(TALL, full_matrices=False)
    close(u * s @ vh, TALL)
    close(linalg.svd(TALL, compute_uv=False), reference.svdvals(TALL))
    symmetric = A + A.T
    w, v = linalg.eigh(symmetric)
    close(v * w @ v.T, symmetric)
    close(linalg.eigh(symmetric, lower=False, eigvals_only=True), reference.eigvalsh(symmetric))
    with pytest.raises(NotImplementedError, match="cholesky"):
        linalg.eigh(A, A)


@pytest.mark.parametrize("scale", [1e-4, 0.05, 0.3, 1.0, 8.0])
def test_expm(scale):
    for a in (A * scale, Z * scale):
        expected = reference.expm(a)
        close(linalg.expm(a) / np.abs(expected).max(), expected / np.abs(expected).max(), 1e-11)
    with pyjax.enable_x64(False):
        result = linalg.expm(jnp.asarray(A * scale, jnp.float32))
        expected = reference.expm(A * scale)
        assert np.abs(result - expected).max() <= 2e-5 * np.abs(expected).max() * max(1, scale)
    triangular = np.triu(A) * scale
    upper = linalg.expm(triangular, upper_triangular=True)
    close(upper / np.abs(upper).max(), reference.expm(triangular) / np.abs(upper).max())


def test_expm_derivative_and_limits():
    value, derivative = linalg.expm_frechet(A, B @ B.T)
    for found, expected in zip((value, derivative), reference.expm_frechet(A, B @ B.T)):
        close(found / np.abs(expected).max(), expected / np.abs(expected).max(), 1e-11)
    batch = linalg.expm(np.stack([A, np.zeros((4, 4))]))
    close(batch[1], np.eye(4))
    assert np.isnan(linalg.expm(1e9 * A)).all()
    with pytest.raises(ValueError, match="square"):
        linalg.expm(TALL)


def test_schur_and_friends():
    for a, output in ((A, "real"), (A, "complex"), (Z, "complex")):
        t, z = linalg.schur(a, output)
        close(z @ t @ z.conj().T, a)
    t, z = linalg.rsf2csf(*linalg.schur(A))
    close(z @ t @ z.conj().T, A)
    close(jnp.tril(t, -1), np.zeros((4, 4)))
    h, q = linalg.hessenberg(A, calc_q=True)
    close(q @ h @ q.T, A)
    close(jnp.tril(h, -2), np.zeros((4, 4)))


def test_a_function_of_a_large_matrix_is_a_loop():
    x = np.random.default_rng(3).normal(size=(40, 40)) / 4
    close(linalg.funm(x, jnp.exp), reference.expm(x), 1e-7)
    function = lambda a: linalg.funm(a, jnp.exp)
    small, large = (str(pyjax.make_jaxpr(function)(x[:n, :n])) for n in (5, 40))
    assert small.count("=") == large.count("=")


def test_functions():
    root = linalg.sqrtm(A)
    close(root @ root, A)
    close(root, reference.sqrtm(A))
    close(linalg.funm(A, jnp.exp), reference.expm(A), 1e-7)
    for method in ("qdwh", "svd"):
        u, p = linalg.polar(TALL, method=method)
        close(u @ p, TALL)
        close(u.T @ u, np.eye(3))
        close(p, p.T)
    u, p = linalg.polar(TALL.T, side="left", method="svd")
    close(p @ u, TALL.T)
    with pytest.raises(ValueError, match="side"):
        linalg.polar(TALL, side="up")


C, R = np.array([1.0, 2, 3]), np.array([9.0, 5, 6, 7])
SPECIAL = [
    ("block_diag", (np.array([[1, 2]]), np.array(3), np.array([4, 5]))),
    ("toeplitz", (C,)),
    ("toeplitz", (C, R)),
    ("hankel", (C,)),
    ("hankel", (C, R)),
    ("circulant", (C,)),
    ("companion", (R,)),
    ("dft", (5, "sqrtn")),
    ("hadamard", (8,)),
    ("helmert", (5,)),
    ("helmert", (4, True)),
    ("hilbert", (4,)),
    ("fiedler", (C,)),
    ("leslie", (R, C)),
]


@pytest.mark.parametrize("name, args", SPECIAL)
def test_special_matrices(name, args):
    result = getattr(linalg, name)(*args)
    expected = getattr(reference, name)(*args)
    assert result.dtype == expected.dtype
    close(result, expected, 1e-13)


def test_special_matrix_errors():
    with pytest.raises(ValueError, match="power of 2"):
        linalg.hadamard(6)
    with pytest.raises(ValueError, match="2 dimensions"):
        linalg.block_diag(np.ones((2, 2, 2)))
    assert linalg.toeplitz(np.ones((2, 3))).shape == (2, 3, 3)


def test_only_the_squarings_that_a_matrix_needs_are_computed():
    """All sixteen were: two thirds of the time for 64×64."""
    eqns = pyjax.make_jaxpr(linalg.expm)(jnp.eye(3)).eqns
    loops = [str(eqn) for eqn in eqns if eqn.primitive.name in ("scan", "while")]
    assert len(loops) == 1
    assert "cond[" in loops[0]
