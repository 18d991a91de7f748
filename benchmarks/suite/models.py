"""Layers and training steps of machine learning."""

from __future__ import annotations

from typing import Any

from benchmarks import programs
from benchmarks.suite.package import (
    Made,
    add_all,
    add_made,
    integers,
    jax,
    jnp,
    lax,
    normal,
    program,
)

add_made(
    "models",
    [
        ("MLP step, 64-128-128-10, batch 256", programs.mlp_step),
        ("transformer step, two blocks of 256, 8×128 tokens", programs.gpt_step),
        ("LSTM gradient, 100 steps, 128 wide, batch 32", programs.lstm_gradient),
    ],
)

add_all(
    "models",
    [
        ("softmax of rows, 4000×1000", jax.nn.softmax, [(4000, 1000)]),
        (
            "softmax of scores that are masked, 64×64×128",
            lambda x, m: jax.nn.softmax(jnp.where(m > 0, x, -1e9)),
            [(64, 64, 128), (64, 128)],
        ),
        ("softmax over axis 0, 4000×1000", lambda x: jax.nn.softmax(x, 0), [(4000, 1000)]),
        (
            "layer norm, 4096×768",
            lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5),
            [(4096, 768)],
        ),
        ("attention, 2×512×8×64", jax.nn.dot_product_attention, [(2, 512, 8, 64)] * 3),
        (
            "dense layer with gelu, 512×512×2048",
            lambda x, w, b: jax.nn.gelu(x @ w + b),
            [(512, 512), (512, 2048), (2048,)],
        ),
    ],
    tolerance=1e-3,
)


@program("models", "Adam step of 1M parameters")
def _adam() -> Made:
    def step(p: Any, g: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return p - 1e-3 * (m / 0.1) / (jnp.sqrt(v / 0.001) + 1e-8), m, v

    return step, (*(normal(1_000_000, seed=i) for i in range(3)), normal(1_000_000) ** 2)


@program("models", "embedding and its gradient, 10,000×128, 2,048 tokens")
def _embedding() -> Made:
    loss = lambda table, tokens: (table[tokens] ** 2).sum()
    return jax.grad(loss), (normal(10_000, 128), integers(10_000, 2048))


@program("models", "convolutional network step, 16×28×28", tolerance=1e-3)
def _cnn() -> Made:
    layout = ("NHWC", "HWIO", "NHWC")

    def loss(params: Any, x: Any, y: Any) -> Any:
        for w in params[:2]:
            x = jax.nn.relu(
                lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=layout)
            )
        scores = x.reshape(x.shape[0], -1) @ params[2]
        chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), y[:, None], 1)
        return -chosen.mean()

    params = [normal(3, 3, 1, 16) * 0.3, normal(3, 3, 16, 32) * 0.1, normal(7 * 7 * 32, 10) * 0.02]
    step = lambda p, x, y: jax.tree.map(lambda a, g: a - 0.1 * g, p, jax.grad(loss)(p, x, y))
    return step, (params, normal(16, 28, 28, 1), integers(10, 16))


@program("models", "Hessian of a small network", tolerance=1e-3)
def _hessian() -> Made:
    def loss(w: Any, x: Any) -> Any:
        return (jnp.tanh(x @ w.reshape(8, 8)) ** 2).mean()

    return jax.hessian(loss), (normal(64), normal(100, 8))


@program("models", "per-example gradients, 256 of 64×64", tolerance=1e-3)
def _per_example() -> Made:
    loss = lambda w, x: (jnp.tanh(w @ x) ** 2).sum()
    return jax.vmap(jax.grad(loss), (None, 0)), (normal(64, 64) * 0.1, normal(256, 64))
