"""Functional updates: x.at[index].set(v), .add, .multiply, .divide, .power, .min, .apply, .get...

An update returns a new array; inside jit the compiler updates in place when the old one is dead.
Integer indices out of bounds are dropped unless `mode` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NoReturn

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array
from pyjax.core.avals import Split, abstractify
from pyjax.core.errors import fail, new_error
from pyjax.core.source_info import warn_user
from pyjax.core.structural import as_split
from pyjax.lax.indexing.gather_scatter_types import mode_left_open
from pyjax.lax.reshard import computed_as
from pyjax.numpy import util
from pyjax.numpy.arithmetic import divide, power
from pyjax.numpy.dynamic_slices import has_slices, opened, window, with_window
from pyjax.numpy.eager import is_ready
from pyjax.numpy.index_plan import IndexPlan, Layout, analyse, analyse_static, layout, static_key
from pyjax.numpy.indexing import integer_arrays, read
from pyjax.numpy.indexing_basic import parse_mode
from pyjax.runtime.array import DeviceArray
from pyjax.runtime.dispatch import constant_array
from xla_backend.process.bounded_cache import BoundedCache, Budget

Combine = Callable[[Any, Any], Any]


class _IndexUpdateHelper:
    """`x.at`: index it to choose what to update."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdateRef:
        return IndexUpdateRef(self.array, index)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        fail(
            TypeError,
            "x.at is indexed, not called.",
            "What is updated is written as an index: x.at[0], x.at[1:3, ::2].",
            "x.at[i].set(y)",
        )

    def __repr__(self) -> str:
        return f"_IndexUpdateHelper({self.array!r})"


