"""Calls of every kind, mixed at random, up to a million: what they hold afterwards is what they
held before. References to shared objects, objects that the cycle collector knows, arrays and memory
of the process are counted when everything has been called often, and at the end.

`PYJAX_NATIVE_DISPATCH=0` has the same calls made by Python.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import gc
import pickle
import random
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from tests.stress import work

COUNT = 1_000_000
SIZES = range(1, 20)
_AT_ONCE = 1000
# How much more may be there at the end: a leak is one of each call, and caches have entries for a
# few draws that were not made before.
_REFERENCES, _OBJECTS, _ARRAYS, _BYTES = 60, 3000, 20, 48 << 20


class Pair(NamedTuple):
    a: Any
    b: Any


@functools.partial(pyjax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["by"])
@dataclasses.dataclass
class Layer:
    w: Any
    by: float

    @functools.partial(pyjax.jit, static_argnums=0)
    def scaled(self, x: Any) -> Any:
        return x * self.by

    def __hash__(self) -> int:
        return hash(self.by)


X, Y = jnp.arange(4.0), jnp.arange(4.0) + 1
M, I = jnp.ones((4, 4)), jnp.arange(4)
HOST = np.ones(4, np.float32)
TREE = {"a": [X, Y, (M, None)], "b": Pair(I, 2.0)}
LAYER = Layer(X, 2.0)
BIG = jnp.ones(200_000)
KEY = pyjax.random.key(0)
GONE = X + 0
GONE.delete()

_two = pyjax.jit(lambda a, b: a * b + 1)
_tree = pyjax.jit(lambda t: t)
_new_tree = pyjax.jit(lambda t: pyjax.tree.map(lambda v: v * 2, t))
_static = pyjax.jit(
    lambda a, n, *, flag=False: a + n if flag else a * n, static_argnums=1, static_argnames="flag"
)
_donating = pyjax.jit(lambda a: a + 1, donate_argnums=0)
_gradient = pyjax.jit(pyjax.grad(lambda v: (v * v).sum()))
_rows = pyjax.jit(pyjax.vmap(lambda v, w: v @ w, in_axes=(0, None)))
_long = pyjax.jit(lambda x: lax.fori_loop(0, 40, lambda i, c: jnp.sin(c), x))
_fails = pyjax.jit(lambda a, b: a + b)
_called_back = pyjax.jit(lambda a: pyjax.pure_callback(lambda v: np.asarray(v) + 1, a, a))
_twice = pyjax.custom_vjp(lambda v: v * 2)
_twice.defvjp(lambda v: (v * 2, None), lambda _, g: (g * 2,))
_ruled = pyjax.jit(pyjax.grad(lambda v: _twice(v).sum()))


def _raising(error: type[Exception], call: Callable[[], Any]) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"{error.__name__} was not raised")


def _in_option() -> Any:
    with pyjax.enable_x64(True):
        return X + Y


def _fail(v: Any) -> Any:
    raise ZeroDivisionError


def _bad_callback() -> None:
    call = lambda: pyjax.pure_callback(_fail, X, X).block_until_ready()
    _raising(pyjax.errors.JaxRuntimeError, call)


# (how often in a thousand, what)
CALLS: list[tuple[int, Callable[[random.Random], Any]]] = [
    (90, lambda draw: X + Y),
    (60, lambda draw: X * draw.random()),
    (40, lambda draw: draw.randrange(20) - X),
    (30, lambda draw: X + HOST),
    (30, lambda draw: -X),
    (30, lambda draw: jnp.exp(X)),
    (30, lambda draw: X == Y),
    (90, lambda draw: _two(X, Y)),
    (40, lambda draw: _two(X, draw.random())),
    (30, lambda draw: _two(HOST, Y)),
    (20, lambda draw: _two(b=X, a=draw.randrange(10))),
    (30, lambda draw: _tree(TREE)),
    (30, lambda draw: _new_tree(TREE)),
    (20, lambda draw: _new_tree(Pair(X, LAYER))),
    (20, lambda draw: _static(X, draw.randrange(8), flag=draw.random() < 0.5)),
    (20, lambda draw: LAYER.scaled(X)),
    (20, lambda draw: _donating(X + 1)),
    (20, lambda draw: _gradient(X)),
    (10, lambda draw: _ruled(X)),
    (10, lambda draw: _rows(M, X)),
    (5, lambda draw: _long(BIG)),  # nobody waits for it
    (30, lambda draw: X[draw.randrange(4)]),
    (10, lambda draw: X[1:3]),
    (10, lambda draw: M[I, draw.randrange(4)]),
    (10, lambda draw: X.at[draw.randrange(4)].set(draw.random())),
    (20, lambda draw: M.reshape(2, 8)),
    (20, lambda draw: M.sum(axis=draw.randrange(2))),
    (20, lambda draw: M @ X),
    (10, lambda draw: jnp.stack([X, Y])),
    (10, lambda draw: jnp.concatenate([X, HOST])),
    (30, lambda draw: np.asarray(X).sum()),
    (20, lambda draw: float(X[0])),
    (10, lambda draw: X.tolist()),
    (5, lambda draw: repr(X)),
    (5, lambda draw: list(X)),
    (10, lambda draw: memoryview(np.asarray(X + 1))),
    (10, lambda draw: jnp.asarray([1.0, draw.random()])),
    (10, lambda draw: pyjax.device_put(HOST)),
    (5, lambda draw: copy.copy(X)),
    (2, lambda draw: pickle.loads(pickle.dumps(X))),
    (5, lambda draw: pyjax.random.normal(KEY, (4,))),
    (5, lambda draw: pyjax.random.split(KEY)),
    (5, lambda draw: pyjax.tree.map(lambda v: v, TREE)),
    (10, lambda draw: pyjax.block_until_ready(X + 1)),
    (5, lambda draw: X.astype(jnp.int32)),
    (3, lambda draw: _in_option()),
    (3, lambda draw: _called_back(X)),
    (5, lambda draw: _raising(RuntimeError, lambda: _two(GONE, Y))),
    (5, lambda draw: _raising(RuntimeError, lambda: GONE + 1)),
    (5, lambda draw: _raising(TypeError, lambda: _two(X))),
    (3, lambda draw: _raising(TypeError, lambda: X + object())),
    (2, lambda draw: _raising(TypeError, lambda: _fails(X, jnp.ones(3)))),
    (2, lambda draw: _raising(IndexError, lambda: M[0, 0, 0])),
    (1, lambda draw: _bad_callback()),
    (2, lambda draw: jnp.ones(draw.choice(SIZES)) * 2),
    (1, lambda draw: pyjax.jit(lambda v: v + 1)(X)),  # a new function
    (1, lambda draw: pyjax.grad(lambda v: (v * v).sum())(X)),
    (1, lambda draw: pyjax.vmap(lambda v: v * 2)(M)),
    (1, lambda draw: pyjax.make_jaxpr(lambda v: v * 2)(X)),
]
_HELD = [
    *(X, Y, M, I, HOST, TREE, TREE["a"], LAYER, BIG, KEY),
    *(X.spec, M.spec, type(X), _two, _tree, Pair, Layer),
]


class Counts(NamedTuple):
    references: list[int]
    objects: int
    arrays: int
    resident: int

    @classmethod
    def now(cls) -> Counts:
        _long(BIG).block_until_ready()
        gc.collect()
        gc.collect()  # what finalizers of the first left
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
        return cls(
            [sys.getrefcount(x) for x in _HELD],
            len(gc.get_objects()),
            len(pyjax.live_arrays()),
            pages * 4096,
        )


def _calls(draw: random.Random, count: int) -> None:
    kinds, weights = [call for _, call in CALLS], [often for often, _ in CALLS]
    for call in draw.choices(kinds, weights, k=count):
        call(draw)


def main() -> None:
    seed, seconds = work.arguments()
    draw = random.Random(seed)
    end = time.monotonic() + seconds
    for _, call in CALLS:
        for _ in range(30):
            call(draw)
    for size in SIZES:
        for _ in range(60):  # until it is compiled for this size
            jnp.ones(size) * 2
    _calls(draw, 10 * _AT_ONCE)
    before, made = Counts.now(), 0
    while made < COUNT and (made < 3 * _AT_ONCE or time.monotonic() < end):
        _calls(draw, _AT_ONCE)
        made += _AT_ONCE
    after = Counts.now()
    grown = max(b - a for a, b in zip(before.references, after.references))
    mebibytes = (after.resident - before.resident) / 2**20
    said = (
        f"{made} calls: {grown} references, {after.objects - before.objects} objects, "
        f"{after.arrays - before.arrays} arrays, {mebibytes:.1f} MiB more"
    )
    print(said)
    assert grown < _REFERENCES, [b - a for a, b in zip(before.references, after.references)]
    assert after.objects - before.objects < _OBJECTS, said
    assert after.arrays - before.arrays < _ARRAYS, said
    assert after.resident - before.resident < _BYTES, said


if __name__ == "__main__":
    main()
