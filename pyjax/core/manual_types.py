"""What types say of values along the manual axes of a mesh, inside of shard_map. Along an axis a
value is one of these:

- `invarying`: the same on all devices;
- `varying`: it may differ from device to device;
- `unreduced`: one of the summands of a sum that is still to be made;
- `reduced`: the same on all devices, and its cotangent is unreduced.

Layer: core.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyjax.core.avals import ShapedArray, Split
from pyjax.core.axis_env import in_order, outside_types
from pyjax.core.errors import fail


def state_along(aval: Any, axis: Any) -> str:
    """What a value is along an axis."""
    if axis in aval.vma:
        return "varying"
    split = aval.split
    if split is None:
        return "invarying"
    return (
        "unreduced"
        if axis in split.unreduced
        else "reduced"
        if axis in split.reduced
        else "invarying"
    )


def states_along(aval: Any, axes: Iterable[Any]) -> set[str]:
    """What a value is along these axes, but for those of which types say nothing."""
    axes = tuple(axes)
    silent = outside_types(axes)
    return {state_along(aval, axis) for axis in axes if axis not in silent}


def one_state(what: str, aval: Any, axes: tuple[Any, ...]) -> str:
    """What a value is along all of these axes.

    Raises:
      ValueError: it is not the same along all.
    """
    states = states_along(aval, axes)
    if len(states) > 1:
        each = ", ".join(f"{axis!r}: {state_along(aval, axis)}" for axis in axes)
        fail(
            ValueError,
            f"{what} can only accept axis_name which corresponds to one of varying, unreduced, "
            f"reduced or invarying state of the input. Got input type: {aval.str_short()}, "
            f"axes: {axes}.",
            f"along these axes it is {each}",
            f"call {what} once for the axes of each kind.",
        )
    return states.pop()


def moved(aval: Any, axes: Iterable[Any], to: str, mesh: Any) -> Any:
    """The type of a value that along these axes is something else.

    Args:
      to: "invarying", "varying", "unreduced" or "reduced".
      mesh: that in context, whose axes they are.
    """
    axes = frozenset(axes)
    sets = {"varying": aval.vma - axes}
    split = aval.split or Split(mesh, (None,) * aval.ndim)
    sets["unreduced"], sets["reduced"] = split.unreduced - axes, split.reduced - axes
    if to != "invarying":
        sets[to] |= axes
    vma = sets.pop("varying")
    return aval.update(vma=vma).with_split(split._replace(**sets))


def without_sums(aval: Any) -> Any:
    """The type of a value that along manual axes is no sum still to be made, nor reduced."""
    split = aval.split
    if split is None or not any(split.manual_sums):
        return aval
    unreduced, reduced = split.manual_sums
    return aval.with_split(
        split._replace(unreduced=split.unreduced - unreduced, reduced=split.reduced - reduced)
    )


def check_no_sum(what: str, aval: Any, axes: Iterable[Any]) -> None:
    """Refuse a value that is unreduced or reduced along one of these axes.

    Raises:
      ValueError: it is.
    """
    if type(aval) is ShapedArray or aval.split is None:
        return
    axes = tuple(axes)
    for state in ("unreduced", "reduced"):
        along = in_order(a for a in axes if state_along(aval, a) == state)
        if not along:
            continue
        fail(
            ValueError,
            f"{what} cannot accept args which are {state}. Got {aval.str_short(True)} and "
            f"axes={set(axes)}",
            "it is one of the summands of a sum that is still to be made"
            if state == "unreduced"
            else "its cotangent is a sum that is still to be made, which that of the result "
            "would not be",
            f"make the sum before: lax.psum(x, {along})."
            if state == "unreduced"
            else f"cast it before: lax.pcast(x, {along}, to='varying').",
        )
