"""What goes wrong between processes."""

from __future__ import annotations

from xla_backend.hlo.errors import RuntimeFailure


class ProcessFailure(RuntimeFailure):
    """Another process has ended, failed, or does something else than this one."""


class ProcessTimeout(ProcessFailure, TimeoutError):
    """Others did not come in time."""
