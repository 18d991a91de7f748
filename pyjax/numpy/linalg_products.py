"""Products, powers and diagonals of matrices for pyjax.numpy.linalg."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.numpy import diagonals, linear_algebra, manipulation, util
from pyjax.numpy.eager import one_program
from pyjax.numpy.linalg_factorizations import as_matrices
from pyjax.numpy.linalg_solvers import inv


def matrix_power(a: Any, n: int) -> Array:
    """`a` multiplied with itself n times; the inverse for negative `n`, identity for 0.

    >>> matrix_power(jnp.array([[1, 1], [0, 1]]), 5)
    Array([[1, 5],
           [0, 1]], dtype=int32)
    """
    a = (
        as_matrices("matrix_power", a, square=True)
        if n < 0
        else util.ensure_arraylike("jnp.linalg.matrix_power", a)
    )
    n = util.static_int(n, "n")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise new_error(TypeError, f"Last 2 dimensions of the array must be square, got {a.shape}")
    if n == 0:
        size = a.shape[-1]
        eye = lax.eq(
            lax.broadcasted_iota(np.int32, (size, size), 0),
            lax.broadcasted_iota(np.int32, (size, size), 1),
        )
        return lax.broadcast(util.convert(eye, a.dtype), a.shape[:-2])
    base, n = (inv(a), -n) if n < 0 else (a, n)
    out: Any = None
    while n:
        if n & 1:
            out = base if out is None else linear_algebra.matmul(out, base)
        n >>= 1
        base = linear_algebra.matmul(base, base) if n else base
    return out


def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Array:
    """Product of several matrices in the cheapest order (the first and last may be vectors).

    >>> multi_dot([jnp.ones(3), jnp.ones((3, 4)), jnp.ones(4)]).item()
    12.0
    """
    util.check_arraylike("jnp.linalg.multi_dot", *arrays)
    items = [util.as_array(x) for x in arrays]
    if len(items) < 2:
        raise new_error(ValueError, f"multi_dot requires at least two arrays; got {len(items)}")
    if any(x.ndim != 2 for x in items[1:-1]) or any(
        x.ndim not in (1, 2) for x in (items[0], items[-1])
    ):
        raise new_error(
            ValueError,
            "multi_dot: inner arrays must be 2-d, the first and last 1-d or 2-d; "
            f"got {[x.shape for x in items]}",
        )
    first, last = items[0].ndim == 1, items[-1].ndim == 1
    if first:
        items[0] = lax.expand_dims(items[0], (0,))
    if last:
        items[-1] = lax.expand_dims(items[-1], (1,))
    for left, right in pairwise(items):
        if left.shape[1] != right.shape[0]:
            raise new_error(
                ValueError, f"multi_dot: shapes {left.shape} and {right.shape} are not aligned."
            )
    out = _chain(
        items,
        _chain_splits([x.shape[0] for x in items] + [items[-1].shape[1]]),
        0,
        len(items) - 1,
        precision,
    )
    out = lax.squeeze(out, (0,)) if first else out
    return lax.squeeze(out, (out.ndim - 1,)) if last else out


def _chain_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split each sub-chain for the fewest multiplications (dynamic programming)."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], split[i, j] = min(options)
    return split


def _chain(
    items: list[Any], splits: dict[tuple[int, int], int], i: int, j: int, precision: Any
) -> Any:
    if i == j:
        return items[i]
    k = splits[i, j]
    return linear_algebra.matmul(
        _chain(items, splits, i, k, precision),
        _chain(items, splits, k + 1, j, precision),
        precision=precision,
    )


def matmul(
    x1: ArrayLike, x2: ArrayLike, /, *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """Same as `jnp.matmul`.

    >>> matmul(jnp.eye(2), jnp.array([1.0, 2.0]))
    Array([1., 2.], dtype=float32)
    """
    return linear_algebra.matmul(
        x1, x2, precision=precision, preferred_element_type=preferred_element_type
    )


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Outer product of two vectors.

    >>> outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    x1, x2 = util.ensure_arraylike("jnp.linalg.outer", x1, x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise new_error(
            ValueError, f"Input arrays must be one-dimensional, got {x1.shape} and {x2.shape}"
        )
    return linear_algebra.outer(x1, x2)


@one_program(2)
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Vector product of 3-d vectors along `axis`.

    >>> cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    x1, x2 = util.ensure_arraylike("jnp.linalg.cross", x1, x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise new_error(
            ValueError,
            f"Both input arrays must be (arrays of) 3-dimensional vectors, got {x1.shape} and "
            f"{x2.shape}",
        )
    return linear_algebra.cross(x1, x2, axis=axis)


def tensordot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axes: Any = 2,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Same as `jnp.tensordot`.

    >>> tensordot(jnp.ones((2, 3)), jnp.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    return linear_algebra.tensordot(
        x1,
        x2,
        axes=axes,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Same as `jnp.vecdot`.

    >>> vecdot(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    return linear_algebra.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )


def matrix_transpose(x: ArrayLike, /) -> Array:
    """Last two axes exchanged.

    >>> matrix_transpose(jnp.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    util.check_arraylike("jnp.linalg.matrix_transpose", x)
    return manipulation.matrix_transpose(x)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """Diagonals of the matrices in the last two axes.

    >>> diagonal(jnp.arange(9).reshape(3, 3), offset=1)
    Array([1, 5], dtype=int32)
    """
    util.check_arraylike("jnp.linalg.diagonal", x)
    out = diagonals.diagonal(x, offset, -2, -1)
    return util.convert(out, out.dtype)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """Sums along the diagonals of the matrices in the last two axes.

    >>> trace(jnp.arange(9).reshape(3, 3))
    Array(12, dtype=int32)
    """
    util.check_arraylike("jnp.linalg.trace", x)
    return diagonals.trace(x, offset, -2, -1, dtype)
