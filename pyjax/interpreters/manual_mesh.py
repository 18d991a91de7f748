"""Where the positions along named mesh axes are among the devices of a program that is lowered for
all of them, in the parts that say themselves what each device does (shard_map).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class ManualMesh(NamedTuple):
    """Devices in a grid.

    Attributes:
      names, sizes: of its axes.
      ids: numbers of the devices in the program, row by row.
    """

    names: tuple[Any, ...]
    sizes: tuple[int, ...]
    ids: tuple[int, ...]

    def count(self, axes: Sequence[Any]) -> int:
        """How many positions there are along some axes."""
        return math.prod(self.sizes[self.names.index(name)] for name in axes)

    def groups(self, axes: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
        """The devices that differ along these axes only, the last of these fastest."""
        inside = [self.names.index(name) for name in axes]
        others = [d for d in range(len(self.sizes)) if d not in inside]
        grid = np.array(self.ids).reshape(self.sizes).transpose([*others, *inside])
        return tuple(map(tuple, grid.reshape(-1, self.count(axes)).tolist()))

    def positions(self, axis: Any) -> np.ndarray:
        """Of each device, by its number, the position along an axis."""
        found = np.empty(len(self.ids), np.int32)
        found[np.array(self.groups((axis,)))] = np.arange(self.count((axis,)))
        return found
