"""FFT and dense linear algebra on a device, by cuFFT, cuBLAS and cuSOLVER through CuPy.

Each function does on arrays of CuPy what the host's function of the same step does on NumPy's
(`runtime.host_functions`, `runtime.host_libraries`), which is its contract. What CuPy has no
routine for, or one that asks the host, runs on the host: `stays_on_host` says so once.

API
  device_function(target) -> the function of a Host step, or None
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.opcode import Opcode
from xla_backend.process.bounded_cache import once
from xla_backend.runtime.host_libraries.lapack_calls import attributes_of
from xla_backend.targets.gpu.cuda.cupy_library import load_solvers

Arrays = Sequence[Any]
# fn(cupy, operands, results, attributes)
DeviceFunction = Callable[[Any, Arrays, Arrays, Any], None]
_TRANSPOSES = {"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}


def device_function(target: str | Opcode) -> DeviceFunction | None:
    """What runs a step on the device, if something does."""
    return _FUNCTIONS.get(target)


@once
def stays_on_host(target: str | Opcode) -> None:
    """Say of a routine of linear algebra that its operands and results go to the host and back; for
    each such routine once."""
    name = target.value if isinstance(target, Opcode) else target
    if name == Opcode.CHOLESKY.value or name.startswith("lapack"):
        warnings.warn(
            f"{name} runs on the host: nothing on the GPU does it for matrices of this size; its "
            "operands and results are copied there and back",
            stacklevel=2,
        )


def _fft(cupy: Any, operands: Arrays, results: Arrays, attributes: Any) -> None:
    (x,), (result,) = operands, results
    if 0 in x.shape or 0 in result.shape:
        result[...] = 0
        return
    length = tuple(attributes.fft_length)
    axes = tuple(range(-len(length), 0))
    transform = getattr(cupy.fft, f"{attributes.fft_type.lower()}n")
    result[...] = transform(x, s=length, axes=axes)


def _triangular_solve(cupy: Any, operands: Arrays, results: Arrays, attributes: Any) -> None:
    (a, b), (result,) = operands, results
    _solve(
        cupy,
        a,
        b,
        result,
        left=attributes.left_side,
        lower=attributes.lower,
        transpose=_TRANSPOSES[attributes.transpose_a],
        unit=attributes.unit_diagonal,
    )


def _trsm(cupy: Any, operands: Arrays, results: Arrays, attributes: Any) -> None:
    options = attributes_of(attributes)

    def letter(key: str, default: str) -> str:
        return chr(options.get(key, ord(default)))

    _solve(
        cupy,
        operands[0],
        operands[1],
        results[0],
        left=letter("side", "L") == "L",
        lower=letter("uplo", "L") == "L",
        transpose=letter("trans_x", "N"),
        unit=letter("diag", "N") == "U",
    )


def _solve(
    cupy: Any, a: Any, b: Any, result: Any, *, left: bool, lower: bool, transpose: str, unit: bool
) -> None:
    """One matrix of the batch after another: op(a) x = b, or x op(a) = b, which is
    op(a)^T x^T = b^T."""
    if 0 in b.shape:
        return
    solve = load_solvers().solve_triangular
    for index in np.ndindex(b.shape[:-2]):
        matrix, right = a[index], b[index]
        if left:
            x = solve(matrix, right, trans=transpose, lower=lower, unit_diagonal=unit)
            result[index] = x
            continue
        conjugate = transpose == "C"
        turned = {"N": "T", "T": "N", "C": "N"}[transpose]
        matrix = matrix.conj() if conjugate else matrix
        x = solve(matrix, right.T, trans=turned, lower=lower, unit_diagonal=unit)
        result[index] = x.T


def _eigenvectors(cupy: Any, operands: Arrays, results: Arrays, attributes: Any) -> None:
    (a,), (vectors, values, info) = operands, results
    options = attributes_of(attributes)
    triangle = chr(options.get("uplo", ord("L")))
    info[...] = 0
    if 0 in a.shape:
        return
    if chr(options.get("mode", ord("V"))) == "V":
        values[...], vectors[...] = cupy.linalg.eigh(a, UPLO=triangle)
    else:
        values[...] = cupy.linalg.eigvalsh(a, UPLO=triangle)
        vectors[...] = a


def _singular_values(cupy: Any, operands: Arrays, results: Arrays, attributes: Any) -> None:
    (a,), (scratch, values, u, vh, info) = operands, results
    mode = chr(attributes_of(attributes).get("mode", ord("S")))
    info[...] = 0
    scratch[...] = a
    if 0 in a.shape:
        for result in (values, u, vh):
            result[...] = 0
        return
    if mode in "AS":
        u[...], values[...], vh[...] = cupy.linalg.svd(a, full_matrices=mode == "A")
    else:
        values[...] = cupy.linalg.svd(a, compute_uv=False)
        u[...], vh[...] = 0, 0


def _lapack(routine: str, complex_name: str, function: DeviceFunction) -> dict[Any, DeviceFunction]:
    """All names of a custom call."""
    names = [f"lapack.{routine}"]
    names += [f"lapack_{letter}{routine}_ffi" for letter in "sd"]
    names += [f"lapack_{letter}{complex_name}_ffi" for letter in "cz"]
    return dict.fromkeys(names, function)


_FUNCTIONS: dict[str | Opcode, DeviceFunction] = {
    Opcode.FFT: _fft,
    Opcode.TRIANGULAR_SOLVE: _triangular_solve,
    **_lapack("trsm", "trsm", _trsm),
    **_lapack("syevd", "heevd", _eigenvectors),
    **_lapack("gesdd", "gesdd", _singular_values),
}
