"""Pretty forms with regions: functions, while and reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xla_backend.stablehlo.attribute_text import dictionary_text, symbol_name_text
from xla_backend.stablehlo.attributes import (
    UNKNOWN_LOCATION,
    ArrayAttribute,
    Attribute,
)
from xla_backend.stablehlo.format_values import I64, WRITE_KINDS
from xla_backend.stablehlo.ir import Block, Operation, Region, Value, function_type
from xla_backend.stablehlo.op_table import COMMUTATIVE
from xla_backend.stablehlo.read_regions import Argument, RegionReader
from xla_backend.stablehlo.types import FunctionType, TensorType, Type, results_text
from xla_backend.stablehlo.write_regions import Writer

_VISIBILITIES = ("public", "private", "nested")


# -- func.func -------------------------------------------------------------------------------------


def _read_function(reader: RegionReader, name: str) -> Operation:
    attributes: dict[str, Attribute] = {}
    for word in _VISIBILITIES:
        if reader.accept_word(word):
            attributes["sym_visibility"] = word
    attributes["sym_name"] = reader.read_symbol()
    arguments, types, argument_attributes = _read_parameters(reader)
    results, result_attributes = _read_results(reader)
    attributes["function_type"] = FunctionType(tuple(types), tuple(results))
    if any(argument_attributes):
        attributes["arg_attrs"] = tuple(argument_attributes)
    if any(result_attributes):
        attributes["res_attrs"] = tuple(result_attributes)
    if reader.accept_word("attributes"):
        attributes.update(reader.read_dictionary())
    regions = []
    if reader.at("{"):
        if len(arguments) != len(types):
            reader.fail("the parameters of a function with a body need names: %arg0: tensor<..>")
        regions.append(reader.read_region(arguments, isolated=True))
    return Operation(name, (), (), attributes, regions)


def _read_parameters(
    reader: RegionReader,
) -> tuple[list[Argument], list[Type], list[dict[str, Attribute]]]:
    arguments: list[Argument] = []
    types: list[Type] = []
    attributes: list[dict[str, Attribute]] = []
    reader.expect("(", "before the parameters")
    while not reader.accept(")"):
        if types:
            reader.expect(",", "or ')'")
        argument_name = ""
        if reader.at("%"):
            reader.accept("%")
            argument_name = reader.read_value_name()
            reader.expect(":", "and the type of the parameter")
        types.append(reader.read_type())
        attributes.append(reader.read_dictionary() if reader.at("{") else {})
        location = reader.read_optional_location()
        if argument_name:
            arguments.append((argument_name, types[-1], location))
    return arguments, types, attributes


def _read_results(reader: RegionReader) -> tuple[list[Type], list[dict[str, Attribute]]]:
    if not reader.accept("->"):
        return [], []
    if not reader.accept("("):
        return [reader.read_type()], [{}]
    types: list[Type] = []
    attributes: list[dict[str, Attribute]] = []
    while not reader.accept(")"):
        if types:
            reader.expect(",", "or ')'")
        types.append(reader.read_type())
        attributes.append(reader.read_dictionary() if reader.at("{") else {})
    return types, attributes


_FUNCTION_SHOWN = ("sym_name", "sym_visibility", "function_type", "arg_attrs", "res_attrs")


def _write_function(writer: Writer, op: Operation) -> None:
    a = op.attributes
    visibility = f"{a['sym_visibility']} " if "sym_visibility" in a else ""
    type_ = function_type(op)
    argument_attributes = a.get("arg_attrs") or [{}] * len(type_.inputs)
    block = op.regions[0].blocks[0] if op.regions else None
    parameters = []
    for i, (t, extra) in enumerate(zip(type_.inputs, argument_attributes)):
        text = f"{t}{' ' + dictionary_text(extra) if extra else ''}"
        if block is not None:
            location = writer.argument_location(block.argument_locations[i])
            text = f"{writer.name(block.arguments[i])}: {text}{location}"
        parameters.append(text)
    text = f"func.func {visibility}{symbol_name_text(a['sym_name'])}({', '.join(parameters)})"
    others = {k: v for k, v in a.items() if k not in _FUNCTION_SHOWN}
    attributes = f" attributes {dictionary_text(others)}" if others else ""
    writer.write(f"{text}{_results(type_, a.get('res_attrs'))}{attributes}")
    if op.regions:
        writer.write(" ")
        writer.region(op.regions[0], label=False, dialect="func")


def _results(type_: FunctionType, attributes: Sequence[dict[str, Attribute]] | None) -> str:
    if not type_.results:
        return ""
    if not attributes or not any(attributes):
        return f" -> {results_text(type_.results)}"
    parts = [
        f"{t}{' ' + dictionary_text(extra) if extra else ''}"
        for t, extra in zip(type_.results, attributes)
    ]
    return f" -> ({', '.join(parts)})"


# -- while -----------------------------------------------------------------------------------------


def _read_while(reader: RegionReader, name: str) -> Operation:
    names: list[str] = []
    operands: list[Value] = []
    reader.expect("(")
    while not reader.accept(")"):
        if operands:
            reader.expect(",", "or ')'")
        reader.expect("%", "and the name of a carried value")
        names.append(reader.read_value_name())
        reader.expect("=")
        operands.append(reader.read_operand())
    if operands:
        reader.expect(":", "and the types of the carried values")
        start = reader.skip_space()
        types = [reader.read_type()]
        while reader.accept(","):
            types.append(reader.read_type())
        reader.check_operand_types(operands, types, start)
    attributes = reader.read_dictionary() if reader.accept_word("attributes") else {}
    arguments = [(n, o.type, UNKNOWN_LOCATION) for n, o in zip(names, operands)]
    reader.expect_word("cond")
    condition = reader.read_region(arguments)
    reader.expect_word("do")
    body = reader.read_region(arguments)
    types = [o.type for o in operands]
    return Operation(name, operands, types, attributes, [condition, body])


def _write_while(writer: Writer, op: Operation) -> None:
    condition, body = op.regions
    arguments = condition.block.arguments
    pairs = [f"{writer.name(a)} = {writer.name(o)}" for a, o in zip(arguments, op.operands)]
    types = f" : {', '.join(map(str, op.operand_types))}" if op.operands else ""
    attributes = f" attributes {dictionary_text(op.attributes)}" if op.attributes else ""
    writer.write(f"{op.name}({', '.join(pairs)}){types}{attributes}")
    writer.newline()
    writer.write("cond ")
    writer.region(condition, label=False)
    writer.write(" do ")
    writer.region(body, label=False)


# -- reduce ----------------------------------------------------------------------------------------


def _read_reduce(reader: RegionReader, name: str) -> Operation:
    inputs: list[Value] = []
    initial: list[Value] = []
    while True:
        reader.expect("(")
        inputs.append(reader.read_operand())
        reader.expect_word("init")
        reader.expect(":")
        initial.append(reader.read_operand())
        reader.expect(")")
        if not reader.accept(","):
            break
    inner = ""
    start = reader.skip_space()
    if reader.accept_word("applies"):
        inner = reader.read_operation_name()
    reader.expect_word("across")
    reader.expect_word("dimensions")
    reader.expect("=")
    attributes: dict[str, Attribute] = {"dimensions": ArrayAttribute(I64, reader.read_integers())}
    if reader.at("{"):
        attributes.update(reader.read_dictionary())
    operands = [*inputs, *initial]
    reader.expect(":", "and the type of the operation")
    types = reader.read_signature(operands)
    if inner:
        if len(inputs) != 1:
            reader.fail("'applies' is for one input; write a reducer(...) { ... }", start)
        region = _binary_region(inner, initial[0].type)
    else:
        region = _read_reducer(reader, len(inputs))
    return Operation(name, operands, types, attributes, [region])


def _binary_region(inner: str, type_: Type) -> Region:
    """A reducer of one operation on scalars of the initial value's type."""
    if isinstance(type_, TensorType):
        type_ = TensorType((), type_.element)
    block = Block([type_, type_])
    result = block.append(Operation(inner, block.arguments, [type_]))
    block.append(Operation("stablehlo.return", [result.result]))
    return Region([block])


