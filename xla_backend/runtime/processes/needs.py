"""Which bytes of a member's operands other members of its group read in a collective."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from xla_backend.hlo.exchanges import Exchange
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.topology import Group


class Cut(NamedTuple):
    """Columns of an operand, as `rows` rows of `columns` equal runs of bytes."""

    rows: int
    columns: int
    wanted: tuple[int, ...]

    @property
    def is_everything(self) -> bool:
        return len(self.wanted) == self.columns

    def start(self, nbytes: int) -> int | None:
        """Where it begins in an operand of so many bytes, if it is one piece of that."""
        first, last = self.wanted[0], self.wanted[-1]
        is_piece = self.rows == 1 and self.wanted == tuple(range(first, last + 1))
        return nbytes // self.columns * first if self.is_everything or is_piece else None

    def of(self, operand: np.ndarray) -> np.ndarray:
        """The bytes, of an operand's."""
        start = self.start(operand.nbytes)
        if start is not None:
            return operand[start : start + self.size(operand.nbytes)]
        return self.table(operand)[:, list(self.wanted), :].reshape(-1)

    def size(self, nbytes: int) -> int:
        """How many bytes that are."""
        return nbytes // self.columns * len(self.wanted)

    def put(self, operand: np.ndarray, cut: np.ndarray) -> None:
        """Into memory for the operand."""
        target = self.table(operand)
        shape = (self.rows, len(self.wanted), target.shape[2])
        target[:, list(self.wanted), :] = cut.reshape(shape)

    def table(self, operand: np.ndarray) -> np.ndarray:
        return operand.reshape(self.rows, self.columns, -1)


_ALL = Cut(1, 1, (0,))


class Reading(NamedTuple):
    """Members of a group that read from another one.

    Fields:
      exchange, group: what they take part in.
      source: rank of the member that they read from.   readers: their ranks.
    """

    exchange: Exchange
    group: Group
    source: int
    readers: Sequence[int]

    def cut(self, number: int, shape: Shape) -> Cut | None:
        """What they read of the operand of a number; None: nothing."""
        return _CUTS[self.exchange.opcode](self, number, shape) if shape.byte_size else None


def _everything(r: Reading, number: int, shape: Shape) -> Cut | None:
    return _ALL


def _parts(r: Reading, number: int, shape: Shape) -> Cut | None:
    """Each reads its part along the dimension."""
    axis = r.exchange.dimension
    assert axis is not None
    return Cut(math.prod(shape.dimensions[:axis]), len(r.group), tuple(r.readers))


def _all_to_all(r: Reading, number: int, shape: Shape) -> Cut | None:
    if r.exchange.dimension is None:
        return _ALL if number in r.readers else None
    return _parts(r, number, shape)


def _of_first(r: Reading, number: int, shape: Shape) -> Cut | None:
    return _ALL if r.source == 0 else None


def _of_source(r: Reading, number: int, shape: Shape) -> Cut | None:
    targets = {r.group[rank] for rank in r.readers}
    pairs = r.exchange.pairs
    reads = any(source == r.group[r.source] and target in targets for source, target in pairs)
    return _ALL if reads else None


_CUTS: dict[Opcode, Callable[[Reading, int, Shape], Cut | None]] = {
    Opcode.ALL_GATHER: _everything,
    Opcode.ALL_REDUCE: _everything,
    Opcode.ALL_TO_ALL: _all_to_all,
    Opcode.COLLECTIVE_BROADCAST: _of_first,
    Opcode.COLLECTIVE_PERMUTE: _of_source,
    Opcode.RAGGED_ALL_TO_ALL: _everything,
    Opcode.REDUCE_SCATTER: _parts,
}
