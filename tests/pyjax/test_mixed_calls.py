"""A long mixture of calls, native or not, compiled or not, failing ones too, keeps nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# Prints for each round: resident bytes, the number of objects, references to what calls share.
MIXTURE = """
import collections, gc, json, os, random, sys
import numpy as np
import pyjax, pyjax.numpy as jnp

rounds, length = map(int, sys.argv[1:])
choose = random.Random(0)
Pair = collections.namedtuple("Pair", "a b")
x, y, in_numpy = jnp.arange(16.0), jnp.ones(16), np.ones(16, np.float32)

plain = pyjax.jit(lambda a, b: a * b + 1)
tree = pyjax.jit(lambda t: {"sum": t["a"] + t["b"][0], "pair": Pair(*t["b"])})
static = pyjax.jit(lambda a, times: a * times, static_argnums=1)
donating = pyjax.jit(lambda a: a + 1, donate_argnums=0)
keyword = pyjax.jit(lambda a, *, s: a * s)
gradient = pyjax.grad(lambda v: (v * v).sum())
mapped = pyjax.vmap(lambda v: v + 1)

def refused(kind, call):
    try:
        call()
    except kind:
        return
    raise AssertionError(call)

def donated_twice():
    a = x + y
    donating(a)
    donating(a)

CALLS = [
    (30, lambda: plain(x, y)),
    (5, lambda: plain(x, in_numpy)),
    (10, lambda: plain(x, choose.random())),
    (10, lambda: tree({"a": x, "b": (y, x)})),
    (5, lambda: static(x, choose.randrange(4))),
    (5, lambda: keyword(x, s=y)),
    (5, lambda: donating(x + y)),
    (30, lambda: x + y),
    (20, lambda: x * 2.0),
    (10, lambda: x[3]),
    (5, lambda: x[1:5]),
    (10, lambda: x.reshape(4, 4)),
    (10, lambda: np.asarray(x)),
    (5, lambda: float(x[0])),
    (3, lambda: x.at[2].set(1.0)),
    (5, lambda: jnp.sum(x)),
    (3, lambda: jnp.stack([x, y])),
    (2, lambda: jnp.ones(choose.randrange(1, 20)) + 1),
    (1, lambda: gradient(x)),
    (1, lambda: mapped(x)),
    (1, lambda: list(x)),
    (1, lambda: repr(x)),
    (1, lambda: refused(TypeError, lambda: x + jnp.ones(7))),
    (1, lambda: refused(RuntimeError, donated_twice)),
]
weights, calls = zip(*CALLS)
shared = [x, y, plain, tree, static, donating, keyword, gradient, mapped, Pair, in_numpy,
          x.aval, x.dtype, type(x), None, True, 2.0]

def a_round():
    for call in choose.choices(calls, weights, k=length):
        call()
    gc.collect()
    with open("/proc/self/statm") as f:
        resident = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident, len(gc.get_objects()), [sys.getrefcount(each) for each in shared]

print(json.dumps([a_round() for _ in range(rounds)]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what is resident is read from /proc")
@pytest.mark.parametrize(
    "rounds, length",
    [(4, 5_000), pytest.param(11, 100_000, marks=pytest.mark.slow)],
)
def test_mixed_calls_keep_nothing(rounds: int, length: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", MIXTURE, str(rounds), str(length)],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stderr
    first, *_, last = json.loads(ran.stdout)[1:]  # caches fill in the first round
    # One object, or one reference, of any kind of call would be hundreds.
    assert last[1] - first[1] < length // 200
    assert max(abs(b - a) for a, b in zip(first[2], last[2])) < length // 200
    assert last[0] - first[0] < 4 << 20
