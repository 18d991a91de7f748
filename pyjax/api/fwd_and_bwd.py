"""fwd_and_bwd: the two passes of reverse mode as functions that are compiled once. Layer: api."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.api.flat import check_callable, normalize_argnums, partial_args
from pyjax.api.jit import jit
from pyjax.api.vjp import vjp


def fwd_and_bwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    jitted: bool = True,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The forward and the backward pass of a function.

    What `vjp` returns is another function at each call; `bwd` is one function of residuals, which
    compiles once.

    Args:
      fun: function of pytrees of arrays.
      argnums: which positional arguments to differentiate.
      has_aux: `fun` returns (output, auxiliary data).
      jitted: give both functions compiled.
    Returns:
      `fwd(*args, **kwargs)` -> (output, residuals), or (output, residuals, aux); and
      `bwd(residuals, cotangent of the output)` -> the cotangents: one, or a tuple if `argnums` is a
      sequence.
    Raises:
      TypeError: `fun` is not callable.   ValueError, when called: there is no such argument.

    >>> fwd, bwd = fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
    >>> out, residuals = fwd(3.0, 4.0)
    >>> [float(g) for g in bwd(residuals, 1.0)]
    [4.0, 3.0]
    """
    check_callable(fun)

    def fwd(*args: Any, **kwargs: Any) -> Any:
        chosen = normalize_argnums(argnums, len(args), "fwd_and_bwd")
        inner, primals = partial_args(fun, args, kwargs, chosen)
        return vjp(inner, *primals, has_aux=has_aux)

    def bwd(residuals: Any, cotangent: Any) -> Any:
        found = residuals(cotangent)
        return found[0] if isinstance(argnums, int) else found

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
