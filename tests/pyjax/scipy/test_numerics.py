"""pyjax.scipy: fft, signal, sparse.linalg, optimize, ndimage, interpolate, integrate, cluster."""

import re

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.fft
import scipy.interpolate
import scipy.ndimage
import scipy.signal

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax import scipy as psp

rng = np.random.default_rng(2)


@pytest.fixture(autouse=True)
def double_precision():
    with pyjax.enable_x64(True):
        yield


def close(x, y, tolerance=1e-10):
    np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["dct", "idct"])
@pytest.mark.parametrize("shape, axis", [((1,), 0), ((5,), 0), ((4, 6), 0), ((4, 6), -1)])
@pytest.mark.parametrize("norm", [None, "ortho"])
@pytest.mark.parametrize("n", [None, 3, 9])
def test_dct(name, shape, axis, norm, n):
    x = rng.normal(size=shape)
    ours = getattr(psp.fft, name)(x, n=n, axis=axis, norm=norm)
    close(ours, getattr(scipy.fft, name)(x, n=n, axis=axis, norm=norm))


def test_dctn():
    x = rng.normal(size=(4, 5, 3))
    for axes, s in ((None, None), ((0, 2), None), ((0, 1), (3, 8)), (None, (4, 2))):
        close(psp.fft.dctn(x, s=s, axes=axes), scipy.fft.dctn(x, s=s, axes=axes))
        close(psp.fft.idctn(x, s=s, axes=axes), scipy.fft.idctn(x, s=s, axes=axes))
    with pytest.raises(NotImplementedError, match="type 2"):
        psp.fft.dct(x, type=1)
    with pytest.raises(ValueError, match="norm"):
        psp.fft.dct(x, norm="other")


SHAPES = [((7,), (3,)), ((7,), (4,)), ((3,), (7,)), ((5, 6), (2, 3)), ((4, 4, 4), (2, 3, 1))]


@pytest.mark.parametrize("shape1, shape2", SHAPES)
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("method", ["direct", "fft"])
def test_convolve(shape1, shape2, mode, method):
    x, y = rng.normal(size=shape1), rng.normal(size=shape2)
    for name in ("convolve", "correlate"):
        if name == "correlate" and mode == "same":
            continue
        ours = getattr(psp.signal, name)(x, y, mode=mode, method=method)
        close(ours, getattr(scipy.signal, name)(x, y, mode=mode, method=method))
    close(psp.signal.fftconvolve(x, y, mode), scipy.signal.fftconvolve(x, y, mode))
    if x.ndim == 2:
        for name in ("convolve2d", "correlate2d"):
            close(getattr(psp.signal, name)(x, y, mode), getattr(scipy.signal, name)(x, y, mode))


def test_convolve_others():
    z = rng.normal(size=5) + 1j * rng.normal(size=5)
    w = rng.normal(size=3) + 1j * rng.normal(size=3)
    close(psp.signal.convolve(z, w), np.convolve(z, w))
    close(psp.signal.fftconvolve(z, w), np.convolve(z, w))
    close(psp.signal.correlate(z, w), scipy.signal.correlate(z, w))
    x, y = rng.normal(size=(3, 8)), rng.normal(size=(3, 4))
    close(psp.signal.fftconvolve(x, y, axes=1), scipy.signal.fftconvolve(x, y, axes=1))
    grad = pyjax.grad(lambda k: jnp.sum(psp.signal.convolve(x[0], k) ** 2))(y[0])
    close(grad, 2 * scipy.signal.correlate(np.convolve(x[0], y[0]), x[0], "valid"))
    with pytest.raises(ValueError, match="mode"):
        psp.signal.convolve(x, y, mode="other")
    with pytest.raises(ValueError, match="dimensions"):
        psp.signal.convolve(x, y[0])
    with pytest.raises(ValueError, match="at least as large"):
        psp.signal.convolve(np.ones((2, 5)), np.ones((5, 2)), mode="valid")
    with pytest.raises(NotImplementedError, match="boundary"):
        psp.signal.convolve2d(x, y, boundary="wrap")


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("n, m", [(1, 1), (2, 2), (5, 1), (40, 18), (600, 408), (3, 1000)])
def test_convolutions_are_transforms_of_quick_lengths(n, m, mode):
    """Their own lengths may have large prime factors, as 57, 1007 and 1002 do."""
    x, y = np.sin(np.arange(n) + 1.0), np.cos(np.arange(m))
    for factor in (1, 1j):
        found = psp.signal.fftconvolve(x * factor, y, mode)
        close(found, scipy.signal.fftconvolve(x * factor, y, mode))
    text = pyjax.jit(lambda x: psp.signal.fftconvolve(x, y)).lower(x).as_text()
    (length,) = {int(found) for found in re.findall(r"FT, length = \[(\d+)", text)}
    assert length >= n + m - 1
    for prime in (2, 3, 5):
        while length % prime == 0 and length > 4:
            length //= prime
    assert length <= 4 or length == 1


