"""What conversion rules to HLO share: shapes of types, values, regions as computations.

A rule is `rule(scope, op) -> instruction or list of instructions`, one per result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import NO_ATTRIBUTES, Attributes, ComparisonDirection
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.errors import HloError, ShapeInferenceError, UnimplementedError
from xla_backend.hlo.evaluator import evaluate_computation
from xla_backend.hlo.instruction import (
    NO_METADATA,
    Computation,
    Instruction,
    clone_instruction,
)
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_inference import infer_shape, needs_given_shape
from xla_backend.hlo.text_position import quote
from xla_backend.hlo.types import PrimitiveType
from xla_backend.stablehlo.attribute_text import attribute_text
from xla_backend.stablehlo.attributes import (
    ArrayAttribute,
    DenseAttribute,
    DialectAttribute,
    EnumAttribute,
    IntegerAttribute,
)
from xla_backend.stablehlo.ir import Block, Operation, Region, Value, function_type
from xla_backend.stablehlo.locations import MetadataOfLocations
from xla_backend.stablehlo.struct_attributes import struct_fields
from xla_backend.stablehlo.types import (
    ELEMENT_TYPES,
    ComplexType,
    QuantizedType,
    ScalarType,
    TensorType,
    TokenType,
    TupleType,
    Type,
)

Rule = Callable[["Scope", Operation], "Instruction | list[Instruction]"]
Dims = tuple[int, ...]

_CONSTANTS = ("stablehlo.constant", "chlo.constant")
_NOT_FOLDED = frozenset({Opcode.PARAMETER, Opcode.CUSTOM_CALL, Opcode.WHILE})


class ConversionError(HloError, ValueError):
    """A StableHLO program that is not valid; the message names the operation and its line."""


def where(op: Operation) -> str:
    """` (line 3)`, for messages."""
    return f" (line {op.line})" if op.line else ""


def invalid(op: Operation, message: str) -> ConversionError:
    return ConversionError(f"{op.name}{where(op)}: {message}")


def unsupported(op: Operation, message: str) -> UnimplementedError:
    return UnimplementedError(f"{op.name}{where(op)}: {message}")


# -- types -----------------------------------------------------------------------------------------


def element_type(type_: Type) -> PrimitiveType | None:
    """HLO's name for a tensor's element type; None if it has none. Quantized elements are stored
    as their integers."""
    if isinstance(type_, ComplexType):
        return PrimitiveType.C64 if type_.element.name == "f32" else PrimitiveType.C128
    if isinstance(type_, QuantizedType):
        return element_type(type_.storage)
    if isinstance(type_, ScalarType):
        if type_.name == "index":
            return PrimitiveType.S64
        return ELEMENT_TYPES.get(type_.name.removeprefix("s"))
    return None


def static_shape(type_: Type) -> Shape | None:
    """The HLO shape of a type; None if a size is not known from it."""
    if isinstance(type_, TensorType):
        kind = element_type(type_.element)
        if kind is None or type_.dimensions is None or None in type_.dimensions:
            return None
        return Shape(kind, tuple(d for d in type_.dimensions if d is not None))
    if isinstance(type_, TokenType):
        return Shape.token()
    if isinstance(type_, TupleType):
        members = [static_shape(m) for m in type_.members]
        known = [m for m in members if m is not None]
        return Shape.tuple(known) if len(known) == len(members) else None
    return None


# -- scopes ----------------------------------------------------------------------------------------


class Scope:
    """One HLO computation under construction, with the instructions of the values it knows."""

    def __init__(self, program: Program, name: str) -> None:
        self.program = program
        self.builder = HloBuilder(name)
        self.values: dict[Value, Instruction] = {}

    # -- values ----------------------------------------------------------------------------------

    def value(self, value: Value) -> Instruction:
        """The instruction of a value. Constants of the regions around are copied to where they
        are used; other values from outside must have been passed in."""
        found = self.values.get(value)
        if found is not None:
            return found
        op = value.defining_op
        if op is None or not is_rematerialized(op):
            name = op.name if op is not None else "a block argument"
            raise UnimplementedError(
                f"a reducer, comparator or collective body uses a value from outside ({name}"
                f"{where(op) if op is not None else ''}); HLO's take nothing but their arguments. "
                "Pass it as an operand"
            )
        self.convert(op)
        return self.values[value]

    def operands(self, op: Operation) -> list[Instruction]:
        return [self.value(o) for o in op.operands]

    def convert(self, op: Operation) -> None:
        """Add the instructions of an operation and remember its results."""
        rule = self.program.rules.get(op.name)
        if rule is None:
            raise unsupported(op, "no conversion to HLO is known for this operation")
        if op.name not in MOVES_QUANTIZED and _has_quantized(op):
            raise unsupported(
                op,
                "arithmetic on quantized tensors is not supported; dequantize the operands, and "
                "quantize the result",
            )
        saved = self.builder.metadata
        self.builder.metadata = self.program.locations.of(op.location)
        try:
            result = rule(self, op)
        except ShapeInferenceError as error:
            raise invalid(op, str(error)) from error
        self.builder.metadata = saved
        results = result if isinstance(result, list) else [result]
        if len(results) != len(op.results):
            raise invalid(op, f"has {len(op.results)} results, expected {len(results)}")
        self.values.update(zip(op.results, results))
        annotations = annotations_of(op)
        for instruction in _told(results) if annotations else ():
            if instruction.opcode is not Opcode.PARAMETER:
                instruction.annotations = {**(instruction.annotations or {}), **annotations}

    def block(self, block: Block) -> list[Instruction]:
        """Convert a block's operations; the values its terminator returns."""
        for op in block.operations[:-1]:
            if not is_rematerialized(op):  # those wait for their first use
                self.convert(op)
        if not block.operations:
            raise ConversionError("a block needs a terminator such as stablehlo.return")
        return self.operands(block.operations[-1])

    # -- instructions ----------------------------------------------------------------------------

    def add(
        self,
        op: Operation,
        opcode: Opcode,
        operands: Sequence[Instruction],
        attributes: Attributes = NO_ATTRIBUTES,
        called: Sequence[Computation] = (),
        shape: Shape | None = None,
    ) -> Instruction:
        """The instruction of an operation with one result. The declared type is checked against
        the inferred (or given) shape; where it has unknown sizes the inferred one stands."""
        declared = static_shape(op.result.type)
        given = shape if shape is not None else declared
        if given is None and needs_given_shape(opcode):
            raise unsupported(op, f"the result type {op.result.type} must be static here")
        inferred = infer_shape(opcode, operands, attributes, called, given)
        if declared is not None and not declared.compatible(inferred):
            raise invalid(op, f"the result is {inferred}, its type says {op.result.type}")
        return self.builder.add(opcode, operands, attributes, called, inferred)

    def members(self, instruction: Instruction) -> list[Instruction]:
        """Members of a tuple; anything else is its own only member."""
        if not instruction.shape.is_tuple:
            return [instruction]
        count = len(instruction.shape.tuple_shapes)
        return [self.builder.get_tuple_element(instruction, i) for i in range(count)]

    def pack(self, values: Sequence[Instruction]) -> Instruction:
        """One value as it is, others as a tuple."""
        return values[0] if len(values) == 1 else self.builder.tuple(values)

    def region(self, region: Region, name: str = "region") -> Computation:
        """A region without values from outside (a reducer, a comparator) as a computation with the
        same parameters; several returned values make a tuple."""
        scope = Scope(self.program, name)
        block = region.block
        for i, argument in enumerate(block.arguments):
            shape = self.program.shape(argument.type)
            scope.values[argument] = scope.builder.parameter(i, shape)
        root = scope.pack(scope.block(block))
        return scope.builder.build(root)

    def constant_of(self, op: Operation, value: Value, what: str) -> np.ndarray:
        """The value of an operand that must be known now, computed from constants.

        Raises:
          UnimplementedError: it depends on a parameter.
        """
        constant = value.defining_op.attributes.get("value") if value.defining_op else None
        if isinstance(constant, DenseAttribute):
            return constant.array
        root = self.value(value)
        needed = _closure(root)
        if any(n.opcode in _NOT_FOLDED or n.opcode.has_side_effect for n in needed):
            raise unsupported(op, f"{what} must follow from constants and static shapes")
        computation = Computation("folded")
        mapping: dict[Instruction, Instruction] = {}
        for node in needed:
            mapping[node] = computation.add(
                clone_instruction(node, [mapping[o] for o in node.operands])
            )
        computation.set_root(mapping[root])
        return np.asarray(evaluate_computation(computation, []))


