"""Writes on each fusion that reduces rows inside how it runs over them."""

from __future__ import annotations

from xla_backend.hlo.attributes import FusionAttributes, FusionKind
from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.fusion_records import record_rows
from xla_backend.passes.row_space import plan_rows


class RowPlanAnnotator(HloPass):
    """Record the loops over each row, and what they keep for one another, on fusions.

    Why: buffer assignment and lowering must agree on it; decided once, it is printed with the
    module, and nobody plans again.
    Needs: loop and row fusion are done, and nothing in fused computations is dead.
    Leaves: fusions whose computations reduce rows have `rows` in their backend_config.
    """

    name = "row-plan-annotator"
    opcodes = frozenset({Opcode.FUSION})
    module_opcodes = frozenset({Opcode.REDUCE})

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.instructions:
            if node.opcode is not Opcode.FUSION:
                continue
            assert isinstance(node.attributes, FusionAttributes)
            if node.attributes.kind in (FusionKind.OUTPUT, FusionKind.CUSTOM):
                continue
            planning = plan_rows(node.called[0])
            if planning is not None:
                changed |= record_rows(node, planning)
        return changed
