"""Arguments and results of a program that are sums over mesh axes still to be made: each device has
a summand."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.attributes import (
    CollectiveAttributes,
    CustomCallAttributes,
    DynamicSliceAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.sharding import Sharding
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit, binary_computation
from xla_backend.spmd.annotations import sharding_of
from xla_backend.spmd.manual import CONSTRAINT, TO_PARTS, TO_WHOLE, annotation


class UnreducedBorders(HloPass):
    """Unreduced arguments -> their sums; unreduced results -> the whole on the first device along
    these axes, and zeros on the others.

    Why: inside of a program the partitioner makes sums where it likes: its values are whole.
    Needs: shardings as HLO writes them.  Leaves: no argument or result that is unreduced.
    """

    name = "unreduced-borders"

    def run(self, module: HloModule) -> bool:
        entry = module.entry
        if module.num_partitions == 1 or entry is None or entry.root is None:
            return False
        changed = False
        for parameter in entry.parameters:
            said = sharding_of(parameter)
            if said is not None and said.unreduced_axes:
                _sum_argument(module, parameter, said)
                changed = True
        root = entry.root
        for node in dict.fromkeys(root.operands) if root.opcode is Opcode.TUPLE else (root,):
            said = sharding_of(node)
            if annotation(node) == CONSTRAINT and said is not None and said.unreduced_axes:
                _spread_result(module, node, said)
                changed = True
        return changed


class _Border:
    """Between a whole array and what devices have each their own of along some axes."""

    def __init__(self, module: HloModule, like: Instruction, said: Sharding) -> None:
        assert said.mesh is not None
        self.module, self.b = module, Emit(like)
        self.groups = said.mesh.groups(said.unreduced_axes)
        self.whole = str(
            Sharding(
                "mesh",
                mesh=said.mesh,
                dimensions=said.dimensions,
                open_dimensions=said.open_dimensions,
                priorities=said.priorities,
                replicated_axes=said.replicated_axes,
            )
        )
        self.own = str(Sharding("mesh", mesh=said.mesh, manual_axes=said.unreduced_axes))

    def call(self, target: str, x: Instruction, sharding: str) -> Instruction:
        made = self.b.add(Opcode.CUSTOM_CALL, (x,), CustomCallAttributes(target), shape=x.shape)
        made.annotations = {"sharding": sharding}
        return made

    def mine(self, node: Instruction) -> Instruction:
        """A value that each device has its own of."""
        node.annotations = {"sharding": self.own}
        return node


def _sum_argument(module: HloModule, parameter: Instruction, said: Sharding) -> None:
    entry, users = module.entry, [*parameter.users]
    assert entry is not None
    border = _Border(module, parameter, said)
    parts = border.call(TO_PARTS, border.call(CONSTRAINT, parameter, border.whole), border.own)
    rows = tuple(tuple(int(device) for device in row) for row in border.groups)
    attributes = CollectiveAttributes(rows, _channel(module), use_global_device_ids=True)
    add = module.add_computation(binary_computation(Opcode.ADD, parameter.shape.element_type))
    shape = parameter.shape
    total = border.mine(border.b.add(Opcode.ALL_REDUCE, (parts,), attributes, [add], shape=shape))
    whole = border.call(TO_WHOLE, total, border.whole)
    for user in users:
        for index in [k for k, x in enumerate(user.operands) if x is parameter]:
            entry.replace_operand(user, index, whole)
    if entry.root is parameter:
        entry.set_root(whole)
    parameter.annotations = {**(parameter.annotations or {}), "sharding": border.whole}


def _spread_result(module: HloModule, node: Instruction, said: Sharding) -> None:
    assert module.entry is not None
    border = _Border(module, node, said)
    b, shape = border.b, node.shape
    cut = border.call(CONSTRAINT, node.operands[0], border.whole)
    mine = border.call(TO_PARTS, cut, border.own)
    firsts = np.zeros(module.num_partitions, np.int32)
    firsts[border.groups[:, 0]] = 1
    device = border.mine(b.add(Opcode.PARTITION_ID, shape=Shape.array(PrimitiveType.U32)))
    one = Shape.array(PrimitiveType.S32, (1,))
    table = (b.constant(firsts), device)
    entry = b.add(Opcode.DYNAMIC_SLICE, table, DynamicSliceAttributes((1,)), shape=one)
    is_first = border.mine(b.convert(b.reshape(border.mine(entry), ()), PrimitiveType.PRED))
    flags = border.mine(b.broadcast(is_first, shape.dimensions, ()) if shape.rank else is_first)
    kept = (flags, mine, b.splat(shape, 0))
    spread = border.mine(b.add(Opcode.SELECT, kept, shape=shape))
    module.entry.replace(node, border.call(TO_WHOLE, spread, border.whole))


def _channel(module: HloModule) -> int:
    """A number that no collective has."""
    used = [
        getattr(node.attributes, "channel_id", None) or 0
        for computation in module.computations
        for node in computation
    ]
    return max(used, default=0) + 1
