"""Regression with a Gaussian process: its marginal likelihood is maximised by jaxopt's L-BFGS.

Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, algorithm 2.1.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import jaxopt
from jax.scipy.linalg import cho_solve, solve_triangular
from stopwatch import Stopwatch

TRUE_NOISE = 0.1


def curve(x: jax.Array) -> jax.Array:
    return jnp.sin(3 * x) + 0.3 * x


def covariance(at: dict, x1: jax.Array, x2: jax.Array) -> jax.Array:
    distance = (x1[:, None] - x2) / jnp.exp(at["log_length"])
    return jnp.exp(2 * at["log_height"] - 0.5 * distance**2)


def factor(at: dict, x: jax.Array) -> jax.Array:
    noise = jnp.exp(2 * at["log_noise"]) + 1e-5
    return jnp.linalg.cholesky(covariance(at, x, x) + noise * jnp.eye(len(x)))


def negative_log_likelihood(at: dict, x: jax.Array, y: jax.Array) -> jax.Array:
    lower = factor(at, x)
    half = solve_triangular(lower, y, lower=True)
    log_determinant = 2 * jnp.log(jnp.diagonal(lower)).sum()
    return 0.5 * (half @ half + log_determinant + len(x) * jnp.log(2 * jnp.pi))


@jax.jit
def predict(at: dict, x: jax.Array, y: jax.Array, new: jax.Array) -> tuple[jax.Array, jax.Array]:
    lower = factor(at, x)
    across = covariance(at, x, new)
    mean = across.T @ cho_solve((lower, True), y)
    spread = solve_triangular(lower, across, lower=True)
    return mean, jnp.exp(2 * at["log_height"]) - jnp.sum(spread**2, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=150)
    options = parser.parse_args()

    watch = Stopwatch()
    solver = jaxopt.LBFGS(negative_log_likelihood, maxiter=60, tol=1e-3)
    fit = jax.jit(lambda start, x, y: solver.run(start, x=x, y=y))
    for seed in range(3):
        first, second = jax.random.split(jax.random.key(seed))
        x = jnp.sort(jax.random.uniform(first, (options.points,), minval=-3, maxval=3))
        y = curve(x) + TRUE_NOISE * jax.random.normal(second, x.shape)
        start = {name: jnp.zeros(()) for name in ("log_length", "log_height", "log_noise")}
        at, state = watch.call(fit, start, x, y)
        print(f"data {seed}: {state.iter_num} iterations, noise {jnp.exp(at['log_noise']):.4f}")
    new = jnp.linspace(-2.5, 2.5, 101)
    mean, variance = predict(at, x, y, new)
    watch.report(
        loss=float(state.value),
        noise=float(jnp.exp(at["log_noise"])),
        largest_error=float(jnp.abs(mean - curve(new)).max()),
        largest_deviation=float(jnp.sqrt(variance).max()),
    )


if __name__ == "__main__":
    main()
