"""What a routine hands to the tasks that it runs in parallel: a table of addresses and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xla_backend.llvm.writer import FunctionWriter


class TaskContext(NamedTuple):
    """A table of 64-bit fields, the address of which a task gets as `%ctx`.

    Fields:
      names: of the fields.
      pointers: so many from the first on are addresses, the others integers.
    """

    names: tuple[str, ...]
    pointers: int

    def parameters(self) -> list[tuple[str, str]]:
        """The fields as parameters of the routine."""
        return [(self._type(i), name) for i, name in enumerate(self.names)]

    def make(self, w: FunctionWriter, values: Sequence[str]) -> str:
        """The address of a new table with these values, in the order of the names."""
        table = w.alloca("i64", len(self.names), 8)
        for i, value in enumerate(values):
            w.store(self._type(i), value, w.gep("i64", table, i), 8)
        return table

    def field(self, w: FunctionWriter, name: str) -> str:
        """A field, as a task reads it."""
        i = self.names.index(name)
        return w.load_invariant(self._type(i), w.gep("i64", "%ctx", i), 8)

    def fields(self, w: FunctionWriter) -> list[str]:
        """All of them."""
        return [self.field(w, name) for name in self.names]

    def _type(self, place: int) -> str:
        return "ptr" if place < self.pointers else "i64"
