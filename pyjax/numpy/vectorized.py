"""vectorize (functions of scalars or small arrays over leading axes) and the apply_* functions."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.vmap import vmap
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.core.traceback_filter import api_boundary
from pyjax.numpy import util
from pyjax.numpy.array_constructors import asarray
from pyjax.numpy.manipulation import expand_dims

__all__ = ["apply_along_axis", "apply_over_axes", "vectorize"]

CoreDims = tuple[str, ...]

_NAME = r"\w+"
_DIMS = rf"\(\s*(?:{_NAME}(?:\s*,\s*{_NAME})*,?)?\s*\)"
_LIST = rf"{_DIMS}(?:\s*,\s*{_DIMS})*"
_SIGNATURE = re.compile(rf"^\s*({_LIST})\s*->\s*({_LIST})\s*$")


def _parse(signature: str) -> tuple[list[CoreDims], list[CoreDims]]:
    """'(m,n),(n)->(m)' as lists of axis names of inputs and outputs."""
    match = _SIGNATURE.match(signature)
    if not match:
        raise new_error(ValueError, f"not a valid gufunc signature: {signature}")
    first, second = (
        [tuple(re.findall(_NAME, dims)) for dims in re.findall(_DIMS, side)]
        for side in match.groups()
    )
    return first, second


def _core_sizes(
    args: Sequence[Any], inputs: Sequence[CoreDims], where: str
) -> tuple[tuple[int, ...], dict[str, int]]:
    """The broadcast shape of the leading axes, and the size of each named axis."""
    leading: list[tuple[int, ...]] = []
    sizes: dict[str, int] = {}
    for arg, dims in zip(args, inputs, strict=True):
        shape = np.shape(arg)
        if len(shape) < len(dims):
            raise new_error(
                ValueError,
                f"input with shape {shape} does not have enough dimensions for all core dimensions "
                f"{dims} {where}",
            )
        cut = len(shape) - len(dims)
        for name, size in zip(dims, shape[cut:], strict=True):
            if sizes.setdefault(name, size) != size:
                raise new_error(
                    ValueError,
                    f"inconsistent size for core dimension {name!r}: {size} vs {sizes[name]} "
                    f"{where}",
                )
        leading.append(shape[:cut])
    return util.broadcast_shapes("vectorize", leading or [()]), sizes


def _checked(
    fun: Callable[..., Any], sizes: dict[str, int], outputs: Sequence[CoreDims], where: str
) -> Callable[..., Any]:
    """`fun` with the shapes of its results compared with the signature."""

    def wrapped(*args: Any) -> Any:
        out = fun(*args)
        items = out if isinstance(out, tuple) else (out,)
        if len(outputs) != 1 and not isinstance(out, tuple):
            raise new_error(
                TypeError,
                f"output must be a tuple when multiple outputs are expected, got: {out} {where}",
            )
        if len(items) != len(outputs):
            raise new_error(
                TypeError,
                f"wrong number of output arguments: expected {len(outputs)}, got {len(items)} "
                f"{where}",
            )
        known = dict(sizes)
        for item, dims in zip(items, outputs, strict=True):
            shape = np.shape(item)
            if len(shape) != len(dims):
                raise new_error(
                    ValueError,
                    f"output shape {shape} does not match core dimensions {dims} {where}",
                )
            for name, size in zip(dims, shape, strict=True):
                if known.setdefault(name, size) != size:
                    raise new_error(
                        ValueError,
                        f"output shape {shape} does not match core dimensions {dims}, for which "
                        f"{name!r} has size {known[name]} {where}",
                    )
        return out

    return wrapped


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """A function that applies `pyfunc` over the broadcast leading axes of its arguments, with vmap.

    Args:
      pyfunc: function of scalars, or of arrays with the axes named in `signature`. Without one it
        may return what it likes: axes and containers of its results come after those mapped over.
      excluded: positions or names of arguments passed as they are.
      signature: e.g. '(m,n),(n)->(m)': the axes that one call takes and returns.
    >>> vectorize(lambda a, b: a + b)(np.arange(2), np.array([[10], [20]])).tolist()
    [[10, 11], [20, 21]]
    """
    if any(not isinstance(x, (int, str)) for x in excluded):
        raise new_error(
            TypeError,
            "jax.numpy.vectorize can only exclude integer or string arguments, but excluded="
            f"{set(excluded)!r}",
        )
    if any(isinstance(x, int) and x < 0 for x in excluded):
        raise new_error(ValueError, f"excluded={set(excluded)!r} contains negative numbers")
    parsed = None if signature is None else _parse(signature)

    @functools.wraps(pyfunc)
    @api_boundary
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        where = f"on vectorized function with excluded={set(excluded)!r} and {signature=}"
        keyword_dynamic = [k for k in kwargs if k not in excluded]
        positions = [i for i in range(len(args)) if i not in excluded]
        arrays = [args[i] for i in positions] + [kwargs[k] for k in keyword_dynamic]
        util.check_arraylike("vectorize", *[a for a in arrays if a is not None])
        absent = [a is None for a in arrays]
        inputs, outputs = (None, None) if parsed is None else parsed
        if inputs is None:
            inputs = [()] * len(arrays)
        elif len(inputs) != len(arrays):
            raise new_error(
                TypeError,
                f"wrong number of positional arguments: expected {len(inputs)}, got "
                f"{len(arrays)} {where}",
            )
        elif any(absent):
            places = {i for i, missing in enumerate(absent) if missing}
            raise new_error(
                ValueError,
                f"Cannot pass None at locations {places} with {signature=}.\n"
                "  None has none of the axes that the signature names: leave it out, or name the "
                "argument in excluded=.",
            )

        def call(*given: Any) -> Any:
            values = iter(given)
            merged = [None if missing else next(values) for missing in absent]
            positional = list(args)
            for i, value in zip(positions, merged, strict=False):
                positional[i] = value
            named = dict(zip(keyword_dynamic, merged[len(positions) :], strict=True))
            return pyfunc(*positional, **{**kwargs, **named})

        kept = [
            (util.as_array(a), dims)
            for a, dims in zip(arrays, inputs, strict=True)
            if a is not None
        ]
        values = [a for a, _ in kept]
        core = [dims for _, dims in kept]
        shape, sizes = _core_sizes(values, core, where)
        checked = call if outputs is None else _checked(call, sizes, outputs, where)
        return _mapped(checked, values, core, shape)(*_squeezed(values, core, shape))

    return wrapped


def _squeezed(values: list[Any], core: list[CoreDims], shape: tuple[int, ...]) -> list[Any]:
    """Leading axes of size one that broadcast are dropped: vmap repeats those operands."""
    out = []
    for x, dims in zip(values, core, strict=True):
        leading = x.ndim - len(dims)
        offset = len(shape) - leading
        drop = tuple(i for i in range(leading) if x.shape[i] == 1 and shape[offset + i] != 1)
        out.append(lax.squeeze(x, drop) if drop else x)
    return out


def _mapped(
    fun: Callable[..., Any], values: list[Any], core: list[CoreDims], shape: tuple[int, ...]
) -> Callable[..., Any]:
    """`fun` under one vmap per leading axis, innermost last."""
    for axis in reversed(range(len(shape))):
        in_axes = []
        for x, dims in zip(values, core, strict=True):
            leading = x.ndim - len(dims)
            i = axis - (len(shape) - leading)
            mapped = i >= 0 and (x.shape[i] != 1 or shape[axis] == 1)
            in_axes.append(0 if mapped else None)
        if any(a == 0 for a in in_axes):
            fun = vmap(fun, in_axes=tuple(in_axes))
    return fun


# ---------------------------------------------------------------------------------------------


@api_boundary
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Array:
    """`func1d` applied to every 1-d slice of `arr` along `axis` (all at once, with vmap).

    >>> apply_along_axis(lambda v: v[0], 1, np.array([[1, 2], [3, 4]])).tolist()
    [1, 3]
    """
    arr = util.ensure_arraylike("apply_along_axis", arr)
    axis = util.canonicalize_axis(axis, arr.ndim)

    def call(vector: Any) -> Any:
        return func1d(vector, *args, **kwargs)

    # The axes before come first in the result, and its own axes replace `axis`.
    for _ in range(arr.ndim - 1 - axis):
        call = vmap(call, in_axes=-1, out_axes=-1)
    for _ in range(axis):
        call = vmap(call)
    return call(arr)


@api_boundary
def apply_over_axes(
    func: Callable[[Any, int], Any], a: ArrayLike, axes: Sequence[int] | int
) -> Array:
    """`func(a, axis)` applied for each axis in turn; reduced axes are kept with size one.

    >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3)), [0, 1])
    Array([[6.]], dtype=float32)
    """
    a = util.ensure_arraylike("apply_over_axes", a)
    for axis in util.axis_items(axes):
        out = func(a, axis)
        if np.ndim(out) == a.ndim - 1:
            out = expand_dims(out, axis)
        if np.ndim(out) != a.ndim:
            raise new_error(ValueError, "function is not returning an array of the correct shape")
        a = asarray(out)
    return a
