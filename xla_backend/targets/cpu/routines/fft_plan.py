"""How a discrete Fourier transform is computed: factors of its length, and tables of roots."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from xla_backend.hlo.types import PrimitiveType as P

# Of routines: types, kinds of transforms, and their numbers.
TYPES = (P.C64, P.C128)
PACKED_RFFT, PACKED_IRFFT = "packed_rfft", "packed_irfft"
KINDS = ("fft", "rfft", "irfft", PACKED_RFFT, PACKED_IRFFT)
NUMBERS = (
    "outer", "inner", "n", "in_outer", "in_inner", "in_step", "out_outer", "out_inner", "out_step",
    "kept", "tail", "inverse", "pass_count",
)  # fmt: skip
# What long transforms are besides (`fft_rows`).
CHIRP_FFT, CHIRP_RFFT, CHIRP_IRFFT = "chirp_fft", "chirp_rfft", "chirp_irfft"
CHIRP_REAL = "chirp_real"
# Their kinds: the types of what they read and write, by those of complex and real numbers.
CHIRPS: Mapping[str, Callable[[P, P], tuple[P, P]]] = {
    CHIRP_FFT: lambda t, real: (t, t), CHIRP_RFFT: lambda t, real: (real, t),
    CHIRP_IRFFT: lambda t, real: (t, t), CHIRP_REAL: lambda t, real: (t, real),
}  # fmt: skip
CHIRP_NUMBERS = ("rows", "given", "made", "in_row", "out_row")
PAIRS_RFFT, PAIRS_IRFFT = "pairs_rfft", "pairs_irfft"
PAIRS_NUMBERS = ("outer", "n")

# Tried in this order: fewer passes over the data come first.
RADICES = (8, 4, 2, 3, 5, 7, 11, 13)
# Larger primes have a pass of which the work is their square: up to this one that takes no longer
# than Rader's convolution, which those that follow have. A length has one of these at most.
LARGEST_PRIME = 67
LARGEST_FACTOR = 4096
# The longest transform of one group. From 4096 on two copies of its lanes do not stay in the second
# cache, and it still takes half as long as two axes, which go through memory twice; of 65,536 they
# still fit into the third one.
LONGEST = 65536
# Roots of a product of two indices: of the second one places in a block of so many, as any vector
# has lanes, are in a table; for blocks there are tables of this many low and the other high bits.
LANE_ROOTS = 16
LOW_BITS = 10
# Sines and cosines of more numbers take longer than products do.
_FEW_ROOTS = 1 << 14
# How much shorter than equal halves the second one may be.
_UNEQUAL = 4
# Over eight and a power of two: convolutions have such lengths.
_QUICK = (8, 9, 10, 12, 15)


@lru_cache(maxsize=256)
def factors(n: int) -> tuple[int, ...] | None:
    """The radices of the passes; None where a prime factor is longer than a group's."""
    found = []
    for radix in (*RADICES, *range(RADICES[-1] + 2, LARGEST_FACTOR, 2)):
        if radix > RADICES[-1] and radix * radix > n:
            break
        while n % radix == 0 and n > 1:
            found.append(radix)
            n //= radix
    if n > 1:
        found.append(n)
    return tuple(found) if n <= LARGEST_FACTOR else None


