"""Writing values, signatures and regions: what the forms of operations are made of."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.stablehlo.attribute_text import dictionary_text, location_text
from xla_backend.stablehlo.attributes import Location
from xla_backend.stablehlo.ir import Block, Operation, Region, Value
from xla_backend.stablehlo.location_aliases import LocationAliases
from xla_backend.stablehlo.types import FunctionType
from xla_backend.stablehlo.value_names import ValueNames


class Writer:
    """Collects the text of one region and all in it. The forms of operations write through it;
    which form an operation has, a subclass says."""

    def __init__(self, body: Region, *, locations: LocationAliases | None = None) -> None:
        self.names = ValueNames(body)
        self.parts: list[str] = []
        self.locations = locations
        self._depth = 0

    # -- pieces ----------------------------------------------------------------------------------

    def write(self, text: str) -> None:
        self.parts.append(text)

    def newline(self) -> None:
        self.parts.append("\n" + "  " * self._depth)

    def name(self, value: Value) -> str:
        return f"%{self.names.of[value]}"

    def operands(self, values: Sequence[Value]) -> str:
        return ", ".join(map(self.name, values))

    def argument(self, value: Value) -> str:
        """A block argument with its type and, with debug information, location."""
        assert isinstance(value.owner, Block)
        location = self.argument_location(value.owner.argument_locations[value.index])
        return f"{self.name(value)}: {value.type}{location}"

    def argument_location(self, location: Location) -> str:
        """` loc("x")` with debug information, else nothing: a short one is written where it is."""
        if self.locations is None or location.parts():
            return self.location(location)
        return f" {location_text(location)}"

    def location(self, location: Location) -> str:
        """` loc(#loc1)` with debug information, else nothing."""
        return "" if self.locations is None else f" loc({self.locations.name(location)})"

    def dictionary(self, op: Operation, shown: Sequence[str] = ()) -> str:
        """` {...}` of the attributes the form does not show itself, or nothing."""
        others = {k: v for k, v in op.attributes.items() if k not in shown}
        return f" {dictionary_text(others)}" if others else ""

    @staticmethod
    def signature(op: Operation) -> str:
        return str(FunctionType(op.operand_types, op.result_types))

    def same_type(self, op: Operation) -> str:
        """One type if all are the same, else the function type."""
        types = {*op.operand_types, *op.result_types}
        return str(types.pop()) if len(types) == 1 else self.signature(op)

    # -- regions and operations ------------------------------------------------------------------

    def region(self, region: Region, *, label: bool = True, dialect: str = "") -> None:
        """`{ ... }`; `label` writes that of an entry block with arguments."""
        self.write("{")
        for i, block in enumerate(region.blocks):
            if i or (label and block.arguments):
                self.newline()
                arguments = ", ".join(map(self.argument, block.arguments))
                self.write(f"^bb{i}({arguments}):" if arguments else f"^bb{i}:")
            self._depth += 1
            for op in block.operations:
                self.newline()
                self.operation(op, dialect)
            self._depth -= 1
        self.newline()
        self.write("}")

    def operation(self, op: Operation, dialect: str = "") -> None:
        """One operation; in a region of a function its `dialect` goes without saying."""
        raise NotImplementedError
