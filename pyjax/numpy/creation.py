"""Arrays from a shape or a range: zeros, full, eye, arange, linspace, meshgrid and relatives."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import numpy as np

from pyjax import lax
from pyjax._config import options
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array
from pyjax.core.avals import MeshArray
from pyjax.core.errors import ConcretizationTypeError, fail, new_error
from pyjax.core.manual_types import without_sums
from pyjax.core.structural import as_split, pvary
from pyjax.core.symbolic_dims import SymbolicDim, operation
from pyjax.core.trace import Tracer
from pyjax.core.traced_sizes import TracedSize, dimension_of
from pyjax.lax.out_sharding import where_it_lies
from pyjax.lax.reshard import result_as
from pyjax.numpy import util
from pyjax.numpy.array_constructors import asarray
from pyjax.numpy.eager import one_program
from pyjax.runtime.placement import result_on

__all__ = [
    "arange",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "geomspace",
    "identity",
    "indices",
    "linspace",
    "logspace",
    "meshgrid",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def _default_float(dtype: Any, name: str) -> Any:
    if dtype is None:
        return dtypes.canonicalize_dtype(np.float64)
    return util.check_user_dtype(dtype, name)


@one_program(0)
def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Array of zeros.

    Args:
      shape: int or sequence of ints, known at trace time.
      dtype: default float32 (float64 with x64 on).
      device: device or sharding of the result.
    Raises:
      TypeError: a size is traced or not an integer.  ValueError: a size is negative.
    >>> zeros((2, 3)).shape
    (2, 3)
    """
    shape = util.canonicalize_shape(shape)
    out = lax.full(shape, 0, _default_float(dtype, "zeros"))
    return result_as("zeros", out, device, out_sharding)


@one_program(0)
def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Array of ones; arguments as for `zeros`.

    >>> ones(3, int).tolist()
    [1, 1, 1]
    """
    shape = util.canonicalize_shape(shape)
    out = lax.full(shape, 1, _default_float(dtype, "ones"))
    return result_as("ones", out, device, out_sharding)


def empty(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Array of zeros: memory without a value does not exist here, so `empty` equals `zeros`.

    >>> jnp.empty((2, 3)).shape
    (2, 3)
    """
    return zeros(shape, dtype, device=device, out_sharding=out_sharding)


def full(
    shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """Array of `shape` filled with `fill_value`, which is broadcast to it.

    The dtype defaults to that of `fill_value` and is weak if `fill_value` is a Python scalar.
    >>> full((2, 2), 7).tolist()
    [[7, 7], [7, 7]]
    """
    util.check_arraylike("full", fill_value)
    dtype = util.check_user_dtype(dtype, "full")
    shape = util.canonicalize_shape(shape)
    if np.ndim(fill_value) == 0:
        out = lax.full(shape, util.to_jax(fill_value), dtype)
    else:
        out = util.broadcast_array(asarray(fill_value, dtype=dtype), shape)
    return result_as("full", out, device, out_sharding)


def _like(name: str, a: Any, dtype: Any, shape: Any) -> tuple[tuple[int, ...], Any, bool]:
    """Shape, dtype and weak type for a `*_like` function; `a` may be a ShapeDtypeStruct."""
    if not (hasattr(a, "dtype") and hasattr(a, "shape")):
        util.check_arraylike(name, a)
        a = util.to_jax(a)
    weak = dtype is None and dtypes.is_weakly_typed(a) and dtypes.dtype(a) != np.bool_
    shape = np.shape(a) if shape is None else util.canonicalize_shape(shape)
    if dtype is None:
        dtype = a.dtype if hasattr(a, "dtype") else dtypes.dtype(a)
        if not util.is_array(a):
            dtype = dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)
        return tuple(shape), dtype, weak
    return tuple(shape), util.check_user_dtype(dtype, name), weak


