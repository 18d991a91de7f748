"""Elementwise functions outside transformations: one compiled call instead of promotion, conversion
and a primitive at a time. Operators of arrays and ufuncs go through here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import numpy as np

from pyjax._config import options
from pyjax.api.jit import is_jit_disabled, jit, switched_off
from pyjax.core.trace import entered, eval_trace, state
from pyjax.core.traceback_filter import leave
from pyjax.runtime.array import DeviceArray
from pyjax.runtime.dispatch import NUMPY_DTYPES, SCALAR_KINDS, is_host_value

F = TypeVar("F", bound=Callable[..., Any])

# What goes straight to the compiled function. Everything else (tracers, lists, objects with
# __jax_array__, what is no number) is the plain function's business, its errors too.
_KINDS = frozenset({DeviceArray, *SCALAR_KINDS})


def is_ready(x: Any) -> bool:
    """Whether a function of `x` can be one program now: `x` is an array or a number, nothing is
    being traced, and compiling is not switched off."""
    return (
        (type(x) is DeviceArray or is_host_value(x))
        and (not entered or state.traces[0] is eval_trace)
        and not (switched_off and is_jit_disabled())
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


def compiled_unary(op: F) -> F:
    """The same for a function of one array.

    >>> compiled_unary(lambda x: x * x + 1)(jnp.float32(3.0)).item()
    10.0
    """
    compiled = compiled_once(op)

    @functools.wraps(op)
    def call(x: Any, /) -> Any:
        kind = type(x)
        if (kind is DeviceArray or (kind is np.ndarray and x.dtype in NUMPY_DTYPES)) and (
            not entered or state.traces[0] is eval_trace
        ):
            try:
                return compiled(x)
            except Exception as error:
                leave(error)
                raise
        return op(x)

    return cast(F, call)


# Types of arguments that choose what a function does, and are part of its program.
_SETTINGS = frozenset({bool, int, float, str, type(None)})
# Of those which ask nothing of their values.
_PLAIN = frozenset({bool, int, type(None)})


def _are_settings(values: Iterable[Any]) -> bool:
    for value in values:
        kind = type(value)
        if kind is str or isinstance(value, (type, np.dtype)):
            # Each call warns of a dtype that it does not get; a program would once.
            if _is_wide(value) and not options.enable_x64.value:
                return False
            continue
        if kind in _SETTINGS:
            continue
        if type(value) is not tuple or not all(type(n) is int for n in value):
            return False
    return True


_WIDE = frozenset(map(np.dtype, ("int64", "uint64", "float64", "complex128")))
_WIDE_NAMES = {name for name, kind in np.sctypeDict.items() if np.dtype(kind) in _WIDE} | {
    name for d in _WIDE for name in (d.name, d.str[1:], d.char)
}


@functools.lru_cache(maxsize=512, typed=True)
def _is_wide(setting: Any) -> bool:
    """Whether it names a dtype that there is with 64 bits only; Python's types do not."""
    if isinstance(setting, str):
        return setting.lstrip("<>=|") in _WIDE_NAMES
    if any(setting is kind for kind in (bool, int, float, complex)):
        return False
    try:
        dtype = np.dtype(setting)
    except TypeError:  # a class that is none
        return False
    return dtype in _WIDE


# Of functions that `one_program` made.
_programs_of: dict[Callable[..., Any], Any] = {}


def one_program(
    arrays: int | None = 1, *, otherwise: Callable[[Any], bool] | None = None
) -> Callable[[F], F]:
    """A decorator: the function is one program where nothing is being traced, its first `arrays`
    arguments (None: all) are arrays or numbers (or sequences of arrays on devices), by position or
    by name, and all others are settings: numbers, names, types, None, shapes and axes. Else it runs
    as it is.

    Args:
      otherwise: for which first arguments it runs as it is, too: where it may return them.

    >>> one_program()(lambda x, axis=None: jnp.flip(x, axis))(jnp.arange(3), axis=0).tolist()
    [2, 1, 0]
    """

    def decorated(function: F) -> F:
        parameters = inspect.signature(function).parameters
        names = [*parameters]
        count = len(names) if arrays is None else arrays
        operands = names[:count]
        needed = [n for n in operands if parameters[n].default is inspect.Parameter.empty]
        # Such arrays may be left out by None.
        optional = frozenset(n for n in operands if parameters[n].default is None)
        compiled = jit(function, static_argnames=names[count:])
        # How many arrays the usual calls have, without other operands.
        usual = len(needed) if len(needed) in (1, 2) and otherwise is None else -1

        def are_plain(kwargs: dict[str, Any]) -> bool:
            for name, value in kwargs.items():
                if type(value) not in _PLAIN or name in operands:
                    return False
            return True

        def are_operands(args: tuple[Any, ...]) -> bool:
            for place, value in enumerate(args):
                if type(value) is not DeviceArray and not _is_operand(value):
                    if value is not None or operands[place] not in optional:
                        return False
            return True

        def are_keywords(given: int, kwargs: dict[str, Any]) -> bool:
            for name, value in kwargs.items():
                if name not in operands:
                    if not _are_settings((value,)):
                        return False
                elif type(value) is not DeviceArray and not _is_operand(value):
                    if value is not None or name not in optional:
                        return False
            return all(name in kwargs for name in needed[given:])

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = len(args)
            if (
                (  # of the usual calls first: tests cost
                    (
                        given == usual
                        or (given == usual + 1 == count + 1 and type(args[-1]) in _PLAIN)
                    )
                    and type(args[0]) is DeviceArray
                    and (usual == 1 or type(args[1]) is DeviceArray)
                    and (not kwargs or are_plain(kwargs))
                    and (not entered or state.traces[0] is eval_trace)
                )
                or (
                    (not entered or state.traces[0] is eval_trace)
                    and are_operands(args[:count])
                    and (given <= count or _are_settings(args[count:]))
                    and (are_keywords(given, kwargs) if kwargs else given >= len(needed))
                    and (otherwise is None or (given and not otherwise(args[0])))
                )
            ):
                try:
                    return compiled(*args, **kwargs)
                except Exception as error:
                    leave(error)
                    raise
            return function(*args, **kwargs)

        _programs_of[call] = compiled
        return cast(F, call)

    return decorated


def _is_operand(value: Any) -> bool:
    if type(value) is list or type(value) is tuple:
        return bool(value) and all(type(x) is DeviceArray for x in value)
    return is_host_value(value)


def program_of(function: Callable[..., Any]) -> Any:
    """The jitted function that a function calls which `one_program` made; None for others."""
    return _programs_of.get(function)
