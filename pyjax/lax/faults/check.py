"""Checks: the user's assertions about values that are known when the program runs.

Outside of traced functions a check raises at once. In a program it is an operation whose effect is
the kind of error that it may make: `checkify` makes a value of that, and a program that still has
it is not compiled, unless `jax_experimental_unsafe_xla_runtime_errors` lets it raise from within.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from pyjax._config import options
from pyjax.core import errors
from pyjax.core.array import Array
from pyjax.core.errors import fail, new_error
from pyjax.core.source_info import summarize
from pyjax.core.tree_util import PyTreeDef, tree_leaves, tree_unflatten
from pyjax.interpreters.batching import bdim_at_front
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.interpreters.rules import FullJvp, Unsupported, define_rules
from pyjax.lax.bitwise import bitwise_not, bitwise_or
from pyjax.lax.callbacks import debug_callback
from pyjax.lax.common import BOOL_DTYPE
from pyjax.lax.control_flow.cond import cond
from pyjax.lax.faults.error_value import (
    Error,
    FailedCheckError,
    JaxRuntimeError,
    check_p,
    error_if,
    throw_if,
)


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Check that a condition holds, when the program gets here.

    Outside of traced functions a failed check raises. A function that is to be traced is given to
    `checkify` first, which makes it return the error.

    Args:
      pred: bool, or a traced or other array of one bool; false: the check fails.
      msg: what to say then; a format string.
      fmt_args, fmt_kwargs: pytrees of arrays for the format string, as they are at run time.
      debug: do nothing but under `checkify`, as `debug_check`.
    Raises:
      TypeError: pred is no scalar bool, or something to format is no array.
      JaxRuntimeError: (a ValueError) the check fails, outside of traced functions.
    >>> import pyjax.numpy as jnp
    >>> check(jnp.float32(1) > 0, "must be positive")
    """
    what = "debug_check" if debug else "check"
    is_array = isinstance(pred, Array) and pred.shape == () and pred.dtype == BOOL_DTYPE
    if not (isinstance(pred, bool) or is_array):
        fail(
            TypeError,
            f"{what} takes a scalar pred as argument, got {pred}",
            "one message says that one condition does not hold.",
            "pass a bool, or an array of one: (x > 0).all().",
        )
    for x in tree_leaves((fmt_args, fmt_kwargs)):
        if not isinstance(x, (Array, np.ndarray)):
            fail(
                TypeError,
                f"Formatting arguments to checkify.{what} need to be PyTrees of arrays, but got "
                f"{x!r} of type {type(x)}.",
                "they are what the program computes when it runs.",
                "write what is known now into the message itself, or pass jnp.asarray(x).",
            )
    failed = np.asarray(not pred) if isinstance(pred, bool) else bitwise_not(pred)
    throw_if(error_if(failed, FailedCheckError, (msg,), (fmt_args, fmt_kwargs)), debug)


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """`check` that does nothing unless the function is given to `checkify`.

    >>> import pyjax.numpy as jnp
    >>> debug_check(jnp.asarray(False), "nobody sees this")
    """
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def check_error(error: Error) -> None:
    """Raise an error that is a value; the inverse of `checkify`.

    Like `check` it may stand in a function that is given to `checkify`, once more.

    Raises:
      TypeError: not an Error.   JaxRuntimeError: (a ValueError) there is an error.
    >>> from pyjax.experimental import checkify
    >>> error, _ = checkify.checkify(lambda: checkify.check(True, "never"))()
    >>> check_error(error)
    """
    if not isinstance(error, Error):
        fail(
            TypeError,
            f"check_error takes an Error as argument, got type {type(error)} instead.",
            "it raises what a function that went through checkify returns first.",
            "error, result = checkify(f)(x); check_error(error).",
        )
    throw_if(error)


# -- rules of the operation ------------------------------------------------------------------------


class _RaisedByProgram(JaxRuntimeError, errors.JaxRuntimeError):
    """A check has failed in a compiled program, which is an error of the runtime, too."""


def _impl(*leaves: Any, structure: PyTreeDef, debug: bool) -> list[Any]:
    if not debug:
        _throw(JaxRuntimeError, structure, leaves)
    return []


def _throw(kind: type[JaxRuntimeError], structure: PyTreeDef, leaves: Sequence[Any]) -> None:
    error: Error = tree_unflatten(structure, leaves)
    exception = error.get_exception()
    if exception is not None:
        parts = (exception.what, exception.where, exception.why, exception.fix)
        raise kind(*parts) from exception


def _effects(*avals: Any, structure: PyTreeDef, debug: bool) -> frozenset[Any]:
    return frozenset(tree_unflatten(structure, avals)._pred)


def _jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
    return check_p.bind(*primals, **params), []


def _batching(
    axis_size: int, args: Sequence[Any], dims: Sequence[Any], *, structure: PyTreeDef, debug: bool
) -> tuple[list[Any], list[Any]]:
    lanes = [bdim_at_front(x, d, axis_size) for x, d in zip(args, dims)]
    throw_if(tree_unflatten(structure, lanes), debug)
    return [], []


def _lowering(ctx: Any, *operands: Any, structure: PyTreeDef, debug: bool) -> list[Any]:
    if debug or not _effects(*ctx.avals_in, structure=structure, debug=debug):
        return []
    if not options.experimental_unsafe_xla_runtime_errors.value:
        _not_functionalized(ctx)

    def run(*leaves: Any) -> list[Any]:
        """Python is called only if there is an error."""
        raised: Any = np.zeros((), BOOL_DTYPE)
        for pred in tree_unflatten(structure, leaves)._pred.values():
            raised = bitwise_or(raised, pred)

        def throw(*values: Any) -> None:
            _throw(_RaisedByProgram, structure, values)

        cond(raised, lambda *xs: debug_callback(throw, *xs), lambda *xs: None, *leaves)
        return []

    return ctx.inline_jaxpr(trace_to_jaxpr(run, ctx.avals_in)[0], *operands)


def _not_functionalized(ctx: Any) -> NoReturn:
    raise new_error(
        ValueError,
        "Cannot abstractly evaluate a checkify.check which was not functionalized.",
        "A compiled program (of jit, scan, ...) computes values; it does not raise.",
        "Give the function to checkify first: error, result = jit(checkify(f))(x); error.throw(). "
        "Or set jax_experimental_unsafe_xla_runtime_errors, which lets programs call Python to "
        "raise.",
        where=summarize(ctx.source),
    )


define_rules(
    check_p,
    abstract_eval=lambda *avals, **params: [],
    jvp=FullJvp(_jvp),
    transpose=Unsupported("a check gives nothing, linear or not"),
    batching=_batching,
    lowering=_lowering,
    effects=_effects,
    impl=_impl,
    multiple_results=True,
)
