"""The basic distributions. Bits equal JAX's for the same key: each function uses the key the same
way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax._config import options
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.errors import new_error
from pyjax.core.symbolic_dims import checked_size
from pyjax.numpy.util import (
    axis_items,
    canonicalize_axis,
    check_arraylike,
    promote_dtypes_inexact,
)
from pyjax.random.keys import laid_out, random_bits, scalar_key, split

Array = Any
Shape = Sequence[int]


def float_dtype(name: str, dtype: Any) -> np.dtype:
    """The floating dtype of a result (default: float32, or float64 with x64).

    Raises:
      ValueError: not a floating dtype.
    """
    kind = dtypes.canonicalize_dtype(np.float64 if dtype is None else dtype)
    if not dtypes.issubdtype(kind, np.floating):
        raise new_error(ValueError, f"{name} needs a floating dtype, got {kind}")
    return kind


def as_shape(name: str, shape: Any) -> tuple[int, ...]:
    """A shape argument as a tuple of ints.

    Raises:
      TypeError: not integers (a traced size, say).
    """
    try:
        return tuple(checked_size(n) for n in axis_items(shape))
    except (AttributeError, TypeError):
        raise new_error(
            TypeError,
            f"the shape of {name} must be integers known while tracing, got {shape!r}; "
            "mark the argument it comes from static",
        ) from None


def result_shape(name: str, shape: Shape | None, *params: Any) -> tuple[int, ...]:
    """`shape`, or the parameters' broadcast shape; the parameters must fit into it."""
    joint = np.broadcast_shapes(*(np.shape(p) for p in params))
    if shape is None:
        return joint
    shape = as_shape(name, shape)
    fits = len(joint) <= len(shape) and all(
        n in (1, m) for n, m in zip(reversed(joint), reversed(shape))
    )
    if not fits:
        raise new_error(
            ValueError,
            f"{name}: the shape {shape} does not fit parameters of broadcast shape {joint}",
        )
    return shape


@laid_out
def uniform(
    key: Any,
    shape: Shape = (),
    dtype: Any = None,
    minval: Any = 0.0,
    maxval: Any = 1.0,
    *,
    out_sharding: Any = None,
) -> Array:
    """Uniform floats in [minval, maxval).

    Args:
      key: a single key.  shape: of the result.  dtype: floating, default float.
      minval, maxval: broadcastable to `shape`.

    >>> bool((uniform(key(1), (3,)) < 1).all())
    True
    """
    kind = float_dtype("uniform", dtype)
    return _uniform(scalar_key("uniform", key), as_shape("uniform", shape), kind, minval, maxval)


@partial(jit, static_argnames=("shape", "dtype"))
def _uniform(key: Array, shape: Shape, dtype: np.dtype, minval: Any, maxval: Any) -> Array:
    low = lax.convert_element_type(minval, dtype)
    high = lax.convert_element_type(maxval, dtype)
    low, high = (
        jnp.broadcast_to(v, (1,) * (len(shape) - jnp.ndim(v)) + jnp.shape(v)) for v in (low, high)
    )
    info = dtypes.finfo(dtype)
    # The mantissa filled with random bits under the exponent of 1 gives [1, 2). Types with a short
    # mantissa draw 8 bits.
    width = 8 if info.nmant < 8 else info.bits
    unsigned = np.dtype(f"uint{info.bits}")
    bits = random_bits(key, width, shape)
    bits = lax.shift_right_logical(bits, np.array(width - info.nmant, bits.dtype))
    one = np.array(1.0, dtype).view(unsigned)
    filled = lax.bitwise_or(lax.convert_element_type(bits, unsigned), one)
    floats = lax.bitcast_convert_type(filled, dtype) - np.array(1.0, dtype)
    # Rounding may fall below minval: the maximum restores the promise.
    return lax.max(jnp.broadcast_to(low, shape), floats * (high - low) + low)


