"""odeint against SciPy's integrators and numerical gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import pyjax
import pyjax.numpy as jnp
from pyjax.experimental import ode
from pyjax.experimental.ode import odeint

TIMES = np.array([0.0, 0.4, 1.1, 3.0])


def oscillator(y: Any, t: Any, a: Any, b: Any) -> Any:
    return {"x": y["v"], "v": -a * y["x"] - b * y["v"] + jnp.sin(t)}


START = {"x": np.array([1.0, 2.0]), "v": np.zeros(2)}


def reference(a: float, b: float, start: Any = START, times: Any = TIMES) -> np.ndarray:
    def f(t: float, y: np.ndarray) -> np.ndarray:
        x, v = y[:2], y[2:]
        return np.concatenate([v, -a * x - b * v + np.sin(t)])

    first = np.concatenate([start["x"], start["v"]])
    options = {"rtol": 1e-11, "atol": 1e-11, "method": "DOP853"}
    return solve_ivp(f, times[[0, -1]], first, t_eval=times, **options).y.T


def test_values() -> None:
    with pyjax.enable_x64(True):
        found = pyjax.jit(lambda a: odeint(oscillator, START, TIMES, a, 0.1))(2.0)
        expected = reference(2.0, 0.1)
        np.testing.assert_allclose(found["x"], expected[:, :2], rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(found["v"], expected[:, 2:], rtol=1e-6, atol=1e-7)
    single = odeint(oscillator, START, jnp.asarray(TIMES), 2.0, 0.1)
    assert single["x"].dtype == jnp.float32
    np.testing.assert_allclose(single["x"], expected[:, :2], rtol=1e-4, atol=1e-4)


def test_vmap_complex_and_stiff() -> None:
    mapped = pyjax.vmap(lambda a: odeint(oscillator, START, jnp.asarray(TIMES), a, 0.1)["x"][-1])
    expected = [reference(a, 0.1)[-1, :2] for a in (1.0, 3.0)]
    np.testing.assert_allclose(mapped(jnp.array([1.0, 3.0])), expected, rtol=1e-4, atol=1e-4)
    turning = odeint(lambda y, t: 1j * y, 1.0 + 0j, jnp.array([0.0, 3.0]))
    np.testing.assert_allclose(turning[1], np.exp(3j), rtol=1e-5)
    stiff = odeint(lambda y, t: -1000 * (y - jnp.cos(t)), 0.0, jnp.array([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(stiff[1:], np.cos([1.0, 2.0]), atol=2e-3)


def test_gradients() -> None:
    with pyjax.enable_x64(True):

        def loss(start: Any, times: Any, a: Any, b: Any) -> Any:
            return jnp.sum(odeint(oscillator, start, times, a, b)["x"] ** 2)

        by_start, by_times, by_a, by_b = pyjax.grad(loss, (0, 1, 2, 3))(START, TIMES, 2.0, 0.1)
        h = 1e-5

        def change(**moved: Any) -> float:
            sides = []
            for sign in (1, -1):
                args = {"a": 2.0, "b": 0.1, "start": START, "times": TIMES}
                for key, (index, leaf) in moved.items():
                    if key == "start":
                        x = args["start"][leaf].copy()
                        x[index] += sign * h
                        args["start"] = args["start"] | {leaf: x}
                    elif key == "times":
                        x = TIMES.copy()
                        x[index] += sign * h
                        args["times"] = x
                    else:
                        args[key] = args[key] + sign * h
                sides.append(np.sum(reference(**args)[:, :2] ** 2))
            return (sides[0] - sides[1]) / (2 * h)

        np.testing.assert_allclose(by_a, change(a=(0, "")), rtol=1e-4)
        np.testing.assert_allclose(by_b, change(b=(0, "")), rtol=1e-4)
        np.testing.assert_allclose(by_start["x"][1], change(start=(1, "x")), rtol=1e-4)
        np.testing.assert_allclose(by_start["v"][0], change(start=(0, "v")), rtol=1e-4)
        np.testing.assert_allclose(by_times[3], change(times=(3, "")), rtol=1e-3)
        np.testing.assert_allclose(by_times[0], change(times=(0, "")), rtol=1e-3)


def test_the_first_result_does_not_depend_on_the_first_time() -> None:
    def total(times: Any) -> Any:
        return odeint(lambda y, t: -y, 2.5, times).sum()

    # Of 2.5 (1 + exp(a - b)).
    slope = 2.5 * np.exp(-0.7)
    np.testing.assert_allclose(pyjax.grad(total)(jnp.array([0.3, 1.0])), [slope, -slope], rtol=1e-4)


def test_what_the_function_closes_over() -> None:
    def last(c: Any) -> Any:
        return odeint(lambda y, t: -c * y, 1.0, jnp.array([0.0, 1.0]))[1]

    assert float(pyjax.grad(last)(3.0)) == pytest.approx(-np.exp(-3.0), rel=1e-4)


def test_limits_of_steps() -> None:
    calls = []

    def f(y: Any, t: Any) -> Any:
        pyjax.debug.callback(lambda t: calls.append(float(t)), t)
        return -y

    odeint(f, 1.0, jnp.array([0.0, 1.0]), hmax=0.05).block_until_ready()
    pyjax.effects_barrier()
    assert np.max(np.diff(np.unique(np.round(calls, 5)))) <= 0.0501
    assert not np.isclose(odeint(lambda y, t: y, 1.0, jnp.array([0.0, 9.0]), mxstep=1)[1], np.e**9)


def test_the_quartic_and_the_step() -> None:
    ends = map(jnp.asarray, (1.0, 3.0, 2.5, 0.5, -1.0, 2.0))
    quartic = jnp.stack(ode.fit_4th_order_polynomial(*ends))
    at = [float(jnp.polyval(quartic, x)) for x in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(at, [1.0, 2.5, 3.0])
    slopes = np.polyval(np.polyder(np.asarray(quartic)), [0, 1])
    np.testing.assert_allclose(slopes, [1.0, -2.0], rtol=1e-6)
    step = ode.optimal_step_size(jnp.array([1.0, 1.0, 1.0]), jnp.array([0.0, 1e9, 1.0]))
    np.testing.assert_allclose(step, [10.0, 0.2, 0.9], rtol=1e-6)


ERRORS = [
    (lambda: odeint(lambda y, t: y, 1.0, jnp.arange(3)), "array of floats"),
    (lambda: odeint(lambda y, t, s: y, 1.0, jnp.ones(3), "s"), "arrays or scalars"),
]


@pytest.mark.parametrize("call, message", ERRORS)
def test_errors(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_integers_and_times_that_fall():
    with pytest.raises(TypeError, match="y0 must hold floating numbers, but got int32"):
        odeint(lambda y, t: -y, 1, jnp.array([0.0, 1.0]))
    times = jnp.array([0.0, 1.0, 1.0, 0.5, 2.0])
    for integrate in (odeint, pyjax.jit(odeint, static_argnums=0)):
        got = integrate(lambda y, t: -y, 1.0, times)
        np.testing.assert_allclose(got, [1, np.exp(-1), np.exp(-1), np.nan, np.nan], rtol=1e-5)


def test_gradients_around_arguments_without_derivative() -> None:
    times = jnp.linspace(0.0, 1.0, 3)
    decay = np.exp(-3 * np.asarray(times))

    def total(y: Any, rates: Any) -> Any:
        return odeint(lambda y, t, r: -y * r["a"] * r["n"], y, times, rates).sum()

    rates = {"a": 1.0, "n": jnp.array(3)}
    np.testing.assert_allclose(pyjax.grad(total)(1.0, rates), decay.sum(), rtol=1e-5)
    slopes = pyjax.grad(total, 1, allow_int=True)(1.0, rates)
    np.testing.assert_allclose(slopes["a"], (-3 * times * decay).sum(), rtol=1e-4)
    assert slopes["n"].dtype == pyjax.dtypes.float0

    def closed(y: Any, n: Any, key: Any) -> Any:
        shift = lambda y, t: -n * y + 0 * pyjax.random.normal(key)
        return odeint(shift, y, times).sum()

    found = pyjax.jit(pyjax.grad(closed))(1.0, 3, pyjax.random.key(0))
    np.testing.assert_allclose(found, decay.sum(), rtol=1e-5)
