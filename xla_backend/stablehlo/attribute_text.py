"""Writing attributes and locations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xla_backend.hlo.text_position import quote
from xla_backend.stablehlo.attributes import (
    UNIT,
    ArrayAttribute,
    Attribute,
    DenseAttribute,
    DialectAttribute,
    EnumAttribute,
    FloatAttribute,
    IntegerAttribute,
    Location,
    OpaqueAttribute,
    SymbolAttribute,
    UnitAttribute,
)
from xla_backend.stablehlo.dense_text import dense_body, float_text
from xla_backend.stablehlo.types import ScalarType, Type

_BARE_NAME = re.compile(r"[A-Za-z_][\w$.]*\Z", re.ASCII)
_BARE_SYMBOL = re.compile(r"[A-Za-z_][\w$.]*\Z", re.ASCII)


def symbol_name_text(name: str) -> str:
    """`@main`, or `@"a b"`."""
    return f"@{name}" if _BARE_SYMBOL.match(name) else f"@{quote(name)}"


def symbol_text(symbol: SymbolAttribute) -> str:
    return "::".join(map(symbol_name_text, symbol.path))


def _element_text(value: Any, element: ScalarType) -> str:
    if element.name == "i1":
        return "true" if value else "false"
    return float_text(value) if isinstance(value, np.generic) else str(value)


def _member_text(value: Attribute) -> str:
    """A member of an array: the types i64 and f64 go without saying."""
    if isinstance(value, IntegerAttribute) and str(value.type) == "i64":
        return str(value.value)
    if isinstance(value, FloatAttribute) and value.type.name == "f64":
        text = float_text(value.value)
        return text if "x" not in text else attribute_text(value)
    return attribute_text(value)


def _dense(value: DenseAttribute) -> str:
    body = value.text or f"dense<{dense_body(value.array)}>"
    return f"{body} : {value.type}"


def attribute_text(value: Attribute) -> str:
    """Any attribute.

    Raises:
      TypeError: not an attribute value.
    """
    write = _WRITERS.get(type(value))
    if write is not None:
        return write(value)
    if isinstance(value, Type):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no attribute value: {value!r}")


def dictionary_text(values: Mapping[str, Attribute]) -> str:
    """`{name = value, flag}`, sorted by name."""
    parts = []
    for name in sorted(values):
        shown = name if _BARE_NAME.match(name) else quote(name)
        value = values[name]
        parts.append(shown if value is UNIT else f"{shown} = {attribute_text(value)}")
    return "{" + ", ".join(parts) + "}"


def _array_attribute(value: ArrayAttribute) -> str:
    if not value.values:
        return f"array<{value.element}>"
    texts = ", ".join(_element_text(v, value.element) for v in value.values)
    return f"array<{value.element}: {texts}>"


def _integer(value: IntegerAttribute) -> str:
    return f"{value.value} : {value.type}"


def _dialect_attribute(value: DialectAttribute) -> str:
    return f"#{value.name}" if value.body is None else f"#{value.name}<{value.body}>"


# -- locations -------------------------------------------------------------------------------------


def location_body(location: Location, part: Callable[[Location], str] | None = None) -> str:
    """What stands between the parentheses of `loc(...)`.

    Args:
      part: the text of a location inside; None: all of it.
    """
    part = part or location_body
    if location.caller is not None and location.child is not None:
        return f"callsite({part(location.child)} at {part(location.caller)})"
    if location.fused:
        return f"fused[{', '.join(map(part, location.fused))}]"
    if location.name:
        child = f"({part(location.child)})" if location.child is not None else ""
        return quote(location.name) + child
    if location.file:
        end = ""
        if location.end_column:
            line = "" if location.end_line == location.line else str(location.end_line)
            end = f" to {line}:{location.end_column}"
        return f"{quote(location.file)}:{location.line}:{location.column}{end}"
    return "unknown"


def location_text(location: Location) -> str:
    return f"loc({location_body(location)})"


_WRITERS: dict[type, Any] = {
    bool: lambda v: "true" if v else "false",
    str: quote,
    tuple: lambda v: "[" + ", ".join(map(_member_text, v)) + "]",
    dict: dictionary_text,
    UnitAttribute: lambda v: "unit",
    IntegerAttribute: _integer,
    FloatAttribute: lambda v: f"{float_text(v.value)} : {v.type}",
    SymbolAttribute: symbol_text,
    ArrayAttribute: _array_attribute,
    DenseAttribute: _dense,
    EnumAttribute: lambda v: f"#{v.dialect}<{v.kind} {v.value}>",
    DialectAttribute: _dialect_attribute,
    OpaqueAttribute: lambda v: v.text,
    Location: location_text,
}
