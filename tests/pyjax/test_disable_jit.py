"""`disable_jit`: Python in bodies of loops, branches and rules sees values, and gets what compiled
programs compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.lax.control_flow.in_python import concrete_lanes

seen: list[Any] = []


def look(x):
    """What `print` or a debugger would see: the values, those of all lanes."""
    seen.append(concrete_lanes(x))
    return x


def scanned(x):
    return lax.scan(lambda c, a: (look(c) * a + 1, c), x, jnp.arange(3.0))


def looped(x):
    return lax.while_loop(lambda v: look(v) < 20, lambda v: look(v) * 2 + 1, x)


def counted(x):
    return lax.fori_loop(1, 4, lambda i, v: v + look(i) * x, x)


def counted_to(x):
    return lax.fori_loop(0, x.astype(int), lambda i, v: look(v) + i, 0)


def branched(x):
    return lax.cond(x > 1, lambda v: look(v) * 2, lambda v: look(v) - 1.0, x)


def switched(x):
    fs = [lambda v: look(v) * 2, lambda v: look(v) - 1, lambda v: v]
    return lax.switch(x.astype(int), fs, x)


def mapped(x):
    return lax.map(lambda v: look(v) + x, jnp.arange(2.0))


@pyjax.custom_jvp
def forward_rule(x):
    return look(x) ** 2


@forward_rule.defjvp
def _(primals, tangents):
    return forward_rule(*primals), 2 * look(primals[0]) * tangents[0]


@pyjax.custom_vjp
def backward_rule(x):
    return look(x) ** 2


backward_rule.defvjp(lambda x: (look(x) ** 2, x), lambda x, ct: (2 * look(x) * look(ct),))


@pyjax.checkpoint
def recomputed(x):
    return jnp.sin(look(x))


@pyjax.jit
def nested(x):
    return pyjax.jit(lambda y: look(y) + 1)(look(x))


LOOPS = [scanned, looped, counted, counted_to, branched, switched, mapped]
FUNCTIONS = [*LOOPS, forward_rule, backward_rule, recomputed, nested]


def outermost(f):
    return f


def gradient(f):
    return pyjax.grad(lambda x: sum(jnp.sum(y) for y in pyjax.tree.leaves(f(x))) * 1.0)


def lanes(f):
    return lambda x: pyjax.vmap(f)(x + jnp.arange(3.0))


def lanes_of_lanes(f):
    return lambda x: pyjax.vmap(pyjax.vmap(f), in_axes=1)(x + jnp.arange(6.0).reshape(2, 3))


def gradient_of_lanes(f):
    return gradient(lanes(f))


WRAPPERS = [outermost, pyjax.jit, gradient, lanes, lanes_of_lanes, gradient_of_lanes]


@pytest.mark.parametrize("wrap", WRAPPERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: getattr(f, "__name__", "f"))
def test_values_are_seen(f: Callable[..., Any], wrap: Callable[..., Any]) -> None:
    x = jnp.asarray(1.0)
    expected = pyjax.tree.leaves(wrap(f)(x))
    seen.clear()
    with pyjax.disable_jit():
        got = pyjax.tree.leaves(wrap(f)(x))
    assert seen and all(x is not None for x in seen)
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_only_lanes_that_run_change() -> None:
    with pyjax.disable_jit():
        f = pyjax.vmap(
            lambda n: lax.while_loop(lambda v: v[0] < n, lambda v: (v[0] + 1, -v[1]), (0, n))
        )
        counts, signs = f(jnp.arange(4))
        assert counts.tolist() == [0, 1, 2, 3] and signs.tolist() == [0, -1, 2, -3]
        f = pyjax.vmap(lambda n: lax.cond(n >= 0, lambda n: n, lambda n: 1 / 0, n))
        assert f(jnp.arange(3)).tolist() == [0, 1, 2]  # nobody takes the other branch
        with pytest.raises(TypeError, match="cond branches must have equal output types"):
            pyjax.vmap(lambda n: lax.cond(n > 1, lambda n: n, lambda n: n * 1.0, n))(jnp.arange(3))


def test_recording_goes_on() -> None:
    with pyjax.disable_jit():
        assert "scan" in str(pyjax.make_jaxpr(scanned)(1.0))
        assert "while" in str(pyjax.make_jaxpr(looped)(1.0))
        assert lax.fori_loop(3, 3, lambda i, v: v + i, 5) == 5
