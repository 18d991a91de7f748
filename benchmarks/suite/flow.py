"""Loops and control flow, random numbers, and what a call costs: eager, traced, compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import programs
from benchmarks.suite.package import (
    FRAMEWORK,
    Made,
    add,
    add_all,
    add_made,
    integers,
    jax,
    jnp,
    lax,
    normal,
    on,
    program,
    uniform,
)

add_made(
    "loops",
    [
        ("scalar loop, 1000 steps", programs.scalar_loop),
        ("scan that stacks and rotates, 1000 steps", programs.rotating_scan),
        ("vmap of a while loop, 100 updates", programs.updates_in_lanes),
        ("vmap of nested loops, 90 updates", programs.nested_updates_in_lanes),
    ],
)


@program("loops", "knapsack of 10,000, 100 items")
def _knapsack() -> Made:
    size = 10_001

    def best(weights: Any, values: Any) -> Any:
        def step(i: Any, best: Any) -> Any:
            taken = jnp.roll(best, weights[i]) + values[i]
            return jnp.where(jnp.arange(size) >= weights[i], jnp.maximum(best, taken), best)

        return lax.fori_loop(0, 100, step, jnp.zeros(size, jnp.int32))

    return best, (integers(200, 100) + 1, integers(1000, 100, seed=1))


@program("loops", "scalar loop, 100,000 steps")
def _long_loop() -> Made:
    return lambda x: lax.fori_loop(0, 100_000, lambda _, x: x * 0.999 + 0.1, x), (jnp.float32(1),)


@program("loops", "Newton's method in a while loop, vmapped 10,000 times")
def _newton() -> Made:
    def root(a: Any) -> Any:
        better = lambda s: (s[0] - (s[0] ** 3 - a) / (3 * s[0] ** 2), s[1] + 1)
        far = lambda s: (jnp.abs(s[0] ** 3 - a) > 1e-4 * a) & (s[1] < 50)
        return lax.while_loop(far, better, (a, 0))[0]

    return jax.vmap(root), (uniform(1, 9, 10_000),)


@program("loops", "associative scan of 2×2 products, 4096")
def _associative() -> Made:
    return lambda m: lax.associative_scan(jnp.matmul, m), (normal(4096, 2, 2) * 0.5,)


@program("loops", "cond and switch in a scan, 1000 steps")
def _branches() -> Made:
    def step(x: Any, i: Any) -> tuple[Any, Any]:
        x = lax.switch(i % 3, [lambda x: x + 1, lambda x: x * 0.5, jnp.sin], x)
        x = lax.cond(x.sum() > 0, lambda x: x - 0.1, lambda x: x + 0.1, x)
        return x, x[0]

    return lambda x: lax.scan(step, x, jnp.arange(1000)), (normal(64),)


@program("loops", "three bodies, 1000 steps")
def _three_bodies() -> Made:
    def moved(x: Any, v: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            x, v = state
            d = x[:, None] - x[None]
            pulls = d * ((d**2).sum(-1) + 0.01)[..., None] ** -1.5
            v = v - 0.001 * pulls.sum(1)
            return x + 0.001 * v, v

        return lax.fori_loop(0, 1000, step, (x, v))

    return moved, (normal(3, 3), normal(3, 3, seed=1))


@program("loops", "Kalman filter of two states, 500 steps")
def _kalman() -> Made:
    moves, noise = jnp.array([[1, 0.1], [0, 1]]), 0.01 * jnp.eye(2)

    def step(state: Any, y: Any) -> tuple[Any, Any]:
        x, p = state
        x, p = moves @ x, moves @ p @ moves.T + noise
        gain = p[:, 0] / (p[0, 0] + 0.1)
        return (x + gain * (y - x[0]), p - jnp.outer(gain, p[0])), x

    return lambda ys: lax.scan(step, (jnp.zeros(2), jnp.eye(2)), ys)[1], (normal(500),)


@program("loops", "cart and pole, 500 steps")
def _cart() -> Made:
    def step(state: Any, push: Any) -> tuple[Any, Any]:
        _, v, angle, spin = state
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        force = (push + 0.05 * spin**2 * sine) / 1.1
        turn = (9.8 * sine - cosine * force) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        change = jnp.stack([v, force - 0.05 * turn * cosine / 1.1, spin, turn])
        state = state + 0.02 * change
        fallen = (jnp.abs(state[0]) > 2.4) | (jnp.abs(state[2]) > 0.2)
        return jnp.where(fallen, 0.0, state), fallen

    return lambda s, pushes: lax.scan(step, s, pushes), (normal(4) * 0.01, normal(500))


@program("loops", "buffer of 16 written in turn, 1000 steps")
def _buffer() -> Made:
    def step(state: Any, x: Any) -> tuple[Any, Any]:
        buffer, i = state
        buffer = lax.dynamic_update_slice(buffer, x[None], (i % 16,))
        return (buffer, i + 1), buffer.mean()

    return lambda xs: lax.scan(step, (jnp.zeros(16), 0), xs)[1], (normal(1000),)


@program("loops", "diagonal state space of 16×8, 300 steps")
def _state_space() -> Made:
    def outputs(us: Any, a: Any, b: Any, c: Any) -> Any:
        def step(h: Any, u: Any) -> tuple[Any, Any]:
            h = a * h + b * u[:, None]
            return h, (h * c).sum(-1)

        return lax.scan(step, jnp.zeros((16, 8)), us)[1]

    return outputs, (normal(300, 16), uniform(0, 1, 16, 8), normal(16, 8), normal(16, 8, seed=1))


@program("loops", "shortest paths over 5,000 edges, 50 rounds")
def _shortest_paths() -> Made:
    def lengths(start: Any, sources: Any, targets: Any, weights: Any) -> Any:
        better = lambda _, d: d.at[targets].min(d[sources] + weights)
        return lax.fori_loop(0, 50, better, start)

    start = np.full(1000, np.inf, np.float32)
    start[0] = 0
    edges = integers(1000, 5000), integers(1000, 5000, seed=1)
    return lengths, (start, *edges, uniform(0, 1, 5000))


@program("loops", "gradient of an RNN in a scan, 200 steps")
def _rnn() -> Made:
    def loss(w: Any, xs: Any) -> Any:
        step = lambda h, x: (jnp.tanh(h @ w + x), None)
        return (lax.scan(step, jnp.zeros(64), xs)[0] ** 2).sum()

    return jax.grad(loss), (normal(64, 64) * 0.1, normal(200, 64))


def _draw(draw: Any) -> Any:
    return lambda: (draw, (jax.random.key(0),))


_DRAWS: list[tuple[str, Callable[[Any], Any]]] = [
    ("normal, 1M", lambda k: jax.random.normal(k, (1_000_000,))),
    ("uniform, 1M", lambda k: jax.random.uniform(k, (1_000_000,))),
    ("bits, 1M", lambda k: jax.random.bits(k, (1_000_000,))),
    ("permutation of 100,000", lambda k: jax.random.permutation(k, 100_000)),
    ("gamma, 100,000", lambda k: jax.random.gamma(k, 2.0, (100_000,))),
    ("categorical, 10,000 of 100", lambda k: jax.random.categorical(k, jnp.ones((10_000, 100)))),
    ("split in 10,000 keys", lambda k: jax.random.key_data(jax.random.split(k, 10_000))),
]
for _name, _fun in _DRAWS:
    add("random numbers", _name, _draw(_fun))


add_all(
    "calls",
    [
        ("eager x + y", lambda x, y: x + y, [(4,), (4,)]),
        ("eager x[0]", lambda x: x[0], [(8,)]),
        ("eager reshape", lambda x: x.reshape(2, 4), [(8,)]),
        ("eager sum", lambda x: x.sum(), [(8,)]),
        ("eager x @ y, 64²", lambda x, y: x @ y, [(64, 64)] * 2),
        ("eager .at[].set", lambda x: x.at[1].set(2.0), [(8,)]),
        ("eager gradient of sum(v*v)", lambda x: jax.grad(lambda v: (v * v).sum())(x), [(8,)]),
        ("eager vmap", lambda x: jax.vmap(lambda v: v * 2 + 1)(x), [(8, 4)]),
        ("np.asarray of a result", lambda x: np.asarray(x), [(8,)]),
    ],
    compiled=False,
)
add("calls", "jit call, two arguments", on(lambda x, y: x + y, (4,), (4,)))


@program("calls", "jit call, 20 leaves")
def _tree_call() -> Made:
    return lambda t: {k: v + 1 for k, v in t.items()}, ({f"k{i}": normal(4) for i in range(20)},)


@program("calls", "eager exp on a new shape", compiled=False)
def _new_shapes() -> Made:
    sizes = itertools.count(1000)
    return lambda: jnp.exp(np.ones(next(sizes), np.float32))[:8], ()


_numbers = itertools.count()


def _unseen(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that no cache knows, of traces or on disk: one more result is a number of its
    own."""
    number = next(_numbers)
    return lambda *arguments: (fun(*arguments), jnp.full(1, number, jnp.int32))


def _add_compilations(name: str, make: Callable[[], Made]) -> None:
    """Rows for tracing alone, and for tracing, lowering and compiling."""

    def trace() -> Made:
        fun, arguments = make()
        return lambda: jax.make_jaxpr(_unseen(fun))(*arguments) and None, ()

    def whole() -> Made:
        fun, arguments = make()
        return lambda: jax.jit(_unseen(fun)).lower(*arguments).compile() and None, ()

    add("compiling", f"{name}: trace", trace, compiled=False)
    add("compiling", f"{name}: trace, lower, compile", whole, compiled=False)


_add_compilations("MLP step", lambda: programs.mlp_step(FRAMEWORK))
_add_compilations("transformer step", lambda: programs.gpt_step(FRAMEWORK))
_add_compilations("x * 2 + 1", on(lambda x: x * 2 + 1, (8,)))
_add_compilations("scan", lambda: programs.rotating_scan(FRAMEWORK))
