"""Rearranging arrays: reshape, transpose, axes, flips, rolls, repeats, broadcasting, size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import fail, new_error
from pyjax.core.symbolic_dims import SymbolicDim
from pyjax.core.trace import Tracer
from pyjax.core.traced_sizes import ElementCount, TracedSize, is_known
from pyjax.lax.reshard import check_whole_along, computed_as
from pyjax.numpy import util
from pyjax.numpy.array_constructors import array
from pyjax.numpy.eager import is_ready, one_program
from pyjax.numpy.indexing_basic import take_rows, wide_enough

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "expand_dims",
    "flip",
    "fliplr",
    "flipud",
    "matrix_transpose",
    "moveaxis",
    "ndim",
    "permute_dims",
    "ravel",
    "repeat",
    "reshape",
    "resize",
    "roll",
    "rollaxis",
    "rot90",
    "shape",
    "size",
    "squeeze",
    "swapaxes",
    "tile",
    "transpose",
    "trim_zeros",
]


def shape(a: Any) -> tuple[int, ...]:
    """Shape of an array or nested sequence.

    >>> jnp.shape(jnp.ones((2, 3)))
    (2, 3)
    """
    return np.shape(_measured(a))


def ndim(a: Any) -> int:
    """Number of axes.

    >>> jnp.ndim(jnp.ones((2, 3)))
    2
    """
    return np.ndim(_measured(a))


def size(a: Any, axis: int | Sequence[int] | None = None) -> int:
    """Number of elements, or of elements along `axis`.

    >>> jnp.size(jnp.ones((2, 3)))
    6
    """
    dims = np.shape(_measured(a))
    if axis is None:
        return util.size_of(dims)
    return util.size_of([dims[i] for i in util.canonicalize_axes(axis, len(dims))])


def _measured(a: Any) -> Any:
    return array(a) if isinstance(a, (list, tuple)) else util.to_jax(a)


def reshape(
    a: ArrayLike,
    shape: Any,
    order: str = "C",
    *,
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Array:
    """`a` with another shape and the same elements in the same order.

    Args:
      shape: int or sequence of ints; one may be -1 and is computed.
      order: 'C' reads and writes rows first, 'F' columns first.
    Raises:
      TypeError: the sizes differ.  ValueError: more than one -1.
    >>> reshape(np.arange(6), (2, -1)).shape
    (2, 3)
    """
    util.check_arraylike("reshape", a)
    if copy is False:
        raise new_error(
            NotImplementedError,
            "jnp.reshape(copy=False) is not supported: arrays have no views. "
            "Leave it out; inside jit no copy is made where none is needed.",
        )
    return reshape_array(a, shape, order, out_sharding)


def reshape_array(a: Any, shape: Any, order: str = "C", out_sharding: Any = None) -> Any:
    """`reshape` after its checks; also the method."""
    a = util.as_array(a)
    new = _infer_shape(a, shape)
    if order == "C":
        if out_sharding is not None:
            return lax.reshape(a, new, out_sharding=out_sharding)
        return a if a.shape == new else lax.reshape(a, new)
    if out_sharding is not None:
        return computed_as("reshape", out_sharding, lambda x: reshape_array(x, shape, order), a)
    if order == "F":
        if a.ndim > 1:
            check_whole_along("reshape", a, range(a.ndim))
        flipped = lax.transpose(a, range(a.ndim)[::-1])
        return lax.transpose(lax.reshape(flipped, new[::-1]), range(len(new))[::-1])
    if order == "A":
        raise new_error(
            NotImplementedError,
            "np.reshape order=A is not implemented.",
            "arrays have no order of their own to follow.",
            "Pass order='C' or 'F'.",
        )
    raise new_error(ValueError, f"Unexpected value for 'order' argument: {order}.")


def _infer_shape(a: Any, shape: Any) -> tuple[int, ...]:
    if isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape):
        new = shape
    else:
        new = _canonical_with_unknown(a, shape)
        if not is_known(new):
            return new  # lax.reshape says what it knows of sizes
    size = a.size
    if util.size_of(new) != size and not isinstance(size, ElementCount):
        raise new_error(
            TypeError,
            f"cannot reshape array of shape {a.shape} (size {size}) into shape "
            f"{tuple(new)} (size {util.size_of(new)})",
            "Reshaping keeps all elements and their order.",
            "Write -1 for one size, which is then computed, or slice or pad the array first.",
        )
    return new


def _canonical_with_unknown(a: Any, shape: Any) -> tuple[int, ...]:
    items = [shape] if not isinstance(shape, (list, tuple)) and np.ndim(shape) == 0 else list(shape)
    for n in items:
        if isinstance(n, (Tracer, TracedSize)):
            return util.canonicalize_shape(tuple(items))
    new: list[Any] = [util.static_size(n, "shape") for n in items]
    if any(n < -1 for n in new):
        raise new_error(ValueError, f"shape entries must be nonnegative or -1, got {tuple(new)}.")
    if new.count(-1) > 1:
        raise new_error(
            TypeError,
            f"jnp.reshape: only one size may be -1, got {tuple(new)}.",
            "One unknown size follows from the number of elements, two do not.",
            "Write all sizes but one.",
        )
    if -1 in new and not is_known(a.shape):
        fail(
            TypeError,
            f"jnp.reshape: -1 for an array of a traced size, {a.aval.str_short()}.",
            "How many elements it has is known when the program runs.",
            "Give the size: the traced integer, or x.shape[i] of an array that has it.",
        )
    if -1 in new:
        known = util.size_of([n for n in new if n != -1])
        if known == 0 or a.size % known:
            raise new_error(
                TypeError,
                f"cannot reshape array of shape {a.shape} (size {a.size}) into shape "
                f"{tuple(new)}: {known} does not divide {a.size}",
            )
        new[new.index(-1)] = a.size // known
    return tuple(new)


@one_program(otherwise=lambda a: np.ndim(a) == 1)
def ravel(a: ArrayLike, order: str = "C", *, out_sharding: Any = None) -> Array:
    """`a` as one axis.

    >>> jnp.ravel(jnp.arange(4).reshape(2, 2))
    Array([0, 1, 2, 3], dtype=int32)
    """
    util.check_arraylike("ravel", a)
    if order == "K":
        raise new_error(
            NotImplementedError,
            "Ravel not implemented for order='K'; arrays have no strides. Pass order='C' or 'F'.",
        )
    a = util.to_jax(a)
    return reshape_array(a, (np.size(a),), order, out_sharding)


def resize(a: ArrayLike, new_shape: Any) -> Array:
    """`a` repeated or cut to fill `new_shape`, in row order.

    >>> jnp.resize(jnp.arange(3), (2, 4))
    Array([[0, 1, 2, 0],
           [1, 2, 0, 1]], dtype=int32)
    """
    util.check_arraylike("resize", a)
    sizes = tuple(new_shape) if isinstance(new_shape, Iterable) else (new_shape,)
    if any(isinstance(size, (int, np.integer)) and size < 0 for size in sizes):
        raise new_error(ValueError, "all elements of `new_shape` must be non-negative")
    new = util.canonicalize_shape(sizes, "new_shape")
    flat = ravel(a)
    count = util.size_of(new)
    if flat.size == 0:
        return lax.full(new, 0, flat.dtype)
    times = -(-count // flat.size)
    flat = lax.concatenate([flat] * times, 0) if times > 1 else flat
    return lax.reshape(lax.slice_in_dim(flat, 0, count), new)


@one_program(otherwise=lambda a: np.ndim(a) < 2)
def transpose(a: ArrayLike, axes: Any = None) -> Array:
    """`a` with its axes permuted (reversed by default): axis i of the result is axes[i] of `a`.

    >>> transpose(np.ones((2, 3))).shape
    (3, 2)
    """
    a = util.ensure_arraylike("transpose", a)
    if axes is None:
        order = tuple(range(a.ndim))[::-1]
    else:
        order = util.canonicalize_axes(axes, a.ndim, "axes")
        if len(order) != a.ndim:
            raise new_error(
                TypeError, f"axes {tuple(axes)} must name each axis of shape {a.shape} once."
            )
    return lax.transpose(a, order) if order != tuple(range(a.ndim)) else a


def permute_dims(a: ArrayLike, /, axes: tuple[int, ...]) -> Array:
    """Same as `transpose` with axes.

    >>> jnp.permute_dims(jnp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    util.check_arraylike("permute_dims", a)
    return transpose(a, axes)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """`x` with its last two axes exchanged.

    >>> jnp.matrix_transpose(jnp.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    x = util.ensure_arraylike("matrix_transpose", x)
    if x.ndim < 2:
        raise new_error(
            ValueError, f"x must be at least two-dimensional for matrix_transpose; got {x.ndim=}"
        )
    return swapaxes(x, -1, -2)


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """`a` with two axes exchanged.

    >>> jnp.swapaxes(jnp.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    a = util.ensure_arraylike("swapaxes", a)
    order = list(range(a.ndim))
    i, j = util.canonicalize_axis(axis1, a.ndim), util.canonicalize_axis(axis2, a.ndim)
    order[i], order[j] = order[j], order[i]
    return lax.transpose(a, order) if i != j else a


def moveaxis(a: ArrayLike, source: Any, destination: Any) -> Array:
    """`a` with axes moved from `source` to `destination`; the others keep their order.

    >>> jnp.moveaxis(jnp.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    a = util.ensure_arraylike("moveaxis", a)
    source = util.canonicalize_axes(source, a.ndim, "source")
    destination = util.canonicalize_axes(destination, a.ndim, "destination")
    if len(source) != len(destination):
        raise new_error(
            ValueError, f"Inconsistent number of elements: {len(source)} vs {len(destination)}"
        )
    order = [i for i in range(a.ndim) if i not in source]
    for target, origin in sorted(zip(destination, source, strict=True)):
        order.insert(target, origin)
    return lax.transpose(a, order) if order != list(range(a.ndim)) else a


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """`a` with `axis` moved before the axis `start` (prefer `moveaxis`).

    >>> jnp.rollaxis(jnp.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    a = util.ensure_arraylike("rollaxis", a)
    axis = util.canonicalize_axis(axis, a.ndim)
    start = util.static_int(start, "start")
    if not -a.ndim <= start <= a.ndim:
        raise new_error(ValueError, f"start={start} must satisfy {-a.ndim}<=start<={a.ndim}")
    start = start + a.ndim if start < 0 else start
    return moveaxis(a, axis, start - 1 if start > axis else start)


@one_program()
def expand_dims(a: ArrayLike, axis: Any) -> Array:
    """`a` with axes of size one inserted so that they are at `axis` in the result.

    >>> jnp.expand_dims(jnp.arange(3), axis=1).shape
    (3, 1)
    """
    a = util.ensure_arraylike("expand_dims", a)
    axes = util.axis_items(axis)
    return lax.expand_dims(a, util.canonicalize_axes(axes, a.ndim + len(axes)))


@one_program(otherwise=lambda a: 1 not in np.shape(a))
def squeeze(a: ArrayLike, axis: Any = None) -> Array:
    """`a` without its axes of size one, or without those in `axis` (which must have size one).

    >>> jnp.squeeze(jnp.ones((1, 3, 1))).shape
    (3,)
    """
    a = util.ensure_arraylike("squeeze", a)
    if axis is None:
        axes: tuple[int, ...] = tuple(i for i, n in enumerate(a.shape) if n == 1)
    else:
        axes = util.canonicalize_axes(axis, a.ndim)
        for i in axes:
            if a.shape[i] != 1:
                raise new_error(
                    ValueError,
                    "cannot select an axis to squeeze out which has size not equal to one, "
                    f"got shape={a.shape} and dimensions={axes}",
                    f"Axis {i} has size {a.shape[i]}; squeezing drops axes of size one.",
                    "Choose another axis, or take an element: x[0].",
                )
    return lax.squeeze(a, axes) if axes else a


def atleast_1d(*arys: Any) -> Any:
    """Arrays with scalars turned into one-element arrays (one array, or a list of several).

    >>> jnp.atleast_1d(3.0)
    Array([3.], dtype=float32, weak_type=True)
    """
    return _at_least("atleast_1d", arys, lambda x: lax.reshape(x, (1,)) if x.ndim < 1 else x)


def atleast_2d(*arys: Any) -> Any:
    """Arrays with leading axes added up to rank two.

    >>> jnp.atleast_2d(jnp.arange(3))
    Array([[0, 1, 2]], dtype=int32)
    """

    def widen(x: Any) -> Any:
        return x if x.ndim >= 2 else lax.reshape(x, (1, x.size))

    return _at_least("atleast_2d", arys, widen)


def atleast_3d(*arys: Any) -> Any:
    """Arrays with axes added up to rank three: (n,) becomes (1, n, 1), (m, n) becomes (m, n, 1).

    >>> jnp.atleast_3d(jnp.arange(3)).shape
    (1, 3, 1)
    """

    def widen(x: Any) -> Any:
        if x.ndim >= 3:
            return x
        new = (*x.shape, 1) if x.ndim == 2 else (1, x.size, 1)
        return lax.reshape(x, new)

    return _at_least("atleast_3d", arys, widen)


def _at_least(name: str, arys: tuple[Any, ...], widen: Any) -> Any:
    if len(arys) == 1 and isinstance(arys[0], (list, tuple)):
        arys = (array(arys[0]),)
    util.check_arraylike(name, *arys)
    out = [widen(util.as_array(x)) for x in arys]
    return out[0] if len(out) == 1 else out


# ---------------------------------------------------------------------------------------------
# Broadcasting


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    if not shapes:
        return ()
    sizes = [util.canonicalize_shape(s) for s in shapes]
    return util.broadcast_shapes("broadcast_shapes", sizes, ValueError)


def broadcast_arrays(*args: Any) -> list[Array]:
    """The arrays broadcast to their common shape.

    >>> [x.shape for x in jnp.broadcast_arrays(jnp.ones((2, 1)), jnp.ones(3))]
    [(2, 3), (2, 3)]
    """
    util.check_arraylike("broadcast_arrays", *args)
    if not args:
        return []
    target = util.broadcast_shapes("broadcast_arrays", [np.shape(a) for a in args], ValueError)
    return [util.broadcast_array(util.as_array(a), target) for a in args]


def broadcast_to(array: ArrayLike, shape: Any, *, out_sharding: Any = None) -> Array:
    """`array` broadcast to `shape` (axes aligned at the right).

    >>> jnp.broadcast_to(jnp.arange(3), (2, 3))
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    util.check_arraylike("broadcast_to", array)
    if out_sharding is not None:
        stretch = lambda x: broadcast_to(x, shape)
        return computed_as("broadcast_to", out_sharding, stretch, array)
    x = util.as_array(array)
    target = util.canonicalize_shape(shape)
    compatible = x.ndim <= len(target) and all(
        n in (1, m) for n, m in zip(x.shape[::-1], target[::-1], strict=False)
    )
    if not compatible:
        raise new_error(
            ValueError,
            f"Incompatible shapes for broadcasting: {x.shape} and requested shape {target}.",
            "Axes are aligned at the right, and only axes of size one are repeated.",
            "Use jnp.repeat or jnp.tile to repeat a longer axis, or x[:, None] to add one.",
        )
    return util.broadcast_array(x, target)


# ---------------------------------------------------------------------------------------------
# Order


@one_program(otherwise=lambda m: not np.ndim(m))
def flip(m: ArrayLike, axis: Any = None) -> Array:
    """`m` reversed along `axis` (all axes by default).

    >>> jnp.flip(jnp.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    m = util.ensure_arraylike("flip", m)
    axes = util.canonicalize_axes(axis, m.ndim)
    return lax.rev(m, axes) if axes else m


def fliplr(m: ArrayLike) -> Array:
    """`m` reversed along axis 1.

    >>> jnp.fliplr(jnp.arange(4).reshape(2, 2))
    Array([[1, 0],
           [3, 2]], dtype=int32)
    """
    m = util.ensure_arraylike("fliplr", m)
    return flip(m, 1)


def flipud(m: ArrayLike) -> Array:
    """`m` reversed along axis 0.

    >>> jnp.flipud(jnp.arange(4).reshape(2, 2))
    Array([[2, 3],
           [0, 1]], dtype=int32)
    """
    m = util.ensure_arraylike("flipud", m)
    return flip(m, 0)


def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """`m` turned by `k` right angles in the plane of `axes`, from the first towards the second.

    >>> jnp.rot90(jnp.arange(4).reshape(2, 2))
    Array([[1, 3],
           [0, 2]], dtype=int32)
    """
    m = util.ensure_arraylike("rot90", m)
    if np.shape(axes) != (2,):
        raise new_error(ValueError, "The 'axes' argument to jnp.rot90 must name two axes.")
    first, second = (util.canonicalize_axis(a, m.ndim) for a in axes)
    if first == second:
        raise new_error(ValueError, "Axes must be different for jnp.rot90")
    turns = util.static_int(k, "k") % 4
    if turns == 2:
        return flip(m, (first, second))
    if turns == 1:
        return swapaxes(flip(m, second), first, second)
    return flip(swapaxes(m, first, second), second) if turns == 3 else m


@one_program()
def roll(a: Any, shift: Any, axis: Any = None) -> Array:
    """`a` with elements moved `shift` places along `axis`, wrapping around.

    `shift` and `axis` broadcast together; `shift` may be traced.  Without `axis` the array is
    rolled as if flat.
    >>> roll(np.arange(4), 1).tolist()
    [3, 0, 1, 2]
    """
    a = util.ensure_arraylike("roll", a)
    if axis is None and a.ndim != 1:
        return lax.reshape(roll(ravel(a), shift, 0), a.shape)
    axis = 0 if axis is None else axis
    axes = tuple(util.canonicalize_axis(i, a.ndim) for i in util.axis_items(axis))
    shift_value = (
        shift
        if isinstance(shift, Tracer)
        else (
            array(shift)
            if isinstance(shift, (tuple, list)) and any(isinstance(s, Tracer) for s in shift)
            else np.asarray(shift)
        )
    )
    if np.ndim(shift_value) > 1:
        raise new_error(
            ValueError, f"'shift' must be a scalar or 1-d, got shape {np.shape(shift_value)}."
        )
    if np.ndim(shift_value) == 1 and len(axes) not in (1, shift_value.shape[0]):
        raise new_error(
            ValueError, f"'shift' and 'axis' must broadcast: {np.shape(shift_value)}, {axes}."
        )
    count = max(len(axes), *np.shape(shift_value), 1) if np.ndim(shift_value) else len(axes)
    axes = axes * (count // len(axes)) if axes else axes
    if isinstance(shift_value, np.ndarray):
        shifts = tuple(int(s) for s in np.broadcast_to(shift_value, (len(axes),)))
        return (_roll_ready if is_ready(a) else _roll_static)(a, shifts, axes)
    traced = util.broadcast_array(util.as_array(shift_value), (len(axes),))
    return _roll_traced(a, traced, axes)


def _roll_static(a: Any, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    for amount, axis in zip(shifts, axes, strict=True):
        n = a.shape[axis]
        cut = n - amount % n if n else 0
        if type(n) is SymbolicDim or 0 < cut < n:
            ends = lax.slice_in_dim(a, cut, n, axis=axis), lax.slice_in_dim(a, 0, cut, axis=axis)
            a = lax.concatenate(ends, axis)
    return a


# One program where nothing is traced: the ends would each go through memory.
_roll_ready = jit(_roll_static, static_argnums=(1, 2))


@partial(jit, static_argnames=("axes",))
def _roll_traced(a: Any, shifts: Any, axes: tuple[int, ...]) -> Any:
    for position, axis in enumerate(axes):
        n = a.shape[axis]
        if n == 0:
            return a
        shift = wide_enough(shifts[position], 2 * n)  # of the sum below
        size = np.asarray(n, shift.dtype)
        amount = lax.rem(lax.rem(shift, size) + size, size)
        doubled = lax.concatenate([a, a], axis)
        a = lax.dynamic_slice_in_dim(doubled, size - amount, n, axis)
    return a


def repeat(
    a: ArrayLike,
    repeats: Any,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """`a` with each element along `axis` repeated (flattened first by default).

    Args:
      repeats: a count, or one per element.
      total_repeat_length: length of the result, needed when `repeats` is traced; the last
        element fills up, or the result is cut.
    >>> repeat(np.array([1, 2]), np.array([2, 1])).tolist()
    [1, 1, 2]
    """
    a = util.ensure_arraylike("repeat", a)
    util.check_arraylike("repeat", repeats)
    if out_sharding is not None:
        again = partial(repeat, axis=axis, total_repeat_length=total_repeat_length)
        return computed_as("repeat", out_sharding, again, a, repeats)
    if axis is None:
        a, axis = ravel(a), 0
    axis = util.canonicalize_axis(axis, a.ndim)
    if a.aval.split is not None and a.aval.split.entries[axis] is not None:
        raise new_error(
            ValueError,
            "Please pass sharding to `jnp.repeat` via `out_sharding` parameter.",
            f"The operand is {a.aval.str_short()}, and axis {axis}, which is repeated, is split.",
            "jnp.repeat(x, n, axis, out_sharding=P(...)), or lay the array out as a whole one "
            "along that axis before.",
        )
    counts = util.concrete_or_none(repeats)
    if counts is None and total_repeat_length is None:
        raise util.concretization_error(
            repeats,
            "When jit-compiling jnp.repeat with traced repeats the result's shape depends on "
            "values. Pass total_repeat_length=n, or make repeats static.",
        )
    n = a.shape[axis]
    if total_repeat_length is None and counts is not None and counts.size == 1:
        times = int(counts.reshape(()))
        if times < 0:
            raise new_error(ValueError, f"repeats must not be negative, got {times}.")
        shape = (*a.shape[: axis + 1], times, *a.shape[axis + 1 :])
        kept = tuple(i for i in range(a.ndim + 1) if i != axis + 1)
        wide = lax.broadcast_in_dim(a, shape, kept)
        return lax.reshape(wide, (*a.shape[:axis], n * times, *a.shape[axis + 1 :]))
    if np.ndim(repeats) > 1 or np.size(repeats) not in (1, n):
        raise new_error(
            ValueError,
            f"repeats must be a scalar or have length {n} (axis {axis} of {a.shape}), got shape "
            f"{np.shape(repeats)}.",
        )
    if total_repeat_length is None and counts is not None:
        if np.any(counts < 0):
            raise new_error(ValueError, "repeats must not be negative.")
        places = np.repeat(np.arange(n), np.broadcast_to(counts, (n,)))
        return take_rows(a, places.astype(np.int32), axis)
    total = util.static_int(total_repeat_length, "total_repeat_length")
    traced = util.broadcast_array(util.convert(repeats, np.dtype(np.int32)), (n,))
    return _repeat_traced(a, traced, axis, total)


@partial(jit, static_argnames=("axis", "total"))
def _repeat_traced(a: Any, counts: Any, axis: int, total: int) -> Any:
    # Output place p holds the element whose run of repeats covers p: the number of runs that
    # ended at or before p.
    n = a.shape[axis]
    if n == 0 or total == 0:
        shape = (*a.shape[:axis], total, *a.shape[axis + 1 :])
        return lax.full(shape, 0, a.dtype)
    ends = lax.cumsum(counts, 0)
    marks = lax.scatter_add(
        lax.full((total,), 0, np.dtype(np.int32)),
        lax.expand_dims(ends, (1,)),
        lax.full((n,), 1, np.dtype(np.int32)),
        lax.ScatterDimensionNumbers((), (0,), (0,)),
        mode=lax.GatherScatterMode.FILL_OR_DROP,
    )
    places = lax.cumsum(marks, 0)
    places = lax.min(places, lax.full_like(places, n - 1))
    return take_rows(a, places, axis)


def tile(A: ArrayLike, reps: Any) -> Array:
    """`A` repeated as a block `reps` times along each axis.

    >>> tile(np.array([1, 2]), 2).tolist()
    [1, 2, 1, 2]
    """
    a = util.ensure_arraylike("tile", A)
    counts = (reps,) if np.ndim(reps) == 0 else tuple(reps)
    counts = util.canonicalize_shape(counts, "reps")
    rank = max(len(counts), a.ndim)
    counts = (1,) * (rank - len(counts)) + counts
    dims = (1,) * (rank - a.ndim) + a.shape
    interleaved = tuple(n for pair in zip(counts, dims, strict=True) for n in pair)
    kept = tuple(2 * i + 1 for i in range(rank - a.ndim, rank))
    wide = lax.broadcast_in_dim(a, interleaved, kept)
    return lax.reshape(wide, tuple(c * n for c, n in zip(counts, dims, strict=True)))


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Array:
    """`filt` without leading ('f') and trailing ('b') zeros; the values must be concrete.

    >>> jnp.trim_zeros(jnp.array([0, 1, 0, 2, 0]))
    Array([1, 0, 2], dtype=int32)
    """
    filt = array(filt) if isinstance(filt, (list, tuple)) else filt
    x = util.ensure_arraylike("trim_zeros", filt)
    values = util.concrete_or_none(x)
    if values is None:
        raise util.concretization_error(
            x, "jnp.trim_zeros: the result's shape depends on values, so it cannot be traced."
        )
    axes = util.canonicalize_axes(axis, x.ndim)
    starts, stops = [0] * x.ndim, list(x.shape)
    for i in axes:
        nonzero = np.flatnonzero((values != 0).any(axis=tuple(j for j in range(x.ndim) if j != i)))
        if nonzero.size == 0:
            starts[i], stops[i] = 0, 0
            continue
        if "f" in trim.lower():
            starts[i] = int(nonzero[0])
        if "b" in trim.lower():
            stops[i] = int(nonzero[-1]) + 1
    return lax.slice(x, starts, stops)
