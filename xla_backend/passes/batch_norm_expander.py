"""Batch normalisation in elementary operations."""

from __future__ import annotations

from xla_backend.hlo.attributes import BatchNormAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit, adopt

_OPCODES = (Opcode.BATCH_NORM_TRAINING, Opcode.BATCH_NORM_INFERENCE, Opcode.BATCH_NORM_GRAD)


class BatchNormExpander(HloPass):
    """batch-norm-training, -inference and -grad -> reductions and elementwise operations.

    Why: fusion and code generation know those.
    Needs: nothing.  Leaves: no batch-norm instruction.
    """

    name = "batch-norm-expander"
    opcodes = frozenset(_OPCODES)

    def run_on_computation(self, computation: Computation) -> bool:
        nodes = computation.post_order(*_OPCODES)
        for node in nodes:
            computation.replace(node, _EXPANSIONS[node.opcode](node))
        if nodes:
            adopt(computation)
        return bool(nodes)


class _BatchNorm(Emit):
    """Emitter that knows the feature dimension."""

    def __init__(self, node: Instruction) -> None:
        super().__init__(node)
        assert isinstance(node.attributes, BatchNormAttributes)
        self.feature = node.attributes.feature_index
        self.epsilon = node.attributes.epsilon
        self.x = node.operands[0]
        dims = self.x.shape.dimensions
        self.others = tuple(i for i in range(len(dims)) if i != self.feature)
        self.count = float(self.x.shape.num_elements // max(dims[self.feature], 1))

    def spread(self, per_feature: Instruction) -> Instruction:
        return self.broadcast(per_feature, self.x.shape.dimensions, (self.feature,))

    def total(self, x: Instruction) -> Instruction:
        return self.reduce_sum(x, self.others)

    def mean(self, x: Instruction) -> Instruction:
        total = self.total(x)
        return self.binary(Opcode.DIVIDE, total, self.splat(total.shape, self.count))

    def inverse_deviation(self, variance: Instruction) -> Instruction:
        shifted = self.binary(Opcode.ADD, variance, self.splat(variance.shape, self.epsilon))
        return self.unary(Opcode.RSQRT, shifted)

    def normalize(
        self, scale: Instruction, offset: Instruction, mean: Instruction, variance: Instruction
    ) -> Instruction:
        centered = self.binary(Opcode.SUBTRACT, self.x, self.spread(mean))
        inverse = self.inverse_deviation(variance)
        normal = self.binary(Opcode.MULTIPLY, centered, self.spread(inverse))
        scaled = self.binary(Opcode.MULTIPLY, normal, self.spread(scale))
        return self.binary(Opcode.ADD, scaled, self.spread(offset))


def _training(node: Instruction) -> Instruction:
    b = _BatchNorm(node)
    mean = b.mean(b.x)
    centered = b.binary(Opcode.SUBTRACT, b.x, b.spread(mean))
    variance = b.mean(b.binary(Opcode.MULTIPLY, centered, centered))
    return b.tuple(
        [b.normalize(node.operands[1], node.operands[2], mean, variance), mean, variance]
    )


def _inference(node: Instruction) -> Instruction:
    return _BatchNorm(node).normalize(*node.operands[1:])


def _grad(node: Instruction) -> Instruction:
    b = _BatchNorm(node)
    x, scale, mean, variance, grad = node.operands
    inverse = b.inverse_deviation(variance)
    centered = b.binary(Opcode.SUBTRACT, x, b.spread(mean))
    grad_offset = b.total(grad)
    projected = b.total(b.binary(Opcode.MULTIPLY, grad, centered))
    grad_scale = b.binary(Opcode.MULTIPLY, projected, inverse)
    # grad_x = scale * inverse * (grad - mean(grad) - centered * inverse^2 * mean(grad * centered))
    count = b.splat(mean.shape, b.count)
    mean_grad = b.binary(Opcode.DIVIDE, grad_offset, count)
    mean_projected = b.binary(Opcode.DIVIDE, projected, count)
    squared = b.binary(Opcode.MULTIPLY, inverse, inverse)
    slope = b.binary(Opcode.MULTIPLY, squared, mean_projected)
    inner = b.binary(Opcode.SUBTRACT, grad, b.spread(mean_grad))
    inner = b.binary(Opcode.SUBTRACT, inner, b.binary(Opcode.MULTIPLY, centered, b.spread(slope)))
    factor = b.binary(Opcode.MULTIPLY, scale, inverse)
    grad_x = b.binary(Opcode.MULTIPLY, b.spread(factor), inner)
    return b.tuple([grad_x, grad_scale, grad_offset])


_EXPANSIONS = {
    Opcode.BATCH_NORM_TRAINING: _training,
    Opcode.BATCH_NORM_INFERENCE: _inference,
    Opcode.BATCH_NORM_GRAD: _grad,
}
