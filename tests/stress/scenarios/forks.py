"""Forks while four threads compile, trace, run and collect: every child reads its arrays, runs a
known program and compiles new ones."""

from __future__ import annotations

import multiprocessing
import random
import time
from functools import partial

import numpy as np

import pyjax
import pyjax.numpy as jnp
from tests.stress import work

_known = pyjax.jit(lambda v: jnp.sin(v) @ jnp.cos(v))


def _child(seed: int, x: pyjax.Array, expected: float) -> None:
    draw = random.Random(seed)
    assert float(x[17]) == 17
    assert float(_known(x)) == expected
    for piece in (work.new_program, work.product, work.linear_algebra, work.first_call):
        piece(draw)


def _in_pool(n: int) -> float:
    return float(jnp.sum(jnp.ones(n) * 2))


def main() -> None:
    seed, seconds = work.arguments()
    x = jnp.arange(1000.0)
    expected = float(_known(x))
    draw = random.Random(seed)
    workers = work.Workers(4, seed)
    end = time.monotonic() + seconds
    forks = 0
    while time.monotonic() < end and work.until(draw.random() * 0.05, workers.stop):
        work.fork(f"child {seed + forks}", partial(_child, seed + forks, x, expected))
        forks += 1
    with multiprocessing.get_context("fork").Pool(2) as pool:
        answers = pool.map_async(_in_pool, range(1, 20)).get(work.FORK_LIMIT)
        np.testing.assert_array_equal(answers, 2.0 * np.arange(1, 20))
    workers.finish()
    print(f"{forks} forks")


if __name__ == "__main__":
    main()
