"""How the kernels of a program are scheduled for one machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from xla_backend.kernels.ir import BufferRole, Kernel
from xla_backend.kernels.schedule.called_blocks import Nest, run_in_blocks
from xla_backend.kernels.schedule.lanes import vectorise
from xla_backend.llvm.target import TargetInfo
from xla_backend.measured_costs import CostDecision
from xla_backend.process.on_first_use import on_first_use
from xla_backend.targets.cpu.code_interface import CYCLES_PER_MICROSECOND
from xla_backend.targets.cpu.schedule import cycles_in_lanes, schedule

_verify_kernel = on_first_use("xla_backend.kernels.verifier", "verify_kernel")


class Schedules:
    """Schedules kernels; with `verify`, checks them after each step.

    `threads`: whether loops are cut into blocks for several. `measured`: microseconds of kernels by
    name; `decisions` has what became of those.
    """

    reduces_in_parts = True

    def __init__(
        self,
        target: TargetInfo,
        *,
        threads: bool = True,
        measured: Mapping[str, float] = MappingProxyType({}),
        verify: bool = False,
    ) -> None:
        self.target = target
        self.decisions: list[CostDecision] = []
        self._threads = threads
        self._measured = measured
        self._verify = verify

    def kernel(self, kernel: Kernel) -> float:
        microseconds = self._measured.get(kernel.name)
        made = schedule(
            kernel,
            self.target,
            threads=self._threads,
            microseconds=microseconds,
            on_step=self._done,
        )
        if microseconds is not None:
            estimated = made.estimated / CYCLES_PER_MICROSECOND
            blocks = made.estimated_blocks, made.blocks
            self.decisions.append(CostDecision(kernel.name, estimated, microseconds, *blocks))
        return made.cycles

    def epilogue(self, kernel: Kernel, *, whole: bool) -> float:
        """Blocks of columns in lanes, on the thread that calls. One body for all columns, with a
        mask where one is needed: two cost more to compile than they gain."""
        nest = Nest.of(kernel)
        columns = nest.columns
        extents = [loop.var.extent for loop in nest]
        types = [s.result.type for s in columns.body if hasattr(s, "result")]
        lanes = self.target.lanes(max([32, *(t.bits for t in types)]))
        cycles = cycles_in_lanes(nest.batch, lanes) / math.prod(extents)
        even = whole and columns.var.extent % lanes == 0
        kept = next(b for b in kernel.buffers if b.role is BufferRole.SCRATCH)
        run_in_blocks(kernel, kept, lanes if even else 1)
        self._done("run_in_blocks", kernel)
        if lanes > 1:
            masked = not even and self.target.has_masks
            vectorise(kernel, columns, lanes, masked=masked, serial_rest=True)
            self._done("vectorise", kernel)
        return cycles

    def _done(self, step: str, kernel: Kernel) -> None:
        if self._verify:
            _verify_kernel(kernel, step)
