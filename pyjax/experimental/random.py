"""Random numbers from a generator that keeps its state, as NumPy's do."""

from __future__ import annotations

import operator
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import random as keys
from pyjax.core.refs import Ref
from pyjax.core.tree_util import register_pytree_node
from pyjax.lax.refs.access import addupdate, get, new_ref

Array = Any
ArrayLike = Any
Size = int | Sequence[int] | None


def _shape(size: Size) -> tuple[int, ...]:
    if size is None:
        return ()
    return (operator.index(size),) if not isinstance(size, Sequence) else tuple(size)


class StatefulPRNG:
    """A key and a counter, which is a reference: each call counts on, also inside jit.

    Make one with `stateful_rng`.

    >>> rng = stateful_rng(0)
    >>> isinstance(rng, StatefulPRNG), bool(rng.key() == rng.key())
    (True, False)
    """

    def __init__(self, _base_key: Array, _counter: Ref) -> None:
        self._base_key = _base_key
        self._counter = _counter

    def __repr__(self) -> str:
        return f"StatefulPRNG(_base_key={self._base_key!r}, _counter={self._counter!r})"

    def key(self, shape: int | Sequence[int] = ()) -> Array:
        """A new key, or an array of them."""
        wanted = _shape(shape)
        key = keys.fold_in(self._base_key, get(self._counter, ...))
        addupdate(self._counter, ..., jnp.ones((), self._counter.dtype))
        return keys.split(key, wanted) if wanted else key

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """Generators for mapped functions: their keys and counters have these dimensions."""
        wanted = _shape(num)
        return StatefulPRNG(self.key(wanted), new_ref(jnp.zeros(wanted, self._counter.dtype)))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """Independent generators."""
        return [
            StatefulPRNG(key, new_ref(jnp.zeros((), self._counter.dtype)))
            for key in self.key(n_children)
        ]

    def random(self, size: Size = None, dtype: Any = float) -> Array:
        """Uniform in [0, 1)."""
        return keys.uniform(self.key(), _shape(size), dtype)

    def uniform(
        self, low: ArrayLike = 0, high: ArrayLike = 1, size: Size = None, *, dtype: Any = float
    ) -> Array:
        """Uniform in [low, high)."""
        shape = _broadcast(size, low, high)
        return keys.uniform(self.key(), shape, dtype, low, high)

    def normal(
        self, loc: ArrayLike = 0, scale: ArrayLike = 1, size: Size = None, *, dtype: Any = float
    ) -> Array:
        """Of a normal distribution with this mean and standard deviation."""
        drawn = keys.normal(self.key(), _broadcast(size, loc, scale), dtype)
        return drawn * jnp.asarray(scale, drawn.dtype) + jnp.asarray(loc, drawn.dtype)

    def integers(
        self,
        low: ArrayLike,
        high: ArrayLike | None = None,
        size: Size = None,
        *,
        dtype: Any = int,
    ) -> Array:
        """Integers from low, or 0 if `high` is left out, up to and without high."""
        low, high = (0, low) if high is None else (low, high)
        return keys.randint(self.key(), _broadcast(size, low, high), low, high, dtype)


def _broadcast(size: Size, *args: ArrayLike) -> tuple[int, ...]:
    return np.broadcast_shapes(*map(np.shape, args)) if size is None else _shape(size)


register_pytree_node(
    StatefulPRNG,
    lambda rng: ((rng._base_key, rng._counter), None),
    lambda _, parts: StatefulPRNG(*parts),
)


def stateful_rng(seed: ArrayLike | None = None, *, impl: Any = None) -> StatefulPRNG:
    """A generator.

    Args:
      seed: an integer; None: one from the operating system.   impl: as `random.key` takes it.

    >>> rng = stateful_rng(0)
    >>> first, second = rng.random(), rng.random()
    >>> bool(first != second), bool(first == stateful_rng(0).random())
    (True, True)
    """
    number = secrets.randbits(31) if seed is None else seed
    return StatefulPRNG(keys.key(number, impl=impl), new_ref(jnp.zeros((), int)))


__all__ = ["StatefulPRNG", "stateful_rng"]
