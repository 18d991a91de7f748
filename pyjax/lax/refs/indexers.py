"""Indices into mutable references, and what they mean for the array behind one.

An index takes integers, slices with positive steps, integer arrays (broadcast against each other)
and one ellipsis. An `Indexer` is its static part; integers and arrays are operands. Integers out of
bounds are clamped; elements of arrays that are out of bounds read the nearest element, and write
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyjax.core import dtypes
from pyjax.core.avals import ShapedArray, abstractify, is_valid_value
from pyjax.core.dynamic_slices import Slice
from pyjax.core.errors import NonConcreteBooleanIndexError, fail
from pyjax.core.refs import is_ref
from pyjax.core.trace import to_concrete_value
from pyjax.lax.arithmetic import add
from pyjax.lax.common import aval_of, shape_of
from pyjax.lax.compare import clamp, lt, select
from pyjax.lax.convert import convert_element_type
from pyjax.lax.indexing.gather import gather
from pyjax.lax.indexing.gather_scatter_types import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from pyjax.lax.indexing.scatter import scatter, scatter_add
from pyjax.lax.indexing.slicing import dynamic_slice, dynamic_update_slice, slice
from pyjax.lax.shape import broadcast_in_dim, reshape, transpose
from pyjax.lax.shape_join import concatenate


class Window(NamedTuple):
    """A slice of one dimension: `size` elements from `start`, each `step`th."""

    start: int
    size: int
    step: int


class Indexer(NamedTuple):
    """The static part of an index.

    Attributes:
      shape: of what is indexed.
      entries: for each dimension a Window, or None for an operand: an integer or an array.
      array_shape: to which the operands broadcast.
    """

    shape: tuple[int, ...]
    entries: tuple[Window | None, ...]
    array_shape: tuple[int, ...]

    @property
    def indexed(self) -> list[int]:
        """The dimensions with operands."""
        return [d for d, e in enumerate(self.entries) if e is None]

    @property
    def array_position(self) -> int:
        """Where the dimensions of the arrays stand in the result: where those that they index stood
        if they were next to each other, else in front."""
        indexed = self.indexed
        if not indexed or indexed[-1] - indexed[0] + 1 != len(indexed):
            return 0
        return indexed[0]

    @property
    def result_shape(self) -> tuple[int, ...]:
        sizes = tuple(e.size for e in self.entries if e is not None)
        at = self.array_position
        return (*sizes[:at], *self.array_shape, *sizes[at:])


Indexers = tuple[Indexer, ...]


def result_shape(shape: tuple[int, ...], indexers: Indexers) -> tuple[int, ...]:
    """The shape of what is read."""
    return indexers[-1].result_shape if indexers else shape


# -- from the user's index -------------------------------------------------------------------------

_WHAT = "integers, slices, integer arrays and one `...`"


def parse_index(index: Any, shape: tuple[int, ...]) -> tuple[Indexer | None, list[Any]]:
    """The static part of an index and its operands; None for the whole array.

    Raises:
      ValueError: too many indices, an integer out of bounds, a slice with a step below 1.
      TypeError: something else than an index takes.
      NonConcreteBooleanIndexError: a mask.
    """
    if index is None or index is Ellipsis:
        return None, []
    parts = list(index) if type(index) is tuple else [index]
    ellipses = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(ellipses) > 1:
        fail(ValueError, "an index of a Ref has more than one `...`.", fix="Write one of them.")
    if ellipses:
        at = ellipses[0]
        missing = len(shape) - len(parts) + 1
        parts[at : at + 1] = [builtin_slice(None)] * missing
    if len(parts) > len(shape):
        fail(
            ValueError,
            f"{len(parts)} indices for a Ref of {len(shape)} dimension(s), of shape {shape}.",
            "each index stands for one dimension",
            "Leave out what is too much.",
        )
    parts += [builtin_slice(None)] * (len(shape) - len(parts))
    if not parts:
        return None, []
    entries: list[Window | None] = []
    operands: list[Any] = []
    for part, size in zip(parts, shape):
        if type(part) is Slice:
            part = _opened(part, size, len(parts) > 1)
        if isinstance(part, builtin_slice):
            entries.append(_window(part, size))
        else:
            entries.append(None)
            operands.append(_operand(part, size))
    shapes = [shape_of(x) for x in operands]
    try:
        array_shape = np.broadcast_shapes(*shapes)
    except ValueError:
        fail(
            ValueError,
            f"arrays that index a Ref have shapes that do not broadcast: {shapes}.",
            fix="Give them shapes that broadcast, as in NumPy.",
        )
    return Indexer(shape, tuple(entries), array_shape), operands


builtin_slice = type(np.s_[:])


def _opened(part: Slice, size: int, has_others: bool) -> Any:
    """The index that `ds(...)` stands for: a slice, or an array of what is known at run time."""
    n, stride = part.static_size(), part.stride
    last = size - ((n - 1) * stride + 1 if n else 0)
    if last < 0:
        fail(
            IndexError,
            f"{part} reaches beyond a dimension of {size} elements of a Ref.",
            fix="Ask for fewer elements.",
        )
    known = None if part.is_dynamic_start else to_concrete_value(part.start)
    if known is None and not part.is_dynamic_start:
        known = part.start
    if known is not None:
        start = int(known)
        start = min(max(start + size if start < 0 else start, 0), last)
        return builtin_slice(start, start + n * stride, stride)
    if has_others:
        fail(
            NotImplementedError,
            f"{part} is one of several indices of a Ref, and its start is traced.",
            "beside other arrays it would choose pairs of indices, not a block",
            "Read the whole Ref and index that: ref[...][ds(i, n), j].",
        )
    first = convert_element_type(part.start, np.dtype(np.int32))
    first = select(lt(first, np.int32(0)), add(first, np.int32(size)), first)
    first = clamp(np.int32(0), first, np.int32(last))
    steps = np.arange(n, dtype=np.int32) * np.int32(stride)
    return add(broadcast_in_dim(first, (n,), ()), steps)


def _window(part: Any, size: int) -> Window:
    try:
        start, stop, step = part.indices(size)
    except (TypeError, ValueError) as error:
        if part.step == 0:
            start, stop, step = 0, 0, 0
        else:
            fail(
                TypeError,
                f"the slice {part} of a Ref has bounds that are no integers: {error}",
                "how many elements there are is part of the program",
                "Use static bounds, or an integer array: ref[start + jnp.arange(n)].",
            )
    if step < 1:
        fail(
            ValueError,
            f"a slice of a Ref must have a step >= 1, and has {part.step}.",
            "writing through it goes forwards",
            "Reverse what is read: ref[...][::-1].",
        )
    count = max(0, -(-(stop - start) // step))
    return Window(start if count else 0, count, step)


def _operand(part: Any, size: int) -> Any:
    if is_ref(part):
        fail(
            TypeError,
            "a Ref was used as an index.",
            "an index is a value",
            "Read it: ref[indices[...]].",
        )
    if not is_valid_value(part) or isinstance(part, (str, bytes)):
        fail(
            TypeError,
            f"{part!r:.60} of type {type(part).__name__} is no index of a Ref.",
            f"an index has {_WHAT}",
            "Make a list an array: jnp.array([0, 2]).",
        )
    aval = abstractify(part)
    if aval.dtype == np.bool_:
        fail(
            NonConcreteBooleanIndexError,
            f"a Ref was indexed with a mask of type {aval.str_short()}.",
            f"how many elements it chooses depends on values; an index has {_WHAT}",
            "Choose with jnp.where: ref[...] = jnp.where(mask, new, ref[...]).",
        )
    if not dtypes.issubdtype(aval.dtype, np.integer):
        fail(
            TypeError,
            f"a Ref was indexed with {aval.str_short()}.",
            f"an index has {_WHAT}",
            "Convert it with .astype(int).",
        )
    if not aval.shape:
        value = to_concrete_value(part)
        if value is not None and int(value) >= size:
            fail(
                ValueError,
                f"Out of bound indexer: idx={value}, dim={size}.",
                "the index is known, and there is no such element",
                f"Use an index below {size}.",
            )
        if isinstance(part, int):
            return np.int32(max(part + size, 0) if part < 0 else part)
    return part


# -- what is read and written ----------------------------------------------------------------------


def read(x: Any, indexers: Indexers, operands: Sequence[Any]) -> Any:
    """The elements of an array that the indexers, one after the other, choose."""
    rest = list(operands)
    for indexer in indexers:
        count = len(indexer.indexed)
        x, rest = _read(x, indexer, rest[:count]), rest[count:]
    return x


def write(x: Any, indexers: Indexers, operands: Sequence[Any], value: Any) -> Any:
    """The array with these elements replaced."""
    return _changed(x, indexers, operands, value, _Replace)


def add_to(x: Any, indexers: Indexers, operands: Sequence[Any], value: Any) -> Any:
    """The array with `value` added to these elements, as often as they are chosen."""
    return _changed(x, indexers, operands, value, _Add)


class _Replace:
    combine: Callable[[Any, Any], Any] = staticmethod(lambda old, new: new)
    scatter = staticmethod(scatter)


class _Add:
    combine: Callable[[Any, Any], Any] = staticmethod(add)
    scatter = staticmethod(scatter_add)


def _changed(
    x: Any, indexers: Indexers, operands: Sequence[Any], value: Any, how: type[Any]
) -> Any:
    if not indexers:
        return how.combine(x, value)
    first, *others = indexers
    count = len(first.indexed)
    if others:
        part = _read(x, first, operands[:count])
        value = _changed(part, tuple(others), operands[count:], value, how)
        how = _Replace
    if _is_window(first):
        return _write_window(x, first, operands[:count], value, how)
    return _scatter(x, first, operands[:count], value, how)


def _is_window(indexer: Indexer) -> bool:
    """Whether it chooses one block of the array."""
    return not indexer.array_shape and all(e is None or e.step == 1 for e in indexer.entries)


def _block(indexer: Indexer, operands: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Starts and sizes."""
    integers = iter(operands)
    starts: list[Any] = [e.start if e is not None else next(integers) for e in indexer.entries]
    return starts, [1 if e is None else e.size for e in indexer.entries]


