"""What is remembered of traced functions and jaxprs: the limit that their caches share, what a
trace counts there, when two are the same, and results about a jaxpr."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from pyjax._config.registry import trace_context
from pyjax.core import axis_env
from pyjax.core.errors import new_error
from pyjax.core.exact_keys import exact_key
from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, subjaxprs
from pyjax.core.weak_tables import WeakIdentityTable
from xla_backend.process.bounded_cache import Budget

TRACES = Budget("traces", entries=4096, nbytes=128 << 20)
# As measured: equations with their variables, parameters and source locations.
_EQUATION_BYTES = 2048
_TRACE_BYTES = 4096


def trace_bytes(closed: ClosedJaxpr) -> int:
    """About how much memory a trace takes; arrays it closes over are its function's."""
    equations = 0
    seen = {closed.jaxpr}
    pending = [closed.jaxpr]
    while pending:
        jaxpr = pending.pop()
        equations += len(jaxpr.eqns)
        for inner in subjaxprs(jaxpr):
            if inner not in seen:
                seen.add(inner)
                pending.append(inner)
    return _TRACE_BYTES + _EQUATION_BYTES * equations


def program_key(closed: ClosedJaxpr) -> Hashable:
    """Equal for programs that do the same with the same constants: those compare by identity, and
    count for as long as the program is kept.

    Raises:
      TypeError: a parameter has no hash, or a constant is a NumPy array, which may change.
    """
    if any(isinstance(c, np.ndarray) for c in closed.consts):
        raise new_error(TypeError, "NumPy arrays may change")
    return (_jaxpr_key(closed.jaxpr), tuple(map(id, closed.consts)))


def _jaxpr_key(jaxpr: Jaxpr) -> Hashable:
    numbers: dict[Any, int] = {}

    def atom(x: Any) -> Hashable:
        if type(x) is Literal:
            return (exact_key(x.val), x.aval)
        return numbers.setdefault(x, len(numbers))

    inputs = [*jaxpr.constvars, *jaxpr.invars]
    numbers.update(zip(inputs, range(len(inputs))))
    eqns = [
        (
            eqn.primitive,
            tuple([atom(x) for x in eqn.invars]),
            tuple([(atom(v), v.aval) for v in eqn.outvars]),
            tuple([(name, _parameter_key(value)) for name, value in eqn.params.items()]),
            frozenset(eqn.effects),
        )
        for eqn in jaxpr.eqns
    ]
    outs = tuple([atom(x) for x in jaxpr.outvars])
    return (len(jaxpr.constvars), tuple([v.aval for v in inputs]), tuple(eqns), outs)


def _parameter_key(value: Any) -> Hashable:
    if isinstance(value, ClosedJaxpr):
        return program_key(value)
    if isinstance(value, Jaxpr):
        return _jaxpr_key(value)
    if isinstance(value, (tuple, list)):
        return (type(value), *map(_parameter_key, value))
    return exact_key(value)


class jaxpr_cache:
    """Decorator: remembers results per jaxpr (held weakly), other arguments and the configuration.

    The first argument is a Jaxpr or ClosedJaxpr; the others must be hashable.
    """

    def __init__(self, fun: Callable) -> None:
        self._fun = fun
        self._results = WeakIdentityTable()
        self.__doc__ = fun.__doc__
        self.__name__ = fun.__name__

    def __call__(self, jaxpr: Any, *args: Any) -> Any:
        results = self._results.get(jaxpr)
        if results is None:
            results = {}
            self._results.set(jaxpr, results)
        key = (args, trace_context(), axis_env.key())
        found = results.get(key)
        if found is None:
            found = results[key] = self._fun(jaxpr, *args)
        return found
