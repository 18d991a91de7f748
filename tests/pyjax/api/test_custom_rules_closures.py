"""Functions with derivative rules of their own that close over values of enclosing transformations.

The rules are not the derivatives of the functions, so that one sees which of them ran. Everything
is compared with formulas in NumPy.
"""

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.errors import UnexpectedTracerError

XS = np.array([1.0, 2.0, 3.0], np.float32)
TABLE = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)


def with_jvp(a):
    """sin(x) * a, with the derivative 2 * a."""
    f = pyjax.custom_jvp(lambda x: jnp.sin(x) * a)
    f.defjvp(lambda primals, tangents: (jnp.sin(primals[0]) * a, 2 * a * tangents[0]))
    return f


def with_vjp(a):
    """sin(x) * a, with the derivative 10 * a**2 * x; fwd and bwd close over `a`."""
    f = pyjax.custom_vjp(lambda x: jnp.sin(x) * a)
    f.defvjp(lambda x: (jnp.sin(x) * a, a * x), lambda r, g: (10 * g * a * r,))
    return f


def value(x, a):
    return np.sin(x) * a


RULES = {
    "custom_jvp": (with_jvp, lambda x, a: 2 * a + 0 * x),
    "custom_vjp": (with_vjp, lambda x, a: 10 * a * a * x),
}


@pytest.fixture(params=RULES)
def rule(request):
    """(function of `a` that makes the function of x, its derivative as declared)"""
    return RULES[request.param]


def outer(xs):
    return xs[:, None]


def twice(f):
    """f(f(x)) in a scan."""
    return lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]


