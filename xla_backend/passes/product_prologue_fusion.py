"""Light work on the operands of a product -> part of the kOutput fusion of the product."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.attributes import FusionAttributes, FusionKind, ParameterAttributes
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import topological_order
from xla_backend.passes.fusion import ControlFlowFusion
from xla_backend.passes.fusion_records import record_epilogue
from xla_backend.passes.gemm_epilogue_fusion import planned_epilogue
from xla_backend.passes.light_work import copy_body, is_light
from xla_backend.passes.output_fusion import PRODUCTS, is_output_fusion, product_of


class ProductPrologueFusion(ControlFlowFusion):
    """Make conversions, scales and masks of a product's operands part of it.

    Why: a converted copy of a matrix is written and read for nothing; the kernel of the product
    does the same to each element that it loads.
    Needs: loop and epilogue fusion have run; `takes` says for which products, or fusions around
    one, code generation can do so.
    Leaves: products whose operands nobody else reads with what makes them, in a fusion of kind
    kOutput.
    """

    name = "product-prologue-fusion"

    def __init__(self, takes: Callable[[Instruction], bool] = lambda node: True) -> None:
        self._takes = takes

    def fuse(self, module: HloModule, computation: Computation) -> bool:
        made = []
        for node in topological_order(computation):
            product = _product(node)
            if product is None or not self._takes(node):
                continue
            works = [o for o in product.operands if _work_of(node, product, o) is not None]
            if works:
                made.append(_fuse(computation, node, product))
        module.add_computations([m for m in made if m is not None])
        return any(m is not None for m in made)


def _product(node: Instruction) -> Instruction | None:
    """The product that an instruction is, or that a kOutput fusion is around."""
    if is_output_fusion(node):
        return product_of(node.called[0])
    return node if node.opcode in PRODUCTS else None


def _work_of(node: Instruction, product: Instruction, operand: Instruction) -> Instruction | None:
    """The light work that makes an operand of the product of `node`, and that nobody else reads;
    None if it is anything else."""
    source = operand if node is product else node.operands[operand.parameter_number]
    if len(source.users) != 1 or sum(o is source for o in node.operands) != 1:
        return None
    if node is not product and any(user is not product for user in operand.users):
        return None
    computation = source.parent
    if computation is None or computation.root is source or source.shape.is_tuple:
        return None
    if source.opcode is not Opcode.FUSION:
        return source if source.opcode is Opcode.CONVERT else None
    assert isinstance(source.attributes, FusionAttributes)
    if source.attributes.kind is not FusionKind.LOOP:
        return None
    body = source.called[0].instructions
    return source if all(is_light(n) for n in body) else None


def _fuse(computation: Computation, node: Instruction, product: Instruction) -> Computation | None:
    """One fusion of a product, what is around it already, and the work on its operands; None where
    its result has no rows to walk along."""
    fused = Computation(f"fused_{product.opcode.value}")
    operands: list[Instruction] = []
    parameters: dict[Instruction, Instruction] = {}

    def parameter(source: Instruction) -> Instruction:
        if source not in parameters:
            attributes = ParameterAttributes(len(operands))
            operands.append(source)
            made = Instruction(Opcode.PARAMETER, source.shape, (), attributes)
            parameters[source] = fused.add(made)
        return parameters[source]

    def operand(source: Instruction, inside: Instruction) -> Instruction:
        work = _work_of(node, product, inside) if inside in product.operands else None
        if work is None:
            return parameter(source)
        if work.opcode is not Opcode.FUSION:
            return fused.add(clone_instruction(work, [parameter(o) for o in work.operands]))
        root = work.called[0].root
        assert root is not None
        return copy_body(fused, work.called[0], [parameter(o) for o in work.operands])[root]

    if node is product:
        fused.root = fused.add(clone_instruction(node, [operand(o, o) for o in node.operands]))
    else:
        body = node.called[0]
        arguments = [operand(o, p) for o, p in zip(node.operands, body.parameters)]
        assert body.root is not None
        fused.root = copy_body(fused, body, arguments)[body.root]
    planned = planned_epilogue(fused)
    if planned is None:
        return None
    attributes = FusionAttributes(FusionKind.OUTPUT)
    fusion = Instruction(
        Opcode.FUSION, fused.root.shape, operands, attributes, (fused,), node.metadata, node.name
    )
    record_epilogue(fusion, planned)
    computation.replace(node, computation.add(fusion))
    return fused
