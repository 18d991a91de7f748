"""Policies of checkpoint look into scan and cond: what is kept for the backward pass, as the
reference keeps it (by shape; its version 0.10.2), and gradients, which no policy changes.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.ad_checkpoint import checkpoint_name

POLICIES = pyjax.checkpoint_policies


def point():
    return jnp.asarray(np.linspace(-0.5, 0.8, 9).reshape(3, 3), jnp.float32)


def layer(x):
    def body(c, _):
        c = checkpoint_name(jnp.sin(c), "a")
        d = jnp.cos(c) @ x
        return jnp.tanh(d), jnp.exp(d)

    return body


def scanned(x):
    c, ys = lax.scan(layer(x), x, None, length=5)
    return jnp.sum(c**2) + jnp.sum(ys)


def branched(x):
    one = lambda x: jnp.cos(checkpoint_name(jnp.sin(x), "a") @ x)
    y = lax.cond(jnp.sum(x) > 0, one, lambda x: jnp.sin(x * 2), x)
    return jnp.sum(jnp.sin(y) ** 2)


def switched(x):
    two = lambda x: (
        jnp.sin(checkpoint_name(jnp.sum(x * 2), "b")) * jnp.sin(checkpoint_name(jnp.exp(x), "b"))
    )
    branches = [
        lambda x: jnp.cos(checkpoint_name(jnp.sin(x), "a") @ x),
        two,
        lambda x: checkpoint_name(jnp.tanh(x), "a"),
    ]
    y = lax.switch(jnp.sum(x).astype(int), branches, x)
    return jnp.sum(jnp.sin(y) ** 2)


def nested(x):
    def outer(c, _):
        c, ys = lax.scan(layer(x), c, None, length=4)
        other = lambda c: jnp.sin(checkpoint_name(jnp.sin(c), "b") @ x)
        c = lax.cond(jnp.sum(c) > 0, lambda c: jnp.cos(c @ c), other, c)
        return c, jnp.sum(ys, 0)

    c, ys = lax.scan(outer, x, None, length=5)
    return jnp.sum(c**2) + jnp.sum(ys)


def compiled_inside(x):
    f = pyjax.jit(lambda x: jnp.cos(checkpoint_name(jnp.sin(x), "a") @ x))

    def body(c, y):
        c = f(c)
        return checkpoint_name(c, "c"), checkpoint_name(c * y, "d")

    c, ys = lax.scan(body, x, jnp.ones((5, 3)))
    return jnp.sum(c) + jnp.sum(jnp.sin(ys))


def counted(x):
    step = lambda i, c: jnp.sin(checkpoint_name(jnp.cos(c @ x), "a")) * i
    return jnp.sum(lax.fori_loop(0, 6, step, x))


NAMED = POLICIES.save_only_these_names
PER_POLICY = {
    "everything": POLICIES.everything_saveable,
    "dots": POLICIES.dots_saveable,
    "a": NAMED("a"),
    "ab": NAMED("a", "b"),
    "cd": NAMED("c", "d"),
    "all but a": POLICIES.save_anything_except_these_names("a"),
    "other names": POLICIES.save_any_names_but_these("a"),
}
# The argument itself, and stacks of 5 or 6, 4 of 5, or none.
ONE, FIVE, TWENTY, SIX = "3,3", "5,3,3", "5,4,3,3", "6,3,3"
KEPT = {
    (scanned, "everything"): {ONE: 2, FIVE: 6},
    (scanned, "dots"): {ONE: 1, FIVE: 1},
    (scanned, "a"): {ONE: 1, FIVE: 1},
    (scanned, "cd"): {ONE: 1},
    (scanned, "all but a"): {ONE: 2, FIVE: 6},
    (branched, "everything"): {ONE: 6, "": 1},
    (branched, "dots"): {ONE: 2},
    (branched, "a"): {ONE: 2},
    (branched, "cd"): {ONE: 1},
    (switched, "dots"): {ONE: 2},
    (switched, "a"): {ONE: 2},
    (switched, "ab"): {ONE: 2, "": 1},
    (switched, "other names"): {ONE: 2, "": 1},
    (nested, "dots"): {ONE: 1, FIVE: 1, TWENTY: 1},
    (nested, "a"): {ONE: 1, TWENTY: 1},
    (nested, "ab"): {ONE: 1, FIVE: 1, TWENTY: 1},
    (nested, "all but a"): {ONE: 2, FIVE: 4, TWENTY: 6, "5": 1},
    (nested, "other names"): {ONE: 1, FIVE: 1},
    (compiled_inside, "dots"): {ONE: 1, FIVE: 1},
    (compiled_inside, "a"): {ONE: 1, FIVE: 1},
    (compiled_inside, "cd"): {ONE: 1, FIVE: 2},
    (counted, "dots"): {ONE: 1, SIX: 1},
    (counted, "a"): {ONE: 1, SIX: 1},
}
ROWS = [pytest.param(f, p, kept, id=f"{f.__name__}-{p}") for (f, p), kept in KEPT.items()]


def kept_by(fun):
    leaves = pyjax.tree.leaves(pyjax.vjp(fun, point())[1])
    return Counter(",".join(map(str, leaf.shape)) for leaf in leaves)


@pytest.mark.parametrize("fun, policy, kept", ROWS)
def test_keeps_what_the_policy_says(fun, policy, kept):
    wrapped = pyjax.checkpoint(fun, policy=PER_POLICY[policy])
    assert kept_by(wrapped) == kept
    gradient = pyjax.grad(wrapped)(point())
    np.testing.assert_allclose(gradient, pyjax.grad(fun)(point()), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("fun", [scanned, switched, nested], ids=lambda f: f.__name__)
def test_compositions(fun):
    """Under jit and vmap, and of second derivatives."""
    wrapped = pyjax.checkpoint(fun, policy=NAMED("a"))
    xs = jnp.stack([point(), 0.5 * point()])
    expected = pyjax.vmap(pyjax.grad(fun))(xs)
    got = pyjax.jit(pyjax.vmap(pyjax.grad(wrapped)))(xs)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5)
    product = lambda f: pyjax.grad(lambda x: jnp.sum(pyjax.grad(f)(x) * jnp.cos(x)))
    want = product(fun)(point())
    got = pyjax.jit(product(wrapped))(point())
    scale = float(jnp.max(jnp.abs(want)))
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4 * scale)


def test_products_are_not_computed_again():
    """With every product of the body kept, the backward pass has those of derivatives only."""
    text = str(pyjax.make_jaxpr(pyjax.grad(pyjax.checkpoint(scanned, policy=PER_POLICY["dots"])))(
        point()
    ))  # fmt: skip
    plain = str(pyjax.make_jaxpr(pyjax.grad(scanned))(point()))
    assert text.count("dot_general[") == plain.count("dot_general[")
    nothing = str(pyjax.make_jaxpr(pyjax.grad(pyjax.checkpoint(scanned)))(point()))
    assert nothing.count("dot_general[") == plain.count("dot_general[") + 1
