"""A neural differential equation learns damped swings: diffrax, equinox and optax.

Chen et al., "Neural Ordinary Differential Equations", 2018. The data are solutions of
x'' = -x - x'/5 - x^3/2 from many places, solved with diffrax, too; the network sees them at 24
times and learns the right-hand side. Gradients go through the adaptive solver.
"""

from __future__ import annotations

import argparse

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from stopwatch import Stopwatch


def pendulum(t, y, args):
    x, v = y
    return jnp.stack([v, -x - v / 5 - x**3 / 2])


class Field(eqx.Module):
    """A vector field in the plane."""

    network: eqx.nn.MLP

    def __init__(self, width: int, key: jax.Array) -> None:
        self.network = eqx.nn.MLP(2, 2, width, 2, jnp.tanh, key=key)

    def __call__(self, t, y, args):
        return self.network(y)


def solve(field, times: jax.Array, start: jax.Array, tolerance: float) -> jax.Array:
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        t0=times[0],
        t1=times[-1],
        dt0=0.05,
        y0=start,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance),
        max_steps=256,
    )
    return solution.ys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--curves", type=int, default=64)
    options = parser.parse_args()

    times = jnp.linspace(0.0, 4.0, 24)
    starts = jax.random.uniform(jax.random.key(0), (options.curves, 2), minval=-2, maxval=2)
    curves = jax.jit(jax.vmap(lambda y: solve(pendulum, times, y, 1e-5)))(starts)

    field = Field(32, jax.random.key(1))
    optimiser = optax.adabelief(5e-3)
    state = optimiser.init(eqx.filter(field, eqx.is_inexact_array))

    @eqx.filter_value_and_grad
    def loss_of(field, curves):
        solved = jax.vmap(lambda y: solve(field, times, y, 1e-3))(curves[:, 0])
        return jnp.mean((solved - curves) ** 2)

    @eqx.filter_jit
    def train_step(field, state, curves):
        loss, gradient = loss_of(field, curves)
        updates, state = optimiser.update(gradient, state, field)
        return eqx.apply_updates(field, updates), state, loss

    watch = Stopwatch()
    order = np.random.default_rng(0)
    losses = []
    for step in range(options.steps):
        batch = curves[order.choice(options.curves, options.curves // 2, replace=False)]
        field, state, loss = watch.call(train_step, field, state, batch)
        losses.append(float(loss))
        if step % 50 == 0:
            print(f"step {step}: loss {losses[-1]:.6f}")
    watch.report(loss=float(np.mean(losses[-10:])))


if __name__ == "__main__":
    main()
