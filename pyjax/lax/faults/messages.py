"""What is said about a fault: the operation, the user's line and variable, iteration and lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core.errors import OutOfBoundsError, new_error
from pyjax.core.fault_checks import FaultChecks
from pyjax.core.jaxpr import JaxprEqn
from pyjax.core.source_info import Frame, summarize, user_frame
from pyjax.core.source_names import assigned_variable, expression
from pyjax.interpreters.rules import elementwise_primitives

Element = tuple[int, ...]


class Place:
    """A value in mapped code: which of its axes are lanes.

    Attributes:
      axes: of each vmap around, innermost first; None if the value is not mapped by it, or if it is
        not known which axis is.
    """

    def __init__(self, frame: Frame | None, shape: Element) -> None:
        self._lanes = frame.lanes if frame is not None else ()
        self.axes: list[int | None] = []
        left = list(range(len(shape)))  # axes that an inner vmap may have made
        for lane in reversed(self._lanes):
            axis = lane.axis_of(tuple(shape[i] for i in left))
            self.axes.insert(0, None if axis is None else left.pop(axis))

    def user_element(self, element: Element) -> Element:
        """The element of the value that the user's function sees."""
        return tuple(i for axis, i in enumerate(element) if axis not in self.axes)

    def user_axis(self, axis: int) -> int:
        return axis - sum(a is not None and a < axis for a in self.axes)

    def lanes(self, element: Element) -> list[str]:
        """Of each vmap around, the innermost first."""
        return [
            f"lane {element[axis]} of {lane!r}"
            for lane, axis in zip(self._lanes, self.axes)
            if axis is not None
        ]


def where_text(frame: Frame | None, inside: Sequence[str], lanes: Sequence[str]) -> str:
    """The user's line; under it what is assigned there, which rules of differentiation were at
    work, who called that line, and the iterations and lanes, innermost first."""
    lines = [summarize(frame)] if frame is not None else []
    if frame is not None:
        code = expression(frame)
        name = assigned_variable(frame)
        if code:
            lines.append(f"in `{code}`" + (f", for `{name}`" if name else ""))
        elif name:
            lines.append(f"for `{name}`")
    if frame is not None and any(rule.startswith("transpose") for rule in frame.rules):
        # The last rule made the operation; those before, what it was applied to.
        lines.append(f"in the backward pass of this line: {', from the '.join(frame.rules[::-1])}")
    elif frame is not None and frame.rules:
        lines.append(f"in the derivative of this line: {', from the '.join(frame.rules[::-1])}")
    lines.extend(f"called at {summarize(caller)}" for caller in _callers(frame))
    lines.extend(f"in {place}" for place in reversed(inside))
    lines.extend(f"in {lane}" for lane in lanes)
    return "\n".join(lines)


def _callers(frame: Frame | None) -> list[Frame]:
    """The places that led to a frame, as many as locations of programs have."""
    if frame is None or not options.include_full_tracebacks_in_locations.value:
        return []
    most = options.traceback_in_locations_limit.value
    return frame.chain()[1 : None if most < 0 else max(most, 1)]


_REASONS = {
    "nan": "error_checking_behavior_nan='raise' makes a NaN in the result of any operation an "
    "error",
    "division by zero": "error_checking_behavior_divide='raise' makes a zero divisor an error",
}


