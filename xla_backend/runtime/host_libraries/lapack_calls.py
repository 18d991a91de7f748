"""Custom-call targets backed by SciPy's LAPACK, one matrix of a batch after another.

Targets are `lapack.<routine>`; programs lowered by other frameworks say
`lapack_<type><routine>_ffi`, which mean the same. Attributes are in the backend_config, `{uplo = 76
: ui8}` (character codes, as LAPACK's own arguments); the results are:

  routine      operands      results                                attributes
  potrf        a             a (one triangle), info                 uplo
  getrf        a             lu, pivots (from 1), info
  geqrf        a             a (packed), tau
  geqp3        a, jpvt       a (packed), jpvt, tau
  orgqr        a, tau        q
  ormqr        a, tau, c     c                                      left, transpose
  gesdd        a             a, s, u, vh, info                      mode (A, S or N)
  syevd        a             vectors, w, info                       mode (V, N), uplo
  geev         a             (real: wr, wi; complex: w), vl, vr, info    compute_left, compute_right
  gees         a             t, vs, (wr, wi or w), selected, info   mode, sort
  gehrd        a             a (packed), tau, info                  low, high
  sytrd        a             a (packed), d, e, tau, info            uplo
  trsm         a, b          x                                      side, uplo, trans_x, diag
  gtsv         dl, d, du, b  dl, d, du, x, info

`info` is LAPACK's; results of a failed factorisation are NaN where the caller asks info to be
checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xla_backend.process.on_first_use import on_first_use
from xla_backend.runtime.custom_calls import (
    HostFunction,
    find_custom_call,
    register_custom_call,
)
from xla_backend.runtime.host_libraries.lapack_arguments import (
    COMPLEX_NAMES,
    attributes_of,
    check_arguments,
    check_options,
)
from xla_backend.runtime.host_libraries.library_threads import on_library_threads, size_of

# SciPy takes as long to load as the compiler: it waits for a program that needs it.
_get_lapack_funcs = on_first_use("scipy.linalg.lapack", "get_lapack_funcs")
_get_blas_funcs = on_first_use("scipy.linalg.blas", "get_blas_funcs")
Arrays = Sequence[np.ndarray]


def _letter(options: dict[str, int], key: str, default: str) -> str:
    return chr(options.get(key, ord(default)))


def _routine(name: str, matrix: np.ndarray) -> Callable:
    if matrix.dtype.kind == "c":
        name = COMPLEX_NAMES.get(name, name)
    (function,) = _get_lapack_funcs((name,), (matrix,))
    return function


def _workspace(name: str, matrix: np.ndarray, *sizes: int, **options: Any) -> int:
    if matrix.dtype.kind == "c":
        name = COMPLEX_NAMES.get(name, name)
    (query,) = _get_lapack_funcs((f"{name}_lwork",), (matrix,))
    return int(np.real(query(*sizes, **options)[0]))


def _potrf(options: dict[str, int], operands: Arrays, results: Arrays) -> None:
    (a,), (factor, info) = operands, results
    lower = _letter(options, "uplo", "L") == "L"
    factor[...], info[...] = _routine("potrf", a)(a, lower=lower, clean=0)


def _getrf(options: dict[str, int], operands: Arrays, results: Arrays) -> None:
    (a,), (lu, pivots, info) = operands, results
    lu[...], zero_based, info[...] = _routine("getrf", a)(a)
    pivots[...] = zero_based + 1


def _geqrf(options: dict[str, int], operands: Arrays, results: Arrays) -> None:
    (a,), (packed, tau) = operands, results[:2]
    work = _workspace("geqrf", a, *a.shape)
    packed[...], tau[...], _, _ = _routine("geqrf", a)(a, lwork=work)


def _geqp3(options: dict[str, int], operands: Arrays, results: Arrays) -> None:
    a = operands[0]
    packed, pivots, tau = results[:3]
    packed[...], pivots[...], tau[...], _, _ = _routine("geqp3", a)(a)


def _orgqr(options: dict[str, int], operands: Arrays, results: Arrays) -> None:
    a, tau = operands
    work = max(1, 64 * a.shape[1])
    results[0][...], _, _ = _routine("orgqr", a)(a, tau, lwork=work)


def _ormqr(options: dict[str, int], operands: Arrays, results: Arrays) -> None:
    a, tau, c = operands
    side = "L" if options.get("left", 1) else "R"
    adjoint = "C" if a.dtype.kind == "c" else "T"
    trans = adjoint if options.get("transpose", 0) else "N"
    results[0][...], _, _ = _routine("ormqr", a)(
        side, trans, a, tau, c, lwork=max(1, 64 * max(c.shape))
    )


def _gesdd(options: dict[str, int], operands: Arrays, results: Arrays) -> None:
    (a,), (scratch, s, u, vh, info) = operands, results
    mode = _letter(options, "mode", "S")
    vectors = mode in "AS"
    full = mode == "A"
    if not np.isfinite(a).all():  # gesdd may never end then
        scratch[...], s[...], u[...], vh[...], info[...] = a, np.nan, np.nan, np.nan, 1
        return
    work = _workspace("gesdd", a, *a.shape, compute_uv=int(vectors), full_matrices=int(full))
    left, values, right, status = _routine("gesdd", a)(
        a, compute_uv=int(vectors), full_matrices=int(full), lwork=work
    )
    scratch[...] = a
    s[...], info[...] = values, status
    if vectors:
        u[...], vh[...] = left, right
    else:
        u[...], vh[...] = 0, 0


def _syevd(options: dict[str, int], operands: Arrays, results: Arrays) -> None:
    (a,), (vectors, w, info) = operands, results
    wanted = _letter(options, "mode", "V") == "V"
    lower = _letter(options, "uplo", "L") == "L"
    values, found, status = _routine("syevd", a)(a, compute_v=int(wanted), lower=int(lower))
    w[...], info[...] = values, status
    vectors[...] = found if wanted else a


def _geev(options: dict[str, int], operands: Arrays, results: Arrays) -> None:
    (a,) = operands
    left = _letter(options, "compute_left", "N") == "V"
    right = _letter(options, "compute_right", "V") == "V"
    if not np.isfinite(a).all():  # what geev says of them differs between versions
        for target in results[:-1]:
            target[...] = complex(np.nan, np.nan) if target.dtype.kind == "c" else np.nan
        results[-1][...] = 1
        return
    found = _routine("geev", a)(a, compute_vl=int(left), compute_vr=int(right))
    *values, vl, vr, status = found
    for target, source in zip(results, values):
        target[...] = source
    out_left, out_right, info = results[len(values) :]
    info[...] = status
    if a.dtype.kind != "c":
        vl = _paired(vl, values[1]) if left else vl
        vr = _paired(vr, values[1]) if right else vr
    out_left[...] = vl if left else 0
    out_right[...] = vr if right else 0


def _paired(vectors: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """Complex eigenvectors from LAPACK's real storage: a conjugate pair shares two columns."""
    result = vectors.astype(np.result_type(vectors.dtype, np.complex64))
    j = 0
    while j < len(imaginary):
        if imaginary[j] != 0 and j + 1 < len(imaginary):
            result[:, j] = vectors[:, j] + 1j * vectors[:, j + 1]
            result[:, j + 1] = np.conj(result[:, j])
            j += 2
        else:
            j += 1
    return result


