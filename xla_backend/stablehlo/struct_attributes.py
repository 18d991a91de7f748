"""Attributes such as `#stablehlo.gather<offset_dims = [1], ...>` as dictionaries, both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xla_backend.stablehlo.attributes import DialectAttribute
from xla_backend.stablehlo.reader import Reader

ConvolutionLabels = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def _read_value(reader: Reader) -> Any:
    if reader.accept("["):
        members: list[Any] = []
        if reader.accept("]"):
            return ()
        while True:
            members.append(_read_value(reader))
            if reader.accept("]"):
                return tuple(members)
            reader.expect(",", "or ']'")
    character = reader.text[reader.skip_space() : reader.position + 1]
    if character.isdigit() or character == "-":
        start = reader.position
        value = reader.read_integer()
        if reader.text[reader.position : reader.position + 1] not in (".", "e", "E"):
            return value
        while reader.position < len(reader.text) and reader.text[reader.position] not in ",>] ":
            reader.position += 1
        return float(reader.text[start : reader.position])
    if character == "#":
        start = reader.position
        reader.position += 1
        reader.read_word("an attribute name")
        reader.balanced()
        return reader.text[start : reader.position]
    word = reader.read_word("a value")
    return {"true": True, "false": False}.get(word, word)


def struct_fields(attribute: DialectAttribute) -> dict[str, Any]:
    """`a = [0, 1], b = 2` as {"a": (0, 1), "b": 2}: lists are tuples, words strings.

    Raises:
      ParseError: the body is not a list of `name = value`.
    """
    reader = Reader(attribute.body or "")
    fields: dict[str, Any] = {}
    while not reader.at_end():
        name = reader.read_word("a field name")
        reader.expect("=")
        fields[name] = _read_value(reader)
        if not reader.accept(",") and not reader.at_end():
            reader.fail("expected ','")
    return fields


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(_value_text, value)) + "]"
    return str(value)


def make_struct(name: str, fields: Mapping[str, Any]) -> DialectAttribute:
    """The attribute of these fields; empty lists are left out, as MLIR does."""
    parts = [f"{k} = {_value_text(v)}" for k, v in fields.items() if v != ()]
    return DialectAttribute(name, ", ".join(parts))


# -- dimension numbers of convolutions -------------------------------------------------------------


def read_convolution_labels(reader: Reader) -> ConvolutionLabels:
    """`[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`."""
    lhs = _labels(reader)
    reader.expect("x")
    rhs = _labels(reader)
    reader.expect("->")
    return lhs, rhs, _labels(reader)


def _labels(reader: Reader) -> tuple[str, ...]:
    reader.expect("[")
    labels: list[str] = []
    while True:
        start = reader.skip_space()
        character = reader.text[start : start + 1]
        if character.isdigit():
            labels.append(str(reader.read_integer()))
        elif character and character in "bfio?":
            reader.position += 1
            labels.append(character)
        else:
            reader.fail("expected one of b, f, i, o or the number of a spatial dimension")
        if reader.accept("]"):
            return tuple(labels)
        reader.expect(",", "or ']'")


def convolution_labels(attribute: DialectAttribute) -> ConvolutionLabels:
    """Labels of a `#stablehlo.conv<...>`; the form with field names is understood, too."""
    body = (attribute.body or "").strip()
    if body.startswith("["):
        return read_convolution_labels(Reader(body))
    fields = struct_fields(attribute)
    return (
        _labels_of(fields, "input", "batch", "feature", "bf"),
        _labels_of(fields, "kernel", "input_feature", "output_feature", "io"),
        _labels_of(fields, "output", "batch", "feature", "bf"),
    )


def _labels_of(
    fields: Mapping[str, Any], prefix: str, first: str, second: str, letters: str
) -> tuple[str, ...]:
    spatial: Sequence[int] = fields.get(f"{prefix}_spatial_dimensions", ())
    labels = [""] * (len(spatial) + 2)
    labels[fields.get(f"{prefix}_{first}_dimension", 0)] = letters[0]
    labels[fields.get(f"{prefix}_{second}_dimension", 0)] = letters[1]
    for i, position in enumerate(spatial):
        labels[position] = str(i)
    return tuple(labels)


def convolution_labels_text(labels: ConvolutionLabels) -> str:
    lhs, rhs, out = ("[" + ", ".join(part) + "]" for part in labels)
    return f"{lhs}x{rhs}->{out}"
