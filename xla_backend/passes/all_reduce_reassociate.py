"""Sums of sums over devices."""

from __future__ import annotations

from xla_backend.hlo.attributes import CollectiveAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.monoids import monoid
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.collectives import exchanged_alike


class AllReduceReassociation(HloPass):
    """op(all-reduce(x), all-reduce(y)) -> all-reduce(op(x, y)), where both combine by op; and the
    same of reduce-scatters.

    Why: gradients of a weight that is used twice, and residual branches, are exchanged once.
    Needs: no asynchronous forms.  Leaves: none such, if nobody else uses the exchanged values.
    """

    name = "all-reduce-reassociate"
    opcodes = frozenset({Opcode.ALL_REDUCE, Opcode.REDUCE_SCATTER})

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.post_order():
            if not self.may_rewrite():
                break
            if len(node.operands) == 2 and _takes_both(node):
                _reassociate(computation, node)
                self.rewritten()
                changed = True
        return changed


def _takes_both(node: Instruction) -> bool:
    first, second = node.operands
    if first is second or first.opcode not in AllReduceReassociation.opcodes:
        return False
    return (
        first.opcode is second.opcode
        and not first.shape.is_tuple
        and monoid(first.called[0]) is node.opcode
        and exchanged_alike(first, second)
        and all(list(exchange.users) == [node] for exchange in node.operands)
    )


def _reassociate(computation: Computation, node: Instruction) -> None:
    first, second = node.operands
    (x,), (y,) = first.operands, second.operands
    a = first.attributes
    assert isinstance(a, CollectiveAttributes)
    inner = computation.add(
        Instruction(node.opcode, x.shape, [x, y], node.attributes, (), node.metadata)
    )
    computation.replace(
        node,
        computation.add(
            Instruction(first.opcode, first.shape, [inner], a, first.called, first.metadata)
        ),
    )
