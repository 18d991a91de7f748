"""The rows of an array along one of its axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xla_backend.hlo.errors import UnimplementedError
from xla_backend.kernels.index import Index

# Sorts number the elements of a row in 32 bits, with room for a block's worth more.
_MOST_NUMBERED = (1 << 31) - (1 << 16)


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

    def check_numbered(self) -> None:
        """Raise if a sort cannot number the elements of a row.

        Raises:
          UnimplementedError: there are too many.
        """
        if self.n > _MOST_NUMBERED:
            raise UnimplementedError(
                f"a sort on a GPU of rows of {self.n} elements: {_MOST_NUMBERED} are the most; "
                "sort parts of them, and merge these"
            )
