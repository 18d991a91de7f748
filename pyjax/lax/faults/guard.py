"""What stands between a program and its caller while faults are looked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from pyjax.core.call_chains import current_frame
from pyjax.core.debug_info import DebugInfo
from pyjax.core.errors import new_error
from pyjax.core.fault_checks import FaultChecks, fault_checks
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.traceback_filter import filter_exception
from pyjax.lax.faults.call_log import CallLog, CannotRepeat, replaying, writing
from pyjax.lax.faults.flags import flagged_program
from pyjax.lax.faults.search import Search
from pyjax.lax.faults.walking import without_checks
from pyjax.runtime.array import DeviceArray
from pyjax.runtime.dispatch import Call, Guarded, add_guard

Arrays = Sequence[DeviceArray]


def _guard(closed: ClosedJaxpr, donated: Sequence[bool]) -> Guarded | None:
    """The program that notices faults. Calls give the results without the flag, or an error.
    Donated arguments are deleted after the call, when nobody needs them any more."""
    checks = fault_checks()
    if checks is None:
        return None
    flagged = without_checks(flagged_program, closed, checks)
    gone = [i for i, give in enumerate(donated) if give]
    # Equations of pyjax's own functions were traced for whoever called them first.
    of_library = closed.jaxpr.debug_info.is_library()

    def guarded(call: Call) -> Call:
        def checked(arguments: Arrays) -> list[DeviceArray]:
            log = CallLog()
            with writing(log):
                *results, flag = call(arguments)
            if flag.stored_array:
                at = current_frame()
                try:
                    without_checks(_find, closed, checks, arguments, results, log, of_library, at)
                except (FloatingPointError, IndexError) as error:
                    raise filter_exception(error) from None
            for i in gone:
                arguments[i].delete()
            return results

        return checked

    return Guarded(flagged, (), guarded)


def check_results(
    closed: ClosedJaxpr | None, debug: DebugInfo, arguments: Arrays, results: Arrays
) -> None:
    """Check what a program that was compiled ahead of time gave, as options say now.

    Args:
      closed: the program; None if another process compiled it, so that it is not known here.
    Raises:
      FloatingPointError: a result is bad; it names the operation, unless arguments were donated or
        the program is not known.
    """
    checks = fault_checks()
    if checks is None or not checks.of_results:
        return
    checks = checks._replace(nan=False, divide=False, oob=False)
    if next(_bad_results(checks, results), None) is None:
        return
    if closed is None:
        _report(debug, checks, (), results, "the program was compiled by another process")
        return
    if any(a.is_deleted() for a in arguments):
        _report(debug, checks, (), results)
    without_checks(_find, closed, checks, arguments, results, CallLog(), False, None)


def _find(
    closed: ClosedJaxpr,
    checks: FaultChecks,
    arguments: Arrays,
    results: Arrays,
    log: CallLog,
    of_library: bool,
    at: Any,
) -> None:
    """Raise the error for what a program has noticed.

    It returns if that was nothing: flags of operations may be set without a fault.

    Args:
      log: what callbacks have returned.
    """
    with replaying(log), suppress(CannotRepeat):
        Search(checks, log).run(closed, arguments, at if of_library else None)
    _report(closed.jaxpr.debug_info, checks, arguments, results)


def _bad_results(checks: FaultChecks, results: Arrays) -> Iterator[tuple[int, str]]:
    """Positions of bad results, with what they hold."""
    for i, result in enumerate(results):
        if checks.nan_results and _has(np.isnan, result):
            yield i, "nan"
        if checks.inf_results and _has(np.isinf, result):
            yield i, "inf"


_DONATED = "arguments were donated to the program, so that it cannot run again"


def _report(
    debug: DebugInfo,
    checks: FaultChecks,
    arguments: Arrays,
    results: Arrays,
    unknown: str = _DONATED,
) -> None:
    """Raise for a bad result of which the search has not found the origin; `unknown` says why it
    had no arguments."""
    for i, kind in _bad_results(checks, results):
        raise _unexplained(debug, kind, i, results[i], arguments, unknown)


def _has(test: Any, array: DeviceArray) -> bool:
    if not isinstance(array.dtype, np.dtype) or array.dtype.kind not in "fcV":
        return False
    return bool(test(array.stored_array).any())


def _unexplained(
    debug: DebugInfo,
    kind: str,
    position: int,
    result: DeviceArray,
    arguments: Arrays,
    unknown: str,
) -> FloatingPointError:
    """The error for a bad result that no operation of the program has made."""
    test = np.isnan if kind == "nan" else np.isinf
    names = debug.names()
    bad = [i for i, a in enumerate(arguments) if _has(test, a)]
    shown = [repr(names[i]) if len(names) == len(arguments) else str(i) for i in bad]
    option = "debug_nans" if kind == "nan" else "debug_infs"
    why = f"the option jax_{option} checks the results of every program; "
    if bad:
        why += f"no operation made it: it came in with argument {', '.join(shown)}"
    elif arguments:
        why += "the operations, run one by one, do not make it: the compiled program rounds in "
        why += "another way"
    else:
        why += unknown
    return new_error(
        FloatingPointError,
        f"invalid value ({kind}) encountered in result {position}, {result.aval.str_short()}, of "
        f"{debug.function}",
        why,
        f"look at what the function is called with; pyjax.{option}(False) allows it",
    )


add_guard(_guard)