def _gees(options: dict[str, int], operands: Arrays, results: Arrays) -> None:
    (a,) = operands
    wanted = _letter(options, "mode", "V") == "V"
    found = _routine("gees", a)(lambda *_: 0, a, compute_v=int(wanted), sort_t=0)
    triangle, selected, *values, vectors, _, status = found
    results[0][...] = triangle
    results[1][...] = vectors if wanted else 0
    for target, source in zip(results[2:], values):
        target[...] = source
    results[2 + len(values)][...] = selected
    results[3 + len(values)][...] = status


def _gehrd(options: dict[str, int], operands: Arrays, results: Arrays) -> None:
    (a,), (packed, tau, info) = operands, results
    low = (options.get("low") or 1) - 1
    high = (options.get("high") or a.shape[0]) - 1
    packed[...], found, info[...] = _routine("gehrd", a)(a, lo=low, hi=high)
    tau[...] = found


def _sytrd(options: dict[str, int], operands: Arrays, results: Arrays) -> None:
    (a,), (packed, d, e, tau, info) = operands, results
    lower = _letter(options, "uplo", "L") == "L"
    packed[...], d[...], e[...], tau[...], info[...] = _routine("sytrd", a)(a, lower=int(lower))


def trsm(
    a: np.ndarray, b: np.ndarray, *, left: bool, lower: bool, transpose: str, unit: bool
) -> np.ndarray:
    """Solve op(a) x = b, or x op(a) = b; a zero on the diagonal gives inf and NaN, as division
    does."""
    (solve,) = _get_blas_funcs(("trsm",), (a, b))
    operation = {"N": 0, "T": 1, "C": 2}[transpose]
    return solve(
        1.0, a, b, side=0 if left else 1, lower=int(lower), trans_a=operation, diag=int(unit)
    )