def _read(x: Any, indexer: Indexer, operands: Sequence[Any]) -> Any:
    if _is_window(indexer):
        if all(e == (0, n, 1) for e, n in zip(indexer.entries, indexer.shape)):
            return x
        starts, sizes = _block(indexer, operands)
        if operands:
            return reshape(dynamic_slice(x, starts, sizes), indexer.result_shape)
        return slice(x, starts, [a + n for a, n in zip(starts, sizes)])
    windows = [Window(0, n, 1) if e is None else e for e, n in zip(indexer.entries, indexer.shape)]
    ends = [w.start + max(w.size - 1, 0) * w.step + min(w.size, 1) for w in windows]
    x = slice(x, [w.start for w in windows], ends, [w.step for w in windows])
    indexed = indexer.indexed
    if not indexed:
        return x
    at, rank = indexer.array_position, len(indexer.array_shape)
    kept = len(indexer.shape) - len(indexed)
    numbers = GatherDimensionNumbers(
        offset_dims=(*range(at), *range(at + rank, kept + rank)),
        collapsed_slice_dims=tuple(indexed),
        start_index_map=tuple(indexed),
    )
    slice_sizes = tuple(1 if e is None else e.size for e in indexer.entries)
    vectors = _index_vectors(indexer, operands, indexer.array_shape)
    return gather(x, vectors, numbers, slice_sizes, mode=GatherScatterMode.CLIP)


