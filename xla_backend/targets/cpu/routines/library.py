"""kernel_library(): symbol -> address of every run-time kernel, compiled group by group on
demand.
"""

from __future__ import annotations

from xla_backend.bounded_cache import once
from xla_backend.targets.cpu.routines import conv, cumulative, gemm, sort
from xla_backend.targets.cpu.routines.registry import KernelLibrary

_SUBJECTS = (gemm, conv, sort, cumulative)


@once
def _register() -> None:
    for subject in _SUBJECTS:
        subject.register()


@once
def _library(serial: bool) -> KernelLibrary:
    _register()
    return KernelLibrary(serial)


def kernel_library(serial: bool = False) -> KernelLibrary:
    """The kernels of this process: a mapping from symbol to address. `serial`: those that keep to
    the thread that calls them."""
    return _library(serial)
