"""Random keys: making, splitting, folding in data, and their bits.

A typed key (`key(seed)`) is a scalar array of a key dtype; a raw key (`PRNGKey(seed)`) is its
uint32 data. All functions take both; raw keys belong to the default implementation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

import pyjax.numpy as jnp
from pyjax._config import options
from pyjax.core import dtypes
from pyjax.core.avals import is_valid_value
from pyjax.core.errors import new_error
from pyjax.core.extended_dtypes import KeyDType
from pyjax.core.source_info import warn_user
from pyjax.lax import key_movement as key_movement  # lets data movement take keys
from pyjax.lax import random_keys
from pyjax.lax.random_generators import PRNGImpl, prngs
from pyjax.lax.reshard import laid_out_as
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import axis_items

Array = Any


def resolve_impl(impl: Any) -> PRNGImpl:
    """An implementation: None is the configured one; else a name, a key dtype or the implementation
    itself.

    Raises:
      ValueError: unknown name.  TypeError: none of these.
    """
    if impl is None:
        impl = options.default_prng_impl.value
    if isinstance(impl, PRNGImpl):
        return impl
    if isinstance(impl, KeyDType):
        return impl.impl
    if not isinstance(impl, str):
        raise new_error(
            TypeError,
            f"{impl!r} says no PRNG implementation",
            "one is given by its name, by the dtype of its keys, or by itself",
            f"the names are {', '.join(prngs)}",
        )
    found = prngs.get(impl)
    if found is None:
        raise new_error(
            ValueError, f"unknown PRNG implementation {impl!r}; known: {', '.join(prngs)}"
        )
    return found


def _implementation(name: str, impl: Any, dtype: Any) -> PRNGImpl:
    """That which one of the arguments `impl` and `dtype` of a function gives.

    Raises:
      ValueError: both are given.
    """
    if impl is not None and dtype is not None:
        raise new_error(
            ValueError,
            f"{name} got both impl={impl!r} and dtype={dtype!r}",
            "each of them alone says of which implementation the keys are",
            f"pyjax.random.{name}(..., impl={impl!r})",
        )
    return resolve_impl(dtype if impl is None else impl)


def _is_typed(key: Any) -> bool:
    return hasattr(key, "dtype") and dtypes.issubdtype(key.dtype, dtypes.prng_key)


def typed_key(name: str, key: Any) -> tuple[Array, bool]:
    """A key argument in typed form, and whether it came in raw form.

    Raises:
      TypeError: neither a typed key nor uint32 data of the right shape.
    """
    if _is_typed(key):
        return key, False
    possible = isinstance(key, (list, tuple)) or is_valid_value(key)
    if not possible or isinstance(key, (bool, int, float)):
        raise _bad_key(name, key, f"got {key!r}")
    data = jnp.asarray(key)
    shape = resolve_impl(None).key_shape
    _check_raw_is_allowed(name)
    if data.dtype != np.uint32 or data.shape[data.ndim - len(shape) :] != shape:
        raise _bad_key(name, key, f"got {data.aval.str_short()}")
    return random_keys.random_wrap(data, impl=resolve_impl(None)), True


def _check_raw_is_allowed(name: str) -> None:
    """As jax_legacy_prng_key says of raw keys."""
    mode = options.legacy_prng_key.value
    if mode == "allow":
        return
    error = new_error(
        ValueError,
        f"Legacy uint32 key array passed as key to jax.random function {name}",
        f"the option jax_legacy_prng_key is {mode!r}",
        "make keys with pyjax.random.key(seed), or raw data into one with "
        "pyjax.random.wrap_key_data(data); pyjax.legacy_prng_key('allow') takes raw keys",
    )
    if mode == "error":
        raise error
    warn_user(str(error))


def _bad_key(name: str, key: Any, got: str) -> TypeError:
    shape = resolve_impl(None).key_shape
    return new_error(
        TypeError,
        f"{name} needs a random key, {got}",
        f"a key is made by pyjax.random.key(seed), or is raw uint32{list(shape)} data",
        f"pyjax.random.{name}(pyjax.random.key(0), ...), with a new key for each use",
    )


def _is_refused(key: Any) -> bool:
    """Whether each call raises or warns for a key, which a program would do once, or not at all."""
    if _is_typed(key):
        return False
    return options.legacy_prng_key.value != "allow" or not getattr(key, "shape", ())


# A decorator of functions whose first argument is a key: outside of transformations they are one
# program.
drawing_program = functools.partial(one_program, otherwise=_is_refused)


def scalar_key(name: str, key: Any) -> Array:
    """A single typed key.

    Raises:
      ValueError: a batch of keys.
    """
    typed, _ = typed_key(name, key)
    if typed.ndim:
        raise new_error(
            ValueError,
            f"{name} takes a single key, got an array of keys with shape {typed.shape}",
            "One call draws from one key.",
            f"Use pyjax.vmap(pyjax.random.{name}, ...) over it, or pick one with keys[i].",
        )
    return typed


def _checked_seed(seed: Any) -> Any:
    """Python ints as they are, everything else as an array, with the offset of all seeds added."""
    offset = options.random_seed_offset.value
    if isinstance(seed, int):
        return seed + offset
    array = jnp.asarray(seed)
    if not dtypes.issubdtype(array.dtype, np.integer):
        raise new_error(TypeError, f"a seed must be an integer, got {array.aval.str_short()}")
    if array.ndim:
        raise new_error(
            TypeError,
            f"a seed must be a scalar, got {array.aval.str_short()}; "
            "use pyjax.vmap(pyjax.random.key)",
        )
    return array + offset if offset else array


_Draw = TypeVar("_Draw", bound=Callable[..., Any])


def laid_out(draw: _Draw) -> _Draw:
    """A function whose keyword `out_sharding` says how its result is laid out over a mesh: a
    NamedSharding, or a PartitionSpec for the mesh in context. One of an empty mesh, as
    `typeof(x).sharding` is where no mesh is in use, says nothing.
    """

    @functools.wraps(draw)
    def drawn(*args: Any, out_sharding: Any = None, **kwargs: Any) -> Any:
        return laid_out_as(draw.__name__, draw(*args, **kwargs), out_sharding)

    return drawn  # type: ignore[return-value]


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Array:
    """A typed random key from an integer seed.

    Args:
      seed: integer scalar. Of Python ints the low 32 bits count, or 64 bits with x64.
      impl: "threefry2x32" (default), "threefry4x32", "philox2x32", "philox4x32", "rbg",
        "unsafe_rbg", a key dtype, or what pyjax.extend.random.define_prng_impl returned.
      dtype: the same, in another place.
    Raises:
      TypeError: the seed is not an integer scalar.  ValueError: unknown implementation, or both
        `impl` and `dtype`.  OverflowError: a Python int that does not fit into int64.

    >>> key(0).shape
    ()
    """
    return random_keys.random_seed(_checked_seed(seed), impl=_implementation("key", impl, dtype))


def PRNGKey(seed: Any, *, impl: Any = None) -> Array:
    """A raw random key: the uint32 data of `key(seed)`. New programs should use `key`.

    With the option jax_enable_custom_prng it is a typed key.

    >>> PRNGKey(7).tolist()
    [0, 7]
    """
    typed = key(seed, impl=impl)
    return typed if options.enable_custom_prng.value else key_data(typed)


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Array:
    """Typed keys from their uint32 data, whose trailing dimensions are one key's.

    Args:
      key_bits_array: an array of uint32 (of JAX or NumPy).
      impl, dtype: one of both, as for `key`.
    Raises:
      TypeError: no array, no uint32, or trailing dimensions that are not those of a key.
      ValueError: unknown implementation, or both `impl` and `dtype`.

    >>> wrap_key_data(np.array([0, 7], np.uint32)) == key(7)
    Array(True, dtype=bool)
    """
    chosen = _implementation("wrap_key_data", impl, dtype)
    if not hasattr(key_bits_array, "dtype"):
        raise new_error(
            TypeError,
            f"wrap_key_data needs an array, got {key_bits_array!r}",
            "key data is uint32, and a Python number or list has no such type",
            f"pyjax.random.wrap_key_data(numpy.array(..., 'uint32')), of shape [..., "
            f"{', '.join(map(str, chosen.key_shape))}]",
        )
    return random_keys.random_wrap(jnp.asarray(key_bits_array), impl=chosen)


def key_data(keys: Any) -> Array:
    """uint32 data of keys: the keys' shape followed by one key's shape; raw keys are returned as
    they are.

    >>> key_data(key(7))
    Array([0, 7], dtype=uint32)
    """
    if _is_typed(keys):
        return random_keys.random_unwrap(keys)
    typed_key("key_data", keys)
    return jnp.asarray(keys)


def key_impl(keys: Any) -> str | PRNGImpl:
    """The implementation of keys, as the functions that make keys take it: its name, or itself if
    it has not been registered under a name (pyjax.extend.random.define_prng_impl).

    >>> key_impl(key(0, impl="rbg"))
    'rbg'
    """
    typed, _ = typed_key("key_impl", keys)
    impl: PRNGImpl = typed.dtype.impl
    return impl.name if impl.name in prngs and prngs[impl.name] is impl else impl


def key_dtype(impl_spec: Any = None) -> Any:
    """The dtype of typed keys of an implementation (default: the configured one).

    >>> key_dtype("threefry2x32")
    key<fry>
    """
    return KeyDType(resolve_impl(impl_spec))


def split(key: Any, num: int | tuple[int, ...] = 2) -> Array:
    """New keys from one: use each key once, and split it to get more.

    Args:
      key: a single key.
      num: how many, or the shape of the array of keys.
    Returns:
      Keys of shape (num,) (or `num`), typed or raw like `key`.

    >>> split(PRNGKey(0)).tolist()
    [[1797259609, 2579123966], [928981903, 3453687069]]
    """
    typed, raw = typed_key("split", key)
    scalar = scalar_key("split", typed)
    shape = tuple(num) if isinstance(num, (tuple, list)) else (int(num.__index__()),)
    keys = random_keys.random_split(scalar, shape=shape)
    return random_keys.random_unwrap(keys) if raw else keys


def fold_in(key: Any, data: Any) -> Array:
    """A new key that depends on `key` and a scalar (a step or device number, say).

    Args:
      key: a single key.
      data: converted to uint32.
    Raises:
      OverflowError: a Python int that does not fit into uint32.
      TypeError: not a scalar.  ValueError: a batch of keys.

    >>> key_data(fold_in(key(0), 1))
    Array([ 928981903, 3453687069], dtype=uint32)
    """
    typed, raw = typed_key("fold_in", key)
    scalar = scalar_key("fold_in", typed)
    if isinstance(data, int):
        if not 0 <= data < 2**32:
            raise OverflowError(
                f"fold_in: {data} does not fit into uint32; fold in data % 2**32, or a number of "
                "each half of it"
            )
        data = np.uint32(data)
    number = jnp.asarray(data)
    if number.ndim:
        raise new_error(
            TypeError, f"fold_in takes a scalar, got {number.aval.str_short()}; use pyjax.vmap"
        )
    folded = random_keys.random_fold_in(scalar, number.astype(np.uint32))
    return random_keys.random_unwrap(folded) if raw else folded


def clone(key: Any) -> Array:
    """The same key again, marked as unused for the key-reuse check. Raw keys, which that check
    does not follow, are returned as they are, whatever jax_legacy_prng_key says of them.

    >>> bits(clone(key(0))) == bits(key(0))
    Array(True, dtype=bool)
    """
    if not _is_typed(key):
        with options.legacy_prng_key("allow"):
            typed_key("clone", key)
        return jnp.asarray(key)
    return random_keys.random_clone(key)


@laid_out
def bits(
    key: Any, shape: tuple[int, ...] = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Uniformly distributed bits as unsigned integers (default uint32).

    >>> bits(key(0), (2,))
    Array([4070199207, 4202968722], dtype=uint32)
    """
    kind = np.dtype(np.uint32) if dtype is None else dtypes.canonicalize_dtype(dtype)
    if not dtypes.issubdtype(kind, np.unsignedinteger):
        raise new_error(ValueError, f"bits makes unsigned integers, got dtype {kind}")
    return random_bits(scalar_key("bits", key), kind.itemsize * 8, axis_items(shape)).astype(kind)


def random_bits(scalar: Array, width: int, shape: Sequence[int]) -> Array:
    """`width` random bits per element, from a single typed key."""
    return random_keys.random_bits(scalar, bit_width=width, shape=tuple(shape))
