"""scaled-dot -> dot of operands times their scales."""

from __future__ import annotations

from xla_backend.hlo.attributes import DotAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit

P = PrimitiveType


class ScaledDotRewriter(HloPass):
    """scaled-dot(x, y, sx, sy) -> dot(x * sx, y * sy), each scale repeated over its block.

    The product is taken in the wider of f32 and the result's type: elements and scales are of a
    few bits, their products are not.

    Why: dots have kernels.  Needs: nothing.  Leaves: no scaled-dot.
    """

    name = "scaled-dot-rewriter"
    opcodes = frozenset({Opcode.SCALED_DOT})

    def run_on_computation(self, computation: Computation) -> bool:
        nodes = computation.post_order(Opcode.SCALED_DOT)
        for node in nodes:
            computation.replace(node, _rewrite(node))
        return bool(nodes)


def _rewrite(node: Instruction) -> Instruction:
    assert isinstance(node.attributes, DotAttributes)
    b = Emit(node)
    lhs, rhs, lhs_scale, rhs_scale = node.operands
    wide = P.F64 if node.shape.element_type is P.F64 else P.F32
    operands = [_scaled(b, lhs, lhs_scale, wide), _scaled(b, rhs, rhs_scale, wide)]
    product = b.add(Opcode.DOT, operands, node.attributes, shape=node.shape.with_type(wide))
    return b.convert(product, node.shape.element_type)


def _scaled(b: Emit, x: Instruction, scale: Instruction, wide: PrimitiveType) -> Instruction:
    x, scale = b.convert(x, wide), b.convert(scale, wide)
    dims, blocks = x.shape.dimensions, scale.shape.dimensions
    if not blocks:
        return b.binary(Opcode.MULTIPLY, x, b.broadcast(scale, dims, ()))
    # [n] times [n / k]: broadcast to [n / k, k] and merge.
    split = [(m, n // max(m, 1)) for n, m in zip(dims, blocks)]
    repeated = b.broadcast(
        scale, [size for pair in split for size in pair], range(0, 2 * len(split), 2)
    )
    return b.binary(Opcode.MULTIPLY, x, b.reshape(repeated, dims))
