"""Functions that read or write by index: take, take_along_axis, put, place, fill_diagonal...

Also the index makers (ix_, unravel_index, diag_indices, tril_indices...) and the objects written
with brackets (s_, index_exp, r_, c_, mgrid, ogrid).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyjax import lax
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.numpy import util
from pyjax.numpy.array_constructors import array, asarray
from pyjax.numpy.creation import arange, linspace, meshgrid
from pyjax.numpy.eager import one_program
from pyjax.numpy.index_update import update
from pyjax.numpy.indexing import static_fill
from pyjax.numpy.indexing_basic import (
    filling_mode,
    gather_along,
    normalized,
    parse_mode,
    take_rows,
    wide_enough,
)
from pyjax.numpy.manipulation import ravel
from pyjax.numpy.searching import nonzero
from pyjax.numpy.selection import select_where
from pyjax.numpy.stacking import concatenate

__all__ = [
    "c_",
    "diag_indices",
    "diag_indices_from",
    "fill_diagonal",
    "index_exp",
    "ix_",
    "mask_indices",
    "mgrid",
    "ogrid",
    "place",
    "put",
    "put_along_axis",
    "r_",
    "ravel_multi_index",
    "s_",
    "take",
    "take_along_axis",
    "tril_indices",
    "tril_indices_from",
    "triu_indices",
    "triu_indices_from",
    "unravel_index",
]


def _integer_indices(name: str, indices: Any) -> Any:
    indices = util.as_array(indices)
    if indices.dtype == np.bool_:
        return util.convert(indices, np.dtype(np.int32))
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise new_error(
            TypeError,
            f"jnp.{name}: indices must have integer dtype, got {indices.dtype}. "
            "Fix: indices.astype(int).",
        )
    return indices


@one_program(2)
def take(
    a: ArrayLike,
    indices: Any,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Array:
    """Elements of `a` at `indices` along `axis` (of the flattened array by default).

    Args:
      mode: indices out of bounds give: 'fill' (default) `fill_value`, which defaults to nan or
        the extreme integer; 'clip' the nearest element; 'wrap' modulo the size.
      indices_are_sorted, unique_indices: promises that allow faster code.
    >>> take(np.array([10, 20, 30]), np.array([2, 0])).tolist()
    [30, 10]
    """
    util.reject_out("take", out)
    util.check_arraylike("take", a, indices)
    a, indices = util.as_array(a), _integer_indices("take", indices)
    if axis is None:
        a, axis = lax.reshape(a, (a.size,)), 0
    axis = util.canonicalize_axis(axis, a.ndim)
    if mode == "raise":
        raise new_error(
            NotImplementedError,
            "The 'raise' mode to jnp.take is not supported.",
            "a program that is compiled cannot raise for its values.",
            "Use mode='fill' (or 'clip'), or check indices with pyjax.experimental.checkify.",
        )
    if indices.size and not a.shape[axis]:
        raise new_error(
            IndexError,
            f"jnp.take: there are no elements along axis {axis} of shape {a.shape} for "
            f"{indices.size} indices.",
        )
    parsed = parse_mode(mode) or filling_mode(fill_value)
    if parsed is not lax.GatherScatterMode.CLIP:  # which takes negative indices to 0
        indices, parsed = normalized(indices, a.shape[axis], parsed)
    fills = fill_value is not None and parsed is lax.GatherScatterMode.FILL_OR_DROP
    return take_rows(
        a,
        indices,
        axis,
        mode=parsed,
        fill_value=static_fill(fill_value) if fills else None,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
    )


@one_program(2)
def take_along_axis(
    arr: ArrayLike,
    indices: Any,
    axis: int | None = -1,
    mode: Any = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """out[i, j] = arr[i, indices[i, j]] (for the last axis): one index per element.

    Args:
      indices: integers with the rank of `arr`; axes other than `axis` are equal or one.
      mode, fill_value: as for `take`.
    >>> x = np.array([[3, 1], [2, 4]])
    >>> take_along_axis(x, x.argsort(1), axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    util.check_arraylike("take_along_axis", arr, indices)
    a = util.as_array(arr)
    indices = util.as_array(indices)
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise new_error(
            TypeError, f"take_along_axis indices must be of integer type, got {indices.dtype}."
        )
    if axis is None:
        if indices.ndim != 1:
            raise new_error(
                ValueError, f"take_along_axis indices must be 1D if axis=None, got {indices.shape}"
            )
        a, axis = lax.reshape(a, (a.size,)), 0
    if a.ndim != indices.ndim:
        raise new_error(
            ValueError,
            f"indices and arr must have the same number of dimensions; {indices.ndim} vs. {a.ndim}",
        )
    axis = util.canonicalize_axis(axis, a.ndim)
    for i, (n, m) in enumerate(zip(a.shape, indices.shape, strict=True)):
        if i != axis and n != m and 1 not in (n, m):
            raise new_error(
                ValueError,
                f"take_along_axis: arr {a.shape} and indices {indices.shape} must match or be 1 "
                f"in axis {i}.",
            )
    parsed = parse_mode(mode) or filling_mode(fill_value)
    if wrap_negative_indices is not False:
        indices, parsed = normalized(indices, a.shape[axis], parsed)
    fills = fill_value is not None and parsed is lax.GatherScatterMode.FILL_OR_DROP
    fill_value = static_fill(fill_value) if fills else None
    shape = tuple(
        m if i == axis else max(n, m) if n and m else 0
        for i, (n, m) in enumerate(zip(a.shape, indices.shape, strict=True))
    )
    if 0 in shape or a.shape[axis] == 0:
        return lax.full(shape, 0, a.dtype)
    return gather_along(a, indices, axis, mode=parsed, fill_value=fill_value)


def _check_inplace(name: str, inplace: bool) -> None:
    if inplace:
        raise new_error(
            ValueError,
            f"jnp.{name} cannot modify its argument: arrays are immutable. Pass inplace=False and "
            "use the returned array.",
        )


def put(
    a: ArrayLike, ind: Any, v: ArrayLike, mode: str | None = None, *, inplace: bool = True
) -> Array:
    """`a` with the flat elements `ind` replaced by `v` (repeated as needed); inplace=False only.

    `mode`: 'clip' or 'wrap' for indices out of bounds; dropped by default.

    >>> jnp.put(jnp.arange(4), jnp.array([0, 3]), jnp.array([8, 9]), inplace=False)
    Array([8, 1, 2, 9], dtype=int32)
    """
    _check_inplace("put", inplace)
    util.check_arraylike("put", a, ind, v)
    x = util.as_array(a)
    indices, values = ravel(ind), ravel(v)
    if indices.size == 0 or values.size == 0:
        return x
    if values.size < indices.size:
        repeats = -(-indices.size // values.size)
        values = lax.concatenate([values] * repeats, 0)
    values = lax.slice_in_dim(values, 0, indices.size)
    if mode == "raise":
        raise new_error(
            NotImplementedError,
            "The 'raise' mode to jnp.put is not supported.",
            "a program that is compiled cannot raise for its values.",
            "Use mode='fill' (or 'clip'), or check indices with pyjax.experimental.checkify.",
        )
    if mode not in (None, "clip", "wrap"):
        raise new_error(ValueError, f"mode should be one of 'wrap' or 'clip'; got {mode=}")
    if mode == "clip":  # as in take: negative indices do not count from the end
        indices = lax.max(indices, lax.full_like(indices, 0))
    flat = lax.reshape(x, (x.size,))
    return lax.reshape(update(flat, indices, values, "set", mode=mode), x.shape)


def place(arr: ArrayLike, mask: Any, vals: Any, *, inplace: bool = True) -> Array:
    """`arr` with the elements where `mask` is true replaced by successive `vals` (cyclically).

    >>> jnp.place(jnp.arange(4), jnp.array([0, 1, 0, 1]), jnp.array([8, 9]), inplace=False)
    Array([0, 8, 2, 9], dtype=int32)
    """
    _check_inplace("place", inplace)
    util.check_arraylike("place", arr, mask, vals)
    data, values = util.as_array(arr), ravel(vals)
    chosen = util.as_array(mask)
    if chosen.size != data.size:
        raise new_error(ValueError, "place: arr and mask must be the same size")
    if values.size == 0:
        raise new_error(ValueError, "Cannot place values from an empty array")
    if data.size == 0:
        return data
    flags = lax.reshape(chosen, (chosen.size,))
    flags = flags if flags.dtype == np.bool_ else lax.ne(flags, np.zeros((), flags.dtype))
    rank = lax.cumsum(util.convert(flags, np.dtype(np.int32)), 0) - 1
    rank = lax.rem(lax.max(rank, lax.full_like(rank, 0)), lax.full_like(rank, values.size))
    picked = take_rows(values, rank, 0)
    picked = util.convert(picked, data.dtype, dtypes.is_weakly_typed(data))
    flat = lax.reshape(data, (data.size,))
    return lax.reshape(select_where(flags, picked, flat), data.shape)


@one_program(3)
def put_along_axis(
    arr: ArrayLike,
    indices: Any,
    values: Any,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Array:
    """`arr` with elements at `indices` along `axis` replaced: the write of `take_along_axis`.

    >>> jnp.put_along_axis(jnp.zeros(3), jnp.array([1]), 5.0, axis=0, inplace=False)
    Array([0., 5., 0.], dtype=float32)
    """
    _check_inplace("put_along_axis", inplace)
    util.check_arraylike("put_along_axis", arr, indices, values)
    x, indices = util.as_array(arr), util.as_array(indices)
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise new_error(
            TypeError, f"put_along_axis indices must be of integer type, got {indices.dtype}."
        )
    original = x.shape
    if axis is None:
        x, axis = lax.reshape(x, (x.size,)), 0
    if indices.ndim != x.ndim:
        raise new_error(
            ValueError,
            f"put_along_axis indices must have the rank of arr: {indices.ndim} vs. {x.ndim}.",
        )
    axis = util.canonicalize_axis(axis, x.ndim)
    shape = tuple(
        m if i == axis else max(n, m)
        for i, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True))
    )
    indices = util.broadcast_array(indices, shape)
    places = [
        indices if i == axis else lax.broadcasted_iota(indices.dtype, shape, i)
        for i in range(x.ndim)
    ]
    values = util.broadcast_array(util.as_array(values), shape)
    return lax.reshape(update(x, tuple(places), values, "set", mode=mode), original)


def fill_diagonal(a: ArrayLike, val: Any, wrap: bool = False, *, inplace: bool = True) -> Array:
    """`a` with its main diagonal replaced by `val` (a scalar or successive values).

    >>> jnp.fill_diagonal(jnp.zeros((2, 2)), 5.0, inplace=False)
    Array([[5., 0.],
           [0., 5.]], dtype=float32)
    """
    _check_inplace("fill_diagonal", inplace)
    util.check_arraylike("fill_diagonal", a, val)
    if wrap:
        raise new_error(
            NotImplementedError,
            "wrap=True is not implemented; only wrap=False is.",
            "NumPy's wrap continues below a tall matrix.",
            "Index instead: x.at[rows, columns].set(value).",
        )
    x, value = util.as_array(a), util.as_array(val)
    if x.ndim < 2:
        raise new_error(ValueError, "array must be at least 2-d")
    if x.ndim > 2 and len(set(x.shape)) > 1:
        raise new_error(
            ValueError, f"All dimensions of input must be of equal length, got {x.shape}."
        )
    n = min(x.shape)
    places = np.arange(n, dtype=np.int32)
    if value.ndim:
        value = ravel(value)
        repeats = -(-n // max(value.size, 1))
        value = lax.slice_in_dim(lax.concatenate([value] * repeats, 0), 0, n)
    return update(x, (places,) * x.ndim, value, "set", unique_indices=True)


# ---------------------------------------------------------------------------------------------
# Index makers


def ix_(*args: Any) -> tuple[Array, ...]:
    """Index arrays for a rectangular selection: x[ix_(rows, columns)]; masks become positions.

    >>> jnp.arange(9).reshape(3, 3)[jnp.ix_(jnp.array([0, 2]), jnp.array([0, 1]))]
    Array([[0, 1],
           [6, 7]], dtype=int32)
    """
    util.check_arraylike("ix_", *args)
    out = []
    for i, a in enumerate(args):
        a = util.as_array(a)
        if a.ndim != 1:
            raise new_error(
                ValueError, f"Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {a.shape}"
            )
        if a.dtype == np.bool_:
            (a,) = nonzero(a)
        if a.size == 0:
            a = util.convert(a, np.dtype(np.int32))
        out.append(lax.reshape(a, (1,) * i + (a.size,) + (1,) * (len(args) - 1 - i)))
    return tuple(out)


def unravel_index(indices: Any, shape: Any) -> tuple[Array, ...]:
    """Flat indices as one index array per axis; out of bounds ones are clipped.

    >>> [int(i) for i in unravel_index(5, (2, 3))]
    [1, 2]
    """
    util.check_arraylike("unravel_index", indices)
    flat = util.as_array(indices)
    if not dtypes.issubdtype(flat.dtype, np.integer):
        raise new_error(TypeError, f"unravel_index indices must be integers, got {flat.dtype}.")
    dims = util.canonicalize_shape(shape)
    total = util.size_of(dims)
    kind = wide_enough(flat, max(dims, default=0)).dtype
    flat = wide_enough(flat, total)
    low, high = np.asarray(-total, flat.dtype), np.asarray(max(total - 1, 0), flat.dtype)
    flat = lax.clamp(low, flat, high)
    flat = select_where(flat < 0, flat + np.asarray(total, flat.dtype), flat)
    out = []
    for n in reversed(dims):
        size = lax.full_like(flat, max(n, 1))
        out.append(util.convert(lax.rem(flat, size), kind))
        flat = lax.div(flat, size)
    return tuple(reversed(out))


def ravel_multi_index(
    multi_index: Any, dims: Any, mode: str = "raise", order: str = "C", *, dtype: Any = None
) -> Array:
    """Flat indices from one index array per axis; mode 'raise' (concrete only), 'clip', 'wrap'.

    >>> jnp.ravel_multi_index((jnp.array([1]), jnp.array([2])), (3, 4))
    Array([6], dtype=int32)
    """
    sizes = util.canonicalize_shape(dims, "dims")
    if len(multi_index) != len(sizes):
        raise new_error(
            ValueError, f"len(multi_index)={len(multi_index)} != len(dims)={len(sizes)}"
        )
    util.check_arraylike("ravel_multi_index", *multi_index)
    arrays = (
        list(util.promote_dtypes(*multi_index))
        if len(sizes) > 1
        else [util.as_array(m) for m in multi_index]
    )
    arrays = [util.as_array(x) for x in arrays]
    for x in arrays:
        if not dtypes.issubdtype(x.dtype, np.integer):
            raise new_error(TypeError, "only int indices permitted")
    arrays = [wide_enough(x, n) for x, n in zip(arrays, sizes, strict=True)]
    if mode == "raise":
        for x, n in zip(arrays, sizes, strict=True):
            value = util.concrete_or_none(x)
            if value is None:
                raise util.concretization_error(
                    x,
                    "The error occurred because ravel_multi_index was traced with mode='raise'. "
                    "Use mode='wrap' or mode='clip'.",
                )
            if (value < 0).any() or (value >= n).any():
                raise new_error(ValueError, "invalid entry in coordinates array")
    elif mode == "clip":
        arrays = [
            lax.clamp(np.asarray(0, x.dtype), x, np.asarray(n - 1, x.dtype))
            for x, n in zip(arrays, sizes, strict=True)
        ]
    elif mode == "wrap":
        arrays = [normalized(x, n, "wrap")[0] for x, n in zip(arrays, sizes, strict=True)]
    else:
        raise new_error(ValueError, f"invalid mode={mode!r}. Expected 'raise', 'wrap', or 'clip'")
    if order not in ("C", "F"):
        raise new_error(ValueError, f"invalid order={order!r}. Expected 'C' or 'F'")
    strides = np.cumprod([1, *sizes[:0:-1]])[::-1] if order == "C" else np.cumprod([1, *sizes[:-1]])
    kind = util.check_user_dtype(dtype, "ravel_multi_index") or dtypes.canonicalize_dtype(np.int64)
    total: Any = None
    for x, stride in zip(arrays, strides.tolist(), strict=True):
        term = util.convert(x, kind) * np.asarray(stride, kind)
        total = term if total is None else total + term
    return total


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Indices of the main diagonal of an array with `ndim` axes of size `n`.

    >>> jnp.zeros((2, 2), int).at[jnp.diag_indices(2)].set(1)
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    n, ndim = util.static_int(n, "n"), util.static_int(ndim, "ndim")
    if n < 0 or ndim < 0:
        raise new_error(
            ValueError, f"diag_indices: n and ndim must be nonnegative, got {n}, {ndim}"
        )
    return (lax.iota(dtypes.canonicalize_dtype(np.int64), n),) * ndim


def diag_indices_from(arr: Any) -> tuple[Array, ...]:
    """`diag_indices` for the square array `arr`.

    >>> jnp.arange(4).reshape(2, 2)[jnp.diag_indices_from(jnp.ones((2, 2)))]
    Array([0, 3], dtype=int32)
    """
    util.check_arraylike("diag_indices_from", arr)
    shape = np.shape(arr)
    if len(shape) < 2:
        raise new_error(ValueError, "input array must be at least 2-d")
    if len(set(shape)) != 1:
        raise new_error(ValueError, "All dimensions of input must be of equal length")
    return diag_indices(shape[0], len(shape))


def _as_index_arrays(found: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
    kind = dtypes.canonicalize_dtype(np.int64)
    return tuple(asarray(i.astype(kind)) for i in found)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Indices of the lower triangle (diagonal `k` and below) of an n by m matrix.

    >>> jnp.arange(9).reshape(3, 3)[jnp.tril_indices(3)]
    Array([0, 3, 4, 6, 7, 8], dtype=int32)
    """
    return _as_index_arrays(np.tril_indices(n, k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Indices of the upper triangle (diagonal `k` and above) of an n by m matrix.

    >>> jnp.arange(9).reshape(3, 3)[jnp.triu_indices(3)]
    Array([0, 1, 2, 4, 5, 8], dtype=int32)
    """
    return _as_index_arrays(np.triu_indices(n, k, m))


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Array, Array]:
    """`tril_indices` for the matrix `arr`.

    >>> jnp.arange(4).reshape(2, 2)[jnp.tril_indices_from(jnp.ones((2, 2)))]
    Array([0, 2, 3], dtype=int32)
    """
    return tril_indices(*_matrix_shape("tril_indices_from", arr, k))


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Array, Array]:
    """`triu_indices` for the matrix `arr`.

    >>> jnp.arange(4).reshape(2, 2)[jnp.triu_indices_from(jnp.ones((2, 2)))]
    Array([0, 1, 3], dtype=int32)
    """
    return triu_indices(*_matrix_shape("triu_indices_from", arr, k))


def _matrix_shape(name: str, arr: Any, k: int) -> tuple[int, int, int]:
    shape = np.shape(arr)
    if len(shape) != 2:
        raise new_error(ValueError, f"Only 2-D inputs are accepted by {name}, got shape {shape}.")
    return shape[-2], k, shape[-1]


def mask_indices(
    n: int, mask_func: Any, k: Any = 0, *, size: int | None = None
) -> tuple[Array, ...]:
    """Indices where `mask_func(ones((n, n)), k)` is nonzero, e.g. for jnp.triu.

    >>> jnp.arange(9).reshape(3, 3)[jnp.mask_indices(3, jnp.triu)]
    Array([0, 1, 2, 4, 5, 8], dtype=int32)
    """
    return nonzero(mask_func(lax.full((n, n), 1, np.dtype(np.float32)), k), size=size)


# ---------------------------------------------------------------------------------------------
# Objects written with brackets


class IndexExpression:
    """`s_[1:3, ::2]` and `index_exp[...]`: an index expression as a value."""

    def __init__(self, maketuple: bool) -> None:
        self._maketuple = maketuple

    def __getitem__(self, item: Any) -> Any:
        return (item,) if self._maketuple and not isinstance(item, tuple) else item


s_ = IndexExpression(False)
index_exp = IndexExpression(True)


def _grid_axis(s: slice) -> Any:
    start = 0 if s.start is None else s.start
    step = 1 if s.step is None else s.step
    if s.stop is None:
        raise new_error(TypeError, "mgrid and ogrid slices need a stop value, e.g. mgrid[0:5].")
    if isinstance(step, complex):  # NumPy's way to write a number of points
        return linspace(start, s.stop, int(abs(step)))
    return arange(start, s.stop, step)


class _Mgrid:
    """`mgrid[0:3, 0:4]`: dense coordinate grids stacked along a new first axis."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _grid_axis(key)
        axes = util.promote_dtypes(*(_grid_axis(k) for k in key))
        grids = meshgrid(*axes, indexing="ij")
        if not grids:
            return lax.full((0,), 0, dtypes.canonicalize_dtype(np.int64))
        return lax.concatenate([lax.expand_dims(g, (0,)) for g in grids], 0)


class _Ogrid:
    """`ogrid[0:3, 0:4]`: coordinate vectors shaped to broadcast against each other."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _grid_axis(key)
        axes = util.promote_dtypes(*(_grid_axis(k) for k in key))
        return meshgrid(*axes, indexing="ij", sparse=True)


mgrid = _Mgrid()
ogrid = _Ogrid()


class _Concatenator:
    """Base of r_ and c_: joins ranges, arrays and scalars written in brackets."""

    axis = 0
    ndmin = 1
    trans1d = -1

    def __getitem__(self, key: Any) -> Any:
        items = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, trans1d = self.axis, self.ndmin, self.trans1d
        if isinstance(items[0], str):
            directive = items.pop(0)
            if directive in ("r", "c"):
                raise new_error(
                    NotImplementedError,
                    "matrix output ('r', 'c') is not supported.",
                    "there are no matrices beside arrays.",
                    "Call r_ and c_ without it, and use x[None] or x[:, None].",
                )
            try:
                numbers = [int(n) for n in directive.split(",")]
            except ValueError:
                raise new_error(
                    ValueError, f"could not understand directive {directive!r}"
                ) from None
            axis, ndmin, trans1d = [*numbers, *(axis, ndmin, trans1d)[len(numbers) :]]
        parts = [self._part(item, ndmin, trans1d) for item in items]
        return concatenate(parts, axis)

    @staticmethod
    def _part(item: Any, ndmin: int, trans1d: int) -> Any:
        if isinstance(item, slice):
            value = _grid_axis(item)
        else:
            value = array(item) if isinstance(item, (list, tuple)) else util.as_array(item)
            value = lax.reshape(value, (1,)) if value.ndim == 0 else value
        missing = ndmin - value.ndim
        if missing <= 0:
            return value
        # trans1d says where the existing axes start among the ndmin ones.
        first = trans1d if trans1d >= 0 else trans1d + missing + 1
        first = min(max(first, 0), missing)
        shape = (1,) * first + value.shape + (1,) * (missing - first)
        return lax.reshape(value, shape)


class RClass(_Concatenator):
    """`r_[1:4, 0, x]`: joins along the first axis."""


class CClass(_Concatenator):
    """`c_[x, y]`: 1-d arrays as columns, joined along the last axis."""

    axis = -1
    ndmin = 2
    trans1d = 0


r_ = RClass()
c_ = CClass()
