"""cuSOLVER and cuBLAS's triangular solver, called through CuPy: the routines whose contracts are in
`targets.gpu.routines.solvers`.

Where a library has a routine for many matrices at once, small matrices go to that, which takes the
addresses of all of them; larger ones, and those of the other routines, follow one another. Nobody
waits: `info` is a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from xla_backend.hlo.types import PrimitiveType
from xla_backend.targets.gpu.cuda.cupy_library import load_library
from xla_backend.targets.gpu.cuda.device import CudaDevice
from xla_backend.targets.gpu.routines.solvers import REALS, SOLVERS, routine_name

P = PrimitiveType
_LETTERS = {P.F32: "s", P.F64: "d", P.C64: "c", P.C128: "z"}
_COMPLEX_NAMES = {"syevd": "heevd", "syevjBatched": "heevjBatched"}
_COMPLEX_NAMES |= {"orgqr": "ungqr", "ormqr": "unmqr"}
_ADDRESS = 8
_INFO = 4
# Rows of matrices that are solved many at once: an assumption. Jacobi's method is limited to the
# last one by the library.
_MOST_AT_ONCE = 256
_MOST_OF_JACOBI = 32
_MOST_LISTS = 16


class _Caller:
    """What calls for one type of element need on one device."""

    def __init__(self, element: P, device: CudaDevice) -> None:
        self.device = device
        self.cusolver: Any = load_library("cusolver")
        self.cublas: Any = load_library("cublas")
        self.is_complex = element.is_complex
        self.size, self.real_size = element.byte_size, REALS[element].byte_size
        self._letter = _LETTERS[element]
        # On the host, where the library reads it at each call.
        self.one, self.zero = np.ones(1, element.numpy_dtype), np.zeros(1, element.numpy_dtype)
        self._identities: dict[int, Any] = {}
        self._needed: dict[tuple[Any, ...], int] = {}
        self._lists: dict[tuple[int, int, int], Any] = {}

    @property
    def handle(self) -> int:
        return self.device.cupy.cuda.Device().cusolver_handle

    @property
    def cublas_handle(self) -> int:
        return self.device.cupy.cuda.Device().cublas_handle

    def function(self, name: str, end: str = "") -> Callable[..., Any]:
        """Of cuSOLVER."""
        name = _COMPLEX_NAMES.get(name, name) if self.is_complex else name
        return getattr(self.cusolver, self._letter + name + end)

    def of_cublas(self, name: str) -> Callable[..., Any]:
        return getattr(self.cublas, self._letter + name)

    def memory(self, nbytes: int) -> Any:
        """Memory for work that is on the stream when its owner goes."""
        return self.device.pool.take(nbytes, "a routine of linear algebra")

    def workspace(self, name: str, key: tuple[int, ...], *arguments: Any) -> tuple[Any, int]:
        """Memory that a function needs for its work, and the number of elements in it, which
        depends on `key`; `arguments`: of the function that tells."""
        count = self._needed.get((name, *key))
        if count is None:
            count = self.function(name, "_bufferSize")(self.handle, *arguments)
            self._needed[name, *key] = count
        return self.memory(count * self.size), count

    def copy(self, target: int, source: int, count: int) -> None:
        """Copy elements."""
        if target != source:
            self.device.copy(target, source, count * self.size, self.device.stream)

    def copy_first(self, target: int, kept: int, source: int, given: int, count: int) -> None:
        """Copy the first `kept` elements of each of `count` problems of `given` elements."""
        runtime = self.device.cupy.cuda.runtime
        runtime.memcpy2DAsync(
            target,
            kept * self.size,
            source,
            given * self.size,
            kept * self.size,
            count,
            runtime.memcpyDeviceToDevice,
            self.device.stream.ptr,
        )

    def adjoints(self, target: int, source: int, n: int, count: int) -> None:
        """Square matrices, turned and conjugated: products with the identity, which are exact."""
        one = self._identities.get(n)
        if one is None:
            one = self._identities[n] = self.memory(n * n * self.size)
            identity = np.eye(n, dtype=self.one.dtype).reshape(-1)
            self.device.to_device(one.ptr, identity.view(np.uint8))
        self.of_cublas("gemmStridedBatched")(
            self.cublas_handle,
            self.operation("C"),
            self.operation("N"),
            n,
            n,
            n,
            self.one.ctypes.data,
            source,
            n,
            n * n,
            one.ptr,
            n,
            0,
            self.zero.ctypes.data,
            target,
            n,
            n * n,
            count,
        )

    def clear(self, address: int, count: int) -> None:
        runtime = self.device.cupy.cuda.runtime
        runtime.memsetAsync(address, 0, count * self.size, self.device.stream.ptr)

    def addresses(self, first: int, elements: int, count: int) -> Any:
        """Memory with a list of addresses, of `count` problems that lie one behind the other, which
        whoever uses it holds until then. It is kept for the next run, which mostly has the same
        memory; those that were not used for longest go."""
        key = first, elements, count
        found = self._lists.pop(key, None)
        if found is None:
            found = self.memory(count * _ADDRESS)
            listed = first + elements * self.size * np.arange(count, dtype=np.uint64)
            self.device.to_device(found.ptr, listed.view(np.uint8))
            for oldest in list(self._lists)[: max(0, len(self._lists) - _MOST_LISTS + 1)]:
                self._lists.pop(oldest, None)
        self._lists[key] = found
        return found

    def triangle(self, letter: int) -> int:
        lower = chr(letter) == "L"
        cublas = self.cublas
        return cublas.CUBLAS_FILL_MODE_LOWER if lower else cublas.CUBLAS_FILL_MODE_UPPER

    def side(self, left: bool) -> int:
        return self.cublas.CUBLAS_SIDE_LEFT if left else self.cublas.CUBLAS_SIDE_RIGHT

    def operation(self, letter: str) -> int:
        return getattr(self.cublas, f"CUBLAS_OP_{letter}")

    def job(self, vectors: bool) -> int:
        modes = self.cusolver
        if vectors:
            return modes.CUSOLVER_EIG_MODE_VECTOR
        return modes.CUSOLVER_EIG_MODE_NOVECTOR


def _potrf(c: _Caller, batches: int, n: int, uplo: int, a: int, factor: int, info: int) -> None:
    c.copy(factor, a, batches * n * n)
    triangle = c.triangle(uplo)
    if batches > 1 and n <= _MOST_AT_ONCE:
        listed = c.addresses(factor, n * n, batches)
        c.function("potrfBatched")(c.handle, triangle, n, listed.ptr, n, info, batches)
        return
    work, count = c.workspace("potrf", (n, triangle), triangle, n, factor, n)
    for i in range(batches):
        matrix = factor + i * n * n * c.size
        c.function("potrf")(c.handle, triangle, n, matrix, n, work.ptr, count, info + i * _INFO)


def _getrf(
    c: _Caller, batches: int, m: int, n: int, a: int, lu: int, pivots: int, info: int
) -> None:
    c.copy(lu, a, batches * m * n)
    if batches > 1 and m == n <= _MOST_AT_ONCE:
        listed = c.addresses(lu, n * n, batches)
        c.of_cublas("getrfBatched")(c.cublas_handle, n, listed.ptr, n, pivots, info, batches)
        return
    work, _ = c.workspace("getrf", (m, n), m, n, lu, m)
    for i in range(batches):
        matrix, order = lu + i * m * n * c.size, pivots + i * min(m, n) * _INFO
        c.function("getrf")(c.handle, m, n, matrix, m, work.ptr, order, info + i * _INFO)


def _geqrf(c: _Caller, batches: int, m: int, n: int, a: int, packed: int, taus: int) -> None:
    c.copy(packed, a, batches * m * n)
    work, count = c.workspace("geqrf", (m, n), m, n, packed, m)
    info = c.memory(_INFO)
    for i in range(batches):
        matrix, tau = packed + i * m * n * c.size, taus + i * min(m, n) * c.size
        c.function("geqrf")(c.handle, m, n, matrix, m, tau, work.ptr, count, info.ptr)


def _orgqr(c: _Caller, batches: int, m: int, n: int, p: int, a: int, taus: int, q: int) -> None:
    c.copy(q, a, batches * m * n)
    work, count = c.workspace("orgqr", (m, n, p), m, n, p, q, m, taus)
    info = c.memory(_INFO)
    for i in range(batches):
        matrix, tau = q + i * m * n * c.size, taus + i * p * c.size
        c.function("orgqr")(c.handle, m, n, p, matrix, m, tau, work.ptr, count, info.ptr)


def _ormqr(
    c: _Caller,
    batches: int,
    m: int,
    n: int,
    p: int,
    r: int,
    left: int,
    transpose: int,
    a: int,
    taus: int,
    given: int,
    product: int,
) -> None:
    c.copy(product, given, batches * m * n)
    adjoint = "C" if c.is_complex else "T"
    how = c.side(bool(left)), c.operation(adjoint if transpose else "N")
    sizes = *how, m, n, p
    work, count = c.workspace("ormqr", sizes, *sizes, a, r, taus, product, m)
    info = c.memory(_INFO)
    for i in range(batches):
        reflectors, tau = a + i * r * p * c.size, taus + i * p * c.size
        matrix = product + i * m * n * c.size
        c.function("ormqr")(
            c.handle, *sizes, reflectors, r, tau, matrix, m, work.ptr, count, info.ptr
        )


def _syevd(
    c: _Caller,
    batches: int,
    n: int,
    mode: int,
    uplo: int,
    a: int,
    vectors: int,
    values: int,
    info: int,
) -> None:
    c.copy(vectors, a, batches * n * n)
    how = c.job(chr(mode) == "V"), c.triangle(uplo), n
    if batches > 1 and n <= _MOST_OF_JACOBI:
        settings = c.cusolver.createSyevjInfo()
        try:
            work, count = c.workspace(
                "syevjBatched", (*how, batches), *how, vectors, n, values, settings, batches
            )
            c.function("syevjBatched")(
                c.handle, *how, vectors, n, values, work.ptr, count, info, settings, batches
            )
        finally:
            c.cusolver.destroySyevjInfo(settings)
        return
    work, count = c.workspace("syevd", how, *how, vectors, n, values)
    for i in range(batches):
        matrix, found = vectors + i * n * n * c.size, values + i * n * c.real_size
        c.function("syevd")(c.handle, *how, matrix, n, found, work.ptr, count, info + i * _INFO)


def _gesvd(
    c: _Caller,
    batches: int,
    m: int,
    n: int,
    p: int,
    r: int,
    mode: int,
    a: int,
    used: int,
    values: int,
    u: int,
    vh: int,
    info: int,
) -> None:
    """m is no less than n: see `passes.solver_rewriter`."""
    c.copy(used, a, batches * m * n)
    if chr(mode) == "N":
        c.clear(u, batches * m * p)
        c.clear(vh, batches * r * n)
    if batches > 1 and m <= _MOST_OF_JACOBI:
        _gesvdj(c, batches, m, n, p, mode, used, values, u, vh, info)
        return
    work, count = c.workspace("gesvd", (m, n), m, n)
    for i in range(batches):
        c.function("gesvd")(
            c.handle,
            mode,
            mode,
            m,
            n,
            used + i * m * n * c.size,
            m,
            values + i * n * c.real_size,
            u + i * m * p * c.size,
            m,
            vh + i * r * n * c.size,
            r,
            work.ptr,
            count,
            0,
            info + i * _INFO,
        )


def _gesvdj(
    c: _Caller,
    batches: int,
    m: int,
    n: int,
    p: int,
    mode: int,
    used: int,
    values: int,
    u: int,
    vh: int,
    info: int,
) -> None:
    """All at once. The library gives all columns of u, of which the first may be wanted, and v."""
    job = c.job(chr(mode) != "N")
    left, right = c.memory(batches * m * m * c.size), c.memory(batches * n * n * c.size)
    settings = c.cusolver.createGesvdjInfo()
    try:
        matrices = used, m, values, left.ptr, m, right.ptr, n
        work, count = c.workspace(
            "gesvdjBatched", (job, m, n, batches), job, m, n, *matrices, settings, batches
        )
        c.function("gesvdjBatched")(
            c.handle, job, m, n, *matrices, work.ptr, count, info, settings, batches
        )
    finally:
        c.cusolver.destroyGesvdjInfo(settings)
    if chr(mode) != "N":
        c.copy_first(u, m * p, left.ptr, m * m, batches)
        c.adjoints(vh, right.ptr, n, batches)


def _trsm(
    c: _Caller,
    batches: int,
    m: int,
    n: int,
    p: int,
    side: int,
    uplo: int,
    trans_x: int,
    diag: int,
    a: int,
    b: int,
    x: int,
) -> None:
    c.copy(x, b, batches * m * n)
    cublas = c.cublas
    unit = cublas.CUBLAS_DIAG_UNIT if chr(diag) == "U" else cublas.CUBLAS_DIAG_NON_UNIT
    how = c.side(chr(side) == "L"), c.triangle(uplo), c.operation(chr(trans_x)), unit
    one = c.one.ctypes.data
    if batches > 1 and p <= _MOST_AT_ONCE:
        matrices, rights = c.addresses(a, p * p, batches), c.addresses(x, m * n, batches)
        c.of_cublas("trsmBatched")(
            c.cublas_handle, *how, m, n, one, matrices.ptr, p, rights.ptr, m, batches
        )
        return
    for i in range(batches):
        matrix, right = a + i * p * p * c.size, x + i * m * n * c.size
        c.of_cublas("trsm")(c.cublas_handle, *how, m, n, one, matrix, p, right, m)


_CALLS: Mapping[str, Callable[..., None]] = {
    "potrf": _potrf,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "orgqr": _orgqr,
    "ormqr": _ormqr,
    "syevd": _syevd,
    "gesdd": _gesvd,
    "trsm": _trsm,
}


def _make(name: str, element: P, device: CudaDevice) -> Callable[..., None]:
    function, caller = _CALLS[name], _Caller(element, device)

    def call(stream: int, *operands: int) -> None:
        function(caller, *operands)  # on the stream that is CuPy's current one

    return call


# What makes the call of each routine on a device.
ROUTINES: Mapping[str, Callable[[CudaDevice], Callable[..., None]]] = {
    routine_name(name, element): partial(_make, name, element)
    for name in SOLVERS
    for element in REALS
}
