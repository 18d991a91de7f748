"""The rows of an array along one of its axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xla_backend.kernels.index import Index


class Rows:
    """An array as [outer, n, inner], with rows along the middle one; they are numbered by outer and
    inner."""

    def __init__(self, dimensions: Sequence[int], axis: int) -> None:
        self.outer, self.n = math.prod(dimensions[:axis]), dimensions[axis]
        self.inner = math.prod(dimensions[axis + 1 :])
        self.count = self.outer * self.inner
        self.elements = self.count * self.n

    def place(self, row: Index, k: Index) -> Index:
        """Where element k of a row lies."""
        return (row // self.inner * self.n + k) * self.inner + row % self.inner
