"""Modules: the unit of compilation, a set of computations with one entry."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.name_uniquer import NameUniquer
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.source_tables import SourcePlace, SourceTables
from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.process.values import Value

# What may call computations.
_CALLERS = frozenset(opcode for opcode in Opcode if opcode.calls != 0)


class InputOutputAlias(Value):
    """Output leaf `output_index` may (or must) reuse the buffer of parameter `parameter` at
    `parameter_index`.
    """

    output_index: tuple[int, ...]
    parameter: int
    parameter_index: tuple[int, ...] = ()
    must_alias: bool = False


@dataclass(eq=False)
class HloModule:
    """`computations` holds callees before callers; `entry` is among them and comes last when
    printed.
    """

    name: str
    computations: list[Computation] = field(default_factory=list)
    entry: Computation | None = None
    is_scheduled: bool = False
    aliases: tuple[InputOutputAlias, ...] = ()
    replica_count: int = 1
    num_partitions: int = 1
    attributes: dict[str, Any] = field(
        default_factory=dict
    )  # other header attributes, by text name
    source_tables: SourceTables = field(default_factory=SourceTables)
    # Shapes of parameters and result with the layouts the caller wants; None: the entry's own.
    entry_layout: tuple[tuple[Shape, ...], Shape] | None = None
    # What a pass found out about it for the step behind it (copy insertion: the analysis of
    # buffers); a pipeline forgets it when another pass changes the module.
    analysis: Any = field(default=None, init=False, repr=False)
    # Names that computations have or had; None until one is added.
    _names: NameUniquer | None = field(default=None, init=False, repr=False)
    _dropped: list[Computation] = field(default_factory=list, init=False, repr=False)

    def __str__(self) -> str:
        """HLO text that parses back; `hlo.printer.module_to_text` has other styles."""
        # The printer knows modules, so that it cannot be imported above.
        return import_module("xla_backend.hlo.printer").module_to_text(self)

    def as_hlo_text(self) -> str:
        """The text that XLA's clients print: names without %, no metadata. `str` shows both."""
        return import_module("xla_backend.hlo.printer").module_to_text(self, "short")

    def add_computation(self, computation: Computation, *, entry: bool = False) -> Computation:
        """Take a computation (and, first, those it calls) into the module, with unique names."""
        if computation.module is self:
            return computation
        for callee in _callees(computation):
            self.add_computation(callee)
        if self._names is None:
            self._names = NameUniquer()
            for other in self.computations:
                self._names.unique(other.name)
        computation.name = self._names.unique(computation.name)
        computation.module = self
        self.computations.append(computation)
        if entry:
            self.entry = computation
        return computation

    def add_computations(self, computations: Iterable[Computation]) -> None:
        """`add_computation` for each."""
        for computation in computations:
            self.add_computation(computation)

    def post_order(self) -> list[Computation]:
        """Computations reachable from the entry, callees before callers."""
        assert self.entry is not None
        order: list[Computation] = []
        seen = {self.entry}
        stack = [(self.entry, iter(_callees(self.entry)))]
        while stack:  # explicit: chains of calls can be longer than Python's recursion limit
            computation, callees = stack[-1]
            for callee in callees:
                if callee not in seen:
                    seen.add(callee)
                    if _CALLERS.isdisjoint(callee.opcodes):  # most are fusions and reducers
                        order.append(callee)
                        continue
                    stack.append((callee, iter(_callees(callee))))
                    break
            else:
                order.append(computation)
                stack.pop()
        return order

    def remove_unreachable(self) -> bool:
        """Drop computations nobody calls. True if any went."""
        live = self.post_order()
        dropped = set(self.computations).difference(live)
        for computation in dropped:
            computation.module = None
        self.computations = live
        self._dropped += dropped
        return bool(dropped)

    def forget_dropped(self) -> None:
        """Take the computations apart that were dropped and that nobody took up again, once nobody
        looks at them: they go at once then, and the cycle collector need not look for them."""
        if not self._dropped:
            return
        live = set(self.post_order())
        for computation in self._dropped:
            if computation.module is None and computation not in live:
                computation.take_apart()
        self._dropped = []

    def callers(self) -> dict[Computation, list[Instruction]]:
        """Which instructions call each computation."""
        result: dict[Computation, list[Instruction]] = {c: [] for c in self.computations}
        for computation in self.computations:
            for node in computation:
                for callee in node.called:
                    result.setdefault(callee, []).append(node)
        return result

    def clone(self) -> HloModule:
        """A deep copy: no instruction is shared with the original."""
        copy = HloModule(
            self.name,
            is_scheduled=self.is_scheduled,
            aliases=self.aliases,
            replica_count=self.replica_count,
            num_partitions=self.num_partitions,
            attributes=dict(self.attributes),
            source_tables=self.source_tables.copy(),
            entry_layout=self.entry_layout,
        )
        mapping: dict[Computation, Computation] = {}
        for computation in self.post_order():
            cloned = computation.clone()
            for node in cloned:
                node.called = [mapping[c] for c in node.called]
            mapping[computation] = cloned
            cloned.module = copy
            copy.computations.append(cloned)
        assert self.entry is not None
        copy.entry = mapping[self.entry]
        return copy


def source_places(node: Instruction) -> list[SourcePlace]:
    """The place in the user's code that an instruction came from, and who called it, the innermost
    first; empty if unknown."""
    metadata = node.metadata
    if metadata.source_file:
        return [
            SourcePlace(
                metadata.source_file,
                "",
                metadata.source_line,
                metadata.source_end_line,
                metadata.source_column,
                metadata.source_end_column,
            )
        ]
    module = node.parent.module if node.parent is not None else None
    if module is None or not metadata.stack_frame_id:
        return []
    return module.source_tables.callers(metadata.stack_frame_id)


def source_location(node: Instruction) -> tuple[str, int] | None:
    """File and line of the user's code that an instruction came from, None if unknown."""
    places = source_places(node)
    return (places[0].file, places[0].line) if places else None


def _callees(computation: Computation) -> list[Computation]:
    if _CALLERS.isdisjoint(computation.opcodes):
        return []
    return [callee for node in computation.instructions for callee in node.called]