def _write_window(
    x: Any, indexer: Indexer, operands: Sequence[Any], value: Any, how: type[Any]
) -> Any:
    starts, sizes = _block(indexer, operands)
    if not math.prod(sizes):
        return x
    value = reshape(value, sizes)
    if how is not _Replace:
        value = how.combine(dynamic_slice(x, starts, sizes), value)
    if tuple(sizes) == indexer.shape:
        return value
    return dynamic_update_slice(x, value, starts)


def _scatter(x: Any, indexer: Indexer, operands: Sequence[Any], value: Any, how: type[Any]) -> Any:
    """Slices that leave elements out are written as arrays of indices are."""
    rank = len(indexer.array_shape)
    whole = [e is not None and e == (0, n, 1) for e, n in zip(indexer.entries, indexer.shape)]
    parts = [d for d, e in enumerate(indexer.entries) if e is not None and not whole[d]]
    sliced = [d for d, e in enumerate(indexer.entries) if e is not None]
    at = indexer.array_position
    # Dimensions of the value: of the arrays, of slices that leave something out, of whole ones.
    places = {d: i if i < at else i + rank for i, d in enumerate(sliced)}
    order = [*range(at, at + rank), *(places[d] for d in parts)]
    order += [places[d] for d in sliced if whole[d]]
    value = transpose(value, order)
    batch = (*indexer.array_shape, *(_size(indexer, d) for d in parts))
    indexed = [d for d in range(len(indexer.shape)) if not whole[d]]
    numbers = ScatterDimensionNumbers(
        update_window_dims=tuple(range(len(batch), len(order))),
        inserted_window_dims=tuple(indexed),
        scatter_dims_to_operand_dims=tuple(indexed),
    )
    vectors = _index_vectors(indexer, operands, batch, parts)
    return how.scatter(x, vectors, value, numbers, mode=GatherScatterMode.FILL_OR_DROP)


