"""What the host runs for a program, besides custom calls: FFT, the dense solvers of HLO through
LAPACK, and transfers. Each is `fn(operands, results, attributes, context)` on NumPy arrays, as
custom calls are.

API
  host_function(target) -> the function of a program's Host step
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.host_queues import INFEED_QUEUE, channel_queue, take
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.process.on_first_use import on_first_use
from xla_backend.runtime.client import ExecutionContext as Context
from xla_backend.runtime.custom_calls import HostFunction, find_custom_call
from xla_backend.runtime.host_libraries import lapack_calls
from xla_backend.runtime.host_libraries.library_threads import on_library_threads, size_of
from xla_backend.runtime.transfers import Transfer

# SciPy takes as long to load as the compiler: it waits for a program that needs it.
_get_lapack_funcs = on_first_use("scipy.linalg.lapack", "get_lapack_funcs")
_FFT = {
    kind: on_first_use("scipy.fft", name)
    for kind, name in (("FFT", "fftn"), ("IFFT", "ifftn"), ("RFFT", "rfftn"), ("IRFFT", "irfftn"))
}
Arrays = Sequence[np.ndarray]


def _run_fft(operands: Arrays, results: Arrays, attributes: Any, context: Context) -> None:
    (x,), (result,) = operands, results
    if result.size == 0 or x.size == 0:
        result[...] = 0
        return
    length = attributes.fft_length
    axes = tuple(range(-len(length), 0))
    result[...] = _FFT[attributes.fft_type](x, s=length, axes=axes)


def _run_cholesky(operands: Arrays, results: Arrays, attributes: Any, context: Context) -> None:
    """One triangle is read, the other is zero in the result; a matrix that is not positive definite
    gives NaN."""
    (a,), (result,) = operands, results
    if a.size:
        on_library_threads(a.shape[-1], _factor, a, attributes.lower, result)


def _factor(a: np.ndarray, lower: bool, result: np.ndarray) -> None:
    triangle = np.tril if lower else np.triu
    (potrf,) = _get_lapack_funcs(("potrf",), (a,))
    for index in np.ndindex(a.shape[:-2]):
        matrix = a[index]
        factor, info = potrf(matrix, lower=int(lower), clean=1)
        result[index] = triangle(np.full(matrix.shape, np.nan, matrix.dtype)) if info else factor


def _run_triangular_solve(
    operands: Arrays, results: Arrays, attributes: Any, context: Context
) -> None:
    (a, b), (result,) = operands, results
    if b.size == 0:
        return
    transpose = {"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}[attributes.transpose_a]

    def solve() -> None:
        for index in np.ndindex(b.shape[:-2]):
            result[index] = lapack_calls.trsm(
                a[index],
                b[index],
                left=attributes.left_side,
                lower=attributes.lower,
                transpose=transpose,
                unit=attributes.unit_diagonal,
            )

    on_library_threads(size_of(b.shape), solve)


# -- transfers -------------------------------------------------------------------------------------


def _run_infeed(operands: Arrays, results: Arrays, transfer: Transfer, context: Context) -> None:
    queue = context.device.host.infeed
    _fill(results, take(queue, _shapes(results), transfer.reader, INFEED_QUEUE))


def _run_outfeed(operands: Arrays, results: Arrays, transfer: Transfer, context: Context) -> None:
    context.device.host.outfeed.append([np.array(x) for x in operands])


def _run_send(operands: Arrays, results: Arrays, transfer: Transfer, context: Context) -> None:
    """The result is the operands and a number that means nothing."""
    sent = context.device.host.from_device.setdefault(transfer.channel, [])
    sent.append([np.array(x) for x in operands])
    _fill(results, [*operands, np.zeros((), np.uint32)])


def _run_recv(operands: Arrays, results: Arrays, transfer: Transfer, context: Context) -> None:
    queue = context.device.host.to_device.get(transfer.channel)
    _fill(results, take(queue, _shapes(results), transfer.reader, channel_queue(transfer.channel)))


def _shapes(arrays: Arrays) -> list[Shape]:
    return [Shape.of(x) for x in arrays]


def _fill(results: Arrays, values: Arrays) -> None:
    for result, value in zip(results, values):
        result[...] = value


_FUNCTIONS: dict[Opcode, HostFunction] = {
    Opcode.FFT: _run_fft,
    Opcode.CHOLESKY: _run_cholesky,
    Opcode.TRIANGULAR_SOLVE: _run_triangular_solve,
    Opcode.INFEED: _run_infeed,
    Opcode.OUTFEED: _run_outfeed,
    Opcode.SEND: _run_send,
    Opcode.RECV_DONE: _run_recv,
}


def host_function(target: str | Opcode) -> HostFunction:
    """The function of a Host step, by its target.

    Raises:
      UnimplementedError: no function is registered for a custom call.
    """
    function = _FUNCTIONS[target] if isinstance(target, Opcode) else find_custom_call(target)
    if function is None:
        raise UnimplementedError(
            f"no function is registered for custom-call target {target!r}; register one with "
            "register_custom_call"
        )
    return function
