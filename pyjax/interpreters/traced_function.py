"""Tracing a function of pytrees: the one way to do it, and what is remembered of it.

A trace is remembered with its function, weakly, for kinds of arguments: `jit(f)` that is made
twice traces once, and so does a loop that calls `lax.scan(f, ...)`. Functions are compared by
identity; a function that is made anew is traced anew, and so is one that another kind of
transformation takes: it may see other values by then. Layer: interpreters.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax._config.registry import trace_context
from pyjax.core import axis_env, compile_log, source_info
from pyjax.core.debug_info import DebugInfo
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.refs import AbstractRef
from pyjax.core.trace import Tracer, eval_trace, state
from pyjax.core.tree_util import PyTreeDef
from pyjax.core.weak_tables import PerFunction
from pyjax.interpreters.cache_misses import Build, Call, note_traced, why_traced
from pyjax.interpreters.flat_function import FlatFunction, Static
from pyjax.interpreters.lift_constants import constants_as_inputs
from pyjax.interpreters.ref_checks import check_aliases, check_none_returned
from pyjax.interpreters.staging import is_staging, trace_to_jaxpr
from pyjax.interpreters.trace_cache import TRACES, program_key, trace_bytes
from xla_backend.process.bounded_cache import BoundedCache

logger = logging.getLogger(__name__)


class TracedFunction:
    """A function traced for one kind of arguments.

    Attributes:
      closed: takes the constants, then the flat arguments; holds no constants.
      with_constants: takes the flat arguments and holds the constants.
      consts: the values that the function closes over; tracers of enclosing transformations may be
        among them.
      in_tree: structure of (args, kwargs), static arguments left out.   out_tree: of the result.
      static: the static arguments.
      why: the reason why it was traced; empty if nobody wanted to know.
      builds: what programs were made of it for.
    """

    __slots__ = (
        "_arrays",
        "builds",
        "closed",
        "consts",
        "in_tree",
        "out_tree",
        "static",
        "why",
        "with_constants",
    )

    def __init__(
        self,
        traced: ClosedJaxpr,
        in_tree: PyTreeDef,
        out_tree: PyTreeDef,
        static: Static,
        why: str = "",
    ) -> None:
        self.closed = constants_as_inputs(traced) if traced.consts else traced
        self.with_constants = traced
        self.consts = traced.consts
        self._arrays: list[Any] | None = None
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.static = static
        self.why = why
        self.builds: dict[Build, None] = {}

    @property
    def out_avals(self) -> list[Any]:
        return self.closed.out_avals

    def check_aliases(self, arguments: Sequence[Any]) -> None:
        """No argument may be a mutable reference that is another one, or closed over.

        Raises:
          ValueError: naming them.
        """
        if any(type(a) is AbstractRef for a in self.with_constants.in_avals):
            check_aliases(self.with_constants.jaxpr.debug_info, arguments, self.consts)

    def operands(self, as_array: Callable[[Any], Any]) -> list[Any]:
        """The constants as the first operands of `closed`.

        A NumPy array would be copied whenever `closed` runs: it is made an array once, by
        `as_array`. A program that is being recorded takes it as it is, so that it is one constant
        however many functions close over it.
        """
        if not self.consts or is_staging(state.traces[0]):
            return self.consts
        if self._arrays is None:
            self._arrays = [as_array(c) if isinstance(c, np.ndarray) else c for c in self.consts]
        return self._arrays


_Traces = BoundedCache[Any, TracedFunction]
# Transformations that take another one's traces.
_SHARED = {"make_jaxpr": "jit", "eval_shape": "jit"}
# Traces hold their functions weakly: DebugInfo does.
_traces: PerFunction[_Traces] = PerFunction(
    lambda: BoundedCache(TRACES, lambda traced: trace_bytes(traced.closed))
)


def forget_traces(fun: Callable[..., Any]) -> None:
    """Drop what is remembered of a function."""
    _traces.of(fun).clear()


def trace_function(
    traced_for: str,
    fun: Callable[..., Any],
    in_tree: PyTreeDef,
    in_avals: Sequence[Any],
    static: Static = (),
    static_key: Hashable | None = (),
    afresh: bool = False,
) -> TracedFunction:
    """Trace `fun(*args, **kwargs)`, or find the trace that there is.

    Args:
      traced_for: the transformation, for messages.
      in_tree: the structure of (args, kwargs) without static arguments.
      in_avals: of the flat arguments.
      static: arguments that are part of the program.
      static_key: tells them apart by type and value. None: nothing is remembered, since they have
        no key, or the function is to be traced at each call.
      afresh: trace at each call; a trace that does the same as a remembered one gives way to it, so
        that what was compiled of that is found.
    Raises:
      what the function raises, and what `trace_to_jaxpr` does.
    """
    kind = _SHARED.get(traced_for, traced_for)
    key: tuple[Any, ...] = (
        in_tree.exact_key(),
        static_key,
        tuple(in_avals),
        kind,
        trace_context(),
        axis_env.key(),
    )
    if static_key is not None and not afresh:
        table = _traces.of(fun)
        found = table.hot.get(key) or table.find(key)
        if found is not None:
            return found
    why = ""
    if compile_log.is_watched():
        why = _why_traced(fun, key, in_tree, static, is_kept=static_key is not None and not afresh)
    note_traced(fun)
    flat = FlatFunction(fun, in_tree, kwargs=True, static=static)
    skipped = [where for where, _ in static if isinstance(where, int)]
    debug = DebugInfo(traced_for, fun, in_tree, skipped).outliving()
    start = time.perf_counter()
    # Of functions that are traced within others, listeners hear nothing.
    outermost = kind == "jit" and state.traces[0] is eval_trace
    name = source_info.function_name(fun)
    with compile_log.timed(compile_log.TRACING, name) if outermost else nullcontext():
        closed, _ = trace_to_jaxpr(flat, in_avals, debug=debug)
    if options.log_compiles.here()[0].value:
        seconds = time.perf_counter() - start
        logger.warning("Finished tracing %s for %s in %.4f s", name, traced_for, seconds)
    assert flat.out_tree is not None
    check_none_returned(debug, closed, flat.out_tree)
    traced = TracedFunction(closed, in_tree, flat.out_tree, static, why)
    # A tracer belongs to one call of an enclosing transformation; other constants stay.
    if static_key is None or any(isinstance(c, Tracer) for c in traced.consts):
        return traced
    if afresh:
        try:
            key = (*key, program_key(closed))
        except TypeError:
            return traced
    # Two threads may have traced it; both go on with what was there first. (No thread waits for
    # another one here: the user's function may wait for a lock that the other one holds.)
    return _traces.of(fun).put(key, traced)


def _why_traced(
    fun: Callable[..., Any],
    key: tuple[Any, ...],
    in_tree: PyTreeDef,
    static: Static,
    is_kept: bool,
) -> str:
    """Why a trace is made; logged, if the user wants that of those that are kept."""
    _, _, avals, kind, context, axes, *_ = key
    earlier = [
        Call(old.in_tree, old.static, old_avals, old_context, old_axes)
        for (_, _, old_avals, old_kind, old_context, old_axes, *_), old in _traces.of(fun).items()
        if old_kind == kind
    ]
    why = why_traced(fun, Call(in_tree, static, avals, context, axes), earlier)
    if is_kept and options.explain_cache_misses.here()[0].value:
        what = source_info.function_location(fun)
        logger.warning("TRACING CACHE MISS at %s for %s: %s", compile_log.caller(), what, why)
    return why
