"""Primitives and types that users define by classes."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, jvp, vmap
from pyjax.experimental import cur_qdd, hijax


class Cube(hijax.HiPrimitive):
    def abstract_eval(self, x, *, scale):
        return x, set()

    def to_lojax(self, x, *, scale):
        return scale * x**3

    def jvp(self, primals, tangents, *, scale):
        (x,), (t,) = primals, tangents
        return self.bind(x, scale=scale), 3 * scale * x**2 * hijax.instantiate_zeros(t)


class Both(hijax.HiPrimitive):
    multiple_results = True

    def abstract_eval(self, x):
        return [x, x], set()

    def to_lojax(self, x):
        return [x + 1, x * 2]


def test_rules_are_methods():
    cube = lambda x: Cube("cube").bind(x, scale=2.0)
    x = jnp.asarray([1.0, 2.0])
    for call in (cube, jit(cube), vmap(cube)):
        np.testing.assert_allclose(call(x), 2 * x**3)
    np.testing.assert_allclose(jit(vmap(grad(cube)))(x), 6 * x**2)
    np.testing.assert_allclose(vmap(grad(grad(cube)))(x), 12 * x)
    assert "cube" in str(pyjax.make_jaxpr(cube)(1.0))


def test_several_results():
    first, second = jit(vmap(lambda x: Both("both").bind(x)))(jnp.arange(3.0))
    assert first.tolist() == [1, 2, 3] and second.tolist() == [0, 2, 4]
    with pytest.raises(NotImplementedError, match="both"):
        jvp(lambda x: Both("both").bind(x), (1.0,), (1.0,))
    with pytest.raises(NotImplementedError, match="has no method to_lojax"):
        hijax.HiPrimitive("empty").to_lojax(1.0)


class Product(hijax.VJPHiPrimitive):
    """With ten times the derivative, which says that the rule is used."""

    def __init__(self, a, b):
        self.in_avals, self.out_aval, self.params = (a, b), a, {"factor": 10.0}
        super().__init__()

    def expand(self, x, y):
        return x * y

    def vjp_fwd(self, nonzero_in, x, y):
        assert nonzero_in == (True, True)
        return self(x, y), (x, y)

    def vjp_bwd_retval(self, residuals, ct):
        x, y = residuals
        return self.factor * ct * y, self.factor * ct * x


class Sine(hijax.VJPHiPrimitive):
    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval,), aval, {}
        super().__init__()

    def expand(self, x):
        return jnp.sin(x)

    def jvp(self, primals, tangents):
        return self(*primals), 5 * tangents[0] * jnp.cos(primals[0])


def test_functions_with_derivatives():
    x = jnp.float32(3.0)
    product = Product(pyjax.typeof(x), pyjax.typeof(x))
    assert float(jit(product)(x, 2 * x)) == 18.0
    assert [float(g) for g in jit(grad(product, (0, 1)))(x, 2 * x)] == [60.0, 30.0]
    xs = jnp.arange(3, dtype=jnp.float32)
    np.testing.assert_allclose(vmap(grad(product), (0, None))(xs, x), [30.0] * 3)
    assert float(grad(Sine(pyjax.typeof(x)))(jnp.float32(0.0))) == 5.0
    with pytest.raises(TypeError, match="Make another instance"):
        product(x, jnp.ones(2))


class Box:
    def __init__(self, value):
        self.value = value

    def cur_qdd(self):
        return pyjax.typeof(self.value)


class BoxType(hijax.MutableHiType):
    pass


class Plain:
    pass


class PlainType(hijax.HiType):
    pass


def test_values_of_registered_types():
    hijax.register_hitype(Box, lambda box: BoxType())
    hijax.register_hitype(Plain, lambda value: PlainType())
    assert type(hijax.hitype_of(Box(1.0))) is BoxType
    assert cur_qdd(Box(jnp.ones(3))) == pyjax.typeof(jnp.ones(3))
    with pytest.raises(TypeError, match="has no state that its type depends on"):
        cur_qdd(Plain())
    with pytest.raises(TypeError, match="is no registered type"):
        cur_qdd(object())
    with pytest.raises(NotImplementedError, match="operands of programs are arrays"):
        Cube("cube").bind(Box(1.0), scale=1.0)
