"""Iterative solvers: cg, gmres, bicgstab. Derivatives are those of the solution."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import tree_structure
from pyjax.flatten_util import ravel_pytree
from pyjax.numpy.util import is_arraylike

Array = Any
MatVec = Callable[[Array], Array]


def _operator(name: str, a: Any) -> Callable[[Any], Any]:
    if callable(a):
        return a
    if hasattr(a, "shape") and len(a.shape) == 2 and a.shape[0] == a.shape[1]:
        if not is_arraylike(a) and hasattr(a, "__matmul__"):
            return partial(operator.matmul, a)  # a user's operator
        return partial(jnp.matmul, jnp.asarray(a))
    if hasattr(a, "shape"):
        raise ValueError(f"{name}: linear operator must be a square matrix, got shape {a.shape}")
    raise TypeError(
        f"{name}: linear operator must be either a function or ndarray: {type(a).__name__}"
    )


def _solve(name: str, method: Any, A: Any, b: Any, x0: Any, M: Any, symmetric: bool) -> Any:
    """Run `method(matvec, b, x0, precondition)` on vectors, as a linear solve with a derivative."""
    if x0 is not None and tree_structure(x0) != tree_structure(b):
        raise ValueError(
            f"x0 and b must have matching tree structure: {tree_structure(x0)} vs "
            f"{tree_structure(b)}"
        )
    flat_b, unravel = ravel_pytree(b)
    if not jnp.issubdtype(flat_b.dtype, np.inexact):
        flat_b = flat_b.astype(jnp.result_type(float))
    start = jnp.zeros_like(flat_b) if x0 is None else ravel_pytree(x0)[0].astype(flat_b.dtype)
    if start.shape != flat_b.shape:
        raise ValueError("arrays in x0 and b must have matching shapes")
    apply, precondition = _operator(name, A), (lambda x: x) if M is None else _operator(name, M)

    def flat(function: Callable[[Any], Any]) -> MatVec:
        def run(v: Array) -> Array:
            out = ravel_pytree(function(unravel(v)))[0]
            if out.shape != v.shape:
                raise ValueError(
                    f"{name}: the operator maps {v.shape[0]} numbers to {out.shape[0]}; it must be "
                    "square."
                )
            return out

        return run

    def solve(matvec: MatVec, rhs: Array) -> Array:
        return method(matvec, rhs, start, flat(precondition))

    def transpose_solve(matvec: MatVec, rhs: Array) -> Array:
        return method(matvec, rhs, jnp.zeros_like(rhs), flat(precondition))

    x = lax.custom_linear_solve(
        flat(apply),
        flat_b,
        solve=solve,
        transpose_solve=transpose_solve,
        symmetric=symmetric,
    )
    return unravel(x), None


def _limit(b: Array, tol: Any, atol: Any) -> Array:
    return jnp.maximum(tol * jnp.linalg.norm(b), atol)


@api_boundary
def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """The x with A x = b, A Hermitian positive definite, by conjugate gradients.

    Args:
      A: matrix, or a linear function of pytrees like `b`, or an object with `shape` and `@`.
      x0: first guess.  M: approximate inverse of A (a preconditioner).
      tol, atol: stop when the residual's norm is below max(tol · |b|, atol).
      maxiter: default 10 times the number of unknowns.
    Returns:
      (x, None).

    >>> cg(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([2.0, 4.0]))[0].round(3)
    Array([1., 1.], dtype=float32)
    """

    def method(matvec: MatVec, b: Array, x: Array, precondition: MatVec) -> Array:
        count = 10 * b.shape[0] if maxiter is None else maxiter
        limit = _limit(b, tol, atol)
        r = b - matvec(x)
        p = z = precondition(r)

        def unfinished(state: Any) -> Array:
            _, r, _, _, k = state
            return (jnp.linalg.norm(r) > limit) & (k < count)

        def step(state: Any) -> Any:
            x, r, p, gamma, k = state
            ap = matvec(p)
            alpha = gamma / jnp.vdot(p, ap)
            x, r = x + alpha * p, r - alpha * ap
            z = precondition(r)
            fresh = jnp.vdot(r, z)
            return x, r, z + fresh / gamma * p, fresh, k + 1

        return lax.while_loop(unfinished, step, (x, r, p, jnp.vdot(r, z), 0))[0]

    return _solve("cg", method, A, b, x0, M, symmetric=True)


@api_boundary
def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """The x with A x = b by the stabilised bi-conjugate gradient method; arguments as for cg.

    >>> bicgstab(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([2.0, 4.0]))[0].round(3)
    Array([1., 1.], dtype=float32)
    """

    def method(matvec: MatVec, b: Array, x: Array, precondition: MatVec) -> Array:
        count = 10 * b.shape[0] if maxiter is None else maxiter
        limit = _limit(b, tol, atol)
        r = b - matvec(x)
        shadow = r
        one = jnp.ones((), b.dtype)

        def unfinished(state: Any) -> Array:
            r, k = state[1], state[-1]
            return (jnp.linalg.norm(r) > limit) & (k < count) & (k >= 0)

        def step(state: Any) -> Any:
            x, r, alpha, omega, rho, p, q, k = state
            fresh = jnp.vdot(shadow, r)
            beta = fresh / rho * alpha / omega
            p = r + beta * (p - omega * q)
            phat = precondition(p)
            q = matvec(phat)
            alpha = fresh / jnp.vdot(shadow, q)
            s = r - alpha * q
            early = jnp.linalg.norm(s) < limit
            shat = precondition(s)
            t = matvec(shat)
            tt = jnp.vdot(t, t)
            omega = jnp.where(tt == 0, 1, jnp.vdot(t, s) / jnp.where(tt == 0, 1, tt))
            x = jnp.where(early, x + alpha * phat, x + alpha * phat + omega * shat)
            r = jnp.where(early, s, s - omega * t)
            broken = (omega == 0) | (alpha == 0)  # no progress: a negative count ends the loop
            return x, r, alpha, omega, fresh, p, q, jnp.where(broken, -11, k + 1)

        zeros = jnp.zeros_like(b)
        return lax.while_loop(unfinished, step, (x, r, one, one, one, zeros, zeros, 0))[0]

    return _solve("bicgstab", method, A, b, x0, M, symmetric=False)


@api_boundary
def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, Array]:
    """The x with A x = b by the generalised minimal residual method; and -1 if it is nan, else 0.

    Args:
      restart: dimension of the Krylov space of one cycle.
      maxiter: number of cycles; default 10 times the number of unknowns.
      solve_method: "batched" or "incremental"; both build a whole cycle, then solve it.
      Others as for cg.

    >>> gmres(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([2.0, 4.0]))[0].round(3)
    Array([1., 1.], dtype=float32)
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(
            f"invalid solve_method {solve_method}, must be either 'incremental' or 'batched'"
        )

    def method(matvec: MatVec, b: Array, x: Array, precondition: MatVec) -> Array:
        n = b.shape[0]
        size = min(restart, n)
        count = 10 * n if maxiter is None else maxiter
        pb = jnp.linalg.norm(precondition(b))
        limit = jnp.maximum(tol * pb, atol)

        def residual(x: Array) -> Array:
            return precondition(b - matvec(x))

        def cycle(x: Array, r: Array) -> Array:
            norm = jnp.linalg.norm(r)
            basis = jnp.zeros((size + 1, n), b.dtype).at[0].set(_divide(r, norm))
            hessenberg = jnp.zeros((size + 1, size), b.dtype)

            def arnoldi(k: Any, state: Any) -> Any:
                basis, h = state
                w = precondition(matvec(basis[k]))
                before = jnp.linalg.norm(w)
                # Twice, for orthogonality to working precision; rows above k are still zero.
                first = jnp.conj(basis) @ w
                w = w - first @ basis
                second = jnp.conj(basis) @ w
                w = w - second @ basis
                length = jnp.linalg.norm(w)
                eps = jnp.finfo(b.dtype).eps
                length = jnp.where(length > 10 * eps * before, length, 0)
                h = h.at[:, k].set(first + second).at[k + 1, k].set(length.astype(b.dtype))
                return basis.at[k + 1].set(_divide(w, length)), h

            basis, h = lax.fori_loop(0, size, arnoldi, (basis, hessenberg))
            target = jnp.zeros(size + 1, b.dtype).at[0].set(norm.astype(b.dtype))
            y = jnp.linalg.lstsq(h, target)[0]
            return x + y @ basis[:-1]

        def unfinished(state: Any) -> Array:
            _, r, k = state
            return (k < count) & (jnp.linalg.norm(r) > limit)

        def step(state: Any) -> Any:
            x, r, k = state
            x = cycle(x, r)
            return x, residual(x), k + 1

        return lax.while_loop(unfinished, step, (x, residual(x), 0))[0]

    x, _ = _solve("gmres", method, A, b, x0, M, symmetric=False)
    failed = jnp.isnan(jnp.linalg.norm(ravel_pytree(x)[0]))
    return x, jnp.where(failed, -1, 0)


def _divide(x: Array, norm: Array) -> Array:
    """x / norm, zero where the norm is zero."""
    return jnp.where(norm == 0, 0, x / jnp.where(norm == 0, 1, norm).astype(x.dtype))
