"""The table of what the CPU runs as library routines or on the host; `program_rules` fills it."""

from __future__ import annotations

from xla_backend.hlo.cost_analysis import CostAnalysis
from xla_backend.hlo.instruction import Instruction
from xla_backend.program.build import Rules
from xla_backend.runtime.host_rules import HOST_RULES

RULES = Rules("CPU backend", dict(HOST_RULES))

# Library routines do about this many operations in a cycle, or bytes of traffic.
_WORK_PER_CYCLE = 8


def cycles_of(node: Instruction) -> float:
    """Rough cycles of an instruction as a library routine."""
    cost = CostAnalysis().instruction(node)
    return (cost.flops + cost.transcendentals + cost.bytes_accessed) / _WORK_PER_CYCLE
