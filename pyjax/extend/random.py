"""Implementations of random keys: those that there are, and those that users define."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.api.vmap import vmap
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.lax.random_bits import UINT_OF_WIDTH
from pyjax.lax.random_generators import PRNGImpl
from pyjax.lax.random_generators import rbg_prng_impl as rbg_prng_impl
from pyjax.lax.random_generators import threefry_prng_impl as threefry_prng_impl
from pyjax.lax.random_generators import unsafe_rbg_prng_impl as unsafe_rbg_prng_impl
from pyjax.lax.random_hashes import hash_pairs
from pyjax.lax.random_hashes import threefry2x32_p as threefry2x32_p
from pyjax.lax.random_keys import random_seed as random_seed
from xla_backend.process.light_dataclasses import dataclass


@dataclass(frozen=True)
class _OfEach:
    """A user's function of one key, as a function of an array of keys: mapped over its dimensions.

    Attributes:
      role: which of the functions of an implementation it is.
      function: of an array whose last dimensions are one key's, and of more arguments.
      inner: how many dimensions one key's array has.
      mapped: how many arguments are arrays with one element for each key; others are the same
        for all of them.
      key_shape: shape of one key's array.
    """

    role: str
    function: Callable[..., Any]
    inner: int
    mapped: int
    key_shape: tuple[int, ...]

    def __call__(self, *args: Any) -> Array:
        rest = args[self.mapped :]

        def one(*arrays: Any) -> Array:
            return self._checked(self.function(*arrays, *rest), rest)

        function = one
        for _ in range(np.ndim(args[0]) - self.inner):
            function = vmap(function)
        return function(*args[: self.mapped])

    def _checked(self, result: Any, rest: tuple[Any, ...]) -> Array:
        array = jnp.asarray(result)
        dtype, shape = np.dtype(np.uint32), self.key_shape
        if self.role == "random_bits":
            dtype, shape = UINT_OF_WIDTH[rest[0]], tuple(rest[1])
        elif self.role == "split":
            shape = (*rest[0], *shape)
        if array.dtype != dtype or array.shape != shape:
            raise new_error(
                TypeError,
                f"the {self.role} of a PRNG implementation returned {array.aval.str_short()}",
                f"here it must return {dtype}{list(shape)}",
                "see pyjax.extend.random.define_prng_impl for what each function takes and returns",
            )
        return array


def define_prng_impl(
    *,
    key_shape: tuple[int, ...],
    seed: Callable[[Array], Array],
    split: Callable[[Array, tuple[int, ...]], Array],
    random_bits: Callable[[Array, int, tuple[int, ...]], Array],
    fold_in: Callable[[Array, Array], Array],
    name: str = "<unnamed>",
    tag: str = "?",
) -> PRNGImpl:
    """An implementation of random keys, for the argument `impl` of `pyjax.random.key` and
    `wrap_key_data`. Its functions are of one key, and are mapped over arrays of keys.

    Args:
      key_shape: shape of the uint32 data of one key.
      seed: integer scalar -> uint32[*key_shape].
      split: uint32[*key_shape], shape -> uint32[*shape, *key_shape].
      random_bits: uint32[*key_shape], bit width (8, 16, 32 or 64), shape -> unsigned integers of
        that width and shape.
      fold_in: uint32[*key_shape], uint32 scalar -> uint32[*key_shape].
      name: what `key_impl` and messages call it. It is not registered under that name.
      tag: what stands in the dtype of its keys, key<tag>.
    Returns:
      An implementation: hashable, and equal to another one of the same functions and names.
    Raises:
      TypeError: when a function is called that returns another shape or dtype.

    >>> import pyjax
    >>> impl = define_prng_impl(
    ...     key_shape=(1,),
    ...     seed=lambda seed: seed.astype("uint32").reshape(1),
    ...     split=lambda key, shape: key + jnp.arange(np.prod(shape)).astype("uint32").reshape(
    ...         *shape, 1),
    ...     random_bits=lambda key, width, shape: jnp.full(shape, key[0], f"uint{width}"),
    ...     fold_in=lambda key, data: key + data,
    ...     tag="count",
    ... )
    >>> pyjax.random.split(pyjax.random.key(3, impl=impl))
    Array((2,), dtype=key<count>) overlaying:
    [[3]
     [4]]
    """
    shape = tuple(int(n) for n in key_shape)
    ndim = len(shape)
    return PRNGImpl(
        shape,
        _OfEach("seed", seed, 0, 1, shape),
        _OfEach("split", split, ndim, 1, shape),
        _OfEach("random_bits", random_bits, ndim, 1, shape),
        _OfEach("fold_in", fold_in, ndim, 2, shape),
        name,
        tag,
    )


def seed_with_impl(impl: PRNGImpl, seed: int | ArrayLike) -> Array:
    """Keys of an implementation from integers: `random_seed` with its arguments the other way
    round.

    >>> seed_with_impl(threefry_prng_impl, 7).shape
    ()
    """
    return random_seed(seed, impl)


def threefry_2x32(keypair: Sequence[ArrayLike] | Array, count: ArrayLike) -> Array:
    """The threefry2x32 hash of an array of counters, whose first half, in row-major order, is
    paired with its second half (padded by one 0 if odd).

    Args:
      keypair: two uint32 scalars, or uint32[2].
      count: uint32 of any shape.
    Returns:
      uint32 of the shape of `count`.
    Raises:
      TypeError: an argument is not uint32.

    >>> threefry_2x32(np.zeros(2, np.uint32), np.zeros(2, np.uint32)).tolist()
    [1797259609, 2579123966]
    """
    key1, key2 = keypair
    operands = [jnp.asarray(x) for x in (key1, key2, count)]
    if any(x.dtype != np.uint32 for x in operands):
        raise new_error(
            TypeError,
            f"threefry_2x32 got {', '.join(str(x.dtype) for x in operands)}",
            "words of keys and counters are uint32",
            "convert each of them, as in count.astype('uint32')",
        )
    first, second, counters = operands
    if not counters.size:
        return counters
    return hash_pairs(first, second, counters.reshape(-1)).reshape(counters.shape)
