"""Questions about the trace in context, for libraries. Layer: core."""

from __future__ import annotations

from typing import Any

from pyjax.core.axis_env import axis_names
from pyjax.core.axis_env import key as axis_key
from pyjax.core.trace import Trace, current_trace, eval_trace


class OpaqueTraceState:
    """Which trace and axes were current: equal if, and only if, they are the same."""

    __slots__ = ("_axes", "_trace")

    def __init__(self) -> None:
        self._trace = current_trace()
        self._axes = axis_key()

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, OpaqueTraceState):
            return NotImplemented
        return self._trace is other._trace and self._axes == other._axes

    def __hash__(self) -> int:
        return hash((id(self._trace), self._axes))

    def __repr__(self) -> str:
        return f"OpaqueTraceState({type(self._trace).__name__})"


def get_opaque_trace_state(convention: Any = None) -> OpaqueTraceState:
    """A token for the trace in context: objects made under another trace must not be changed.

    >>> here = get_opaque_trace_state()
    >>> here == get_opaque_trace_state()
    True
    """
    return OpaqueTraceState()


def find_top_trace(_: Any) -> Trace:
    """The trace in context. (Arguments have no say: dispatch depends on context only.)

    >>> find_top_trace(()) is find_top_trace((1.0,))
    True
    """
    return current_trace()


class take_current_trace:
    """Context manager: gives the trace in context.

    >>> with take_current_trace() as trace:
    ...     print(trace is find_top_trace(()))
    True
    """

    def __enter__(self) -> Trace:
        return current_trace()

    def __exit__(self, *error: Any) -> None:
        return None


def _kinds() -> list[str]:
    """Which transformations the trace in context works for, the innermost first."""
    trace: Any = current_trace()
    found = []
    while trace is not None:
        found.append(type(trace).kind)
        trace = trace.parent
    return found


def under_jit() -> bool:
    """Whether operations are recorded, in a function that jit or a loop traces.

    >>> seen = []
    >>> out = pyjax.jit(lambda x: seen.append(unsafe_am_i_under_a_jit_DO_NOT_USE()) or x)(1.0)
    >>> seen, unsafe_am_i_under_a_jit_DO_NOT_USE()
    ([True], False)
    """
    return "staging" in _kinds()


def under_vmap() -> bool:
    """Whether operations are on values that vmap maps.

    >>> seen = []
    >>> f = lambda x: seen.append(unsafe_am_i_under_a_vmap_DO_NOT_USE()) or x
    >>> out = pyjax.vmap(f)(jnp.ones(2))
    >>> seen, unsafe_am_i_under_a_vmap_DO_NOT_USE()
    ([True], False)
    """
    return "batching" in _kinds()


def nonempty_axis_env() -> bool:
    """Whether a mapped axis with a name is bound here.

    >>> nonempty_axis_env_DO_NOT_USE()
    False
    """
    return bool(axis_names())


def axis_names_in_context() -> list[Any]:
    """Names of the mapped axes bound here.

    >>> seen = []
    >>> out = pyjax.vmap(
    ...     lambda x: seen.append(unsafe_get_axis_names_DO_NOT_USE()) or x, axis_name="i"
    ... )(jnp.ones(2))
    >>> seen
    [['i']]
    """
    return list(axis_names())


def trace_state_clean() -> bool:
    """Whether nothing is traced here and no axis is mapped: operations compute at once."""
    return current_trace() is eval_trace and not nonempty_axis_env()
