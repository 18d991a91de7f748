"""Data parallelism: every device has all weights, and its part of each batch of digits.

Nothing in the step speaks of devices. The arguments say how they lie; the compiler adds the
gradients up over the devices, because the weights are to be alike on all of them.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from several import Runs, adam, adam_state, mesh_of, mesh_of_one, normal, put, report, start
from sklearn.datasets import load_digits


def initial() -> list[tuple[np.ndarray, np.ndarray]]:
    sizes = (64, 128, 128, 10)
    return [
        (normal((i, o), seed, i**-0.5), np.zeros(o, np.float32))
        for seed, (i, o) in enumerate(itertools.pairwise(sizes))
    ]


def loss_of(weights, images, labels):
    x = images
    for w, b in weights[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = weights[-1]
    scores = jax.nn.log_softmax(x @ w + b)
    return -jnp.mean(jnp.take_along_axis(scores, labels[:, None], 1))


def train_step(weights, state, images, labels):
    loss, gradient = jax.value_and_grad(loss_of)(weights, images, labels)
    return *adam(weights, state, gradient), loss


def train(mesh: Mesh, steps: int) -> Runs:
    digits = load_digits()
    images = (digits.data / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(0)
    weights = initial()
    state = put(mesh, adam_state(weights), P())
    weights = put(mesh, weights, P())
    runs = Runs(train_step, mesh)
    for _ in range(steps):
        rows = order.integers(len(images), size=256)
        batch = put(mesh, (images[rows], labels[rows]), P("data"))
        weights, state = runs.call(weights, state, *batch)
    return runs


def main() -> None:
    options = start(__doc__, steps=60)
    several = train(mesh_of(data=options.devices), options.steps)
    report(several, train(mesh_of_one("data"), options.steps))


if __name__ == "__main__":
    main()
