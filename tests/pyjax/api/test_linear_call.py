"""linear_call: linear functions with transposes of their own.

The transposes are not those of the functions, so that one sees which of them ran.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyjax._config import options

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, lax, linear_transpose, vmap
from pyjax.custom_derivatives import linear_call

X = jnp.arange(1.0, 4.0, dtype=jnp.float32)


def divided(r: Any, x: Any) -> Any:
    return x / r


def ten_times(r: Any, ct: Any) -> Any:
    return 10 * ct / r


def call(r: Any, x: Any) -> Any:
    return linear_call(divided, ten_times, r, x)


def transpose(f: Any, x: Any) -> Any:
    return lambda ct: linear_transpose(f, x)(ct)[0]


def test_values() -> None:
    for run in (lambda f: f, jit, lambda f: vmap(f)):
        np.testing.assert_array_equal(run(lambda x: call(2.0, x))(X), X / 2)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_gradients(wrap: Any, direct: bool) -> None:
    with options.use_direct_linearize(direct):
        f = wrap(lambda r, x: jnp.sum(jnp.sin(call(r, x))))
        np.testing.assert_allclose(grad(f, 1)(2.0, X), 10 * jnp.cos(X / 2) / 2, rtol=1e-6)
        # The derivative in the residuals is that of the function.
        want = jnp.sum(jnp.cos(X / 2) * -X / 4)
        np.testing.assert_allclose(grad(f)(2.0, X), want, rtol=1e-6)


def test_forward_mode_is_the_function() -> None:
    out, tangent = pyjax.jvp(call, (2.0, X), (1.0, X))
    np.testing.assert_array_equal(out, X / 2)
    np.testing.assert_allclose(tangent, X / 2 - X / 4, rtol=1e-6)


def test_transposes_of_transposes() -> None:
    f = lambda x: call(2.0, x)
    t = transpose(f, X)
    np.testing.assert_array_equal(t(X), 5 * X)
    np.testing.assert_array_equal(transpose(t, X)(X), X / 2)
    np.testing.assert_array_equal(transpose(transpose(t, X), X)(X), 5 * X)
    np.testing.assert_array_equal(jit(transpose(jit(t), X))(X), X / 2)


def test_gradients_of_gradients() -> None:
    f = lambda x: jnp.sum(call(2.0, x) ** 3)
    g = lambda x: jnp.sum(grad(f)(x) * x)
    # grad(f) is 10 / 2 * 3 (x / 2)**2; its derivative goes through both calls.
    inner = 15 * (X / 2) ** 2
    np.testing.assert_allclose(grad(f)(X), inner, rtol=1e-6)
    np.testing.assert_allclose(grad(g)(X), inner + 30 * (X / 2) ** 2, rtol=1e-6)


MAPS = {
    "linear": ((None, 0), 2.0, X),
    "residual": ((0, None), X, 2.0),
    "both": ((0, 0), X, X),
    "second axis": ((None, 1), X[:2], jnp.arange(6.0).reshape(2, 3)),
    "residual's second axis": ((1, 0), jnp.arange(1.0, 7.0).reshape(2, 3), jnp.ones((3, 2))),
}


@pytest.mark.parametrize("name", MAPS)
def test_mapped(name: str) -> None:
    axes, r, x = MAPS[name]
    lanes = range(3)
    pick = lambda v, axis, i: v if axis is None else jnp.take(v, i, axis)
    each = [(pick(r, axes[0], i), pick(x, axes[1], i)) for i in lanes]
    np.testing.assert_array_equal(
        vmap(call, axes)(r, x), jnp.stack([call(*operands) for operands in each])
    )
    of_lanes = vmap(grad(lambda r, x: jnp.sum(call(r, x) ** 2), 1), axes)(r, x)
    want = jnp.stack([grad(lambda r, x: jnp.sum(call(r, x) ** 2), 1)(*o) for o in each])
    np.testing.assert_allclose(of_lanes, want, rtol=1e-6)
    for wrap in (lambda f: f, jit):
        total = grad(wrap(lambda x: jnp.sum(vmap(call, axes)(r, x) ** 2)))(x)
        summed = jnp.sum(want, 0) if axes[1] is None else jnp.moveaxis(want, 0, axes[1])
        np.testing.assert_allclose(total, summed, rtol=1e-6)


def test_pytrees_and_what_functions_close_over() -> None:
    def f(scale: Any, x: Any) -> Any:
        fun = lambda r, t: {"sum": t["a"] * r[0] * scale + t["b"], "b": t["b"]}
        back = lambda r, ct: {"a": ct["sum"] * r[0] * 7, "b": ct["sum"] + ct["b"]}
        out = linear_call(fun, back, (X,), {"a": x, "b": x})
        return jnp.sum(out["sum"]) + jnp.sum(out["b"])

    for wrap in (lambda f: f, jit):
        np.testing.assert_array_equal(grad(wrap(f), 1)(2.0, X), 7 * X + 2)
        np.testing.assert_array_equal(grad(wrap(f))(2.0, X), jnp.sum(X * X))
    np.testing.assert_array_equal(vmap(grad(f, 1), (0, None))(X, X), jnp.stack([7 * X + 2] * 3))


def test_in_loops_and_branches() -> None:
    def f(x: Any) -> Any:
        c, ys = lax.scan(lambda c, r: (call(r, c), call(r, c)), x[0], X)
        d = lax.cond(x[0] > 0, lambda v: call(2.0, v), lambda v: v, x)
        return c + jnp.sum(ys) + jnp.sum(pyjax.checkpoint(lambda v: call(3.0, v))(d))

    found = grad(f)(X)
    np.testing.assert_allclose(found, grad(jit(f))(X), rtol=1e-6)
    steps = [10 / r for r in (1.0, 2.0, 3.0)]
    loop = sum(np.prod(steps[: i + 1]) for i in range(3)) + np.prod(steps)
    want = np.full(3, 5 * 10 / 3) + np.array([loop, 0, 0])
    np.testing.assert_allclose(found, want, rtol=1e-5)


def test_the_program() -> None:
    (eqn,) = pyjax.make_jaxpr(lambda x: call(2.0, x))(X).eqns
    assert eqn.primitive.name == "linear_call"
    text = str(pyjax.make_jaxpr(lambda x: call(2.0, x))(X))
    assert "transpose=ten_times" in text and "name=divided" in text


WRONG = {
    "structure": (lambda r, ct: (ct, ct), "The transpose .* gave cotangents with structure"),
    "shape": (lambda r, ct: ct[:2], r"gave float32\[2\] as cotangent 0, of an argument of type"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_cotangents(name: str) -> None:
    rule, message = WRONG[name]
    with pytest.raises(TypeError, match=message):
        grad(lambda x: jnp.sum(linear_call(divided, rule, 2.0, x)))(X)


def test_transposed_in_residuals() -> None:
    with pytest.raises(NotImplementedError, match="in its residual arguments"):
        linear_transpose(lambda r: linear_call(lambda r, x: x * r, ten_times, r, X), X)(X)
