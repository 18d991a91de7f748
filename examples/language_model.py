"""A small transformer learns to write Shakespeare's letters: dm-haiku and optax.

The text is seven sonnets, `sonnets.txt`; the loss is the cross entropy of the next character, in
nats.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from stopwatch import Stopwatch

TEXT = Path(__file__).with_name("sonnets.txt").read_text()
ALPHABET = sorted(set(TEXT))
WINDOW = 64


class Block(hk.Module):
    """Causal attention and a dense layer, each behind a normalisation and beside a shortcut."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width

    def __call__(self, x: jax.Array) -> jax.Array:
        length, start = x.shape[1], hk.initializers.VarianceScaling(0.5)
        mask = jnp.tril(jnp.ones((1, 1, length, length), bool))
        attention = hk.MultiHeadAttention(self.heads, self.width // self.heads, w_init=start)
        y = hk.LayerNorm(-1, True, True)(x)
        x = x + attention(y, y, y, mask=mask)
        y = hk.LayerNorm(-1, True, True)(x)
        y = jax.nn.gelu(hk.Linear(4 * self.width, w_init=start)(y))
        return x + hk.Linear(self.width, w_init=start)(y)


def network(letters: jax.Array, width: int = 64, blocks: int = 2) -> jax.Array:
    """Logits of the next letter behind each: int32 (batch, length) to (batch, length, alphabet)."""
    place = hk.get_parameter("place", (WINDOW, width), init=hk.initializers.RandomNormal(0.02))
    x = hk.Embed(len(ALPHABET), width)(letters) + place[: letters.shape[1]]
    for _ in range(blocks):
        x = Block(4, width)(x)
    return hk.Linear(len(ALPHABET))(hk.LayerNorm(-1, True, True)(x))


model = hk.without_apply_rng(hk.transform(network))


def loss_of(params: hk.Params, letters: jax.Array) -> jax.Array:
    logits = model.apply(params, letters[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, letters[:, 1:]).mean()


@jax.jit
def write(params: hk.Params, start: jax.Array, key: jax.Array) -> jax.Array:
    """Letters that follow a window of them."""

    def one(window, key):
        logits = model.apply(params, window[None])[0, -1]
        letter = jax.random.categorical(key, logits / 0.7)
        return jnp.roll(window, -1).at[-1].set(letter), letter

    return jax.lax.scan(one, start, jax.random.split(key, 160))[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=16)
    options = parser.parse_args()

    text = np.array([ALPHABET.index(letter) for letter in TEXT], np.int32)
    params = model.init(jax.random.key(0), text[None, :WINDOW])
    print(f"{len(text)} letters, {hk.data_structures.tree_size(params)} parameters")
    schedule = optax.warmup_cosine_decay_schedule(0, 3e-3, options.steps // 10, options.steps)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))
    state = optimiser.init(params)

    @jax.jit
    def train_step(params, state, letters):
        loss, gradient = jax.value_and_grad(loss_of)(params, letters)
        updates, state = optimiser.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, loss

    watch = Stopwatch()
    order = np.random.default_rng(0)
    losses = []
    for step in range(options.steps):
        starts = order.integers(0, len(text) - WINDOW, options.batch)
        letters = text[starts[:, None] + np.arange(WINDOW + 1)]
        params, state, loss = watch.call(train_step, params, state, letters)
        losses.append(float(loss))
        if step % 50 == 0:
            print(f"step {step}: loss {losses[-1]:.4f}")
    written = write(params, text[:WINDOW], jax.random.key(1))
    print("".join(ALPHABET[letter] for letter in np.asarray(written)))
    watch.report(loss=float(np.mean(losses[-20:])))


if __name__ == "__main__":
    main()
