"""Transfer guards: who may move arrays between the host and devices, and between devices.

A transfer is explicit if the program asks for it (`device_put`, `device_get`), else implicit (a
NumPy operand, `float(x)`). Memory that both sides reach is not transferred: on CPUs reading an
array from the host, and a program on one device that takes an array of another, are no transfers.
Putting an array on another device is one on CPUs too, because what was asked for is a copy there.

Values that belong to a program (constants, static indices) are not guarded.
"""

from __future__ import annotations

import enum
import logging
from typing import Any

from pyjax._config import options
from pyjax._config.registry import Option, deviating, in_force
from pyjax.core.errors import JaxRuntimeError, fail
from pyjax.core.source_info import user_frame

logger = logging.getLogger(__name__)


class Transfer(enum.Enum):
    """Why a value moves."""

    IMPLICIT = "implicit"  # because an operation needs it elsewhere
    EXPLICIT = "explicit"  # because the user asked for it
    CONSTANT = "constant"  # because it belongs to a program: never guarded


class Direction(enum.Enum):
    """From where to where; the value is the words of messages."""

    TO_DEVICE = "host-to-device"
    BETWEEN_DEVICES = "device-to-device"
    TO_HOST = "device-to-host"


_OPTIONS: dict[Direction, Option] = {
    Direction.TO_DEVICE: options.transfer_guard_host_to_device,
    Direction.BETWEEN_DEVICES: options.transfer_guard_device_to_device,
    Direction.TO_HOST: options.transfer_guard_device_to_host,
}
# What to write instead of an implicit transfer.
_EXPLICITLY = {
    Direction.TO_DEVICE: "pyjax.device_put(x)",
    Direction.BETWEEN_DEVICES: "pyjax.device_put(x, device)",
    Direction.TO_HOST: "pyjax.device_get(x)",
}

# Not empty while a guard is set somewhere: else a transfer costs a look at this table.
armed = deviating((options.transfer_guard, *_OPTIONS.values()), usual=(None, "allow"))


def check_transfer(direction: Direction, transfer: Transfer, what: str, target: object) -> None:
    """Do what the guard of a direction says. Callers look at `armed` first.

    Args:
      what: the array, for messages.   target: where it goes.
    Raises:
      JaxRuntimeError: the guard disallows this transfer.
    """
    if transfer is Transfer.CONSTANT:
        return
    level = in_force(_OPTIONS[direction], options.transfer_guard)
    if level in (None, "allow"):
        return
    if transfer is Transfer.EXPLICIT and not level.endswith("_explicit"):
        return
    if level.startswith("log"):
        text = "%s transfer of %s to %s (%s)\n  %s"
        logger.warning(text, direction.value, what, target, transfer.value, user_frame())
        return
    explicitly = _EXPLICITLY[direction]
    fail(
        JaxRuntimeError,
        f"Disallowed {direction.value} transfer: {what} to {target}",
        f"the transfer is {transfer.value}, and the guard of this direction is {level!r} "
        f"({_OPTIONS[direction].name}, or jax_transfer_guard for all of them)",
        f"move it explicitly, {explicitly}, or allow it in a block: "
        "with pyjax.transfer_guard('allow'): ..."
        if transfer is Transfer.IMPLICIT
        else "allow it in a block: with pyjax.transfer_guard('allow'): ...",
    )


def description(value: Any) -> str:
    """What messages call a value of the host."""
    shape, dtype = getattr(value, "shape", ()), getattr(value, "dtype", type(value).__name__)
    return f"{dtype}[{','.join(map(str, shape))}]"
