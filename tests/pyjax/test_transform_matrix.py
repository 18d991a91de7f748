"""The acceptance matrix: functions × nestings of jit, grad and vmap in every order.

The oracle is NumPy: values from the same function written in NumPy, gradients from central
differences of it in float64. One row per function; every composition is checked on every row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, jvp, lax, vmap
from pyjax.api.checkpoint import checkpoint
from pyjax.api.custom_jvp import custom_jvp
from pyjax.api.custom_vjp import custom_vjp
from pyjax.api.jacobian import jacfwd, jacrev


class Row(NamedTuple):
    """A function of one array of shape (2, 3), and the same in NumPy."""

    name: str
    fun: Callable[[Any], Any]
    oracle: Callable[[np.ndarray], np.ndarray]


M = np.array([[0.3, -1.2, 0.7], [1.1, 0.4, -0.5], [-0.2, 0.9, 1.3]])
W = np.array([[0.5, -0.3], [1.2, 0.8], [-0.7, 0.1]])


@custom_jvp
def _cube(x):
    return x * x * x


_cube.defjvps(lambda t, ans, x: 3.0 * x * x * t)


@custom_vjp
def _sin2(x):
    return jnp.sin(x) ** 2


_sin2.defvjp(lambda x: (_sin2(x), x), lambda x, g: (g * 2.0 * jnp.sin(x) * jnp.cos(x),))


def _scan_product(x):
    def step(carry, row):
        new = jnp.sin(carry) * row + 0.5 * carry
        return new, new * row

    final, ys = lax.scan(step, jnp.ones(3), x)
    return ys + final


def _scan_product_np(x):
    carry, ys = np.ones(3), []
    for row in x:
        carry = np.sin(carry) * row + 0.5 * carry
        ys.append(carry * row)
    return np.stack(ys) + carry


def _softmax_np(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _fori(x):
    return lax.fori_loop(0, 3, lambda i, y: y * 0.5 + jnp.sin(y) * (i + 1), x)


def _fori_np(x):
    for i in range(3):
        x = x * 0.5 + np.sin(x) * (i + 1)
    return x


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


ROWS = [
    Row("add", lambda x: x + 2.0 * x, lambda x: 3 * x),
    Row("mul", lambda x: x * x[0], lambda x: x * x[0]),
    Row("div", lambda x: x / (2.0 + x * x), lambda x: x / (2 + x * x)),
    Row("neg", lambda x: -x, lambda x: -x),
    Row("power", lambda x: (x * x + 1.0) ** 1.5, lambda x: (x * x + 1) ** 1.5),
    Row("integer_pow", lambda x: x**3, lambda x: x**3),
    Row("sin", jnp.sin, np.sin),
    Row("cos", jnp.cos, np.cos),
    Row("tanh", jnp.tanh, np.tanh),
    Row("exp", jnp.exp, np.exp),
    Row("log", lambda x: jnp.log(1.0 + x * x), lambda x: np.log(1 + x * x)),
    Row(
        "log1p_expm1", lambda x: jnp.log1p(jnp.expm1(x) ** 2), lambda x: np.log1p(np.expm1(x) ** 2)
    ),
    Row("sqrt", lambda x: jnp.sqrt(1.0 + x * x), lambda x: np.sqrt(1 + x * x)),
    Row("arctan", lambda x: jnp.arctan(2.0 * x), lambda x: np.arctan(2 * x)),
    Row("arctan2", lambda x: jnp.arctan2(x, 2.0 + x * x), lambda x: np.arctan2(x, 2 + x * x)),
    Row("sinh", jnp.sinh, np.sinh),
    Row("logistic", lax.logistic, _sigmoid),
    Row("abs", jnp.abs, np.abs),
    Row("maximum", lambda x: jnp.maximum(x, 0.3 * x[::-1]), lambda x: np.maximum(x, 0.3 * x[::-1])),
    Row(
        "where", lambda x: jnp.where(x > 0, x * x, 3.0 * x), lambda x: np.where(x > 0, x * x, 3 * x)
    ),
    Row("clip", lambda x: jnp.clip(x, -0.5, 0.5) * x, lambda x: np.clip(x, -0.5, 0.5) * x),
    Row("sum", lambda x: x.sum(axis=0), lambda x: x.sum(axis=0)),
    Row("mean_var", lambda x: x.mean(1) + x.var(1), lambda x: x.mean(1) + x.var(1)),
    Row("max", lambda x: x.max(axis=1), lambda x: x.max(axis=1)),
    Row("prod", lambda x: jnp.prod(x, axis=1), lambda x: np.prod(x, axis=1)),
    Row("cumsum", lambda x: jnp.cumsum(x, axis=1), lambda x: np.cumsum(x, axis=1)),
    Row("logsumexp", lambda x: jnp.log(jnp.exp(x).sum(1)), lambda x: np.log(np.exp(x).sum(1))),
    Row("matmul", lambda x: x @ M, lambda x: x @ M),
    Row("matmul_self", lambda x: x @ x.T, lambda x: x @ x.T),
    Row("einsum", lambda x: jnp.einsum("ij,jk,lk->il", x, M, x), lambda x: x @ M @ x.T),
    Row("mlp", lambda x: jnp.tanh(x @ M) @ W, lambda x: np.tanh(x @ M) @ W),
    Row("transpose", lambda x: x.T * jnp.arange(1.0, 3.0), lambda x: x.T * np.arange(1.0, 3.0)),
    Row(
        "reshape",
        lambda x: (x.reshape(3, 2) ** 2).ravel(),
        lambda x: (x.reshape(3, 2) ** 2).ravel(),
    ),
    Row("broadcast", lambda x: x[:, None] * x[None], lambda x: x[:, None] * x[None]),
    Row(
        "concatenate",
        lambda x: jnp.concatenate([x, x * x], 1),
        lambda x: np.concatenate([x, x * x], 1),
    ),
    Row(
        "pad",
        lambda x: jnp.pad(x, ((1, 0), (0, 2))) * 2.0,
        lambda x: np.pad(x, ((1, 0), (0, 2))) * 2,
    ),
    Row("slice", lambda x: x[:, 1:] * x[:, :-1], lambda x: x[:, 1:] * x[:, :-1]),
    Row("reverse", lambda x: x[::-1, ::-1] * x, lambda x: x[::-1, ::-1] * x),
    Row("gather", lambda x: x[:, jnp.array([2, 0, 2])], lambda x: x[:, [2, 0, 2]]),
    Row("take_row", lambda x: x[1] * x[0], lambda x: x[1] * x[0]),
    Row("at_set", lambda x: x.at[0].set(x[1] ** 2), lambda x: np.stack([x[1] ** 2, x[1]])),
    Row("at_add", lambda x: x.at[:, 1].add(x[:, 0]), lambda x: x + np.outer(x[:, 0], [0, 1, 0])),
    Row(
        "sort",
        lambda x: jnp.sort(x, axis=1) * jnp.arange(3.0),
        lambda x: np.sort(x, axis=1) * np.arange(3.0),
    ),
    Row("softmax", lambda x: jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True), _softmax_np),
    Row("roll", lambda x: jnp.roll(x, 1, axis=1) * x, lambda x: np.roll(x, 1, axis=1) * x),
    Row(
        "stack",
        lambda x: jnp.stack([x[0], x[1], x[0] * x[1]]),
        lambda x: np.stack([x[0], x[1], x[0] * x[1]]),
    ),
    Row(
        "cond",
        lambda x: lax.cond(x[0, 0] > 0, lambda y: y * y, lambda y: 3.0 * y, x),
        lambda x: x * x if x[0, 0] > 0 else 3 * x,
    ),
    Row("scan", _scan_product, _scan_product_np),
    Row("fori_loop", _fori, _fori_np),
    Row(
        "nested_jit",
        lambda x: jit(jnp.sin)(x) * jit(lambda y: y * y)(x),
        lambda x: np.sin(x) * x * x,
    ),
    Row("checkpoint", checkpoint(lambda x: jnp.sin(jnp.sin(x))), lambda x: np.sin(np.sin(x))),
    Row("custom_jvp", _cube, lambda x: x**3),
    Row("custom_vjp", _sin2, lambda x: np.sin(x) ** 2),
    Row("inner_grad", grad(lambda x: jnp.sum(jnp.sin(x) * x)), lambda x: np.cos(x) * x + np.sin(x)),
    Row("inner_vmap", vmap(lambda r: r * r.sum()), lambda x: x * x.sum(1, keepdims=True)),
    Row("inner_jvp", lambda x: jvp(jnp.sin, (x,), (x,))[1], lambda x: np.cos(x) * x),
]

X = np.array([[0.37, -0.81, 1.23], [-1.42, 0.56, 0.19]])
BATCH = np.stack([X, X[::-1] * 0.7, X * -1.1])


def weights(shape: tuple[int, ...]) -> np.ndarray:
    """Fixed generic cotangents, so that no gradient cancels by symmetry."""
    return np.cos(1.0 + 2.0 * np.arange(np.prod(shape, dtype=int))).reshape(shape)


def numeric_gradient(
    f: Callable[[np.ndarray], float], x: np.ndarray, h: float = 1e-6
) -> np.ndarray:
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = h
        gradient[index] = (f(x + step) - f(x - step)) / (2 * h)
    return gradient


def loss_of(row: Row) -> Callable[[Any], Any]:
    return lambda x: jnp.sum(row.fun(x) * weights(row.oracle(X).shape))


def numeric_loss_gradient(row: Row, x: np.ndarray) -> np.ndarray:
    return numeric_gradient(
        lambda y: float(np.sum(row.oracle(y) * weights(row.oracle(X).shape))), x
    )


def total_vmap_loss(row: Row) -> Callable[[Any], Any]:
    loss = loss_of(row)
    return lambda xs: jnp.sum(vmap(loss)(xs))


# Each composition: name -> (function of a row that gives the transformed function, takes a batch?)
VALUES = {
    "eager": (lambda f: f, False),
    "jit": (jit, False),
    "vmap": (vmap, True),
    "jit(vmap)": (lambda f: jit(vmap(f)), True),
    "vmap(jit)": (lambda f: vmap(jit(f)), True),
}
GRADIENTS = {
    "grad": (lambda row: grad(loss_of(row)), False),
    "jit(grad)": (lambda row: jit(grad(loss_of(row))), False),
    "grad(jit)": (lambda row: grad(jit(loss_of(row))), False),
    "vmap(grad)": (lambda row: vmap(grad(loss_of(row))), True),
    "grad(vmap)": (lambda row: grad(total_vmap_loss(row)), True),
    "jit(vmap(grad))": (lambda row: jit(vmap(grad(loss_of(row)))), True),
    "vmap(jit(grad))": (lambda row: vmap(jit(grad(loss_of(row)))), True),
    "jit(grad(vmap))": (lambda row: jit(grad(total_vmap_loss(row))), True),
    "grad(jit(vmap))": (lambda row: grad(jit(total_vmap_loss(row))), True),
    "vmap(grad(jit))": (lambda row: vmap(grad(jit(loss_of(row)))), True),
}
by_name = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


@pytest.fixture(autouse=True)
def x64():
    with pyjax.enable_x64(True):
        yield


@by_name
def test_values(row):
    expected = row.oracle(X)
    batched = np.stack([row.oracle(x) for x in BATCH])
    for name, (transform, batch) in VALUES.items():
        got = np.asarray(transform(row.fun)(jnp.asarray(BATCH if batch else X)))
        np.testing.assert_allclose(got, batched if batch else expected, rtol=1e-10, err_msg=name)


@by_name
def test_gradients(row):
    expected = numeric_loss_gradient(row, X)
    batched = np.stack([numeric_loss_gradient(row, x) for x in BATCH])
    for name, (transform, batch) in GRADIENTS.items():
        got = np.asarray(transform(row)(jnp.asarray(BATCH if batch else X)))
        want = batched if batch else expected
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7, err_msg=name)


@by_name
def test_forward_mode(row):
    if row.name == "custom_vjp":
        with pytest.raises(TypeError, match="forward-mode"):
            jvp(row.fun, (X,), (X,))
        return
    direction = weights(X.shape)
    expected = np.sum(numeric_loss_gradient(row, X) * direction)
    loss = loss_of(row)
    for name, fun in {"jvp": loss, "jvp(jit)": jit(loss)}.items():
        _, tangent = jvp(fun, (X,), (direction,))
        np.testing.assert_allclose(float(tangent), expected, rtol=1e-5, atol=1e-7, err_msg=name)
    _, tangent = jit(lambda x: jvp(loss, (x,), (direction,)))(X)
    np.testing.assert_allclose(float(tangent), expected, rtol=1e-5, atol=1e-7)


@by_name
def test_second_order(row):
    """Hessian-vector products: reverse over reverse, and forward over reverse where it exists."""
    direction = weights(X.shape)
    loss = loss_of(row)
    gradient = grad(loss)
    h = 1e-5
    expected = (
        np.asarray(gradient(X + h * direction)) - np.asarray(gradient(X - h * direction))
    ) / (2 * h)
    got = grad(lambda x: jnp.sum(gradient(x) * direction))(X)
    np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-4, atol=1e-6)
    if row.name != "custom_vjp":
        _, got = jit(lambda x: jvp(gradient, (x,), (direction,)))(X)
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["mlp", "scan", "softmax", "custom_jvp", "inner_grad", "gather"])
def test_jacobians_agree(name):
    row = next(r for r in ROWS if r.name == name)
    forward, reverse = jacfwd(row.fun)(X), jit(jacrev(row.fun))(X)
    assert forward.shape == row.oracle(X).shape + X.shape
    np.testing.assert_allclose(np.asarray(forward), np.asarray(reverse), rtol=1e-10, atol=1e-12)
    scalar = numeric_gradient(lambda x: float(row.oracle(x).reshape(-1)[1]), X)
    np.testing.assert_allclose(
        np.asarray(forward).reshape(-1, 2, 3)[1], scalar, rtol=1e-5, atol=1e-7
    )