def _like_type_of(a: Any, out: Array) -> Array:
    """An array that is split as `a` is over mesh axes of type Explicit, and inside of shard_map of
    the type of those that vary along the axes along which `a` does."""
    aval = getattr(a, "aval", None)
    if type(aval) is not MeshArray:
        return out
    split = without_sums(aval).split
    if split is not None and aval.shape == out.shape:
        out = as_split(out, split)
    return pvary(out, aval.vma)


def _placed_like(
    name: str, a: Any, out: Array, weak: bool, device: Any, out_sharding: Any
) -> Array:
    """Where `a` was put, unless the user says otherwise."""
    if device is None and out_sharding is None:
        device = where_it_lies(a, out, weak)
    return result_as(name, out, device, out_sharding)


def zeros_like(
    a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """Zeros with the shape and dtype of `a` unless they are given, where `a` was put by
    device_put if they have its shape.

    >>> jnp.zeros_like(jnp.arange(3))
    Array([0, 0, 0], dtype=int32)
    """
    shape, dtype, weak = _like("zeros_like", a, dtype, shape)
    out = _like_type_of(a, util.convert(lax.full(shape, 0, dtype), dtype, weak))
    return _placed_like("zeros_like", a, out, weak, device, out_sharding)


def ones_like(
    a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """Ones with the shape and dtype of `a` unless they are given, where `a` was put by device_put
    if they have its shape.

    >>> jnp.ones_like(jnp.arange(3))
    Array([1, 1, 1], dtype=int32)
    """
    shape, dtype, weak = _like("ones_like", a, dtype, shape)
    out = _like_type_of(a, util.convert(lax.full(shape, 1, dtype), dtype, weak))
    return _placed_like("ones_like", a, out, weak, device, out_sharding)


def empty_like(
    prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None
) -> Array:
    """Same as `zeros_like` (see `empty`).

    >>> jnp.empty_like(jnp.ones((2, 3), bool)).dtype
    dtype('bool')
    """
    return zeros_like(prototype, dtype, shape, device=device)


def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """`fill_value` broadcast to the shape of `a`, in the dtype of `a`, unless they are given.

    >>> jnp.full_like(jnp.arange(3), 7)
    Array([7, 7, 7], dtype=int32)
    """
    util.check_arraylike("full_like", 0, fill_value)
    shape, dtype, weak = _like("full_like", a, dtype, shape)
    if np.ndim(fill_value) == 0:
        out = util.convert(lax.full(shape, util.to_jax(fill_value), dtype), dtype, weak)
        return _placed_like("full_like", a, _like_type_of(a, out), weak, device, out_sharding)
    out = _like_type_of(a, util.broadcast_array(asarray(fill_value, dtype=dtype), shape))
    return result_as("full_like", out, device, out_sharding)


def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = None, *, device: Any = None) -> Array:
    """Matrix with ones on diagonal `k` (0 main, positive above) and zeros elsewhere.

    >>> eye(2, 3, k=1).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    n = util.static_size(N, "N")
    m = n if M is None else util.static_size(M, "M")
    if n < 0 or m < 0:
        fail(
            ValueError,
            f"negative dimensions are not allowed, got {n} and {M}.",
            "A matrix has no negative number of rows or columns.",
            "Write the sizes, for example x.shape[0].",
        )
    shape = util.canonicalize_shape((n, m))
    dtype = _default_float(dtype, "eye")
    offset = util.convert(k, np.dtype(np.int32))
    rows = lax.add(lax.broadcasted_iota(np.int32, shape, 0), offset)
    columns = lax.broadcasted_iota(np.int32, shape, 1)
    return result_on(util.convert(lax.eq(rows, columns), dtype), device)


def identity(n: Any, dtype: Any = None) -> Array:
    """Square matrix with ones on the main diagonal.

    >>> jnp.identity(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=_default_float(dtype, "identity"))


# ---------------------------------------------------------------------------------------------
# Ranges


def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Evenly spaced values from `start` (default 0) up to, not including, `stop`.

    Args:
      start, stop, step: concrete numbers (the length is a static shape).
      dtype: default: the promoted dtype of the arguments.
    Raises:
      ConcretizationTypeError: an argument is traced; use lax.iota(dtype, size) times a step.
    >>> arange(2, 10, 3).tolist()
    [2, 5, 8]
    """
    for name, value in (
        ("start" if stop is not None else "stop", start),
        ("stop", stop),
        ("step", step),
    ):
        if _is_unknown_size(value):
            out = _arange_of_unknown_size(start, stop, step, dtype)
            return result_as("arange", out, device, out_sharding)
        _check_concrete_bound(name, value)
    given = [v for v in (start, stop, step) if v is not None]
    dtype = _arange_dtype(given, dtype)
    first, last = (0, start) if stop is None else (start, stop)
    first, last, stride = _number(first), _number(last), 1 if step is None else _number(step)
    if stride == 0:
        raise new_error(ValueError, "jnp.arange: step must not be zero.")
    size = max(0, math.ceil((last - first) / stride)) if _finite(first, last, stride) else 0
    out = lax.iota(dtype, size)
    if step is not None and stride != 1:
        out = lax.mul(np.asarray(stride).astype(dtype), out)
    if stop is not None and (first != 0 or step is not None):
        out = lax.add(np.asarray(first).astype(dtype), out)
    return result_as("arange", out, device, out_sharding)


def _is_unknown_size(value: Any) -> bool:
    if type(value) is SymbolicDim:
        return True
    return isinstance(value, (Tracer, TracedSize)) and dimension_of(value) is not None


def _arange_of_unknown_size(start: Any, stop: Any, step: Any, dtype: Any) -> Array:
    """`arange` where the length is symbolic, or a traced integer (option `dynamic_shapes`)."""
    given = [v for v in (start, stop, step) if v is not None]
    if any(not dtypes.issubdtype(dtypes.dtype(util.to_jax(v)), np.integer) for v in given):
        fail(
            ConcretizationTypeError,
            "jnp.arange from, to or by a number that is no integer has a traced length.",
            "Rounding would decide how many elements there are.",
            "Count with integers, jnp.arange(n), and compute the numbers from these.",
        )
    size = start
    if stop is not None or step is not None:
        first, last = (0, start) if stop is None else (start, stop)
        stride = 1 if step is None else step
        size = -((first - last) // stride)
        if type(size) is int or type(size) is SymbolicDim:
            size = operation("max", size, 0)
        else:
            size = lax.max(*util.promote_args("arange", size, 0))
    out = lax.iota(_arange_dtype([util.to_jax(v) for v in given], dtype), size)
    if step is not None:
        out = lax.mul(*util.promote_args("arange", out, util.convert(step, out.dtype)))
    if stop is not None:
        out = lax.add(*util.promote_args("arange", out, util.convert(start, out.dtype)))
    return out


def _arange_dtype(given: list[Any], dtype: Any) -> Any:
    if dtype is not None:
        return util.check_user_dtype(dtype, "arange")
    return dtypes.canonicalize_dtype(dtypes.result_type(*given))


def _check_concrete_bound(name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, Tracer):
        raise util.concretization_error(
            value,
            f"It arose in the jnp.arange argument '{name}'; the length of an array is "
            "static. Make it a static argument, or use lax.iota(dtype, size) * step + start.",
        )
    util.check_arraylike("arange", value)
    if np.ndim(value) != 0:
        raise new_error(
            ValueError, f"jnp.arange: {name} must be a scalar, got shape {np.shape(value)}."
        )


def _number(value: Any) -> Any:
    return np.asarray(value).item()


def _finite(*values: Any) -> bool:
    if not all(np.isfinite(v) for v in values):
        raise new_error(ValueError, f"jnp.arange: arguments must be finite, got {values}.")
    return True


@one_program(2)
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """`num` evenly spaced values over [start, stop] ([start, stop) without `endpoint`).

    Args:
      start, stop: arrays that broadcast together; the new axis is inserted at `axis`.
      retstep: also return the spacing.
    Returns:
      Array with `num` values along `axis`, floating unless `dtype` says otherwise (integers
      are rounded down).
    >>> linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    num = util.static_int(num, "num")
    if num < 0:
        raise new_error(
            ValueError, f"jnp.linspace: number of samples must be non-negative, got {num}."
        )
    util.check_arraylike("linspace", start, stop)
    dtype = _range_dtype("linspace", dtype, start, stop)
    out, step = _linspace(start, stop, num, bool(endpoint), dtype, util.static_int(axis, "axis"))
    out = result_on(out, device)
    return (out, step) if retstep else out


def _range_dtype(name: str, dtype: Any, *values: Any) -> Any:
    if dtype is not None:
        return util.check_user_dtype(dtype, name)
    return dtypes.canonicalize_dtype(dtypes.to_inexact_dtype(dtypes.result_type(*values)))


def _compute_dtype(start: Any, stop: Any, dtype: Any) -> Any:
    """In which a range is computed; the dtype that the user wants is no operand, so that there is
    nothing to promote."""
    if options.numpy_dtype_promotion.value == "strict":
        return dtypes.to_inexact_dtype(dtypes.result_type(start, stop) if dtype is None else dtype)
    return dtypes.to_inexact_dtype(dtypes.result_type(start, stop, dtype))


@partial(jit, static_argnames=("num", "endpoint", "dtype", "axis"))
def _linspace(
    start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, axis: int
) -> tuple[Array, Array]:
    compute = _compute_dtype(start, stop, dtype)
    shape = util.broadcast_shapes("linspace", [np.shape(start), np.shape(stop)])
    start = util.broadcast_array(util.convert(start, compute), shape)
    stop = util.broadcast_array(util.convert(stop, compute), shape)
    intervals = num - 1 if endpoint else num
    step = lax.full_like(start, np.nan)
    if num > 1 or (not endpoint and num == 1):
        step = lax.div(lax.sub(stop, start), util.scalar_literal(intervals, compute))
    if num > 1:
        # Times the reciprocal, as the reference's compiler divides: tenths are NumPy's.
        real = _real(compute)
        fraction = lax.mul(lax.iota(real, intervals), util.scalar_literal(1 / intervals, real))
        fraction = util.convert(fraction, compute)
        fraction = lax.expand_dims(fraction, tuple(range(1, len(shape) + 1)))
        low, high = lax.expand_dims(start, (0,)), lax.expand_dims(stop, (0,))
        full_shape = (intervals, *shape)
        fraction = util.broadcast_array(fraction, full_shape)
        rest = lax.sub(np.ones((), compute), fraction)
        out = lax.add(
            lax.mul(util.broadcast_array(low, full_shape), rest),
            lax.mul(util.broadcast_array(high, full_shape), fraction),
        )
        if endpoint:
            out = lax.concatenate([out, high], 0)
    elif num == 1:
        out = lax.expand_dims(start, (0,))
    else:
        out = lax.full((0, *shape), 0, compute)
    if dtypes.issubdtype(dtype, np.integer) and not dtypes.issubdtype(compute, np.integer):
        out = lax.floor(out)
    axis = util.canonicalize_axis(axis, len(shape) + 1)
    order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)]
    out = lax.transpose(out, order) if axis else out
    return util.convert(out, dtype), step


