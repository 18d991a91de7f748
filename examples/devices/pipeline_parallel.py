"""Pipeline parallelism: each device has some of the layers, and hands what it computes to the next.

A batch is cut into microbatches. At each tick every device applies its layers to another one, and
passes the result on; so the first microbatch is through after as many ticks as there are devices,
and one more is at each tick behind that. The derivative of passing on is passing back, so the
backward pass is a pipeline, too.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from several import Runs, adam, adam_state, mesh_of, mesh_of_one, put, report, start
from transformer import Sonnets, embedded, initial, layer, loss_from

LAYERS = 8
SPECS = {
    "embed": P(),
    "place": P(),
    "layers": {name: P("stage") for name in ("qkv", "out", "up", "down")},
    "unembed": P(),
}


def pipelined(layers, microbatches):
    """All layers, applied to microbatches[number, row, place, width]; runs on each device."""
    stages, stage = jax.lax.axis_size("stage"), jax.lax.axis_index("stage")
    count = len(microbatches)
    onwards = [(s, s + 1) for s in range(stages - 1)]
    x = jnp.zeros_like(microbatches[0])
    done = []
    for tick in range(count + stages - 1):
        x = jnp.where(stage == 0, microbatches[min(tick, count - 1)], x)
        for number in range(LAYERS // stages):
            x = layer(jax.tree.map(lambda w, number=number: w[number], layers), x)
        if tick >= stages - 1:
            done.append(x)  # on the last device
        x = jax.lax.ppermute(x, "stage", onwards)
    last = jnp.where(stage == stages - 1, jnp.stack(done), 0)
    return jax.lax.psum(last, "stage")


def train(mesh: Mesh, steps: int, microbatches: int) -> Runs:
    through = jax.shard_map(
        pipelined, mesh=mesh, in_specs=(P("stage"), P()), out_specs=P(), check_vma=False
    )

    def loss_of(weights, letters):
        rows = letters.reshape(microbatches, -1, letters.shape[-1])
        x = through(weights["layers"], embedded(weights, rows[..., :-1]))
        return loss_from(weights, x, rows[..., 1:])

    def train_step(weights, state, letters):
        loss, gradient = jax.value_and_grad(loss_of)(weights, letters)
        return *adam(weights, state, gradient), loss

    weights = initial(LAYERS)
    state = put(mesh, adam_state(weights), (P(), SPECS, SPECS))
    weights = put(mesh, weights, SPECS)
    sonnets, runs = Sonnets(), Runs(train_step, mesh)
    for _ in range(steps):
        letters = put(mesh, sonnets.batch(8), P())
        weights, state = runs.call(weights, state, letters)
    return runs


def main() -> None:
    options = start(__doc__, steps=6, microbatches=4)
    several = train(mesh_of(stage=options.devices), options.steps, options.microbatches)
    report(several, train(mesh_of_one("stage"), options.steps, options.microbatches))


if __name__ == "__main__":
    main()
