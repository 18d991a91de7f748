"""Tensor parallelism: each device has some heads and some hidden columns of every layer.

The weights say how they are cut (Shoeybi et al., Megatron-LM, 2019): the first product of each pair
by columns, the second by rows, so that parts of a sum come out, which the compiler adds up once. A
second axis of the mesh cuts the batch.
"""

from __future__ import annotations

import jax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from several import Runs, adam, adam_state, mesh_of, mesh_of_one, put, report, start
from transformer import Sonnets, embedded, initial, layer, loss_from

SPECS = {
    "embed": P(),
    "place": P(),
    "layers": {
        "qkv": P(None, None, None, "model"),
        "out": P(None, "model"),
        "up": P(None, None, "model"),
        "down": P(None, "model"),
    },
    "unembed": P(),
}


def train(mesh: Mesh, steps: int) -> Runs:
    whole = NamedSharding(mesh, P("data"))  # cut along the batch only

    def loss_of(weights, letters):
        x = embedded(weights, letters[:, :-1])
        for number in range(2):
            own = jax.tree.map(lambda w, number=number: w[number], weights["layers"])
            x = jax.lax.with_sharding_constraint(layer(own, x), whole)
        return loss_from(weights, x, letters[:, 1:])

    def train_step(weights, state, letters):
        loss, gradient = jax.value_and_grad(loss_of)(weights, letters)
        return *adam(weights, state, gradient), loss

    weights = initial(layers=2)
    state = put(mesh, adam_state(weights), (P(), SPECS, SPECS))
    weights = put(mesh, weights, SPECS)
    sonnets, runs = Sonnets(), Runs(train_step, mesh)
    for _ in range(steps):
        letters = put(mesh, sonnets.batch(16), P("data"))
        weights, state = runs.call(weights, state, letters)
    return runs


def main() -> None:
    options = start(__doc__, steps=20)
    model = 4 if options.devices % 4 == 0 else options.devices
    mesh = mesh_of(data=options.devices // model, model=model)
    report(train(mesh, options.steps), train(mesh_of_one("data", "model"), options.steps))


if __name__ == "__main__":
    main()
