"""A convolutional network reads handwritten digits: flax.linen and optax.

The digits are scikit-learn's, 8 by 8 pixels; every fifth is kept for testing.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax.training.train_state import TrainState
from sklearn.datasets import load_digits
from stopwatch import Stopwatch


class Network(nn.Module):
    """Two convolutions with batch normalisation, and two dense layers with dropout."""

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        for features in (16, 32):
            x = nn.Conv(features, (3, 3))(x)
            x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
            x = nn.relu(x)
            x = nn.max_pool(x, (2, 2), (2, 2))
        x = nn.relu(nn.Dense(64)(x.reshape(len(x), -1)))
        x = nn.Dropout(0.2, deterministic=not train)(x)
        return nn.Dense(10)(x)


class State(TrainState):
    batch_stats: dict


@jax.jit
def train_step(state: State, images: jax.Array, labels: jax.Array, key: jax.Array):
    def loss_of(params):
        logits, updates = state.apply_fn(
            {"params": params, "batch_stats": state.batch_stats},
            images,
            train=True,
            mutable=["batch_stats"],
            rngs={"dropout": jax.random.fold_in(key, state.step)},
        )
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return losses.mean(), updates

    (loss, updates), gradient = jax.value_and_grad(loss_of, has_aux=True)(state.params)
    return state.apply_gradients(grads=gradient, batch_stats=updates["batch_stats"]), loss


@jax.jit
def accuracy(state: State, images: jax.Array, labels: jax.Array) -> jax.Array:
    variables = {"params": state.params, "batch_stats": state.batch_stats}
    return jnp.mean(state.apply_fn(variables, images, train=False).argmax(-1) == labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()

    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    labels = labels.astype(np.int32)
    test = np.arange(len(images)) % 5 == 0

    model = Network()
    key = jax.random.key(0)
    variables = model.init({"params": key}, images[:1], train=False)
    state = State.create(
        apply_fn=model.apply,
        params=variables["params"],
        batch_stats=variables["batch_stats"],
        tx=optax.adamw(optax.cosine_decay_schedule(3e-3, options.steps)),
    )
    print(model.tabulate(key, images[:1], train=False, console_kwargs={"width": 100}))

    watch = Stopwatch()
    order = np.random.default_rng(0)
    train_images, train_labels = images[~test], labels[~test]
    losses = []
    for step in range(options.steps):
        batch = order.choice(len(train_images), options.batch, replace=False)
        state, loss = watch.call(train_step, state, train_images[batch], train_labels[batch], key)
        losses.append(float(loss))
        if step % 50 == 0:
            print(f"step {step}: loss {losses[-1]:.4f}")
    watch.report(
        loss=float(np.mean(losses[-20:])),
        accuracy=float(accuracy(state, images[test], labels[test])),
    )


if __name__ == "__main__":
    main()