@lru_cache(maxsize=256)
def halves(n: int, least: int) -> tuple[int, int] | None:
    """Two lengths of at least `least` that make n, as equal as can be; None if there are none. The
    second one, that of the first transforms' distance, fills vectors if one near it does."""
    if factors(n) is None:
        return None
    root = math.isqrt(n)
    whole = range(root - root % LANE_ROOTS, max(least, root // _UNEQUAL) - 1, -LANE_ROOTS)
    for second in (*whole, *range(root, least - 1, -1)):
        if n % second == 0:
            return (n // second, second) if n // second <= LONGEST else None
    return None


class Passes(NamedTuple):
    """Fields:
    numbers: for each pass its radix, the length of what follows, the distance of neighbours, and
      where its roots begin in `pass_roots`; behind them, if a radix is above LARGEST_PRIME, the
      length of its convolution, the count of that one's passes, and these.
    total: how many passes there are.
    """

    numbers: tuple[int, ...]
    total: int


def passes(n: int) -> Passes:
    each = list(_passes(n))
    numbers = [number for one in each for number in one]
    prime = large_prime(n)
    if prime is not None:
        inner = passes(convolution_length(prime))
        numbers += [convolution_length(prime), inner.total, *inner.numbers]
    return Passes(tuple(numbers), len(each))


def large_prime(n: int) -> int | None:
    """The factor that has Rader's pass."""
    return next((radix for radix in factors(n) or () if radix > LARGEST_PRIME), None)


@lru_cache(maxsize=256)
def convolution_length(prime: int) -> int:
    """Of a cyclic convolution of prime - 1 numbers: the same, or with room for both ends."""
    least = prime - 1
    if not _is_smooth(least, LARGEST_PRIME):
        least = 2 * least - 1
        while not _is_smooth(least, 7):
            least += 1
    return least


def _is_smooth(n: int, most: int) -> bool:
    found = factors(n)
    return found is not None and all(radix in (4, 8) or radix <= most for radix in found)


@lru_cache(maxsize=256)
def generated(prime: int) -> tuple[int, ...]:
    """Powers of a primitive root, which are all numbers from 1 to prime - 1."""
    for root in range(2, prime):
        powers = [1]
        while (following := powers[-1] * root % prime) != 1:
            powers.append(following)
        if len(powers) == prime - 1:
            return tuple(powers)
    raise ValueError(f"{prime} has no primitive root: it is no prime")


def _passes(n: int) -> Iterator[tuple[int, int, int, int]]:
    length, stride, start = n, 1, 0
    for radix in factors(n) or ():
        length //= radix
        yield radix, length, stride, start
        start += length * (radix - 1) + (0 if radix in RADICES else radix)
        stride *= radix


def pass_roots(n: int, dtype: np.dtype) -> np.ndarray:
    """exp(-2 pi i p k / (length radix)) for each pass, p < length and 0 < k < radix; of a large
    prime exp(-2 pi i k / radix), k < radix, behind them; of one above LARGEST_PRIME, which is the
    last, the spectrum that Rader's convolution multiplies by, and the roots of its passes."""
    return np.concatenate(_tables(n)).astype(dtype)


def _tables(n: int) -> list[np.ndarray]:
    tables = [np.zeros((0, 2))]
    for radix, length, _, _ in _passes(n):
        products = np.outer(np.arange(length), np.arange(1, radix)).reshape(-1)
        tables.append(_roots(products, length * radix))
        if radix > LARGEST_PRIME:
            tables += [_spectrum(radix), *_tables(convolution_length(radix))]
        elif radix not in RADICES:
            tables.append(_roots(np.arange(radix), radix))
    return tables


def _spectrum(prime: int) -> np.ndarray:
    """Of the roots whose numbers are the powers of the generator's inverse, over its length: of as
    many as fit, with those before the first at the end."""
    powers, size = np.array(generated(prime)), convolution_length(prime)
    real, imaginary = _roots(powers[-np.arange(prime - 1)], prime).T
    kernel = np.zeros(size, np.complex128)
    kernel[: prime - 1] = real + 1j * imaginary
    if size > prime - 1:
        kernel[size - (prime - 2) :] = kernel[1 : prime - 1]
    found = np.fft.fft(kernel) / size
    return np.stack([found.real, found.imag], -1)


def chirp_length(n: int) -> int:
    """Of the cyclic convolution that a transform of any length is, with room for both ends."""
    least = 2 * n - 1
    eighth = 1 << max(0, least.bit_length() - 4)
    return next(each * eighth for each in (*_QUICK, 2 * _QUICK[0]) if each * eighth >= least)


def chirp(n: int, inverse: int) -> np.ndarray:
    """exp(-pi i k^2 / n) for k < n, as complex numbers, or its conjugate. Of a product of two
    numbers half their squares and that of their difference make the root's number."""
    squares = np.arange(n) ** 2 % (2 * n)
    found = _roots(squares, 2 * n).view(np.complex128)[:, 0]
    return found.conj() if inverse else found


def chirp_spectrum(chirp: np.ndarray, inverse: int) -> np.ndarray:
    """What a transform of `chirp_length` numbers is multiplied by: the transform of the conjugate,
    with those before the first at the end; of the inverse one over n."""
    n, kernel = chirp.size, np.conj(chirp)
    size = chirp_length(n)
    both = np.zeros(size, np.complex128)
    both[:n] = kernel
    both[size - n + 1 :] = kernel[:0:-1]
    return np.fft.fft(both) / (n if inverse else 1)


def rotations(n: int, length: int, dtype: np.dtype) -> np.ndarray:
    """exp(-2 pi i p / n). For each k below the length of a transform those of k times the places of
    a block, twice, real parts first; then those of the low bits of p, and of the high ones."""
    places = np.tile(np.arange(LANE_ROOTS), 2)
    lanes = _roots(np.outer(np.arange(length), places), n)
    low = np.arange(1 << LOW_BITS)
    high = np.arange(-(-n >> LOW_BITS) + 1) << LOW_BITS
    both = np.concatenate([_roots(low, n), _roots(high, n)])
    return np.concatenate([lanes.swapaxes(1, 2).reshape(-1), both.reshape(-1)]).astype(dtype)


def half_turn(n: int, dtype: np.dtype) -> np.ndarray:
    """exp(-2 pi i k / n) for k up to n / 2."""
    return _roots(np.arange(n // 2 + 1), n).astype(dtype)


def _roots(numbers: np.ndarray, n: int) -> np.ndarray:
    """[..., 2]: real and imaginary parts of exp(-2 pi i p / n) for numbers p; rounded once, or of
    many the products of two that are, off by a third more."""
    numbers = numbers % n
    if numbers.size <= _FEW_ROOTS:
        return _rounded_roots(numbers, n)
    bits = n.bit_length() // 2
    low, high = np.arange(1 << bits), np.arange((n >> bits) + 1) << bits
    tables = [_rounded_roots(each, n).view(np.complex128).reshape(-1) for each in (low, high)]
    found = tables[0][numbers & low[-1]] * tables[1][numbers >> bits]
    return found[..., None].view(np.float64)


def _rounded_roots(turn: np.ndarray, n: int) -> np.ndarray:
    """Rounded once: angles are of the first eighth. `turn` is below n."""
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
