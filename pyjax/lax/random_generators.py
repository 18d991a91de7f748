"""What random keys are made of and how they give bits: threefry2x32, threefry4x32, philox2x32,
philox4x32, rbg and unsafe_rbg.

The words of a key array of shape s are uint32[*s, *key_shape]. The functions of an implementation
work on them for any leading shape, so batching is built in.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyjax._config import options
from pyjax.core.array import Array
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.lax.arithmetic import mul
from pyjax.lax.bitwise import bitwise_and, bitwise_xor, shift_right_logical
from pyjax.lax.common import aval_of, shape_of
from pyjax.lax.convert import convert_element_type
from pyjax.lax.creation import broadcasted_iota, iota
from pyjax.lax.nary import expand_to, stretch
from pyjax.lax.random_bits import UINT32, UINT_OF_WIDTH, rng_bit_generator
from pyjax.lax.random_hashes import (
    counters,
    hash_pairs,
    join_words,
    philox2x32_p,
    philox4x32_p,
    threefry2x32_p,
    threefry4x32_p,
    u32,
)
from pyjax.lax.shape import reshape, squeeze, transpose
from pyjax.lax.shape_extra import stack, unstack
from pyjax.lax.shape_join import concatenate, cut


class PRNGImpl(NamedTuple):
    """An implementation of keys.

    Attributes:
      key_shape: shape of one key's uint32 words.
      seed: integers[*s] -> words[*s, *key_shape].
      split: words[*s, *key_shape], shape -> words[*s, *shape, *key_shape].
      random_bits: words[*s, *key_shape], bit width, shape -> unsigned[*s, *shape].
      fold_in: words[*s, *key_shape], uint32[*s] -> words[*s, *key_shape].
      name, tag: long name, and the short one of `key<tag>`.
    """

    key_shape: tuple[int, ...]
    seed: Callable[..., Array]
    split: Callable[..., Array]
    random_bits: Callable[..., Array]
    fold_in: Callable[..., Array]
    name: str
    tag: str

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, PRNGImpl) and tuple(self) == tuple(other))

    def __reduce__(self) -> Any:
        # Implementations with a name are there wherever this is read; others go with it.
        if prngs.get(self.name) is self:
            return _known, (self.name,)
        return PRNGImpl, tuple(self)

    def __repr__(self) -> str:
        return self.tag

    def __str__(self) -> str:
        return self.tag


prngs: dict[str, PRNGImpl] = {}


def _known(name: str) -> PRNGImpl:
    return prngs[name]


def register_prng(impl: PRNGImpl) -> None:
    """Make an implementation known under its name.

    Raises:
      ValueError: the name is taken.
    """
    if impl.name in prngs:
        fail(ValueError, f"PRNG with name {impl.name} already registered: {prngs[impl.name]}")
    prngs[impl.name] = impl


# -- threefry2x32 ----------------------------------------------------------------------------------


def _words(keys: Array) -> list[Array]:
    """The key words, each of the key array's shape."""
    return list(unstack(keys, -1))


def _seed_words(seeds: Array) -> tuple[Array, Array]:
    """The two halves of a 64-bit seed; the high one is 0 for narrower seeds."""
    wide = aval_of(seeds).dtype.itemsize == 8
    low = convert_element_type(seeds, UINT32)
    if wide:
        shift = np.asarray(32, aval_of(seeds).dtype)
        high = convert_element_type(shift_right_logical(seeds, shift), UINT32)
    else:
        high = expand_to(u32(0), shape_of(seeds), ())
    return high, low


def _threefry_seed(seeds: Array) -> Array:
    return stack(_seed_words(seeds), -1)


def _outer(words: Array, extra: int) -> Array:
    """Append `extra` dimensions of size 1; a single key's words stay scalar."""
    shape = shape_of(words)
    return reshape(words, (*shape, *(1,) * extra)) if shape else words


def _over_keys(block: Array, key_shape: tuple[int, ...]) -> Array:
    """Prepend dimensions of size 1 for the key array's shape."""
    shape = shape_of(block)
    return reshape(block, ((1,) * len(key_shape) + shape)) if shape else block


def _hash_counters(
    primitive: Primitive, keys: Array, counts: Sequence[Any], shape: tuple[int, ...]
) -> list[Array]:
    """The words of the hash for every key, and for every element of counters of `shape`."""
    words = _words(keys)
    outer = shape_of(words[0])
    outs = primitive.bind(
        *[_outer(w, len(shape)) for w in words], *[_over_keys(c, outer) for c in counts]
    )
    return [stretch(o, (*outer, *shape)) for o in outs]


