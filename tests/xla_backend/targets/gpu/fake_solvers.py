"""The parts of cuBLAS and cuSOLVER that solve, for the stand-in of CuPy: LAPACK on the memory of a
pretended GPU, by columns, as work of its stream. The parameters are those of CuPy's functions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg.blas
import scipy.linalg.lapack

TYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
_COMPLEX_NAMES = {"syevd": "heevd", "syevjBatched": "heevjBatched"}
_COMPLEX_NAMES |= {"orgqr": "ungqr", "ormqr": "unmqr"}
_GARBAGE = 0xA5
# Behind the handle, with "work" and "lwork" where a function takes memory for its work, which the
# first part says how much of it there must be.
CUBLAS = {
    "trsm": "side uplo trans diag m n alpha A lda B ldb",
    "trsmBatched": "side uplo trans diag m n alpha A lda B ldb batch",
    "getrfBatched": "n A lda pivots info batch",
    "gemmStridedBatched": "transa transb m n k alpha A lda strideA B ldb strideB beta C ldc "
    "strideC batch",
}
CUSOLVER = {
    "potrf_bufferSize": "uplo n A lda",
    "potrf": "uplo n A lda work lwork info",
    "potrfBatched": "uplo n A lda info batch",
    "getrf_bufferSize": "m n A lda",
    "getrf": "m n A lda work pivots info",
    "geqrf_bufferSize": "m n A lda",
    "geqrf": "m n A lda tau work lwork info",
    "orgqr_bufferSize": "m n k A lda tau",
    "orgqr": "m n k A lda tau work lwork info",
    "ormqr_bufferSize": "side trans m n k A lda tau C ldc",
    "ormqr": "side trans m n k A lda tau C ldc work lwork info",
    "syevd_bufferSize": "jobz uplo n A lda W",
    "syevd": "jobz uplo n A lda W work lwork info",
    "syevjBatched_bufferSize": "jobz uplo n A lda W params batch",
    "syevjBatched": "jobz uplo n A lda W work lwork info params batch",
    "gesvdjBatched_bufferSize": "jobz m n A lda S U ldu V ldv params batch",
    "gesvdjBatched": "jobz m n A lda S U ldu V ldv work lwork info params batch",
    "gesvd_bufferSize": "m n",
    "gesvd": "jobu jobvt m n A lda S U ldu VT ldvt work lwork rwork info",
}


def names(table: dict[str, str]) -> dict[str, int]:
    """Of all functions: how many arguments each has."""
    found = {}
    for letter, (name, parameters) in itertools.product(TYPES, table.items()):
        base, _, end = name.partition("_")
        if letter in "cz":
            base = _COMPLEX_NAMES.get(base, base)
        found[letter + base + (f"_{end}" if end else "")] = 1 + len(parameters.split())
    return found


class _Memory:
    """What a function of one type sees of a GPU when it runs."""

    def __init__(self, gpu: Any, letter: str) -> None:
        self.gpu, self.letter = gpu, letter
        self.dtype = np.dtype(TYPES[letter])

    def array(self, address: int, count: int, dtype: Any = None) -> np.ndarray:
        dtype = np.dtype(self.dtype if dtype is None else dtype)
        return self.gpu.view(address, count * dtype.itemsize).view(dtype)

    def matrix(self, address: int, ld: int, rows: int, columns: int) -> np.ndarray:
        assert ld >= rows
        flat = self.array(address, (columns - 1) * ld + rows)
        item = self.dtype.itemsize
        return np.lib.stride_tricks.as_strided(flat, (rows, columns), (item, ld * item))

    def listed(self, address: int, count: int) -> list[int]:
        return self.array(address, count, np.uint64).tolist()

    def reals(self, address: int, count: int) -> np.ndarray:
        return self.array(address, count, self.dtype.char.lower())

    def number(self, address: int) -> np.ndarray:
        return self.array(address, 1, np.int32)

    def lapack(self, name: str) -> Callable[..., Any]:
        name = _COMPLEX_NAMES.get(name, name) if self.letter in "cz" else name
        return getattr(scipy.linalg.lapack, self.letter + name)


def _potrf(g: _Memory, uplo: int, n: int, A: int, lda: int, info: int, **_: Any) -> None:
    a = g.matrix(A, lda, n, n)
    a[...], g.number(info)[0] = g.lapack("potrf")(a, lower=uplo == 0, clean=0)


def _potrf_batched(g: _Memory, uplo: int, n: int, A: int, lda: int, info: int, batch: int) -> None:
    for i, address in enumerate(g.listed(A, batch)):
        _potrf(g, uplo, n, address, lda, info + 4 * i)


def _getrf(g: _Memory, m: int, n: int, A: int, lda: int, pivots: int, info: int, **_: Any) -> None:
    a = g.matrix(A, lda, m, n)
    a[...], order, g.number(info)[0] = g.lapack("getrf")(a)
    g.array(pivots, min(m, n), np.int32)[:] = order + 1


def _getrf_batched(
    g: _Memory, n: int, A: int, lda: int, pivots: int, info: int, batch: int
) -> None:
    for i, address in enumerate(g.listed(A, batch)):
        _getrf(g, n, n, address, lda, pivots + 4 * n * i, info + 4 * i)


def _geqrf(g: _Memory, m: int, n: int, A: int, lda: int, tau: int, info: int, **_: Any) -> None:
    a = g.matrix(A, lda, m, n)
    a[...], g.array(tau, min(m, n))[:], _work, g.number(info)[0] = g.lapack("geqrf")(a)


def _orgqr(
    g: _Memory, m: int, n: int, k: int, A: int, lda: int, tau: int, info: int, **_: Any
) -> None:
    assert m >= n >= k
    a = g.matrix(A, lda, m, n)
    a[...], _work, g.number(info)[0] = g.lapack("orgqr")(a, g.array(tau, k))


def _ormqr(
    g: _Memory,
    side: int,
    trans: int,
    m: int,
    n: int,
    k: int,
    A: int,
    lda: int,
    tau: int,
    C: int,
    ldc: int,
    info: int,
    **_: Any,
) -> None:
    c = g.matrix(C, ldc, m, n)
    a = g.matrix(A, lda, n if side else m, k)
    assert "NTC"[trans] in ("NC" if g.letter in "cz" else "NT")
    c[...], _work, g.number(info)[0] = g.lapack("ormqr")(
        "LR"[side], "NTC"[trans], a, g.array(tau, k), c, lwork=64 * max(m, n)
    )


def _syevd(
    g: _Memory, jobz: int, uplo: int, n: int, A: int, lda: int, W: int, info: int, **_: Any
) -> None:
    a = g.matrix(A, lda, n, n)
    values, vectors, failed = g.lapack("syevd")(a, compute_v=jobz, lower=uplo == 0)
    a[...] = vectors if jobz else np.nan
    g.reals(W, n)[:], g.number(info)[0] = values, failed


def _syevj_batched(
    g: _Memory,
    jobz: int,
    uplo: int,
    n: int,
    A: int,
    lda: int,
    W: int,
    info: int,
    batch: int,
    **_: Any,
) -> None:
    assert n <= 32 and lda == n
    for i in range(batch):
        matrix, real = n * n * g.dtype.itemsize, n * np.dtype(g.dtype.char.lower()).itemsize
        _syevd(g, jobz, uplo, n, A + i * matrix, lda, W + i * real, info + 4 * i)


def _gesvd(
    g: _Memory,
    jobu: int,
    jobvt: int,
    m: int,
    n: int,
    A: int,
    lda: int,
    S: int,
    U: int,
    ldu: int,
    VT: int,
    ldvt: int,
    info: int,
    **_: Any,
) -> None:
    """Of matrices of no more columns than rows, as the library says."""
    assert m >= n and jobu == jobvt and chr(jobu) in "ASN"
    a = g.matrix(A, lda, m, n)
    wanted = chr(jobu) != "N"
    u, s, vh, failed = g.lapack("gesdd")(a, compute_uv=wanted, full_matrices=chr(jobu) == "A")
    g.reals(S, n)[:], g.number(info)[0] = s, failed
    if wanted:
        g.matrix(U, ldu, m, u.shape[1])[...] = u
        g.matrix(VT, ldvt, n, n)[...] = vh
    a[...] = np.nan


def _gesvdj_batched(
    g: _Memory,
    jobz: int,
    m: int,
    n: int,
    A: int,
    lda: int,
    S: int,
    U: int,
    ldu: int,
    V: int,
    ldv: int,
    info: int,
    batch: int,
    **_: Any,
) -> None:
    """All columns of both factors, and no adjoint of the second."""
    assert max(m, n) <= 32 and (lda, ldu, ldv) == (m, m, n)
    size, k = g.dtype.itemsize, min(m, n)
    for i in range(batch):
        a = g.matrix(A + i * m * n * size, lda, m, n)
        u, s, vh, failed = g.lapack("gesdd")(a, full_matrices=True)
        g.reals(S, batch * k)[i * k : (i + 1) * k], g.number(info + 4 * i)[0] = s, failed
        if jobz:
            g.matrix(U + i * m * m * size, ldu, m, m)[...] = u
            g.matrix(V + i * n * n * size, ldv, n, n)[...] = vh.conj().T
        a[...] = np.nan


def _gemm_batched(
    g: _Memory,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    A: int,
    lda: int,
    strideA: int,
    B: int,
    ldb: int,
    strideB: int,
    C: int,
    ldc: int,
    strideC: int,
    batch: int,
    **_: Any,
) -> None:
    """Of square matrices."""
    assert m == n == k
    turned = (lambda x: x, lambda x: x.T, lambda x: x.conj().T)
    for i in range(batch):
        a, b, c = (
            g.matrix(address + i * stride * g.dtype.itemsize, ld, n, n)
            for address, ld, stride in ((A, lda, strideA), (B, ldb, strideB), (C, ldc, strideC))
        )
        c[...] = turned[transa](a) @ turned[transb](b)


def _trsm(
    g: _Memory,
    side: int,
    uplo: int,
    trans: int,
    diag: int,
    m: int,
    n: int,
    alpha: int,
    A: int,
    lda: int,
    B: int,
    ldb: int,
) -> None:
    size = n if side else m
    a, b = g.matrix(A, lda, size, size), g.matrix(B, ldb, m, n)
    solve = getattr(scipy.linalg.blas, f"{g.letter}trsm")
    b[...] = solve(1, a, b, side=side, lower=uplo == 0, trans_a=trans, diag=diag)


def _trsm_batched(
    g: _Memory,
    side: int,
    uplo: int,
    trans: int,
    diag: int,
    m: int,
    n: int,
    alpha: int,
    A: int,
    lda: int,
    B: int,
    ldb: int,
    batch: int,
) -> None:
    for a, b in zip(g.listed(A, batch), g.listed(B, batch)):
        _trsm(g, side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb)


_RUN: dict[str, Callable[..., None]] = {
    "potrf": _potrf,
    "potrfBatched": _potrf_batched,
    "getrf": _getrf,
    "getrfBatched": _getrf_batched,
    "geqrf": _geqrf,
    "orgqr": _orgqr,
    "ormqr": _ormqr,
    "syevd": _syevd,
    "syevjBatched": _syevj_batched,
    "gesvd": _gesvd,
    "gesvdjBatched": _gesvdj_batched,
    "gemmStridedBatched": _gemm_batched,
    "trsm": _trsm,
    "trsmBatched": _trsm_batched,
}
_ONCE = 7  # elements of the smallest workspace


class Solvers:
    """Functions of a library by name; `table`: their parameters. `current_stream`: of the
    caller."""

    def __init__(
        self, table: dict[str, str], library: str, first: int, current_stream: Callable[[], Any]
    ) -> None:
        self._table, self._library, self._first = table, library, first
        self._current_stream = current_stream
        self._known = names(table)

    def __getattr__(self, name: str) -> Any:
        if name not in self.__dict__["_known"]:
            raise AttributeError(name)
        letter, base = name[0], name[1:]
        for ours, theirs in _COMPLEX_NAMES.items():
            if letter in "cz":
                base = base.replace(theirs, ours)
        parameters = self._table[base].split()

        def call(handle: int, *values: int) -> Any:
            assert len(values) == len(parameters), f"{name} takes {len(parameters) + 1} arguments"
            stream = self._current_stream()
            gpu = stream.gpu
            assert handle == self._first + gpu.number, "the handle of another library or device"
            if stream.capture is not None:
                raise NotImplementedError(f"{self._library} is not called while a stream captures")
            given = dict(zip(parameters, values))
            if base.endswith("_bufferSize"):
                return _ONCE + given["n"]
            gpu.count(name)
            stream.put(lambda: self._run(gpu, letter, base, given))
            return None

        return call

    @staticmethod
    def _run(gpu: Any, letter: str, base: str, given: dict[str, int]) -> None:
        memory = _Memory(gpu, letter)
        if "work" in given:  # all of it is written to
            count = given.get("lwork", _ONCE + given["n"])
            assert count == _ONCE + given["n"]
            memory.array(given["work"], count).view(np.uint8)[:] = _GARBAGE
        _RUN[base](memory, **given)


class FakeCusolver(Solvers):
    CUSOLVER_EIG_MODE_NOVECTOR, CUSOLVER_EIG_MODE_VECTOR = 0, 1

    def __init__(self, current_stream: Callable[[], Any]) -> None:
        super().__init__(CUSOLVER, "cuSOLVER", 2000, current_stream)
        self.settings: set[int] = set()
        self._numbers = itertools.count(1)

    def createSyevjInfo(self) -> int:
        number = next(self._numbers)
        self.settings.add(number)
        return number

    def destroySyevjInfo(self, info: int) -> None:
        self.settings.remove(info)

    createGesvdjInfo, destroyGesvdjInfo = createSyevjInfo, destroySyevjInfo
