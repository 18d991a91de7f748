"""custom_jvp and custom_vjp under every transformation, with wrong-on-purpose rules as markers."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import pyjax.numpy as jnp
from pyjax import grad, jit, jvp, lax, value_and_grad, vmap
from pyjax.api.checkpoint import checkpoint
from pyjax.api.custom_jvp import custom_jvp
from pyjax.api.custom_vjp import custom_vjp
from pyjax.errors import UnexpectedTracerError

X = np.arange(3, dtype=np.float32) + 0.5
B = np.stack([X, 2 * X])


@custom_jvp
def marked_jvp(x):
    return jnp.sin(x)


@marked_jvp.defjvp
def _marked_jvp_rule(primals, tangents):
    return marked_jvp(*primals), 7.0 * tangents[0]


@custom_vjp
def marked_vjp(x):
    return jnp.sin(x)


marked_vjp.defvjp(lambda x: (marked_vjp(x), x), lambda x, g: (7.0 * g,))
NESTINGS = {
    "grad": (lambda f: grad(f), X),
    "jit(grad)": (lambda f: jit(grad(f)), X),
    "grad(jit)": (lambda f: grad(jit(f)), X),
    "grad(jit(jit))": (lambda f: grad(jit(jit(f))), X),
    "vmap(grad)": (lambda f: vmap(grad(f)), B),
    "grad(vmap)": (lambda f: grad(lambda b: jnp.sum(vmap(f)(b))), B),
    "jit(vmap(grad(jit)))": (lambda f: jit(vmap(grad(jit(f)))), B),
    "grad(jit(vmap))": (lambda f: grad(jit(lambda b: jnp.sum(vmap(f)(b)))), B),
    "grad(vmap(jit))": (lambda f: grad(lambda b: jnp.sum(vmap(jit(f))(b))), B),
    "grad(checkpoint)": (lambda f: grad(checkpoint(f)), X),
    "jit(grad(checkpoint))": (lambda f: jit(grad(checkpoint(f))), X),
    "grad(checkpoint(vmap))": (lambda f: grad(checkpoint(lambda b: jnp.sum(vmap(f)(b)))), B),
}


@pytest.mark.parametrize("marked", [marked_jvp, marked_vjp], ids=["jvp", "vjp"])
@pytest.mark.parametrize("name", NESTINGS)
def test_rule_is_used(marked, name):
    transform, x = NESTINGS[name]
    got = transform(lambda x: jnp.sum(marked(x)))(x)
    np.testing.assert_allclose(got, np.full(np.shape(x), 7.0))


@pytest.mark.parametrize("marked", [marked_jvp, marked_vjp], ids=["jvp", "vjp"])
def test_rule_is_used_in_control_flow(marked):
    scan = lambda x: lax.scan(lambda c, _: (marked(c), None), x, None, length=3)[0]
    assert float(grad(scan)(1.0)) == 343.0
    assert float(jit(grad(scan))(1.0)) == 343.0
    assert vmap(grad(scan))(X).tolist() == [343.0] * 3
    cond = lambda x: lax.cond(x > 0, marked, jnp.cos, x)
    assert float(grad(cond)(1.0)) == 7.0 and float(jit(grad(cond))(1.0)) == 7.0
    loop = lambda x: lax.fori_loop(0, 2, lambda i, c: marked(c), x)
    assert float(grad(loop)(1.0)) == 49.0


def test_values_are_not_changed():
    for marked in (marked_jvp, marked_vjp):
        for f in (marked, jit(marked), vmap(marked), jit(vmap(marked))):
            np.testing.assert_allclose(f(X), np.sin(X), rtol=1e-6)


def test_jvp_rule_second_order_and_defjvps():
    f = custom_jvp(lambda x, y: x * y)
    f.defjvps(lambda t, ans, x, y: t * jnp.sin(x), None)
    assert np.isclose(float(grad(grad(f))(1.0, 2.0)), np.cos(1.0))
    assert float(grad(f, 1)(1.0, 2.0)) == 0.0
    out, tangent = jvp(f, (1.0, 2.0), (1.0, 1.0))
    assert float(out) == 2.0 and np.isclose(float(tangent), np.sin(1.0))


def test_defjvps_asks_no_rule_of_an_argument_that_stands_still():
    f = custom_jvp(lambda pair, y: pair[0] * pair[1] * y)
    asked = []

    def along_pair(t, ans, pair, y):
        asked.append([np.shape(leaf) for leaf in t])
        return (t[0] * pair[1] + pair[0] * t[1]) * y

    f.defjvps(along_pair, lambda t, ans, pair, y: t * jnp.inf)
    # Of the pair one leaf moves, and the other has zeros.
    assert float(grad(lambda x: f((x, 3.0), 2.0))(1.0)) == 6.0
    assert asked == [[(), ()]]
    assert float(grad(lambda x: f((x, x), 2.0))(1.0)) == 4.0


def test_nondiff_arguments():
    @functools.partial(custom_jvp, nondiff_argnums=(0,))
    def apply(f, x):
        return f(x)

    @apply.defjvp
    def apply_rule(f, primals, tangents):
        return f(*primals), 3.0 * tangents[0]

    assert float(grad(lambda x: apply(jnp.sin, x))(1.0)) == 3.0

    @functools.partial(custom_vjp, nondiff_argnums=(1,))
    def scale(x, n):
        return x * n

    scale.defvjp(lambda x, n: (x * n, None), lambda n, r, g: (g * n * 10.0,))
    for f in (grad, lambda f: jit(grad(f)), lambda f: grad(jit(f))):
        assert float(f(lambda x: scale(x, 2))(1.0)) == 20.0
    with pytest.raises(UnexpectedTracerError, match="nondiff_argnums"):
        jit(lambda n: scale(1.0, n))(2)


def test_pytrees_none_and_defaults():
    @custom_vjp
    def f(d, scale=3.0):
        return d["a"] * d["b"] * scale

    f.defvjp(lambda d, scale: (f(d, scale), d), lambda d, g: ({"a": g * d["b"], "b": None}, None))
    g = grad(f)({"a": 1.0, "b": 2.0})
    assert (float(g["a"]), float(g["b"])) == (2.0, 0.0)
    assert float(f({"a": 1.0, "b": 2.0}, scale=5.0)) == 10.0


def test_cotangents_are_arrays():
    seen = []

    @custom_vjp
    def f(x):
        return x * 2.0

    f.defvjp(lambda x: (f(x), None), lambda r, g: (seen.append(type(g)) or g,))
    value_and_grad(f)(1.0)
    assert seen[0].__name__ == "DeviceArray"


def test_closed_over_tracers():
    def outer(x, s):
        @custom_vjp
        def f(y):
            return y * s

        f.defvjp(lambda y: (y * s, None), lambda r, g: (g * 5.0,))
        return f(x)

    assert float(jit(lambda x, s: outer(x, s))(1.0, 2.0)) == 2.0
    assert float(jit(grad(outer))(1.0, 2.0)) == 5.0


def test_symbolic_zeros():
    @custom_vjp
    def f(x, y):
        return x * y

    def fwd(x, y):
        return x.value * y.value, (x.value, y.value, x.perturbed, y.perturbed)

    def bwd(res, g):
        x, y, dx, dy = res
        return (g * y if dx else None, g * x if dy else None)

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    assert float(grad(f)(1.0, 2.0)) == 2.0
    assert float(grad(f, 1)(1.0, 2.0)) == 1.0


def test_methods():
    class Model:
        @custom_jvp
        def f(self, x):
            return x

    Model.f.defjvp(lambda primals, tangents: (primals[1], tangents[1] * 4.0))
    with pytest.raises(TypeError, match="not a valid JAX type"):
        Model().f(1.0)
