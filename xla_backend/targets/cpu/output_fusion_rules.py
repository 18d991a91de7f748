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
from xla_backend.passes.dots import DotSizes, dot_sizes
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
# Of the longest registers of processors.
_VECTOR_BYTES = 64


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
        # Of short rows a loop over all elements fills vectors, where an epilogue goes row by row.
        sizes, lanes = dot_sizes(product), target.lanes(8 * product.shape.element_type.byte_size)
        short = min(sizes.m, sizes.n) > 1 and 2 * sizes.columns <= lanes
        return runs_as_product(product) and not short
    # The direct kernels of convolutions need masks.
    return target.has_masks and direct_kind(product) is not None


def _home(builder: ProgramBuilder, node: Instruction, product: Instruction) -> int | None:
    """The result whose memory can hold the product until it is finished: no operand lies there,
    and elements are of the same size. The product's own memory, if it is a result, first."""
    if _is_narrow(product):
        return None
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


def _is_narrow(product: Instruction) -> bool:
    """Whether rows are less than a vector, and blocks of them need no memory. In place each row
    would wait for the one before: its vector covers what that has just stored under a mask, which
    processors do not forward."""
    if product.opcode is not Opcode.DOT:
        return False
    sizes = dot_sizes(product)
    row_bytes = sizes.columns * product.shape.element_type.byte_size
    return row_bytes < _VECTOR_BYTES and _fits_blocks(sizes)


def _fits_blocks(sizes: DotSizes) -> bool:
    return sizes.k <= _LONGEST_SUM and min(sizes.m, sizes.n) > 1


def _scratch(builder: ProgramBuilder, product: Instruction) -> Slice | None:
    """Memory for a product that is no result; None where a block at a time is enough."""
    if product.opcode is Opcode.DOT:
        if _fits_blocks(dot_sizes(product)):
            return None
    return builder.scratch(product.shape)
