"""Light work on the indices and updates of a scatter -> part of a kInput fusion of the scatter."""

from __future__ import annotations

from xla_backend.hlo.attributes import (
    FusionAttributes,
    FusionKind,
    ParameterAttributes,
    ScatterAttributes,
)
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import topological_order
from xla_backend.passes.fusion import ControlFlowFusion
from xla_backend.passes.fusion_rules import cost_of
from xla_backend.passes.light_work import copy_body, is_light

# A scatter goes from element to element, so its work is not done in vectors: more than this takes
# longer than writing it to memory and reading it again.
_MOST_WORK = 6


class ScatterPrologueFusion(ControlFlowFusion):
    """Make what computes the indices and updates of a scatter of one array part of it.

    Why: counts, and additions of a constant, have an array of equal numbers as updates, and indices
    that a few operations make; both were written to memory and read once.
    Needs: loop fusion has run.
    Leaves: scatters whose updates and indices nobody else reads with the light work that makes
    them, in a fusion of kind kInput whose root is the scatter.
    """

    name = "scatter-prologue-fusion"
    opcodes = frozenset({Opcode.SCATTER})

    def fuse(self, module: HloModule, computation: Computation) -> bool:
        made = []
        for node in topological_order(computation):
            if node.opcode is Opcode.SCATTER and len(node.operands) == 3 and self.may_rewrite():
                works = [_work_of(node, number) for number in (1, 2)]
                if any(works):
                    made.append(_fuse(computation, node, works))
                    self.rewritten()
        module.add_computations(made)
        return bool(made)


def _work_of(scatter: Instruction, number: int) -> list[Instruction] | None:
    """The fusion that makes an operand, and the reshapes from it to there; None where it is
    anything else, or others read it."""
    attributes = scatter.attributes
    assert isinstance(attributes, ScatterAttributes)
    updates = scatter.operands[2].shape.dimensions
    if number == 1 and any(updates[d] > 1 for d in attributes.update_window_dims):
        return None  # the elements of a window would each compute the place of all
    chain = [scatter.operands[number]]
    while chain[-1].opcode is Opcode.RESHAPE:
        chain.append(chain[-1].operands[0])
    users = [scatter, *chain]
    computation = scatter.parent
    assert computation is not None
    for user, node in zip(users, chain):
        if list(node.users) != [user] or node is computation.root:
            return None
    if sum(o is scatter.operands[number] for o in scatter.operands) != 1:
        return None
    source = chain[-1]
    if source.opcode is not Opcode.FUSION or source.shape.is_tuple:
        return None
    assert isinstance(source.attributes, FusionAttributes)
    body = source.called[0].instructions
    if source.attributes.kind is not FusionKind.LOOP or not all(is_light(n) for n in body):
        return None
    return chain if sum(cost_of(n) for n in body) <= _MOST_WORK else None


def _fuse(
    computation: Computation, node: Instruction, works: list[list[Instruction] | None]
) -> Computation:
    fused = Computation("fused_scatter")
    operands: list[Instruction] = []

    def parameter(source: Instruction) -> Instruction:
        """One for each use: what is written in place is apart from where it is read as a whole."""
        attributes = ParameterAttributes(len(operands))
        operands.append(source)
        return fused.add(Instruction(Opcode.PARAMETER, source.shape, (), attributes))

    inner = [parameter(node.operands[0])]
    for operand, chain in zip(node.operands[1:], works):
        if chain is None:
            inner.append(parameter(operand))
            continue
        *reshapes, fusion = chain
        body = fusion.called[0]
        assert body.root is not None
        value = copy_body(fused, body, [parameter(o) for o in fusion.operands])[body.root]
        for reshape in reversed(reshapes):
            value = fused.add(clone_instruction(reshape, [value]))
        inner.append(value)
    fused.root = fused.add(clone_instruction(node, inner))
    fusion = Instruction(
        Opcode.FUSION,
        node.shape,
        operands,
        FusionAttributes(FusionKind.INPUT),
        (fused,),
        node.metadata,
        node.name,
    )
    computation.replace(node, computation.add(fusion))
    return fused