def _read_reducer(reader: RegionReader, count: int) -> Region:
    reader.expect_word("reducer")
    pairs = [reader.read_arguments() for _ in range(count)]
    if any(len(pair) != 2 for pair in pairs):
        reader.fail("a reducer has pairs of arguments: (%a: tensor<f32>, %b: tensor<f32>)")
    return reader.read_region([p[0] for p in pairs] + [p[1] for p in pairs])


def _applied(op: Operation) -> str | None:
    """Name of the operation if the reducer is nothing but one commutative operation."""
    block = op.regions[0].block
    if len(op.operands) != 2 or len(block.operations) != 2:
        return None
    inner, terminator = block.operations
    plain = (
        inner.name in COMMUTATIVE
        and not inner.attributes
        and inner.operands == block.arguments
        and terminator.operands == inner.results
        and inner.result.type == block.arguments[0].type == block.arguments[1].type
    )
    return inner.name if plain else None


def _write_reduce(writer: Writer, op: Operation) -> None:
    count = len(op.operands) // 2
    pairs = [
        f"({writer.name(x)} init: {writer.name(i)})"
        for x, i in zip(op.operands[:count], op.operands[count:])
    ]
    inner = _applied(op)
    applies = f" applies {inner}" if inner else ""
    dims = WRITE_KINDS["ints"](op.attributes["dimensions"])
    others = writer.dictionary(op, ("dimensions",))
    writer.write(
        f"{op.name}{', '.join(pairs)}{applies} across dimensions = {dims}{others} : "
        f"{writer.signature(op)}"
    )
    if inner:
        return
    writer.newline()
    arguments = op.regions[0].block.arguments
    groups = [
        f"({writer.argument(a)}, {writer.argument(b)}) "
        for a, b in zip(arguments[:count], arguments[count:])
    ]
    writer.write(f" reducer{''.join(groups)} ")
    writer.region(op.regions[0], label=False)


REGION_READERS: dict[str, Callable[[Any, str], Operation]] = {
    "func.func": _read_function,
    "stablehlo.while": _read_while,
    "stablehlo.reduce": _read_reduce,
}

REGION_WRITERS: dict[str, Callable[[Any, Operation], None]] = {
    "func.func": _write_function,
    "stablehlo.while": _write_while,
    "stablehlo.reduce": _write_reduce,
}