def _told(results: Sequence[Instruction]) -> Sequence[Instruction]:
    """The instructions that an operation's annotations are about: several results are those of one
    tuple, if they are its members."""
    sources = {r.operands[0] if r.opcode is Opcode.GET_TUPLE_ELEMENT else r for r in results}
    return [*sources] if len(results) > 1 and len(sources) == 1 else results


# What works on quantized tensors: it moves the stored integers, or converts them.
MOVES_QUANTIZED = frozenset(
    f"stablehlo.{name}"
    for name in (
        "broadcast_in_dim case concatenate constant dynamic_slice dynamic_update_slice gather "
        "get_dimension_size get_tuple_element if optimization_barrier pad reshape reverse select "
        "slice transpose tuple uniform_dequantize uniform_quantize while"
    ).split()
) | {"func.call"}


def _has_quantized(op: Operation) -> bool:
    return any(
        isinstance(v.type, TensorType) and isinstance(v.type.element, QuantizedType)
        for v in (*op.operands, *op.results)
    )


def _closure(root: Instruction) -> list[Instruction]:
    """All that `root` needs, operands first."""
    order: list[Instruction] = []
    seen: set[Instruction] = set()
    stack = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((o, False) for o in node.operands)
    return order


def is_rematerialized(op: Operation) -> bool:
    """Is this copied into regions that use it, rather than passed in?"""
    return op.name in _CONSTANTS


