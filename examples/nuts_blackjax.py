"""A linear regression with outliers by the No-U-Turn sampler: blackjax.

Hoffman and Gelman, "The No-U-Turn Sampler", 2014. Student-t noise keeps the outliers from bending
the line; step size and mass matrix are found by window adaptation.
"""

from __future__ import annotations

import argparse

import blackjax
import jax
import jax.numpy as jnp
import jax.scipy.stats as stats
from stopwatch import Stopwatch

WEIGHTS = jnp.array([1.5, -2.0, 0.5])


def data(key: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
    first, second, third = jax.random.split(key, 3)
    x = jax.random.normal(first, (size, len(WEIGHTS)))
    y = x @ WEIGHTS + 0.3 * jax.random.normal(second, (size,))
    return x, jnp.where(jax.random.bernoulli(third, 0.1, (size,)), y + 5, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--warmup", type=int, default=400)
    options = parser.parse_args()

    x, y = data(jax.random.key(0), 200)

    def log_density(at):
        prior = stats.norm.logpdf(at["weights"], 0, 10).sum() + stats.norm.logpdf(at["log_scale"])
        scale = jnp.exp(at["log_scale"])
        return prior + stats.t.logpdf(y, 3, x @ at["weights"], scale).sum()

    def sample(key: jax.Array):
        first, second = jax.random.split(key)
        start = {"weights": jnp.zeros(len(WEIGHTS)), "log_scale": jnp.zeros(())}
        adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, found), _ = adaptation.run(first, start, num_steps=options.warmup)
        kernel = blackjax.nuts(log_density, **found).step

        def one(state, key):
            state, info = kernel(key, state)
            return state, (state.position, info.acceptance_rate)

        _, drawn = jax.lax.scan(one, state, jax.random.split(second, options.samples))
        return drawn

    watch = Stopwatch()
    run = jax.jit(sample)
    for seed in range(3):
        positions, acceptance = watch.call(run, jax.random.key(seed))
    for true, mean, deviation in zip(
        WEIGHTS, positions["weights"].mean(0), positions["weights"].std(0)
    ):
        print(f"weight {true:5.2f}: {mean:.3f} +- {deviation:.3f}")
    error = jnp.abs(positions["weights"].mean(0) - WEIGHTS).max()
    watch.report(
        largest_error=float(error),
        scale=float(jnp.exp(positions["log_scale"]).mean()),
        acceptance=float(acceptance.mean()),
    )


if __name__ == "__main__":
    main()
