"""kOutput fusions: a GEMM call whose blocks are finished by an epilogue as they become complete.

The product itself lies, in order of preference: in the memory of a result of the same type and
finished in place; in scratch memory of one block; in scratch memory of its whole size (products
with a long sum, and vectors).
"""

from __future__ import annotations

from xla_backend.hlo.attributes import FusionKind
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.ir import BufferRole
from xla_backend.passes.buffer_assignment import BufferSlice
from xla_backend.passes.dots import dot_sizes
from xla_backend.passes.output_fusion import (
    accumulated_parameter,
    product_of,
)
from xla_backend.targets.cpu.conv_rules import direct_kind, emit_convolution
from xla_backend.targets.cpu.dot_rules import Finish, emit_product, runs_as_product
from xla_backend.targets.cpu.driver import FUSION_RULES, Driver, cycles_of
from xla_backend.targets.cpu.epilogues import epilogue_of
from xla_backend.targets.cpu.routines.conv_direct import direct_symbol

# Sums up to this length are formed in one go, without results in memory between the pieces.
_LONGEST_SUM = 1024


def _run(driver: Driver, node: Instruction) -> None:
    fused = node.called[0]
    product = product_of(fused)
    operands = [node.operands[p.parameter_number] for p in product.operands]
    added = accumulated_parameter(fused)
    if added is not None and driver.place(node.operands[added]) == driver.place(node):
        emit_product(driver, product, operands, driver.address(node), add=True)
        return
    home = _home(driver, node, product)
    epilogue = epilogue_of(driver.kernels, node, home)
    w = driver.w
    data = w.alloca("ptr", max(1, len(epilogue.buffers)), 8)
    for i, buffer in enumerate(epilogue.buffers):
        operand = buffer.role is BufferRole.OPERAND
        source = node.operands[buffer.number] if operand else node
        address = driver.address(source, 0 if operand else buffer.number)
        w.store("ptr", address, w.gep("ptr", data, i))
    target = _scratch(driver, product) if home is None else driver.address(node, home)
    if product.opcode is Opcode.CONVOLUTION:
        kind = direct_kind(product)
        assert kind is not None
        driver.cycles = float("inf")
        function = direct_symbol(product.shape.element_type.value, kind)
        emit_convolution(driver, product, operands, target, function, (f"@{epilogue.symbol}", data))
        driver.can_be_stopped = True
        driver.spend(cycles_of(product))
        return
    finish = Finish(f"@{epilogue.symbol}", data, 0, epilogue.weight)
    emit_product(driver, product, operands, target, finish=finish)


FUSION_RULES[FusionKind.OUTPUT] = _run


def takes_epilogue(product: Instruction) -> bool:
    """Whether a dot or convolution can hand its blocks to an epilogue."""
    if product.opcode is Opcode.DOT:
        return runs_as_product(product)
    return direct_kind(product) is not None


def _home(driver: Driver, node: Instruction, product: Instruction) -> int | None:
    """The result whose memory can hold the product until it is finished: no operand lies there,
    and elements are of the same size. The product's own memory, if it is a result, first."""
    size = product.shape.element_type.byte_size
    operands = [driver.place(o) for o in node.operands]
    shapes = node.shape.flatten()
    # The product is the last result if it is one at all.
    for leaf in reversed(range(len(shapes))):
        place = driver.place(node, leaf)
        if shapes[leaf].element_type.byte_size == size:
            if not any(_overlap(place, operand) for operand in operands):
                return leaf
    return None


def _overlap(a: BufferSlice, b: BufferSlice) -> bool:
    if a.kind is not b.kind or a.index != b.index:
        return False
    return a.offset < b.offset + b.size and b.offset < a.offset + a.size


def _scratch(driver: Driver, product: Instruction) -> str:
    """Address for a product that is no result; "null" where a block at a time is enough."""
    if product.opcode is Opcode.CONVOLUTION:
        return driver.scratch(product.shape.byte_size)
    sizes = dot_sizes(product)
    if sizes.k <= _LONGEST_SUM and min(sizes.m, sizes.n) > 1:
        return "null"
    return driver.scratch(product.shape.byte_size)
