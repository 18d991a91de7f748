"""FusionRecordVerifier: what is written on fusions against what they are."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.attention_fusion import attention_in, is_attention
from xla_backend.passes.base import HloPass
from xla_backend.passes.fusion_records import epilogue_record, misfit, records_rows
from xla_backend.passes.gemm_epilogue_fusion import planned_epilogue
from xla_backend.passes.output_fusion import is_output_fusion
from xla_backend.passes.row_space import plan_rows
from xla_backend.passes.score_streams import streams_in


class FusionRecordVerifier(HloPass):
    """Refuses fusions on which something else is written than would be now.

    Why: buffers and code go by what is written; of a fusion that was edited afterwards, they would
    compute something else without a word.
    Needs: no pass after it edits a fusion. A check: it changes nothing.
    """

    name = "fusion-record-verifier"
    opcodes = frozenset({Opcode.FUSION})

    def run_on_computation(self, computation: Computation) -> bool:
        """Check every fusion.

        Raises:
          HloError: with the first fusion that is not what is written on it.
        """
        for node in computation.instructions:
            if node.opcode is Opcode.FUSION and not _is_as_written(node):
                raise misfit(node)
        return False


def _is_as_written(fusion: Instruction) -> bool:
    fused = fusion.called[0]
    if is_attention(fusion):
        return attention_in(fused) is not None or streams_in(fused) is not None
    if is_output_fusion(fusion):
        return epilogue_record(fusion) == planned_epilogue(fused)
    return records_rows(fusion, plan_rows(fused))
