"""Arrays from nothing: iota, full, full_like, empty, and triangular and diagonal masks."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.manual_types import without_sums
from pyjax.core.structural import as_split, pvary, random_wrap_p
from pyjax.interpreters.rules import ZERO_TANGENT, Unsupported, define_primitive
from pyjax.lax.arithmetic import add
from pyjax.lax.common import (
    NUMBER,
    aval_of,
    canonical_dtype,
    canonical_shape,
    is_floating,
    is_integer,
    shape_of,
)
from pyjax.lax.compare import eq, ge
from pyjax.lax.convert import convert, convert_element_type, wide_integer
from pyjax.lax.nary import expand_to
from pyjax.lax.out_sharding import out_sharding_of, where_it_lies
from pyjax.lax.sharding_lowering import lay_out
from pyjax.runtime.placement import result_on

# -- iota ------------------------------------------------------------------------------------------


def _iota_aval(
    *, dtype: np.dtype, shape: tuple[int, ...], dimension: int, sharding: Any
) -> list[ShapedArray]:
    if dtype not in NUMBER:
        fail(
            TypeError,
            f"iota does not accept dtype {dtype}. Accepted dtypes are subtypes of integer, "
            "floating, complexfloating.",
        )
    if not 0 <= dimension < len(shape):
        fail(
            ValueError,
            f"iota dimension must be between 0 and len(shape), got dimension={dimension} for "
            f"shape {shape}.",
        )
    return [ShapedArray(shape, dtype, sharding=sharding)]


def _no_operands(*args: Any, **params: Any) -> Any:
    raise AssertionError("a primitive without operands is never batched or transposed")


iota_p = define_primitive(
    "iota",
    abstract_eval=_iota_aval,
    jvp=ZERO_TANGENT,
    transpose=Unsupported("iota has no operands"),
    batching=_no_operands,
    lowering=lambda ctx, *, dtype, shape, dimension, sharding: lay_out(
        ctx, ctx.builder.iota(ctx.shapes_out[0], dimension), sharding
    ),
)


def iota(dtype: Any, size: int) -> Array:
    """0, 1, ..., size - 1 as a vector of `dtype`.

    >>> lax.iota(jnp.int32, 4)
    Array([0, 1, 2, 3], dtype=int32)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(
    dtype: Any, shape: Sequence[int], dimension: int, *, out_sharding: Any = None
) -> Array:
    """An array of `shape` whose elements are their own index along `dimension`.

    Raises:
      TypeError: a negative size, or a bool dtype.   ValueError: `dimension` is out of range.

    >>> lax.broadcasted_iota(jnp.int32, (2, 3), 1)
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    return iota_p.bind1(
        dtype=np.dtype(canonical_dtype(dtype)),
        shape=canonical_shape(shape, "iota shape"),
        dimension=operator.index(dimension),
        sharding=None if out_sharding is None else out_sharding_of("iota", out_sharding),
    )


def iota_like(x: ArrayLike, dtype: Any, dimension: int) -> Array:
    """Places along a dimension of an array, split over mesh axes of type Explicit as it is."""
    return as_split(broadcasted_iota(dtype, shape_of(x), dimension), aval_of(x).split)


# -- full ------------------------------------------------------------------------------------------


def full(
    shape: Sequence[int], fill_value: ArrayLike, dtype: Any = None, *, sharding: Any = None
) -> Array:
    """An array filled with a scalar.

    Args:
      shape: sizes.  fill_value: scalar.  dtype: default is that of fill_value (weak for Python
        scalars). If it is one of random keys, a number fills all of their words.
      sharding: where the result lies; default the default device.
    Raises:
      TypeError: fill_value is not a scalar, or a size is not a nonnegative integer.

    >>> lax.full((2, 2), 7)
    Array([[7, 7],
           [7, 7]], dtype=int32, weak_type=True)
    """
    return result_on(_full(canonical_shape(shape, "full shape"), fill_value, dtype), sharding)


def _full(target: tuple[int, ...], fill_value: ArrayLike, dtype: Any) -> Array:
    if type(fill_value) is int and dtype is not None:
        fill_value = wide_integer(fill_value, canonical_dtype(dtype))
    aval = aval_of(fill_value)
    if aval.shape:
        fail(
            TypeError,
            f"full must be called with scalar fill_value, got fill_value.shape {aval.shape}.",
            fix="use lax.broadcast_in_dim, or jnp.full, which broadcasts.",
        )
    weak = dtype is None and aval.weak_type
    wanted = aval.dtype if dtype is None else canonical_dtype(dtype)
    if type(fill_value) is complex and (is_floating(wanted) or is_integer(wanted)):
        fail(
            TypeError,
            f"full got the complex fill_value {fill_value} for dtype {wanted}.",
            "the imaginary part would be lost",
            f"pass {fill_value}.real, or a complex dtype.",
        )
    if dtypes.is_extended(wanted) and not dtypes.is_extended(aval.dtype):
        words = full((*target, *wanted.key_shape), fill_value, wanted.physical_dtype)
        return random_wrap_p.bind1(words, impl=wanted.impl)
    if not hasattr(fill_value, "aval") and not weak:
        if wanted.kind in "iu" and isinstance(fill_value, (float, np.floating)):
            fill_value = _saturated(float(fill_value), wanted)
        fill_value = np.asarray(fill_value).astype(wanted)
    elif aval.dtype != wanted:
        fill_value = convert(fill_value, wanted, weak)
    return expand_to(fill_value, target, ())


def _saturated(value: float, dtype: np.dtype) -> int:
    """`value` as conversions of arrays convert it; NumPy's result depends on the processor."""
    info = np.iinfo(dtype)
    if math.isinf(value):
        return int(info.max if value > 0 else info.min)
    return 0 if math.isnan(value) else min(max(int(value), info.min), info.max)