VALUES = {
    "self": (lambda m: pyjax.vmap(lambda a: m(a)(a))(XS), value(XS, XS)),
    "operand that is not mapped": (lambda m: pyjax.vmap(lambda a: m(a)(2.0))(XS), value(2.0, XS)),
    "argument that is not mapped": (
        lambda m: pyjax.vmap(lambda a, b: m(a)(b), (0, None))(XS, 2.0),
        value(2.0, XS),
    ),
    "closure that is not mapped": (
        lambda m: pyjax.vmap(lambda a, b: m(b)(a), (0, None))(XS, 2.0),
        value(XS, 2.0),
    ),
    "nothing mapped": (
        lambda m: pyjax.vmap(lambda a, b: m(b)(b), (0, None), None)(XS, 2.0),
        value(2.0, 2.0),
    ),
    "another axis": (lambda m: pyjax.vmap(lambda a: m(a)(a), 1, 1)(TABLE), value(TABLE, TABLE)),
    "nested, of the outer": (
        lambda m: pyjax.vmap(lambda a: pyjax.vmap(lambda b: m(a)(b))(XS))(XS),
        value(XS, outer(XS)),
    ),
    "nested, of the inner": (
        lambda m: pyjax.vmap(lambda a: pyjax.vmap(lambda b: m(b)(a))(XS))(XS),
        value(outer(XS), XS),
    ),
    "mapped by vmap itself": (
        lambda m: pyjax.vmap(lambda a: pyjax.vmap(m(a))(XS))(XS),
        value(XS, outer(XS)),
    ),
    "jit inside": (lambda m: pyjax.vmap(lambda a: pyjax.jit(m(a))(a))(XS), value(XS, XS)),
    "jit outside": (lambda m: pyjax.jit(pyjax.vmap(lambda a: m(a)(a)))(XS), value(XS, XS)),
    "checkpoint": (
        lambda m: pyjax.vmap(lambda a: pyjax.checkpoint(m(a))(a))(XS),
        value(XS, XS),
    ),
    "scan": (lambda m: pyjax.vmap(lambda a: twice(m(a))(a))(XS), value(value(XS, XS), XS)),
    "in a scan": (
        lambda m: lax.scan(lambda c, x: (c, pyjax.vmap(lambda a: m(a * x)(a))(XS)), 0.0, XS)[1],
        value(XS, XS * outer(XS)),
    ),
    "cond": (
        lambda m: pyjax.vmap(lambda a: lax.cond(a > 1.5, m(a), lambda x: x, a))(XS),
        np.where(XS > 1.5, value(XS, XS), XS),
    ),
    "collective": (
        lambda m: pyjax.vmap(lambda a: m(lax.psum(a, "i"))(a), axis_name="i")(XS),
        value(XS, 6.0),
    ),
    "axis index": (
        lambda m: pyjax.vmap(lambda a: m(a + lax.axis_index("i"))(2.0), axis_name="i")(XS),
        value(2.0, XS + np.arange(3)),
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name, rule):
    made, _ = rule
    run, expected = VALUES[name]
    np.testing.assert_allclose(run(made), expected, rtol=2e-6)


DERIVATIVES = {
    "grad": (lambda m: pyjax.vmap(lambda a: pyjax.grad(m(a))(a))(XS), lambda d: d(XS, XS)),
    "grad at a constant": (
        lambda m: pyjax.vmap(lambda a: pyjax.grad(m(a))(2.0))(XS),
        lambda d: d(2.0, XS),
    ),
    "grad of jit": (
        lambda m: pyjax.vmap(lambda a: pyjax.grad(pyjax.jit(m(a)))(a))(XS),
        lambda d: d(XS, XS),
    ),
    "jit of grad": (
        lambda m: pyjax.vmap(lambda a: pyjax.jit(pyjax.grad(m(a)))(a))(XS),
        lambda d: d(XS, XS),
    ),
    "jit outside": (
        lambda m: pyjax.jit(pyjax.vmap(lambda a: pyjax.grad(m(a))(a)))(XS),
        lambda d: d(XS, XS),
    ),
    "nested": (
        lambda m: pyjax.vmap(lambda a: pyjax.vmap(lambda b: pyjax.grad(m(a * b))(b))(XS))(XS),
        lambda d: d(XS, XS * outer(XS)),
    ),
    "nested, mapped by vmap itself": (
        lambda m: pyjax.vmap(lambda a: pyjax.vmap(pyjax.grad(m(a)))(XS))(XS),
        lambda d: d(XS, outer(XS)),
    ),
    "pullback": (
        lambda m: pyjax.vmap(lambda a: pyjax.vjp(m(a), a)[1](3.0)[0])(XS),
        lambda d: 3 * d(XS, XS),
    ),
    "checkpoint": (
        lambda m: pyjax.vmap(lambda a: pyjax.grad(pyjax.checkpoint(m(a)))(a))(XS),
        lambda d: d(XS, XS),
    ),
    "scan": (
        lambda m: pyjax.vmap(lambda a: pyjax.grad(twice(m(a)))(a))(XS),
        lambda d: d(XS, XS) * d(value(XS, XS), XS),
    ),
    "cond": (
        lambda m: pyjax.vmap(
            lambda a: pyjax.grad(lambda x: lax.cond(x > 1.5, m(a), lambda x: x, x))(a)
        )(XS),
        lambda d: np.where(XS > 1.5, d(XS, XS), 1.0),
    ),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name, rule):
    made, derivative = rule
    run, expected = DERIVATIVES[name]
    np.testing.assert_allclose(run(made), expected(derivative), rtol=2e-5)


FORWARD = {
    "jvp": lambda f: pyjax.jvp(f, (XS,), (XS,))[1] / XS,
    "grad": lambda f: pyjax.grad(lambda z: f(z).sum())(XS),
    "jit of grad": lambda f: pyjax.jit(pyjax.grad(lambda z: f(z).sum()))(XS),
    "jacrev": lambda f: np.diag(pyjax.jacrev(f)(XS)),
    "jacfwd": lambda f: np.diag(pyjax.jacfwd(f)(XS)),
}


@pytest.mark.parametrize("name", FORWARD)
def test_jvp_rule_runs_in_the_vmap_that_is_differentiated(name):
    weights = XS + 1
    f = lambda z: pyjax.vmap(lambda a, x: with_jvp(a)(x))(weights, z)
    np.testing.assert_allclose(FORWARD[name](f), 2 * weights, rtol=1e-6)


def test_while_loop_of_a_jvp_rule():
    def run(a):
        f = with_jvp(a)
        body = lambda state: (state[0] + 1, f(state[1]))
        loop = lambda x: lax.while_loop(lambda state: state[0] < 2, body, (0, x))[1]
        return pyjax.jvp(loop, (a,), (1.0,))[1]

    np.testing.assert_allclose(pyjax.vmap(run)(XS), 4 * XS * XS, rtol=1e-6)


def test_rule_within_a_rule():
    def run(a):
        inner = with_jvp(a)
        f = pyjax.custom_jvp(lambda x: inner(x) * a)
        f.defjvp(lambda p, t: (inner(p[0]) * a, a * pyjax.jvp(inner, p, t)[1]))
        return f(a), pyjax.grad(f)(a)

    got, derivative = pyjax.vmap(run)(XS)
    np.testing.assert_allclose(got, value(XS, XS) * XS, rtol=2e-6)
    np.testing.assert_allclose(derivative, 2 * XS * XS, rtol=1e-6)


def test_custom_gradient():
    def run(a):
        f = pyjax.custom_gradient(lambda x: (x * a, lambda g: g * a * 3))
        return f(2.0), pyjax.grad(f)(2.0)

    got, derivative = pyjax.vmap(run)(XS)
    np.testing.assert_allclose(got, 2 * XS)
    np.testing.assert_allclose(derivative, 3 * XS)


def test_operand_that_is_not_mapped_gets_its_cotangent_once():
    """Two outputs, one of which does not see the mapped operand."""
    f = pyjax.custom_vjp(lambda x, y: (x, y * 2))
    f.defvjp(lambda x, y: ((x, y * 2), None), lambda _, g: (g[0] + 3 * g[1], g[1]))
    first = lambda x: pyjax.vmap(f, (None, 0))(x, XS)[0].sum()
    assert pyjax.grad(first)(2.0) == 3.0
    assert pyjax.grad(pyjax.jit(first))(2.0) == 3.0


def test_backward_rule_of_a_vmap_that_is_over():
    """The pullback of the whole vmap runs bwd when the mapped value is gone."""
    f = lambda z: pyjax.vmap(lambda a, x: with_vjp(a)(x))(XS, z).sum()
    with pytest.raises(UnexpectedTracerError, match="escaped"):
        pyjax.grad(f)(XS)


def test_exception_in_a_rule_leaves_the_vmap_usable():
    def run(a):
        f = pyjax.custom_jvp(lambda x: 1 / 0)
        f.defjvp(lambda p, t: (p[0], t[0]))
        with pytest.raises(ZeroDivisionError):
            f(a)
        return with_jvp(a)(a) + pyjax.grad(with_jvp(a))(2.0)

    np.testing.assert_allclose(pyjax.vmap(run)(XS), value(XS, XS) + 2 * XS, rtol=2e-6)


# -- differentiation of what is closed over --------------------------------------------------------


def only_the_function_closes_over(a):
    f = pyjax.custom_vjp(lambda x: jnp.sin(x) * a)
    f.defvjp(lambda x: (jnp.sin(x), None), lambda _, g: (10 * g,))
    return f


PROGRAMS = {
    "jit": lambda m: pyjax.grad(pyjax.jit(lambda x: m(x)(x)))(3.0),
    "jit, closure only": lambda m: pyjax.grad(pyjax.jit(lambda x: m(x)(2.0)))(3.0),
    "jvp": lambda m: pyjax.jvp(pyjax.jit(lambda x: m(x)(x)), (3.0,), (1.0,)),
    "vmap": lambda m: pyjax.grad(lambda z: pyjax.vmap(pyjax.jit(lambda x: m(x)(x)))(z).sum())(XS),
    "scan": lambda m: pyjax.grad(lambda x: twice(m(x))(x))(3.0),
    "checkpoint": lambda m: pyjax.grad(pyjax.checkpoint(lambda x: m(x)(x)))(3.0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_recorded_vjp_rules_do_not_drop_the_derivative_of_what_is_closed_over(name):
    with pytest.raises(TypeError) as caught:
        PROGRAMS[name](only_the_function_closes_over)
    text = str(caught.value)
    assert "differentiated with respect to a value that it closes over" in text
    assert "Its rule says how cotangents flow back to its arguments" in text
    assert "lax.stop_gradient" in text


def test_what_is_closed_over_may_be_stopped():
    f = lambda x: only_the_function_closes_over(lax.stop_gradient(x))(x)
    assert pyjax.grad(pyjax.jit(f))(3.0) == 10.0
    g = pyjax.jit(lambda x, y: only_the_function_closes_over(y)(x))
    assert pyjax.grad(g)(3.0, 2.0) == 10.0