def _real(dtype: Any) -> np.dtype:
    return np.zeros((), dtype).real.dtype


def logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    """`base ** linspace(start, stop, num)`.

    >>> logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    util.check_arraylike("logspace", start, stop, base)
    dtype = _range_dtype("logspace", dtype, start, stop)
    compute = _compute_dtype(start, stop, dtype)
    exponents = linspace(start, stop, num, endpoint=endpoint, dtype=compute, axis=axis)
    base, exponents = util.promote_args_inexact("logspace", base, exponents)
    return util.convert(lax.pow(*_broadcast_pair(base, exponents)), dtype)


def _broadcast_pair(a: Any, b: Any) -> tuple[Any, Any]:
    shape = util.broadcast_shapes("logspace", [np.shape(a), np.shape(b)])
    return util.broadcast_array(a, shape), util.broadcast_array(b, shape)


@one_program(2)
def geomspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Array:
    """`num` values in geometric progression from `start` to `stop` (both nonzero, same sign).

    >>> jnp.geomspace(1.0, 100.0, 3).round(2).tolist()
    [1.0, 10.0, 100.0]
    """
    util.check_arraylike("geomspace", start, stop)
    dtype = _range_dtype("geomspace", dtype, start, stop)
    compute = _compute_dtype(start, stop, dtype)
    start, stop = util.convert(start, compute), util.convert(stop, compute)
    start, stop = _broadcast_pair(start, stop)
    sign = lax.sign(start)
    log10e = util.scalar_literal(1 / math.log(10), compute)
    low = lax.mul(lax.log(lax.div(start, sign)), log10e)
    high = lax.mul(lax.log(lax.div(stop, sign)), log10e)
    powers = logspace(low, high, num, endpoint=endpoint, base=10.0, dtype=compute, axis=0)
    out = lax.mul(util.broadcast_array(sign, powers.shape), powers)
    axis = util.canonicalize_axis(axis, out.ndim)
    if axis:
        out = lax.transpose(out, [*range(1, axis + 1), 0, *range(axis + 1, out.ndim)])
    return util.convert(out, dtype)


def meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: Literal["xy", "ij"] = "xy"
) -> list[Array]:
    """Coordinate matrices from 1-d coordinate vectors.

    Args:
      xi: 1-d arrays (or scalars).  sparse: leave axes of size one instead of broadcasting.
      indexing: 'xy' swaps the first two axes of the results (image order), 'ij' does not.
    >>> x, y = meshgrid(arange(2), arange(3))
    >>> x.shape
    (3, 2)
    """
    if indexing not in ("xy", "ij"):
        raise new_error(
            ValueError, f"Valid values for indexing are 'xy' and 'ij', got {indexing!r}."
        )
    if not copy:
        raise new_error(ValueError, "jnp.meshgrid only supports copy=True: arrays are immutable.")
    util.check_arraylike("meshgrid", *xi)
    vectors = [util.as_array(x) for x in xi]
    for position, x in enumerate(vectors):
        if x.ndim > 1:
            raise new_error(
                ValueError,
                f"Arguments to jnp.meshgrid must be 1D, got shape {x.shape} at {position}.",
            )
    vectors = [lax.reshape(x, (1,)) if x.ndim == 0 else x for x in vectors]
    axes = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        axes[0], axes[1] = 1, 0
    sizes = [0] * len(vectors)
    for x, axis in zip(vectors, axes, strict=True):
        sizes[axis] = x.shape[0]
    out = []
    for x, axis in zip(vectors, axes, strict=True):
        shape = [x.shape[0] if i == axis else 1 for i in axes_range(sizes)] if sparse else sizes
        out.append(lax.broadcast_in_dim(x, tuple(shape), (axis,)))
    return out


def axes_range(shape: Any) -> range:
    """The axes of a shape."""
    return range(len(shape))


def indices(dimensions: Any, dtype: Any = None, sparse: bool = False) -> Any:
    """Coordinates of every element of a grid: one array (or a tuple if `sparse`) per axis.

    >>> indices((2, 2)).shape
    (2, 2, 2)
    """
    shape = util.canonicalize_shape(dimensions, "dimensions")
    kind = dtypes.canonicalize_dtype(np.int64) if dtype is None else dtype
    dtype = util.check_user_dtype(kind, "indices")
    if sparse:
        return tuple(
            lax.broadcast_in_dim(
                lax.iota(dtype, size),
                tuple(size if i == axis else 1 for i in axes_range(shape)),
                (axis,),
            )
            for axis, size in enumerate(shape)
        )
    grids = [lax.broadcasted_iota(dtype, (1, *shape), axis + 1) for axis in axes_range(shape)]
    return lax.concatenate(grids, 0) if grids else lax.full((0,), 0, dtype)
