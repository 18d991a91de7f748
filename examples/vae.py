"""A variational autoencoder of handwritten digits: equinox and optax.

Kingma and Welling, "Auto-Encoding Variational Bayes", 2014: the loss is the negative evidence lower
bound, in nats for each image, of Bernoulli pixels under a normal latent variable.
"""

from __future__ import annotations

import argparse

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits
from stopwatch import Stopwatch

PIXELS = 64


class Autoencoder(eqx.Module):
    encoder: eqx.nn.MLP
    decoder: eqx.nn.MLP
    latent: int = eqx.field(static=True)

    def __init__(self, latent: int, width: int, key: jax.Array) -> None:
        first, second = jax.random.split(key)
        self.latent = latent
        self.encoder = eqx.nn.MLP(PIXELS, 2 * latent, width, 2, jax.nn.gelu, key=first)
        self.decoder = eqx.nn.MLP(latent, PIXELS, width, 2, jax.nn.gelu, key=second)

    def __call__(self, image: jax.Array, key: jax.Array) -> jax.Array:
        """The negative evidence lower bound of one image, from one sample."""
        mean, log_variance = jnp.split(self.encoder(image), 2)
        z = mean + jnp.exp(log_variance / 2) * jax.random.normal(key, mean.shape)
        logits = self.decoder(z)
        reconstruction = optax.sigmoid_binary_cross_entropy(logits, image).sum()
        divergence = 0.5 * jnp.sum(jnp.exp(log_variance) + mean**2 - 1 - log_variance)
        return reconstruction + divergence


@eqx.filter_value_and_grad
def loss_of(model: Autoencoder, images: jax.Array, key: jax.Array) -> jax.Array:
    return jnp.mean(jax.vmap(model)(images, jax.random.split(key, len(images))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=128)
    options = parser.parse_args()

    images = (load_digits().data / 16).astype(np.float32)
    model = Autoencoder(8, 128, jax.random.key(0))
    optimiser = optax.chain(optax.clip_by_global_norm(10.0), optax.adam(2e-3))
    state = optimiser.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit
    def train_step(model, state, images, key):
        loss, gradient = loss_of(model, images, key)
        updates, state = optimiser.update(gradient, state, model)
        return eqx.apply_updates(model, updates), state, loss

    watch = Stopwatch()
    order = np.random.default_rng(0)
    losses = []
    for step, key in enumerate(jax.random.split(jax.random.key(1), options.steps)):
        batch = images[order.choice(len(images), options.batch, replace=False)]
        model, state, loss = watch.call(train_step, model, state, batch, key)
        losses.append(float(loss))
        if step % 100 == 0:
            print(f"step {step}: loss {losses[-1]:.3f}")
    watch.report(loss=float(np.mean(losses[-20:])))


if __name__ == "__main__":
    main()