@pytest.mark.parametrize("kind, bp", [("constant", 0), ("linear", 0), ("linear", [3, 7])])
@pytest.mark.parametrize("axis", [0, 1])
def test_detrend(kind, bp, axis):
    x = rng.normal(size=(10, 9)).cumsum(0)
    close(
        psp.signal.detrend(x, axis=axis, type=kind, bp=bp),
        scipy.signal.detrend(x, axis=axis, type=kind, bp=bp),
    )


A = rng.normal(size=(12, 12)) + 8 * np.eye(12)
POSITIVE = A @ A.T / 10
B = rng.normal(size=12)
SOLVERS = [("cg", POSITIVE), ("bicgstab", A), ("gmres", A)]


@pytest.mark.parametrize("name, a", SOLVERS, ids=[s[0] for s in SOLVERS])
def test_iterative_solvers(name, a):
    solve = getattr(psp.sparse.linalg, name)
    expected = np.linalg.solve(a, B)
    jacobi = 1 / np.diag(a)
    for options in ({}, {"x0": np.ones(12)}, {"M": lambda v: jacobi * v}, {"M": np.diag(jacobi)}):
        x, info = solve(a, B, tol=1e-11, **options)
        assert info == 0 if name == "gmres" else info is None
        close(x, expected, 1e-8)
    tree = {"u": B[:5], "v": B[5:].reshape(7, 1)}

    def product(t):
        out = a @ jnp.concatenate([t["u"], t["v"].ravel()])
        return {"u": out[:5], "v": out[5:].reshape(7, 1)}

    x, _ = pyjax.jit(lambda b: solve(product, b, tol=1e-11))(tree)
    close(x["u"], expected[:5], 1e-8)

    def loss(m, b):
        return jnp.sum(solve(lambda v: m @ v, b, tol=1e-12)[0] ** 2)

    def exact(m, b):
        return jnp.sum(jnp.linalg.solve(m, b) ** 2)

    for ours, theirs in zip(pyjax.grad(loss, (0, 1))(a, B), pyjax.grad(exact, (0, 1))(a, B)):
        # A symmetric solver may return any gradient whose symmetric part is right.
        if name == "cg" and ours.ndim == 2:
            ours, theirs = ours + ours.T, theirs + theirs.T
        close(ours, theirs, 1e-7)
    many = np.stack([B, 2 * B])
    close(pyjax.vmap(lambda b: solve(a, b, tol=1e-11)[0])(many)[1], 2 * expected, 1e-8)


def test_solver_details():
    z = A + 1j * rng.normal(size=A.shape)
    for name in ("bicgstab", "gmres"):
        x, _ = getattr(psp.sparse.linalg, name)(z, B + 0j, tol=1e-11)
        close(z @ x, B, 1e-8)
    x, _ = psp.sparse.linalg.gmres(A, B, tol=1e-10, restart=3, maxiter=200)
    close(A @ x, B, 1e-8)
    x, _ = psp.sparse.linalg.cg(POSITIVE, B, maxiter=0)
    close(x, np.zeros(12))
    with pytest.raises(ValueError, match="square"):
        psp.sparse.linalg.cg(np.ones((2, 3)), np.ones(3))
    with pytest.raises(TypeError, match="function or ndarray"):
        psp.sparse.linalg.cg("a", B)
    with pytest.raises(ValueError, match="solve_method"):
        psp.sparse.linalg.gmres(A, B, solve_method="other")


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(x):
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


FUNCTIONS = [
    (rosenbrock, [-1.2, 1.0], [1, 1]),
    (rosenbrock, [0.0, 0.0, 0.0, 0.0], [1, 1, 1, 1]),
    (himmelblau, [1.0, 1.0], [3, 2]),
    (lambda x: jnp.sum((x - 3) ** 4), [0.0, 1.0], None),
]


LBFGS = "l-bfgs-experimental-do-not-rely-on-this"


@pytest.mark.parametrize("method", ["BFGS", LBFGS])
@pytest.mark.parametrize("f, start, minimum", FUNCTIONS)
def test_minimize(f, start, minimum, method):
    options = {"ftol": 0.0} if method == LBFGS else None
    run = pyjax.jit(lambda x: psp.optimize.minimize(f, x, method=method, options=options))
    result = run(np.array(start))
    assert (result.hess_inv is None) == (method == LBFGS)
    assert result.success and result.status == 0 and result.nit > 0
    assert np.max(np.abs(result.jac)) < 1e-5
    close(result.fun, 0, 1e-6)
    if minimum is not None:
        close(result.x, minimum, 1e-4)


def test_minimize_details():
    def f(x, scale):
        return jnp.sum(scale * x**2)

    result = psp.optimize.minimize(f, np.ones(3), args=(np.array([1.0, 4, 9]),), method="BFGS")
    close(result.x, np.zeros(3), 1e-5)
    stopped = psp.optimize.minimize(rosenbrock, np.zeros(4), method="BFGS", options={"maxiter": 2})
    assert not stopped.success and stopped.status == 1 and stopped.nit == 2
    with pyjax.enable_x64(False):
        single = psp.optimize.minimize(himmelblau, jnp.array([1.0, 1.0]), method="BFGS", tol=1e-2)
        np.testing.assert_allclose(single.x, [3, 2], atol=1e-3)
    with pytest.raises(ValueError, match="not recognized"):
        psp.optimize.minimize(f, np.ones(3), method="powell")
    with pytest.raises(TypeError, match="unknown options"):
        psp.optimize.minimize(f, np.ones(3), method="BFGS", options={"other": 1})
    with pytest.raises(ValueError, match="one-dimensional"):
        psp.optimize.minimize(himmelblau, np.ones((2, 2)), method="BFGS")