def _trsm(options: dict[str, int], operands: Arrays, results: Arrays) -> None:
    a, b = operands[:2]
    results[0][...] = trsm(
        a,
        b,
        left=_letter(options, "side", "L") == "L",
        lower=_letter(options, "uplo", "L") == "L",
        transpose=_letter(options, "trans_x", "N"),
        unit=_letter(options, "diag", "N") == "U",
    )


def _gtsv(options: dict[str, int], operands: Arrays, results: Arrays) -> None:
    lower, diagonal, upper, b = operands
    low, mid, up = results[:3]
    n = diagonal.shape[-1]
    if n == 1:
        low[...], mid[...], up[...] = lower, diagonal, upper
        results[3][...] = b / diagonal[:, None]
        results[4][...] = 0
        return
    l, d, u, x, status = _routine("gtsv", diagonal)(lower[1:], diagonal, upper[:-1], b)
    low[...], mid[...], up[...] = 0, d, 0
    low[1:], up[:-1] = l, u
    results[3][...], results[4][...] = x, status


_ROUTINES: dict[str, Callable[[dict[str, int], Arrays, Arrays], None]] = {
    "potrf": _potrf,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "geqp3": _geqp3,
    "orgqr": _orgqr,
    "ormqr": _ormqr,
    "gesdd": _gesdd,
    "syevd": _syevd,
    "geev": _geev,
    "gees": _gees,
    "gehrd": _gehrd,
    "sytrd": _sytrd,
    "trsm": _trsm,
    "gtsv": _gtsv,
}


def lapack_routine(name: str) -> Callable[[dict[str, int], Arrays, Arrays], None]:
    """A routine on one problem: takes options, operands and results."""
    return _ROUTINES[name]


def _batched(name: str, routine: Callable) -> HostFunction:
    """Run a routine on every matrix of a batch. The first operand tells the batch: all but its last
    dimensions."""

    def run(
        operands: list[np.ndarray], results: list[np.ndarray], attributes: Any, context: Any
    ) -> None:
        options = attributes_of(attributes)
        check_options(name, options)
        batch = check_arguments(name, options, operands, results)
        if 0 in operands[0].shape:
            for result in results:
                result[...] = 0
            return

        def each() -> None:
            for index in np.ndindex(batch):
                routine(options, [o[index] for o in operands], [_part(r, index) for r in results])

        matrix = max(operands, key=lambda o: o.ndim)  # tridiagonal ones come as three vectors
        on_library_threads(size_of(matrix.shape), each)

    return run


def _part(result: np.ndarray, index: tuple[int, ...]) -> np.ndarray:
    """One problem's part, as an array even if it is one element."""
    at: Any = (*index, ...)
    return result[at]


def _register() -> None:
    for name, routine in _ROUTINES.items():
        function = _batched(name, routine)
        names = [f"lapack.{name}"]
        for letter in "sdcz":
            typed = COMPLEX_NAMES.get(name, name) if letter in "cz" else name
            names.append(f"lapack_{letter}{typed}_ffi")
        for target in names:
            if find_custom_call(target) is None:
                register_custom_call(target, function)


_register()
