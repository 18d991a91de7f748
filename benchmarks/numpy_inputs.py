"""Arrays that functions are compared on with NumPy's, for `numpy_rows`: each of them takes a
generator, about how many elements, and their dtype."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Make = Callable[[np.random.Generator, int, np.dtype], tuple[np.ndarray, ...]]


def anything(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """Normal numbers, or integers of the whole range."""
    if dtype.kind == "c":
        return ((rng.normal(size=n) + 1j * rng.normal(size=n)).astype(dtype),)
    if dtype.kind in "fV":  # bfloat16 is a type of its own
        return (rng.normal(size=n).astype(dtype),)
    if dtype.kind == "b":
        return (rng.random(n) < 0.5,)
    bounds = np.iinfo(dtype)
    return (rng.integers(bounds.min, bounds.max, n, dtype, endpoint=True),)


def square(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    side = int(n**0.5)
    return (anything(rng, side * side, dtype)[0].reshape(side, side),)


def cube(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    side = round(n ** (1 / 3))
    return (anything(rng, side**3, dtype)[0].reshape(side, side, side),)


def image(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    side = int((n / 3) ** 0.5)
    return (anything(rng, 3 * side * side, dtype)[0].reshape(side, side, 3),)


def planes(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    (x,) = image(rng, n, dtype)
    return (x.reshape(3, *x.shape[:2]),)


def few(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """Of a thousand values."""
    return (rng.integers(0, 1000, n).astype(dtype),)


def in_order(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (np.arange(n).astype(dtype),)


def reversed(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (np.arange(n)[::-1].astype(dtype),)


def positive(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    (x,) = anything(rng, n, dtype)
    return (x if dtype.kind == "c" else abs(x),)


def powers(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (*positive(rng, n, dtype), *anything(rng, n, dtype))


def with_weights(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (*anything(rng, n, dtype), rng.random(n).astype(dtype))


def counted(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (*few(rng, n, np.dtype(np.int32)), rng.random(n).astype(dtype))


def below_100(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (rng.integers(0, 100, n).astype(dtype),)


def two(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (*anything(rng, n, dtype), *anything(rng, n, dtype))


def and_some(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """Few of the first are in the second, which has a hundredth of the elements."""
    (x,) = anything(rng, n, dtype)
    return x, np.concatenate([x[: n // 200], anything(rng, n // 200, dtype)[0]])


def table_and_places(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (*anything(rng, n, dtype), rng.integers(0, n, n, np.int32))


def table_and_values(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return np.sort(anything(rng, 10_000, dtype)[0]), *anything(rng, n, dtype)


def with_nans(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """A hundredth of them are no numbers."""
    (x,) = anything(rng, n, dtype)
    x[rng.integers(0, n, n // 100)] = np.nan
    return (x,)


def of_rank(rank: int) -> Make:
    """Makes arrays of so many dimensions, no two of which are the same."""

    def make(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
        side = int(n ** (1 / rank))
        shape = [side + d - rank // 2 for d in range(rank)]
        return (anything(rng, math.prod(shape), dtype)[0].reshape(shape),)

    return make


def and_order(axis: int) -> Make:
    """Makes matrices, and the order of their elements along an axis."""

    def make(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
        (x,) = square(rng, n, dtype)
        return x, np.argsort(rng.random(x.shape), axis=axis)

    return make


def and_mask(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """One half of the mask is set, in no order."""
    return (*anything(rng, n, dtype), rng.random(n) < 0.5)


def and_rows(axis: int) -> Make:
    """Makes matrices, and as many numbers of places along an axis."""

    def make(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
        (x,) = square(rng, n, dtype)
        return x, rng.integers(0, x.shape[axis], x.shape[axis])

    return make
