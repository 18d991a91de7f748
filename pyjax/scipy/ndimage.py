"""Sampling of arrays at fractional positions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import check_arraylike, promote_dtypes_inexact

Array = Any
ArrayLike = Any


def _mirror(index: Array, size: int) -> Array:
    """Reflection about the outermost elements: d c b | a b c d | c b a."""
    s = size - 1
    return jnp.abs((index + s) % max(2 * s, 1) - s)


# How an index beyond the array is brought back.
_INDEX: dict[str, Callable[[Array, int], Array]] = {
    "constant": lambda index, size: index,
    "nearest": lambda index, size: jnp.clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirror,
    # Reflection about the border between elements: d c b a | a b c d | d c b a.
    "reflect": lambda index, size: jnp.floor_divide(_mirror(2 * index + 1, 2 * size + 1), 2),
}


@one_program(2)
def map_coordinates(
    input: ArrayLike,
    coordinates: Sequence[ArrayLike],
    order: int,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
) -> Array:
    """`input` at the given positions, interpolated.

    Args:
      coordinates: one array of positions per dimension, all of one shape, in units of elements.
      order: 0 (the nearest element) or 1 (linear).
      mode: what lies beyond the borders: "constant" (`cval`), "nearest", "wrap", "mirror" or
        "reflect".
    Raises:
      NotImplementedError: another order or mode.  ValueError: a wrong number of coordinates.

    >>> map_coordinates(jnp.array([0.0, 10.0]), [jnp.array([0.5])], order=1)
    Array([5.], dtype=float32)
    """
    positions = [jnp.asarray(c) for c in coordinates]
    check_arraylike("map_coordinates", input, cval)
    data = jnp.asarray(input)
    cval = jnp.asarray(cval, data.dtype)
    if len(positions) != data.ndim:
        raise ValueError(
            "coordinates must be a sequence of length input.ndim, but "
            f"{len(positions)} != {data.ndim}"
        )
    if mode not in _INDEX:
        raise NotImplementedError(f"map_coordinates: mode {mode!r}; use one of {sorted(_INDEX)}")
    if order not in (0, 1):
        raise NotImplementedError(
            "map_coordinates currently requires order<=1: higher orders fit splines to the whole "
            "array first. Use order=1, or image.scale_and_translate with a cubic method."
        )
    choices = []
    for position, size in zip(positions, data.shape):
        (position,) = promote_dtypes_inexact(position)
        choices.append(_neighbours(position, size, order, mode))
    terms: list[Any] = []
    for corner in itertools.product(*choices):
        indices, valid, weights = zip(*corner)
        # What is read beyond the borders is not used.
        value = data.at[tuple(indices)].get(mode="clip", wrap_negative_indices=False)
        if mode == "constant":
            value = jnp.where(math.prod(valid[1:], start=valid[0]), value, cval)
        if order:
            weight = math.prod(weights[1:], start=weights[0])
            exact = jnp.issubdtype(value.dtype, jnp.inexact)
            value = weight * (value if exact else value.astype(weight.dtype))
        terms.append(value)
    result = sum(terms[1:], start=terms[0])
    if jnp.issubdtype(data.dtype, jnp.integer):
        result = _round_half_away(result)
    return result.astype(data.dtype)


def _round_half_away(x: Array) -> Array:
    """The nearest whole number; halves go away from zero, as in SciPy."""
    return x if jnp.issubdtype(x.dtype, jnp.integer) else lax.round(x)


def _neighbours(position: Array, size: int, order: int, mode: str) -> list[tuple[Any, Any, Any]]:
    """(index, whether it is inside, weight) of the elements around positions on one axis."""
    if order == 0:
        below = [(_round_half_away(position).astype(jnp.int32), 1)]
    else:
        lower = jnp.floor(position)
        upper_weight = position - lower
        index = lower.astype(jnp.int32)
        below = [(index, 1 - upper_weight), (index + 1, upper_weight)]
    return [(_INDEX[mode](i, size), (i >= 0) & (i < size), w) for i, w in below]
