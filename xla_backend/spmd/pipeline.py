"""What is done to a module for several devices before its target sees it."""

from __future__ import annotations

from xla_backend.hlo.module import HloModule
from xla_backend.passes.async_to_sync import AsyncToSync
from xla_backend.passes.base import HloPass
from xla_backend.passes.call_inliner import CallInliner
from xla_backend.passes.defuser import Defuser
from xla_backend.passes.layout_normalization import LayoutNormalization
from xla_backend.spmd.partitioner import SpmdPartitioner, needs_partitioning


class SpmdPartitioning(HloPass):
    """The program of each device, of a module whose arrays are whole and have shardings.

    Why: targets know programs of one device, which meet in collectives.
    """

    name = "spmd-partitioning"

    def run(self, module: HloModule) -> bool:
        if not needs_partitioning(module):
            return False
        for each in (LayoutNormalization(), Defuser(), AsyncToSync(), CallInliner()):
            each.run(module)
        return SpmdPartitioner().run(module)
