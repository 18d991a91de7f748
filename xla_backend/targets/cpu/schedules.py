"""How the kernels of a program are scheduled for one machine."""

from __future__ import annotations

import math

from xla_backend.kernels.ir import Kernel, Loop
from xla_backend.kernels.verifier import verify_kernel
from xla_backend.llvm.target import TargetInfo
from xla_backend.targets.cpu.schedule import cycles_in_lanes, schedule


class Schedules:
    """Schedules kernels; with `verify`, checks them after each step."""

    def __init__(self, target: TargetInfo, *, verify: bool = False) -> None:
        self.target = target
        self._on_step = _check if verify else None

    def kernel(self, kernel: Kernel) -> float:
        return schedule(kernel, self.target, on_step=self._on_step)

    def epilogue(self, kernel: Kernel) -> float:
        """Columns run in lanes, and each call is for one thread: the function of an epilogue sees
        to both, for the part of the product that it is given."""
        loops = epilogue_loops(kernel)
        lanes = epilogue_lanes(loops[-1], self.target)
        return cycles_in_lanes(loops[0], lanes) / math.prod(loop.var.extent for loop in loops)


def _check(step: str, kernel: Kernel) -> None:
    verify_kernel(kernel, step)


def epilogue_loops(kernel: Kernel) -> tuple[Loop, Loop, Loop]:
    """Batch, rows and columns of an epilogue."""
    batch = next(s for s in kernel.stages if isinstance(s, Loop))
    rows = _inner_loop(batch)
    return batch, rows, _inner_loop(rows)


def _inner_loop(loop: Loop) -> Loop:
    inner = loop.body[-1]
    assert isinstance(inner, Loop)
    return inner


def epilogue_lanes(columns: Loop, target: TargetInfo) -> int:
    """Columns of an epilogue that run side by side."""
    types = [s.result.type for s in columns.body if hasattr(s, "result")]
    return target.lanes(max([32, *(t.bits for t in types)]))
