"""A program of many small arrays: an ODE solver with step control, differentiated in three ways."""

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax


def _step(f, y, h):
    """Bogacki and Shampine's method of order 3, and an estimate of its error."""
    k1 = f(y)
    k2 = f(y + h * k1 / 2)
    k3 = f(y + 3 * h * k2 / 4)
    new = y + h * (2 * k1 + 3 * k2 + 4 * k3) / 9
    return new, jnp.max(jnp.abs(h * (-5 / 72 * k1 + k2 / 12 + k3 / 9 - f(new) / 8)))


def _solve(stiffness, steps):
    """Van der Pol's oscillator: time, state, step size, steps and error."""

    def f(y):
        return jnp.array([y[1], stiffness * (1 - y[0] ** 2) * y[1] - y[0]])

    def body(carry):
        t, y, h, n, _ = carry
        h = jnp.minimum(h, 5 - t)
        new, error = _step(f, y, h)
        good = error < 1e-4
        factor = jnp.clip(0.9 * (1e-4 / (error + 1e-12)) ** (1 / 3), 0.2, 5.0)
        return jnp.where(good, t + h, t), jnp.where(good, new, y), h * factor, n + 1, error

    start = (0.0, jnp.array([2.0, 0.0]), 0.1, 0, 0.0)
    return lax.while_loop(lambda c: (c[0] < 5) & (c[3] < steps), body, start)


@pytest.mark.parametrize(
    "steps", [2, pytest.param(3, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_tangents_of_lanes_are_those_of_one_call(steps, lanes):
    def tangent(t):
        return pyjax.jvp(lambda s: _solve(s, steps), (1.0,), (t,))[1][:3]

    want = tangent(1.0)
    got = pyjax.jit(pyjax.vmap(tangent))(jnp.ones(lanes))
    for one, many in zip(want, got):
        for lane in many:
            np.testing.assert_allclose(lane, one, rtol=2e-3, atol=1e-6)
