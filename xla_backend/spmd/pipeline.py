"""What is done to a module for several devices before its target sees it."""

from __future__ import annotations

from xla_backend.hlo.module import HloModule
from xla_backend.passes.async_to_sync import AsyncToSync
from xla_backend.passes.base import HloPass
from xla_backend.passes.call_inliner import CallInliner
from xla_backend.passes.defuser import Defuser
from xla_backend.passes.layout_normalization import LayoutNormalization
from xla_backend.spmd.partitioner import needs_partitioning, partition
from xla_backend.spmd.plan import Partition


class SpmdPartitioning(HloPass):
    """The program of each device, of a module whose arrays are whole and have shardings.

    Why: targets know programs of one device, which meet in collectives.
    """

    name = "spmd-partitioning"

    def run(self, module: HloModule) -> bool:
        return prepare_and_partition(module) is not None


def prepare_and_partition(module: HloModule) -> Partition | None:
    """Bring a module into the form that the partitioner takes, and partition it; None: it needs
    none of that."""
    if not needs_partitioning(module):
        return None
    for each in (LayoutNormalization(), Defuser(), AsyncToSync(), CallInliner()):
        each.run(module)
    return partition(module)
