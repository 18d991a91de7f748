"""Compiled loops over a few numbers and short arrays beside the same loops run by Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax as jax
import pyjax.numpy as jnp
from pyjax import lax


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def bodies(x: Any, v: Any) -> Any:
    """Three that attract each other: arrays of 2, 6, 9 and 18 numbers."""

    def step(_: Any, s: Any) -> Any:
        x, v = s
        d = x[:, None] - x[None]
        r = (d**2).sum(-1) + 0.1
        v = v - 0.01 * (d * (r**-1.5)[..., None]).sum(1)
        return x + 0.01 * v, v

    return lax.fori_loop(0, 20, step, (x, v))


def ring(x: Any) -> Any:
    """A buffer that is written at a place which moves round."""

    def step(s: Any, x: Any) -> Any:
        buffer, i = s
        buffer = lax.dynamic_update_slice(buffer, x[None], (i % 5,))
        return (buffer, i + 1), (buffer.mean(), buffer.argmax())

    return lax.scan(step, (jnp.zeros(5), 0), x)


def branches(x: Any, numbers: Any) -> Any:
    """Arms that write different arrays, one of them nothing."""

    def step(s: Any, n: Any) -> Any:
        x, count = s
        arms = [
            lambda: (x[::-1], count + 1),
            lambda: (x, count),
            lambda: (lax.cond(count > 3, lambda: x * 0.5, lambda: x + 1), count),
        ]
        x, count = lax.switch(n, arms)
        return (x, count), x[0]

    return lax.scan(step, (x, jnp.zeros(2, jnp.int32)[0]), numbers)


def nested(x: Any) -> Any:
    """Loops within loops, of which some run no round."""

    def outer(i: Any, s: Any) -> Any:
        x, total = s
        inner = lambda s: (s[0] * 0.9 + 0.1, s[1] + s[0].sum(), s[2] - 1)
        x, total, _ = lax.while_loop(lambda s: s[2] > 0, inner, (x, total, i % 3))
        return x[jnp.array([1, 2, 0])], total

    return lax.fori_loop(0, 8, outer, (x, jnp.float32(0)))


def kalman(ys: Any) -> Any:
    """Products of 2×2."""
    f = jnp.array([[1, 0.1], [0, 1]])

    def step(s: Any, y: Any) -> Any:
        x, p = s
        x, p = f @ x, f @ p @ f.T + 0.01 * jnp.eye(2)
        k = p[:, 0] / (p[0, 0] + 0.1)
        return (x + k * (y - x[0]), p - jnp.outer(k, p[0])), x

    return lax.scan(step, (jnp.zeros(2), jnp.eye(2)), ys)


def masks(x: Any) -> Any:
    """Truth values, bytes and narrow floats beside each other."""

    def step(_: Any, s: Any) -> Any:
        x, seen, count, narrow = s
        now = x > 0
        narrow = jnp.where(seen, narrow * jnp.bfloat16(0.3), narrow + jnp.bfloat16(1))
        return jnp.roll(x, 1) - 0.1, seen ^ now, count + seen.astype(jnp.int8), narrow

    start = (x, jnp.zeros(7, bool), jnp.zeros(7, jnp.int8), jnp.ones(7, jnp.bfloat16))
    return lax.fori_loop(0, 9, step, start)


def divided(x: Any, y: Any) -> Any:
    """Integers by those of which none is 0, in fewer lanes than a vector has."""
    step = lambda _, s: (s[0] // s[1] + s[0] % s[1], jnp.where(s[1] == 1, 7, s[1] - 1))
    return lax.fori_loop(0, 20, step, (x, y))


def rows(x: Any, table: Any) -> Any:
    """Rows of a table in memory, in lanes."""
    step = lambda _, x: x * 0.9 + table[:, 0] - table[:, 1] * table[:, 2] + table[:, 3] * x
    return lax.fori_loop(0, 10, step, x)


def memory_again(x: Any) -> Any:
    """Products in a routine, whose result lies where numbers were a step before."""
    w = jnp.asarray(normal(20, 20) * 0.2)

    def step(s: Any) -> Any:
        x, _, i = s
        y = jnp.tanh(w @ x)
        return y, jnp.abs(y - x).max(), i + 1

    return lax.while_loop(lambda s: (s[1] > 1e-3) & (s[2] < 30), step, (x, jnp.float32(1), 0))


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "bodies": (bodies, (normal(3, 2), normal(3, 2, seed=1))),
    "bodies in space": (bodies, (normal(3, 3), normal(3, 3, seed=1))),
    "ring": (ring, (normal(23),)),
    "branches": (branches, (normal(4), np.array([0, 2, 1, 0, 0, 2, 0, 2, 9], np.int32))),
    "nested": (nested, (normal(3),)),
    "kalman": (kalman, (normal(20),)),
    "masks": (masks, (normal(7),)),
    "divided": (divided, (np.array([7, -9, 100], np.int32), np.array([2, 3, 5], np.int32))),
    "rows": (rows, (normal(48), normal(48, 4, seed=1) * 0.1)),
    "memory again": (memory_again, (normal(20),)),
}


@pytest.mark.parametrize("fun, arguments", PROGRAMS.values(), ids=PROGRAMS)
def test_compiled_as_by_python(fun: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    with jax.disable_jit():
        want = jax.tree.leaves(fun(*map(jnp.asarray, arguments)))
    got = jax.tree.leaves(jax.jit(fun)(*arguments))
    for g, w in zip(got, want, strict=True):
        wide = np.float32 if g.dtype == jnp.bfloat16 else g.dtype
        np.testing.assert_allclose(np.asarray(g, wide), np.asarray(w, wide), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("fun, arguments", PROGRAMS.values(), ids=PROGRAMS)
def test_bits_for_any_number_of_threads(
    fun: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    compiled = jax.jit(fun)
    results = []
    for threads in (1, 2):
        with jax.num_threads(threads):
            results.append([np.asarray(x).tobytes() for x in jax.tree.leaves(compiled(*arguments))])
    assert results[0] == results[1]