class IndexUpdateRef:
    """`x.at[index]`: the chosen elements, waiting for an update.

    All methods return a new array and share these keywords:
      mode: indices out of bounds: 'drop' or 'fill' (the default: ignored), 'clip', 'wrap',
        'promise_in_bounds' (undefined if broken).
      indices_are_sorted, unique_indices: promises that make the update cheaper.
      wrap_negative_indices: False treats negative indices as out of bounds.
    With repeated indices, `add`, `multiply`, `min` and `max` apply every update; `set` keeps one
    of them.
    """

    __slots__ = ("array", "index")

    def _assigned(self, value: Any) -> NoReturn:
        fail(
            TypeError,
            "x.at[...] is no place that could be changed: += and its like do not work on it.",
            "Arrays are immutable; methods of x.at[...] return new ones.",
            "x = x.at[i].add(y), or .set, .multiply, .divide, .power, .min, .max.",
        )

    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ipow__ = _assigned

    def __init__(self, array: Any, index: Any) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"IndexUpdateRef({self.array!r}, {self.index!r})"

    def _laid_out(
        self, method: str, values: Any, out_sharding: Any, promises: tuple[Any, ...]
    ) -> Any:
        """An update whose result is split as told; where its elements come from is the compiler's
        affair."""
        names = ("indices_are_sorted", "unique_indices", "mode", "wrap_negative_indices")
        kept = dict(zip(names, promises, strict=True))

        def compute(array: Any, index: Any, values: Any) -> Any:
            return getattr(IndexUpdateRef(array, index), method)(values, **kept)

        operands = (self.array, self.index, values)
        return computed_as(f"at[].{method}", out_sharding, compute, *operands)

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x[index]` with a choice for indices out of bounds: mode='fill' gives `fill_value`
        (default nan, or the extreme integer), 'clip' the nearest element."""
        look_up = partial(
            read,
            mode=mode,
            fill_value=fill_value,
            unique_indices=unique_indices,
            indices_are_sorted=indices_are_sorted,
            wrap_negative_indices=wrap_negative_indices,
        )
        return computed_as("at[].get", out_sharding, look_up, self.array, self.index)

    def apply(
        self,
        func: Callable[[Any], Any],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """The array with `func` applied to each chosen element (once per repeated index)."""
        return _apply(
            self.array,
            self.index,
            func,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
        )

    def power(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """The array with the chosen elements raised to the power `values`."""
        if out_sharding is not None:
            promises = (indices_are_sorted, unique_indices, mode, wrap_negative_indices)
            return self._laid_out("power", values, out_sharding, promises)
        chosen = read(
            self.array, self.index, mode=mode, wrap_negative_indices=wrap_negative_indices
        )
        return update(
            self.array,
            self.index,
            power(chosen, values if np.ndim(values) == 0 else _spread(values, chosen)),
            "set",
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
        )

    def divide(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """The array divided by `values` at the chosen elements."""
        if out_sharding is not None:
            promises = (indices_are_sorted, unique_indices, mode, wrap_negative_indices)
            return self._laid_out("divide", values, out_sharding, promises)
        divisor = update(
            lax.full_like(self.array, 1),
            self.index,
            values,
            "multiply",
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
        )
        return divide(self.array, divisor)


def _spread(values: Any, chosen: Any) -> Any:
    """Values broadcast to the chosen elements, as every update does with them."""
    return util.broadcast_array(util.as_array(values), chosen.shape)


def _method(name: str, kind: str, doc: str) -> Callable[..., Any]:
    def method(
        self: Any,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        if out_sharding is not None:
            promises = (indices_are_sorted, unique_indices, mode, wrap_negative_indices)
            return self._laid_out(name, values, out_sharding, promises)
        return update(
            self.array,
            self.index,
            values,
            kind,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
        )

    method.__name__ = name
    method.__qualname__ = f"IndexUpdateRef.{name}"
    method.__doc__ = doc
    return method


for _name, _kind, _doc in (
    (
        "set",
        "set",
        "The array with the chosen elements replaced by `values` (broadcast to them).",
    ),
    ("add", "add", "The array with `values` added to the chosen elements."),
    ("subtract", "subtract", "The array with `values` subtracted from the chosen elements."),
    ("multiply", "multiply", "The array with the chosen elements multiplied by `values`."),
    ("mul", "multiply", "Same as `multiply`."),
    ("min", "min", "The array with the chosen elements replaced by min(element, value)."),
    ("max", "max", "The array with the chosen elements replaced by max(element, value)."),
):
    setattr(IndexUpdateRef, _name, _method(_name, _kind, _doc))


_SCATTER: dict[str, tuple[Callable[..., Any], Combine]] = {
    # kind: (scatter, the same on whole arrays)
    "set": (lax.scatter, lambda x, v: v),
    "add": (lax.scatter_add, lax.add),
    "subtract": (lax.scatter_sub, lax.sub),
    "multiply": (lax.scatter_mul, lax.mul),
    "min": (lax.scatter_min, lax.min),
    "max": (lax.scatter_max, lax.max),
}
_ON_BOOL = {"add": lax.bitwise_or, "multiply": lax.bitwise_and}


def update(
    x: Any,
    index: Any,
    values: Any,
    kind: str,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
    wrap_negative_indices: bool = True,
) -> Any:
    """`x` with `values` combined into `x[index]`; `kind` is a row of the scatter table."""
    if type(values) is int:
        values = _checked_integer(values, dtypes.dtype(x))
    if (
        type(x) is DeviceArray
        and mode is None
        and wrap_negative_indices
        and is_ready(values)
        and _keeps_dtype(x, values)
    ):
        key = static_key(index)
        if key is not None:
            arrays, program = _recipe(x.aval.shape, key, kind)
            return program(x, values, *arrays)
        parts = integer_arrays(index)
        if parts is not None:
            return _at_arrays(kind, indices_are_sorted, unique_indices)(x, values, *parts)
    util.check_arraylike(f"at[].{kind}", x, values)
    x = util.as_array(x)
    if has_slices(index):
        found = opened(x.shape, index)
        promises = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        new = update(window(x, found), found.rest, values, kind, *promises)
        return with_window(x, found, new)
    mask = _pure_mask(index, x)
    if mask is not None and np.ndim(values) == 0:
        return _update_masked(x, mask, values, kind)
    parsed = parse_mode(mode)
    plan, arrays = analyse(x.shape, index, wrap_negative_indices, parsed == "wrap")
    if parsed == "wrap":
        parsed = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    if all(isinstance(a, np.ndarray) for a in arrays) and plan.array_shape is None:
        indices_are_sorted = unique_indices = True
    if parsed is None:
        parsed = mode_left_open(lax.GatherScatterMode.FILL_OR_DROP)
    _warn_if_lossy(values, x)
    return _combined(x, arrays, values, plan, kind, parsed, indices_are_sorted, unique_indices)


def _checked_integer(value: int, dtype: Any) -> Any:
    """A Python int that the default integer holds, or a NumPy one of an array of unsigned integers
    that are as wide.

    Raises:
      OverflowError: it is neither.
    """
    if -(1 << 31) <= value < 1 << 31:
        return value
    width = dtypes.canonicalize_dtype(np.int64).itemsize
    if dtype.kind == "u" and dtype.itemsize == width and 0 <= value < 1 << 8 * width:
        return dtype.type(value)
    abstractify(value)
    return value


def _keeps_dtype(x: Array, values: Any) -> bool:
    """Whether values are of the array's dtype, or Python numbers that take it without loss."""
    kind = type(values)
    if kind in util.PYTHON_SCALARS:
        return util.takes_python_number(x.dtype, kind)
    return values.dtype == x.dtype


_Program = Callable[..., Any]
# They hold arrays and programs, so clear_caches empties them.
_recipes: BoundedCache[Any, tuple[tuple[Array, ...], _Program]] = BoundedCache(
    Budget("static updates", entries=4096)
)
_programs: BoundedCache[Any, _Program] = BoundedCache(Budget("updates", entries=4096))


def _recipe(
    shape: tuple[int, ...], key: tuple[Any, ...], kind: str
) -> tuple[tuple[Array, ...], _Program]:
    """The integers of a static index as arrays, and the program that takes them: another integer
    is no other program."""
    found = _recipes.hot.get((shape, key, kind))
    if found is not None:
        return found

    def make() -> tuple[tuple[Array, ...], _Program]:
        plan, arrays = analyse_static(shape, key, True)
        program = _programs.make((plan, kind), lambda: _planned(plan, kind))
        return tuple([constant_array(a) for a in arrays]), program

    return _recipes.make((shape, key, kind), make)


def _planned(plan: IndexPlan, kind: str) -> _Program:
    @jit
    def update(x: Any, values: Any, *arrays: Any) -> Any:
        parsed = mode_left_open(lax.GatherScatterMode.FILL_OR_DROP)
        return _combined(x, arrays, values, plan, kind, parsed, True, True)

    return update


@lru_cache(maxsize=64)
def _at_arrays(kind: str, are_sorted: bool, unique: bool) -> _Program:
    @jit
    def update_at(x: Any, values: Any, *index: Any) -> Any:
        return update(x, index, values, kind, are_sorted, unique)

    return update_at


def _combined(
    x: Any,
    arrays: tuple[Any, ...],
    values: Any,
    plan: IndexPlan,
    kind: str,
    mode: Any,
    are_sorted: bool,
    unique: bool,
) -> Any:
    """`x` of its own dtype with the values, of any dtype, at the places of the plan."""
    dtype, weak = x.dtype, dtypes.is_weakly_typed(x)
    if kind == "set":
        values = util.convert(values, dtype)
    else:
        x, values = util.promote_dtypes(x, values)
        x, values = util.as_array(x), util.as_array(values)
    out = _scatter(x, arrays, values, plan, kind, mode, are_sorted, unique)
    return util.convert(out, dtype, weak)


def _pure_mask(index: Any, x: Any) -> Any:
    """A single boolean array of the shape of `x`'s first axes: an update by select."""
    if isinstance(index, tuple):
        if len(index) != 1:
            return None
        (index,) = index
    if not (util.is_array(index) or isinstance(index, np.ndarray)) or index.dtype != np.bool_:
        return None
    if index.ndim == 0 or index.shape != x.shape[: index.ndim]:
        return None
    return util.as_array(index)


def _update_masked(x: Any, mask: Any, values: Any, kind: str) -> Any:
    """x.at[mask].op(scalar) works with a traced mask: its shape does not matter."""
    _warn_if_lossy(values, x)
    mask = lax.broadcast_in_dim(mask, x.shape, tuple(range(mask.ndim)))
    if kind == "set":
        new = lax.broadcast(util.convert(values, x.dtype), x.shape)
        return lax.select(mask, new, util.convert(x, x.dtype))
    wide, values = util.promote_dtypes(x, values)
    new = _combine(kind, wide)(wide, lax.broadcast(util.as_array(values), x.shape))
    new = util.convert(new, x.dtype)
    return lax.select(mask, new, util.convert(x, x.dtype))


def _combine(kind: str, x: Any) -> Combine:
    return _ON_BOOL.get(kind, _SCATTER[kind][1]) if x.dtype == np.bool_ else _SCATTER[kind][1]


def _warn_if_lossy(values: Any, x: Any) -> None:
    kind = dtypes.dtype(values)
    if (dtypes.is_extended(x.dtype) or dtypes.is_extended(kind)) and x.dtype != kind:
        raise new_error(
            TypeError,
            f"values of {kind} cannot be put into an array of {x.dtype}",
            "random keys are no numbers, and keys of two implementations have other words",
            "put keys of the same implementation there, as keys.at[i].set(pyjax.random.key(0))",
        )
    if dtypes.safe_to_cast(values, x):
        return
    warn_user(
        f"scatter inputs have incompatible types: cannot safely cast value from "
        f"dtype={dtypes.dtype(values)} to dtype={x.dtype} with "
        "jax_numpy_dtype_promotion=standard. In future releases this will result in an error. "
        "Convert the values explicitly: .set(v.astype(x.dtype)).",
        FutureWarning,
    )


@partial(jit, static_argnames=("plan", "kind", "mode", "are_sorted", "unique"), inline=True)
def _scatter(
    x: Any,
    arrays: tuple[Any, ...],
    values: Any,
    plan: IndexPlan,
    kind: str,
    mode: Any,
    are_sorted: bool,
    unique: bool,
) -> Any:
    shape = plan.result_shape
    _check_broadcastable(values.shape, shape)
    if 0 in shape or x.size == 0:
        return x
    original = x.shape
    made, indices = layout(plan, arrays)
    values = _fit(values, shape)
    if made.new_axes:
        values = lax.reshape(values, made.core_shape)
    if made.reversed:
        values = lax.rev(values, made.reversed)
    x = lax.reshape(x, plan.operand_shape) if original != plan.operand_shape else x
    if x.aval.split is not None or values.aval.split is not None:
        values = _split_as_chosen(x, values, made)
    if not made.mapped:
        out = _combine(kind, x)(x, values)
    else:
        numbers = lax.ScatterDimensionNumbers(made.windows, made.collapsed, made.mapped)
        out = _SCATTER[kind][0](
            x,
            indices,
            values,
            numbers,
            indices_are_sorted=are_sorted,
            unique_indices=unique,
            mode=mode,
        )
    return lax.reshape(out, original) if original != plan.operand_shape else out


def _split_as_chosen(x: Any, values: Any, made: Layout) -> Any:
    """Values split over mesh axes of type Explicit as what they update: along dimensions that are
    looked up by arrays they are whole.

    Raises:
      ValueError: they are split otherwise.
    """
    if x.aval.split is None:
        wanted = Split(values.aval.split.mesh, (None,) * values.ndim)
    else:
        kept = [e for d, e in enumerate(x.aval.split.entries) if d not in made.collapsed]
        entries = dict(zip(made.windows, kept, strict=True))
        wanted = x.aval.split._replace(entries=tuple(map(entries.get, range(values.ndim))))
    have = values.aval.split
    to = values.aval.with_split(wanted)
    if have is not None and any(
        a is not None and a != b for a, b in zip(have.entries, wanted.entries, strict=True)
    ):
        raise new_error(
            ValueError,
            f"Incompatible types for broadcasting: input type={values.aval.str_short()} and "
            f"requested type={to.str_short()}",
            f"{x.aval.str_short()} is updated, and values are to lie as what they update.",
            "lay the values out so before: jax.sharding.reshard(v, P(...)); or say how the result "
            "is to be split: x.at[...].set(v, out_sharding=P(...)).",
        )
    return as_split(values, wanted)


def _check_broadcastable(have: tuple[int, ...], shape: tuple[int, ...]) -> None:
    extra = max(len(have) - len(shape), 0)
    tail = zip(have[::-1], shape[::-1], strict=False)
    if any(n != 1 for n in have[:extra]) or not all(n in (1, m) for n, m in tail):
        fail(
            ValueError,
            f"Incompatible shapes for broadcasting: {have} and requested shape {shape}.",
            f"x[index] has shape {shape}; the values of an update must broadcast to it.",
            "Fix: reshape the values, or check the index.",
        )


def _fit(values: Any, shape: tuple[int, ...]) -> Any:
    extra = max(values.ndim - len(shape), 0)
    if extra:
        values = lax.reshape(values, values.shape[extra:])
    return util.broadcast_array(values, shape)


def _apply(
    x: Any,
    index: Any,
    func: Callable[[Any], Any],
    are_sorted: bool,
    unique: bool,
    mode: Any,
    wrap_negative_indices: bool,
) -> Any:
    x = util.ensure_arraylike("at[].apply", x)
    if has_slices(index):
        found = opened(x.shape, index)
        part, promises = window(x, found), (are_sorted, unique, mode, wrap_negative_indices)
        return with_window(x, found, _apply(part, found.rest, func, *promises))
    parsed = parse_mode(mode)
    plan, arrays = analyse(x.shape, index, wrap_negative_indices, parsed == "wrap")
    if parsed == "wrap":
        parsed = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    made, indices = layout(plan, arrays)
    if not made.mapped:
        return util.convert(func(x), x.dtype)
    if 0 in plan.result_shape:
        return x
    view = lax.reshape(x, plan.operand_shape)
    numbers = lax.ScatterDimensionNumbers(made.windows, made.collapsed, made.mapped)

    def scalar(element: Any) -> Any:
        return util.convert(func(element), x.dtype)

    out = lax.scatter_apply(
        view,
        util.as_array(indices),
        scalar,
        numbers,
        update_shape=made.core_shape,
        indices_are_sorted=are_sorted,
        unique_indices=unique,
        mode=parsed or mode_left_open(lax.GatherScatterMode.FILL_OR_DROP),
    )
    return lax.reshape(out, x.shape)
