"""Tasks that a routine runs in parallel, and what it hands to them: a table of addresses and
numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xla_backend.llvm.writer import FunctionWriter

# (LLVM type, name or value) of the fields of a table, each of 64 bits.
Fields = Sequence[tuple[str, str]]


def run_tasks(
    w: FunctionWriter, task: str, context: str, count: str, *, polled: bool = True
) -> None:
    """Calls task(context, number) for each number below a count, on all threads.

    Args:
      polled: signals are looked at between tasks, after which the rest is left out.
    """
    name = "pyjax_parallel_for_polled" if polled else "pyjax_parallel_for"
    w.call(name, "void", [("ptr", f"@{task}"), ("ptr", context), ("i64", count)])


def run_many_tasks(
    w: FunctionWriter, many: str, task: str, context: str, count: str, *, polled: bool = True
) -> None:
    """The same where `many` holds, else one after another on this thread, before another one has
    woken."""

    def in_parallel() -> list[str]:
        run_tasks(w, task, context, count, polled=polled)
        return []

    def in_order() -> list[str]:
        with w.loop("0", count) as loop:
            w.call(task, "void", [("ptr", context), ("i64", loop.index)])
        return []

    w.if_else(many, [], in_parallel, in_order)


def table_of(w: FunctionWriter, values: Fields) -> str:
    """The address of a new table with these values."""
    table = w.alloca("i64", len(values), 8)
    for i, (ty, value) in enumerate(values):
        w.store(ty, value, w.gep("i64", table, i), 8)
    return table


def table_of_parameters(w: FunctionWriter, parameters: Fields) -> str:
    """The same with the parameters of the function."""
    return table_of(w, [(ty, f"%{name}") for ty, name in parameters])


def read_table(w: FunctionWriter, table: str, fields: Fields) -> dict[str, str]:
    """The fields of a table by name, as a task reads them."""
    return {
        name: w.load_invariant(ty, w.gep("i64", table, i), 8) for i, (ty, name) in enumerate(fields)
    }


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
        return table_of(w, [(self._type(i), value) for i, value in enumerate(values)])

    def field(self, w: FunctionWriter, name: str) -> str:
        """A field, as a task reads it."""
        i = self.names.index(name)
        return w.load_invariant(self._type(i), w.gep("i64", "%ctx", i), 8)

    def fields(self, w: FunctionWriter) -> list[str]:
        """All of them."""
        return [self.field(w, name) for name in self.names]

    def _type(self, place: int) -> str:
        return "ptr" if place < self.pointers else "i64"
