"""Custom calls that say themselves how they are partitioned, or are made by each device.

The configuration of such a call is a `PartitioningRule`: whoever makes the program says in it which
dimensions belong together, or how results follow from operands, and writes what a device does with
its parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xla_backend.hlo.attributes import (
    CollectiveAttributes,
    CollectivePermuteAttributes,
    CustomCallAttributes,
)
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.sharding import Sharding

TARGET = "CustomSPMDPartitioning"


class Mappings(NamedTuple):
    """Of each dimension of each operand and result its factors (see `factors`), and their sizes."""

    operands: tuple[tuple[tuple[int, ...], ...], ...]
    results: tuple[tuple[tuple[int, ...], ...], ...]
    sizes: tuple[int, ...]


class PartitionedCall(NamedTuple):
    """What a device does for a call.

    Fields:
      computation: of a device's parts; its root is a tuple of the results.
      operands, results: how these are cut.
    """

    computation: Computation
    operands: Sequence[Sharding]
    results: Sequence[Sharding]


class PartitioningRule(str):
    """The configuration of a call; as text a name of its own."""

    def mappings(self) -> Mappings | None:
        """Which dimensions belong together; None: `results_of` says how results follow."""
        raise NotImplementedError

    def results_of(self, operands: Sequence[Sharding]) -> Sequence[Sharding] | None:
        """How results are to be cut where operands are cut so; None: nothing is said."""
        raise NotImplementedError

    def partitioned(
        self, operands: Sequence[Sharding], results: Sequence[Sharding]
    ) -> PartitionedCall:
        """For operands and results that are cut so; what it gives may say otherwise."""
        raise NotImplementedError


class ForEachPart(str):
    """The configuration of a call for its effects, without results, which each device makes for its
    parts of the operands. Others are made once, with all of them."""


def is_for_each_part(node: Instruction) -> bool:
    a = node.attributes
    return isinstance(a, CustomCallAttributes) and isinstance(a.backend_config, ForEachPart)


def rule_of(node: Instruction) -> PartitioningRule | None:
    """That of a call that has one."""
    a = node.attributes
    config = a.backend_config if isinstance(a, CustomCallAttributes) else ""
    return config if isinstance(config, PartitioningRule) else None


def inlinable(computation: Computation, node: Instruction, channels: Iterator[int]) -> Computation:
    """A copy whose collectives have channels of their own, and whose operations stand where the
    call does."""
    copy = computation.clone()
    for each in copy:
        each.metadata = node.metadata
        each.called = [inlinable(c, node, channels) for c in each.called]
        a = each.attributes
        if isinstance(a, (CollectiveAttributes, CollectivePermuteAttributes)):
            each.attributes = type(a)(**{**vars(a), "channel_id": next(channels)})
    return copy
