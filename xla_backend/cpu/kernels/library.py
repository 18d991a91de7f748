"""kernel_library(): symbol -> address of every run-time kernel, compiled group by group on
demand.
"""

from __future__ import annotations

import threading

from xla_backend.cpu.kernels import conv, cumulative, gemm, sort
from xla_backend.cpu.kernels.registry import KernelLibrary

_SUBJECTS = (gemm, conv, sort, cumulative)
_library: KernelLibrary | None = None
_LOCK = threading.Lock()


def kernel_library() -> KernelLibrary:
    """The kernels of this process: a mapping from symbol to address."""
    global _library
    if _library is None:
        with _LOCK:
            if _library is None:
                for subject in _SUBJECTS:
                    subject.register()
                _library = KernelLibrary()
    return _library