STATUSES = [
    ("BFGS", {"maxiter": 2}, rosenbrock, 1),
    ("BFGS", {}, jnp.sum, 5),
    ("BFGS", {}, lambda x: jnp.sum(jnp.log(-x)), 3),
    (LBFGS, {"maxiter": 2}, rosenbrock, 1),
    (LBFGS, {"maxfun": 3}, rosenbrock, 2),
    (LBFGS, {"maxgrad": 3}, rosenbrock, 3),
    (LBFGS, {"ftol": 0.5}, rosenbrock, 4),
    (LBFGS, {}, jnp.sum, 5),
    (LBFGS, {}, lambda x: jnp.sum(jnp.log(-x)), 5),
]


@pytest.mark.parametrize("method, options, f, status", STATUSES)
def test_why_minimize_stopped(method, options, f, status):
    start = np.array([0.5, 2.0, 1.5])
    stopped = psp.optimize.minimize(f, start, method=method, options=options)
    assert stopped.status == status and not stopped.success
    if f is not rosenbrock:
        assert stopped.nit == 1
        np.testing.assert_array_equal(stopped.x, start)


def test_few_steps_are_remembered():
    scale = np.arange(1.0, 41)
    f = lambda x: jnp.sum(scale * x**2) + jnp.sum(x) ** 4
    found = [
        psp.optimize.minimize(f, np.ones(40), method=LBFGS, options={"maxcor": n, "ftol": 0.0})
        for n in (1, 5, 20)
    ]
    assert all(x.success for x in found)
    assert found[0].nit > found[1].nit >= found[2].nit
    close(found[2].x, np.zeros(40), 1e-5)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
def test_map_coordinates(order, mode):
    data = rng.normal(size=(5, 4))
    positions = rng.uniform(-3, 7, size=(2, 30))
    if mode == "constant":
        # Between the last element and the border scipy blends differently: stay off it.
        positions = np.clip(positions, 0.01, np.array([[3.9], [2.9]]))
    if mode == "wrap":
        mode_there = "grid-wrap"
    else:
        mode_there = mode
    expected = scipy.ndimage.map_coordinates(data, positions, order=order, mode=mode_there)
    close(psp.ndimage.map_coordinates(data, positions, order, mode), expected)
    integers = (10 * data).astype(np.int32)
    assert psp.ndimage.map_coordinates(integers, positions, order, mode).dtype == np.int32


def test_map_coordinates_constant():
    data = np.arange(4.0)
    result = psp.ndimage.map_coordinates(data, [np.array([-1.0, 1.5, 9.0])], 1, cval=7.0)
    assert result.tolist() == [7, 1.5, 7]
    with pytest.raises(NotImplementedError, match="order"):
        psp.ndimage.map_coordinates(data, [data], 3)
    with pytest.raises(NotImplementedError, match="mode"):
        psp.ndimage.map_coordinates(data, [data], 1, "other")
    with pytest.raises(ValueError, match="length input"):
        psp.ndimage.map_coordinates(data, [data, data], 1)


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, 3.0, None])
def test_grid_interpolation(method, fill):
    points = (np.array([0.0, 0.5, 2.0]), np.array([-1.0, 0.0, 1.0, 5.0]))
    values = rng.normal(size=(3, 4, 2))
    at = rng.uniform(-1.5, 5.5, size=(4, 6, 2))
    options = {"method": method, "bounds_error": False, "fill_value": fill}
    ours = psp.interpolate.RegularGridInterpolator(points, values, **options)
    theirs = scipy.interpolate.RegularGridInterpolator(points, values, **options)
    close(ours(at), theirs(at))
    close(pyjax.jit(ours.__call__)(at), theirs(at))
    with pytest.raises(ValueError, match="dimension"):
        ours(np.ones((2, 3)))


def test_trapezoid_and_vq():
    y, x = rng.normal(size=(3, 5)), np.sort(rng.normal(size=5))
    close(psp.integrate.trapezoid(y, x), np.trapezoid(y, x))
    close(psp.integrate.trapezoid(y, dx=0.5, axis=0), np.trapezoid(y, dx=0.5, axis=0))
    points, codes = rng.normal(size=(9, 3)), rng.normal(size=(4, 3))
    for ours, theirs in zip(psp.cluster.vq.vq(points, codes), scipy.cluster.vq.vq(points, codes)):
        close(ours, theirs)
    with pytest.raises(ValueError, match="same rank"):
        psp.cluster.vq.vq(points, codes[0])


def test_lgamma_at_one_half():
    close(lax.lgamma(np.array(0.5)), np.log(np.pi) / 2)
