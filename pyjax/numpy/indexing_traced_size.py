"""Indexing of arrays of traced sizes (option `dynamic_shapes`): slices from the start, and new
axes. All else would have to know the size."""

from __future__ import annotations

from typing import Any

from pyjax import lax
from pyjax.core.array import Array
from pyjax.core.errors import fail, new_error
from pyjax.core.traced_sizes import FIX
from pyjax.lax.traced_sizes import leading, leading_p


def read_traced_size(x: Array, index: Any) -> Array:
    """`x[index]`.

    Raises:
      NotImplementedError: a part of the index is neither `:`, `:stop`, `None` nor `...`.
    """
    entries = list(index) if isinstance(index, tuple) else [index]
    for entry in entries:
        if not _is_simple(entry):
            fail(
                NotImplementedError,
                f"Index {entry!r} into an array whose size is traced, {x.aval.str_short()}.",
                "Such arrays (option dynamic_shapes) take slices from the start (x[:stop]) and new "
                "axes (x[:, None]); where other elements lie depends on the size.",
                f"Select with jnp.where and jnp.arange, and reduce. {FIX}",
            )
    missing = x.ndim - sum(isinstance(entry, slice) for entry in entries)
    if missing < 0:
        raise new_error(IndexError, f"Too many indices: {x.ndim} dimensions, got {index!r}.")
    place = next((i for i, entry in enumerate(entries) if entry is ...), len(entries))
    entries[place : place + 1] = [slice(None)] * missing
    axis, new_axes = 0, []
    for position, entry in enumerate(entries):
        if entry is None:
            new_axes.append(position)
            continue
        if entry.stop is not None:
            known = type(x.shape[axis]) is int
            x = _known_part(x, axis, entry) if known else leading(x, axis, entry.stop)
        axis += 1
    return lax.expand_dims(x, new_axes) if new_axes else x


def _is_simple(entry: Any) -> bool:
    if isinstance(entry, slice):
        return (
            entry.start is None or (type(entry.start) is int and entry.start == 0)
        ) and entry.step in (None, 1)
    return entry is None or entry is ...


def _known_part(x: Array, axis: int, entry: slice) -> Array:
    """A slice along a dimension of known size beside one of a traced size."""
    _, stop, _ = entry.indices(x.shape[axis])
    if stop == x.shape[axis]:
        return x
    shape = tuple(stop if i == axis else n for i, n in enumerate(x.shape))
    return leading_p.bind1(x, shape=shape)
