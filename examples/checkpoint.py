"""Training that stops and goes on: a network of flax.nnx, its optimizer's state and a random key go
through checkpoints of orbax.

The network learns the product of its two inputs from points that the key draws anew for each step.
One run goes through; another is stopped half way and goes on from the last checkpoint, in objects
made anew. Both reach the same loss, to the last bit.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from flax import nnx
from stopwatch import Stopwatch


class Network(nnx.Module):
    """Two hidden layers; the weights of the first are bfloat16."""

    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(2, width, param_dtype=jnp.bfloat16, rngs=rngs)
        self.second = nnx.Linear(width, width, rngs=rngs)
        self.last = nnx.Linear(width, 1, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.first(x).astype(jnp.float32))
        return self.last(nnx.relu(self.second(x)))[:, 0]


@nnx.jit
def train_step(network: Network, optimizer: nnx.Optimizer, key: jax.Array) -> jax.Array:
    x = jax.random.uniform(key, (256, 2), minval=-1.0)

    def loss_of(network: Network) -> jax.Array:
        return jnp.mean((network(x) - x[:, 0] * x[:, 1]) ** 2)

    loss, gradient = nnx.value_and_grad(loss_of)(network)
    optimizer.update(network, gradient)
    return loss


class Training:
    """Everything that changes in training, and its way to disk and back."""

    def __init__(self, seed: int) -> None:
        self.network = Network(32, nnx.Rngs(seed))
        self.optimizer = nnx.Optimizer(self.network, optax.adam(3e-3), wrt=nnx.Param)
        self.key = jax.random.key(seed)

    def state(self) -> dict[str, object]:
        networks = nnx.state((self.network, self.optimizer))
        return {"state": nnx.to_pure_dict(networks), "key": self.key}

    def run(self, steps: int, watch: Stopwatch) -> float:
        for _ in range(steps):
            self.key, key = jax.random.split(self.key)
            loss = watch.call(train_step, self.network, self.optimizer, key)
        return float(loss)

    def save(self, manager: ocp.CheckpointManager, step: int) -> None:
        manager.save(step, args=ocp.args.StandardSave(self.state()))

    def restore(self, manager: ocp.CheckpointManager, step: int) -> None:
        like = jax.tree.map(ocp.utils.to_shape_dtype_struct, self.state())
        found = manager.restore(step, args=ocp.args.StandardRestore(like))
        networks = nnx.state((self.network, self.optimizer))
        nnx.replace_by_pure_dict(networks, found["state"])
        nnx.update((self.network, self.optimizer), networks)
        self.key = found["key"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args()
    half = options.steps // 2

    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        with ocp.CheckpointManager(Path(folder) / "steps") as manager:
            training = Training(seed=0)
            training.save(manager, 0)
            print(f"step {half}: loss {training.run(half, watch):.6f}")
            training.save(manager, half)
            loss = training.run(options.steps - half, watch)

        with ocp.CheckpointManager(Path(folder) / "steps") as manager:
            print(f"checkpoints of steps {manager.all_steps()}")
            resumed = Training(seed=1)
            resumed.restore(manager, manager.latest_step())
            again = resumed.run(options.steps - half, watch)
    watch.report(loss=loss, difference=abs(loss - again))


if __name__ == "__main__":
    main()
