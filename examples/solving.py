"""Linear and nonlinear equations, least squares and their derivatives: lineax and optimistix."""

from __future__ import annotations

import argparse

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import optimistix as optx
from stopwatch import Stopwatch


def heat_equation(size: int) -> tuple[lx.AbstractLinearOperator, jax.Array]:
    """-u'' = f on [0, 1] with u = 0 at both ends; u = sin(pi x) solves it."""
    x = jnp.linspace(0, 1, size + 2)[1:-1]
    scale = (size + 1.0) ** 2
    diagonal, beside = jnp.full(size, 2 * scale), jnp.full(size - 1, -scale)
    operator = lx.TridiagonalLinearOperator(diagonal, beside, beside)
    return lx.TaggedLinearOperator(operator, lx.positive_semidefinite_tag), x


@eqx.filter_jit
def linear(size: int) -> dict[str, jax.Array]:
    operator, x = heat_equation(size)
    right = jnp.pi**2 * jnp.sin(jnp.pi * x)
    solvers = {
        "thomas": lx.Tridiagonal(),
        "cholesky": lx.Cholesky(),
        "conjugate gradients": lx.CG(rtol=1e-5, atol=1e-5),
    }
    return {
        name: jnp.abs(lx.linear_solve(operator, right, solver).value - jnp.sin(jnp.pi * x)).max()
        for name, solver in solvers.items()
    }


def chandrasekhar(h: jax.Array, c: jax.Array) -> jax.Array:
    """The H-equation of radiative transfer, by the midpoint rule; its solution makes this zero."""
    mu = (jnp.arange(len(h)) + 0.5) / len(h)
    kernel = mu[:, None] / (mu[:, None] + mu)
    return h - 1 / (1 - c / (2 * len(h)) * (kernel @ h))


@eqx.filter_jit
def nonlinear(c: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The mean of the solution and its derivative, by the implicit function theorem."""

    def mean(c):
        solver = optx.Newton(rtol=1e-5, atol=1e-5)
        return optx.root_find(chandrasekhar, solver, jnp.ones(100), c).value.mean()

    return jax.value_and_grad(mean)(c)


@eqx.filter_jit
def decay(t: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Height, rate and floor of a decay, by Levenberg-Marquardt."""

    def residual(at, _):
        return at["height"] * jnp.exp(-at["rate"] * t) + at["floor"] - y

    start = {"height": jnp.array(1.0), "rate": jnp.array(1.0), "floor": jnp.array(0.0)}
    solver = optx.LevenbergMarquardt(rtol=1e-5, atol=1e-5)
    found = optx.least_squares(residual, solver, start)
    return found.value, found.stats["num_steps"]


def all_of_them(size: int, c: jax.Array, t: jax.Array, y: jax.Array):
    return linear(size), nonlinear(c), decay(t, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=63)
    options = parser.parse_args()

    t = jnp.linspace(0, 4, 80)
    noise = 0.02 * jax.random.normal(jax.random.key(0), t.shape)
    y = 3 * jnp.exp(-1.7 * t) + 0.5 + noise

    watch = Stopwatch()
    for _ in range(10):
        errors, (mean, slope), (found, steps) = watch.call(
            all_of_them, options.size, jnp.array(0.9), t, y
        )
    for name, error in errors.items():
        print(f"{name}: largest error {error:.6f}")
    print({name: round(float(value), 4) for name, value in found.items()}, f"in {steps} steps")
    watch.report(
        linear_error=float(errors["thomas"]),
        mean_of_h=float(mean),
        slope_of_h=float(slope),
        rate=float(found["rate"]),
    )


if __name__ == "__main__":
    main()
