"""How a discrete Fourier transform is computed: factors of its length, and tables of roots."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

# Tried in this order: fewer passes over the data come first.
RADICES = (8, 4, 2, 3, 5, 7, 11, 13)
# Larger primes have a pass of which the work is their square: up to this one that takes less time
# than a convolution would.
LARGEST_PRIME = 251
# The longest transform of one group: two copies of its lanes should stay in the second cache.
LONGEST = 4096
# Roots of a product of two indices come from two tables, of this many low and the other high bits.
LOW_BITS = 10


@lru_cache(maxsize=256)
def factors(n: int) -> tuple[int, ...] | None:
    """The radices of the passes; None where a prime factor has none."""
    found = []
    for radix in (*RADICES, *range(RADICES[-1] + 2, LARGEST_PRIME + 1, 2)):
        while n % radix == 0 and n > 1:
            found.append(radix)
            n //= radix
    return tuple(found) if n == 1 else None


@lru_cache(maxsize=256)
def halves(n: int, least: int) -> tuple[int, int] | None:
    """Two lengths of at least `least` that make n, as equal as can be; None if there are none."""
    if factors(n) is None:
        return None
    for first in range(int(n**0.5), least - 1, -1):
        if n % first == 0:
            return (n // first, first) if n // first <= LONGEST else None
    return None


def passes(n: int) -> tuple[int, ...]:
    """For each pass: its radix, the length of what follows, the distance of neighbours, and where
    its roots begin in `pass_roots`."""
    return tuple(number for each in _passes(n) for number in each)


def _passes(n: int) -> Iterator[tuple[int, int, int, int]]:
    length, stride, start = n, 1, 0
    for radix in factors(n) or ():
        length //= radix
        yield radix, length, stride, start
        start += length * (radix - 1) + (0 if radix in RADICES else radix)
        stride *= radix


def pass_roots(n: int, dtype: np.dtype) -> np.ndarray:
    """exp(-2 pi i p k / (length radix)) for each pass, p < length and 0 < k < radix; of a large
    prime exp(-2 pi i k / radix), k < radix, behind them."""
    tables = [np.zeros((0, 2))]
    for radix, length, _, _ in _passes(n):
        products = np.outer(np.arange(length), np.arange(1, radix)).reshape(-1)
        tables.append(_roots(products, length * radix))
        if radix not in RADICES:
            tables.append(_roots(np.arange(radix), radix))
    return np.concatenate(tables).astype(dtype)


def rotations(n: int, dtype: np.dtype) -> np.ndarray:
    """exp(-2 pi i p / n) for the low bits of p, then for the high ones."""
    low = np.arange(1 << LOW_BITS)
    high = np.arange(-(-n >> LOW_BITS) + 1) << LOW_BITS
    return np.concatenate([_roots(low, n), _roots(high, n)]).astype(dtype)


def _roots(numbers: np.ndarray, n: int) -> np.ndarray:
    """[..., 2]: real and imaginary parts, rounded once: angles are of the first eighth."""
    turn = numbers % n
    eighth, rest = np.divmod(8 * turn, n)  # rest / (8 n) of a turn lies behind an eighth of it
    flip = eighth % 2 == 1
    angle = 2 * np.pi * np.where(flip, n - rest, rest) / (8 * n)
    cosine, sine = np.cos(angle), np.sin(angle)
    quarter = ((eighth + 1) // 2) % 4
    # Behind a flipped eighth the angle counts down from the next quarter.
    sine = np.where(flip, -sine, sine)
    real = np.choose(quarter, [cosine, -sine, -cosine, sine])
    imag = np.choose(quarter, [sine, cosine, -sine, -cosine])
    return np.stack([real, -imag], -1)
