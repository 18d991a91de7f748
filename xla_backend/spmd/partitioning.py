"""The partitioner as a pass of targets' pipelines; most modules are for one device and do not load
it."""

from __future__ import annotations

from xla_backend.hlo.module import HloModule
from xla_backend.passes.base import HloPass
from xla_backend.process.on_first_use import on_first_use

_prepare_and_partition = on_first_use("xla_backend.spmd.pipeline", "prepare_and_partition")


class SpmdPartitioning(HloPass):
    """The program of each device, of a module whose arrays are whole and have shardings.

    Why: targets know programs of one device, which meet in collectives.
    """

    name = "spmd-partitioning"

    def run(self, module: HloModule) -> bool:
        return module.num_partitions > 1 and _prepare_and_partition(module) is not None
