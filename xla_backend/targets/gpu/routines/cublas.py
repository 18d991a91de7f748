"""Matrix products by cuBLAS: `cublas_gemm_<name>` for the rows of `TYPES`.

Operands, with strides in elements:

    batches m n k
    lhs  batch_stride  outer_stride  inner_stride     batches x m x k, anywhere in memory
    rhs  batch_stride  outer_stride  inner_stride     batches x n x k
    out                                               batches x m x n, row-major

One of the two strides of an operand is 1; the other is the leading dimension. cuBLAS takes matrices
by columns, so the call is out^T = rhs @ lhs^T, where what lies with `inner_stride` 1 is handed over
transposed for rhs and for lhs not:

    gemmStridedBatchedEx(handle, OP_T if rhs.inner_stride == 1 else OP_N,
                         OP_N if lhs.inner_stride == 1 else OP_T,
                         n, m, k, alpha, rhs, type, ld, stride, lhs, type, ld, stride,
                         beta, out, type, n, m * n, batches, compute, algorithm)

with alpha 1 and beta 0, numbers of the type `scale`. An `out` of zero elements is never asked for.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from xla_backend.hlo.attributes import ReducePrecisionAttributes
from xla_backend.hlo.evaluator.conversions import convert_array, reduce_precision
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.program.routines import Kind, Parameter, Routine

P = PrimitiveType


class GemmType(NamedTuple):
    """A row of the table.

    Fields:
      name: the end of the routine's name.
      source, target: the types of both factors, and of the result.
      scale: the type of alpha and beta.
      data: the names that cuBLAS has for the first two.
      compute: cuBLAS's name of the way to compute, CUBLAS_COMPUTE_...
    """

    name: str
    source: P
    target: P
    scale: P
    data: tuple[str, str]
    compute: str


TYPES = {
    t.name: t
    for t in (
        GemmType("f32", P.F32, P.F32, P.F32, ("CUDA_R_32F",) * 2, "CUBLAS_COMPUTE_32F"),
        GemmType(
            "f32_tf32", P.F32, P.F32, P.F32, ("CUDA_R_32F",) * 2, "CUBLAS_COMPUTE_32F_FAST_TF32"
        ),
        GemmType("f64", P.F64, P.F64, P.F64, ("CUDA_R_64F",) * 2, "CUBLAS_COMPUTE_64F"),
        GemmType("f16", P.F16, P.F16, P.F32, ("CUDA_R_16F",) * 2, "CUBLAS_COMPUTE_32F"),
        GemmType(
            "f16_f32", P.F16, P.F32, P.F32, ("CUDA_R_16F", "CUDA_R_32F"), "CUBLAS_COMPUTE_32F"
        ),
        GemmType("bf16", P.BF16, P.BF16, P.F32, ("CUDA_R_16BF",) * 2, "CUBLAS_COMPUTE_32F"),
        GemmType(
            "bf16_f32", P.BF16, P.F32, P.F32, ("CUDA_R_16BF", "CUDA_R_32F"), "CUBLAS_COMPUTE_32F"
        ),
    )
}
_STRIDES = ("batch_stride", "outer_stride", "inner_stride")


def _numbers(*names: str) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, Kind.NUMBER) for name in names)


def _routine(t: GemmType) -> Routine:
    parameters = (
        *_numbers("batches", "m", "n", "k"),
        Parameter("lhs", Kind.READ, t.source),
        *_numbers(*(f"lhs_{s}" for s in _STRIDES)),
        Parameter("rhs", Kind.READ, t.source),
        *_numbers(*(f"rhs_{s}" for s in _STRIDES)),
        Parameter("out", Kind.WRITE, t.target),
    )
    return Routine(f"cublas_gemm_{t.name}", parameters, partial(_run, t))


def _run(t: GemmType, batches: int, m: int, n: int, k: int, *rest: Any) -> None:
    lhs, (lb, lo, li), rhs, (rb, ro, ri), out = (
        rest[0], rest[1:4], rest[4], rest[5:8], rest[8],
    )  # fmt: skip
    x = _matrices(t, lhs, (batches, m, k), (lb, lo, li))
    y = _matrices(t, rhs, (batches, k, n), (rb, ri, ro))
    wide = np.float64 if t.scale is P.F64 else np.float32
    with np.errstate(all="ignore"):
        product = x.astype(wide) @ y.astype(wide)
        out[:] = convert_array(product, t.target).reshape(-1)


def _matrices(
    t: GemmType, flat: np.ndarray, extents: tuple[int, ...], strides: tuple[int, ...]
) -> np.ndarray:
    """The elements as they are multiplied."""
    place: Any = 0
    for extent, stride in zip(extents, strides):
        place = np.asarray(place)[..., None] + np.arange(extent) * stride
    found = flat[place]
    return _to_tf32(found) if t.compute.endswith("TF32") else found


def _to_tf32(x: np.ndarray) -> np.ndarray:
    parameter = Instruction(Opcode.PARAMETER, Shape.array(P.F32))
    node = Instruction(
        Opcode.REDUCE_PRECISION,
        Shape.array(P.F32),
        [parameter],
        ReducePrecisionAttributes(8, 10),
    )
    return reduce_precision(node, x)


ROUTINES = {r.name: r for r in map(_routine, TYPES.values())}
