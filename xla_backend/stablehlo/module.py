"""Modules: the named functions and other operations of a program."""

from __future__ import annotations

from xla_backend.stablehlo.attributes import UNKNOWN_LOCATION, Attribute, Location
from xla_backend.stablehlo.ir import Block, Operation, Region
from xla_backend.stablehlo.printer import module_to_text


class Module:
    """`builtin.module`: operations of the top level in order; `str` gives its text."""

    def __init__(
        self,
        name: str = "",
        attributes: dict[str, Attribute] | None = None,
        location: Location = UNKNOWN_LOCATION,
    ) -> None:
        self.name = name
        self.attributes: dict[str, Attribute] = {} if attributes is None else attributes
        self.location = location
        self.body = Region([Block()])

    @property
    def operations(self) -> list[Operation]:
        return self.body.block.operations

    @property
    def functions(self) -> dict[str, Operation]:
        """`func.func` operations by symbol name."""
        return {op.attributes["sym_name"]: op for op in self.operations if op.name == "func.func"}

    @property
    def operation(self) -> Module:
        """The module as an operation, which it is: `builtin.module`."""
        return self

    def get_asm(self) -> str:
        """Its text."""
        return str(self)

    def append(self, operation: Operation) -> Operation:
        return self.body.block.append(operation)

    def __str__(self) -> str:
        return module_to_text(self)
