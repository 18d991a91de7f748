"""Reading arrays with the indexing language: x[index] and x.at[index].get(...).

Static slices and integers become slices; everything else one gather.  Out of bounds: integers are
clamped (mode None, 'promise_in_bounds', 'clip'), filled ('fill', 'drop') or wrapped ('wrap').
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pyjax import lax
from pyjax._config import options
from pyjax._config.registry import trace_context
from pyjax.api.jit import jit
from pyjax.core.array import Array
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail, new_error
from pyjax.core.fault_checks import fault_checks
from pyjax.core.trace import entered, eval_trace, state
from pyjax.core.traced_sizes import is_known
from pyjax.lax.faults.messages import static_index_error
from pyjax.numpy import util
from pyjax.numpy.chosen import chosen_elements
from pyjax.numpy.dynamic_slices import has_slices, opened, window
from pyjax.numpy.index_plan import (
    Indexed,
    IndexPlan,
    NewAxis,
    Strided,
    Window,
    analyse,
    analyse_static,
    check_index_width,
    layout,
    static_key,
)
from pyjax.numpy.indexing_basic import parse_mode
from pyjax.numpy.indexing_traced_size import read_traced_size
from pyjax.runtime.array import DeviceArray, array_from_host
from pyjax.runtime.dispatch import constant_array
from xla_backend.process.bounded_cache import BoundedCache, Budget


def getitem(x: Any, item: Any) -> Any:
    """`x[item]` for an Array or Tracer."""
    if type(x) is DeviceArray and (not entered or state.traces[0] is eval_trace):
        if type(item) is int:
            shape = x.aval.shape
            if shape and shape[0]:
                return _row(x, _row_number(item, shape[0]))
        key = static_key(item)
        if key is not None:
            return _read_eager(x, key)
        parts = integer_arrays(item)
        if parts is not None:
            return _read_compiled(x, parts)
        if _is_mask(item, x):
            found = chosen_elements(x, item)
            if found is not None:
                return found
    return read(x, item)


def _is_mask(index: Any, x: Any) -> bool:
    """Whether an index is a mask on a device for each element of `x`."""
    return type(index) is DeviceArray and index.dtype == np.bool_ and index.shape == x.shape


def integer_arrays(index: Any) -> tuple[DeviceArray, ...] | None:
    """The parts of an index that is integer arrays on a device and nothing else."""
    parts = index if type(index) is tuple else (index,)
    for i in parts:
        if type(i) is not DeviceArray or getattr(i.dtype, "kind", "") not in ("i", "u"):
            return None
    return parts


@jit
def _read_compiled(x: Any, index: tuple[Any, ...]) -> Any:
    # Outside jit, an index of integer arrays is one compiled call instead of five.
    return read(x, index)


def _read_eager(x: Array, key: tuple[Any, ...]) -> Array:
    shape = x.aval.shape
    recipe = _recipes.hot.get((shape, key))
    if recipe is None:
        recipe = _recipes.make((shape, key), lambda: _window_recipe(shape, key))
    starts, window = recipe
    if starts is None:
        assert window is not None
        return window(x)
    return window(x, starts) if window is not None else x


_Recipe = tuple[Array | None, Callable[..., Any] | None]
# They hold arrays and programs, so clear_caches empties them.
_recipes: BoundedCache[Any, _Recipe] = BoundedCache(Budget("static indices", entries=4096))
_windows: BoundedCache[Any, Callable[..., Any]] = BoundedCache(Budget("windows", entries=4096))


def _window_recipe(shape: tuple[int, ...], key: tuple[Any, ...]) -> _Recipe:
    """Starts and the compiled window function of a static index; without starts, the compiled
    function of an index of another form."""
    plan, arrays = analyse_static(shape, key, True)
    starts, sizes, squeezed = [], [], []
    for e in plan.elements:
        if isinstance(e, Window) and not e.reverse:
            starts.append(e.start)
            sizes.append(e.size)
        elif isinstance(e, Indexed) and 0 <= arrays[e.position] < plan.operand_shape[e.dim]:
            starts.append(int(arrays[e.position]))
            sizes.append(1)
            squeezed.append(e.dim)
        else:
            return None, jit(lambda x: _read_static(x, plan, arrays))
    if not squeezed and tuple(sizes) == shape:
        return _host_starts(starts), None
    window = (tuple(sizes), tuple(squeezed))
    return _host_starts(starts), _windows.make(window, lambda: _window(*window))


def _host_starts(starts: list[int]) -> Array:
    value = np.asarray(starts, np.int32)
    return array_from_host(value, ShapedArray(value.shape, value.dtype))


# The first ones are frequent, and making an array takes as long as reading a row.
_SMALL = 256
_small_numbers: BoundedCache[Any, Array] = BoundedCache(Budget("row numbers", entries=2 * _SMALL))


def _row_number(i: int, size: int) -> Any:
    """A static integer index counted from the end if negative, and clamped into bounds."""
    given = i
    if i < 0:
        i += size
    if not 0 <= i < size:
        check_index_width(given, size)
        i = _clamped(i, 0, size)
    if i >= _SMALL:
        return constant_array(np.int32(i))
    key = (i, trace_context())
    array = _small_numbers.hot.get(key)
    return _small_numbers.make(key, lambda: constant_array(np.int32(i))) if array is None else array


def _clamped(i: int, axis: int, size: int) -> int:
    """The index in bounds that a static one out of bounds stands for.

    Raises:
      OutOfBoundsError: the option error_checking_behavior_oob makes it an error.
      IndexError: the option check_static_indices does.
    """
    if not 0 <= i < size:
        checks = fault_checks()
        if checks is not None and checks.oob:
            raise static_index_error(i, axis, size)
        if options.check_static_indices.value:
            fail(
                IndexError,
                f"index {i if i >= 0 else i - size} out of bounds for axis {axis} with size {size}",
                "The option jax_check_static_indices makes it an error; else the index is clamped.",
                "Index with a number that the axis has, or read with x.at[i].get(mode='clip').",
            )
    return min(max(i, 0), size - 1)


@jit
def _row(x: Any, i: Any) -> Any:
    # The index is an operand, so that reading another row does not compile again.
    return lax.squeeze(lax.dynamic_slice_in_dim(x, i, 1, 0, allow_negative_indices=False), (0,))


def read(
    x: Any,
    index: Any,
    *,
    mode: Any = None,
    fill_value: Any = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    wrap_negative_indices: bool = True,
) -> Any:
    """`x[index]` with the behaviour of integer indices out of bounds chosen by `mode`."""
    x = util.as_array(x)
    if not is_known(x.shape):
        return read_traced_size(x, index)
    if has_slices(index):
        found = opened(x.shape, index)
        x, index = window(x, found), found.rest
    parsed = parse_mode(mode)
    plan, arrays = analyse(x.shape, index, wrap_negative_indices, parsed == "wrap")
    if fill_value is not None and parsed is None:
        parsed = lax.GatherScatterMode.FILL_OR_DROP
    static = plan.array_shape is None and all(isinstance(a, np.ndarray) for a in arrays)
    # Slices clamp, as the mode says; where an index out of bounds is an error, a slice has it, too.
    slices = parsed in (None, lax.GatherScatterMode.PROMISE_IN_BOUNDS) or (
        parsed is lax.GatherScatterMode.CLIP
        and options.error_checking_behavior_oob.value == "ignore"
    )
    if static and (slices or _in_bounds(plan, arrays)):
        return _read_static(x, plan, arrays)
    if parsed == "wrap":
        parsed = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    if (
        plan.array_shape is None
        and not any(isinstance(e, Strided) for e in plan.elements)
        and slices
    ):
        return _read_dynamic(x, plan, arrays)
    parsed = lax.GatherScatterMode.PROMISE_IN_BOUNDS if parsed is None else parsed
    if fill_value is not None:
        fill_value = static_fill(fill_value)
    return _gather(x, arrays, fill_value, plan, parsed, unique_indices, indices_are_sorted)


def _in_bounds(plan: IndexPlan, arrays: tuple[Any, ...]) -> bool:
    """Whether static indices are known to be within the operand."""
    return all(
        np.all((arrays[e.position] >= 0) & (arrays[e.position] < plan.operand_shape[e.dim]))
        for e in plan.elements
        if isinstance(e, Indexed)
    )


def _read_static(x: Any, plan: IndexPlan, arrays: tuple[Any, ...]) -> Any:
    starts, limits, strides = [], [], []
    squeezed, reversed_axes, whole = [], [], True
    beyond: list[tuple[int, int]] = []
    for e in plan.elements:
        if isinstance(e, NewAxis):
            continue
        size = plan.operand_shape[e.dim]
        if isinstance(e, Window):
            starts.append(e.start)
            limits.append(e.start + e.size)
            strides.append(1)
            if e.reverse:
                reversed_axes.append(e.dim)
        elif isinstance(e, Strided):
            first = e.start if e.step > 0 else e.start + e.step * (e.size - 1)
            starts.append(first)
            limits.append(first + abs(e.step) * (e.size - 1) + 1)
            strides.append(abs(e.step))
            if e.step < 0:
                reversed_axes.append(e.dim)
        else:
            if size == 0:
                raise new_error(
                    IndexError,
                    f"index is out of bounds for axis {e.dim} with size 0 (shape "
                    f"{plan.operand_shape})",
                )
            i = int(arrays[e.position])
            inside = _clamped(i, e.dim, size)
            if i != inside:
                beyond.append((e.dim, i))
            starts.append(inside if i == inside else 0)
            limits.append(inside + 1 if i == inside else size)
            strides.append(1)
            squeezed.append(e.dim)
        whole = whole and strides[-1] == 1 and starts[-1] == 0 and limits[-1] == size
    new_axes = _new_axes(plan)
    if not whole:
        steps = None if all(s == 1 for s in strides) else strides
        x = lax.slice(x, starts, limits, steps)
    for axis, i in beyond:  # clamped by the operation, in which checkify finds the index
        start = np.int32(min(max(i, -(2**31)), 2**31 - 1))
        x = lax.dynamic_slice_in_dim(x, start, 1, axis, allow_negative_indices=False)
    if reversed_axes:
        x = lax.rev(x, tuple(reversed_axes))
    if squeezed:
        x = lax.squeeze(x, tuple(squeezed))
    return lax.expand_dims(x, new_axes) if new_axes else x


def _window(sizes: tuple[int, ...], squeezed: tuple[int, ...]) -> Callable[..., Any]:
    """A compiled function that cuts windows of `sizes` and drops the axes `squeezed`.

    Starts are operands, so that sliding a window over an array does not compile again.
    """

    @jit
    def window(x: Any, starts: Any) -> Any:
        places = [lax.squeeze(lax.slice_in_dim(starts, i, i + 1), (0,)) for i in range(x.ndim)]
        return lax.squeeze(
            lax.dynamic_slice(x, places, sizes, allow_negative_indices=False), squeezed
        )

    return window


def _new_axes(plan: IndexPlan) -> tuple[int, ...]:
    kept = [e for e in plan.elements if not isinstance(e, Indexed)]
    return tuple(i for i, e in enumerate(kept) if isinstance(e, NewAxis))


def _read_dynamic(x: Any, plan: IndexPlan, arrays: tuple[Any, ...]) -> Any:
    """Scalar integer indices, some of them traced, and contiguous slices: one dynamic_slice."""
    starts: list[Any] = [0] * len(plan.operand_shape)
    sizes = list(plan.operand_shape)
    squeezed, reversed_axes = [], []
    for e in plan.elements:
        if isinstance(e, Window):
            starts[e.dim], sizes[e.dim] = np.int32(e.start), e.size
            if e.reverse:
                reversed_axes.append(e.dim)
        elif isinstance(e, Indexed):
            value = arrays[e.position]
            starts[e.dim] = value[()] if isinstance(value, np.ndarray) else value
            sizes[e.dim] = 1
            squeezed.append(e.dim)
    dtype = next(a.dtype for a in arrays if not isinstance(a, np.ndarray))
    starts = [np.asarray(s, dtype) if isinstance(s, (int, np.generic)) else s for s in starts]
    out = lax.dynamic_slice(x, starts, sizes, allow_negative_indices=False)
    if reversed_axes:
        out = lax.rev(out, tuple(reversed_axes))
    out = lax.squeeze(out, tuple(squeezed))
    new_axes = _new_axes(plan)
    return lax.expand_dims(out, new_axes) if new_axes else out


@partial(jit, static_argnames=("fill_value", "plan", "mode", "unique", "are_sorted"), inline=True)
def _gather(
    x: Any,
    arrays: tuple[Any, ...],
    fill_value: Any,
    plan: IndexPlan,
    mode: Any,
    unique: bool,
    are_sorted: bool,
) -> Any:
    result_shape = plan.result_shape
    if 0 in result_shape:
        return lax.full(result_shape, 0, x.dtype)
    made, indices = layout(plan, arrays)
    x = lax.reshape(x, plan.operand_shape) if x.shape != plan.operand_shape else x
    if made.mapped:
        numbers = lax.GatherDimensionNumbers(made.windows, made.collapsed, made.mapped)
        fill = fill_value if mode is lax.GatherScatterMode.FILL_OR_DROP else None
        x = lax.gather(
            x,
            indices,
            numbers,
            made.sizes,
            unique_indices=unique,
            indices_are_sorted=are_sorted,
            mode=mode,
            fill_value=fill,
        )
    if made.reversed:
        x = lax.rev(x, made.reversed)
    return lax.expand_dims(x, made.new_axes) if made.new_axes else x


def static_fill(fill_value: Any) -> Any:
    """A fill value as a Python scalar: it is a constant of the compiled gather."""
    value = util.concrete_or_none(fill_value)
    if value is None or value.ndim:
        raise util.concretization_error(
            fill_value,
            "fill_value must be a concrete scalar; for a traced one, use mode='clip' "
            "and jnp.where(index < size, ..., fill_value).",
        )
    return value.item()
