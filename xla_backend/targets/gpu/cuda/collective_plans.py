"""How NCCL performs a collective: which arrays it adds up itself, and what memory is needed beside
operands and results.

NCCL moves any bytes, and reduces some types by four operations. The largest or least of floats it
forms without regard to NaN, which programs here keep; so what it reduces otherwise than they do,
or not at all, is brought together and combined by the program's own kernel, in the order of the
group.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.program.ir import Collective, Program, Slice, aligned, all_steps

P = PrimitiveType


class Reduction(NamedTuple):
    """A reduction of NCCL.

    Fields:
      type, operation: their names there, without NCCL_.
      parts: how many elements of that type are one of the array's.
    """

    type: str
    operation: str
    parts: int = 1


_TYPES = {
    P.S8: "INT8",
    P.U8: "UINT8",
    P.S32: "INT32",
    P.U32: "UINT32",
    P.S64: "INT64",
    P.U64: "UINT64",
    P.F16: "FLOAT16",
    P.BF16: "BFLOAT16",
    P.F32: "FLOAT32",
    P.F64: "FLOAT64",
}
_OPERATIONS = {
    Opcode.ADD: "SUM",
    Opcode.MULTIPLY: "PROD",
    Opcode.MAXIMUM: "MAX",
    Opcode.MINIMUM: "MIN",
}
# Truth values are bytes, 0 or 1.
_OF_TRUTH = {
    Opcode.AND: "MIN",
    Opcode.MINIMUM: "MIN",
    Opcode.MULTIPLY: "MIN",
    Opcode.OR: "MAX",
    Opcode.MAXIMUM: "MAX",
}
_OF_COMPLEX = {P.C64: "FLOAT32", P.C128: "FLOAT64"}


def reduction(combiner: Opcode | None, type: PrimitiveType) -> Reduction | None:
    """NCCL's reduction that does what this one does; None: there is none."""
    if combiner is None:
        return None
    if type is P.PRED:
        operation = _OF_TRUTH.get(combiner)
        return None if operation is None else Reduction("UINT8", operation)
    if type in _OF_COMPLEX:
        return Reduction(_OF_COMPLEX[type], "SUM", 2) if combiner is Opcode.ADD else None
    if type.is_floating and combiner in (Opcode.MAXIMUM, Opcode.MINIMUM):
        return None
    name, operation = _TYPES.get(type), _OPERATIONS.get(combiner)
    return None if name is None or operation is None else Reduction(name, operation)


def reduction_of(step: Collective, number: int) -> Reduction | None:
    """That of an operand of a reducing collective."""
    return reduction(step.exchange.combiner, step.operands[number].shape.element_type)


def rows_of(shape: Shape, dimension: int) -> tuple[int, int]:
    """How many rows an array has that begin at a dimension, and the bytes of each."""
    rows = 1
    for extent in shape.dimensions[:dimension]:
        rows *= extent
    return rows, shape.byte_size // max(1, rows)


def collectives_of(program: Program) -> Iterator[Collective]:
    """All steps of a program that exchange arrays."""
    for steps in (program.steps, *program.procedures.values()):
        for step in all_steps(steps):
            if isinstance(step, Collective):
                yield step


def scratch_bytes(step: Collective) -> int:
    """Of the memory that performing a collective takes. Its operands use it one after another."""
    most = max((len(group) for group in step.exchange.groups), default=0)
    return max(
        (_bytes_for(step, n, place, most) for n, place in enumerate(step.operands)), default=0
    )


def _bytes_for(step: Collective, number: int, operand: Slice, members: int) -> int:
    x = step.exchange
    if x.reduces:
        if reduction_of(step, number) is not None:
            return 0
        # What each member gave, and one that is half combined.
        return (members + 1) * aligned(step.results[number].size)
    if x.opcode not in (Opcode.ALL_GATHER, Opcode.ALL_TO_ALL) or x.dimension is None:
        return 0
    rows, _ = rows_of(operand.shape, x.dimension)
    if rows == 1:
        return 0
    # Rows of what all gave; what goes to each member, and what comes from each.
    return members * operand.size if x.opcode is Opcode.ALL_GATHER else 2 * aligned(operand.size)
