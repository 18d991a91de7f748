"""A normalising flow learns the density of two half moons: distrax, dm-haiku and optax.

Durkan et al., "Neural Spline Flows", 2019: coupling layers of rational-quadratic splines. The loss
is the negative log-likelihood, in nats for each point.
"""

from __future__ import annotations

import argparse

import distrax
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from stopwatch import Stopwatch

LAYERS, BINS = 4, 8


def two_moons(order: np.random.Generator, size: int) -> np.ndarray:
    """Points of two interleaved half circles, with noise: float32 (size, 2)."""
    angle, upper = np.pi * order.random(size), order.random(size) < 0.5
    x = np.where(upper, np.cos(angle), 1 - np.cos(angle)) - 0.5
    y = np.where(upper, np.sin(angle), 0.5 - np.sin(angle)) - 0.25
    points = np.stack([x, y], 1) + 0.05 * order.normal(size=(size, 2))
    return points.astype(np.float32)


def flow() -> distrax.Distribution:
    count = 3 * BINS + 1  # widths, heights and slopes of a spline

    def conditioner() -> hk.Sequential:
        hidden = hk.nets.MLP([64, 64], activate_final=True)
        last = hk.Linear(2 * count, w_init=jnp.zeros)
        return hk.Sequential([hidden, last, lambda x: x.reshape(*x.shape[:-1], 2, count)])

    def spline(params: jax.Array) -> distrax.Bijector:
        return distrax.RationalQuadraticSpline(params, range_min=-3.0, range_max=3.0)

    layers = [
        distrax.MaskedCoupling(jnp.arange(2) % 2 == i % 2, conditioner(), spline)
        for i in range(LAYERS)
    ]
    base = distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2))
    return distrax.Transformed(base, distrax.Inverse(distrax.Chain(layers)))


log_density = hk.without_apply_rng(hk.transform(lambda x: flow().log_prob(x)))
samples = hk.transform(lambda n: flow().sample(seed=hk.next_rng_key(), sample_shape=n))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()

    order = np.random.default_rng(0)
    params = log_density.init(jax.random.key(0), two_moons(order, 2))
    optimiser = optax.chain(optax.clip_by_global_norm(5.0), optax.adam(2e-3))
    state = optimiser.init(params)

    @jax.jit
    def train_step(params, state, points):
        loss_of = lambda params: -log_density.apply(params, points).mean()
        loss, gradient = jax.value_and_grad(loss_of)(params)
        updates, state = optimiser.update(gradient, state)
        return optax.apply_updates(params, updates), state, loss

    watch = Stopwatch()
    losses = []
    for step in range(options.steps):
        points = two_moons(order, options.batch)
        params, state, loss = watch.call(train_step, params, state, points)
        losses.append(float(loss))
        if step % 100 == 0:
            print(f"step {step}: loss {losses[-1]:.4f}")
    drawn = jax.jit(samples.apply, static_argnums=2)(params, jax.random.key(1), (2000,))
    watch.report(
        loss=float(np.mean(losses[-20:])),
        height_of_samples=float(drawn[:, 1].std()),
        height_of_moons=float(two_moons(order, 2000)[:, 1].std()),
    )


if __name__ == "__main__":
    main()
