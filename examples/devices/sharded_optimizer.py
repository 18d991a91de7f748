"""Weights and the state of the optimizer in parts (Zhao et al., FSDP, 2023; Rajbhandari et al.,
ZeRO, 2020): each device has a part of every weight and of its moments, and of the batch.

A weight is gathered where it is used; of its gradient each device gets the sum of its own part, and
moves that. The arguments and the results say that weights are in parts; the activations, that they
are cut along the batch. The compiler finds the rest.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from several import Runs, adam, adam_state, mesh_of, mesh_of_one, normal, put, report, start

SIZES = (64, 256, 256, 256, 8)


def target(x: np.ndarray) -> np.ndarray:
    """What is to be learnt."""
    return np.sin(x[:, :8] + x[:, 8:16] * x[:, 16:24]).astype(np.float32)


def train(mesh: Mesh, steps: int) -> tuple[Runs, int]:
    """Also the bytes of weights and state that a device holds."""
    parts, rows = NamedSharding(mesh, P("data")), NamedSharding(mesh, P("data", None))

    def loss_of(weights, x, y):
        for number, w in enumerate(weights):
            x = jax.lax.with_sharding_constraint(x @ w, rows)
            if number + 1 < len(weights):
                x = jax.nn.gelu(x)
        return jnp.mean((x - y) ** 2)

    def train_step(weights, state, x, y):
        loss, gradient = jax.value_and_grad(loss_of)(weights, x, y)
        gradient = jax.lax.with_sharding_constraint(gradient, parts)
        weights, state = adam(weights, state, gradient, rate=1e-3)
        return jax.lax.with_sharding_constraint(weights, parts), state, loss

    shapes = list(itertools.pairwise(SIZES))
    weights = [normal((i, o), seed, i**-0.5) for seed, (i, o) in enumerate(shapes)]
    cut = [P("data")] * len(weights)
    state = put(mesh, adam_state(weights), (P(), cut, cut))
    weights = put(mesh, weights, P("data"))
    runs = Runs(train_step, mesh)
    for step in range(steps):
        x = normal((512, SIZES[0]), 100 + step)
        batch = put(mesh, (x, target(x)), P("data"))
        weights, state = runs.call(weights, state, *batch)
    held = sum(w.addressable_shards[0].data.nbytes for w in jax.tree.leaves((weights, state)))
    return runs, held


def main() -> None:
    options = start(__doc__, steps=30)
    several, held = train(mesh_of(data=options.devices), options.steps)
    alone, held_alone = train(mesh_of_one("data"), options.steps)
    report(several, alone)
    if not jax.process_index():
        print(
            f"weights and state on a device: {held / 1e3:.1f} kB, alone {held_alone / 1e3:.1f} kB"
        )


if __name__ == "__main__":
    main()
