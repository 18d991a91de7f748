"""The types in which the operands of a dot lie in memory: wider where a target has no product of
them, narrower where nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.dots import dot_attributes, dot_sizes
from xla_backend.passes.emit import Emit

P = PrimitiveType
# Products and sums of these are those of the result's type, so operands may be converted to it.
_SUMS = frozenset(t for t in P if t.is_integral and t.bits >= 16) | {P.F32, P.F64}
_BYTES = frozenset({P.S8, P.U8})


class DotOperandWidening(RuleTablePass):
    """dot(s16, s16) -> dot(s32, s32) where the result is s32, f8 -> f32, and the like.

    Why: what a target has no product of runs as plain loops, which are far slower than a pass over
    the operands.
    Needs: `known` says whether the target has a product of the types of a dot.
    Leaves: no dot with a wide result that the target only has a product of in the result's type.
    """

    name = "dot-operand-widening"
    opcodes = frozenset({Opcode.DOT})

    def __init__(
        self, known: Callable[[P, P, P], bool] = lambda lhs, rhs, result: lhs is rhs is result
    ) -> None:
        self.rules = {Opcode.DOT: (partial(_widened, known),)}


def _widened(known: Callable[[P, P, P], bool], node: Instruction) -> Instruction | None:
    result = node.shape.element_type
    types = [o.shape.element_type for o in node.operands]
    if result not in _SUMS or any(t.is_complex for t in types) or 0 in dot_sizes(node):
        return None
    if known(types[0], types[1], result) or not known(result, result, result):
        return None
    b = Emit(node)
    operands = [b.convert(o, result) for o in node.operands]
    return b.add(Opcode.DOT, operands, node.attributes, shape=node.shape)


def _narrowed(node: Instruction) -> Instruction | None:
    result = node.shape.element_type
    if not result.is_integral or result.bits > 32 or dot_attributes(node).algorithm is not None:
        return None
    sources = [_source(operand, result) for operand in node.operands]
    if None in sources:
        return None
    return Emit(node).add(Opcode.DOT, [s for s in sources if s], node.attributes, shape=node.shape)


def _source(operand: Instruction, result: P) -> Instruction | None:
    """The bytes that an operand was converted from, keeping what the result keeps of them."""
    if operand.opcode is not Opcode.CONVERT:
        return None
    (source,) = operand.operands
    wide = operand.shape.element_type
    is_kept = wide.is_integral and wide.bits >= result.bits
    return source if source.shape.element_type in _BYTES and is_kept else None


class DotOperandNarrowing(RuleTablePass):
    """dot(convert(s8), convert(u8)) -> dot(s8, u8).

    Why: hardware that multiplies tiles of bytes does so many times as fast as it multiplies
    integers of 32 bits, and reads a fourth of the memory.
    Needs: the target forms sums in the type of the result.
    Leaves: no dot of 32 bits or fewer whose operands are both bytes that were converted.
    """

    name = "dot-operand-narrowing"
    opcodes = frozenset({Opcode.DOT})
    rules = {Opcode.DOT: (_narrowed,)}
