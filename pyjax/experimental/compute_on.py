"""Where operations are computed, beside the device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyjax.core.errors import fail, new_error
from pyjax.runtime.devices import default_device


@contextmanager
def compute_on(compute_type: str) -> Iterator[None]:
    """Context manager: operations inside are computed by the host ("device_host") or by the device
    ("device"). On CPUs these are the same.

    Raises:
      TypeError: no string.   ValueError: there is no such type.
      NotImplementedError: "tpu_sparsecore" and "gpu_stream:N"; "device_host" while the default
        device is none of the host.

    >>> import pyjax
    >>> with compute_on("device_host"):
    ...     float(pyjax.numpy.sin(0.0))
    0.0
    """
    if not isinstance(compute_type, str):
        raise new_error(TypeError, "`compute_on`'s compute_type argument must be a string.")
    known = compute_type in ("device_host", "device", "tpu_sparsecore")
    if not known and not compute_type.startswith("gpu_stream:"):
        raise new_error(
            ValueError,
            f"Invalid compute type {compute_type}. Current supported values are `device_host`, "
            "`device`, `tpu_sparsecore`, and `gpu_stream:#`.",
        )
    here = compute_type == "device"
    if not here and not (compute_type == "device_host" and default_device().platform == "cpu"):
        fail(
            NotImplementedError,
            f"compute_on({compute_type!r}) on {default_device()}.",
            "a program runs on one device, in one queue",
            "Leave it out, or run that part on the host: with default_device('cpu'): ...",
        )
    yield
