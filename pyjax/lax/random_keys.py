"""Typed random keys: their implementations (threefry2x32, rbg, unsafe_rbg) and the primitives on
key arrays.

A key array of shape s is stored as uint32[*s, *key_shape]. The functions of an implementation work
on that storage, for any leading shape, so batching is built in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyjax._config import options
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.extended_dtypes import KeyDType
from pyjax.core.primitive import Primitive
from pyjax.interpreters.batching import elementwise_batching, move_bdim
from pyjax.interpreters.hlo import lower_fun
from pyjax.interpreters.rules import ZERO_TANGENT, Unsupported
from pyjax.lax.arithmetic import mul
from pyjax.lax.bitwise import bitwise_and, bitwise_xor, shift_right_logical
from pyjax.lax.common import (
    aval_of,
    broadcast_result_shape,
    canonical_shape,
    identity_lowering,
    is_integer,
    shape_of,
)
from pyjax.lax.convert import convert_element_type
from pyjax.lax.creation import broadcasted_iota, iota
from pyjax.lax.nary import define, expand_to, nary_batching, stretch
from pyjax.lax.random_bits import (
    UINT32,
    UINT_OF_WIDTH,
    counters,
    hash_pairs,
    join_words,
    rng_bit_generator,
    threefry2x32_p,
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

    def __repr__(self) -> str:
        return self.tag

    def __str__(self) -> str:
        return self.tag


prngs: dict[str, PRNGImpl] = {}


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


def _threefry_seed(seeds: Array) -> Array:
    """The two halves of a 64-bit seed; the high one is 0 for narrower seeds."""
    wide = aval_of(seeds).dtype.itemsize == 8
    low = convert_element_type(seeds, UINT32)
    if wide:
        shift = np.asarray(32, aval_of(seeds).dtype)
        high = convert_element_type(shift_right_logical(seeds, shift), UINT32)
    else:
        high = expand_to(np.asarray(0, UINT32), shape_of(seeds), ())
    return stack([high, low], -1)


def _outer(words: Array, extra: int) -> Array:
    """Append `extra` dimensions of size 1; a single key's words stay scalar."""
    shape = shape_of(words)
    return reshape(words, (*shape, *(1,) * extra)) if shape else words


def _over_keys(block: Array, key_shape: tuple[int, ...]) -> Array:
    """Prepend dimensions of size 1 for the key array's shape."""
    shape = shape_of(block)
    return reshape(block, ((1,) * len(key_shape) + shape)) if shape else block


