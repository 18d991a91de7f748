"""Elementwise functions outside transformations: one compiled call instead of promotion, conversion
and a primitive at a time. Operators of arrays and ufuncs go through here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax._config.registry import deviating
from pyjax.api.jit import jit
from pyjax.core.trace import entered, eval_trace, state
from pyjax.core.traceback_filter import leave
from pyjax.runtime.array import DeviceArray
from pyjax.runtime.dispatch import NUMPY_DTYPES, SCALAR_KINDS, is_host_value

# What goes straight to the compiled function. Everything else (tracers, lists, objects with
# __jax_array__, what is no number) is the plain function's business, its errors too.
_KINDS = frozenset({DeviceArray, *SCALAR_KINDS})


# Not empty while compiling is switched off somewhere.
_not_compiling = deviating((options.disable_jit,), usual=(False,))


def is_ready(x: Any) -> bool:
    """Whether a function of `x` can be one program now: `x` is an array or a number, nothing is
    being traced, and compiling is not switched off."""
    return (
        (type(x) is DeviceArray or is_host_value(x))
        and (not entered or state.traces[0] is eval_trace)
        and not (_not_compiling and options.disable_jit.here()[0].value)
    )


# One program per function, whether it is called as an operator or by its name.
compiled_once = functools.cache(jit)


def compiled_binary(
    op: Callable[[Any, Any], Any], otherwise: Callable[[Any, Any], Any] | None = None
) -> Callable[[Any, Any], Any]:
    """A function that computes `op`, a function of two arrays, by one program where both are arrays
    or numbers and nothing is being traced, and else calls `otherwise` (`op` itself if None).

    >>> compiled_binary(lambda x, y: x * y + 1)(2.0, np.float32(3.0)).item()
    7.0
    """
    compiled = compiled_once(op)
    otherwise = otherwise or op

    @functools.wraps(otherwise)
    def call(x: Any, y: Any, /) -> Any:
        kind, other = type(x), type(y)
        try:
            if (  # as `is_ready`, written out: calls cost
                (other in _KINDS or (other is np.ndarray and y.dtype in NUMPY_DTYPES))
                and (kind in _KINDS or (kind is np.ndarray and x.dtype in NUMPY_DTYPES))
                and (not entered or state.traces[0] is eval_trace)
            ):
                return compiled(x, y)
            return otherwise(x, y)
        except Exception as error:
            leave(error)
            raise

    return call
