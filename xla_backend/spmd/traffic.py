"""What the collectives of a device's program move.

  for transfer in transfers(module):
      transfer.sent * transfer.times      # bytes that each device sends in a run

Bytes are those that a device has to send where every member of a group sends as much as the others:
of an array of B bytes in a group of n, B (n - 1) / n in an all-gather, a reduce-scatter or an
all-to-all, twice that in an all-reduce, which is one of each of the first two, and B in a permute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xla_backend.hlo.attributes import CollectivePermuteAttributes
from xla_backend.hlo.exchanges import COLLECTIVES
from xla_backend.hlo.executions import executions
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.topology import Group, Topology

# To go from parts to wholes, or from sums of which devices have parts to parts of sums.
_ROUNDS = {Opcode.ALL_REDUCE: 2}
# A device's result is the whole array, its operand a part of it; of the others it is the operand.
_GIVES_WHOLE = frozenset({Opcode.ALL_GATHER})
_PASSES_ON = frozenset({Opcode.COLLECTIVE_PERMUTE, Opcode.COLLECTIVE_BROADCAST})


class Transfer(NamedTuple):
    """A collective.

    Fields:
      times: how often a run executes it.
      group: the participants that exchange with each other; one of several groups of this size.
      pairs: (source, target) of a permute.
      bytes: of the array that a group exchanges; of an all-to-all, and of a permute, what one
        device has of it.
    """

    node: Instruction
    times: int
    group: Group
    pairs: tuple[tuple[int, int], ...]
    bytes: int

    @property
    def opcode(self) -> Opcode:
        return self.node.opcode

    @property
    def rounds(self) -> int:
        """How often the array goes through the group."""
        return _ROUNDS.get(self.opcode, 1)

    @property
    def passes_on(self) -> bool:
        """Whether devices send their array as it is, and not parts of it to each other."""
        return self.opcode in _PASSES_ON

    @property
    def sent(self) -> float:
        """Bytes that a device sends in one execution."""
        if self.passes_on:
            return float(self.bytes)
        return self.rounds * self.bytes * (1 - 1 / len(self.group))


def transfers(module: HloModule) -> list[Transfer]:
    """The collectives of a module that is the program of each device, in order; without those of
    groups of one."""
    topology = Topology(module.replica_count, module.num_partitions)
    found = [
        _transfer(node, times, topology)
        for node, times in executions(module)
        if node.opcode in COLLECTIVES
    ]
    return [transfer for transfer in found if len(transfer.group) > 1]


def _transfer(node: Instruction, times: int, topology: Topology) -> Transfer:
    shapes = [node.shape] if node.opcode in _GIVES_WHOLE else [x.shape for x in node.operands]
    if node.opcode is Opcode.RAGGED_ALL_TO_ALL:
        shapes = shapes[:1]  # the others say where to
    bytes = sum(shape.byte_size for shape in shapes)
    if isinstance(node.attributes, CollectivePermuteAttributes):
        pairs = tuple((s, t) for s, t in topology.pairs(node) if s != t)
        return Transfer(node, times, _members(pairs), pairs, bytes)
    group = max(topology.groups(node), key=len)
    return Transfer(node, times, group, (), bytes)


def _members(pairs: Sequence[tuple[int, int]]) -> Group:
    return tuple(sorted({number for pair in pairs for number in pair}))
