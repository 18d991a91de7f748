"""The types of the results of dots of narrow floats, whose sums are formed in f32: f32 where the
rounding is better done apart, narrow where the product does it."""

from __future__ import annotations

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.dots import dot_attributes, dot_sizes
from xla_backend.passes.emit import Emit

_NARROW = frozenset({PrimitiveType.BF16, PrimitiveType.F16})
# Products with longer sums keep them in memory between pieces.
_LONGEST_PIECE = 128


def _widened(node: Instruction) -> Instruction | None:
    if node.shape.element_type not in _NARROW or dot_sizes(node).k <= _LONGEST_PIECE:
        return None
    b = Emit(node)
    wide = node.shape.with_type(PrimitiveType.F32)
    dot = b.add(Opcode.DOT, node.operands, node.attributes, shape=wide)
    return b.convert(dot, node.shape.element_type)


class DotResultWidening(RuleTablePass):
    """bf16 dot with a long sum -> convert(f32 dot).

    Why: a sum that goes through memory in pieces would be rounded to 8 bits at each; the rounding
    at the end becomes part of the product's epilogue.
    Needs: nothing.
    Leaves: no dot with a bf16 or f16 result and a sum of more than 128 terms.
    """

    name = "dot-result-widening"
    opcodes = frozenset({Opcode.DOT})
    rules = {Opcode.DOT: (_widened,)}


def _narrowed(node: Instruction) -> Instruction | None:
    (dot,) = node.operands
    narrow = node.shape.element_type
    if dot.opcode is not Opcode.DOT or narrow not in _NARROW or len(dot.users) != 1:
        return None
    types = {o.shape.element_type for o in dot.operands}
    wide = dot.shape.element_type is PrimitiveType.F32
    if not wide or types != {narrow} or dot_attributes(dot).algorithm is not None:
        return None
    assert dot.parent is not None
    if dot.parent.root is dot:
        return None
    return Emit(node).add(Opcode.DOT, dot.operands, dot.attributes, shape=node.shape)


class DotResultNarrowing(RuleTablePass):
    """convert(f32 dot of bf16) -> bf16 dot.

    Why: who multiplies rounds too, and no array of f32 is written and read.
    Needs: the target forms sums of bf16 and f16 in f32, and rounds them once.
    Leaves: no conversion of the f32 product of two arrays of bf16 or f16 to their type, where
    nobody else reads the product.
    """

    name = "dot-result-narrowing"
    opcodes = frozenset({Opcode.CONVERT})
    rules = {Opcode.CONVERT: (_narrowed,)}
