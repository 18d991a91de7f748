"""Attention over a sequence that no device has as a whole (Liu et al., Ring Attention, 2023).

Each device has a stretch of the queries, keys and values. Keys and values go around in a ring; a
device adds what its queries find in each stretch to a softmax that it rescales as larger scores
come. The program learns weights of a projection by the gradient through all of that.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from several import Runs, mesh_of, mesh_of_one, normal, put, report, start

HEADS, WIDTH = 4, 32


def ring_attention(q, k, v):
    """Causal attention of [head, place, width] whose places are cut; runs on each device."""
    count, here = jax.lax.axis_size("ring"), jax.lax.axis_index("ring")
    places = q.shape[1]
    onwards = [(d, (d + 1) % count) for d in range(count)]
    own = here * places + jnp.arange(places)
    largest = jnp.full(q.shape[:2], -1e30)
    total = jnp.zeros(q.shape[:2])
    found = jnp.zeros_like(q)
    for turn in range(count):
        theirs = (here - turn) % count * places + jnp.arange(places)
        scores = jnp.einsum("hqe,hke->hqk", q, k) * q.shape[-1] ** -0.5
        scores = jnp.where(theirs <= own[:, None], scores, -1e30)
        larger = jnp.maximum(largest, scores.max(-1))
        rescale, weights = jnp.exp(largest - larger), jnp.exp(scores - larger[..., None])
        total = total * rescale + weights.sum(-1)
        found = found * rescale[..., None] + jnp.einsum("hqk,hke->hqe", weights, v)
        largest = larger
        if turn + 1 < count:
            k, v = jax.lax.ppermute((k, v), "ring", onwards)
    return found / total[..., None]


def train_step(weights, x, y, *, attend):
    def loss_of(weights):
        q, k, v = jnp.einsum("td,cdhe->chte", x, weights)
        return jnp.mean((jnp.einsum("hte->te", attend(q, k, v)) - y) ** 2)

    loss, gradient = jax.value_and_grad(loss_of)(weights)
    return weights - 3.0 * gradient, loss


def train(mesh: Mesh, steps: int, length: int) -> Runs:
    places = P(None, "ring")
    attend = jax.shard_map(
        ring_attention,
        mesh=mesh,
        in_specs=(places, places, places),
        out_specs=places,
        check_vma=False,
    )
    weights = put(mesh, normal((3, WIDTH, HEADS, WIDTH), 0, WIDTH**-0.5), P())
    x = normal((length, WIDTH), 1)
    y = x.cumsum(0) / (1 + jnp.arange(length))[:, None]  # the mean of all that came before
    x, y = put(mesh, (x, y), P("ring"))
    runs = Runs(partial(train_step, attend=attend), mesh)
    for _ in range(steps):
        (weights,) = runs.call(weights, x, y)
    return runs


def main() -> None:
    options = start(__doc__, steps=8, length=512)
    several = train(mesh_of(ring=options.devices), options.steps, options.length)
    report(several, train(mesh_of_one("ring"), options.steps, options.length))


if __name__ == "__main__":
    main()
