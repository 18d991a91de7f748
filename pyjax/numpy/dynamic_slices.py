"""Indices with `ds(start, size)`: a window of the array is cut out, and the rest of the index looks
at that. Layer: numpy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pyjax import lax
from pyjax.core.dynamic_slices import Slice
from pyjax.core.errors import new_error
from pyjax.numpy import util
from pyjax.numpy.index_plan import as_tuple


class Opened(NamedTuple):
    """An index in two steps.

    Attributes:
      rest: the index of the window.
      starts, sizes: the window, per dimension of the array.
      fits: a traced boolean: whether no window begins before 0 or ends beyond the array.
    """

    rest: tuple[Any, ...]
    starts: list[Any]
    sizes: list[int]
    fits: Any


def has_slices(index: Any) -> bool:
    """Whether `ds(...)` is part of an index."""
    return any(type(part) is Slice for part in as_tuple(index))


def opened(shape: tuple[int, ...], index: Any) -> Opened:
    """The window that the slices of an index cut out.

    Raises:
      TypeError, ValueError: a size is traced, or no size.
      IndexError: more elements are asked for than the dimension has.
    """
    parts = as_tuple(index)
    given = sum(map(_axes_of, parts))
    starts: list[Any] = [0] * len(shape)
    sizes = list(shape)
    fits: Any = True
    inner: list[Any] = []
    axis = 0
    for part in parts:
        if type(part) is not Slice:
            inner.append(part)
            axis += len(shape) - given if part is Ellipsis else _axes_of(part)
            continue
        if axis >= len(shape):
            raise new_error(
                IndexError, f"Too many indices: array is {len(shape)}-dimensional, got {index}"
            )
        n, stride = part.static_size(), part.stride
        length = (n - 1) * stride + 1 if n else 0
        if length > shape[axis]:
            raise new_error(
                IndexError,
                f"{part} reaches over {length} elements, and axis {axis} has {shape[axis]}.",
            )
        start = lax.convert_element_type(util.as_array(part.start), "int32")
        start = lax.select(lax.lt(start, 0), lax.add(start, shape[axis]), start)
        ok = lax.bitwise_and(lax.ge(start, 0), lax.le(start, shape[axis] - length))
        fits = ok if fits is True else lax.bitwise_and(fits, ok)
        starts[axis], sizes[axis] = start, length
        inner.append(slice(None, None, stride))
        axis += 1
    return Opened(tuple(inner), starts, sizes, fits)


def _axes_of(part: Any) -> int:
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if getattr(part, "dtype", None) == np.dtype(bool) else 1


def window(x: Any, found: Opened) -> Any:
    """The window of an array."""
    return lax.dynamic_slice(x, _starts(found), found.sizes)


def with_window(x: Any, found: Opened, new: Any) -> Any:
    """The array with another window, if that fits."""
    old = window(x, found)
    return lax.dynamic_update_slice(x, lax.select_n(found.fits, old, new), _starts(found))


def _starts(found: Opened) -> list[Any]:
    return [util.as_array(s).astype("int32") for s in found.starts]