def _per_key(function: Callable[..., Array], keys: Array, result_shape: tuple[int, ...]) -> Array:
    """Apply a function of one key's words to each key (for layouts that do not broadcast)."""
    outer = shape_of(keys)[:-1]
    if not outer:
        return function(*_words(keys))
    flat = unstack(reshape(keys, (math.prod(outer), 2)))
    return reshape(stack([function(*_words(k)) for k in flat]), (*outer, *result_shape))


def _threefry_split(keys: Array, shape: tuple[int, ...]) -> Array:
    if options.threefry_partitionable.value:
        return stack(_hash_counters(threefry2x32_p, keys, counters(shape), shape), -1)
    count = 2 * math.prod(shape)
    return _per_key(
        lambda k1, k2: reshape(hash_pairs(k1, k2, iota(UINT32, count)), (*shape, 2)),
        keys,
        (*shape, 2),
    )


def _narrowed(words: Array, bit_width: int, size: int) -> Array:
    """Cut 32-bit words into narrower pieces, least significant first."""
    pieces = 32 // bit_width
    shifts = mul(broadcasted_iota(UINT32, (pieces, 1), 0), np.asarray(bit_width, UINT32))
    rows = shift_right_logical(reshape(words, (1, shape_of(words)[0])), shifts)
    masked = bitwise_and(rows, np.asarray(2**bit_width - 1, UINT32))
    flat = reshape(transpose(masked, (1, 0)), (pieces * shape_of(words)[0],))
    return convert_element_type(cut(flat, 0, size, 0), UINT_OF_WIDTH[bit_width])


