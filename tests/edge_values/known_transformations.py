"""Known differences of transformations and of functions with rules of their own."""

# ruff: noqa: E501 - the key of a case stays in one piece

from __future__ import annotations

from tests.edge_values.known_difference import Difference

TRANSFORMATIONS: tuple[Difference, ...] = (
    Difference(
        cases=(
            "vmap f(lambda y: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, y))(m) float32",
            "custom_derivatives.linear_call f(lambda r, y: r * y, *",
            "custom_derivatives.linear_call jax.grad(*",
            "custom_batching.sequential_vmap *",
            "custom_batching.custom_vmap (lambda g: (g.def_vmap(lambda n, b, y: (3 * y, b[0])), g(m))[1])*",
        ),
        modes="vjp",
        title="Reverse mode where JAX has none",
        reason="Loops with a condition, functions with a rule for vmap and, as operands that are not "
        "linear, those of `linear_call` have gradients.",
        example="custom_batching.sequential_vmap f(lambda y: jnp.sin(y) * y)(v) float32",
    ),
    Difference(
        cases=("custom_derivatives.linear_call jax.vmap(*",),
        modes="value",
        title="linear_call under vmap",
        reason="The function and its transpose are mapped; JAX raises NotImplementedError.",
        example="custom_derivatives.linear_call jax.vmap(lambda y: f(lambda r, d: r * d, lambda r, t: 2 * r * t, s, y))(m) float32",
    ),
    Difference(
        cases=("ref.swap (lambda r: (f(r, j, x[:5]), r[...]))(jax.new_ref(v)) *",),
        modes="vjp",
        title="Gradient of a swap with repeated indices",
        reason="An element that is read twice gets both cotangents; in JAX it gets the last one.",
        example="ref.swap (lambda r: (f(r, j, x[:5]), r[...]))(jax.new_ref(v)) float32",
    ),
)