@laid_out
def randint(
    key: Any,
    shape: Shape,
    minval: Any,
    maxval: Any,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Integers in [minval, maxval), uniform up to a bias below 2**-32.

    Args:
      minval, maxval: numbers broadcastable to `shape`, of which those that are no integers are
        converted to int; where maxval ≤ minval the result is minval.
      dtype: integer, default int.

    >>> randint(key(0), (5,), 0, 10)
    Array([9, 0, 2, 3, 1], dtype=int32)
    """
    kind = dtypes.canonicalize_dtype(np.int64 if dtype is None else dtype)
    if not dtypes.issubdtype(kind, np.integer):
        raise new_error(TypeError, f"randint makes integers, got dtype {kind}")
    check_arraylike("randint", minval, maxval)
    minval, maxval = (
        bound
        if dtypes.issubdtype(dtypes.dtype(bound), np.integer)
        else lax.convert_element_type(bound, int)
        for bound in (minval, maxval)
    )
    return _randint(scalar_key("randint", key), as_shape("randint", shape), minval, maxval, kind)


@partial(jit, static_argnames=("shape", "dtype"))
def _randint(key: Array, shape: Shape, minval: Any, maxval: Any, dtype: np.dtype) -> Array:
    info = dtypes.iinfo(dtype)
    lowest, highest = int(info.min), int(info.max)
    limit = _convert_clipped(highest, minval, maxval)
    above = lax.gt(jnp.asarray(maxval), limit.astype(jnp.asarray(maxval).dtype))
    # Smaller types are drawn in 32 bits too: in 8 bits the bias would be as large as 1 in 256.
    wide = np.dtype(dtype if info.bits >= 32 else f"{dtype.kind}4")
    low = _clip_convert(minval, lowest, highest, wide)
    high = _clip_convert(maxval, lowest, highest, wide)
    low, high = (
        jnp.broadcast_to(v, (1,) * (len(shape) - jnp.ndim(v)) + jnp.shape(v)) for v in (low, high)
    )
    width = 8 * wide.itemsize
    unsigned = np.dtype(f"uint{width}")
    first, second = split(key)
    higher, lower = random_bits(first, width, shape), random_bits(second, width, shape)
    span = lax.convert_element_type(high - low, unsigned)
    # An empty range gives minval.
    span = jnp.where(high <= low, np.ones((), unsigned), span)
    # maxval one beyond the dtype's largest value was clipped: the range is one longer.
    span = jnp.where(above & (high > low), span + np.ones((), unsigned), span)
    # 2**width mod span, without overflow: the square of 2**(width/2) mod span.
    half = jnp.remainder(np.array(2 ** (width // 2), unsigned), span)
    multiplier = lax.rem(half * half, span)
    span_full, multiplier_full = (jnp.broadcast_to(v, shape) for v in (span, multiplier))
    offset = lax.rem(higher, span_full) * multiplier_full + lax.rem(lower, span_full)
    offset = lax.rem(offset, span_full)
    drawn = jnp.broadcast_to(low, shape) + lax.convert_element_type(offset, wide)
    return lax.convert_element_type(drawn, dtype)


def _convert_clipped(highest: int, *bounds: Any) -> Array:
    """The dtype's largest value in the widest type of the bounds, clipped to it."""
    kind = np.result_type(*(np.dtype(dtypes.dtype(b)) for b in bounds))
    return jnp.asarray(np.array(min(highest, int(np.iinfo(kind).max)), kind))


def _clip_convert(value: Any, lowest: int, highest: int, dtype: np.dtype) -> Array:
    value = jnp.asarray(value)
    info = np.iinfo(value.dtype)
    if int(info.min) < lowest or int(info.max) > highest:
        value = jnp.clip(value, max(lowest, int(info.min)), min(highest, int(info.max)))
    return lax.convert_element_type(value, dtype)


@laid_out
def normal(key: Any, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Standard normal values; complex ones have variance 1/2 in each part.

    >>> normal(key(0), (3,)).shape
    (3,)
    """
    kind = dtypes.canonicalize_dtype(np.float64 if dtype is None else dtype)
    if not dtypes.issubdtype(kind, np.inexact):
        raise new_error(ValueError, f"normal needs a floating or complex dtype, got {kind}")
    return _normal(scalar_key("normal", key), as_shape("normal", shape), kind)


@partial(jit, static_argnames=("shape", "dtype"))
def _normal(key: Array, shape: Shape, dtype: np.dtype) -> Array:
    if dtypes.issubdtype(dtype, np.complexfloating):
        key_real, key_imag = split(key)
        real = dtypes.finfo(dtype).dtype
        root_half = np.array(1 / math.sqrt(2), dtype)
        parts = [_normal_real(k, shape, real).astype(dtype) for k in (key_real, key_imag)]
        return root_half * (parts[0] + 1j * parts[1])
    return _normal_real(key, shape, dtype)


def _normal_real(key: Array, shape: Shape, dtype: np.dtype) -> Array:
    low = np.nextafter(np.array(-1.0, dtype), np.array(0.0, dtype), dtype=dtype)
    u = uniform(key, shape, dtype, low, np.array(1.0, dtype))
    return np.array(math.sqrt(2), dtype) * lax.erf_inv(u)


@laid_out
def bernoulli(
    key: Any,
    p: Any = 0.5,
    shape: Shape | None = None,
    mode: str = "low",
    *,
    out_sharding: Any = None,
) -> Array:
    """Booleans that are True with probability `p`.

    `mode`: "low" compares one uniform value with p; "high" uses two, for probabilities below
      2**-23.

    >>> bernoulli(key(0), 0.5, (4,)).dtype
    dtype('bool')
    """
    if mode not in ("low", "high"):
        raise new_error(ValueError, f"mode must be 'low' or 'high', got {mode!r}")
    check_arraylike("bernoulli", p)
    kind = dtypes.canonicalize_dtype(lax.dtype(p))
    if not dtypes.issubdtype(kind, np.floating):
        raise new_error(TypeError, f"bernoulli needs a floating probability, got {kind}")
    probability = lax.convert_element_type(p, kind)
    target = result_shape("bernoulli", shape, probability)
    return _bernoulli(scalar_key("bernoulli", key), probability, target, mode)


@partial(jit, static_argnames=("shape", "mode"))
def _bernoulli(key: Array, p: Array, shape: Shape, mode: str) -> Array:
    if mode == "high":
        # 46 bits: the second value decides within the first one's granule.
        coarse, fine = uniform(key, (2, *shape), lax.dtype(p))
        return fine * np.array(dtypes.finfo(p.dtype).eps, p.dtype) < p - coarse
    return uniform(key, shape, lax.dtype(p)) < p


@laid_out
def exponential(
    key: Any, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Exponential with rate 1: density exp(-x) for x ≥ 0.

    >>> abs(exponential(key(0), (10_000,)).mean() - 1) < 0.05
    Array(True, dtype=bool)
    """
    kind = float_dtype("exponential", dtype)
    return _exponential(scalar_key("exponential", key), as_shape("exponential", shape), kind)


_exponential = jit(
    lambda key, shape, dtype: -jnp.log1p(-uniform(key, shape, dtype)),
    static_argnames=("shape", "dtype"),
)


@laid_out
def gumbel(
    key: Any,
    shape: Shape = (),
    dtype: Any = None,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Standard Gumbel: -log(-log(u)).

    `mode`: "low" (default) uses one uniform value; "high" two, which reaches the far tail.

    >>> gumbel(key(0), (2, 3)).shape
    (2, 3)
    """
    if mode not in (None, "low", "high"):
        raise new_error(ValueError, f"mode must be 'low' or 'high', got {mode!r}")
    kind = float_dtype("gumbel", dtype)
    return _gumbel(
        scalar_key("gumbel", key), as_shape("gumbel", shape), kind, mode or _gumbel_mode()
    )


def _gumbel_mode() -> str:
    return "high" if options.high_dynamic_range_gumbel.value else "low"


@partial(jit, static_argnames=("shape", "dtype", "mode"))
def _gumbel(key: Array, shape: Shape, dtype: np.dtype, mode: str) -> Array:
    tiny = dtypes.finfo(dtype).tiny
    if mode == "high":
        # The second value fills in the digits that the first has not, where they count.
        coarse, fine = uniform(key, (2, *shape), dtype)
        small = coarse + np.array(dtypes.finfo(dtype).eps, dtype) * fine + tiny
        return -jnp.log(-jnp.log1p(-jnp.where(coarse >= 0.5, coarse, small)))
    return -jnp.log(-jnp.log(uniform(key, shape, dtype, minval=tiny, maxval=1.0)))


@laid_out
def truncated_normal(
    key: Any,
    lower: Any,
    upper: Any,
    shape: Shape | None = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Standard normal restricted to (lower, upper).

    >>> (abs(truncated_normal(key(0), -1.0, 1.0, (100,))) <= 1).all()
    Array(True, dtype=bool)
    """
    kind = float_dtype("truncated_normal", dtype)
    target = result_shape("truncated_normal", shape, lower, upper)
    return _truncated_normal(scalar_key("truncated_normal", key), lower, upper, target, kind)


@partial(jit, static_argnames=("shape", "dtype"))
def _truncated_normal(key: Array, lower: Any, upper: Any, shape: Shape, dtype: np.dtype) -> Array:
    root2 = np.array(math.sqrt(2), dtype)
    lower = lax.convert_element_type(lower, dtype)
    upper = lax.convert_element_type(upper, dtype)
    a, b = lax.erf(lower / root2), lax.erf(upper / root2)
    out = root2 * lax.erf_inv(uniform(key, shape, dtype, minval=a, maxval=b))
    # erf_inv may round onto a bound: the interval is open.
    return jnp.clip(
        out,
        lax.nextafter(lax.stop_gradient(lower), np.array(np.inf, dtype)),
        lax.nextafter(lax.stop_gradient(upper), np.array(-np.inf, dtype)),
    )


@laid_out
def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Shape | None = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Indices drawn with probability softmax(logits) along `axis` (Gumbel-max).

    Args:
      logits: unnormalised log probabilities.
      shape: of the result; must end with the batch shape (logits' shape without `axis`).
      replace: False draws distinct indices.

    >>> categorical(key(0), jnp.log(jnp.array([0.0, 1.0, 0.0])))
    Array(1, dtype=int32)
    """
    check_arraylike("categorical", logits)
    logits = jnp.asarray(logits)
    axis = canonicalize_axis(axis, logits.ndim)
    batch = logits.shape[:axis] + logits.shape[axis + 1 :]
    target = batch if shape is None else as_shape("categorical", shape)
    prefix = target[: len(target) - len(batch)]
    if target[len(prefix) :] != batch:
        raise new_error(
            ValueError,
            f"categorical: shape {target} must end with the batch shape {batch} of the logits",
        )
    scalar = scalar_key("categorical", key)
    if replace:
        noise = gumbel(scalar, prefix + logits.shape, logits.dtype, mode=mode)
        return jnp.argmax(
            noise + jnp.expand_dims(logits, tuple(range(len(prefix)))), axis=len(prefix) + axis
        )
    count = math.prod(prefix)
    if count > logits.shape[axis]:
        raise new_error(
            ValueError, f"cannot draw {count} distinct indices from {logits.shape[axis]} categories"
        )
    scores = logits + gumbel(scalar, logits.shape, logits.dtype, mode=mode)
    _, indices = lax.top_k(jnp.moveaxis(scores, axis, -1), count)
    return jnp.moveaxis(indices, -1, 0).reshape(target)


@laid_out
def permutation(
    key: Any,
    x: Any,
    axis: int = 0,
    independent: bool = False,
    *,
    out_sharding: Any = None,
) -> Array:
    """A random order of `x` along `axis`; an integer n stands for arange(n).

    `independent`: every slice along `axis` gets an order of its own.

    >>> permutation(key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int32)
    """
    scalar = scalar_key("permutation", key)
    check_arraylike("permutation", x)
    if not np.ndim(x):
        if not dtypes.issubdtype(dtypes.dtype(x), np.integer):
            raise new_error(TypeError, f"permutation takes an array or an integer, got {x!r}")
        return _shuffle(scalar, jnp.arange(int(x)), 0)
    x = jnp.asarray(x)
    axis = canonicalize_axis(axis, x.ndim)
    # Random keys are moved, not sorted along.
    if (independent or x.ndim == 1) and not dtypes.is_extended(x.dtype):
        return _shuffle(scalar, x, axis)
    if independent and x.ndim > 1:
        order = lax.broadcasted_iota(np.dtype(np.int32), x.shape, axis)
        return jnp.take_along_axis(x, _shuffle(scalar, order, axis), axis)
    order = _shuffle(scalar, jnp.arange(x.shape[axis]), 0)
    return jnp.take(x, order, axis, unique_indices=True)


@partial(jit, static_argnames="axis")
def _shuffle(key: Array, x: Array, axis: int) -> Array:
    # Sorting by random keys; repeated so that ties of 32-bit keys leave no visible bias.
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, subkey = split(key)
        _, x = lax.sort_key_val(random_bits(subkey, 32, x.shape), x, axis)
    return x


def choice(
    key: Any,
    a: Any,
    shape: Shape = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Random elements of `a` along `axis`; an integer n stands for arange(n).

    Args:
      shape: how many.
      replace: False draws each element at most once.
      p: probabilities along `axis`, default equal.
    Raises:
      ValueError: `a` is empty, more elements are wanted than there are, or `p` has another size.

    >>> sorted(choice(key(0), jnp.arange(3), (3,), replace=False).tolist())
    [0, 1, 2]
    """
    scalar = scalar_key("choice", key)
    shape = as_shape("choice", shape)
    check_arraylike("choice", a)
    array = jnp.asarray(a) if np.ndim(a) else None
    if array is None:
        size = int(a)
    else:
        axis = canonicalize_axis(axis, array.ndim)
        size = array.shape[axis]
    count = math.prod(shape)
    if size <= 0 and count:
        raise new_error(ValueError, "choice: there is nothing to choose from")
    if not replace and count > size:
        raise new_error(
            ValueError,
            f"choice: cannot draw {count} elements from {size} without replacement",
            "With replace=False each element is drawn once at most.",
            "replace=True, or fewer elements.",
        )
    if p is None:
        if not replace:
            if array is not None and array.ndim == 1:
                drawn = permutation(scalar, array)[:count]
                return drawn.reshape(shape)
            index = permutation(scalar, size)[:count].reshape(shape)
        else:
            index = randint(scalar, shape, 0, size)
    else:
        (p,) = promote_dtypes_inexact(jnp.asarray(p))
        if p.shape != (size,):
            raise new_error(
                ValueError, f"choice: p has shape {p.shape}, but there are {size} elements"
            )
        if replace:
            cumulative = jnp.cumsum(p)
            level = cumulative[-1] * (1 - uniform(scalar, shape, dtype=cumulative.dtype))
            index = jnp.searchsorted(cumulative, level).astype(int)
        else:
            scores = gumbel(scalar, (size,), dtype=p.dtype, mode=mode) + jnp.log(p)
            index = lax.top_k(scores, count)[1].reshape(shape)
    return index if array is None else jnp.take(array, index, axis=axis)


@laid_out
def rademacher(
    key: Any, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """+1 or -1 with equal probability (default dtype int).

    >>> jnp.unique(rademacher(key(0), (100,)))
    Array([-1,  1], dtype=int32)
    """
    kind = dtypes.canonicalize_dtype(np.int64 if dtype is None else dtype)
    flips = bernoulli(scalar_key("rademacher", key), 0.5, as_shape("rademacher", shape))
    return (2 * flips.astype(kind) - 1).astype(kind)
