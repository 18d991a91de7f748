"""kOutput fusions: a GEMM call whose blocks are finished by an epilogue as they become complete.

The product itself lies, in order of preference: in the memory of a result of the same type and
finished in place; in scratch memory of one block; in scratch memory of its whole size (products
with a long sum, and vectors).
"""

from __future__ import annotations

from xla_backend.hlo.attributes import FusionKind
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.llvm.target import TargetInfo
from xla_backend.passes.dots import dot_sizes
from xla_backend.passes.fusion_records import epilogue_record
from xla_backend.passes.output_fusion import product_of
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Slice, Step
from xla_backend.targets.cpu.conv_rules import convolution_step, direct_kind
from xla_backend.targets.cpu.dot_rules import Finish, product_step, runs_as_product
from xla_backend.targets.cpu.epilogues import epilogue_of
from xla_backend.targets.cpu.rules import RULES

# Sums up to this length are formed in one go, without results in memory between the pieces.
_LONGEST_SUM = 1024


def _output_fusion(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    fused, name = node.called[0], node.name
    product = product_of(fused)
    operands = [node.operands[p.parameter_number] for p in product.operands]
    added = epilogue_record(node).adds_to
    if added is not None:
        target = builder.slice(node)
        if builder.slice(node.operands[added]).same_memory(target):
            return [product_step(builder, name, product, operands, target, add=True)]
    home = _home(builder, node, product)
    convolution = product.opcode is Opcode.CONVOLUTION
    # Blocks of convolutions are rows of pixels.
    epilogue, weight = epilogue_of(builder, node, home, whole=not convolution)
    place = _scratch(builder, product) if home is None else builder.slice(node, home)
    if convolution:
        kind = direct_kind(product)
        assert kind is not None and place is not None
        routine = f"conv_direct_{kind}_{product.shape.element_type}"
        return [convolution_step(builder, name, product, operands, place, routine, (epilogue,))]
    finish = Finish(epilogue, 0, weight)
    return [product_step(builder, name, product, operands, place, finish=finish)]


RULES.fusions[FusionKind.OUTPUT] = _output_fusion


def takes_epilogue(target: TargetInfo, product: Instruction) -> bool:
    """Whether code for `target` of a dot or convolution can hand its blocks to an epilogue."""
    if product.opcode is Opcode.DOT:
        return runs_as_product(product)
    # The direct kernels of convolutions need masks.
    return target.has_masks and direct_kind(product) is not None


def _home(builder: ProgramBuilder, node: Instruction, product: Instruction) -> int | None:
    """The result whose memory can hold the product until it is finished: no operand lies there,
    and elements are of the same size. The product's own memory, if it is a result, first."""
    size = product.shape.element_type.byte_size
    operands = [builder.slice(o) for o in node.operands]
    shapes = node.shape.flatten()
    # The product is the last result if it is one at all.
    for leaf in reversed(range(len(shapes))):
        place = builder.slice(node, leaf)
        if shapes[leaf].element_type.byte_size == size:
            if not any(place.overlaps(operand) for operand in operands):
                return leaf
    return None


def _scratch(builder: ProgramBuilder, product: Instruction) -> Slice | None:
    """Memory for a product that is no result; None where a block at a time is enough."""
    if product.opcode is Opcode.DOT:
        sizes = dot_sizes(product)
        if sizes.k <= _LONGEST_SUM and min(sizes.m, sizes.n) > 1:
            return None
    return builder.scratch(product.shape)
