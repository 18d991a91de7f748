"""The functions of custom_jvp and custom_vjp see arrays or tracers, never bare numbers, but for
residuals that `fwd` has written as Python numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, lax, vmap

NUMBERS = {
    "float": 3.0,
    "int": 3,
    "bool": True,
    "float32": np.float32(3),
    "float64": np.float64(3),
    "int8": np.int8(3),
    "numpy0d": np.array(3.0, np.float32),
    "numpy": np.full(2, 3.0, np.float32),
    "array": jnp.float32(3),
}


def is_array(x: Any) -> bool:
    """`isinstance` holds for tracers, too; `at` and `aval` are what NumPy's numbers lack."""
    assert isinstance(x, pyjax.Array), f"{x!r} of {type(x)}"
    return x.shape == x.aval.shape and x.dtype == x.aval.dtype and x.at is not None


def jvp_function(seen: list[str]) -> Any:
    @pyjax.custom_jvp
    def f(x, n):
        assert is_array(x) and is_array(n)
        seen.append("fun")
        return x * n.sum()

    @f.defjvp
    def rule(primals, tangents):
        assert all(map(is_array, primals))
        assert is_array(tangents[0])
        tangent = tangents[1]
        assert tangent.dtype == pyjax.dtypes.float0 or is_array(tangent)
        seen.append("jvp")
        return f(*primals), tangents[0] * primals[1].sum()

    return f


def jvps_function(seen: list[str]) -> Any:
    @pyjax.custom_jvp
    def f(x, n):
        assert is_array(x) and is_array(n)
        seen.append("fun")
        return x * n.sum()

    def for_x(tangent, out, x, n):
        assert is_array(tangent) and is_array(out) and is_array(x) and is_array(n)
        seen.append("jvp")
        return tangent * n.sum()

    f.defjvps(for_x, None)
    return f


def vjp_function(seen: list[str]) -> Any:
    @pyjax.custom_vjp
    def f(x, n):
        assert is_array(x) and is_array(n)
        seen.append("fun")
        return x * n.sum()

    def fwd(x, n):
        assert is_array(x) and is_array(n)
        seen.append("fwd")
        return f(x, n), (n, 2, np.float32(4))

    def bwd(residuals, ct):
        number, constant, scalar = residuals
        assert is_array(number) and type(constant) is int and is_array(scalar) and is_array(ct)
        seen.append("bwd")
        return ct * residuals[0].sum(), None

    f.defvjp(fwd, bwd)
    return f


MAKERS = {"jvp": jvp_function, "jvps": jvps_function, "vjp": vjp_function}
TRANSFORMATIONS = {
    "grad": lambda f, n: grad(lambda x: f(x, n))(2.0),
    "grad_of_jit": lambda f, n: grad(jit(lambda x: f(x, n)))(2.0),
    "jit_of_grad": lambda f, n: jit(grad(lambda x: f(x, n)))(2.0),
    "jitted_twice": lambda f, n: jit(grad(jit(jit(lambda x: f(x, n)))))(2.0),
    "vmap": lambda f, n: vmap(grad(lambda x: f(x, n)))(jnp.full(2, 2.0))[0],
    "grad_of_vmap": lambda f, n: grad(lambda x: vmap(lambda v: f(v, n))(x).sum())(jnp.ones(2))[0],
    "vmap_of_jit": lambda f, n: vmap(jit(grad(lambda x: f(x, n))))(jnp.full(2, 2.0))[0],
    "scan": lambda f, n: grad(
        lambda x: lax.scan(lambda c, _: (f(c, n), None), x, None, length=1)[0]
    )(2.0),
    "cond": lambda f, n: grad(lambda x: lax.cond(True, lambda v: f(v, n), lambda v: v, x))(2.0),
    "checkpoint": lambda f, n: grad(pyjax.checkpoint(lambda x: f(x, n)))(2.0),
    "vjp": lambda f, n: pyjax.vjp(lambda x: f(x, n), 2.0)[1](1.0)[0],
    "linearized": lambda f, n: pyjax.linear_transpose(
        pyjax.linearize(lambda x: f(x, n), 2.0)[1], 1.0
    )(1.0)[0],
}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("maker", MAKERS)
def test_direct_calls(maker, number):
    seen: list[str] = []
    f = MAKERS[maker](seen)
    value = np.asarray(f(2.0, NUMBERS[number]))
    assert value == 2.0 * np.sum(NUMBERS[number])
    assert np.asarray(grad(f)(2.0, NUMBERS[number])) == np.sum(NUMBERS[number])
    assert len(set(seen)) > 1


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("maker", MAKERS)
def test_closed_over_and_constant(maker, transformation, number):
    seen: list[str] = []
    f = MAKERS[maker](seen)
    got = TRANSFORMATIONS[transformation](f, NUMBERS[number])
    assert float(got) == np.sum(NUMBERS[number])
    assert "fun" in seen and len(set(seen)) > 1


@pytest.mark.parametrize("number", NUMBERS)
def test_constants_made_inside(number):
    """A number that only becomes one by folding a conversion."""
    seen: list[str] = []
    f = jvp_function(seen)
    got = jit(grad(jit(lambda x: f(x, jnp.asarray(NUMBERS[number]).astype(jnp.float32)))))(2.0)
    assert float(got) == np.sum(NUMBERS[number])


def test_nondifferentiated_arguments_come_as_they_are():
    @pyjax.custom_jvp
    def f(x):
        return x

    seen = []
    g = pyjax.custom_vjp(lambda n, x: seen.append(n) or x * n, nondiff_argnums=(0,))
    g.defvjp(lambda n, x: (g(n, x), None), lambda n, residuals, ct: (seen.append(n) or ct * n,))
    assert float(grad(g, argnums=1)(3, 2.0)) == 3.0
    assert [type(n) for n in seen] == [int, int]


def test_weak_types_of_numbers_are_kept():
    seen = []

    @pyjax.custom_jvp
    def f(x):
        seen.append(x.weak_type)
        return x * np.float16(2)

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    assert f(1.5).dtype == np.float16
    assert f(np.float32(1.5)).dtype == np.float32
    assert seen == [True, False]


def test_custom_gradient_gets_arrays():
    def f(x, n):
        assert is_array(x) and is_array(n)
        return x * n, lambda ct: (ct * n, ct * x)

    g = pyjax.custom_gradient(f)
    assert float(jit(grad(lambda x: g(x, 3.0)))(2.0)) == 3.0
    assert float(grad(lambda x: g(x, 3.0))(2.0)) == 3.0
