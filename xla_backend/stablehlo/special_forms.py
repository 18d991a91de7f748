"""Pretty forms that the directives of op_table.py cannot express, without regions; both ways."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.text_position import quote
from xla_backend.stablehlo.attribute_text import attribute_text, symbol_name_text
from xla_backend.stablehlo.attributes import (
    ArrayAttribute,
    Attribute,
    DenseAttribute,
    DialectAttribute,
    IntegerAttribute,
)
from xla_backend.stablehlo.format_values import I32, I64, precisions_text, read_precisions
from xla_backend.stablehlo.ir import Operation, Value
from xla_backend.stablehlo.read_regions import RegionReader
from xla_backend.stablehlo.region_forms import REGION_READERS, REGION_WRITERS
from xla_backend.stablehlo.sharding_forms import SHARDING_READERS, SHARDING_WRITERS
from xla_backend.stablehlo.struct_attributes import (
    convolution_labels,
    convolution_labels_text,
    make_struct,
    read_convolution_labels,
    struct_fields,
)
from xla_backend.stablehlo.types import ComplexType, ScalarType, TensorType, TupleType, Type
from xla_backend.stablehlo.write_regions import Writer

_FORMAT = re.compile(r"e(\d+)m(\d+)")
_I1 = ScalarType("i1")


def _finish(
    reader: RegionReader,
    name: str,
    operands: Sequence[Value],
    attributes: dict[str, Attribute],
) -> Operation:
    """`{attributes} : (operand types) -> result types`."""
    if reader.at("{"):
        attributes.update(reader.read_dictionary())
    reader.expect(":", "and the type of the operation")
    return Operation(name, operands, reader.read_signature(operands), attributes)


# -- constant --------------------------------------------------------------------------------------


def _read_constant(reader: RegionReader, name: str) -> Operation:
    attributes = reader.read_dictionary() if reader.at("{") else {}
    start = reader.skip_space()
    value = reader.read_attribute()
    if not isinstance(value, DenseAttribute):
        reader.fail("expected dense<...> : tensor<...>", start)
    attributes["value"] = value
    return Operation(name, (), (value.type,), attributes)


def _write_constant(writer: Writer, op: Operation) -> None:
    others = writer.dictionary(op, ("value",))
    writer.write(f"{op.name}{others} {attribute_text(op.attributes['value'])}")


# -- complex, select: shortened types --------------------------------------------------------------


def _real_type(type_: Type) -> Type:
    if isinstance(type_, TensorType) and isinstance(type_.element, ComplexType):
        return TensorType(type_.dimensions, type_.element.element, type_.bounds, type_.encoding)
    return type_


def _read_complex(reader: RegionReader, name: str) -> Operation:
    operands = reader.read_operands()
    attributes = reader.read_dictionary() if reader.at("{") else {}
    reader.expect(":", "and the type of the result")
    if reader.at("("):
        return Operation(name, operands, reader.read_signature(operands), attributes)
    start = reader.skip_space()
    type_ = reader.read_type()
    reader.check_operand_types(operands, [_real_type(type_)] * len(operands), start)
    return Operation(name, operands, (type_,), attributes)


def _write_complex(writer: Writer, op: Operation) -> None:
    short = all(t == _real_type(op.result.type) for t in op.operand_types)
    type_ = str(op.result.type) if short else writer.signature(op)
    writer.write(f"{op.name} {writer.operands(op.operands)}{writer.dictionary(op)} : {type_}")


def _read_select(reader: RegionReader, name: str) -> Operation:
    operands = reader.read_operands()
    attributes = reader.read_dictionary() if reader.at("{") else {}
    reader.expect(":", "and the types of the predicate and the result")
    if reader.at("("):
        return Operation(name, operands, reader.read_signature(operands), attributes)
    start = reader.skip_space()
    predicate = reader.read_type()
    reader.expect(",", "and the type of the result")
    type_ = reader.read_type()
    reader.check_operand_types(operands, (predicate, type_, type_), start)
    return Operation(name, operands, (type_,), attributes)


def _write_select(writer: Writer, op: Operation) -> None:
    predicate, *branches = op.operand_types
    short = all(t == op.result.type for t in branches)
    type_ = f"{predicate}, {op.result.type}" if short else writer.signature(op)
    writer.write(f"{op.name} {writer.operands(op.operands)}{writer.dictionary(op)} : {type_}")


# -- tuples ----------------------------------------------------------------------------------------


def _read_tuple(reader: RegionReader, name: str) -> Operation:
    operands = reader.read_operands()
    attributes = reader.read_dictionary() if reader.at("{") else {}
    reader.expect(":", "and the tuple type")
    start = reader.skip_space()
    type_ = reader.read_type()
    if not isinstance(type_, TupleType):
        reader.fail(f"expected a tuple type, got {type_}", start)
    reader.check_operand_types(operands, type_.members, start)
    return Operation(name, operands, (type_,), attributes)


def _write_tuple(writer: Writer, op: Operation) -> None:
    operands = f" {writer.operands(op.operands)}" if op.operands else ""
    writer.write(f"{op.name}{operands}{writer.dictionary(op)} : {op.result.type}")


def _read_get_tuple_element(reader: RegionReader, name: str) -> Operation:
    operand = reader.read_operand()
    reader.expect("[")
    index = reader.read_integer("an index")
    reader.expect("]")
    return _finish(reader, name, [operand], {"index": IntegerAttribute(index, I32)})


def _write_get_tuple_element(writer: Writer, op: Operation) -> None:
    others = writer.dictionary(op, ("index",))
    index = op.attributes["index"].value
    operand = writer.operands(op.operands)
    writer.write(f"{op.name} {operand}[{index}]{others} : {writer.signature(op)}")


# -- slice, reduce_precision -----------------------------------------------------------------------


def _read_slice(reader: RegionReader, name: str) -> Operation:
    operand = reader.read_operand()
    ranges: list[tuple[int, int, int]] = []
    reader.expect("[")
    while not reader.accept("]"):
        if ranges:
            reader.expect(",", "or ']'")
        start = reader.read_integer("a start index")
        reader.expect(":")
        limit = reader.read_integer("a limit index")
        ranges.append((start, limit, reader.read_integer("a stride") if reader.accept(":") else 1))
    columns = zip(*ranges) if ranges else ((), (), ())
    names = ("start_indices", "limit_indices", "strides")
    attributes: dict[str, Attribute] = {
        n: ArrayAttribute(I64, tuple(column)) for n, column in zip(names, columns)
    }
    return _finish(reader, name, [operand], attributes)


def _values(value: Attribute) -> Sequence[int]:
    """Integers of either form: array<i64: ...> or dense<...>."""
    return value.array.tolist() if isinstance(value, DenseAttribute) else value.values


def _write_slice(writer: Writer, op: Operation) -> None:
    names = ("start_indices", "limit_indices", "strides")
    columns = [_values(op.attributes[n]) for n in names]
    parts = [f"{a}:{b}" if c == 1 else f"{a}:{b}:{c}" for a, b, c in zip(*columns)]
    others = writer.dictionary(op, names)
    operand = writer.operands(op.operands)
    writer.write(f"{op.name} {operand} [{', '.join(parts)}]{others} : {writer.signature(op)}")


def _read_reduce_precision(reader: RegionReader, name: str) -> Operation:
    operand = reader.read_operand()
    reader.expect(",")
    reader.expect_word("format")
    reader.expect("=")
    match = reader.read(_FORMAT, "a format such as e5m10")
    attributes: dict[str, Attribute] = {
        "exponent_bits": IntegerAttribute(int(match[1]), I32),
        "mantissa_bits": IntegerAttribute(int(match[2]), I32),
    }
    if reader.at("{"):
        attributes.update(reader.read_dictionary())
    reader.expect(":", "and the type of the operation")
    if reader.at("("):
        return Operation(name, [operand], reader.read_signature([operand]), attributes)
    start = reader.skip_space()
    type_ = reader.read_type()
    reader.check_operand_types([operand], [type_], start)
    return Operation(name, [operand], (type_,), attributes)


def _write_reduce_precision(writer: Writer, op: Operation) -> None:
    names = ("exponent_bits", "mantissa_bits")
    exponent, mantissa = (op.attributes[n].value for n in names)
    others = writer.dictionary(op, names)
    operand = writer.operands(op.operands)
    writer.write(
        f"{op.name} {operand}, format = e{exponent}m{mantissa}{others} : {writer.same_type(op)}"
    )


# -- dot_general -----------------------------------------------------------------------------------

DOT_FIELDS = (
    "lhs_batching_dimensions",
    "rhs_batching_dimensions",
    "lhs_contracting_dimensions",
    "rhs_contracting_dimensions",
)


def _read_dot_general(reader: RegionReader, name: str) -> Operation:
    operands = [reader.read_operand()]
    reader.expect(",")
    operands.append(reader.read_operand())
    dims: dict[str, Any] = dict.fromkeys(DOT_FIELDS, ())
    attributes: dict[str, Attribute] = {}
    while reader.accept(","):
        start = reader.skip_space()
        word = reader.read_word("batching_dims, contracting_dims, precision or algorithm")
        reader.expect("=")
        if word in ("batching_dims", "contracting_dims"):
            kind = word.replace("_dims", "_dimensions")
            dims[f"lhs_{kind}"] = reader.read_integers()
            reader.expect("x")
            dims[f"rhs_{kind}"] = reader.read_integers()
        elif word == "precision":
            attributes["precision_config"] = read_precisions(reader)
        elif word == "algorithm":
            body = reader.balanced()[1:-1]
            attributes[word] = DialectAttribute("stablehlo.dot_algorithm", body)
        else:
            reader.fail(f"'{word}' is not a part of dot_general", start)
    attributes["dot_dimension_numbers"] = make_struct("stablehlo.dot", dims)
    return _finish(reader, name, operands, attributes)


def _write_dot_general(writer: Writer, op: Operation) -> None:
    fields = struct_fields(op.attributes["dot_dimension_numbers"])
    dims = [_ints(fields.get(n, ())) for n in DOT_FIELDS]
    parts = [f"{op.name} {writer.operands(op.operands)}"]
    if dims[0] != "[]":
        parts.append(f"batching_dims = {dims[0]} x {dims[1]}")
    parts.append(f"contracting_dims = {dims[2]} x {dims[3]}")
    if "precision_config" in op.attributes:
        parts.append(f"precision = {precisions_text(op.attributes['precision_config'])}")
    if "algorithm" in op.attributes:
        parts.append(f"algorithm = <{op.attributes['algorithm'].body}>")
    shown = ("dot_dimension_numbers", "precision_config", "algorithm")
    writer.write(f"{', '.join(parts)}{writer.dictionary(op, shown)} : {writer.signature(op)}")


def _ints(values: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


# -- convolution -----------------------------------------------------------------------------------

_WINDOW_LISTS = {
    "stride": "window_strides",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
}


def _read_convolution(reader: RegionReader, name: str) -> Operation:
    reader.expect("(")
    operands = reader.read_operands()
    reader.expect(")")
    reader.expect_word("dim_numbers")
    reader.expect("=")
    labels = read_convolution_labels(reader)
    reader.expect(",")
    reader.expect_word("window")
    reader.expect("=")
    attributes = _read_window(reader)
    text = convolution_labels_text(labels)
    attributes["dimension_numbers"] = DialectAttribute("stablehlo.conv", text)
    return _finish(reader, name, operands, attributes)


def _read_window(reader: RegionReader) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {}
    reader.expect("{")
    while not reader.accept("}"):
        start = reader.skip_space()
        word = reader.read_word("a window field")
        reader.expect("=")
        if word in _WINDOW_LISTS:
            attributes[_WINDOW_LISTS[word]] = ArrayAttribute(I64, reader.read_integers())
        elif word == "pad":
            attributes["padding"] = _read_padding(reader)
        elif word == "reverse":
            attributes["window_reversal"] = ArrayAttribute(_I1, _read_flags(reader))
        else:
            known = ", ".join(["stride", "pad", "lhs_dilate", "rhs_dilate", "reverse"])
            reader.fail(f"unknown window field '{word}'; known: {known}", start)
        if not reader.accept(",") and not reader.at("}"):
            reader.fail("expected ',' or '}'")
    return attributes


def _read_padding(reader: RegionReader) -> DenseAttribute:
    rows: list[tuple[int, ...]] = []
    reader.expect("[")
    while not reader.accept("]"):
        if rows:
            reader.expect(",", "or ']'")
        start = reader.skip_space()
        rows.append(reader.read_integers())
        if len(rows[-1]) != 2:
            reader.fail("expected [low, high]", start)
    return DenseAttribute(
        np.array(rows, np.int64).reshape(len(rows), 2), TensorType((len(rows), 2), I64)
    )


def _read_flags(reader: RegionReader) -> tuple[bool, ...]:
    flags: list[bool] = []
    reader.expect("[")
    while not reader.accept("]"):
        if flags:
            reader.expect(",", "or ']'")
        start = reader.skip_space()
        word = reader.read_word("true or false")
        if word not in ("true", "false"):
            reader.fail("expected true or false", start)
        flags.append(word == "true")
    return tuple(flags)


def _write_convolution(writer: Writer, op: Operation) -> None:
    a = op.attributes
    fields = []
    if "window_strides" in a:
        fields.append(f"stride = {_ints(_values(a['window_strides']))}")
    if "padding" in a:
        rows = ", ".join(_ints(row) for row in a["padding"].array.tolist())
        fields.append(f"pad = [{rows}]")
    for word in ("lhs_dilate", "rhs_dilate"):
        if _WINDOW_LISTS[word] in a:
            fields.append(f"{word} = {_ints(_values(a[_WINDOW_LISTS[word]]))}")
    if "window_reversal" in a:
        flags = ["true" if v else "false" for v in a["window_reversal"].values]
        fields.append(f"reverse = [{', '.join(flags)}]")
    shown = ("dimension_numbers", "padding", "window_reversal", *_WINDOW_LISTS.values())
    labels = convolution_labels_text(convolution_labels(a["dimension_numbers"]))
    writer.write(
        f"{op.name}({writer.operands(op.operands)}) dim_numbers = {labels}, "
        f"window = {{{', '.join(fields)}}}{writer.dictionary(op, shown)} : {writer.signature(op)}"
    )


# -- custom_call, composite ------------------------------------------------------------------------


def _read_custom_call(reader: RegionReader, name: str) -> Operation:
    target = reader.read_symbol()
    reader.expect("(")
    operands = reader.read_operands()
    reader.expect(")")
    return _finish(reader, name, operands, {"call_target_name": target})


def _write_custom_call(writer: Writer, op: Operation) -> None:
    target = symbol_name_text(op.attributes["call_target_name"])
    others = writer.dictionary(op, ("call_target_name",))
    operands = writer.operands(op.operands)
    writer.write(f"{op.name} {target}({operands}){others} : {writer.signature(op)}")


def _read_composite(reader: RegionReader, name: str) -> Operation:
    target = reader.read_string("the name of the composite")
    operands = reader.read_operands()
    return _finish(reader, name, operands, {"name": target})


def _write_composite(writer: Writer, op: Operation) -> None:
    operands = f" {writer.operands(op.operands)}" if op.operands else ""
    others = writer.dictionary(op, ("name",))
    writer.write(
        f"{op.name} {quote(op.attributes['name'])}{operands}{others} : {writer.signature(op)}"
    )


SPECIAL_READERS: dict[str, Callable[[Any, str], Operation]] = {
    "stablehlo.constant": _read_constant,
    "chlo.constant": _read_constant,
    "stablehlo.complex": _read_complex,
    "stablehlo.select": _read_select,
    "stablehlo.tuple": _read_tuple,
    "stablehlo.get_tuple_element": _read_get_tuple_element,
    "stablehlo.slice": _read_slice,
    "stablehlo.reduce_precision": _read_reduce_precision,
    "stablehlo.dot_general": _read_dot_general,
    "stablehlo.convolution": _read_convolution,
    "stablehlo.custom_call": _read_custom_call,
    "stablehlo.composite": _read_composite,
    **REGION_READERS,
    **SHARDING_READERS,
}

SPECIAL_WRITERS: dict[str, Callable[[Any, Operation], None]] = {
    "stablehlo.constant": _write_constant,
    "chlo.constant": _write_constant,
    "stablehlo.complex": _write_complex,
    "stablehlo.select": _write_select,
    "stablehlo.tuple": _write_tuple,
    "stablehlo.get_tuple_element": _write_get_tuple_element,
    "stablehlo.slice": _write_slice,
    "stablehlo.reduce_precision": _write_reduce_precision,
    "stablehlo.dot_general": _write_dot_general,
    "stablehlo.convolution": _write_convolution,
    "stablehlo.custom_call": _write_custom_call,
    "stablehlo.composite": _write_composite,
    **REGION_WRITERS,
    **SHARDING_WRITERS,
}
