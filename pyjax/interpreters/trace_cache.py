"""The limit that all caches of traced functions share, and what a trace counts there."""

from __future__ import annotations

from pyjax.core.jaxpr import ClosedJaxpr, subjaxprs
from xla_backend.bounded_cache import Budget

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
