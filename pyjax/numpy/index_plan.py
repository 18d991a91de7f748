"""The indexing language: from an expression like x[1:, None, i, mask] to a gather/scatter plan.

`analyse(shape, index)` gives an `IndexPlan`, which says for each operand axis whether a window,
a strided range or an index array selects from it, and where that lands in the result; and the
tuple of index arrays.  Plans are hashable: reading and writing are compiled once per plan.

NumPy's rules, and where pyjax differs: boolean masks must be concrete, a list alone is no index,
static slices are clipped to the array, and integers out of bounds do not raise (see indexing.py).
"""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.core import dtypes
from pyjax.core.errors import NonConcreteBooleanIndexError, fail, new_error
from pyjax.core.exact_keys import exact_key
from pyjax.core.symbolic_dims import SymbolicDim, operation
from pyjax.core.trace import Tracer, entered, state
from pyjax.interpreters.staging import is_staging
from pyjax.numpy import util
from pyjax.numpy.indexing_basic import as_index_array, index_dtype, wrap_negative, wrapped
from xla_backend.process.bounded_cache import BoundedCache, Budget
from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.process.values import Value

# Numbers of 32 bits.
_LEAST, _MOST = -(2**31), 2**31 - 1


class NewAxis(Value):
    """`None`: an axis of size one in the result."""


class Window(Value):
    """A contiguous range of an operand axis; `reverse` for step -1."""

    dim: int
    start: int
    size: int
    reverse: bool


class Strided(Value):
    """start, start + step, ...: a range with a step other than 1 and -1."""

    dim: int
    start: int
    step: int
    size: int


