"""The options about memory change how much a gradient's program needs at its peak."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp

ROWS, WIDTH, LAYERS = 128, 64, 6
WEIGHTS = np.random.default_rng(0).normal(size=(LAYERS, WIDTH, WIDTH)).astype(np.float32) / 8
INPUT = np.ones((ROWS, WIDTH), np.float32)


def gradients(weights: Any, x: Any) -> Any:
    """Of layers whose derivatives read more than their inputs, if nothing is computed again."""

    def loss(weights: Any) -> Any:
        y = x
        for i in range(LAYERS):
            y = jnp.sin(jnp.exp(jnp.cos(y)) * y) @ weights[i]
        return (y * y).sum()

    return pyjax.grad(loss)(weights)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    names = (
        "jax_memory_fitting_level", "jax_memory_fitting_effort", "jax_compiler_enable_remat_pass",
        "jax_cpu_memory_limit",
    )  # fmt: skip
    before = {name: pyjax.config.read(name) for name in names}
    yield
    for name, value in before.items():
        pyjax.config.update(name, value)


def peak(**options: Any) -> int:
    """Bytes of temporaries under these options; the values must not change."""
    for name, value in options.items():
        pyjax.config.update(f"jax_{name}", value)
    plain = np.asarray(gradients(WEIGHTS, INPUT))
    compiled = pyjax.jit(gradients).lower(WEIGHTS, INPUT).compile()
    np.testing.assert_allclose(compiled(WEIGHTS, INPUT), plain, rtol=1e-4, atol=1e-5)
    return int(compiled.memory_analysis().temp_size_in_bytes)


def test_the_highest_level_lowers_the_peak() -> None:
    plain = peak()
    assert peak(memory_fitting_level="O1") == plain
    assert peak(memory_fitting_level="O3") < 0.6 * plain


def test_effort_moves_the_level() -> None:
    assert peak(memory_fitting_effort=0.5) < 0.6 * peak(memory_fitting_effort=0.0)


def test_without_the_pass_nothing_is_computed_again() -> None:
    plain = peak(compiler_enable_remat_pass=False)
    low = peak(memory_fitting_level="O3", compiler_enable_remat_pass=True)
    assert low < 0.75 * peak(compiler_enable_remat_pass=False)
    assert low < 0.6 * plain


def test_programs_are_fitted_to_the_memory_there_is() -> None:
    def step(weights: Any, x: Any) -> Any:
        kept = [jnp.sin(x * w[0, 0]) for w in weights]
        y = x
        for i, a in enumerate(kept):
            y = jnp.tanh(y @ weights[i]) @ a.T @ a
        for i, a in enumerate(reversed(kept)):
            y = y @ weights[i] @ a.T @ a
        return y

    def temporaries() -> int:
        compiled = pyjax.jit(step).lower(WEIGHTS, INPUT).compile()
        return int(compiled.memory_analysis().temp_size_in_bytes)

    plain = temporaries()
    fixed = WEIGHTS.nbytes + 2 * INPUT.nbytes
    pyjax.config.update("jax_cpu_memory_limit", fixed + plain)
    assert temporaries() == plain
    pyjax.config.update("jax_cpu_memory_limit", fixed + plain - 2 * INPUT.nbytes)
    assert temporaries() <= plain - 2 * INPUT.nbytes
    pyjax.config.update("jax_memory_fitting_level", "O1")
    assert temporaries() == plain
