"""Functions of matrices: exponential, square root, polar factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.jit import jit
from pyjax.api.jvp import jvp
from pyjax.core import dtypes
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact

Array = Any
ArrayLike = Any

# Padé approximants of exp (Higham 2005): for 1-norms up to the bound, the degree suffices.
_PADE = {
    3: (120, 60, 12, 1),
    5: (30240, 15120, 3360, 420, 30, 1),
    7: (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1),
    9: (
        17643225600,
        8821612800,
        2075673600,
        302702400,
        30270240,
        2162160,
        110880,
        3960,
        90,
        1,
    ),
    13: (
        64764752532480000,
        32382376266240000,
        7771770303897600,
        1187353796428800,
        129060195264000,
        10559470521600,
        670442572800,
        33522128640,
        1323241920,
        40840800,
        960960,
        16380,
        182,
        1,
    ),
}
_BOUNDS = {
    4: ((3, 4.258730016922831e-1), (5, 1.880152677804762e0), (7, 3.925724783138660e0)),
    8: (
        (3, 1.495585217958292e-2),
        (5, 2.539398330063230e-1),
        (7, 9.504178996162932e-1),
        (9, 2.097847961257068e0),
        (13, 5.371920351148152e0),
    ),
}


def _pade(a: Array, degree: int) -> Array:
    coefficients = _PADE[degree]
    eye = jnp.eye(a.shape[-1], dtype=a.dtype)
    square = a @ a
    power, odd, even = eye, jnp.zeros_like(a), jnp.zeros_like(a)
    for k in range(0, degree + 1, 2):
        even = even + float(coefficients[k]) * power
        odd = odd + float(coefficients[k + 1]) * power
        power = power @ square
    odd = a @ odd
    return jnp.linalg.solve(even - odd, even + odd)


@one_program()
def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The matrix exponential of [..., n, n], by scaling and squaring with Padé approximants.

    Args:
      upper_triangular: A is upper triangular (the result is then, too).
      max_squarings: a matrix whose norm needs more gives nan.
    Raises:
      ValueError: A is not square.

    >>> expm(jnp.array([[0.0, 1.0], [0.0, 0.0]]))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    (a,) = promote_args_inexact("expm", A)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"Expected A to be a (batched) square matrix, got A.shape={a.shape}.")
    result = jnp.vectorize(lambda m: _expm(m, max_squarings), signature="(n,n)->(n,n)")(a)
    return jnp.triu(result) if upper_triangular else result


def _expm(a: Array, max_squarings: int) -> Array:
    bounds = _BOUNDS[8 if a.real.dtype == np.float64 else 4]
    norm = jnp.max(jnp.sum(jnp.abs(a), axis=0), initial=0)
    largest = bounds[-1][1]
    needed = jnp.ceil(jnp.log2(jnp.maximum(norm / largest, 1)))
    too_large = needed > max_squarings
    a = jnp.where(too_large, 0, a)  # so that what nobody gets overflows in no derivative
    squarings = jnp.where(too_large | jnp.isnan(needed), 0, needed).astype(np.int32)
    scaled = a / (2.0 ** squarings.astype(a.real.dtype)).astype(a.dtype)
    degree = jnp.searchsorted(jnp.asarray([b for _, b in bounds[:-1]], a.real.dtype), norm)
    result = lax.switch(degree, [lambda x, d=d: _pade(x, d) for d, _ in bounds], scaled)

    def square(i: Any, x: Array) -> Array:
        return lax.cond(i < squarings, lambda x: x @ x, lambda x: x, x)

    result = lax.fori_loop(0, max_squarings, square, result)
    return jnp.where(too_large | jnp.isnan(norm), np.nan, result)


@one_program(2)
def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True
) -> Any:
    """(expm(A), its derivative at A in the direction E), or the derivative alone.

    Args:
      method: accepted and ignored, as in JAX: there is one.

    >>> value, derivative = pyjax.scipy.linalg.expm_frechet(jnp.zeros((2, 2)), jnp.eye(2))
    >>> derivative
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    a, e = promote_args_inexact("expm_frechet", A, E)
    if a.shape != e.shape:
        raise ValueError(f"expected A and E to be the same shape, got A={a.shape} E={e.shape}")
    value, derivative = jvp(expm, (a,), (e,))
    return (value, derivative) if compute_expm else derivative


