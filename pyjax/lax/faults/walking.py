"""What walks through programs, equation by equation, need beside the program."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from pyjax._config import options
from pyjax.core.call_chains import under_caller
from pyjax.core.jaxpr import JaxprEqn
from pyjax.core.source_info import Frame
from pyjax.core.trace import eval_trace, state


def without_checks(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)`, run plainly, while nothing is checked."""
    plain = (
        options.debug_nans,
        options.debug_infs,
        options.debug_key_reuse,
        options.no_tracing,
        options.disable_jit,
    )
    with ExitStack() as stack:
        for option in plain:
            stack.enter_context(option(False))
        stack.enter_context(options.error_checking_behavior_nan("ignore"))
        stack.enter_context(options.error_checking_behavior_divide("ignore"))
        stack.enter_context(options.error_checking_behavior_oob("ignore"))
        outer = state.traces
        state.traces = [eval_trace]
        try:
            return function(*arguments)
        finally:
            state.traces = outer


def place_of(eqn: JaxprEqn, at: Frame | None, outer: Frame | None) -> Frame | None:
    """Where an equation comes from: its own place, unless `at` is given, the user's line for
    equations that were traced for somebody else's call; `outer` if nothing is known. Rules and
    lanes are the equation's own in any case."""
    own = eqn.source
    if own is not None and own.outside:
        at = at or outer
    if own is None or at is None:
        return at or under_caller(own, outer, {})
    return at.updated(rules=(*at.rules, *own.rules), lanes=(*own.lanes, *at.lanes))
