"""lax.composite: named operations that a function defines."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax


def tangent(x: Any) -> Any:
    return lax.composite(lambda x: lax.sin(x) / lax.cos(x), name="my.tangent")(x)


@partial(lax.composite, name="my.affine", version=3)
def affine(x: Any, y: Any, /, *, scale: float, shape: Any = (), note: Any = None) -> Any:
    return {"sum": scale * x + y["b"], "x": x}


X = jnp.array([0.1, 0.5, 1.0])


def test_values() -> None:
    np.testing.assert_allclose(tangent(X), np.tan(X), rtol=1e-6)
    np.testing.assert_allclose(pyjax.jit(tangent)(X), np.tan(X), rtol=1e-6)
    np.testing.assert_allclose(pyjax.vmap(tangent)(X), np.tan(X), rtol=1e-6)
    found = affine(X, {"b": X}, scale=2.0)
    np.testing.assert_allclose(found["sum"], 3 * X, rtol=1e-6)
    constant = jnp.arange(3.0)
    np.testing.assert_array_equal(
        lax.composite(lambda x: x + constant, name="a")(constant), 2 * constant
    )


def test_vmap_of_one_operand() -> None:
    found = pyjax.vmap(lambda x, y: affine(x, {"b": y}, scale=1.0), in_axes=(0, None))(X, X)
    np.testing.assert_allclose(found["sum"], X[:, None] + X[None], rtol=1e-6)


ATTRIBUTES = [
    (2.0, "scale = 2.000000e+00 : f64"),
    (np.float32(0.5), "scale = 5.000000e-01 : f32"),
    (3, "scale = 3 : i64"),
    (np.int32(3), "scale = 3 : i32"),
    (True, "scale = true"),
]


@pytest.mark.parametrize("value, text", ATTRIBUTES)
def test_text_of_programs(value: Any, text: str) -> None:
    lowered = pyjax.jit(lambda x: affine(x, {"b": x}, scale=value, shape=(1, "s"))).lower(X)
    line = next(x for x in lowered.as_text().splitlines() if "stablehlo.composite" in x)
    assert '"my.affine" %arg0, %arg0' in line
    assert text in line
    assert 'shape = [1, "s"]' in line
    assert "version = 3 : i32" in line
    assert "note" not in line
    assert "is_composite=true" in lowered.as_text("hlo")


ARRAYS = [
    (np.array([0.5, 2, 2], np.float32), "dense<[5.000000e-01, 2.000000e+00, 2.000000e+00]>"),
    (np.ones(3, np.int64), "dense<1> : tensor<3xi64>"),
    (jnp.array([True, False, True]), "dense<[true, false, true]> : tensor<3xi1>"),
    (np.full((1, 1), 1j, np.complex64), "dense<(0.000000e+00,1.000000e+00)> : tensor<1x1xcomplex"),
]


@pytest.mark.parametrize("value, text", ARRAYS)
def test_arrays_as_attributes(value: Any, text: str) -> None:
    f = lax.composite(lambda x, *, k: x * k, name="a")
    lowered = pyjax.jit(lambda x: f(x, k=value)).lower(X)
    assert f"{{k = {text}" in lowered.as_text()
    np.testing.assert_allclose(lowered.compile()(X), X * value, rtol=1e-6)
    np.testing.assert_allclose(f(X, k=value), X * value, rtol=1e-6)


def test_arrays_and_dtypes_inside_of_attributes() -> None:
    f = lax.composite(lambda x, **_: x, name="a")
    attributes = {"k": [np.array([1, 2], np.int8), {"b": np.zeros(0)}], "t": np.dtype("bfloat16")}
    text = pyjax.jit(lambda x: f(x, **attributes)).lower(X).as_text()
    assert "k = [dense<[1, 2]> : tensor<2xi8>, {b = dense<> : tensor<0xf64>}]" in text
    assert "t = bf16" in text


def test_the_jaxpr_names_it() -> None:
    (eqn,) = pyjax.make_jaxpr(tangent)(1.0).eqns
    assert eqn.primitive.name == "composite"
    assert eqn.params["name"] == "my.tangent"
    assert eqn.params["version"] == 0


ERRORS = [
    (lambda: pyjax.grad(tangent)(1.0), ValueError, "custom_jvp"),
    (lambda: lax.composite(lambda x, k: x, name="a")(X, k=object()), TypeError, r"a\.k: object"),
    (
        lambda: pyjax.jit(lambda y: lax.composite(lambda x: x + y, name="a")(X))(X),
        pyjax.errors.UnexpectedTracerError,
        "composite op 'a'",
    ),
    (
        lambda: pyjax.jit(lambda y: lax.composite(lambda x, k: x, name="a")(X, k=[y]))(X),
        pyjax.errors.UnexpectedTracerError,
        r"a\.k",
    ),
]


@pytest.mark.parametrize("call, kind, message", ERRORS)
def test_errors(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_derivatives_by_custom_jvp() -> None:
    f = pyjax.custom_jvp(tangent)
    f.defjvps(lambda g, ans, x: g * (1 + ans * ans))
    assert float(pyjax.grad(f)(0.5)) == pytest.approx(1 + np.tan(0.5) ** 2, rel=1e-6)
