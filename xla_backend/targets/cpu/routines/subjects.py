"""All groups of kernels, and who writes them."""

from __future__ import annotations

from xla_backend.llvm.partition import split, worthwhile_parts
from xla_backend.llvm.target import TargetInfo
from xla_backend.process.bounded_cache import once
from xla_backend.targets.cpu.routines import (
    blocked_lu,
    blocked_matrices,
    blocked_qr,
    blocked_singular,
    conv,
    cumulative,
    early_meetings,
    few_selection,
    fft,
    fft_rows,
    first_extremes,
    gemm,
    key_sort,
    lane_groups,
    lapack,
    meetings,
    moves,
    registry,
    selection,
    small_eigen,
    small_matrices,
    small_reflectors,
    small_singular,
    sort,
    threaded,
    threaded_conversions,
    threaded_elementwise,
    threaded_index,
    threaded_memory,
    threaded_memory_operands,
    threaded_program,
    threaded_updates,
    transpose_shuffles,
    transposes,
    tridiagonal,
    truth_partition,
    workspace,
)

_SUBJECTS = (
    gemm,
    conv,
    fft,
    fft_rows,
    lane_groups,
    key_sort,
    sort,
    selection,
    few_selection,
    first_extremes,
    cumulative,
    meetings,
    early_meetings,
    small_eigen,
    moves,
    small_matrices,
    small_reflectors,
    small_singular,
    blocked_lu,
    blocked_matrices,
    blocked_qr,
    blocked_singular,
    lapack,
    transpose_shuffles,
    transposes,
    tridiagonal,
    truth_partition,
    workspace,
    threaded,
    threaded_elementwise,
    threaded_index,
    threaded_conversions,
    threaded_memory,
    threaded_memory_operands,
    threaded_program,
    threaded_updates,
)

# Characters of a module beside the longest function: LLVM takes 2 ms for one with next to nothing.
_LEAST_PART = 4_000


@once
def declare_kernels() -> None:
    """Makes every group of kernels known, once."""
    for subject in _SUBJECTS:
        subject.register()


def group_text(group: str, target: TargetInfo, fast_math: tuple[str, ...]) -> str:
    """The LLVM text of a group."""
    declare_kernels()
    return registry.group_module(group, target, fast_math).to_text()


def group_parts(
    group: str, target: TargetInfo, fast_math: tuple[str, ...]
) -> tuple[list[str], list[str]]:
    """The LLVM text of a group, cut into modules to compile at the same time, and the kernels of
    others that it calls."""
    declare_kernels()
    module = registry.group_module(group, target, fast_math)
    longest = max(len(f if isinstance(f, str) else f.to_text()) for f in module.functions)
    size = len(module.to_text())
    # A function is not cut: others beside it are worth a module if they are some code.
    parts = worthwhile_parts(size, 1 + (size - longest) // _LEAST_PART)
    return split(module, parts), registry.called_outside(module)


def groups_by_symbol() -> dict[str, str]:
    """The group of each kernel."""
    declare_kernels()
    return registry.owners()