@one_program(2)
def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """Real Schur forms [..., n, n] as complex ones: rotations clear the entries below the diagonal.

    Raises:
      ValueError: the matrices are not square, or not alike.

    >>> T, Z = pyjax.scipy.linalg.rsf2csf(jnp.array([[0.0, 1.0], [-1.0, 0.0]]), jnp.eye(2))
    >>> sorted(jnp.diag(T).imag.round(4).tolist())
    [-1.0, 1.0]
    """
    t, z = promote_args_inexact("rsf2csf", T, Z)
    if t.ndim < 2 or t.shape[-2] != t.shape[-1] or t.shape != z.shape:
        raise ValueError(f"rsf2csf: expected two square matrices alike, got {t.shape}, {z.shape}")
    kind = dtypes.to_complex_dtype(t.dtype)
    both = jnp.vectorize(_rsf2csf, signature="(n,n),(n,n)->(n,n),(n,n)")
    return both(t.astype(kind), z.astype(kind))


def _rsf2csf(t: Array, z: Array) -> tuple[Array, Array]:
    n, kind = t.shape[0], t.dtype
    for m in range(n - 1, 0, -1):
        block = t[m - 1 : m + 1, m - 1 : m + 1]
        trace, determinant = block[0, 0] + block[1, 1], jnp.linalg.det(block)
        root = jnp.sqrt(trace * trace / 4 - determinant)
        first, second = trace / 2 + root, trace / 2 - root
        nearer = jnp.abs(first - block[1, 1]) < jnp.abs(second - block[1, 1])
        shift = jnp.where(nearer, first, second) - block[1, 1]
        # An eigenvector of the block to an eigenvalue mu is (mu - t11, t10).
        x, y = block[0, 0] - block[1, 1] - shift, t[m, m - 1]
        length = jnp.sqrt(jnp.abs(x) ** 2 + jnp.abs(y) ** 2).astype(kind)
        done = y == 0
        safe = jnp.where(done, 1, length)
        c, s = jnp.where(done, 1, x / safe), jnp.where(done, 0, y / safe)
        turn = jnp.array([[jnp.conj(c), s], [-s, c]])
        t = t.at[m - 1 : m + 1, :].set(turn @ t[m - 1 : m + 1, :])
        back = jnp.conj(turn.T)
        t = t.at[:, m - 1 : m + 1].set(t[:, m - 1 : m + 1] @ back)
        z = z.at[:, m - 1 : m + 1].set(z[:, m - 1 : m + 1] @ back)
        t = t.at[m, m - 1].set(0)
    return t, z


def _complex_schur(a: Array) -> list[Array]:
    return lax.linalg.schur(a.astype(dtypes.to_complex_dtype(a.dtype)))


@one_program()
def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The principal square root of a square matrix, complex (through the Schur form).

    Raises:
      NotImplementedError: blocksize > 1.

    >>> sqrtm(jnp.array([[4.0, 0.0], [0.0, 9.0]])).real.round(3)
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    if blocksize > 1:
        raise NotImplementedError("sqrtm has no blocked version; use blocksize=1.")
    (a,) = promote_args_inexact("sqrtm", A)
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ValueError(f"sqrtm: expected a square matrix, got shape {a.shape}")
    t, z = _complex_schur(a)
    roots = jnp.sqrt(jnp.diag(t))
    n = t.shape[0]

    def column(j: Any, u: Array) -> Array:
        def entry(step: Any, u: Array) -> Array:
            i = j - 1 - step
            inner = jnp.arange(n)
            between = (inner > i) & (inner < j)
            total = jnp.sum(jnp.where(between, u[i, :] * u[:, j], 0))
            denominator = roots[i] + roots[j]
            gap = t[i, j] - total
            value = jnp.where(
                denominator == 0, 0, gap / jnp.where(denominator == 0, 1, denominator)
            )
            return u.at[i, j].set(value)

        return lax.fori_loop(0, j, entry, u)

    root = lax.fori_loop(1, n, column, jnp.diag(roots))
    return z @ root @ jnp.conj(z.T)


