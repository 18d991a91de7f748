"""Matrices made from a few numbers: block diagonal, Toeplitz, Hilbert …"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact

Array = Any
ArrayLike = Any


def block_diag(*arrs: ArrayLike) -> Array:
    """A matrix with the given matrices along its diagonal (vectors and numbers are single rows).

    Raises:
      ValueError: an argument has more than two dimensions.

    >>> block_diag(1, jnp.ones((1, 2), int)).tolist()
    [[1, 0, 0], [0, 1, 1]]
    """
    if not arrs:
        return jnp.zeros((1, 0))
    blocks = [jnp.atleast_2d(a) for a in arrs]
    for i, block in enumerate(blocks):
        if block.ndim > 2:
            raise ValueError(
                "Arguments to block_diag must have at most 2 dimensions, "
                f"got shape {block.shape} at argument {i}."
            )
    return _block_diag(blocks)


@partial(jit, inline=True)
def _block_diag(blocks: list[Array]) -> Array:
    dtype = jnp.result_type(*blocks)
    columns = sum(b.shape[1] for b in blocks)
    rows, before = [], 0
    for block in blocks:
        after = columns - before - block.shape[1]
        rows.append(jnp.pad(block.astype(dtype), ((0, 0), (before, after))))
        before += block.shape[1]
    return jnp.concatenate(rows, axis=0)


@one_program(2)
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """[..., m, n] with constant diagonals: first column c [..., m], first row r [..., n].

    r is conj(c) by default; its first element is not used.

    >>> toeplitz(jnp.array([1, 2, 3]))
    Array([[1, 2, 3],
           [2, 1, 2],
           [3, 2, 1]], dtype=int32)
    """
    column = jnp.atleast_1d(jnp.asarray(c))
    row = jnp.conj(column) if r is None else jnp.atleast_1d(jnp.asarray(r))

    def one(column: Array, row: Array) -> Array:
        m, n = column.shape[0], row.shape[0]
        values = jnp.concatenate([jnp.flip(column), row[1:]])
        return values[np.arange(m - 1, -1, -1)[:, None] + np.arange(n)]

    dtype = jnp.result_type(column, row)
    both = jnp.vectorize(one, signature="(m),(n)->(m,n)")
    return both(column.astype(dtype), row.astype(dtype))


@one_program(2)
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """[..., m, n] with constant anti-diagonals: first column c [..., m], last row r [..., n].

    r is zero by default; its first element is not used.

    >>> hankel(jnp.array([1, 2, 3]))
    Array([[1, 2, 3],
           [2, 3, 0],
           [3, 0, 0]], dtype=int32)
    """
    column = jnp.atleast_1d(jnp.asarray(c))
    row = jnp.zeros_like(column) if r is None else jnp.atleast_1d(jnp.asarray(r))

    def one(column: Array, row: Array) -> Array:
        values = jnp.concatenate([column, row[1:]])
        return values[np.arange(column.shape[0])[:, None] + np.arange(row.shape[0])]

    dtype = jnp.result_type(column, row)
    both = jnp.vectorize(one, signature="(m),(n)->(m,n)")
    return both(column.astype(dtype), row.astype(dtype))


@one_program()
def circulant(c: ArrayLike) -> Array:
    """[..., n, n] whose columns are the rotations of c [..., n].

    >>> circulant(jnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    values = jnp.atleast_1d(jnp.asarray(c))
    n = values.shape[-1]
    return values[..., (np.arange(n)[:, None] - np.arange(n)) % n]


@one_program()
def companion(a: ArrayLike) -> Array:
    """The companion matrix of the polynomial with coefficients a (highest first, at least two).

    >>> companion(jnp.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    (a,) = promote_args_inexact("companion", a)
    if a.ndim < 1 or a.shape[-1] < 2:
        raise ValueError(f"companion: needs at least two coefficients, got shape {a.shape}")
    first = -a[..., 1:] / a[..., :1]
    n = first.shape[-1]
    below = jnp.broadcast_to(jnp.eye(n - 1, n, dtype=first.dtype), (*first.shape[:-1], n - 1, n))
    return jnp.concatenate([first[..., None, :], below], axis=-2)


def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Array:
    """The matrix of the discrete Fourier transform; scale None, "sqrtn" or "n" (divide by it).

    >>> dft(2).real.round(3)
    Array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """
    factors = {None: 1.0, "sqrtn": math.sqrt(n) if n else 1.0, "n": float(n)}
    if scale not in factors:
        raise ValueError(f"scale must be None, 'sqrtn', or 'n'; got {scale!r}")
    kind = dtypes.canonicalize_dtype(np.complex128 if dtype is None else dtype)
    # Exponents modulo n keep the angles exact.
    angles = -2 * np.pi * (np.outer(np.arange(n), np.arange(n)) % max(n, 1)) / max(n, 1)
    return jnp.asarray((np.exp(1j * angles) / factors[scale]).astype(kind))


def hadamard(n: int, dtype: Any = int) -> Array:
    """The Hadamard matrix of order n, a power of two.

    >>> hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    if n < 1 or n & (n - 1):
        raise ValueError(f"n must be a positive integer and a power of 2; got {n}")
    kind = dtypes.canonicalize_dtype(dtype)
    bits = np.arange(n)[:, None] & np.arange(n)
    parity = np.zeros_like(bits)
    while bits.any():
        parity ^= bits & 1
        bits = bits >> 1
    return jnp.asarray((1 - 2 * parity).astype(kind))


def helmert(n: int, full: bool = False) -> Array:
    """The Helmert matrix of order n, without its first row unless `full`.

    >>> helmert(2).round(3).shape
    (1, 2)
    """
    if n < 1:
        raise ValueError(f"helmert: n must be positive, got {n}")
    rows = np.tril(np.ones((n, n)), -1) - np.diag(np.arange(n))
    rows[0] = 1
    squares = np.arange(n) * np.arange(1, n + 1)
    squares[:1] = n
    matrix = rows / np.sqrt(squares)[:, None]
    return jnp.asarray(matrix if full else matrix[1:])


def hilbert(n: int) -> Array:
    """The Hilbert matrix 1 / (i + j + 1) of order n.

    >>> hilbert(2)[0]
    Array([1. , 0.5], dtype=float32)
    """
    return jnp.asarray(1 / (np.arange(n)[:, None] + np.arange(n) + 1))


@one_program()
def fiedler(a: ArrayLike) -> Array:
    """The symmetric matrix |aᵢ - aⱼ|.

    >>> fiedler(jnp.array([1, 4, 6]))
    Array([[0, 3, 5],
           [3, 0, 2],
           [5, 2, 0]], dtype=int32)
    """
    a = jnp.atleast_1d(jnp.asarray(a))
    return jnp.abs(a[..., :, None] - a[..., None, :])


@one_program(2)
def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """First row f [..., n], subdiagonal s [..., n-1]: a population by age.

    >>> leslie(jnp.array([0.5, 2.0]), jnp.array([0.25]))
    Array([[0.5 , 2.  ],
           [0.25, 0.  ]], dtype=float32)
    """
    f, s = jnp.atleast_1d(jnp.asarray(f)), jnp.atleast_1d(jnp.asarray(s))
    if f.shape[-1] != s.shape[-1] + 1 or f.shape[-1] < 2:
        raise ValueError(f"leslie: f has {f.shape[-1]} elements and s {s.shape[-1]}; need n, n-1")
    dtype = jnp.result_type(f, s)
    n = f.shape[-1]
    shape = jnp.broadcast_shapes(f.shape[:-1], s.shape[:-1])
    out = jnp.zeros((*shape, n, n), dtype).at[..., 0, :].set(f.astype(dtype))
    return out.at[..., np.arange(1, n), np.arange(n - 1)].set(s.astype(dtype))


def _binomials(n: int) -> np.ndarray:
    """The lower triangular matrix of binomial coefficients, exact."""
    return np.array([[math.comb(i, j) for j in range(n)] for i in range(n)], dtype=object)


def _pascal_kind(name: str, kind: str | None) -> str:
    kind = "symmetric" if kind is None else kind
    if kind not in ("symmetric", "lower", "upper"):
        raise ValueError(
            f"{name}: kind must be 'symmetric', 'lower' or 'upper' (or None), got {kind!r}"
        )
    return kind


def pascal(n: int, kind: str | None = None) -> Array:
    """Pascal's matrix of order n: binomial coefficients.

    Args:
      kind: "symmetric" (default; the product of the other two), "lower" or "upper".
    Returns:
      floats [n, n] of the default dtype.

    >>> pascal(3).tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [1.0, 3.0, 6.0]]
    """
    lower = _binomials(n).reshape(n, n)
    # The product of empty object matrices has no dtype of its own.
    made = {"lower": lower, "upper": lower.T, "symmetric": lower @ lower.T if n else lower}
    return jnp.asarray(made[_pascal_kind("pascal", kind)].astype(np.float64))


def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of `pascal(n, kind)`: whole numbers, as floats.

    >>> invpascal(2).tolist()
    [[2.0, -1.0], [-1.0, 1.0]]
    """
    signs = np.array([[(-1) ** ((i + j) % 2) for j in range(n)] for i in range(n)], dtype=object)
    lower = signs.reshape(n, n) * _binomials(n).reshape(n, n)
    made = {"lower": lower, "upper": lower.T, "symmetric": lower.T @ lower}
    return jnp.asarray(made[_pascal_kind("invpascal", kind)].astype(np.float64))


def invhilbert(n: int) -> Array:
    """The inverse of `hilbert(n)`: whole numbers, as floats.

    >>> invhilbert(2).tolist()
    [[4.0, -6.0], [-6.0, 12.0]]
    """

    def entry(i: int, j: int) -> int:
        size = math.comb(n + i, n - j - 1) * math.comb(n + j, n - i - 1) * math.comb(i + j, i) ** 2
        return (-1) ** (i + j) * (i + j + 1) * size

    values = np.array([[float(entry(i, j)) for j in range(n)] for i in range(n)])
    return jnp.asarray(values.reshape(n, n))


@one_program()
def fiedler_companion(a: ArrayLike) -> Array:
    """Fiedler's pentadiagonal companion matrices [..., n, n].

    Args:
      a: [..., n + 1], the coefficients of polynomials, highest first; one alone gives [..., 0, 0].
    Raises:
      ValueError: there are no coefficients.

    >>> fiedler_companion(jnp.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    (a,) = promote_args_inexact("fiedler_companion", a)
    if a.ndim < 1 or a.shape[-1] < 1:
        raise ValueError(f"fiedler_companion: needs coefficients, got shape {a.shape}")
    a = a / a[..., :1]
    n = a.shape[-1] - 1
    if n <= 1:
        return -a[..., 1:, None][..., :n]
    result = jnp.zeros((*a.shape[:-1], n, n), a.dtype)
    result = result.at[..., 0, 0].set(-a[..., 1]).at[..., 1, 0].set(1)
    even, odd = np.arange(0, n, 2), np.arange(1, n, 2)
    result = result.at[..., even[: n // 2], odd].set(-a[..., 2::2])
    result = result.at[..., even[1:], odd[: len(even) - 1]].set(-a[..., 3::2])
    result = result.at[..., even[:-1], even[1:]].set(1)
    return result.at[..., odd[1:], odd[:-1]].set(1)


@one_program()
def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """The matrix whose product with a vector of `n` elements is `convolve(a, vector, mode)`.

    Args:
      a: [m] (stacks [..., m] give stacks).  mode: "full", "same" or "valid".
    Raises:
      ValueError: unknown mode, n < 1 or no coefficients.

    >>> convolution_matrix(jnp.array([1, 2]), 3, mode="valid")
    Array([[2, 1, 0],
           [0, 2, 1]], dtype=int32)
    """
    a = jnp.asarray(a)
    if n <= 0:
        raise ValueError(f"n must be a positive integer, got {n}.")
    if a.ndim < 1 or a.shape[-1] == 0:
        raise ValueError(f"convolution_matrix: needs coefficients, got shape {a.shape}")
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"'mode' argument must be one of ('full', 'valid', 'same'), got {mode!r}")
    m = a.shape[-1]
    whole = np.arange(m + n - 1)[:, None] - np.arange(n)  # which coefficient stands where
    shorter, longer = min(m, n), max(m, n)
    starts = {"full": 0, "same": (shorter - 1) // 2, "valid": shorter - 1}
    sizes = {"full": m + n - 1, "same": longer, "valid": longer - shorter + 1}
    whole = whole[starts[mode] : starts[mode] + sizes[mode]]
    inside = (whole >= 0) & (whole < m)
    values = a[..., np.clip(whole, 0, m - 1)]
    return jnp.where(np.broadcast_to(inside, values.shape), values, np.zeros((), a.dtype))
