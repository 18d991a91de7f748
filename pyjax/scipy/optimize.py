"""Minimisation of smooth functions by BFGS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.grad import value_and_grad
from pyjax.core.errors import new_error
from pyjax.core.traceback_filter import api_boundary
from pyjax.numpy.util import promote_args_inexact

Array = Any


class OptimizeResults(NamedTuple):
    """Result of `minimize`.

    Attributes:
      x: where the search ended; success: whether it converged.
      status: 0 converged, 1 maxiter reached, 3 the line search found no step.
      fun, jac, hess_inv: value, gradient and approximate inverse Hessian at x.
      nfev, njev, nit: numbers of evaluations, of gradients, of iterations.

    >>> start = jnp.ones(2)
    >>> found = pyjax.scipy.optimize.minimize(lambda x: (x @ x - 1) ** 2, start, method="BFGS")
    >>> found.x.round(2), bool(found.success)
    (Array([0.71, 0.71], dtype=float32), True)
    """

    x: Array
    success: bool | Array
    status: int | Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: int | Array
    njev: int | Array
    nit: int | Array


class _State(NamedTuple):
    x: Array
    f: Array
    g: Array
    h: Array
    k: Array
    evaluations: Array
    stuck: Array


@api_boundary
def minimize(
    fun: Callable[..., Any],
    x0: Array,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A local minimum of `fun(x, *args)`, a differentiable function of a vector.

    Args:
      x0: where to start, one-dimensional.
      method: "BFGS".
      tol: sets the option gtol.
      options: maxiter (default 200 times the number of variables), norm (default inf) and gtol
        (default 1e-5): converged when that norm of the gradient is below; line_search_maxiter (10).
    Raises:
      ValueError: another method or option, or x0 is no vector.

    >>> minimize(lambda x: jnp.sum((x - 3.0) ** 2), jnp.zeros(1), method="BFGS").x.round(3)
    Array([3.], dtype=float32)
    """
    settings = {"maxiter": None, "norm": np.inf, "gtol": 1e-5, "line_search_maxiter": 10}
    unknown = set(options or ()) - set(settings)
    if unknown:
        raise ValueError(f"minimize: unknown options {sorted(unknown)}; known: {sorted(settings)}")
    settings.update(options or {})
    if tol is not None:
        settings["gtol"] = tol
    if method.lower() != "bfgs":
        raise new_error(
            ValueError,
            f"Method {method} not recognized; use 'BFGS'.",
            "Methods run inside compiled programs and follow gradients.",
            "method='BFGS', or scipy.optimize.minimize on NumPy arrays.",
        )
    if not isinstance(args, tuple):
        raise TypeError(f"args argument to minimize must be a tuple, got {args!r}")
    (x0,) = promote_args_inexact("minimize", x0)
    if jnp.ndim(x0) != 1:
        raise ValueError(f"minimize: x0 must be one-dimensional, got shape {jnp.shape(x0)}")
    return _bfgs(lambda x: fun(x, *args), jnp.asarray(x0), settings)


def _bfgs(fun: Callable[[Array], Array], x0: Array, settings: Mapping[str, Any]) -> OptimizeResults:
    n = x0.shape[0]
    maxiter = 200 * n if settings["maxiter"] is None else settings["maxiter"]
    evaluate = value_and_grad(fun)
    eye = jnp.eye(n, dtype=x0.dtype)
    f, g = evaluate(x0)

    def converged(s: _State) -> Array:
        return jnp.linalg.norm(s.g, ord=settings["norm"]) < settings["gtol"]

    def unfinished(s: _State) -> Array:
        return ~converged(s) & ~s.stuck & (s.k < maxiter)

    def step(s: _State) -> _State:
        direction = -s.h @ s.g
        # Rounding may spoil the approximation: then restart from steepest descent.
        downhill = jnp.vdot(direction, s.g) < 0
        direction = jnp.where(downhill, direction, -s.g)
        h = jnp.where(downhill, s.h, eye)
        length, value, gradient, count, found = _line_search(
            evaluate, s, direction, settings["line_search_maxiter"]
        )
        dx = length * direction
        dg = gradient - s.g
        curvature = jnp.vdot(dg, dx)
        usable = curvature > 0
        rho = jnp.where(usable, 1 / jnp.where(usable, curvature, 1), 0)
        left = eye - rho * jnp.outer(dx, dg)
        updated = jnp.where(usable, left @ h @ left.T + rho * jnp.outer(dx, dx), h)
        return _State(
            x=jnp.where(found, s.x + dx, s.x),
            f=jnp.where(found, value, s.f),
            g=jnp.where(found, gradient, s.g),
            h=jnp.where(found, updated, h),
            k=s.k + 1,
            evaluations=s.evaluations + count,
            stuck=~found,
        )

    zero = jnp.zeros((), np.int32)
    start = _State(x0, f, g, eye, zero, zero + 1, jnp.zeros((), bool))
    end = lax.while_loop(unfinished, step, start)
    success = converged(end)
    status = jnp.where(success, 0, jnp.where(end.stuck, 3, 1))
    return OptimizeResults(
        end.x, success, status, end.f, end.g, end.h, end.evaluations, end.evaluations, end.k
    )


def _line_search(
    evaluate: Callable[[Array], Any], s: _State, direction: Array, maxiter: int
) -> tuple[Array, ...]:
    """A step that meets the weak Wolfe conditions, by bisection and doubling (Lewis & Overton).

    Returns:
      (length, value, gradient, evaluations, whether the value decreased enough)
    """
    slope = jnp.vdot(direction, s.g)
    inf = jnp.full((), np.inf, s.x.dtype)
    zero = jnp.zeros((), s.x.dtype)

    def unfinished(state: Any) -> Array:
        return ~state["done"] & (state["count"] < 3 * maxiter)

    def step(state: Any) -> Any:
        t = state["next"]
        value, gradient = evaluate(s.x + t * direction)
        # Within rounding of f no decrease can be seen: equal values count as one.
        slack = 2 * jnp.finfo(s.x.dtype).eps * jnp.abs(s.f)
        enough = value <= s.f + 1e-4 * t * slope + slack
        steep = jnp.vdot(gradient, direction) < 0.9 * slope
        low = jnp.where(enough, t, state["low"])
        high = jnp.where(enough, state["high"], t)
        following = jnp.where(jnp.isinf(high), 2 * t, (low + high) / 2)
        keep = enough  # the longest step so far with enough decrease
        return {
            "low": low,
            "high": high,
            "next": following,
            "best": jnp.where(keep, t, state["best"]),
            "value": jnp.where(keep, value, state["value"]),
            "gradient": jnp.where(keep, gradient, state["gradient"]),
            "found": state["found"] | keep,
            "done": enough & ~steep,
            "count": state["count"] + 1,
        }

    # The first iteration knows no scale: a unit step at most.
    unit = jnp.minimum(1, 1 / jnp.maximum(jnp.linalg.norm(direction), 1e-30))
    first = jnp.where(s.k == 0, unit, 1).astype(s.x.dtype)
    state = {
        "low": zero,
        "high": inf,
        "next": first,
        "best": zero,
        "value": s.f,
        "gradient": s.g,
        "found": jnp.zeros((), bool),
        "done": jnp.zeros((), bool),
        "count": jnp.zeros((), np.int32),
    }
    end = lax.while_loop(unfinished, step, state)
    return end["best"], end["value"], end["gradient"], end["count"], end["found"]
