"""What LLVM calls this machine."""

from __future__ import annotations

import llvmlite.binding as llvm

from xla_backend.llvm.apart import apart


def host_names() -> tuple[str, str, str]:
    """Triple, CPU, and the list of features."""
    return apart(_ask)


def _ask() -> tuple[str, str, str]:
    return (
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    )