def _original_bits(key1: Array, key2: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    size = math.prod(shape)
    count = -(-bit_width * size // 32)
    words = hash_pairs(key1, key2, iota(UINT32, count))
    if bit_width == 64:
        high, low = unstack(reshape(words, (2, size)))
        flat = join_words(high, low, UINT_OF_WIDTH[64])
    elif bit_width == 32:
        flat = words
    else:
        flat = _narrowed(words, bit_width, size)
    return reshape(flat, shape)


def _threefry_bits(keys: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    if not options.threefry_partitionable.value:
        return _per_key(lambda k1, k2: _original_bits(k1, k2, bit_width, shape), keys, shape)
    bits1, bits2 = _hash_counters(threefry2x32_p, keys, counters(shape), shape)
    dtype = UINT_OF_WIDTH[bit_width]
    if bit_width == 64:
        return join_words(bits1, bits2, dtype)
    return convert_element_type(bitwise_xor(bits1, bits2), dtype)


def _threefry_fold_in(keys: Array, data: Array) -> Array:
    key1, key2 = _words(keys)
    return stack(threefry2x32_p.bind(key1, key2, np.asarray(0, UINT32), data), -1)


threefry_prng_impl = PRNGImpl(
    (2,), _threefry_seed, _threefry_split, _threefry_bits, _threefry_fold_in, "threefry2x32", "fry"
)
register_prng(threefry_prng_impl)

# -- threefry4x32, philox2x32, philox4x32 ----------------------------------------------------------


class _Layout(NamedTuple):
    """How an implementation hashes a pair of words, by where zeros stand beside them.

    Attributes:
      hash: of words of a key, and as many words of counters as it gives words.
      key_words: how many words a key has.
      of_seed: the operands of the hash for a seed.
      of_key: the counters that new keys are hashes of.
      of_bits: the counters that bits are hashes of.
      halves: which words make the high, which the low half of 64 bits.
    """

    hash: Primitive
    key_words: int
    of_seed: Callable[[Any, Any], Sequence[Any]]
    of_key: Callable[[Any, Any], Sequence[Any]]
    of_bits: Callable[[Any, Any], Sequence[Any]]
    halves: tuple[tuple[int, ...], tuple[int, ...]]


_ZERO = u32(0)


def _exclusive_or(words: Sequence[Array]) -> Array:
    return functools.reduce(bitwise_xor, words)


def _layout_seed(layout: _Layout, seeds: Array) -> Array:
    words = layout.hash.bind(*layout.of_seed(*_seed_words(seeds)))
    return stack(words[: layout.key_words], -1)


def _layout_split(layout: _Layout, keys: Array, shape: tuple[int, ...]) -> Array:
    words = _hash_counters(layout.hash, keys, layout.of_key(*counters(shape)), shape)
    return stack(words[: layout.key_words], -1)


def _layout_fold_in(layout: _Layout, keys: Array, data: Array) -> Array:
    words = layout.hash.bind(*_words(keys), *layout.of_key(_ZERO, data))
    return stack(words[: layout.key_words], -1)


def _layout_bits(layout: _Layout, keys: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    words = _hash_counters(layout.hash, keys, layout.of_bits(*counters(shape)), shape)
    if bit_width == 64:
        high, low = (_exclusive_or([words[i] for i in half]) for half in layout.halves)
        return join_words(high, low, UINT_OF_WIDTH[64])
    return convert_element_type(_exclusive_or(words), UINT_OF_WIDTH[bit_width])


def _registered(name: str, tag: str, layout: _Layout) -> PRNGImpl:
    impl = PRNGImpl(
        (layout.key_words,),
        functools.partial(_layout_seed, layout),
        functools.partial(_layout_split, layout),
        functools.partial(_layout_bits, layout),
        functools.partial(_layout_fold_in, layout),
        name,
        tag,
    )
    register_prng(impl)
    return impl


threefry4x32_prng_impl = _registered(
    "threefry4x32",
    "fry4",
    _Layout(
        threefry4x32_p,
        key_words=4,
        of_seed=lambda high, low: (high, low, *[_ZERO] * 6),
        of_key=lambda high, low: (_ZERO, _ZERO, high, low),
        of_bits=lambda high, low: (high, low, _ZERO, _ZERO),
        halves=((0, 2), (1, 3)),
    ),
)
philox2x32_prng_impl = _registered(
    "philox2x32",
    "phx2",
    _Layout(
        philox2x32_p,
        key_words=1,
        of_seed=lambda high, low: (_ZERO, high, low),
        of_key=lambda high, low: (high, low),
        of_bits=lambda high, low: (high, low),
        halves=((0,), (1,)),
    ),
)
philox4x32_prng_impl = _registered(
    "philox4x32",
    "phx4",
    _Layout(
        philox4x32_p,
        key_words=2,
        of_seed=lambda high, low: (_ZERO, _ZERO, high, low, _ZERO, _ZERO),
        of_key=lambda high, low: (_ZERO, _ZERO, high, low),
        of_bits=lambda high, low: (high, low, _ZERO, _ZERO),
        halves=((0,), (1,)),
    ),
)

# -- rbg, unsafe_rbg -------------------------------------------------------------------------------


def _halves(keys: Array) -> tuple[Array, Array]:
    """A four-word key is a pair of threefry keys."""
    axis = len(shape_of(keys)) - 1
    return cut(keys, 0, 2, axis), cut(keys, 2, 4, axis)


def _joined(first: Array, second: Array) -> Array:
    return concatenate([first, second], len(shape_of(first)) - 1)


def _rbg_seed(seeds: Array) -> Array:
    half = _threefry_seed(seeds)
    return _joined(half, half)


def _rbg_split(keys: Array, shape: tuple[int, ...]) -> Array:
    return _joined(*[_threefry_split(half, shape) for half in _halves(keys)])


def _rbg_fold_in(keys: Array, data: Array) -> Array:
    return _joined(*[_threefry_fold_in(half, data) for half in _halves(keys)])


def _rbg_bits(keys: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    """Bits for an array of keys all come from its first key: what JAX's rbg does under vmap."""
    outer = shape_of(keys)[:-1]
    first = keys
    for _ in outer:
        first = squeeze(cut(first, 0, 1, 0), (0,))
    return rng_bit_generator(first, (*outer, *shape), UINT_OF_WIDTH[bit_width])[1]


def _unsafe_rbg_split(keys: Array, shape: tuple[int, ...]) -> Array:
    """Every tenth row of generated words; the generator's rounds take the part of a hash."""
    outer = shape_of(keys)[:-1]
    count = math.prod(shape)
    drawn = _rbg_bits(keys, 32, (count, 10, 4))
    axis = len(outer) + 1
    return reshape(squeeze(cut(drawn, 0, 1, axis), (axis,)), (*outer, *shape, 4))


def _unsafe_rbg_fold_in(keys: Array, data: Array) -> Array:
    hashed = _rbg_bits(_rbg_seed(data), 32, (10, 4))
    axis = len(shape_of(hashed)) - 2
    return bitwise_xor(keys, squeeze(cut(hashed, 9, 10, axis), (axis,)))


rbg_prng_impl = PRNGImpl((4,), _rbg_seed, _rbg_split, _rbg_bits, _rbg_fold_in, "rbg", "rbg")
unsafe_rbg_prng_impl = PRNGImpl(
    (4,), _rbg_seed, _unsafe_rbg_split, _rbg_bits, _unsafe_rbg_fold_in, "unsafe_rbg", "urbg"
)
register_prng(rbg_prng_impl)
register_prng(unsafe_rbg_prng_impl)
