"""Taylor mode against nested derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax, nn
from pyjax.experimental import jet as jets
from pyjax.experimental.jet import jet

RNG = np.random.RandomState(0)
ORDER = 4


def nested(f: Any, primals: Any, series: Any) -> list[Any]:
    """Value and derivatives along the curve, each a jvp of the one before."""

    def along(t: Any) -> Any:
        moved = []
        for x, terms in zip(primals, series, strict=True):
            steps = [s * t**k / math.factorial(k) for k, s in enumerate(terms, 1)]
            moved.append(x + sum(steps))
        return f(*moved)

    found = [along]
    for _ in range(ORDER):
        before = found[-1]
        found.append(lambda t, g=before: pyjax.jvp(g, (t,), (jnp.ones_like(t),))[1])
    return [g(jnp.zeros(())) for g in found]


UNARY: list[Any] = [
    *(jnp.sin, jnp.cos, jnp.exp, jnp.tanh, jnp.tan, jnp.sinh, jnp.cosh, nn.sigmoid, jnp.log),
    *(jnp.log1p, jnp.sqrt, lax.rsqrt, jnp.cbrt, jnp.expm1, jnp.arcsin, jnp.arccos, jnp.arctan),
    *(jnp.arcsinh, jnp.arctanh, lax.erf, lax.erfc, lax.lgamma, jnp.abs, nn.softmax, nn.gelu),
    *(jnp.cumsum, jnp.cumprod, jnp.sort, jnp.max, nn.logsumexp, nn.relu, jnp.floor, jnp.fft.fft),
    lambda x: jnp.arccosh(1 + x),
    lambda x: x**3,
    lambda x: x**-2,
    lambda x: x**2.5,
    lambda x: pyjax.jit(jnp.sin)(x) * x[0],
    lambda x: lax.scan(lambda c, v: (c * jnp.sin(v), c + v), 1.0, x)[1],
    lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    lambda x: pyjax.checkpoint(jnp.tanh)(x),
    lambda x: jnp.where(x > 0.5, x * x, x),
    lambda x: x[::-1].reshape(3, 1).T * jnp.arange(3) + jnp.ones(3),
    lambda x: lax.abs(lax.complex(x, x * x)),
]
BINARY = [
    jnp.multiply,
    jnp.divide,
    jnp.matmul,
    jnp.power,
    jnp.arctan2,
    lambda x, y: jnp.arctan2(-x, y - 1),
    jnp.maximum,
    lambda x, y: jnp.convolve(x, y),
    lambda x, y: {"a": x + y, "b": [x]}["a"],
]
CASES = [(f, 1) for f in UNARY] + [(f, 2) for f in BINARY]


@pytest.mark.parametrize("f, arity", CASES)
def test_terms_are_derivatives(f: Any, arity: int) -> None:
    with pyjax.enable_x64(True):
        primals = [RNG.uniform(0.2, 0.8, 3) for _ in range(arity)]
        series = [[RNG.uniform(-1, 1, 3) for _ in range(ORDER)] for _ in range(arity)]
        value, terms = jet(f, primals, series)
        for found, expected in zip([value, *terms], nested(f, primals, series), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_trees_jit_and_coefficients() -> None:
    value, terms = pyjax.jit(
        lambda x: jet(lambda d: {"o": jnp.sin(d["a"])}, (x,), ([{"a": 1.0}, {"a": 0.0}],))
    )({"a": 0.5})
    assert float(value["o"]) == pytest.approx(np.sin(0.5))
    np.testing.assert_allclose(terms["o"], [np.cos(0.5), -np.sin(0.5)], rtol=1e-6)
    geometric = ((0.0,), ([1.0, 0.0, 0.0, 0.0],))
    _, terms = jet(lambda x: 1 / (1 - x), *geometric, factorial_scaled=False)
    assert [float(t) for t in terms] == [1, 1, 1, 1]
    assert [float(t) for t in jets.jet2(lambda x: 1 / (1 - x), *geometric)[1]] == [1, 1, 1, 1]


def test_integers_stay() -> None:
    value, terms = jet(lambda x, n: x**2 * n, (3.0, 2), ([1.0, 0.0], [0, 0]))
    assert float(value) == 18
    assert [float(t) for t in terms] == [12, 4]


def test_rules_of_users() -> None:
    twice_p = pyjax.extend.core.Primitive("twice_along")
    twice_p.def_abstract_eval(lambda x: x)
    twice_p.def_impl(lambda x: 2 * x)
    jets.deflinear(twice_p)
    try:
        value, (first,) = jet(lambda x: twice_p.bind(x) * x, (3.0,), ([1.0],))
        assert (float(value), float(first)) == (18, 12)
        jets.def_comp(twice_p, lambda x: x + x)
        assert float(jet(lambda x: twice_p.bind(x) * x, (3.0,), ([1.0],))[1][0]) == 12
        jets.def_deriv(twice_p, lambda x: 2.0 + 0 * x)
        assert float(jet(twice_p.bind, (3.0,), ([1.0],))[1][0]) == 2
        jets.defzero(twice_p)
        assert float(jet(twice_p.bind, (3.0,), ([1.0],))[1][0]) == 0
    finally:
        del jets.jet_rules[twice_p]


ERRORS = [
    (lambda: jet(jnp.sin, (1.0,), ()), "1 primals and 0 series"),
    (lambda: jet(jnp.add, (1.0, 2.0), ([1.0], [1.0, 0.0])), "inconsistent lengths"),
    (lambda: jet(jnp.sin, (1.0,), ([[1.0]],)), "structure"),
]


@pytest.mark.parametrize("call, message", ERRORS)
def test_errors(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("term", [1, 1.0, np.float32(1)], ids=["int", "float", "numpy"])
def test_integers_move_along_curves(term: Any) -> None:
    value, (first, second) = jet(jnp.sin, (3,), ([term, 0 * term],))
    np.testing.assert_allclose([first, second], [np.cos(3), -np.sin(3)], rtol=1e-6)
    assert value.dtype == np.float32
    value, (first, second) = jet(lambda x: x * x + x, (3,), ([term, 2 * term],))
    assert value.dtype == np.int32 and value == 12
    np.testing.assert_allclose([first, second], [7, 2 + 7 * 2])
    _, (first,) = jet(lambda x, n: x**2 + n, (3.0, jnp.array(2)), ([1.0], [term]))
    np.testing.assert_allclose(first, 7)
    _, (first,) = jet(lambda n: n // 2 + n, (3,), ([term],))
    np.testing.assert_allclose(first, 1)
    _, (first,) = jet(lambda b: b * 2.0, (True,), ([term],))
    np.testing.assert_allclose(first, 2)


def test_integers_that_stay_are_indices_and_others_are_not() -> None:
    table = jnp.array([1.0, 5.0])
    value, (first,) = jet(lambda x, i: x * table[i], (3.0, 1), ([1.0], [0]))
    np.testing.assert_allclose([value, first], [15, 5])
    with pytest.raises(TypeError, match="index arguments"):
        jet(lambda i: table[i], (1,), ([1.0],))
