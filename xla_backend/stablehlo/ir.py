"""The tree behind the text: modules hold functions, functions regions of blocks, blocks operations.

Pretty and generic forms of an operation read as the same `Operation`; `attributes` holds inherent
and discardable ones alike (op_table.py tells which are which).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xla_backend.hlo.errors import UnimplementedError
from xla_backend.stablehlo.attributes import UNKNOWN_LOCATION, Attribute, Location
from xla_backend.stablehlo.types import FunctionType, Type


class Value:
    """A result of an operation or an argument of a block; equal by identity."""

    __slots__ = ("index", "owner", "type")

    def __init__(self, type: Type, owner: Operation | Block | None = None, index: int = 0) -> None:
        self.type = type
        self.owner = owner
        self.index = index

    @property
    def defining_op(self) -> Operation | None:
        """The operation that gives it; None for block arguments."""
        return self.owner if isinstance(self.owner, Operation) else None


class Operation:
    """One operation: name with dialect, operands, results, attributes, regions, location."""

    __slots__ = (
        "attributes",
        "line",
        "location",
        "name",
        "operands",
        "parent",
        "regions",
        "results",
    )

    def __init__(
        self,
        name: str,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
        location: Location = UNKNOWN_LOCATION,
    ) -> None:
        self.name = name
        self.operands: list[Value] = list(operands)
        self.results: list[Value] = [Value(t, self, i) for i, t in enumerate(result_types)]
        self.attributes: dict[str, Attribute] = {} if attributes is None else attributes
        self.regions: list[Region] = list(regions)
        self.location = location
        self.line = 0  # of the text it was read from; 0: it was not
        self.parent: Block | None = None
        for region in self.regions:
            region.parent = self

    @property
    def result_types(self) -> tuple[Type, ...]:
        return tuple(r.type for r in self.results)

    @property
    def operand_types(self) -> tuple[Type, ...]:
        return tuple(o.type for o in self.operands)

    @property
    def result(self) -> Value:
        """The only result."""
        assert len(self.results) == 1, f"{self.name} has {len(self.results)} results"
        return self.results[0]

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.operands)} operands, {len(self.results)} results>"


class Block:
    """Arguments and operations in order; the last one is the terminator."""

    __slots__ = ("argument_locations", "arguments", "operations", "parent")

    def __init__(self, argument_types: Sequence[Type] = ()) -> None:
        self.arguments: list[Value] = [Value(t, self, i) for i, t in enumerate(argument_types)]
        self.argument_locations: list[Location] = [UNKNOWN_LOCATION] * len(self.arguments)
        self.operations: list[Operation] = []
        self.parent: Region | None = None

    def add_argument(self, type: Type, location: Location = UNKNOWN_LOCATION) -> Value:
        value = Value(type, self, len(self.arguments))
        self.arguments.append(value)
        self.argument_locations.append(location)
        return value

    def append(self, operation: Operation) -> Operation:
        operation.parent = self
        self.operations.append(operation)
        return operation

    @property
    def terminator(self) -> Operation:
        return self.operations[-1]


class Region:
    """Blocks owned by an operation; StableHLO's own regions have exactly one."""

    __slots__ = ("blocks", "parent")

    def __init__(self, blocks: Sequence[Block] = ()) -> None:
        self.blocks: list[Block] = []
        self.parent: Operation | None = None
        for block in blocks:
            self.append(block)

    def append(self, block: Block) -> Block:
        block.parent = self
        self.blocks.append(block)
        return block

    @property
    def block(self) -> Block:
        """The only block."""
        if len(self.blocks) != 1:
            raise UnimplementedError(
                f"a region with {len(self.blocks)} blocks; StableHLO's have one: use stablehlo.if, "
                "case or while instead of branches"
            )
        return self.blocks[0]

    def walk(self) -> Iterator[Operation]:
        """All operations inside, nested ones included, in order of the text."""
        stack = [op for block in reversed(self.blocks) for op in reversed(block.operations)]
        while stack:
            operation = stack.pop()
            yield operation
            for region in reversed(operation.regions):
                for block in reversed(region.blocks):
                    stack.extend(reversed(block.operations))


def function_type(function: Operation) -> FunctionType:
    """Type of a `func.func`."""
    found = function.attributes["function_type"]
    assert isinstance(found, FunctionType)
    return found
