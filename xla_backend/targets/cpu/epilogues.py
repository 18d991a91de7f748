"""Epilogues of products: the elementwise work on the result, as a kernel over batch, rows and
columns in which the product is a scratch buffer, the routine's own.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from xla_backend.hlo.instruction import Instruction
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.index import delinearize, linearize
from xla_backend.kernels.ir import BufferRole, Kernel
from xla_backend.passes.fusion_records import epilogue_record
from xla_backend.passes.output_fusion import product_of
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import KernelOperand, passed_buffers
from xla_backend.program.kernel_table import structural_key

# A GEMM does about this many multiply-adds in a cycle, an epilogue one vector.
_MULTIPLIES_PER_CYCLE = 16.0


class Epilogue(NamedTuple):
    """What a routine takes: the kernel, and what one element costs in it, in multiply-adds of a
    GEMM."""

    operand: KernelOperand
    weight: int


def epilogue_of(
    builder: ProgramBuilder, fusion: Instruction, in_place: int | None, *, whole: bool
) -> Epilogue:
    """The epilogue of a kOutput fusion; `in_place`: the result whose memory is that of the
    product. `whole`: the routine's blocks are of whole vectors of columns, but for the last."""
    roots = fusion.called[0].outputs
    product = product_of(fusion.called[0])
    kept = in_place if in_place is not None and roots[in_place] is product else None
    key = ("epilogue", structural_key(fusion), kept)
    scheduled = builder.kernels.get_epilogue(
        key, fusion, lambda name: _nest(fusion, name, kept), whole=whole
    )
    kernel = scheduled.kernel
    slices = tuple(
        builder.slice(fusion.operands[b.number])
        if b.role is BufferRole.OPERAND
        else builder.slice(fusion, b.number)
        for b in passed_buffers(kernel)
    )
    weight = math.ceil(scheduled.cycles * _MULTIPLIES_PER_CYCLE)
    return Epilogue(KernelOperand(kernel.name, slices), weight)


def _nest(fusion: Instruction, name: str, kept: int | None) -> Kernel:
    """Loops over batch, rows and columns; the result `kept` is the product itself and is there
    already."""
    fused = fusion.called[0]
    product = product_of(fused)
    builder = LoopBuilder(name)
    leaves = {
        p: builder.buffer(
            f"p{p.parameter_number}",
            p.shape.element_type,
            p.shape.num_elements,
            BufferRole.OPERAND,
            p.parameter_number,
        )
        for p in fused.parameters
        if any(user is not product for user in p.users)
    }
    leaves[product] = builder.buffer(
        "product", product.shape.element_type, product.shape.num_elements, BufferRole.SCRATCH
    )
    e = ElementalEmitter(builder, leaves)
    shape = epilogue_record(fusion).shape
    indices = [
        builder.open_loop(extent, independent=True, may_vectorize=n == 2)[0]
        for n, extent in enumerate(shape)
    ]
    linear = linearize(indices, shape)
    wanted = [(i, root) for i, root in enumerate(fused.outputs) if i != kept]
    elements = [e.value(root, delinearize(linear, root.shape.dimensions)) for _, root in wanted]
    # Everything is read before anything is written: a result may lie where an operand lies.
    for (i, root), element in zip(wanted, elements):
        type, size = root.shape.element_type, root.shape.num_elements
        e.store(builder.buffer(f"out{i}", type, size, BufferRole.OUTPUT, i), linear, element)
    for _ in indices:
        builder.close_loop()
    return builder.kernel
