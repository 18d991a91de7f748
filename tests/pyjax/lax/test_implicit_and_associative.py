"""custom_linear_solve, custom_root, associative_scan, and compositions of convolution."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax.numpy  # noqa: F401  (operators of arrays)
from pyjax import grad, jit, jvp, lax, vmap

RNG = np.random.default_rng(0)
A = (RNG.normal(size=(4, 4)) * 0.3 + np.diag([4.0, 5, 6, 4])).astype(np.float32)
B = RNG.normal(size=4).astype(np.float32)


def total(x):
    return lax.reduce_sum(x, tuple(range(x.ndim)))


def differences(f, x, eps=1e-2):
    f = jit(f)
    g = np.zeros(np.shape(x), np.float64)
    for i in np.ndindex(*np.shape(x)):
        step = np.zeros(np.shape(x), np.float32)
        step[i] = eps
        g[i] = (float(f(x + step)) - float(f(x - step))) / (2 * eps)
    return g


# -- custom_linear_solve ---------------------------------------------------------------------------


def jacobi(a, b):
    """An iterative solver with a while loop, which has no reverse mode of its own."""
    diagonal = total_rows(a * np.eye(4, dtype=np.float32))

    def step(carry):
        i, x = carry
        return i + 1, x + (b - lax.dot(a, x)) / diagonal

    return lax.while_loop(lambda c: c[0] < 60, step, (0, b * 0))[1]


def total_rows(x):
    return lax.reduce_sum(x, (1,))


def solve(a, b):
    transposed = lax.transpose(a, (1, 0))
    return lax.custom_linear_solve(
        lambda x: lax.dot(a, x),
        b,
        lambda matvec, b: jacobi(a, b),
        lambda vecmat, b: jacobi(transposed, b),
    )


def test_linear_solve_value_and_gradients():
    np.testing.assert_allclose(solve(A, B), np.linalg.solve(A, B), atol=1e-5)
    for f, x in (
        (lambda b: total(lax.sin(solve(A, b))), B),
        (lambda a: total(lax.sin(solve(a, B))), A),
    ):
        np.testing.assert_allclose(grad(f)(x), differences(f, x), atol=1e-3)
        np.testing.assert_allclose(jit(grad(f))(x), grad(f)(x), atol=1e-6)
        _, slope = jvp(f, (x,), (np.ones_like(x),))
        np.testing.assert_allclose(slope, np.sum(grad(f)(x)), atol=1e-4)


def test_linear_solve_vmap():
    a, b = np.stack([A, A.T]), np.stack([B, 2 * B])
    want = [np.linalg.solve(x, y) for x, y in zip(a, b)]
    np.testing.assert_allclose(vmap(solve)(a, b), want, atol=1e-5)
    np.testing.assert_allclose(vmap(solve, (None, 0))(A, b), [want[0], 2 * want[0]], atol=1e-5)


def test_linear_solve_aux_and_symmetric():
    def f(b):
        x, aux = lax.custom_linear_solve(
            lambda x: 2.0 * x, b, lambda matvec, b: (b / 2, {"n": 3}), symmetric=True, has_aux=True
        )
        assert int(aux["n"]) == 3 if not hasattr(aux["n"], "_trace") else True
        return total(x * x)

    np.testing.assert_allclose(grad(f)(B), B / 2, rtol=1e-6)


def test_linear_solve_errors():
    with pytest.raises(TypeError, match="transpose_solve required"):
        grad(lambda b: lax.custom_linear_solve(lambda x: 2 * x, b, lambda m, b: b / 2))(1.0)
    with pytest.raises(TypeError, match=r"matvec\(\).*same pytree structure"):
        lax.custom_linear_solve(lambda x: (x, x), 1.0, lambda m, b: b)


# -- custom_root -----------------------------------------------------------------------------------


def newton(f, x):
    def step(x):
        y, slope = jvp(f, (x,), (np.float32(1),))
        return x - y / slope

    return lax.while_loop(lambda x: lax.abs(f(x)) > 1e-5, step, x)


def cube_root(a):
    return lax.custom_root(
        lambda x: x * x * x - a, np.float32(1.5), newton, lambda g, y: y / g(np.float32(1))
    )


def test_root_value_and_derivatives():
    a = np.array([1, 8, 27], np.float32)
    np.testing.assert_allclose([cube_root(v) for v in a], [1, 2, 3], rtol=1e-4)
    np.testing.assert_allclose([grad(cube_root)(v) for v in a], a ** (-2 / 3) / 3, rtol=1e-3)
    np.testing.assert_allclose(vmap(grad(cube_root))(a), a ** (-2 / 3) / 3, rtol=1e-3)
    np.testing.assert_allclose(
        grad(grad(cube_root))(np.float32(8)), -2 / 9 * 8 ** (-5 / 3), rtol=1e-3
    )


def test_root_errors():
    with pytest.raises(TypeError, match=r"f\(\) in custom_root"):
        lax.custom_root(lambda x: (x, x), 1.0, lambda f, x: x, lambda g, y: y)


# -- associative_scan ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(n, reverse):
    x = RNG.normal(size=(3, n, 2)).astype(np.float32)
    flip = (slice(None), slice(None, None, -1)) if reverse else (slice(None),)
    want = np.cumsum(x[flip], axis=1)[flip]
    for axis in (1, -2):
        got = lax.associative_scan(lax.add, x, reverse=reverse, axis=axis)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_associative_scan_of_pairs():
    """First-order linear recurrence h = a h + b."""
    a, b = RNG.uniform(0.5, 1, size=(2, 9)).astype(np.float32)

    def combine(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    h, want = 0.0, []
    for x, y in zip(a, b):
        h = x * h + y
        want.append(h)
    np.testing.assert_allclose(lax.associative_scan(combine, (a, b))[1], want, rtol=1e-5)

    def loss(a):
        return total(lax.associative_scan(combine, (a, b))[1])

    np.testing.assert_allclose(grad(loss)(a), differences(loss, a), rtol=1e-2)


def test_associative_scan_errors():
    with pytest.raises(ValueError, match="same first dimension"):
        lax.associative_scan(lax.add, (np.ones(3), np.ones(2)))
    with pytest.raises(TypeError, match="callable"):
        lax.associative_scan(1, np.ones(3))