def captured_values(regions: Sequence[Region]) -> list[Value]:
    """Values from outside that operations inside use, in order of first use, constants left out."""
    inside: set[Value] = set()
    used: dict[Value, None] = {}
    for region in regions:
        for block in region.blocks:
            inside.update(block.arguments)
        for op in region.walk():
            inside.update(op.results)
            for inner in op.regions:
                for block in inner.blocks:
                    inside.update(block.arguments)
            used.update(dict.fromkeys(op.operands))
    outside = [v for v in used if v not in inside]
    return [v for v in outside if v.defining_op is None or not is_rematerialized(v.defining_op)]


class Program:
    """The conversion of one module: its functions by name, each converted once."""

    def __init__(
        self, functions: dict[str, Operation], rules: dict[str, Rule], partitions: int = 1
    ) -> None:
        self.functions = functions
        self.rules = rules
        self.partitions = partitions
        self.locations = MetadataOfLocations()
        self._computations: dict[tuple[str, tuple[Shape, ...] | None], Computation | None] = {}

    def shape(self, type_: Type) -> Shape:
        """The shape of a type.

        Raises:
          UnimplementedError: a size is unknown, or HLO has no such type.
        """
        shape = static_shape(type_)
        if shape is None:
            raise UnimplementedError(
                f"the type {type_} has no HLO shape: sizes must be known, and element types be "
                "integers, floats, complex or quantized integers"
            )
        return shape

    def function(self, name: str, shapes: Sequence[Shape] | None, op: Operation) -> Computation:
        """The computation of a function for arguments of these shapes (they tell the sizes that
        the function's own types leave open); None: of its own types.

        Raises:
          ConversionError: there is no such function, it takes other arguments, or it calls itself.
        """
        key = (name, None if shapes is None else tuple(shapes))
        if key in self._computations:
            found = self._computations[key]
            if found is None:
                raise invalid(op, f"@{name} calls itself")
            return found
        function = self.functions.get(name)
        if function is None:
            known = ", ".join(f"@{n}" for n in self.functions)
            raise invalid(op, f"there is no function @{name} (there are {known})")
        inputs = function_type(function).inputs
        if shapes is not None and len(shapes) != len(inputs):
            raise invalid(op, f"@{name} takes {len(inputs)} arguments, got {len(shapes)}")
        for i, shape in enumerate(shapes or ()):
            declared = static_shape(inputs[i])
            if declared is not None and not declared.compatible(shape):
                raise invalid(op, f"argument {i} of @{name} is {inputs[i]}, got {shape}")
        self._computations[key] = None
        scope = Scope(self, name)
        results = self.function_body(scope, function, shapes)
        computation = scope.builder.build(scope.pack(results))
        self._computations[key] = computation
        return computation

    def function_body(
        self, scope: Scope, function: Operation, shapes: Sequence[Shape] | None = None
    ) -> list[Instruction]:
        """Parameters and body of a function; the instructions it returns."""
        if not function.regions or not function.regions[0].blocks:
            raise invalid(function, f"@{function.attributes['sym_name']} has no body")
        block = function.regions[0].block
        for i, argument in enumerate(block.arguments):
            shape = shapes[i] if shapes is not None else self.shape(argument.type)
            scope.builder.metadata = self.locations.of(block.argument_locations[i])
            scope.values[argument] = scope.builder.parameter(i, shape)
        scope.builder.metadata = NO_METADATA
        return scope.block(block)


# -- attributes any operation may carry ----------------------------------------------


def annotations_of(op: Operation) -> dict[str, Any]:
    """Sharding and frontend attributes of an operation, as HLO writes them."""
    return annotations_from(op.attributes)


