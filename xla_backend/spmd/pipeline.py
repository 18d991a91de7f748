"""What is done to a module for several devices before its target sees it."""

from __future__ import annotations

from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.async_to_sync import AsyncToSync
from xla_backend.passes.call_inliner import CallGraphFlattener, CallInliner
from xla_backend.passes.dce import DeadCodeElimination
from xla_backend.passes.defuser import Defuser
from xla_backend.passes.emit import Emit
from xla_backend.passes.layout_normalization import LayoutNormalization
from xla_backend.spmd.partitioner import needs_partitioning, partition
from xla_backend.spmd.plan import Partition
from xla_backend.spmd.shardy_importer import ShardyImporter
from xla_backend.spmd.unreduced import UnreducedBorders


def prepare_and_partition(module: HloModule) -> Partition | None:
    """Bring a module into the form that the partitioner takes, and partition it; None: it needs
    none of that."""
    ShardyImporter().run(module)
    UnreducedBorders().run(module)
    if not needs_partitioning(module):
        return None
    _keep_sharding_of_root(module)
    for each in (
        LayoutNormalization(), Defuser(), AsyncToSync(), CallInliner(),
        # A body that two loops share may be cut in two ways.
        CallGraphFlattener(),
    ):  # fmt: skip
        each.run(module)
    found = partition(module)
    # Who took what it needs from below a slice left the slice behind, and what that exchanged.
    DeadCodeElimination().run(module)
    return found


def _keep_sharding_of_root(module: HloModule) -> None:
    """What a root that will be inlined says of the results, is said by a copy of them."""
    assert module.entry is not None and module.entry.root is not None
    root = module.entry.root
    sharding = (root.annotations or {}).get("sharding")
    if sharding is None or root.opcode not in (Opcode.CALL, Opcode.FUSION):
        return
    b = Emit(root)
    if root.shape.is_tuple:
        copy = b.tuple([b.gte(root, k) for k in range(len(root.shape.tuple_shapes))])
    else:
        copy = b.unary(Opcode.COPY, root)
    copy.annotations = {"sharding": sharding}
    module.entry.set_root(copy)