def full_like(
    x: ArrayLike, fill_value: ArrayLike, dtype: Any = None, shape: Any = None, sharding: Any = None
) -> Array:
    """An array filled with a scalar, with x's shape and dtype unless given.

    >>> lax.full_like(jnp.arange(3), 7)
    Array([7, 7, 7], dtype=int32)
    """
    aval = aval_of(x)
    target = aval.shape if shape is None else canonical_shape(shape)
    weak = dtype is None and aval.weak_type
    result = full(target, fill_value, aval.dtype if dtype is None else dtype)
    result = convert(result, None if dtype is not None else aval.dtype, weak)
    split = without_sums(aval).split
    if sharding is None and split is not None and target == aval.shape:
        result = as_split(result, split)
    if sharding is None:
        sharding = where_it_lies(x, result, weak)
    return result_on(pvary(result, aval.vma) if aval.vma else result, sharding)


# -- empty -----------------------------------------------------------------------------------------

empty_p = define_primitive(
    "empty",
    abstract_eval=lambda *, shape, dtype, out_sharding: [
        ShapedArray(shape, dtype, sharding=out_sharding)
    ],
    jvp=ZERO_TANGENT,
    transpose=Unsupported("empty has no operands"),
    batching=_no_operands,
    lowering=lambda ctx, *, shape, dtype, out_sharding: lay_out(
        ctx, ctx.builder.full(ctx.shapes_out[0], 0), out_sharding
    ),
)


def empty(shape: Sequence[int], dtype: Any, *, out_sharding: Any = None) -> Array:
    """An array whose values are not specified (zeros at present).

    >>> lax.empty((2, 3), jnp.float32).shape
    (2, 3)
    """
    return empty_p.bind1(
        shape=canonical_shape(shape),
        dtype=canonical_dtype(dtype),
        out_sharding=None if out_sharding is None else out_sharding_of("empty", out_sharding),
    )


# -- masks -----------------------------------------------------------------------------------------


def _offset_rows(shape: tuple[int, int], offset: int, dtype: Any) -> tuple[Array, Array]:
    rows = add(broadcasted_iota(dtype, shape, 0), np.asarray(offset, dtype))
    return rows, broadcasted_iota(dtype, shape, 1)


def eye(dtype: Any, shape: Sequence[int], offset: int = 0) -> Array:
    """Ones on a diagonal of a matrix; offset > 0 is above the main one."""
    n, m = canonical_shape(shape)
    rows, columns = _offset_rows((n, m), operator.index(offset), np.int32)
    return convert_element_type(eq(rows, columns), dtype)


def tri(dtype: Any, shape: Sequence[int], offset: int = 0) -> Array:
    """Ones on and below a diagonal of a matrix."""
    n, m = canonical_shape(shape)
    rows, columns = _offset_rows((n, m), operator.index(offset), np.int32)
    return convert_element_type(ge(rows, columns), dtype)
