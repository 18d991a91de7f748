"""Choosing between arrays elementwise: where (three arguments), select, choose, piecewise, clip."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.core.traceback_filter import api_boundary
from pyjax.lax.reshard import broadcast_alike
from pyjax.numpy import util
from pyjax.numpy.eager import one_program

__all__ = ["choose", "clip", "nan_to_num", "piecewise", "select", "select_where"]


def select_where(condition: Any, x: ArrayLike, y: ArrayLike) -> Array:
    """`x` where `condition` is true (nonzero), else `y`; the three broadcast together, whatever
    the option `numpy_rank_promotion` says."""
    util.check_arraylike("where", condition, x, y)
    return _select(*map(util.to_jax, (condition, x, y)))


@partial(jit, inline=True)
def _select(condition: Any, x: Any, y: Any) -> Any:
    if condition.dtype != np.bool_:
        condition = lax.ne(condition, np.zeros((), condition.dtype))
    x, y = util.promote_dtypes(x, y)
    shape = util.broadcast_shapes(
        "where", [np.shape(condition), np.shape(x), np.shape(y)], ValueError
    )
    x, y = util.as_array(x), util.as_array(y)
    if not condition.shape:
        return lax.select(condition, *_broadcast((x, y), shape))
    return lax.select(*_broadcast((condition, x, y), shape))


def _broadcast(arrays: Sequence[Any], shape: tuple[int, ...]) -> Sequence[Any]:
    """Arrays broadcast to a shape. Along mesh axes of type Explicit those of other shapes take part
    in how all are split; arrays of the shape alone are left as they are."""
    if all(x.ndim == len(shape) and x.shape == shape for x in arrays):
        return arrays
    return broadcast_alike(arrays, shape)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Array:
    """The choice of the first condition that holds, elementwise, else `default`.

    >>> x = lax.iota(np.int32, 4)
    >>> select([x < 1, x < 3], [x, -x], 9).tolist()
    [0, -1, -2, 9]
    """
    if len(condlist) != len(choicelist):
        raise new_error(
            ValueError,
            f"condlist must have length equal to choicelist ({len(condlist)} vs "
            f"{len(choicelist)}).",
        )
    if len(condlist) == 0:
        raise new_error(ValueError, "condlist must be non-empty.")
    util.check_arraylike("select", *condlist, *choicelist, default)
    choices = util.promote_dtypes(*choicelist, default)
    out = choices[-1]
    for condition, choice in zip(reversed(condlist), reversed(choices[:-1]), strict=True):
        if util.as_array(condition).dtype != np.bool_:
            raise new_error(TypeError, "jnp.select: the conditions must be boolean arrays.")
        out = select_where(condition, choice, out)
    return out


def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """Array whose element i is `choices[a[i]]` at i, for an integer array `a`.

    Args:
      mode: what an index out of range does: 'wrap', 'clip', or 'raise' (concrete `a` only).
    >>> choose(np.array([1, 0]), [np.array([1, 2]), np.array([3, 4])]).tolist()
    [3, 2]
    """
    util.reject_out("choose", out)
    a = util.ensure_arraylike("choose", a)
    if not dtypes.issubdtype(a.dtype, np.integer):
        raise new_error(ValueError, f"`a` array must be integer typed, got {a.dtype}.")
    options = list(choices) if not isinstance(choices, (list, tuple)) else choices
    util.check_arraylike("choose", *options)
    count = len(options)
    if count == 0:
        raise new_error(ValueError, "jnp.choose: the list of choices is empty.")
    arrays = util.promote_dtypes(*options)
    if mode == "raise":
        concrete = util.concrete_or_none(a)
        if concrete is None:
            raise util.concretization_error(
                a, "jnp.choose(mode='raise') must see the indices; use mode='wrap' or 'clip'."
            )
        if concrete.size and not (0 <= concrete.min() and concrete.max() < count):
            raise new_error(ValueError, "invalid entry in choice array")
    elif mode == "wrap":
        limit = np.asarray(count, a.dtype)
        a = lax.rem(lax.rem(a, limit) + limit, limit)
    elif mode == "clip":
        a = lax.clamp(np.asarray(0, a.dtype), a, np.asarray(count - 1, a.dtype))
    else:
        raise new_error(
            ValueError, f"mode={mode!r} not understood; must be 'raise', 'wrap' or 'clip'."
        )
    shape = util.broadcast_shapes("choose", [a.shape, *(np.shape(x) for x in arrays)])
    cases = [util.broadcast_array(util.as_array(x), shape) for x in arrays]
    which = util.broadcast_array(util.convert(a, np.dtype(np.int32)), shape)
    return lax.select_n(which, *cases) if count > 1 else cases[0]


@api_boundary
def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """Evaluate each function where its condition holds (the last condition that holds wins).

    Args:
      condlist: boolean arrays (or one) that broadcast with `x`.
      funclist: functions or constants, one per condition and optionally one more as default.
      args, kw: passed on to the functions.
    >>> y = np.array([-1.0, 2.0])
    >>> piecewise(y, [y < 0, y >= 0], [lambda v: -v, lambda v: v * v]).tolist()
    [1.0, 4.0]
    """
    x = util.ensure_arraylike("piecewise", x)
    if not isinstance(condlist, (list, tuple)):
        condlist = [condlist] if np.ndim(condlist) <= np.ndim(x) else list(condlist)
    count, functions = len(condlist), list(funclist)
    if len(functions) == count + 1:
        functions = functions[-1:] + functions[:-1]
    elif len(functions) == count:
        functions = [0, *functions]
    else:
        raise new_error(
            ValueError,
            f"with {count} condition(s), either {count} or {count + 1} functions are expected; "
            f"got {len(functions)}",
        )

    def evaluate(function: Any) -> Any:
        value = function(x, *args, **kw) if callable(function) else function
        return util.convert(value, x.dtype)

    out = evaluate(functions[0])
    out = util.broadcast_array(util.as_array(out), x.shape)
    for condition, function in zip(condlist, functions[1:], strict=True):
        out = select_where(condition, evaluate(function), out)
    return out


@one_program(3)
def clip(arr: Any = None, /, min: Any = None, max: Any = None) -> Array:
    """`arr` limited to [min, max]; None leaves a side open; `max` wins if min > max.

    >>> clip(np.array([-2, 5]), 0, 3).tolist()
    [0, 3]
    """
    if arr is None:
        raise new_error(ValueError, "jnp.clip: the array to clip is missing.")
    util.check_arraylike("clip", arr, *[b for b in (min, max) if b is not None])
    for bound in (arr, min, max):
        if bound is not None and dtypes.issubdtype(dtypes.dtype(bound), np.complexfloating):
            raise new_error(
                ValueError,
                "Clip received a complex value either through the input or the min/max keywords. "
                "Complex values have no ordering; clip the real and imaginary parts separately.",
            )
    if min is None and max is None:
        return util.as_array(arr)
    return _clip(arr, min, max)


@partial(jit, inline=True)
def _clip(x: Any, low: Any, high: Any) -> Any:
    if low is not None:
        x = lax.max(*util.promote_args("clip", low, x))
    if high is not None:
        x = lax.min(*util.promote_args("clip", high, x))
    return x


def nan_to_num(
    x: ArrayLike, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Array:
    """Replace nan by `nan` and infinities by `posinf`/`neginf` (default: largest finite values).

    >>> nan_to_num(np.array([np.nan, 1.0])).tolist()
    [0.0, 1.0]
    """
    util.check_arraylike("nan_to_num", x)
    x = util.as_array(x)
    if not dtypes.issubdtype(x.dtype, np.inexact):
        return x
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        return lax.complex(
            nan_to_num(lax.real(x), copy, nan, posinf, neginf),
            nan_to_num(lax.imag(x), copy, nan, posinf, neginf),
        )
    info = dtypes.finfo(x.dtype)
    posinf = float(info.max) if posinf is None else posinf
    neginf = float(info.min) if neginf is None else neginf
    return _nan_to_num(x, nan, posinf, neginf)


@jit
def _nan_to_num(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    infinity = np.asarray(np.inf).astype(x.dtype)
    nan, posinf, neginf = (util.convert(v, x.dtype) for v in (nan, posinf, neginf))
    out = select_where(lax.ne(x, x), nan, x)
    out = select_where(lax.eq(x, infinity), posinf, out)
    return select_where(lax.eq(x, -infinity), neginf, out)
