"""Operations that call back into Python: custom calls, FFT, and the dense solvers of HLO through
LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.fft

from xla_backend.hlo.attributes import ALLOCATE_BUFFER
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.runtime.custom_calls import HostCall, HostFunction, find_custom_call
from xla_backend.targets.cpu import lapack_calls
from xla_backend.targets.cpu.driver import Driver, runs
from xla_backend.targets.cpu.library_threads import on_library_threads

_FFT = {
    "FFT": scipy.fft.fftn,
    "IFFT": scipy.fft.ifftn,
    "RFFT": scipy.fft.rfftn,
    "IRFFT": scipy.fft.irfftn,
}


def call_host(driver: Driver, node: Instruction, function: HostFunction) -> None:
    """Native call of the trampoline with the addresses of operands and results."""
    operand_shapes = []
    addresses = []
    for operand in node.operands:
        for leaf, shape in enumerate(operand.shape.flatten()):
            if shape.is_array:
                operand_shapes.append(shape)
                addresses.append(driver.address(operand, leaf))
    result_shapes = []
    for leaf, shape in enumerate(node.shape.flatten()):
        if shape.is_array:
            result_shapes.append(shape)
            addresses.append(driver.address(node, leaf))
    call = HostCall(function, operand_shapes, result_shapes, node.attributes)
    driver.host_calls.append(call)
    w = driver.w
    table = w.alloca("ptr", max(1, len(addresses)), 8)
    for i, address in enumerate(addresses):
        w.store("ptr", address, w.gep("ptr", table, i))
    driver.can_be_stopped = True  # host calls look whether the program was interrupted
    status = w.call("pyjax_host_call", "i32", [("i64", str(call.number)), ("ptr", table)])
    driver.check_status(status)


@runs(Opcode.CUSTOM_CALL)
def _custom_call(driver: Driver, node: Instruction) -> None:
    target = node.attributes.target  # type: ignore[attr-defined]
    if target == ALLOCATE_BUFFER:
        return  # memory as it is
    function = find_custom_call(target)
    if function is None:
        raise UnimplementedError(
            f"{node!r}: no function is registered for custom-call target {target!r} on CPU; "
            f"register one with "
            "register_custom_call"
        )
    call_host(driver, node, function)


@runs(Opcode.FFT)
def _fft(driver: Driver, node: Instruction) -> None:
    call_host(driver, node, _run_fft)


def _run_fft(operands: list[np.ndarray], results: list[np.ndarray], attributes: Any) -> None:
    (x,), (result,) = operands, results
    if result.size == 0 or x.size == 0:
        result[...] = 0
        return
    length = attributes.fft_length
    axes = tuple(range(-len(length), 0))
    result[...] = _FFT[attributes.fft_type](x, s=length, axes=axes)


@runs(Opcode.CHOLESKY)
def _cholesky(driver: Driver, node: Instruction) -> None:
    call_host(driver, node, _run_cholesky)


def _run_cholesky(operands: list[np.ndarray], results: list[np.ndarray], attributes: Any) -> None:
    """One triangle is read, the other is zero in the result; a matrix that is not positive definite
    gives NaN."""
    (a,), (result,) = operands, results
    if a.size:
        on_library_threads(a.shape[-1], _factor, a, attributes.lower, result)


def _factor(a: np.ndarray, lower: bool, result: np.ndarray) -> None:
    triangle = np.tril if lower else np.triu
    (potrf,) = lapack_calls.scipy.linalg.lapack.get_lapack_funcs(("potrf",), (a,))
    for index in np.ndindex(a.shape[:-2]):
        matrix = a[index]
        factor, info = potrf(matrix, lower=int(lower), clean=1)
        result[index] = triangle(np.full(matrix.shape, np.nan, matrix.dtype)) if info else factor


@runs(Opcode.TRIANGULAR_SOLVE)
def _triangular_solve(driver: Driver, node: Instruction) -> None:
    call_host(driver, node, _run_triangular_solve)


def _run_triangular_solve(
    operands: list[np.ndarray], results: list[np.ndarray], attributes: Any
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

    on_library_threads(max(b.shape[-2:]), solve)


@runs(
    Opcode.ALL_REDUCE,
    Opcode.ALL_GATHER,
    Opcode.ALL_TO_ALL,
    Opcode.REDUCE_SCATTER,
    Opcode.COLLECTIVE_BROADCAST,
    Opcode.COLLECTIVE_PERMUTE,
    Opcode.RAGGED_ALL_TO_ALL,
    Opcode.PARTITION_ID,
    Opcode.REPLICA_ID,
)
def _of_several_participants(driver: Driver, node: Instruction) -> None:
    """Among one participant these are gone by now."""
    module = driver.module
    raise UnimplementedError(
        f"{node!r}: the CPU backend runs collectives for one participant, and this module has "
        f"{module.replica_count} replica(s) of {module.num_partitions} partition(s); compile it "
        "with replica_count=1 and num_partitions=1"
    )
