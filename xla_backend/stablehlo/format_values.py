"""Attributes inside pretty forms: how each kind is read and written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xla_backend.hlo.text_position import quote
from xla_backend.stablehlo.attribute_text import attribute_text, symbol_text
from xla_backend.stablehlo.attributes import (
    ArrayAttribute,
    Attribute,
    DenseAttribute,
    EnumAttribute,
    IntegerAttribute,
)
from xla_backend.stablehlo.format_directives import Directive
from xla_backend.stablehlo.read_attributes import AttributeReader
from xla_backend.stablehlo.types import ScalarType

I32, I64 = ScalarType("i32"), ScalarType("i64")


def _read_bool(reader: AttributeReader, directive: Directive) -> bool:
    if reader.accept_word("true"):
        return True
    if reader.accept_word("false"):
        return False
    reader.fail(f"expected 'true' or 'false', got {reader.found()}")


def read_precisions(reader: AttributeReader) -> tuple[EnumAttribute, ...]:
    """`[HIGH, DEFAULT]`."""
    reader.expect("[")
    values: list[EnumAttribute] = []
    if reader.accept("]"):
        return ()
    while True:
        start = reader.skip_space()
        word = reader.read_word("a precision")
        if word not in ("DEFAULT", "HIGH", "HIGHEST"):
            reader.fail(f"'{word}' is not one of DEFAULT, HIGH, HIGHEST", start)
        values.append(EnumAttribute("stablehlo", "precision", word))
        if reader.accept("]"):
            return tuple(values)
        reader.expect(",", "or ']'")


def precisions_text(values: tuple[EnumAttribute, ...]) -> str:
    return "[" + ", ".join(v.value for v in values) + "]"


def _read_enum(reader: AttributeReader, directive: Directive) -> EnumAttribute:
    known = ENUMS.get(directive.enum)
    start = reader.skip_space()
    word = reader.read_word("a word")
    if known is not None and word not in known:
        reader.fail(f"'{word}' is not one of {', '.join(known)}", start)
    return EnumAttribute("stablehlo", directive.enum, word)


def _read_dense(reader: AttributeReader, directive: Directive) -> Attribute:
    # The type that follows belongs to the constant and to the operand alike.
    start = reader.skip_space()
    value = reader.read_attribute()
    if not isinstance(value, DenseAttribute):
        reader.fail("expected dense<...>", start)
    reader.position = reader.text.index(":", start)
    return value


ENUMS: dict[str, tuple[str, ...]] = {
    "comparison_direction": ("EQ", "NE", "GE", "GT", "LE", "LT"),
    "comparison_type": ("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"),
    "fft_type": ("FFT", "IFFT", "RFFT", "IRFFT"),
    "rng_distribution": ("UNIFORM", "NORMAL"),
    "rng_algorithm": ("DEFAULT", "THREE_FRY", "PHILOX"),
    "transpose": ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
}

READ_KINDS: dict[str, Callable[[Any, Directive], Attribute]] = {
    "ints": lambda reader, d: ArrayAttribute(I64, reader.read_integers()),
    "i64": lambda reader, d: IntegerAttribute(reader.read_integer(), I64),
    "i32": lambda reader, d: IntegerAttribute(reader.read_integer(), I32),
    "bool": _read_bool,
    "string": lambda reader, d: reader.read_string(),
    "enum": _read_enum,
    "precision": lambda reader, d: read_precisions(reader),
    "symbol": lambda reader, d: reader.read_symbol_reference(),
    "dense": _read_dense,
}


def _ints_text(value: ArrayAttribute | DenseAttribute) -> str:
    """`[1, 2]`, also of the dense form that older texts use."""
    values = value.array.tolist() if isinstance(value, DenseAttribute) else value.values
    return "[" + ", ".join(map(str, values)) + "]"


WRITE_KINDS: dict[str, Callable[[Any], str]] = {
    "ints": _ints_text,
    "i64": lambda v: str(v.value),
    "i32": lambda v: str(v.value),
    "bool": lambda v: "true" if v else "false",
    "string": quote,
    "enum": lambda v: v.value,
    "precision": precisions_text,
    "symbol": symbol_text,
    "dense": lambda v: attribute_text(v).rpartition(" : ")[0],
}
