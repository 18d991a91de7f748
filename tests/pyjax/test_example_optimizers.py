"""`pyjax.example_libraries.optimizers`: parameters after three steps are JAX's; schedules, states,
what is refused.
"""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax.example_libraries import optimizers

A = np.array([1.0, 2.0, 0.0], np.float32)
B = np.ones((2, 2), np.float32)

# Arguments, and the parameters that JAX reaches.
STEPS = {
    "sgd": ((0.1,), [0.55, 0.95, 0.15], [1.0, 0.7, 0.4, 0.1]),
    "momentum": ((0.1, 0.9), [0.3295, 0.3785, 0.2805], [1.0, 0.439, -0.122, -0.683]),
    "nesterov": (
        (0.1, 0.9),
        [-0.05345005, -0.50934994, 0.4024500],
        [1.0, 0.19510004, -0.60979998, -1.4146999],
    ),
    "adagrad": ((0.1,), [0.94642347, 1.9472145, 0.04630853], [1.0] + [0.95369148] * 3),
    "rmsprop": ((0.1,), [0.11073831, 1.125898, 0.73773813], [1.0] + [0.26226181] * 3),
    "rmsprop_momentum": ((0.1,), [-0.70137131, 0.32150185, 1.4849616], [1.0] + [-0.48496172] * 3),
    "adam": ((0.1,), [0.71631992, 1.7109941, 0.299997], [1.0] + [0.70000297] * 3),
    "adamax": ((0.1,), [0.76877457, 1.7608818, 0.29999992], [1.0] + [0.70000011] * 3),
    "sm3": ((0.1,), [0.94642347, 1.9472145, 0.04630853], [1.0] + [0.95369148] * 3),
}


def gradients(step):
    return {"a": A * (step + 1) - 0.5, "b": np.arange(4, dtype=np.float32).reshape(2, 2)}


@pytest.mark.parametrize("name", STEPS)
def test_three_steps(name):
    args, a, b = STEPS[name]
    init, update, params = getattr(optimizers, name)(*args)
    state = init({"a": A, "b": B})
    for step in range(3):
        state = update(step, gradients(step), state)
    np.testing.assert_allclose(params(state)["a"], a, rtol=2e-6, atol=2e-7)
    np.testing.assert_allclose(params(state)["b"].ravel(), b, rtol=2e-6, atol=2e-7)


def test_sm3_keeps_sums_for_each_axis():
    init, update, _ = optimizers.sm3(0.1)
    g = np.array([[3.0, 1.0], [2.0, 4.0]], np.float32)
    state = init({"b": B})
    for step in range(2):
        state = update(step, {"b": g}, state)
    *_, rows, columns = state.packed_state[0]
    # After one step rows have [9, 16] and columns [9, 16]; the smaller one bounds each element.
    assert rows.tolist() == [18.0, 32.0] and columns.tolist() == [18.0, 32.0]


def test_a_jitted_loop_trains():
    target = jnp.array([1.0, -2.0, 3.0])

    def loss(p):
        return jnp.sum((p - target) ** 2)

    init, update, params = optimizers.adam(optimizers.exponential_decay(0.3, 50, 0.5))

    @pyjax.jit
    def trained(p):
        def step(i, state):
            return update(i, pyjax.grad(loss)(params(state)), state)

        return params(pyjax.lax.fori_loop(0, 200, step, init(p)))

    assert loss(trained(jnp.zeros(3))) < 1e-4


SCHEDULES = {
    "constant": (optimizers.constant(0.1), 0.1),
    "number": (optimizers.make_schedule(jnp.float32(0.1)), 0.1),
    "function": (optimizers.make_schedule(lambda step: step * 2), 10),
    "exponential": (optimizers.exponential_decay(0.1, 10, 0.5), 0.1 * 0.5**0.5),
    "inverse": (optimizers.inverse_time_decay(0.1, 10, 0.5), 0.1 / 1.25),
    "staircase": (optimizers.inverse_time_decay(0.1, 2, 0.5, staircase=True), 0.05),
    "polynomial": (optimizers.polynomial_decay(0.1, 10, 0.01, 2.0), 0.25 * 0.09 + 0.01),
    "polynomial at its end": (optimizers.polynomial_decay(0.1, 3, 0.01), 0.01),
    "piecewise": (optimizers.piecewise_constant([3, 6], [0.1, 0.2, 0.3]), 0.2),
    "piecewise at a boundary": (optimizers.piecewise_constant([4, 5], [0.1, 0.2, 0.3]), 0.2),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_at_step_5(name):
    schedule, expected = SCHEDULES[name]
    np.testing.assert_allclose(schedule(5), expected, rtol=1e-6)
    np.testing.assert_allclose(pyjax.jit(schedule)(5), expected, rtol=1e-6)


def test_states_are_unpacked_and_packed():
    init, _, params = optimizers.adam(0.1)
    state = init({"a": A, "b": [B]})
    tree = optimizers.unpack_optimizer_state(state)
    assert isinstance(tree["a"], optimizers.JoinPoint) and len(tree["a"].subtree) == 3
    packed = optimizers.pack_optimizer_state(tree)
    assert packed.tree_def == state.tree_def and packed.subtree_defs == state.subtree_defs
    np.testing.assert_array_equal(params(packed)["b"][0], B)
    with pytest.raises(TypeError, match="is a JoinPoint"):
        optimizers.pack_optimizer_state({"a": A})


def test_norms():
    tree = [np.float32(3.0), np.array([[4.0]], np.float32)]
    assert optimizers.l2_norm(tree) == 5
    clipped = optimizers.clip_grads(tree, 1.0)
    np.testing.assert_allclose([float(clipped[0]), clipped[1].item()], [0.6, 0.8], rtol=1e-6)
    assert optimizers.clip_grads(tree, 6.0)[0] == 3


def test_refused():
    init, update, _ = optimizers.sgd(0.1)
    with pytest.raises(TypeError, match="its parameters have the structure"):
        update(0, {"b": A}, init({"a": A}))
    growing = optimizers.optimizer(lambda: (lambda x: x, lambda i, g, x: (x, x), lambda x: x))()
    with pytest.raises(TypeError, match="returned a state of the structure"):
        growing.update_fn(0, A, growing.init_fn(A))
    for wrong in ("fast", jnp.arange(2.0)):
        with pytest.raises(TypeError, match="a number, or a function"):
            optimizers.make_schedule(wrong)
    with pytest.raises(ValueError, match="one shorter"):
        optimizers.piecewise_constant([1], [1.0])
    with pytest.raises(ValueError, match="sequences"):
        optimizers.piecewise_constant(1, [1.0])
