"""cuBLAS by its own library, which CuPy has loaded: CuPy itself refuses to call it while a stream
captures, so that no graph would have a product.

The handle is our own, with memory to work in that is set with each call: what is captured holds its
address, and a product takes the same way whether or not it is part of a graph.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any

from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.targets.gpu.cuda.cupy_library import load_library
from xla_backend.targets.gpu.cuda.device import CudaDevice

# Memory to work in: what the documentation recommends for sm_90, and from which version on.
_WORKSPACE = {True: 32 << 20, False: 4 << 20}
_LARGE_SINCE = (9, 0)
_pointer, _int, _long = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
_MATRIX = (_pointer, _int, _int, _long)  # address, type, leading dimension, stride of the batch
# Of cublas_api.h.
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cublasCreate_v2": (ctypes.POINTER(_pointer),),
    "cublasSetStream_v2": (_pointer, _pointer),
    "cublasSetWorkspace_v2": (_pointer, _pointer, ctypes.c_size_t),
    "cublasGemmStridedBatchedEx": (
        _pointer,
        *(_int, _int),  # operations
        *(_int, _int, _int),  # m, n, k
        _pointer,
        *_MATRIX,
        *_MATRIX,
        _pointer,
        *_MATRIX,
        *(_int, _int, _int),  # batches, compute, algorithm
    ),
}


class CublasLibrary:
    """cuBLAS on one device.

    Raises:
      RuntimeFailure: the library is not found, or does not start.
      OutOfMemory: there is no memory for it to work in.
    """

    def __init__(self, device: CudaDevice) -> None:
        self._names: Any = load_library("cublas")
        major = device.cupy.cuda.runtime.runtimeGetVersion() // 1000
        self._functions = {}
        library = _load(_file(major))
        for name, arguments in _SIGNATURES.items():
            function = self._functions[name] = getattr(library, name)
            function.argtypes, function.restype = arguments, _int
        self._lock = threading.Lock()  # a handle has one stream at a time
        self._workspace_bytes = _WORKSPACE[device.capability >= _LARGE_SINCE]
        handle = _pointer()
        with device.active():
            self._call("cublasCreate_v2", ctypes.byref(handle))
            self._workspace = device.pool.take(self._workspace_bytes, "cuBLAS to work in")
        self._handle = handle.value

    def __getattr__(self, name: str) -> int:
        """A number by its name, CUBLAS_..."""
        return getattr(self.__dict__["_names"], name)

    def gemm(self, stream: int, *arguments: Any) -> None:
        """cublasGemmStridedBatchedEx, on a stream that may be capturing; in an active block."""
        with self._lock:
            self._call("cublasSetStream_v2", self._handle, stream)
            # Behind the stream, which takes it back.
            self._call(
                "cublasSetWorkspace_v2", self._handle, self._workspace.ptr, self._workspace_bytes
            )
            self._call("cublasGemmStridedBatchedEx", self._handle, *arguments)

    def _call(self, name: str, *arguments: Any) -> None:
        status = self._functions[name](*arguments)
        if status:
            self._names.check_status(status)


def cublas_on(device: CudaDevice) -> CublasLibrary:
    """The library on a device, started once."""
    found = device.libraries.get("cublas")
    if found is None:
        found = device.libraries.setdefault("cublas", CublasLibrary(device))
    return found


def _file(major: int) -> str:
    return f"cublas64_{major}.dll" if sys.platform == "win32" else f"libcublas.so.{major}"


def _load(name: str) -> Any:
    """The library that CuPy has loaded, by the name that it has for other libraries.

    Raises:
      RuntimeFailure: there is none of this name.
    """
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise RuntimeFailure(
            f"CuPy has loaded cuBLAS, but there is no {name} ({error}): reinstall CuPy with its "
            'libraries (pip install --force-reinstall "pyjax[cuda13]", or [cuda12])'
        ) from error
