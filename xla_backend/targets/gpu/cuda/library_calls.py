"""Routines of the vendor's libraries. What each does is the business of its contract
(`targets.gpu.routines`); the table here says what calls it, and whether a graph may have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from xla_backend.hlo.errors import UnimplementedError
from xla_backend.program.ir import Library, Slice
from xla_backend.targets.gpu.cuda import solver_calls
from xla_backend.targets.gpu.cuda.commands import LibraryCommand
from xla_backend.targets.gpu.cuda.cublas_library import cublas_on
from xla_backend.targets.gpu.cuda.device import CudaDevice
from xla_backend.targets.gpu.cuda.layout import Place
from xla_backend.targets.gpu.routines.cublas import TYPES, GemmType

# Puts a routine on a stream, by its address; then operands, of which slices are addresses.
Call = Callable[..., None]


class Binding(NamedTuple):
    """How a routine is called.

    Fields:
      make: the call on a device.
      captured: it can be part of a graph: it takes no memory that others may get, and asks nothing
        of the device.
    """

    make: Callable[[CudaDevice], Call]
    captured: bool


# cudaDataType_t. (CuPy 13 has no name for the last.)
_DATA_TYPES = {"CUDA_R_32F": 0, "CUDA_R_64F": 1, "CUDA_R_16F": 2, "CUDA_R_16BF": 14}


def library_command(
    step: Library, place: Callable[[Slice], Place], device: CudaDevice
) -> LibraryCommand:
    """The command of a library step.

    Raises:
      UnimplementedError: nothing here runs the routine.
      RuntimeFailure: its library is not found, or does not start.
    """
    binding = _ROUTINES.get(step.routine)
    if binding is None:
        raise UnimplementedError(
            f"%{step.name} calls {step.routine!r}, which nothing runs on {device}; use the "
            "platform 'gpu_emulator'"
        )
    operands = [place(o) if isinstance(o, Slice) else o for o in step.operands]
    return LibraryCommand(binding.make(device), operands, binding.captured)


def _gemm(t: GemmType, device: CudaDevice) -> Call:
    cublas = cublas_on(device)
    # On the host, where the library reads them at each call.
    scale = t.scale.numpy_dtype
    one, zero = np.ones(1, scale), np.zeros(1, scale)
    source, target = (_DATA_TYPES[name] for name in t.data)
    compute = getattr(cublas, t.compute)

    def call(stream: int, batches: int, m: int, n: int, k: int, *rest: Any) -> None:
        lhs, lhs_batch, lhs_outer, lhs_inner, rhs, rhs_batch, rhs_outer, rhs_inner, out = rest
        # By columns, as the library sees them: its first matrix is n x k, its second k x m.
        first = _by_columns(cublas, rhs_outer, rhs_inner, n, k, rows_first=True)
        second = _by_columns(cublas, lhs_outer, lhs_inner, m, k, rows_first=False)
        cublas.gemm(
            stream,
            first[0],
            second[0],
            n,
            m,
            k,
            one.ctypes.data,
            rhs,
            source,
            first[1],
            rhs_batch,
            lhs,
            source,
            second[1],
            lhs_batch,
            zero.ctypes.data,
            out,
            target,
            n,
            m * n,
            batches,
            compute,
            cublas.CUBLAS_GEMM_DEFAULT,
        )

    return call


def _by_columns(
    cublas: Any, outer: int, inner: int, extent: int, depth: int, *, rows_first: bool
) -> tuple[int, int]:
    """How the library is to take an `extent` x `depth` matrix: (operation, leading dimension). It
    is wanted as it is, or (not `rows_first`) as `depth` x `extent`."""
    transposed = (inner == 1) == rows_first
    leading = max(outer, depth) if inner == 1 else max(inner, extent)
    return (cublas.CUBLAS_OP_T if transposed else cublas.CUBLAS_OP_N), leading


_ROUTINES: Mapping[str, Binding] = {
    **{f"cublas_gemm_{t.name}": Binding(partial(_gemm, t), True) for t in TYPES.values()},
    # CuPy does not call them while a stream captures.
    **{name: Binding(make, False) for name, make in solver_calls.ROUTINES.items()},
}
