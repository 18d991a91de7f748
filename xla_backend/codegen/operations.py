"""Elementwise operations of kernels to LLVM text: what attributes say, and then `elemental`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.ir import Contraction
from xla_backend.llvm import elemental
from xla_backend.llvm.types import register_type, vector
from xla_backend.llvm.writer import FunctionWriter

# What a machine can do with the operation next to it, and for which types.
_FUSED = {Opcode.MULTIPLY: "fmul", Opcode.ADD: "fadd"}
FUSED_TYPES = (PrimitiveType.F32, PrimitiveType.F64)


def operation(
    w: FunctionWriter,
    opcode: Opcode,
    attributes: Any,
    source: PrimitiveType,
    result: PrimitiveType,
    lanes: int,
    operands: Sequence[str],
) -> str:
    """Code for an elementwise operation on `lanes` lanes of a vector. `source`: the type of its
    first operand."""
    if opcode is Opcode.COMPARE:
        a = attributes
        return elemental.emit_compare(
            w, a.direction.value, source, lanes, operands[0], operands[1], a.total_order
        )
    if opcode is Opcode.SELECT:
        return elemental.emit_select(w, result, lanes, *operands)  # type: ignore[no-any-return]
    if opcode is Opcode.CONVERT:
        return elemental.emit_convert(w, source, result, lanes, operands[0])  # type: ignore[no-any-return]
    if opcode is Opcode.CLAMP:
        return elemental.emit_clamp(w, result, lanes, *operands)  # type: ignore[no-any-return]
    if opcode is Opcode.BITCAST_CONVERT:
        return elemental.emit_bitcast_convert(w, source, result, lanes, operands[0])  # type: ignore[no-any-return]
    if opcode is Opcode.REDUCE_PRECISION:
        a = attributes
        return elemental.emit_reduce_precision(
            w, source, lanes, operands[0], a.exponent_bits, a.mantissa_bits
        )
    if isinstance(attributes, Contraction) and source in FUSED_TYPES:
        contracted = f"{_FUSED[opcode]} contract"
        return w.op(contracted, vector(register_type(source), lanes), *operands)
    return elemental.emit(w, opcode.value, source, lanes, *operands)  # type: ignore[no-any-return]
