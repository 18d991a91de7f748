"""Long sums of narrow floats: f32 results, rounded once."""

from __future__ import annotations

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.dots import dot_sizes
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