def _hash_counters(keys: Array, shape: tuple[int, ...]) -> list[Array]:
    """Both hash words for every key and every index of `shape`."""
    key1, key2 = _words(keys)
    outer = shape_of(key1)
    high, low = counters(shape)
    outs = threefry2x32_p.bind(
        _outer(key1, len(shape)), _outer(key2, len(shape)), high, _over_keys(low, outer)
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
        return stack(_hash_counters(keys, shape), -1)
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
    bits1, bits2 = _hash_counters(keys, shape)
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

# -- primitives on key arrays ----------------------------------------------------------------------


def _key_aval(name: str, aval: ShapedArray) -> PRNGImpl:
    """The implementation of a key operand."""
    if not dtypes.issubdtype(aval.dtype, dtypes.prng_key):
        fail(
            TypeError,
            f"{name} requires a typed key array, got {aval.str_short()}.",
            fix="make keys with pyjax.random.key, or wrap raw ones with "
            "pyjax.random.wrap_key_data.",
        )
    return aval.dtype.impl


def _seed_aval(seeds: ShapedArray, *, impl: PRNGImpl) -> list[ShapedArray]:
    if not is_integer(seeds.dtype):
        fail(TypeError, f"PRNG key seed must be an integer; got {seeds.str_short()}")
    return [ShapedArray(seeds.shape, KeyDType(impl))]


def _batch_first(bind: Callable[..., list[Any]]) -> Callable[..., Any]:
    def rule(axis_size: int, args: Any, dims: Any, **params: Any) -> Any:
        return bind(move_bdim(args[0], dims[0], 0), **params), [0]

    return rule


def _define_on_keys(name: str, abstract_eval: Any, function: Any, batching: Any) -> Any:
    return define(
        name,
        abstract_eval=abstract_eval,
        jvp=ZERO_TANGENT,
        transpose=Unsupported("random keys carry no gradient"),
        batching=batching,
        lowering=function if function is identity_lowering else lower_fun(function),
    )


def _wrap_aval(words: ShapedArray, *, impl: PRNGImpl) -> list[ShapedArray]:
    n = len(impl.key_shape)
    if words.dtype != UINT32 or words.shape[len(words.shape) - n :] != impl.key_shape:
        fail(
            TypeError,
            "JAX encountered invalid PRNG key data: expected uint32 with trailing shape "
            f"{impl.key_shape} "
            f"for {impl.name}, got {words.str_short()}",
        )
    return [ShapedArray(words.shape[: len(words.shape) - n], KeyDType(impl))]


random_wrap_p: Primitive = _define_on_keys(
    "random_wrap",
    _wrap_aval,
    identity_lowering,
    lambda axis_size, args, dims, *, impl: (
        random_wrap_p.bind(move_bdim(args[0], dims[0], 0), impl=impl),
        [0],
    ),
)
random_unwrap_p: Primitive = _define_on_keys(
    "random_unwrap",
    lambda keys: [ShapedArray((*keys.shape, *_key_aval("random_unwrap", keys).key_shape), UINT32)],
    identity_lowering,
    lambda axis_size, args, dims: (random_unwrap_p.bind(move_bdim(args[0], dims[0], 0)), [0]),
)


def _impl_of(keys: Array) -> PRNGImpl:
    return aval_of(keys).dtype.impl


def _wrapped(words: Array, impl: PRNGImpl) -> Array:
    return random_wrap_p.bind1(words, impl=impl)


def _unwrapped(keys: Array) -> Array:
    return random_unwrap_p.bind1(keys)


random_seed_p: Primitive = _define_on_keys(
    "random_seed",
    _seed_aval,
    lambda seeds, *, impl: _wrapped(impl.seed(seeds), impl),
    elementwise_batching,
)
random_split_p: Primitive = _define_on_keys(
    "random_split",
    lambda keys, *, shape: [
        ShapedArray((*keys.shape, *shape), KeyDType(_key_aval("random_split", keys)))
    ],
    lambda keys, *, shape: _wrapped(_impl_of(keys).split(_unwrapped(keys), shape), _impl_of(keys)),
    lambda axis_size, args, dims, **params: _batch_first(random_split_p.bind)(
        axis_size, args, dims, **params
    ),
)


def _bits_aval(keys: ShapedArray, *, bit_width: int, shape: tuple[int, ...]) -> list[ShapedArray]:
    _key_aval("random_bits", keys)
    return [ShapedArray((*keys.shape, *shape), UINT_OF_WIDTH[bit_width])]


random_bits_p: Primitive = _define_on_keys(
    "random_bits",
    _bits_aval,
    lambda keys, *, bit_width, shape: _impl_of(keys).random_bits(
        _unwrapped(keys), bit_width, shape
    ),
    lambda axis_size, args, dims, **params: _batch_first(random_bits_p.bind)(
        axis_size, args, dims, **params
    ),
)


def _fold_in_aval(keys: ShapedArray, data: ShapedArray) -> list[ShapedArray]:
    impl = _key_aval("random_fold_in", keys)
    if data.dtype != UINT32:
        fail(TypeError, f"random_fold_in requires uint32 data, got {data.str_short()}.")
    return [ShapedArray(broadcast_result_shape("random_fold_in", (keys, data)), KeyDType(impl))]


def _fold_in(keys: Array, data: Array) -> Array:
    impl = _impl_of(keys)
    shape = broadcast_result_shape("random_fold_in", (aval_of(keys), aval_of(data)))
    words = _unwrapped(keys)
    if shape_of(keys) != shape:
        words = expand_to(words, (*shape, *impl.key_shape), _aligned(shape_of(keys), shape))
    return _wrapped(impl.fold_in(words, stretch(data, shape)), impl)


def _aligned(have: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Where the dimensions of stretched key words go: equal ranks, or a scalar key."""
    return (*range(len(have)), len(shape))


random_fold_in_p: Primitive = _define_on_keys(
    "random_fold_in",
    _fold_in_aval,
    _fold_in,
    lambda axis_size, args, dims: nary_batching(random_fold_in_p.bind)(axis_size, args, dims),
)
random_clone_p: Primitive = _define_on_keys(
    "random_clone", lambda keys: [keys], identity_lowering, elementwise_batching
)

# -- functions -------------------------------------------------------------------------------------


def _seed_array(seeds: ArrayLike) -> Any:
    if isinstance(seeds, (int, np.integer)) and not isinstance(seeds, bool):
        if not -(2**63) <= int(seeds) < 2**64:
            fail(OverflowError, f"the seed {seeds} does not fit into 64 bits.")
        word = np.asarray(int(seeds) & (2**64 - 1), np.uint64)
        if options.enable_x64.value:
            return word.view(np.int64)
        return word.astype(np.uint32).view(np.int32)
    return seeds


def random_seed(seeds: ArrayLike, impl: PRNGImpl) -> Array:
    """Keys from integers: one key for each."""
    return random_seed_p.bind1(_seed_array(seeds), impl=impl)


def random_split(keys: Array, shape: Sequence[int]) -> Array:
    """New keys of shape [*keys.shape, *shape]."""
    return random_split_p.bind1(keys, shape=canonical_shape(shape))


def random_fold_in(keys: Array, data: ArrayLike) -> Array:
    """New keys from keys and integers."""
    if not hasattr(data, "aval"):
        data = np.asarray(np.asarray(data).astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)
    return random_fold_in_p.bind1(keys, convert_element_type(data, UINT32))


def random_bits(keys: Array, bit_width: int, shape: Sequence[int]) -> Array:
    """Uniform bits as unsigned integers of shape [*keys.shape, *shape]; width 8, 16, 32 or 64."""
    if bit_width not in UINT_OF_WIDTH:
        fail(TypeError, f"requires 8-, 16-, 32- or 64-bit field width, got {bit_width}.")
    return random_bits_p.bind1(keys, bit_width=bit_width, shape=canonical_shape(shape))


def random_wrap(words: ArrayLike, impl: PRNGImpl) -> Array:
    """A key array from its uint32 words."""
    return random_wrap_p.bind1(words, impl=impl)


def random_unwrap(keys: Array) -> Array:
    """The uint32 words of a key array."""
    return random_unwrap_p.bind1(keys)


def random_clone(keys: Array) -> Array:
    """The same keys, counted as unused."""
    return random_clone_p.bind1(keys)
