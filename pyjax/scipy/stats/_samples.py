"""Statistics of samples: rankdata, mode, sem."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import canonicalize_axis, promote_args_inexact

Array = Any
ArrayLike = Any


def _check_policy(name: str, nan_policy: str) -> None:
    if nan_policy not in ("propagate", "omit", "raise"):
        raise ValueError(f"Illegal nan_policy value {nan_policy!r}; expected 'propagate'")
    if nan_policy == "omit":
        raise NotImplementedError(f"{name}: nan_policy='omit' is not supported; use 'propagate'.")
    if nan_policy == "raise":
        raise NotImplementedError(
            f"{name}: nan_policy='raise' cannot be compiled; check with jnp.isnan beforehand."
        )


def _along(a: Array, axis: int | None) -> tuple[Array, int]:
    if axis is None:
        return a.ravel(), 0
    return a, canonicalize_axis(axis, a.ndim)


_METHODS = ("average", "min", "max", "dense", "ordinal")


@one_program()
def rankdata(
    a: ArrayLike,
    method: str = "average",
    *,
    axis: int | None = None,
    nan_policy: str = "propagate",
) -> Array:
    """Ranks from 1 on, along `axis` (None: of the flattened array).

    Args:
      method: what equal elements get: "average", "min" or "max" of their ranks, "dense" (distinct
        values are numbered) or "ordinal" (in order of appearance).
    Returns:
      floats of the default dtype, of the shape of `a`; all nan where a NaN is among the elements.
    Raises:
      ValueError: unknown method.

    >>> rankdata(jnp.array([3, 1, 3])).tolist()
    [2.5, 1.0, 2.5]
    """
    _check_policy("rankdata", nan_policy)
    if method not in _METHODS:
        raise ValueError(f"unknown method '{method}'; use one of {', '.join(_METHODS)}")
    a, along = _along(jnp.asarray(a), axis)
    lines = jnp.moveaxis(a, along, -1)
    ranks = jnp.vectorize(lambda line: _ranks(line, method), signature="(n)->(n)")(lines)
    unordered = jnp.any(jnp.isnan(lines), axis=-1, keepdims=True)
    ranks = jnp.where(unordered, np.nan, ranks.astype(jnp.result_type(float)))
    return jnp.moveaxis(ranks, -1, along)


def _ranks(line: Array, method: str) -> Array:
    n = line.shape[0]
    order = jnp.argsort(line)
    place = jnp.zeros(n, order.dtype).at[order].set(jnp.arange(n, dtype=order.dtype))
    if method == "ordinal":
        return place + 1
    ordered = line[order]
    first = jnp.concatenate([jnp.ones(min(n, 1), bool), ordered[1:] != ordered[:-1]])
    dense = jnp.cumsum(first)[place]
    if method == "dense":
        return dense
    # Where each run of equal elements starts, and one past its end.
    starts = jnp.concatenate([jnp.nonzero(first, size=n, fill_value=n)[0], jnp.array([n])])
    if method == "max":
        return starts[dense]
    if method == "min":
        return starts[dense - 1] + 1
    return (starts[dense] + starts[dense - 1] + 1) / 2


class ModeResult(NamedTuple):
    """Most frequent values and how often they occur."""

    mode: Array
    count: Array


@one_program()
def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most frequent value along `axis`, the smallest one of several, and its count.

    Of nothing: nan, 0 times. A number is its own mode.

    >>> mode, count = pyjax.scipy.stats.mode(jnp.array([3, 1, 3, 2]))
    >>> mode.item(), count.item()
    (3, 2)
    """
    _check_policy("mode", nan_policy)
    a = jnp.atleast_1d(jnp.asarray(a))
    rank = a.ndim
    lines, along = _along(a, axis)
    lines = jnp.moveaxis(lines, along, -1)

    def one(line: Array) -> tuple[Array, Array]:
        ordered = jnp.sort(line)
        low = jnp.searchsorted(ordered, ordered, side="left")
        high = jnp.searchsorted(ordered, ordered, side="right")
        best = jnp.argmax(high - low)
        return ordered[best], (high - low)[best]

    if lines.shape[-1]:
        values, counts = jnp.vectorize(one, signature="(n)->(),()")(lines)
    else:
        values = jnp.full(lines.shape[:-1], np.nan, jnp.result_type(float))
        counts = jnp.zeros_like(values)
    if keepdims:
        shape = (1,) * rank if axis is None else None
        if shape is not None:
            return ModeResult(values.reshape(shape), counts.reshape(shape))
        return ModeResult(jnp.expand_dims(values, along), jnp.expand_dims(counts, along))
    return ModeResult(values, counts)


@one_program()
def sem(
    a: ArrayLike,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """The standard error of the mean: std(a, ddof) / sqrt(n) along `axis`.

    >>> pyjax.scipy.stats.sem(jnp.array([1.0, 3.0])).item()
    1.0
    """
    if nan_policy == "omit":
        (a,) = promote_args_inexact("sem", a)
        count = jnp.sum(~jnp.isnan(a), axis=axis, keepdims=keepdims)
        spread = jnp.nanstd(a, axis, ddof=ddof, keepdims=keepdims)
        return spread / jnp.sqrt(count.astype(spread.dtype))
    _check_policy("sem", nan_policy)
    (a,) = promote_args_inexact("sem", a)
    count = a.size if axis is None else a.shape[axis]
    return jnp.std(a, axis, ddof=ddof, keepdims=keepdims) / float(np.sqrt(count))
