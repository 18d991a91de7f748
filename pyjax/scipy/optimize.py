"""Minimisation of smooth functions by BFGS and L-BFGS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import pyjax.numpy as jnp
from pyjax.core.errors import new_error
from pyjax.core.traceback_filter import api_boundary
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy._quasi_newton import Limits, Status, last_steps, search, whole_matrix

Array = Any


class OptimizeResults(NamedTuple):
    """Result of `minimize`.

    Attributes:
      x: where the search ended; success: whether it converged.
      status: 0 converged, 1 maxiter reached; of BFGS: 3 the line search found no step, 5 the
        function falls without end; of L-BFGS: 2 maxfun reached, 3 maxgrad reached, 4 a step gained
        less than ftol, 5 the line search failed.
      fun, jac, hess_inv: value, gradient and approximate inverse Hessian (L-BFGS: None) at x.
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


_LBFGS = "l-bfgs-experimental-do-not-rely-on-this"
# The options of each method, and the status of results for each reason to end.
_OPTIONS: dict[str, dict[str, Any]] = {
    "bfgs": {"maxiter": None, "norm": np.inf, "gtol": 1e-5, "line_search_maxiter": 10},
    _LBFGS: {
        "maxiter": None,
        "norm": np.inf,
        "maxcor": 10,
        "ftol": 2.220446049250313e-09,
        "gtol": 1e-5,
        "maxfun": None,
        "maxgrad": None,
        "maxls": 20,
    },
}
_STATUSES = {
    "bfgs": {Status.NO_STEP: 3, Status.NO_MINIMUM: 5},
    _LBFGS: {Status.NO_STEP: 5, Status.NO_MINIMUM: 5},
}
# Bisection takes more evaluations than the interpolation that limits are made for.
_PATIENCE = 3


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
      method: "BFGS", or "l-bfgs-experimental-do-not-rely-on-this", for many variables.
      tol: sets the option gtol.
      options: maxiter (default 200 times the number of variables), norm (default inf) and gtol
        (default 1e-5): converged when that norm of the gradient is below; line_search_maxiter (10).
        Of L-BFGS: maxcor (10), the number of steps that are remembered; ftol (2e-9), maxfun and
        maxgrad (no limit), maxls (20).
    Raises:
      ValueError: another method, or x0 is no vector.   TypeError: another option.

    >>> minimize(lambda x: jnp.sum((x - 3.0) ** 2), jnp.zeros(1), method="BFGS").x.round(3)
    Array([3.], dtype=float32)
    """
    name = method.lower()
    if name not in _OPTIONS:
        raise new_error(
            ValueError,
            f"Method {method} not recognized; use 'BFGS' or {_LBFGS!r}.",
            "Methods run inside compiled programs and follow gradients.",
            "method='BFGS', or scipy.optimize.minimize on NumPy arrays.",
        )
    unknown = set(options or ()) - set(_OPTIONS[name])
    if unknown:
        raise TypeError(
            f"minimize: unknown options {sorted(unknown)}; known: {sorted(_OPTIONS[name])}"
        )
    settings = {**_OPTIONS[name], **(options or {})}
    if tol is not None:
        settings["gtol"] = tol
    if not isinstance(args, tuple):
        raise TypeError(f"args argument to minimize must be a tuple, got {args!r}")
    (x0,) = promote_args_inexact("minimize", x0)
    if jnp.ndim(x0) != 1:
        raise ValueError(f"minimize: x0 must be one-dimensional, got shape {jnp.shape(x0)}")
    x0 = jnp.asarray(x0)
    full = name == "bfgs"
    memory = whole_matrix(x0) if full else last_steps(x0, settings["maxcor"])
    end = search(lambda x: fun(x, *args), x0, memory, _limits(settings, x0.shape[0]))
    status = end.status
    for reason, code in _STATUSES[name].items():
        status = jnp.where(end.status == reason, code, status)
    return OptimizeResults(
        end.x,
        end.status == Status.CONVERGED,
        status,
        end.f,
        end.g,
        end.memory if full else None,
        end.evaluations,
        end.evaluations,
        end.k,
    )


def _limits(settings: Mapping[str, Any], size: int) -> Limits:
    """Limits as settings say; those that are None, or that the method does not have, are none."""
    counts = {"evaluations": settings.get("maxfun"), "gradients": settings.get("maxgrad")}
    rounds = settings["maxiter"]
    searches = settings["line_search_maxiter"] if "maxls" not in settings else settings["maxls"]
    return Limits(
        gtol=settings["gtol"],
        norm=settings["norm"],
        rounds=200 * size if rounds is None else rounds,
        searches=_PATIENCE * searches,
        ftol=settings.get("ftol", -np.inf),
        **{name: value for name, value in counts.items() if value is not None},
    )
