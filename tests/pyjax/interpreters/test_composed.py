"""Primitives that are functions, under every transformation, compared with the functions."""

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.extend.core import Primitive
from pyjax.extend.core.primitives import call_p, closed_call_p
from pyjax.interpreters.composed import composed


def product(x, y, *, scale):
    return [lax.mul(lax.sin(x), lax.mul(y, scale))]


def sums(x, at):
    return [jnp.sum(x * 2.0), at + 1, x]


product_p = composed("test_composed_product", product)
sums_p = composed("test_composed_sums", sums, multiple_results=True)
X, Y = np.linspace(0, 1, 3, dtype=np.float32), np.arange(3, dtype=np.float32)


def by_primitive(x, y):
    return product_p.bind(x, y, scale=2.0)


def by_hand(x, y):
    return jnp.sin(x) * y * 2.0


CASES = {
    "value": lambda f: f(X, Y),
    "jit": lambda f: pyjax.jit(f)(X, Y),
    "grad": lambda f: pyjax.grad(lambda x, y: f(x, y).sum(), (0, 1))(X, Y),
    "second": lambda f: pyjax.jacfwd(pyjax.grad(lambda x: f(x, Y).sum()))(X),
    "vmap": lambda f: pyjax.vmap(f, (0, None))(np.stack([X, Y]), Y),
    "transpose": lambda f: pyjax.linear_transpose(lambda y: f(X, y), Y)(X),
    "scan": lambda f: lax.scan(lambda c, x: (c, f(x, c)), jnp.float32(2), X)[1],
}


@pytest.mark.parametrize("name", CASES)
def test_transformations(name):
    got, expected = CASES[name](by_primitive), CASES[name](by_hand)
    for a, b in zip(pyjax.tree.leaves(got), pyjax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_programs_hold_one_equation():
    (eqn,) = pyjax.make_jaxpr(by_primitive)(X, Y).eqns
    assert isinstance(eqn.primitive, Primitive) and eqn.params == {"scale": 2.0}


def test_several_results_of_which_some_have_no_derivative():
    outs = pyjax.jit(sums_p.bind)(X, np.arange(3))
    assert float(outs[0]) == 3.0 and outs[1].tolist() == [1, 2, 3]
    gradient = pyjax.grad(lambda x: sums_p.bind(x, np.arange(3))[0])(X)
    assert gradient.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("closed", [False, True])
def test_calls_of_programs(closed):
    program = pyjax.make_jaxpr(by_hand)(X, Y)
    primitive, jaxpr = (closed_call_p, program) if closed else (call_p, program.jaxpr)

    def called(x, y):
        return primitive.bind(x, y, call_jaxpr=jaxpr)[0]

    for name in ("value", "jit", "grad", "vmap"):
        got, expected = CASES[name](called), CASES[name](by_hand)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    assert [e.primitive for e in pyjax.make_jaxpr(called)(X, Y).eqns] == [primitive]
