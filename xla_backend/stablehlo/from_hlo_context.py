"""What conversion rules from HLO share: types of shapes, values of instructions, regions.

HLO's tuples disappear: an instruction stands for the list of its leaves, and operations have
several results. A rule is `rule(scope, node) -> values`, one per leaf of the instruction's shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.errors import ParseError, UnimplementedError
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.stablehlo.attributes import (
    UNKNOWN_LOCATION,
    ArrayAttribute,
    Attribute,
    DenseAttribute,
    DialectAttribute,
    EnumAttribute,
    IntegerAttribute,
)
from xla_backend.stablehlo.format_values import I64
from xla_backend.stablehlo.ir import Block, Operation, Region, Value
from xla_backend.stablehlo.locations import LocationsOfMetadata
from xla_backend.stablehlo.read_attributes import AttributeReader
from xla_backend.stablehlo.types import (
    NAME_OF_ELEMENT,
    TOKEN,
    ComplexType,
    ScalarType,
    TensorType,
    Type,
)

Values = list[Value]
Rule = Callable[["Scope", Instruction], Values]


# -- types and attributes --------------------------------------------------------------------------


def tensor_type(shape: Shape) -> Type:
    """The type of an array or token shape."""
    if shape.is_token:
        return TOKEN
    kind = shape.element_type
    element: Type
    if kind.is_complex:
        element = ComplexType(ScalarType("f32" if kind.byte_size == 8 else "f64"))
    elif kind in NAME_OF_ELEMENT:
        element = ScalarType(NAME_OF_ELEMENT[kind])
    else:
        raise UnimplementedError(f"StableHLO has no type for {shape}")
    return TensorType(shape.dimensions, element)


def leaf_types(shape: Shape) -> list[Type]:
    return [tensor_type(s) for s in shape.flatten()]


def int_array(values: Sequence[int]) -> ArrayAttribute:
    return ArrayAttribute(I64, tuple(values))


def int_attribute(value: int) -> IntegerAttribute:
    return IntegerAttribute(value, I64)


def enum(kind: str, value: str) -> EnumAttribute:
    return EnumAttribute("stablehlo", kind, value)


def dense(array: np.ndarray, element: str) -> DenseAttribute:
    """A constant of integers: `dense<[[0, 1]]> : tensor<1x2xi64>`."""
    return DenseAttribute(array, TensorType(array.shape, ScalarType(element)))


def channel_handle(channel: int, kind: int) -> DialectAttribute:
    return DialectAttribute("stablehlo.channel_handle", f"handle = {channel}, type = {kind}")


def read_dictionary(text: str) -> dict[str, Attribute] | None:
    """`{a = 1 : i64}` as attributes; None if the text is something else."""
    reader = AttributeReader(text)
    try:
        values = reader.read_dictionary()
    except ParseError:
        return None
    return values if reader.at_end() else None


def discardable(annotations: dict[str, Any] | None) -> dict[str, Attribute]:
    """Sharding and frontend attributes of an instruction as attributes."""
    result: dict[str, Attribute] = {}
    if not annotations:
        return result
    if "sharding" in annotations:
        result["mhlo.sharding"] = annotations["sharding"]
    frontend: dict[str, Attribute] = {}
    for name, value in frontend_attributes(annotations.get("frontend_attributes", "{}")):
        if name.startswith("composite."):
            continue  # these are attributes of stablehlo.composite itself
        if name.startswith("xla.sdy."):
            reader = AttributeReader(value)
            result[name.removeprefix("xla.")] = reader.read_attribute()
        else:
            frontend[name] = value
    if frontend:
        result["mhlo.frontend_attributes"] = frontend
    accuracy = str(annotations.get("result_accuracy", ""))
    if accuracy.startswith("{mode="):
        mode = accuracy[len("{mode=") : -1].upper()
        body = f"mode = #stablehlo.result_accuracy_mode<{mode}>"
        result["result_accuracy"] = DialectAttribute("stablehlo.result_accuracy", body)
    return result


def frontend_attributes(text: str) -> list[tuple[str, str]]:
    """`{a="b",c={...}}`: names and values, those in brackets as text."""
    reader = AttributeReader(text)
    items: list[tuple[str, str]] = []
    reader.expect("{")
    while not reader.accept("}"):
        name = reader.read_word("a name")
        reader.expect("=")
        items.append((name, reader.read_string() if reader.at('"') else reader.balanced()))
        reader.accept(",")
    return items


# -- scopes ----------------------------------------------------------------------------------------


class Scope:
    """A block under construction and the leaves of the instructions converted so far."""

    def __init__(self, program: Program, block: Block) -> None:
        self.program = program
        self.block = block
        self.values: dict[Instruction, Values] = {}

    def leaves(self, node: Instruction) -> Values:
        """The leaves of an instruction. Constants are written where they are first used."""
        if node not in self.values and node.opcode is Opcode.CONSTANT:
            self._instruction(node)
        return self.values[node]

    def value(self, node: Instruction) -> Value:
        """The only leaf."""
        (value,) = self.leaves(node)
        return value

    def operands(self, node: Instruction) -> Values:
        """Leaves of all operands, in order."""
        return [leaf for operand in node.operands for leaf in self.leaves(operand)]

    def emit(
        self,
        name: str,
        operands: Sequence[Value],
        types: Sequence[Type],
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
    ) -> Values:
        """Append an operation; its results."""
        op = Operation(name, operands, types, attributes, regions, self.program.location)
        self.block.append(op)
        return op.results

    def computation(self, computation: Computation, arguments: Sequence[Values]) -> Values:
        """Convert a computation's instructions here, its parameters being `arguments`; the leaves
        of its root."""
        for node in computation.post_order():
            if node.opcode is Opcode.PARAMETER:
                self.values[node] = list(arguments[node.parameter_number])
                continue
            if node.opcode is not Opcode.CONSTANT:
                self._instruction(node)
        assert computation.root is not None
        return self.leaves(computation.root)

    def _instruction(self, node: Instruction) -> None:
        rule = self.program.rules.get(node.opcode)
        if rule is None:
            raise UnimplementedError(
                f"StableHLO has no equivalent of {node.opcode}: {node}; print the module as HLO"
            )
        before = self.program.location
        self.program.location = self.program.locations.of(node.metadata)
        count = len(self.block.operations)
        self.values[node] = rule(self, node)
        self.program.location = before
        extra = discardable(node.annotations)
        if extra and len(self.block.operations) > count:
            made = self.block.operations[-1]
            if made.name.startswith("sdy."):  # these say it themselves
                extra = {k: v for k, v in extra.items() if not k.startswith("sdy.")}
            made.attributes.update(extra)

    def region(self, computation: Computation) -> Region:
        """A computation as a region whose arguments are its parameters' leaves."""
        types = [leaf_types(p.shape) for p in computation.parameters]
        block = Block([t for group in types for t in group])
        inner = Scope(self.program, block)
        remaining = iter(block.arguments)
        arguments = [[next(remaining) for _ in group] for group in types]
        return inner.finish(computation, arguments)

    def branch(self, computation: Computation, arguments: Sequence[Values]) -> Region:
        """A computation as a region without arguments that uses values from here."""
        return Scope(self.program, Block()).finish(computation, arguments)

    def finish(self, computation: Computation, arguments: Sequence[Values]) -> Region:
        self.emit("stablehlo.return", self.computation(computation, arguments), ())
        return Region([self.block])


class Program:
    """The conversion of one module; computations that are called become private functions."""

    def __init__(self, module: HloModule, rules: dict[Opcode, Rule]) -> None:
        self.module = module
        self.rules = rules
        self.location = UNKNOWN_LOCATION
        self.locations = LocationsOfMetadata(module.source_tables)
        self.functions: dict[Computation, str] = {}
        self.pending: list[Computation] = []

    def function(self, computation: Computation) -> str:
        """Name of the function that a called computation becomes."""
        name = self.functions.get(computation)
        if name is None:
            name = self.functions[computation] = self._free_name(computation.name)
            self.pending.append(computation)
        return name

    def _free_name(self, base: str) -> str:
        taken = {"main", *self.functions.values()}
        name, n = base, 0
        while name in taken:
            name = f"{base}_{n}"
            n += 1
        return name
