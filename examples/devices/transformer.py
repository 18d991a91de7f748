"""A small transformer that learns the letters of seven sonnets: what two programs here train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from several import normal

WIDTH, HEADS, HIDDEN, LENGTH = 64, 8, 256, 32
LETTERS = 128


def initial(layers: int) -> dict[str, Any]:
    """Weights; those of layers have the layer as first dimension."""
    inside = WIDTH**-0.5
    part = WIDTH // HEADS
    return {
        "embed": normal((LETTERS, WIDTH), 0, 0.3),
        "place": normal((LENGTH, WIDTH), 1, 0.3),
        "layers": {
            "qkv": normal((layers, 3, WIDTH, HEADS, part), 2, inside),
            "out": normal((layers, HEADS, part, WIDTH), 3, inside / 2),
            "up": normal((layers, WIDTH, HIDDEN), 4, inside),
            "down": normal((layers, HIDDEN, WIDTH), 5, HIDDEN**-0.5 / 2),
        },
        "unembed": normal((WIDTH, LETTERS), 6, inside),
    }


def normalised(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def layer(w: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """One layer, of x[batch, place, width]."""
    q, k, v = jnp.einsum("btd,cdhe->cbhte", normalised(x), w["qkv"])
    scores = jnp.einsum("bhte,bhse->bhts", q, k) * (WIDTH // HEADS) ** -0.5
    scores = jnp.where(jnp.tri(x.shape[1], dtype=bool), scores, -1e9)
    mixed = jnp.einsum("bhts,bhse->bhte", jax.nn.softmax(scores), v)
    x = x + jnp.einsum("bhte,hed->btd", mixed, w["out"])
    return x + jax.nn.gelu(normalised(x) @ w["up"]) @ w["down"]


def embedded(weights: dict[str, Any], letters: jax.Array) -> jax.Array:
    chosen = jax.nn.one_hot(letters, LETTERS) @ weights["embed"]
    return chosen + weights["place"]


def loss_from(weights: dict[str, Any], x: jax.Array, following: jax.Array) -> jax.Array:
    """From what the last layer gives."""
    scores = jax.nn.log_softmax(normalised(x) @ weights["unembed"])
    return -jnp.mean(jnp.sum(scores * jax.nn.one_hot(following, LETTERS), -1))


class Sonnets:
    """Batches of letters, the same in every process."""

    def __init__(self) -> None:
        text = Path(__file__).parent.parent.joinpath("sonnets.txt").read_text(encoding="ascii")
        self._letters = np.frombuffer(text.encode(), np.uint8).astype(np.int32)
        self._order = np.random.default_rng(0)

    def batch(self, rows: int) -> np.ndarray:
        """`rows` stretches of one letter more than the transformer takes."""
        starts = self._order.integers(len(self._letters) - LENGTH - 1, size=rows)
        return self._letters[starts[:, None] + np.arange(LENGTH + 1)]
