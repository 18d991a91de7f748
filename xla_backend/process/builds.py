"""What kind of Python this is."""

from __future__ import annotations

import sys
from importlib import import_module


def is_free_threaded() -> bool:
    """Whether this build of Python has no global lock (it may still be given one)."""
    flags = getattr(sys, "abiflags", None)
    if flags is not None:
        return "t" in flags
    # Windows has none before Python 3.14. What `sysconfig` loads elsewhere takes longer.
    return bool(import_module("sysconfig").get_config_var("Py_GIL_DISABLED"))
