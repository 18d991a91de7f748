"""Pretty forms of the sharding dialect; its own syntax is kept as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xla_backend.stablehlo.attribute_text import symbol_name_text
from xla_backend.stablehlo.attributes import Attribute, DialectAttribute, IntegerAttribute
from xla_backend.stablehlo.format_values import I32, I64
from xla_backend.stablehlo.ir import Operation
from xla_backend.stablehlo.read_regions import RegionReader
from xla_backend.stablehlo.write_regions import Writer


def _further(reader: RegionReader) -> dict[str, Attribute]:
    return reader.read_dictionary() if reader.at("{") else {}


# -- meshes ----------------------------------------------------------------------------------------


def _read_mesh(reader: RegionReader, name: str) -> Operation:
    symbol = reader.read_symbol()
    reader.expect("=")
    mesh = DialectAttribute("sdy.mesh", reader.balanced()[1:-1])
    return Operation(name, (), (), {"sym_name": symbol, "mesh": mesh, **_further(reader)})


def _write_mesh(writer: Writer, op: Operation) -> None:
    name, mesh = symbol_name_text(op.attributes["sym_name"]), op.attributes["mesh"].body
    others = writer.dictionary(op, ("sym_name", "mesh"))
    writer.write(f"{op.name} {name} = <{mesh}>{others}")


# -- what says something of one value --------------------------------------------------------------


def _read_constraint(reader: RegionReader, name: str) -> Operation:
    operand = reader.read_operand()
    sharding = DialectAttribute("sdy.sharding", reader.balanced()[1:-1])
    attributes = {"sharding": sharding, **_further(reader)}
    reader.expect(":", "and the type of the operand")
    start = reader.skip_space()
    type_ = reader.read_type()
    reader.check_operand_types([operand], [type_], start)
    return Operation(name, [operand], [type_], attributes)


def _write_constraint(writer: Writer, op: Operation) -> None:
    sharding = op.attributes["sharding"].body
    others = writer.dictionary(op, ("sharding",))
    writer.write(
        f"{op.name} {writer.operands(op.operands)} <{sharding}>{others} : {op.operands[0].type}"
    )


_DIRECTIONS = ("NONE", "FORWARD", "BACKWARD", "BOTH")


def _read_barrier(reader: RegionReader, name: str) -> Operation:
    operand = reader.read_operand()
    reader.expect_word("allowed_direction")
    reader.expect("=")
    start = reader.skip_space()
    word = reader.read_word("a direction")
    if word not in _DIRECTIONS:
        reader.fail(f"'{word}' is not one of {', '.join(_DIRECTIONS)}", start)
    direction = IntegerAttribute(_DIRECTIONS.index(word), I32)
    attributes = {"allowed_direction": direction, **_further(reader)}
    reader.expect(":", "and the type of the operand")
    start = reader.skip_space()
    type_ = reader.read_type()
    reader.check_operand_types([operand], [type_], start)
    return Operation(name, [operand], [type_], attributes)


def _write_barrier(writer: Writer, op: Operation) -> None:
    direction = _DIRECTIONS[op.attributes["allowed_direction"].value]
    others = writer.dictionary(op, ("allowed_direction",))
    writer.write(
        f"{op.name} {writer.operands(op.operands)} allowed_direction={direction}{others} : "
        f"{op.result.type}"
    )


def _read_group(reader: RegionReader, name: str) -> Operation:
    operand = reader.read_operand()
    reader.expect_word("group_id")
    reader.expect("=")
    group = IntegerAttribute(reader.read_integer("the number of a group"), I64)
    attributes = {"group_id": group, **_further(reader)}
    reader.expect(":", "and the type of the operand")
    start = reader.skip_space()
    reader.check_operand_types([operand], [reader.read_type()], start)
    return Operation(name, [operand], (), attributes)


def _write_group(writer: Writer, op: Operation) -> None:
    group = op.attributes["group_id"].value
    others = writer.dictionary(op, ("group_id",))
    writer.write(
        f"{op.name} {writer.operands(op.operands)} group_id={group}{others} : {op.operands[0].type}"
    )


# -- bodies that see parts -------------------------------------------------------------------------

_PER_VALUE = "sdy.sharding_per_value"
_MANUAL_FIELDS = {"in_shardings": _PER_VALUE, "out_shardings": _PER_VALUE, "manual_axes": "sdy"}
_AXES = "manual_axes"


def _read_manual_computation(reader: RegionReader, name: str) -> Operation:
    reader.expect("(")
    operands = reader.read_operands()
    reader.expect(")")
    attributes: dict[str, Attribute] = {}
    for field, kind in _MANUAL_FIELDS.items():
        reader.expect_word(field)
        reader.expect("=")
        prefix = _AXES if field == _AXES else ""
        attributes[field] = DialectAttribute(kind, prefix + reader.balanced())
    arguments = reader.read_arguments()
    region = reader.read_region(arguments)
    attributes.update(_further(reader))
    reader.expect(":", "and the type of the operation")
    return Operation(name, operands, reader.read_signature(operands), attributes, [region])


def _write_manual_computation(writer: Writer, op: Operation) -> None:
    bodies = [(f, op.attributes[f].body.removeprefix(_AXES)) for f in _MANUAL_FIELDS]
    fields = " ".join(f"{field}={body}" for field, body in bodies)
    arguments = ", ".join(map(writer.argument, op.regions[0].block.arguments))
    writer.write(f"{op.name}({writer.operands(op.operands)}) {fields} ({arguments}) ")
    writer.region(op.regions[0], label=False)
    others = writer.dictionary(op, tuple(_MANUAL_FIELDS))
    writer.write(f"{others} : {writer.signature(op)}")


SHARDING_READERS: dict[str, Callable[[Any, str], Operation]] = {
    "sdy.mesh": _read_mesh,
    "sdy.sharding_constraint": _read_constraint,
    "sdy.reshard": _read_constraint,
    "sdy.propagation_barrier": _read_barrier,
    "sdy.sharding_group": _read_group,
    "sdy.manual_computation": _read_manual_computation,
}

SHARDING_WRITERS: dict[str, Callable[[Any, Operation], None]] = {
    "sdy.mesh": _write_mesh,
    "sdy.sharding_constraint": _write_constraint,
    "sdy.reshard": _write_constraint,
    "sdy.propagation_barrier": _write_barrier,
    "sdy.sharding_group": _write_group,
    "sdy.manual_computation": _write_manual_computation,
}