class Indexed(Value):
    """An operand axis indexed by `arrays[position]` (an integer scalar or array)."""

    dim: int
    position: int


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """How an index expression reads an operand.

    Attributes:
      operand_shape: shape to view the operand in (scalar masks add axes of size one).
      elements: one entry per selected operand axis or new axis, in result order, with all
        `Indexed` ones moved to where their common axes appear.
      array_shape: the broadcast shape of the index arrays; None if all of them are scalars.
      array_axis: position in `elements` order (without Indexed) before which its axes go.
    """

    operand_shape: tuple[int, ...]
    elements: tuple[Any, ...]
    array_shape: tuple[int, ...] | None
    array_axis: int
    hash_value: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        key = (self.operand_shape, self.elements, self.array_shape, self.array_axis)
        object.__setattr__(self, "hash_value", hash(key))

    def __hash__(self) -> int:
        return self.hash_value  # plans are static arguments: hashed on every call

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape of `x[index]`."""
        out: list[int] = []
        others = [e for e in self.elements if not isinstance(e, Indexed)]
        for place in range(len(others) + 1):
            if self.array_shape is not None and place == self.array_axis:
                out.extend(self.array_shape)
            if place < len(others):
                out.append(1 if isinstance(others[place], NewAxis) else others[place].size)
        return tuple(out)


NON_TUPLE_SEQUENCE = (
    "Using a non-tuple sequence for multidimensional indexing is not allowed; "
    "use `arr[array(seq)]` instead of `arr[seq]`."
)


def as_tuple(index: Any) -> tuple[Any, ...]:
    """An index expression as a tuple of its parts."""
    if isinstance(index, tuple):
        return index
    return (index,)


def _reject(index: Any) -> None:
    if isinstance(index, (list, tuple)):
        fail(
            TypeError,
            NON_TUPLE_SEQUENCE,
            "A list could mean a tuple of indices or an index array.",
            "Fix: x[jnp.array(seq)] for an index array, x[tuple(seq)] for one index per axis.",
        )
    if isinstance(index, str):
        raise new_error(
            TypeError,
            f"JAX does not support string indexing; got idx={index!r} of type str",
            "Axes and fields of arrays have no names.",
            "Keep arrays in a dictionary, or index by position.",
        )
    kind = getattr(index, "dtype", None) or type(index).__name__
    fail(
        TypeError,
        f"Indexer must have integer or boolean type, got indexer with type {kind}.",
        "Positions in an array are whole numbers.",
        "Fix: convert it: x[i.astype(int)], or use // instead of / to compute it.",
    )


def _classify(entry: Any) -> Any:
    """An entry in canonical form: None, Ellipsis, slice, int, or an array."""
    if entry is None or entry is Ellipsis or type(entry) is int or isinstance(entry, slice):
        return entry
    if isinstance(entry, (bool, np.bool_)):
        return np.asarray(entry)
    if isinstance(entry, np.integer):
        return int(entry)
    if isinstance(entry, list):  # inside a tuple a list can only be an index array
        entry = np.asarray(entry)
    if not (util.is_array(entry) or isinstance(entry, np.ndarray)):
        entry = util.to_jax(entry)
        if not (util.is_array(entry) or isinstance(entry, np.ndarray)):
            try:
                return operator.index(entry)
            except TypeError:
                _reject(entry)
    dtype = entry.dtype
    if dtype == np.bool_ or dtypes.issubdtype(dtype, np.integer):
        return entry
    if isinstance(entry, np.ndarray) and entry.size == 0 and entry.dtype == np.float64:
        return entry.astype(np.int32)  # np.array([]) is how NumPy users write "no indices"
    _reject(entry)
    return None


def _concrete_mask(mask: Any) -> np.ndarray:
    value = util.concrete_or_none(mask)
    if value is not None:
        return value
    fail(
        NonConcreteBooleanIndexError,
        f"Array boolean indices must be concrete; got {mask.dtype}{list(mask.shape)} traced",
        "the shape of x[mask] is the number of True entries, which is not known while tracing.",
        "jnp.where(mask, x, other) keeps the shape; x.at[mask].set(v) is jnp.where(mask, v, x); "
        "sums take where=mask; jnp.nonzero(mask, size=n) bounds the count.",
    )


def _expand(shape: tuple[int, ...], entries: list[Any]) -> list[Any]:
    """Masks become index arrays, the ellipsis becomes slices; scalar masks are kept."""
    consumed = 0
    for e in entries:
        if isinstance(e, (int, slice)):
            consumed += 1
        elif e is not None and e is not Ellipsis:
            consumed += e.ndim if e.dtype == np.bool_ else 1
    if consumed > len(shape):
        raise new_error(
            IndexError,
            f"Too many indices: array is {len(shape)}-dimensional, but {consumed} were indexed",
            f"The array's shape is {shape}.",
            "Leave indices out, or use one index array for each axis.",
        )
    ellipses = sum(e is Ellipsis for e in entries)
    if ellipses > 1:
        raise new_error(IndexError, "Multiple ellipses (...) not supported: an index may hold one.")
    rest = [slice(None)] * (len(shape) - consumed)
    expanded: list[Any] = []
    for e in entries if ellipses else [*entries, Ellipsis]:
        if e is Ellipsis:
            expanded.extend(rest or [Ellipsis])  # kept when empty: it still separates arrays
        elif isinstance(e, (int, slice)) or e is None or e.dtype != np.bool_ or e.ndim == 0:
            expanded.append(e)
        else:
            dim = sum(_axes_used(x) for x in expanded)
            mask = _concrete_mask(e)
            target = shape[dim : dim + mask.ndim]
            if mask.size and mask.shape != target:  # one without elements chooses nothing
                raise new_error(
                    IndexError,
                    f"boolean index did not match shape of indexed array in index {dim}: got "
                    f"{mask.shape}, expected {target}",
                    "A boolean index says of each element along its axes whether it is chosen.",
                    "Compute the mask from the array that is indexed, or use integer indices.",
                )
            expanded.extend(i.astype(index_dtype(shape)) for i in np.nonzero(mask))
    return expanded


def _axes_used(entry: Any) -> int:
    if entry is None or entry is Ellipsis:
        return 0
    if isinstance(entry, (int, slice)):
        return 1
    return 0 if entry.dtype == np.bool_ else 1  # a scalar mask uses no axis of its own


def _slice_bound(value: Any) -> Any:
    if value is None or type(value) is int or type(value) is SymbolicDim:
        return value
    try:
        return operator.index(value)
    except TypeError:
        if isinstance(value, Tracer):
            raise
        raise new_error(
            TypeError,
            f"slice indices must be integers or None, got {value!r} of type {type(value).__name__}",
        ) from None


def _slice_element(dim: int, size: int, entry: slice) -> Any:
    if entry.start is None and entry.stop is None and entry.step is None:
        return Window(dim, 0, size, False)
    for bound in (entry.start, entry.stop, entry.step):
        if isinstance(bound, Tracer):
            fail(
                IndexError,
                "Array slice indices must have static start/stop/step to be used with NumPy "
                f"indexing syntax. Found slice({entry.start}, {entry.stop}, {entry.step}).",
                "The length of a slice is part of the result's shape, known while tracing.",
                "Fix: lax.dynamic_slice(x, starts, sizes) for a static length, or "
                "x[jnp.arange(n) + i].",
            )
    start, stop, step = (_slice_bound(b) for b in (entry.start, entry.stop, entry.step))
    if any(type(n) is SymbolicDim for n in (size, start, stop, step)):
        return _symbolic_range(dim, size, start, stop, step)
    start, stop, step = slice(start, stop, step).indices(size)
    count = len(range(start, stop, step))
    if step == 1 or count <= 1:
        return Window(dim, min(start, max(size - count, 0)) if count else 0, count, False)
    if step == -1:
        return Window(dim, start - count + 1, count, True)
    return Strided(dim, start, step, count)


def _symbolic_range(dim: int, size: Any, start: Any, stop: Any, step: Any) -> Any:
    """`_slice_element` where a size or bound is symbolic: what `slice.indices` computes."""
    step = 1 if step is None else step
    forwards = step > 0
    least, most = (0, size) if forwards else (-1, size - 1)

    def within(bound: Any, default: Any) -> Any:
        if bound is None:
            return default
        bound = bound + size if bound < 0 else bound
        return operation("min", operation("max", bound, least), most)

    first = within(start, least if forwards else most)
    last = within(stop, most if forwards else least)
    count = operation("max", -((first - last) // step), 0)
    if step == 1:
        return Window(dim, first, count, False)
    if step == -1:
        return Window(dim, first - count + 1, count, True)
    return Strided(dim, first, step, count)


def analyse(
    shape: tuple[int, ...], index: Any, wrap_negative_indices: bool = True, wrap: bool = False
) -> tuple[IndexPlan, tuple[Any, ...]]:
    """The plan of an index expression and its index arrays (nonnegative where possible; modulo the
    sizes of their axes if `wrap`).

    Static integers and NumPy arrays stay NumPy values.
    """
    key = static_key(index)
    if key is not None:
        return analyse_static(tuple(shape), key, wrap_negative_indices, wrap)
    return _analyse(shape, index, wrap_negative_indices, wrap)


def static_key(index: Any) -> tuple[Any, ...] | None:
    """A hashable form of an index of ints, static slices, None and Ellipsis; else None. Of ints of
    32 bits: whether others are errors depends on more than what they are."""
    out = []
    for entry in index if type(index) is tuple else (index,):
        kind = type(entry)
        if kind is int:
            if not _LEAST <= entry <= _MOST:
                return None
            out.append(entry)
        elif entry is None or entry is Ellipsis:
            out.append(entry)
        elif kind is slice:
            parts = (entry.start, entry.stop, entry.step)
            if not all(p is None or type(p) is int for p in parts):
                return None
            out.append(parts)
        else:
            return None
    return tuple(out)


@lru_cache(maxsize=4096)
def analyse_static(
    shape: tuple[int, ...], key: tuple[Any, ...], wrap_negative_indices: bool, wrap: bool = False
) -> tuple[IndexPlan, tuple[Any, ...]]:
    index = tuple(slice(*e) if type(e) is tuple else e for e in key)
    return _analyse(shape, index, wrap_negative_indices, wrap)


def check_index_width(entry: int, size: int) -> None:
    """A static index is an integer as arrays have them.

    Raises:
      OverflowError: it is wider.
    """
    if entered and any(map(is_staging, state.traces)):
        return  # clamped in the program, where checkify finds it
    bounds = np.iinfo(dtypes.canonicalize_dtype(np.int64))
    if not bounds.min <= entry <= bounds.max:
        raise new_error(
            OverflowError,
            f"Python int {entry} too large to convert to {bounds.dtype}, as an index of an axis of "
            f"size {size}.",
            "Indices out of bounds are clamped or dropped, but they are integers of arrays.",
            "Compute the index from the size of the axis; x[-1] is the last element.",
        )


def _static_index(entry: int, size: int, wrap: bool) -> np.ndarray:
    """A static integer as a 0-d NumPy array; what does not fit stays out of bounds."""
    check_index_width(entry, size)
    if wrap and entry < 0:
        entry += size
    if type(entry) is SymbolicDim:
        return entry
    return np.array(min(max(entry, _LEAST), _MOST), index_dtype((size,)))


def _analyse(
    shape: tuple[int, ...], index: Any, wrap_negative_indices: bool, wrap: bool
) -> tuple[IndexPlan, tuple[Any, ...]]:
    if isinstance(index, list):
        _reject(index)
    entries = _expand(shape, [_classify(e) for e in as_tuple(index)])
    operand_shape: list[int] = []
    elements: list[Any] = []
    arrays: list[Any] = []
    has_array = after_ellipsis = separated = False
    source = 0
    for entry in entries:
        dim = len(operand_shape)
        if entry is Ellipsis:
            after_ellipsis = bool(arrays)
            continue
        if entry is None:
            elements.append(NewAxis())
            continue
        if isinstance(entry, slice):
            operand_shape.append(shape[source])
            elements.append(_slice_element(dim, shape[source], entry))
            source += 1
            continue
        if not isinstance(entry, int) and entry.dtype == np.bool_:  # scalar mask
            value = np.zeros(int(bool(_concrete_mask(entry))), np.int32)
            operand_shape.append(1)
        else:
            size = shape[source]
            operand_shape.append(size)
            source += 1
            if isinstance(entry, int):
                within = entry % max(size, 1) if wrap else entry
                value = _static_index(within, size, wrap_negative_indices)
                if type(value) is SymbolicDim:
                    value = util.convert(value, index_dtype(shape))
            else:
                # Before what does not fit the type of an index is clamped.
                value = as_index_array(wrapped(entry, size) if wrap else entry, shape)
                signed = not dtypes.issubdtype(entry.dtype, np.unsignedinteger)
                value = wrap_negative(value, size) if wrap_negative_indices and signed else value
        has_array = has_array or value.ndim > 0
        separated = separated or after_ellipsis
        elements.append(Indexed(dim, len(arrays)))
        arrays.append(value)
    array_shape = None
    if has_array:
        array_shape = util.broadcast_shapes("indexing", [a.shape for a in arrays], ValueError)
    axis = _array_axis(elements) if has_array and not separated else 0
    return IndexPlan(tuple(operand_shape), tuple(elements), array_shape, axis), tuple(arrays)


def _array_axis(elements: list[Any]) -> int:
    """Where the axes of the index arrays go: in place if adjacent in the expression, else first."""
    places = [i for i, e in enumerate(elements) if isinstance(e, Indexed)]
    adjacent = places[-1] - places[0] + 1 == len(places)
    return places[0] if adjacent else 0


# ---------------------------------------------------------------------------------------------
# From a plan to the operands of gather and scatter


class Layout(Value):
    """What gather and scatter need, computed from a plan.

    Attributes:
      windows: result axes (without new ones) that are windows; batch axes are the others.
      collapsed: operand axes that an index column selects one element of.
      mapped: operand axes with an index column.
      sizes: slice sizes.
      core_shape: result shape without new axes.
      new_axes: where the new axes are in the result.
      reversed: axes of the core result to reverse.
    """

    windows: tuple[int, ...]
    collapsed: tuple[int, ...]
    mapped: tuple[int, ...]
    sizes: tuple[int, ...]
    core_shape: tuple[int, ...]
    new_axes: tuple[int, ...]
    reversed: tuple[int, ...]


# Of plans without arrays: their index operands are constants of programs, which have one of each.
_layouts: BoundedCache[Any, tuple[Layout, Any]] = BoundedCache(
    Budget("layouts of indices", entries=1024, nbytes=16 << 20), lambda made: made[1].nbytes
)


def layout(plan: IndexPlan, arrays: tuple[Any, ...]) -> tuple[Layout, Any]:
    """The layout of a plan, and the index operand (columns in its last axis)."""
    if arrays:
        return _layout(plan, arrays)
    return _layouts.make(exact_key(plan), lambda: _layout(plan, arrays))


def _layout(plan: IndexPlan, arrays: tuple[Any, ...]) -> tuple[Layout, Any]:
    others = [e for e in plan.elements if not isinstance(e, Indexed)]
    core: list[int] = []
    windows, new_axes, reversed_axes = [], [], []
    batch_places: list[tuple[Any, int]] = []  # (element or array axis, batch position)
    batch_shape: list[int] = []
    array_first = 0
    position = 0
    for place in range(len(others) + 1):
        if plan.array_shape is not None and place == plan.array_axis:
            array_first = len(batch_shape)
            core.extend(plan.array_shape)
            batch_shape.extend(plan.array_shape)
            position += len(plan.array_shape)
        if place == len(others):
            break
        element = others[place]
        if isinstance(element, NewAxis):
            new_axes.append(position)
            position += 1
            continue
        position += 1
        if isinstance(element, Window):
            if element.reverse:
                reversed_axes.append(len(core))
            windows.append(len(core))
        else:
            batch_places.append((element, len(batch_shape)))
            batch_shape.append(element.size)
        core.append(element.size)
    columns: list[tuple[int, Any]] = []
    sizes = list(plan.operand_shape)
    collapsed = []
    dtype = index_dtype(plan.operand_shape)
    strided_at = {element.dim: where for element, where in batch_places}
    for element in plan.elements:
        if isinstance(element, NewAxis):
            continue
        dim = element.dim
        if isinstance(element, Window):
            sizes[dim] = element.size
            if element.size != plan.operand_shape[dim]:
                columns.append((dim, np.asarray(element.start, dtype)))
            continue
        sizes[dim] = 1
        collapsed.append(dim)
        if isinstance(element, Strided):
            value = element.start + element.step * np.arange(element.size)
            shape = [1] * len(batch_shape)
            shape[strided_at[dim]] = element.size
            columns.append((dim, value.astype(dtype).reshape(shape)))
        else:
            columns.append(
                (
                    dim,
                    _align(
                        arrays[element.position],
                        plan.array_shape or (),
                        array_first,
                        len(batch_shape),
                    ),
                )
            )
    columns.sort(key=lambda c: c[0])
    indices = _columns(columns, tuple(batch_shape), dtype)
    made = Layout(
        tuple(windows),
        tuple(sorted(collapsed)),
        tuple(d for d, _ in columns),
        tuple(sizes),
        tuple(core),
        tuple(new_axes),
        tuple(reversed_axes),
    )
    return made, indices


def _align(array: Any, array_shape: tuple[int, ...], first: int, rank: int) -> Any:
    """Index array with its axes placed among the batch axes (size one elsewhere)."""
    lead = first + len(array_shape) - array.ndim
    shape = (1,) * lead + tuple(array.shape) + (1,) * (rank - lead - array.ndim)
    if not array.ndim:
        return array
    return array.reshape(shape) if isinstance(array, np.ndarray) else lax.reshape(array, shape)


def _columns(columns: list[tuple[int, Any]], batch: tuple[int, ...], dtype: Any) -> Any:
    if all(isinstance(value, (np.ndarray, np.generic)) for _, value in columns):
        parts = [np.broadcast_to(value, batch) for _, value in columns]
        return np.stack(parts, -1) if parts else np.zeros((*batch, 0), dtype)
    pieces = []
    for _, value in columns:
        value = util.broadcast_array(util.convert(util.as_array(value), dtype), batch)
        pieces.append(lax.expand_dims(value, (len(batch),)))
    return lax.concatenate(pieces, len(batch)) if len(pieces) > 1 else pieces[0]
