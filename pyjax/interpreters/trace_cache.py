"""What is remembered of traced functions and jaxprs: the limit that their caches share, what a
trace counts there, and results about a jaxpr."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjax._config.registry import trace_context
from pyjax.core import axis_env
from pyjax.core.jaxpr import ClosedJaxpr, subjaxprs
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
