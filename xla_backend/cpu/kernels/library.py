"""kernel_library(): symbol -> address of every run-time kernel, compiled group by group on
demand.
"""

from __future__ import annotations

import threading

from xla_backend.cpu.kernels import conv, cumulative, gemm, sort
from xla_backend.cpu.kernels.registry import KernelLibrary

_SUBJECTS = (gemm, conv, sort, cumulative)
_libraries: dict[bool, KernelLibrary] = {}
_LOCK = threading.Lock()


def kernel_library(serial: bool = False) -> KernelLibrary:
    """The kernels of this process: a mapping from symbol to address. `serial`: those that keep to
    the thread that calls them."""
    found = _libraries.get(serial)
    if found is None:
        with _LOCK:
            if not _libraries:
                for subject in _SUBJECTS:
                    subject.register()
            if serial not in _libraries:
                _libraries[serial] = KernelLibrary(serial)
            found = _libraries[serial]
    return found