@jit
def _parlett(t: Array, values: Array) -> tuple[Array, Array]:
    """The function of an upper triangular matrix whose values on the diagonal are known, and the
    smallest gap between eigenvalues: column by column, upwards, of t f = f t."""
    t = jnp.triu(t)
    eigenvalues = jnp.diag(t)

    def column(j: Any, found: tuple[Array, Array]) -> tuple[Array, Array]:
        def entry(step: Any, found: tuple[Array, Array]) -> tuple[Array, Array]:
            f, smallest = found
            i = j - 1 - step
            # What is not filled yet is zero, as this entry, so all other terms are there.
            value = jnp.sum(t[i, :] * f[:, j] - f[i, :] * t[:, j])
            gap = eigenvalues[j] - eigenvalues[i]
            value = jnp.where(gap == 0, value, value / jnp.where(gap == 0, 1, gap))
            return f.at[i, j].set(value), jnp.minimum(smallest, jnp.abs(gap))

        return lax.fori_loop(0, j, entry, found)

    start = jnp.diag(values), jnp.abs(t[0, 0])
    return lax.fori_loop(1, t.shape[0], column, start)


def funm(A: ArrayLike, func: Callable[[Array], Array], disp: bool = True) -> Any:
    """func of a square matrix, by Parlett's recurrence on its Schur form (distinct eigenvalues).

    Returns:
      The complex matrix; with disp=False also an estimate of the error.

    >>> funm(jnp.diag(jnp.array([1.0, 2.0])), lambda x: x**2).real.round(3)[1, 1]
    Array(4., dtype=float32)
    """
    (a,) = promote_args_inexact("funm", A)
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ValueError(f"expected square array_like input, got shape {a.shape}")
    t, z = _complex_schur(a)
    f, smallest = _parlett(t, jnp.asarray(func(jnp.diag(t)), t.dtype))
    result = z @ f @ jnp.conj(z.T)
    if disp:
        return result
    eps = jnp.finfo(t.dtype).eps
    smallest = jnp.where(smallest == 0, eps, smallest)
    upper = jnp.linalg.norm(jnp.triu(t, 1), 1)
    error = jnp.minimum(1, jnp.maximum(eps, eps / smallest * upper))
    return result, jnp.where(jnp.all(jnp.isfinite(result)), error, np.inf)


@one_program()
def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """(u, p) with a = u p ("right") or a = p u ("left"), u unitary and p positive semidefinite.

    Args:
      method: "qdwh" (iterative) or "svd".
    Raises:
      ValueError: unknown side or method.

    >>> polar(jnp.array([[-2.0, 0.0], [0.0, 3.0]]))[1].round(3)
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    if side not in ("right", "left"):
        raise ValueError(f"side={side!r} must be 'right' or 'left'")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"Unknown polar decomposition method {method}; use 'qdwh' or 'svd'.")
    (a,) = promote_args_inexact("polar", a)
    m, n = a.shape
    if method == "qdwh":
        if m < n and side == "right":
            raise NotImplementedError(
                "method='qdwh' only supports mxn matrices where m >= n: the "
                "iteration is on the columns of the smaller side. Use method='svd'."
            )
        if m > n and side == "left":
            raise NotImplementedError(
                "method='qdwh' only supports mxn matrices where m <= n: the "
                "iteration is on the columns of the smaller side. Use method='svd'."
            )
        tall = a if side == "right" else jnp.conj(a.T)
        u, p, _, _ = lax.linalg.qdwh(tall, max_iterations=max_iterations, eps=eps)
        return (u, p) if side == "right" else (jnp.conj(u.T), jnp.conj(p.T))
    left, values, right = jnp.linalg.svd(a, full_matrices=False)
    unitary = left @ right
    values = values.astype(a.dtype)[None, :]
    if side == "right":
        return unitary, jnp.conj(right.T) * values @ right
    return unitary, left * values @ jnp.conj(left.T)
