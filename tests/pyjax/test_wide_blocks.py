"""Functions that compute in 64 bits in a block of their own, where 64 bits are off: their programs
are batched, differentiated and lowered outside of the block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, lax, vmap

X = np.array([0.25, 0.75], np.float32)


def _wide(body: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        with pyjax.enable_x64(True):
            return body(x.astype("float64")).astype("float32")

    return function


# In 64 bits, with the value and the first and second derivatives at X.
BODIES: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], tuple[Any, Any, Any]]]] = {
    "a number first": (lambda y: 2.0 - y, lambda x: (2 - x, x * 0 - 1, x * 0)),
    "cancellation": (lambda y: (y * 1e9 + 1.0) - y * 1e9, lambda x: (x * 0 + 1, x * 0, x * 0)),
    "a loop": (
        lambda y: lax.fori_loop(0, 3, lambda i, c: c * 1.5 + i, y),
        lambda x: (((x * 1.5) * 1.5 + 1) * 1.5 + 2, x * 0 + 1.5**3, x * 0),
    ),
    "a branch": (
        lambda y: jnp.where(y > 0.5, 3.0 * y * y, 1.0),
        lambda x: (np.where(x > 0.5, 3 * x * x, 1), 6 * x * (x > 0.5), 6 * (x > 0.5)),
    ),
    "integers": (lambda y: (y * 2**40).astype("int64") % 2**33 + y * 0, lambda x: (x * 0,) * 3),
    "erfc": (
        lambda y: 2.0 - lax.erfc(y),
        lambda x: (
            [1.27632639, 1.71115563],
            2 / np.sqrt(np.pi) * np.exp(-x * x),
            -4 * x / np.sqrt(np.pi) * np.exp(-x * x),
        ),
    ),
}
DERIVATIVES: list[Callable[[Any], Any]] = [lambda f: f, grad, lambda f: grad(grad(f))]
TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "vmap of the derivative": lambda f, d: vmap(d(f)),
    "of a jitted function": lambda f, d: vmap(d(jit(f))),
    "jitted": lambda f, d: jit(vmap(d(f))),
    "of custom_jvp": lambda f, d: vmap(d(_with_rule(f))),
}


def _with_rule(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    g = pyjax.custom_jvp(f)
    g.defjvp(lambda primals, tangents: (g(*primals), tangents[0] * grad(f)(*primals)))
    return g


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("name", BODIES)
def test_wide_inside(name: str, order: int) -> None:
    body, expected = BODIES[name]
    for transform in TRANSFORMS.values():
        got = transform(_wide(body), DERIVATIVES[order])(X)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected(X.astype(np.float64))[order], rtol=1e-6, atol=1e-6)


def test_narrow_programs_in_a_wide_block() -> None:
    f = jit(lambda x: x * 2.0 + 1)
    _, pullback = pyjax.vjp(f, X)
    _, linear = pyjax.linearize(f, X)
    with pyjax.enable_x64(True):
        for (got,) in (pullback(X), (linear(X),), pyjax.linear_transpose(linear, X)(X)):
            assert got.dtype == np.float32
            np.testing.assert_array_equal(got, 2 * X)
