"""Programs that notice faults: the same program with one more result, a bool that is true if
something happened that the options make an error.

The flag is a hint that costs little: it is made of comparisons that are fused with what they look
at, and it may be set where no fault is (in a lane of a loop that has stopped already). What
happened, and where, is found by running the program again (`faults.search`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core.effects import no_effects
from pyjax.core.fault_checks import FaultChecks
from pyjax.core.jaxpr import ClosedJaxpr, JaxprEqn, bind_eqn
from pyjax.core.source_info import Frame
from pyjax.core.structural import broadcast
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.interpreters.rules import called_programs
from pyjax.lax.arithmetic import imag, real
from pyjax.lax.bitwise import bitwise_and, bitwise_not, bitwise_or
from pyjax.lax.common import BOOL_DTYPE, is_complex
from pyjax.lax.compare import eq
from pyjax.lax.elementwise import is_finite
from pyjax.lax.faults.call_log import bind_remembered, calls_python, holds_calls
from pyjax.lax.faults.noticing import AbstractNoticer, Noted
from pyjax.lax.faults.operands import (
    any_of,
    index_components,
    nans,
    out_of_bounds,
    promised_indices,
    zero_divisors,
)

_UNSET = np.zeros((), BOOL_DTYPE)


def flagged_program(closed: ClosedJaxpr, checks: FaultChecks, quiet: bool = False) -> ClosedJaxpr:
    """The program with the flag as its last result.

    Args:
      quiet: leave out what only prints (`debug.print`).
    """
    flags = _Flags(checks, quiet)

    def fun(*args: Any) -> list[Any]:
        if checks.of_operations or quiet or holds_calls(closed.jaxpr):
            outs, flag = flags.evaluate(closed, args)
        else:
            outs, flag = closed.eval(*args), None
        flag = flags.both(flag, results_flag(outs, checks))
        return [*outs, _UNSET if flag is None else flag]

    return trace_to_jaxpr(fun, closed.in_avals, debug=closed.jaxpr.debug_info)[0]


class _Flags(AbstractNoticer):
    """The note is a bool; what is called becomes part of the program."""

    checks: FaultChecks
    quiet: bool

    def operation(self, eqn: JaxprEqn, values: Sequence[Any]) -> Noted:
        if self.quiet and only_prints(eqn):
            return [], None
        flag = None
        if self.checks.divide:
            flag = self._with(flag, zero_divisors(eqn, values))
        found = promised_indices(eqn) if self.checks.oob else None
        if found is not None:
            for index in index_components(found, values):
                flag = self._with(flag, out_of_bounds(index))
        outs = (bind_remembered if calls_python(eqn) else bind_eqn)(eqn, values)
        if self.checks.nan:
            for x in outs:
                flag = self._with(flag, nans(x))
        return outs, flag

    def call(self, eqn: JaxprEqn, values: Sequence[Any], at: Frame | None) -> Noted:
        return self.evaluate(eqn.params[called_programs[eqn.primitive]], values)

    def both(self, first: Any, second: Any) -> Any:
        if first is None or second is None:
            return second if first is None else first
        return bitwise_or(first, second)

    def in_lanes(self, note: Any, lanes: tuple[int, ...]) -> Any:
        return broadcast(note, lanes)

    def of_lanes(self, note: Any) -> Any:
        return any_of(note)

    def of_positions(self, note: Any) -> Any:
        return any_of(note)

    def _with(self, flag: Any, mask: Any) -> Any:
        return flag if mask is None else self.both(flag, any_of(mask))


def results_flag(outs: Sequence[Any], checks: FaultChecks) -> Any:
    """Whether one of these values holds what results must not; None if none can."""
    if not checks.of_results:
        return None
    flag = None
    for x in outs:
        bad = nans(x)
        if bad is None:
            continue
        if checks.inf_results:
            bad = bitwise_or(bad, _is_inf(x)) if checks.nan_results else _is_inf(x)
        flag = any_of(bad) if flag is None else bitwise_or(flag, any_of(bad))
    return flag


def _is_inf(x: Any) -> Any:
    if is_complex(x.dtype):
        return bitwise_or(_is_inf(real(x)), _is_inf(imag(x)))
    return bitwise_and(bitwise_not(is_finite(x)), eq(x, x))


def only_prints(eqn: JaxprEqn) -> bool:
    """Whether an equation is there for its effects alone."""
    return eqn.effects is not no_effects and bool(eqn.effects) and not eqn.outvars
