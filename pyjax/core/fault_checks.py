"""Which faults are looked for (NaN, infinity, division by zero, index out of bounds), as options
say, and what a mapped operation remembers so that a message can name the lane. Layer: core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pyjax._config import options
from pyjax._config.registry import ContextKey, trace_context
from pyjax.core.call_chains import current_frame
from pyjax.core.source_info import Frame


class FaultChecks(NamedTuple):
    """What is checked.

    Attributes:
      nan_results, inf_results: results of each program that runs (jax_debug_nans, jax_debug_infs).
      nan, divide, oob: each operation, in all programs (jax_error_checking_behavior_*).
    """

    nan_results: bool
    inf_results: bool
    nan: bool
    divide: bool
    oob: bool

    @property
    def of_results(self) -> bool:
        return self.nan_results or self.inf_results

    @property
    def of_operations(self) -> bool:
        return self.nan or self.divide or self.oob


# What was found last: the options seldom change, and every program that is made asks.
_latest: tuple[ContextKey | None, FaultChecks | None] = (None, None)


def fault_checks() -> FaultChecks | None:
    """The checks that are in force in this thread; None if there are none."""
    global _latest
    key = trace_context()
    known = _latest
    if known[0] is key:
        return known[1]
    checks = FaultChecks(
        options.debug_nans.value,
        options.debug_infs.value,
        options.error_checking_behavior_nan.value == "raise",
        options.error_checking_behavior_divide.value == "raise",
        options.error_checking_behavior_oob.value == "raise",
    )
    found = checks if any(checks) else None
    _latest = (key, found)
    return found


class Lane:
    """One vmap as an operation met it: its size, and which axis of operands and results it is.

    Operations of a batching rule have operands and results of the shapes that the rule was given
    and gave, nearly always; so the axis is remembered by shape.
    """

    __slots__ = ("_dims", "axis_name", "size")

    def __init__(self, size: int, axis_name: Any) -> None:
        self.size = size
        self.axis_name = axis_name
        self._dims: dict[tuple[int, ...], int | None] = {}

    def learn(self, shapes: Sequence[tuple[int, ...]], dims: Sequence[int | None]) -> None:
        for shape, dim in zip(shapes, dims):
            if self._dims.setdefault(shape, dim) != dim:
                self._dims[shape] = None  # two values of one shape differ: it does not tell

    def axis_of(self, shape: tuple[int, ...]) -> int | None:
        """The mapped axis of a value; None if that is not known."""
        if shape in self._dims:
            return self._dims[shape]
        candidates = [i for i, n in enumerate(shape) if n == self.size]
        return candidates[0] if len(candidates) == 1 else None

    def __repr__(self) -> str:
        name = "" if self.axis_name is None else f" {self.axis_name!r}"
        return f"vmap{name} over {self.size} lanes"


def in_lane(lane: Lane) -> Frame | None:
    """The current frame, for operations of a batching rule."""
    frame = current_frame()
    if frame is None:
        return None
    return frame.updated(lanes=(*frame.lanes, lane))


def in_rule(frame: Frame | None, rule: str) -> Frame | None:
    """A frame, for operations of a differentiation rule that was applied to an operation there."""
    if frame is None:
        return None
    return frame.updated(rules=(*frame.rules, rule))
