"""cuBLAS, for the stand-in of CuPy: names of CuPy's module, and functions of the library itself, by
columns on the memory of a pretended GPU."""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tests.xla_backend.targets.gpu.fake_solvers import CUBLAS, Solvers

_TYPES = {0: np.float32, 1: np.float64, 2: np.float16, 14: ml_dtypes.bfloat16}
_DOUBLE = 70
_FIRST_HANDLE = 3000
_NOT_INITIALIZED, _INVALID = 1, 7


class CUBLASError(RuntimeError):
    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"CUBLAS_STATUS {status}")


class FakeCublas(Solvers):
    """CuPy's module. Numbers are those of cublas_api.h."""

    CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C, CUBLAS_GEMM_DEFAULT = 0, 1, 2, -1
    CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT = 0, 1
    CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER = 0, 1
    CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT = 0, 1
    CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_32F_FAST_TF32 = 68, 70, 77

    def __init__(self, current_stream: Callable[[], Any]) -> None:
        super().__init__(CUBLAS, "cuBLAS", 1000, current_stream)

    @staticmethod
    def check_status(status: int) -> None:
        if status:
            raise CUBLASError(status)


class _Handle:
    """What a handle has: a GPU, and memory to work in that each new stream takes back."""

    def __init__(self, gpu: Any) -> None:
        self.gpu, self.stream, self.workspace = gpu, None, (0, 0)


def fake_library(current: Callable[[], Any], object_of: Callable[[int], Any]) -> Any:
    """The library. `current`: the GPU that a handle is made on; `object_of`: what a stream is."""
    handles: dict[int, _Handle] = {}

    def create(address: Any) -> int:
        if any(stream.capture is not None for stream in current().streams):
            return _NOT_INITIALIZED  # it takes memory
        number = _FIRST_HANDLE + len(handles)
        handles[number] = _Handle(current())
        address._obj.value = number
        return 0

    def set_stream(handle: int, stream: int) -> int:
        found = handles[handle]
        found.stream, found.workspace = object_of(stream), (0, 0)
        return 0 if found.stream.gpu is found.gpu else _INVALID

    def set_workspace(handle: int, address: int, nbytes: int) -> int:
        handles[handle].workspace = address, nbytes
        return 0

    def gemm(
        handle: int,
        transa: int,
        transb: int,
        m: int,
        n: int,
        k: int,
        alpha: int,
        a: int,
        a_type: int,
        lda: int,
        stride_a: int,
        b: int,
        b_type: int,
        ldb: int,
        stride_b: int,
        beta: int,
        c: int,
        c_type: int,
        ldc: int,
        stride_c: int,
        batches: int,
        compute: int,
        algorithm: int,
    ) -> int:
        found = handles[handle]
        gpu, stream = found.gpu, found.stream
        assert stream is not None and found.workspace[1] >= 4 << 20 and algorithm == -1
        scalar = ctypes.c_double if compute == _DOUBLE else ctypes.c_float
        factors = [scalar.from_address(address).value for address in (alpha, beta)]
        assert factors == [1, 0]
        assert lda >= (k if transa else m) and ldb >= (n if transb else k) and ldc == m
        gpu.count("products")
        gpu.view(*found.workspace)[:] = 0xA5

        def matrix(address: int, kind: int, ld: int, rows: int, columns: int) -> np.ndarray:
            dtype = np.dtype(_TYPES[kind])
            raw = gpu.view(address, ((columns - 1) * ld + rows) * dtype.itemsize).view(dtype)
            return raw[np.arange(rows)[:, None] + ld * np.arange(columns)]

        def run() -> None:
            sizes = [np.dtype(_TYPES[t]).itemsize for t in (a_type, b_type, c_type)]
            wide = np.float64 if compute == _DOUBLE else np.float32
            for i in range(batches):
                of_a, of_b = ((k, m) if transa else (m, k)), ((n, k) if transb else (k, n))
                x = matrix(a + i * stride_a * sizes[0], a_type, lda, *of_a)
                y = matrix(b + i * stride_b * sizes[1], b_type, ldb, *of_b)
                x, y = (z.T if t else z for z, t in ((x, transa), (y, transb)))
                product = x.astype(wide) @ y.astype(wide)
                dtype = np.dtype(_TYPES[c_type])
                out = gpu.view(c + i * stride_c * sizes[2], m * n * sizes[2]).view(dtype)
                out[:] = product.T.reshape(-1).astype(dtype)

        stream.put(run)
        return 0

    return types.SimpleNamespace(
        cublasCreate_v2=create,
        cublasSetStream_v2=set_stream,
        cublasSetWorkspace_v2=set_workspace,
        cublasGemmStridedBatchedEx=gemm,
    )
