"""The table of what the CPU runs as library routines or on the host. The modules that it names fill
it, each when a program has something for it."""

from __future__ import annotations

from xla_backend.hlo.attributes import FusionKind
from xla_backend.hlo.cost_analysis import CostAnalysis
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.program.build import Rules
from xla_backend.runtime.host_rules import HOST_RULES

_HERE = __package__
_MODULES: dict[Opcode | FusionKind, str] = {
    Opcode.CHOLESKY: f"{_HERE}.matrix_rules",
    Opcode.CONVOLUTION: f"{_HERE}.conv_rules",
    Opcode.CUSTOM_CALL: f"{_HERE}.lapack_rules",
    Opcode.DOT: f"{_HERE}.dot_rules",
    Opcode.FFT: f"{_HERE}.fft_rules",
    Opcode.IOTA: f"{_HERE}.sort_rules",
    Opcode.REDUCE_WINDOW: f"{_HERE}.scan_rules",
    Opcode.RNG_GET_AND_UPDATE_STATE: f"{_HERE}.effect_rules",
    Opcode.SORT: f"{_HERE}.sort_rules",
    Opcode.TRANSPOSE: f"{_HERE}.transpose_rules",
    Opcode.TRIANGULAR_SOLVE: f"{_HERE}.matrix_rules",
    FusionKind.INPUT: f"{_HERE}.extreme_rules",
    FusionKind.LOOP: f"{_HERE}.loop_rules",
    FusionKind.OUTPUT: f"{_HERE}.output_fusion_rules",
}

RULES = Rules("CPU backend", dict(HOST_RULES), modules=_MODULES)

# Library routines do about this many operations in a cycle, or bytes of traffic.
_WORK_PER_CYCLE = 8


def cycles_of(node: Instruction) -> float:
    """Rough cycles of an instruction as a library routine."""
    cost = CostAnalysis().instruction(node)
    return (cost.flops + cost.transcendentals + cost.bytes_accessed) / _WORK_PER_CYCLE
