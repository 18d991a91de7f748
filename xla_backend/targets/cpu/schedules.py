"""How the kernels of a program are scheduled for one machine."""

from __future__ import annotations

import math

from xla_backend.kernels.ir import Kernel, Loop
from xla_backend.llvm.target import TargetInfo
from xla_backend.targets.cpu.schedule import ParallelPlan, cycles_in_lanes, schedule


class Schedules:
    """Schedules kernels, and knows afterwards how their loops are split over threads."""

    def __init__(self, target: TargetInfo) -> None:
        self.target = target
        self.parallel: dict[Loop, ParallelPlan] = {}

    def kernel(self, kernel: Kernel) -> float:
        plans = schedule(kernel, self.target)
        self.parallel.update(plans.parallel)
        return plans.cycles

    def epilogue(self, kernel: Kernel) -> float:
        """Columns run in lanes, and each call is for one thread."""
        loops = epilogue_loops(kernel)
        lanes = self.target.lanes(_widest(loops[-1]))
        cycles = cycles_in_lanes(loops[0], lanes) / math.prod(loop.var.extent for loop in loops)
        loops[-1].vector = lanes
        return cycles


def epilogue_loops(kernel: Kernel) -> tuple[Loop, Loop, Loop]:
    """Batch, rows and columns of an epilogue."""
    batch = next(s for s in kernel.stages if isinstance(s, Loop))
    rows = _inner_loop(batch)
    return batch, rows, _inner_loop(rows)


def _inner_loop(loop: Loop) -> Loop:
    inner = loop.body[-1]
    assert isinstance(inner, Loop)
    return inner


def _widest(columns: Loop) -> int:
    types = [s.result.type for s in columns.body if hasattr(s, "result")]
    return max([32, *(t.bits for t in types)])