def fault_error(
    kind: str,
    eqn: JaxprEqn,
    operands: Sequence[Any],
    result: Any,
    frame: Frame | None,
    element: Element,
    inside: Sequence[str],
    checks: FaultChecks,
    came_with: str = "",
) -> FloatingPointError:
    """The error for an operation that made a NaN or infinity, or divided by zero.

    Args:
      came_with: the argument that holds it already, if the operation did not make it.
      operands, result: NumPy arrays; None for what has none.
      element: the first one at fault, of the result, or of the divisor.
    """
    shown = result if result is not None else operands[1]
    if frame is not None and frame.rules == (f"jvp of {eqn.primitive}",):
        frame = frame.updated(rules=())  # the operation itself
    place = Place(frame, shown.shape)
    aval = eqn.outvars[0].aval.str_short()
    if kind == "division by zero":
        what = f"division by zero encountered in {eqn.primitive}"
        fix = "guard the divisor: jnp.where(y == 0, 1, y) where the quotient is not used"
        why, allow = _REASONS[kind], ""
    else:
        what = f"invalid value ({kind}) encountered in {eqn.primitive}"
        if kind == "nan" and checks.nan:
            why = _REASONS[kind]
            allow = "pyjax.config.update('jax_error_checking_behavior_nan', 'ignore') allows NaNs"
        else:
            option = "debug_nans" if kind == "nan" else "debug_infs"
            why = f"the option jax_{option} checks the results of every program"
            allow = f"pyjax.{option}(False) allows {'NaNs' if kind == 'nan' else 'infinities'}"
        fix = f"look at the operands of this operation; {allow}"
    if came_with:
        why = f"it came in with {came_with}; {why}"
        fix = f"look at what the function is called with; {allow}"
    what += f", result {aval}{_values(eqn, operands, result, element, place)}"
    where = where_text(frame, inside, place.lanes(element))
    return new_error(FloatingPointError, what, why, fix, where=where)


def _values(
    eqn: JaxprEqn, operands: Sequence[Any], result: Any, element: Element, place: Place
) -> str:
    """The element at fault with the operands' elements that it is made of."""
    at = place.user_element(element)
    index = f"element {list(at)}: " if at else ""
    name = str(eqn.primitive)
    if eqn.primitive in elementwise_primitives:
        parts = [_number(x, element) for x in operands]
        if None not in parts:
            made = "" if result is None else f" = {_number(result, element)}"
            return f"; {index}{name}({', '.join(map(str, parts))}){made}"
    if result is None:
        return f"; {index}0"
    return f"; {index}{_number(result, element)}"


def _number(x: Any, element: Element) -> str | None:
    if x is None or x.shape not in ((), *([x.shape] if len(x.shape) == len(element) else [])):
        return None
    # Operands of size 1 are spread.
    at = [0 if size == 1 else k for k, size in zip(element, x.shape)]
    return str(x[tuple(at)])


def index_error(
    eqn: JaxprEqn,
    shape: Element,
    axis: int,
    index: int,
    window: int,
    element: Element,
    indices_shape: Element,
    frame: Frame | None,
    inside: Sequence[str],
) -> OutOfBoundsError:
    """The error for an index out of bounds.

    Args:
      shape, axis: of the indexed array, and which of its axes.
      window: how many elements are taken from the index on.
      element: which of the index vectors, in an array of `indices_shape`.
    """
    size = shape[axis]
    indexed = Place(frame, shape)
    place = Place(frame, indices_shape)
    what = (
        f"index {index} is out of bounds for axis {indexed.user_axis(axis)} with size {size}, in "
        f"{eqn.primitive} of {eqn.invars[0].aval.str_short()}"
    )
    at = place.user_element(element)
    if at:
        mapped = [a for a in place.axes if a is not None]
        what += f" (index {list(at)} of {np.delete(indices_shape, mapped).tolist()})"
    if window > 1:
        what += f"; {window} elements are taken from there on"
    where = where_text(frame, inside, place.lanes(element))
    return _out_of_bounds(what, index, size, window, where)


def static_index_error(index: int, axis: int, size: int) -> OutOfBoundsError:
    """The error for an index in the user's code; negative ones have the size added."""
    what = f"index {index} is out of bounds for axis {axis} with size {size}"
    return _out_of_bounds(what, index, size, 1, user_frame())


def _out_of_bounds(what: str, index: int, size: int, window: int, where: str) -> OutOfBoundsError:
    if index < 0:
        what += f"; negative indices count from the end, so {index - size} was asked for"
    return new_error(
        OutOfBoundsError,
        what,
        "error_checking_behavior_oob='raise' makes an index out of bounds an error; else it is "
        "clamped, filled or dropped, as the mode says",
        f"use an index from 0 to {size - window}, or jnp.clip it; "
        "pyjax.config.update('jax_error_checking_behavior_oob', 'ignore') allows others",
        where=where,
    )
