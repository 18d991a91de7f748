"""Loop and reduction fusion: groups of instructions that run as one loop nest.

Grouping is decided first, over the whole computation, consumers before producers; the fused
computations are built afterwards in one go. See fusion_rules.py for what may be fused at what cost
and fusion_groups.py for the groups.
"""

from __future__ import annotations

from xla_backend.hlo.attributes import (
    FusionAttributes,
    FusionKind,
    GetTupleElementAttributes,
    ParameterAttributes,
)
from xla_backend.hlo.instruction import (
    CONTROL_FLOW,
    Computation,
    Instruction,
    clone_instruction,
)
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.passes.base import HloPass, topological_order
from xla_backend.passes.fusion_groups import Group, GroupGraph
from xla_backend.passes.fusion_rules import is_reduce_root


class ControlFlowFusion(HloPass):
    """Base of fusion passes: they work on computations that run instruction by instruction, and
    have one of `opcodes`, if there are any. Subclasses override `fuse`."""

    def run(self, module: HloModule) -> bool:
        opcodes = self.opcodes
        changed: list[Computation] = []
        for computation in control_flow_computations(module):
            if not opcodes or not opcodes.isdisjoint(computation.opcodes):
                if self.fuse(module, computation):
                    changed.append(computation)
        if changed:
            module.remove_unreachable()
        for computation in changed:
            topological_order(computation)  # fusions stand behind their users
        return bool(changed)

    def fuse(self, module: HloModule, computation: Computation) -> bool:
        """Fuse in one computation and add the fused ones to the module. True iff any."""
        raise NotImplementedError(f"{type(self).__name__} does not override fuse")


class LoopFusion(ControlFlowFusion):
    """Put elementwise, shape and reduce instructions into fusions.

    Why: every array that stays inside a loop body saves a round trip through memory, and code
    generation needs to know fusions, library calls and control flow only.
    Needs: calls inlined, tuples simplified.
    Leaves: no bare elementwise, shape (but free reshapes) or reduce instruction; each fusion is
    kLoop (its root, or each member of its root tuple, has the same dimensions or is a
    dynamic-update-slice) or kInput (one reduce, or a tuple of reduces of the same dimensions).
    """

    name = "fusion"

    def __init__(self, together: bool = False) -> None:
        """`together`: the target computes components that are concatenated in one loop."""
        super().__init__()
        self._together = together

    def fuse(self, module: HloModule, computation: Computation) -> bool:
        graph = GroupGraph(computation, self._together)
        fusible = graph.fusible
        for node in reversed(graph.order):
            if node.users or node is computation.root:
                if node in fusible:
                    graph.place(node)
                elif is_reduce_root(node):
                    graph.start_reduce_group(node)
        graph.merge_siblings()
        graph.drop_cheap_outputs()
        fusions = []
        results: dict[Instruction, Instruction] = {}
        for group in graph.live_groups():
            if not self.may_rewrite():
                break
            fusions.append(materialize(computation, group, graph.position, results))
            self.rewritten()
        computation.replace_all_uses(results)
        module.add_computations([fusion.called[0] for fusion in fusions])
        if fusions:
            for node in reversed(graph.order):
                if not node.users and node is not computation.root and node.parent is computation:
                    if node in fusible or is_reduce_root(node):
                        computation.remove(node)
        return bool(fusions)


def control_flow_computations(module: HloModule) -> list[Computation]:
    """Computations that run instruction by instruction: the entry and bodies of whiles and
    conditionals."""
    assert module.entry is not None
    found = [module.entry]
    seen = {module.entry}
    for computation in found:  # grows while it is walked
        if CONTROL_FLOW.isdisjoint(computation.opcodes):
            continue
        for node in computation.instructions:
            if node.opcode in CONTROL_FLOW:
                for callee in node.called:
                    if callee not in seen:
                        seen.add(callee)
                        found.append(callee)
    return found


def materialize(
    computation: Computation,
    group: Group,
    position: dict[Instruction, int],
    results: dict[Instruction, Instruction],
) -> Instruction:
    """Build the fused computation of a group and a fusion that calls it. `results`: what stands for
    the roots of groups built so far; those of this group are added."""
    members = sorted(group.members, key=position.__getitem__)
    roots = sorted(group.roots, key=position.__getitem__)
    lead = roots[-1]
    fused = Computation(f"fused_{'reduce' if group.is_reduce else lead.opcode.value}")
    mapping: dict[Instruction, Instruction] = {}
    operands: list[Instruction] = []
    for node in members:
        inner: list[Instruction] = []
        for i, operand in enumerate(node.operands):
            # An array written in place is a parameter of its own, apart from where it is read as
            # a whole.
            apart = i == 0 and node is group.update and operand in node.operands[1:]
            copy = None if apart else mapping.get(operand)
            if copy is None:
                number = len(operands)
                copy = fused.add(
                    Instruction(
                        Opcode.PARAMETER,
                        operand.shape,
                        (),
                        ParameterAttributes(number),
                        name=f"p{number}",
                    )
                )
                if not apart:
                    mapping[operand] = copy
                operands.append(results.get(operand, operand))
            inner.append(copy)
        mapping[node] = fused.add(clone_instruction(node, inner))
    if len(roots) == 1:
        fused.root = mapping[roots[0]]
    else:
        shape = Shape.tuple([r.shape for r in roots])
        fused.root = fused.add(Instruction(Opcode.TUPLE, shape, [mapping[r] for r in roots]))
    kind = FusionKind.INPUT if group.is_reduce else FusionKind.LOOP
    fusion = computation.add(
        Instruction(
            Opcode.FUSION,
            fused.root.shape,
            operands,
            FusionAttributes(kind),
            (fused,),
            lead.metadata,
            f"{lead.opcode.value}_fusion",
        )
    )
    if len(roots) == 1:
        results[roots[0]] = fusion
        return fusion
    for i, root in enumerate(roots):
        results[root] = computation.add(
            Instruction(
                Opcode.GET_TUPLE_ELEMENT,
                root.shape,
                (fusion,),
                GetTupleElementAttributes(i),
                (),
                root.metadata,
            )
        )
    return fusion
