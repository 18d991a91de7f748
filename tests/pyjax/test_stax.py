"""Layers of example_libraries.stax."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.example_libraries import optimizers, stax
from pyjax.example_libraries.stax import serial

KEY = pyjax.random.key(0)
LAYERS: list[tuple[Any, Any]] = [
    (serial(stax.Conv(4, (3, 3), padding="SAME"), stax.BatchNorm(), stax.Relu), (2, 8, 8, 3)),
    (serial(stax.MaxPool((2, 2), strides=(2, 2)), stax.Flatten, stax.Dense(5)), (2, 8, 8, 3)),
    (serial(stax.ConvTranspose(4, (3, 3), strides=(2, 2)), stax.AvgPool((3, 3))), (2, 4, 4, 3)),
    (serial(stax.Conv1DTranspose(4, (3,), padding="SAME"), stax.Gelu, stax.Elu), (2, 4, 3)),
    (stax.GeneralConv(("NCHW", "OIHW", "NCHW"), 4, (2, 2)), (2, 3, 5, 6)),
    (serial(stax.FanOut(2), stax.parallel(stax.Dense(3), stax.Dense(3)), stax.FanInSum), (2, 4)),
    (
        serial(stax.FanOut(2), stax.parallel(stax.Identity, stax.Dense(3)), stax.FanInConcat()),
        (2, 4),
    ),
    (serial(stax.shape_dependent(lambda s: stax.Dense(s[-1] + 1)), stax.Softmax), (2, 4)),
    (stax.SumPool((2, 2), padding="SAME", spec="NHWC"), (2, 5, 5, 3)),
    *(((layer), (2, 4)) for layer in (stax.Tanh, stax.Exp, stax.LogSoftmax, stax.Softplus)),
    *(((layer), (2, 4)) for layer in (stax.Sigmoid, stax.LeakyRelu, stax.Selu)),
]


@pytest.mark.parametrize("layer, shape", LAYERS)
def test_shapes_and_gradients(layer: Any, shape: Any) -> None:
    init, apply = layer
    out_shape, params = init(KEY, shape)
    x = pyjax.random.normal(KEY, shape)
    y = apply(params, x)
    assert y.shape == tuple(out_shape)
    unknown, _ = init(KEY, (-1, *shape[1:]))
    assert unknown == (-1, *out_shape[1:])
    slopes = pyjax.grad(lambda x, p: jnp.sum(apply(p, x) ** 2), 1)(x, params)
    for slope, value in zip(pyjax.tree.leaves(slopes), pyjax.tree.leaves(params), strict=True):
        assert slope.shape == value.shape
        assert bool(jnp.all(jnp.isfinite(slope)))


def test_values() -> None:
    _, params = stax.Dense(3)[0](KEY, (2, 4))
    x = pyjax.random.normal(KEY, (2, 4))
    np.testing.assert_allclose(stax.Dense(3)[1](params, x), x @ params[0] + params[1], rtol=1e-6)
    image = pyjax.random.normal(KEY, (2, 5, 5, 3)) + 3
    _, params = stax.BatchNorm()[0](KEY, image.shape)
    normal = stax.BatchNorm()[1](params, image)
    np.testing.assert_allclose(jnp.mean(normal, (0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(jnp.var(normal, (0, 1, 2)), 1, rtol=1e-3)
    mean = stax.AvgPool((2, 2), padding="SAME")[1]((), jnp.ones((1, 3, 3, 1)))
    np.testing.assert_array_equal(mean, jnp.ones((1, 3, 3, 1)))
    _, params = stax.Conv(2, (3, 3))[0](KEY, image.shape)
    expected = lax.conv_general_dilated(
        image, params[0], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    found = stax.Conv(2, (3, 3))[1](params, image)
    np.testing.assert_allclose(found, expected + params[1], rtol=1e-5, atol=1e-5)


def test_dropout() -> None:
    ones = jnp.ones((100, 100))
    found = stax.Dropout(0.25)[1]((), ones, rng=KEY)
    assert set(np.unique(found)) == {0.0, 4.0}
    assert float(jnp.mean(found)) == pytest.approx(1, abs=0.05)
    np.testing.assert_array_equal(stax.Dropout(0.25, mode="test")[1]((), ones, rng=KEY), ones)
    with pytest.raises(ValueError, match="PRNG key"):
        serial(stax.Dropout(0.5))[1]([()], ones)


def test_training() -> None:
    init, apply = serial(stax.Dense(16), stax.Tanh, stax.Dense(1))
    _, params = init(KEY, (-1, 2))
    x = pyjax.random.normal(KEY, (64, 2))
    y = jnp.prod(x, axis=1, keepdims=True)

    def loss(params: Any) -> Any:
        return jnp.mean((apply(params, x) - y) ** 2)

    start, update, get = optimizers.adam(0.03)
    state = start(params)
    before = float(loss(params))
    step = pyjax.jit(lambda i, state: update(i, pyjax.grad(loss)(get(state)), state))
    for i in range(150):
        state = step(i, state)
    assert float(loss(get(state))) < 0.1 * before
