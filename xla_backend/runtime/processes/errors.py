"""What goes wrong between processes."""

from __future__ import annotations

from xla_backend.hlo.errors import RuntimeFailure

# What processes that do different things are told.
ALIKE = "all processes must run the same programs in the same order, on arrays of the same shapes"


class ProcessFailure(RuntimeFailure):
    """Another process has ended, failed, or does something else than this one."""


class ProcessTimeout(ProcessFailure, TimeoutError):
    """Others did not come in time."""
