"""kernel_library(): symbol -> address of every run-time kernel, compiled group by group on
demand, for a target and options.
"""

from __future__ import annotations

from xla_backend.llvm.target import TargetInfo, host_target
from xla_backend.process.bounded_cache import BoundedCache, Budget, once
from xla_backend.targets.cpu.routines import (
    blocked_matrices,
    conv,
    cumulative,
    fft,
    gemm,
    lapack,
    meetings,
    moves,
    selection,
    small_eigen,
    small_matrices,
    small_reflectors,
    small_singular,
    sort,
)
from xla_backend.targets.cpu.routines.registry import KernelLibrary

_SUBJECTS = (
    gemm,
    conv,
    fft,
    sort,
    selection,
    cumulative,
    meetings,
    small_eigen,
    moves,
    small_matrices,
    small_reflectors,
    small_singular,
    blocked_matrices,
    lapack,
)
_libraries: BoundedCache[tuple[TargetInfo, tuple[str, ...], int | None], KernelLibrary] = (
    BoundedCache(Budget("kernel libraries", entries=16))
)


@once
def declare_kernels() -> None:
    """Makes every group of kernels known, once."""
    for subject in _SUBJECTS:
        subject.register()


def kernel_library(
    target: TargetInfo | None = None, fast_math: tuple[str, ...] = (), threads: int | None = None
) -> KernelLibrary:
    """The kernels of this process: a mapping from symbol to address.

    Args:
      target: what their code may use; by default all this machine has.
      fast_math: LLVM's flags on their floating-point arithmetic.
      threads: the most that a kernel uses; None: as many as the pool has.
    """
    declare_kernels()
    key = (target or host_target(), fast_math, threads)
    return _libraries.make(key, lambda: KernelLibrary(*key))
