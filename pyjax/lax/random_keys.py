"""Typed random keys: the primitives on key arrays.

A key array of shape s is stored as uint32[*s, *key_shape]; what is done with these words is said by
its implementation (random_generators.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
from pyjax.lax.common import (
    aval_of,
    broadcast_result_shape,
    canonical_shape,
    identity_lowering,
    is_integer,
    shape_of,
)
from pyjax.lax.convert import convert_element_type
from pyjax.lax.nary import define, expand_to, nary_batching, stretch
from pyjax.lax.random_bits import UINT32, UINT_OF_WIDTH
from pyjax.lax.random_generators import PRNGImpl

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
            f"{impl.key_shape} for {impl.name}, got {words.str_short()}",
        )
    return [ShapedArray(words.shape[: len(words.shape) - n], KeyDType(impl))]


random_wrap_p: Primitive = _define_on_keys(
    "random_wrap",
    _wrap_aval,
    identity_lowering,
    lambda axis_size, args, dims, *, impl: (
        random_wrap_p.bind_all(move_bdim(args[0], dims[0], 0), impl=impl),
        [0],
    ),
)
random_unwrap_p: Primitive = _define_on_keys(
    "random_unwrap",
    lambda keys: [ShapedArray((*keys.shape, *_key_aval("random_unwrap", keys).key_shape), UINT32)],
    identity_lowering,
    lambda axis_size, args, dims: (random_unwrap_p.bind_all(move_bdim(args[0], dims[0], 0)), [0]),
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
    lambda axis_size, args, dims, **params: _batch_first(random_split_p.bind_all)(
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
    lambda axis_size, args, dims, **params: _batch_first(random_bits_p.bind_all)(
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
    lambda axis_size, args, dims: nary_batching(random_fold_in_p.bind_all)(axis_size, args, dims),
)
random_clone_p: Primitive = _define_on_keys(
    "random_clone", lambda keys: [keys], identity_lowering, elementwise_batching
)

# -- functions -------------------------------------------------------------------------------------


def _seed_array(seeds: ArrayLike) -> Any:
    """Python ints as int64, or the low half of that without 64-bit types."""
    if not isinstance(seeds, int):
        return seeds
    if not -(2**63) <= seeds < 2**63:
        fail(
            OverflowError,
            f"the seed {int(seeds)} does not fit into int64.",
            fix="a seed is an integer from -2**63 to 2**63 - 1; numpy.uint64(seed) goes further.",
        )
    word = np.asarray(seeds, np.int64)
    return word if options.enable_x64.value else word.astype(np.int32)


def random_seed(seeds: ArrayLike, impl: PRNGImpl) -> Array:
    """Keys from integers: one key for each.

    >>> random_seed(jnp.array([0, 1]), threefry_prng_impl).shape
    (2,)
    """
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