def annotations_from(attributes: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if "mhlo.sharding" in attributes:
        result["sharding"] = attributes["mhlo.sharding"]
    frontend: dict[str, str] = {}
    for name, value in attributes.get("mhlo.frontend_attributes", {}).items():
        frontend[name] = quote(value) if isinstance(value, str) else attribute_text(value)
    for name, value in attributes.items():
        if name.startswith("sdy."):
            frontend[f"xla.{name}"] = quote(attribute_text(value))
    if frontend:
        parts = [f"{k}={frontend[k]}" for k in sorted(frontend)]
        result["frontend_attributes"] = "{" + ",".join(parts) + "}"
    if "result_accuracy" in attributes:
        result["result_accuracy"] = result_accuracy_text(attributes["result_accuracy"])
    return result


def result_accuracy_text(value: Any) -> str:
    """`#stablehlo.result_accuracy<...>` as HLO writes it."""
    body = value.body or ""
    mode = body.rpartition("result_accuracy_mode<")[2].rstrip("> ")
    if mode != "TOLERANCE":
        return f"{{mode={mode.lower()}}}"
    fields = dict(part.split(" = ") for part in body.split(", mode")[0].split(", "))
    atol, rtol = (f"{float(fields.get(n, '0')):g}" for n in ("atol", "rtol"))
    return f"{{tolerance={{atol={atol},rtol={rtol},ulps={fields.get('ulps', '0')}}}}}"


# -- reading attributes ----------------------------------------------------------------------------


class Fields:
    """Fields of a structure such as `#stablehlo.gather<offset_dims = [1], ...>`, checked when they
    are read."""

    def __init__(self, op: Operation, name: str, values: dict[str, Any]) -> None:
        self.op = op
        self.name = name
        self.values = values

    def dims(self, field: str) -> Dims:
        """A list of integers; one that is left out is empty."""
        value = self.values.get(field, ())
        if not isinstance(value, tuple) or not all(type(v) is int for v in value):
            raise self._wrong(field, "a list of integers")
        return value

    def number(self, field: str, default: int | None = 0) -> int:
        """An integer; one that is left out is `default` (None: it must be there)."""
        value = self.values.get(field, default)
        if type(value) is not int:
            raise self._wrong(field, "an integer")
        return value

    def word(self, field: str) -> str:
        """A word that must be there."""
        value = self.values.get(field)
        if not isinstance(value, str):
            raise self._wrong(field, "a word")
        return value

    def _wrong(self, field: str, expected: str) -> ConversionError:
        if field not in self.values:
            return invalid(self.op, f"'{field}' of {self.name} is missing, expected {expected}")
        return invalid(
            self.op, f"'{field}' of {self.name} is {self.values[field]!r}, expected {expected}"
        )


def structure(op: Operation, name: str) -> DialectAttribute:
    """An attribute that is a structure: `#stablehlo.name<...>`."""
    value = op.attributes.get(name)
    if not isinstance(value, DialectAttribute):
        raise invalid(op, f"the attribute '{name}' is missing or no structure")
    return value


def fields_of(op: Operation, name: str) -> Fields:
    """Fields of the structure that an attribute is."""
    return Fields(op, name, struct_fields(structure(op, name)))


def ints(op: Operation, name: str, default: Dims | None = None) -> Dims:
    """Integers of `array<i64: ...>`, or of the dense form older texts use."""
    value = op.attributes.get(name)
    if value is None:
        if default is None:
            raise invalid(op, f"the attribute '{name}' is missing")
        return default
    if isinstance(value, DenseAttribute) and value.array.dtype.kind in "iub":
        return tuple(int(v) for v in value.array.reshape(-1))
    if isinstance(value, ArrayAttribute) and all(isinstance(v, int) for v in value.values):
        return tuple(int(v) for v in value.values)
    raise invalid(op, f"the attribute '{name}' is no list of integers")


def integer(op: Operation, name: str, default: int | None = None) -> int:
    value = op.attributes.get(name)
    if isinstance(value, IntegerAttribute):
        return value.value
    if default is None:
        raise invalid(op, f"the attribute '{name}' is missing or no integer")
    return default


def dimension_of(op: Operation, operand: Instruction, name: str) -> int:
    """An integer attribute that numbers a dimension of an operand."""
    dimension = integer(op, name)
    if not 0 <= dimension < operand.shape.rank:
        raise invalid(op, f"{operand.shape} has no dimension {dimension}")
    return dimension


def flag(op: Operation, name: str) -> bool:
    """`true`, or a unit attribute that is present."""
    value = op.attributes.get(name, False)
    return value if isinstance(value, bool) else True


def word(op: Operation, name: str, default: str = "") -> str:
    """The value of an enumeration."""
    value = op.attributes.get(name)
    if value is None:
        return default
    if not isinstance(value, EnumAttribute):
        raise invalid(
            op, f"the attribute '{name}' is no enumeration such as #stablehlo<{name} ...>"
        )
    return value.value


def direction_of(op: Operation) -> ComparisonDirection:
    """The comparison that `comparison_direction` names."""
    name = word(op, "comparison_direction")
    if name not in ComparisonDirection.__members__:
        known = ", ".join(ComparisonDirection.__members__)
        raise invalid(op, f"comparison_direction is '{name}', expected one of {known}")
    return ComparisonDirection[name]
