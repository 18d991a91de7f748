"""Attention with shapes that are checked and axes that have names: jaxtyping, einops and chex.

A layer of attention learns to reverse sequences: what it writes at place i is what stands at place
n - 1 - i. It starts from random weights, and is trained by plain gradient descent with momentum.
"""

from __future__ import annotations

import argparse
from functools import partial

import chex
import jax
import jax.numpy as jnp
from einops import rearrange, reduce, repeat
from jax.tree_util import tree_map
from jaxtyping import Array, Float, Int, PRNGKeyArray, jaxtyped
from stopwatch import Stopwatch

LENGTH, SYMBOLS, WIDTH, HEADS = 8, 6, 32, 4


@chex.dataclass
class Params:
    embedding: Float[Array, "symbols width"]
    place: Float[Array, "length width"]
    projections: Float[Array, "3 width width"]
    out: Float[Array, "width symbols"]


def initial(key: PRNGKeyArray) -> Params:
    keys = jax.random.split(key, 4)
    normal = lambda key, *shape: jax.random.normal(key, shape) / jnp.sqrt(shape[-2])
    return Params(
        embedding=jax.random.normal(keys[0], (SYMBOLS, WIDTH)),
        place=jax.random.normal(keys[1], (LENGTH, WIDTH)),
        projections=normal(keys[2], 3, WIDTH, WIDTH),
        out=normal(keys[3], WIDTH, SYMBOLS),
    )


@jaxtyped(typechecker=None)
def logits_of(
    params: Params, symbols: Int[Array, "batch length"]
) -> Float[Array, "batch length symbols"]:
    batch = len(symbols)
    x = params.embedding[symbols] + repeat(params.place, "n d -> b n d", b=batch)
    assert isinstance(x, Float[Array, "batch length width"])
    q, k, v = rearrange(
        jnp.einsum("bnd,tde->tbne", x, params.projections), "t b n (h e) -> t b h n e", h=HEADS
    )
    assert isinstance(q, Float[Array, "batch heads length part"])
    # The same names are the same sizes within one call: a transposed key would be found here.
    assert isinstance(k, Float[Array, "batch heads length part"])
    weights = jax.nn.softmax(jnp.einsum("bhne,bhme->bhnm", q, k) / jnp.sqrt(q.shape[-1]))
    y = rearrange(jnp.einsum("bhnm,bhme->bhne", weights, v), "b h n e -> b n (h e)")
    chex.assert_equal_shape([x, y])
    return y @ params.out


def loss_of(params: Params, symbols: Int[Array, "batch length"]) -> Float[Array, ""]:
    logits = jax.nn.log_softmax(logits_of(params, symbols))
    chex.assert_shape(logits, (None, LENGTH, SYMBOLS))
    target = jax.nn.one_hot(symbols[:, ::-1], SYMBOLS)
    return -reduce(logits * target, "b n s -> b n", "sum").mean()


@partial(jax.jit, static_argnames="batch")
@chex.assert_max_traces(n=1)
def train_step(params: Params, momentum: Params, key: PRNGKeyArray, batch: int):
    symbols = jax.random.randint(key, (batch, LENGTH), 0, SYMBOLS)
    loss, gradient = jax.value_and_grad(loss_of)(params, symbols)
    chex.assert_trees_all_equal_shapes_and_dtypes(gradient, params)
    momentum = tree_map(lambda m, g: 0.9 * m + g, momentum, gradient)
    return tree_map(lambda p, m: p - 0.1 * m, params, momentum), momentum, loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()

    params = initial(jax.random.key(0))
    momentum = tree_map(jnp.zeros_like, params)
    step = partial(train_step, batch=64)
    watch = Stopwatch()
    for number, key in enumerate(jax.random.split(jax.random.key(1), options.steps)):
        params, momentum, loss = watch.call(step, params, momentum, key)
        if number % 50 == 0:
            print(f"step {number}: loss {loss:.5f}")
    chex.assert_tree_all_finite(params)

    try:
        with jaxtyped("context"):
            assert isinstance(params.embedding, Float[Array, "symbols width"])
            assert isinstance(params.out, Float[Array, "symbols width"])
    except AssertionError:
        print("the two matrices differ in shape, as they should")
    watch.report(loss=float(loss))


if __name__ == "__main__":
    main()