def _size(indexer: Indexer, dimension: int) -> int:
    entry = indexer.entries[dimension]
    assert entry is not None
    return entry.size


def _index_vectors(
    indexer: Indexer, operands: Sequence[Any], batch: tuple[int, ...], parts: Sequence[int] = ()
) -> Any:
    """Index vectors [batch..., dimensions], of the operands and of the slices `parts`, whose
    dimensions come last in the batch."""
    integers = iter(operands)
    rank = len(indexer.array_shape)
    columns = []
    for d, (entry, size) in enumerate(zip(indexer.entries, indexer.shape)):
        if entry is None:
            index = _counted_from_front(next(integers), size)
            own = shape_of(index)
            kept = [i for i, n in enumerate(own) if n == indexer.array_shape[rank - len(own) + i]]
            index = reshape(index, [own[i] for i in kept])
            columns.append(broadcast_in_dim(index, batch, [rank - len(own) + i for i in kept]))
        elif d in parts:
            values = np.arange(entry.size, dtype=np.int32) * entry.step + entry.start
            columns.append(broadcast_in_dim(values, batch, [rank + list(parts).index(d)]))
    rows = [reshape(c, (*batch, 1)) for c in columns]
    return rows[0] if len(rows) == 1 else concatenate(rows, len(batch))


def _counted_from_front(index: Any, size: int) -> Any:
    """Indices that are counted from the end where they are negative, as int32."""
    if isinstance(index, (np.generic, int)):
        number = int(index)
        return np.int32(max(number + size, 0) if number < 0 else number)
    aval: ShapedArray = aval_of(index)
    index = _as_int32(index, aval)
    if dtypes.issubdtype(aval.dtype, np.unsignedinteger):
        return index
    zeros = broadcast_in_dim(np.int32(0), aval.shape, ())
    sizes = broadcast_in_dim(np.int32(size), aval.shape, ())
    return select(lt(index, zeros), add(index, sizes), index)


def _as_int32(index: Any, aval: ShapedArray) -> Any:
    return index if aval.dtype == np.int32 else convert_element_type(index, np.dtype(np.int32))
