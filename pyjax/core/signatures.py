"""Reading the Python signature of a function: the one place that does.

A partial has the parameters that are left, a decorated function those of what it wraps, a callable
object those of its `__call__`; some builtins have no signature that Python can tell. Layer: core.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from types import CodeType, FunctionType
from typing import Any

from pyjax.core.weak_tables import WeakIdentityTable

_parameters = WeakIdentityTable()


def signature_of(fun: Callable[..., Any]) -> inspect.Signature | None:
    """The signature, defaults included; None for a function that has none."""
    try:
        return inspect.signature(fun)
    except (ValueError, TypeError):
        return None


def parameters_of(fun: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    """Names and kinds of the parameters; empty for a function without a signature.

    Remembered with the function, unless its code has been replaced (by a reload). Without defaults
    and annotations: those may lead back to the function, which then would live for ever.
    """
    code = getattr(fun, "__code__", None)
    found = _parameters.get(fun)
    if found is not None and found[0] is code:
        return found[1]
    # Attributes of a function may say that it has the signature of another one.
    if type(fun) is FunctionType and not fun.__dict__:
        result = _parameters_of_code(fun.__code__)
    else:
        signature = signature_of(fun)
        listed = () if signature is None else tuple(signature.parameters.values())
        result = tuple([Parameter(p.name, p.kind) for p in listed])
    try:
        _parameters.set(fun, (code, result))
    except TypeError:
        pass  # it cannot be held weakly: read anew each time
    return result


def _parameters_of_code(code: CodeType) -> tuple[Parameter, ...]:
    """What `inspect` finds, which takes three times as long."""
    names, first = code.co_varnames, code.co_posonlyargcount
    positional, flags = code.co_argcount, code.co_flags
    last = positional + code.co_kwonlyargcount
    result = [Parameter(name, Parameter.POSITIONAL_ONLY) for name in names[:first]]
    result += [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names[first:positional]]
    if flags & inspect.CO_VARARGS:
        result.append(Parameter(names[last], Parameter.VAR_POSITIONAL))
    result += [Parameter(name, Parameter.KEYWORD_ONLY) for name in names[positional:last]]
    if flags & inspect.CO_VARKEYWORDS:
        place = last + bool(flags & inspect.CO_VARARGS)
        result.append(Parameter(names[place], Parameter.VAR_KEYWORD))
    return tuple(result)


def positional_names(fun: Callable[..., Any]) -> list[str]:
    """Names of the parameters that can be given by position."""
    return [
        p.name for p in parameters_of(fun) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
