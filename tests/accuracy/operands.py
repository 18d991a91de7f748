"""Operands for the accuracy tests: random numbers of every magnitude, and the edges of domains.

A sampler takes a random generator, a number of elements and a dtype, and gives one array for each
operand. Random magnitudes are uniform in the exponent, so that small and large numbers are as
common as those near one; beside them stand ordinary ones, where functions have their bends.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Arrays = tuple[np.ndarray, ...]
Sampler = Callable[[np.random.Generator, int, np.dtype], Arrays]


def _edges(dtype: np.dtype) -> np.ndarray:
    """Finite numbers at the ends of the range, and beside one."""
    info = np.finfo(dtype)
    some = [0, info.smallest_subnormal, info.tiny, info.eps, 0.5, 1 - info.epsneg, 1]
    some += [1 + info.eps, 2, 3, 10, 80, 1 / info.eps, info.max]
    return np.array(some, dtype)


def _magnitudes(rng: np.random.Generator, count: int, dtype: np.dtype) -> np.ndarray:
    """Positive numbers, uniform in the exponent: any bit pattern is as likely as any other."""
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    top = int(np.asarray(np.finfo(dtype).max).view(bits))
    return rng.integers(1, top, count, dtype=bits, endpoint=True).view(dtype)


def between(low: float, high: float, *, spread: bool = True) -> Sampler:
    """Numbers from low to high: half of them uniform, half crowding at the ends (at zero, too).

    Args:
      low, high: the closed interval; both ends are among the numbers.
      spread: whether numbers crowd; without, all are uniform.
    """

    def sample(rng: np.random.Generator, count: int, dtype: np.dtype) -> Arrays:
        uniform = rng.uniform(low, high, count)
        if spread:
            size = high - low
            least = np.log2(float(np.finfo(dtype).smallest_subnormal))
            near = np.exp2(rng.uniform(least if 0 in (low, high) else -30, 0, count)) * size
            crowded = np.where(rng.random(count) < 0.5, low + near, high - near)
            if low < 0 < high:
                at_zero = np.exp2(rng.uniform(least, 0, count)) * rng.choice([low, high], count)
                crowded = np.where(rng.random(count) < 0.5, at_zero, crowded)
            uniform = np.where(np.arange(count) % 2, uniform, crowded)
        edges = _edges(dtype)
        edges = np.concatenate([edges, -edges, [low, high]])
        found = np.concatenate([uniform, edges[(edges >= low) & (edges <= high)]])
        return (np.clip(found.astype(dtype), dtype.type(low), dtype.type(high)),)

    return sample


def _signed(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return values * rng.choice(np.array([-1, 1], values.dtype), values.shape)


def positive(rng: np.random.Generator, count: int, dtype: np.dtype) -> Arrays:
    """Positive numbers of every magnitude, and zero."""
    ordinary = np.abs(rng.standard_normal(count) * rng.choice([1, 10, 50], count)).astype(dtype)
    every = np.where(np.arange(count) % 2, ordinary, _magnitudes(rng, count, dtype))
    return (np.concatenate([every, _edges(dtype)]),)


def reals(rng: np.random.Generator, count: int, dtype: np.dtype) -> Arrays:
    """Numbers of every magnitude and both signs, and zeros."""
    (sizes,) = positive(rng, count, dtype)
    return (np.concatenate([_signed(sizes, rng), -_edges(dtype)]),)


def nonzero(sampler: Sampler) -> Sampler:
    """Ones in place of zeros, whose signs exact numbers do not have."""

    def sample(rng: np.random.Generator, count: int, dtype: np.dtype) -> Arrays:
        (values,) = sampler(rng, count, dtype)
        return (np.where(values == 0, dtype.type(1), values),)

    return sample


def each(*samplers: Sampler) -> Sampler:
    """Operands that are drawn independently; edges meet random numbers and one another."""

    def sample(rng: np.random.Generator, count: int, dtype: np.dtype) -> Arrays:
        drawn = [sampler(rng, count, dtype)[0] for sampler in samplers]
        size = max(len(values) for values in drawn)
        return tuple(rng.permutation(np.resize(values, size)) for values in drawn)

    return sample


def alike(sampler: Sampler) -> Sampler:
    """Two operands, a third of them equal to a few digits: where differences cancel."""

    def sample(rng: np.random.Generator, count: int, dtype: np.dtype) -> Arrays:
        x, y = each(sampler, sampler)(rng, count, dtype)
        nudge = 1 + _signed(np.exp2(rng.uniform(-20, -1, len(x))), rng)
        with np.errstate(over="ignore"):
            close = (x * nudge).astype(dtype)
        inside = np.isfinite(close) & (np.arange(len(x)) % 3 == 0)
        return x, np.where(inside, close, y)

    return sample


def whole(low: int, high: int) -> Sampler:
    """Whole numbers from low to high."""

    def sample(rng: np.random.Generator, count: int, dtype: np.dtype) -> Arrays:
        return (rng.integers(low, high, count, endpoint=True).astype(dtype),)

    return sample


def complexes(sampler: Sampler) -> Sampler:
    """Complex numbers whose parts are drawn alike; `dtype` is that of the parts."""

    def sample(rng: np.random.Generator, count: int, dtype: np.dtype) -> Arrays:
        real, imag = each(sampler, sampler)(rng, count, dtype)
        return (real + 1j * imag,)

    return sample
