"""Where the positions along named mesh axes are among the devices of a program that is lowered for
all of them, in the parts that say themselves what each device does (shard_map).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xla_backend.hlo.device_lists import Mesh
from xla_backend.hlo.instruction import Instruction

Groups = tuple[tuple[int, ...], ...]


class ManualMesh(NamedTuple):
    """Devices in a grid.

    Attributes:
      names: of its axes.
      where: the numbers of its devices in the program.
      axes: along which the program says what each device does; along others the compiler does.
      sharding: of values of which devices have each their own, as HLO spells it.
    """

    names: tuple[Any, ...]
    where: Mesh
    axes: frozenset[Any]
    sharding: str

    def own(self, instruction: Instruction) -> Instruction:
        """Mark what differs from device to device though its operands may not."""
        annotations = instruction.annotations or {}
        instruction.annotations = {**annotations, "sharding": self.sharding}
        return instruction

    def count(self, axes: Sequence[Any]) -> int:
        """How many positions there are along some axes."""
        return math.prod(self.where.sizes[self.names.index(name)] for name in axes)

    def groups(self, axes: Sequence[Any], of_indices: Groups | None = None) -> Groups:
        """The devices that differ along these axes only, the last of these fastest; of each such
        list those at some positions only."""
        inside = [self.names.index(name) for name in axes]
        others = [d for d in range(len(self.names)) if d not in inside]
        grid = self.where.ids().transpose([*others, *inside])
        rows = grid.reshape(-1, self.count(axes))
        chosen = [rows] if of_indices is None else [rows[:, list(g)] for g in of_indices]
        return tuple(tuple(row) for rows in chosen for row in rows.tolist())

    def positions(self, axis: Any) -> np.ndarray:
        """Of each device, by its number, the position along an axis."""
        found = np.empty(self.where.ids().size, np.int32)
        found[np.array(self.groups((axis,)))] = np.arange(self.count((axis,)))
        return found
