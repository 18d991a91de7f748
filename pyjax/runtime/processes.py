"""What the processes of a program tell each other, beside the arrays of their programs.

Layer: runtime.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import wraps
from typing import Any

import numpy as np

from pyjax.core.errors import JaxRuntimeError, fail, new_error
from xla_backend.debug_options import current_debug_options
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.runtime.device_group import DeviceGroup
from xla_backend.runtime.participant_threads import run_apart
from xla_backend.runtime.processes.errors import ProcessFailure
from xla_backend.runtime.processes.joined import Joined, joined


class DistributedClient:
    """Keys with values, and barriers, of all processes of a program (`pyjax.distributed.client()`).

    Methods, as those of JAX's client: key_value_set, key_value_try_get, blocking_key_value_get,
    key_value_dir_get (all of these with `_bytes`, too), key_value_delete, key_value_increment,
    wait_at_barrier, get_live_nodes. What fails or takes too long is a JaxRuntimeError.
    """

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name not in dir(self):
            raise AttributeError(f"the client of a program has no {name!r}: {', '.join(dir(self))}")
        method = getattr(self._store, name)

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return run_apart(lambda: method(*args, **kwargs))
            except RuntimeFailure as error:
                raise new_error(JaxRuntimeError, str(error)) from None

        return call

    def __dir__(self) -> list[str]:
        return sorted(name for name in vars(type(self._store)) if not name.startswith("_"))


def gather(label: Any, arrays: Sequence[np.ndarray], kind: str, what: str = "") -> list[Any]:
    """What each process gives, a `Part`, in their order; all of them call this.

    Args:
      label: of numbers, strings and tuples.   kind: the function that gathers.
      what: this process waits in, for messages, if that says more.
    """
    shared = joined()
    assert shared is not None
    parts = [np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in arrays]
    return _gathered(shared, label, parts, None, kind, what)


def _gathered(
    shared: Joined,
    label: Any,
    arrays: Sequence[np.ndarray],
    members: Sequence[int] | None,
    kind: str,
    what: str = "",
) -> list[Any]:
    seconds = float(current_debug_options().xla_cpu_collective_timeout_seconds)
    try:
        return shared.exchanges.gather(label, arrays, members, kind, what, seconds)
    except ProcessFailure as error:
        raise new_error(JaxRuntimeError, str(error)) from None


def _digest(array: np.ndarray) -> bytes:
    """Equal for arrays with the same bytes; others have another one."""
    return hashlib.blake2b(array.tobytes(), digest_size=16).digest()


def check_equal_in_processes(value: Any, group: DeviceGroup) -> None:
    """All processes that have devices of a group give the same value for them.

    Raises:
      AssertionError: one gives another.
    """
    shared = joined()
    if shared is None or group.here == group.devices or not group.here:
        return
    array = np.asarray(value)
    label = (str(array.dtype), array.shape, _digest(array))
    members = sorted({device.process_index for device in group.devices})
    parts = _gathered(shared, label, (), members, f"device_put over {group}")
    for member, part in zip(members, parts):
        if part.label != label:
            fail(
                AssertionError,
                f"{type(value).__name__} passed to device_put is not the same on each process: "
                f"process {member} has {part.label[0]}{list(part.label[1])}, and this one "
                f"{array.dtype}{list(array.shape)}"
                + (" with other elements" if part.label[:2] == label[:2] else ""),
                f"each device of {group} gets its part from the value of its own process",
                "give all processes the same value, or make_array_from_process_local_data the part "
                "of each",
            )
