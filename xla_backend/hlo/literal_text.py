"""Literals as HLO text, both ways.

Floats are written with as many digits as their type needs to read back to the same bits (%.6g if
that is enough for f32, else %.9g, and so on); NaNs keep sign and payload.
"""

from __future__ import annotations

import math
import re

import ml_dtypes
import numpy as np

from xla_backend.hlo.literal import Literal
from xla_backend.hlo.shape import UNBOUNDED, Shape
from xla_backend.hlo.text_cursor import SPACE, Cursor
from xla_backend.hlo.types import PrimitiveType

P = PrimitiveType
_ELIDE_ABOVE = 10  # XLA writes `{...}` for more elements than this
_MAX_ELIDED = 1 << 28  # elements that `{...}` may stand for: they are allocated
_NAN = re.compile(r"(-?)nan(?:\((0x[0-9a-fA-F]+)\))?$")
_INTEGER = re.compile(r"[+-]?\d+$")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf|nan)$")
_TOKEN = re.compile(
    r"\{|\}|,|\((?:[^()]|\(0x[0-9a-fA-F]+\))*\)|[^\s{},()/]+(?:\(0x[0-9a-fA-F]+\))?"
)
# The types with more than one NaN of each sign.
_WITH_PAYLOADS = (P.F16, P.BF16, P.F32, P.F64, P.F8E5M2, P.F8E4M3, P.F8E3M4)
_NEGATIVE_ZERO = re.compile(r"-0(?![\d.e])")
_PART = re.compile(r"[^\s,()]+(?:\(0x[0-9a-fA-F]+\))?")


# -- printing ------------------------------------------------------------------------------------


def _unsigned_bits(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.dtype.itemsize}")


def _mantissa_bits(kind: PrimitiveType) -> int:
    return int(ml_dtypes.finfo(kind.numpy_dtype).nmant)


def _nan_text(value: np.ndarray | np.generic, kind: PrimitiveType) -> str:
    bits = int(_unsigned_bits(np.asarray(value)).item())
    mantissa = _mantissa_bits(kind)
    payload = bits & ((1 << mantissa) - 1)
    sign = "-" if bits >> (kind.bits - 1) & 1 else ""
    if kind not in _WITH_PAYLOADS:
        return sign + "nan"
    default = 1 << (mantissa - 1)
    return f"{sign}nan" if payload == default else f"{sign}nan({payload:#x})"


def _digits(kind: PrimitiveType) -> tuple[int, ...]:
    """Numbers of significant digits to try, the last always enough."""
    if kind is P.F32:
        return (6, 9)
    if kind is P.F64:
        return (15, 17)
    return (math.ceil((_mantissa_bits(kind) + 1) * math.log10(2) + 1),)


def float_text(value: float | np.generic, kind: PrimitiveType) -> str:
    """One float of type `kind`."""
    wide = float(value)
    if wide != wide:
        return _nan_text(np.asarray(value, kind.numpy_dtype)[()], kind)
    if math.isinf(wide):
        return "inf" if wide > 0 else "-inf"
    attempts = _digits(kind)
    for digits in attempts[:-1]:
        text = f"{wide:.{digits}g}"
        if kind.numpy_dtype.type(float(text)) == kind.numpy_dtype.type(wide):
            return text
    return f"{wide:.{attempts[-1]}g}"


def _element_texts(array: np.ndarray, kind: PrimitiveType) -> list[str]:
    flat = array.reshape(-1)
    if kind is P.PRED:
        return ["1" if v else "0" for v in flat.tolist()]
    if kind.is_integral:
        return [str(int(v)) for v in flat.tolist()]
    if kind.is_complex:
        part = P.F32 if kind is P.C64 else P.F64
        return [f"({float_text(v.real, part)}, {float_text(v.imag, part)})" for v in flat]
    return [float_text(v, kind) for v in flat]


def literal_text(literal: Literal, *, large_constants: bool = True) -> str:
    """What stands between the parentheses of `constant(...)`.

    XLA reads `-0` as the integer zero, and writes -0.0 like that all the same. With
    `large_constants`, which is for text to be read again, -0.0 is written `-0.0`.
    """
    shape = literal.shape
    kind, dimensions = shape.element_type, shape.dimensions
    if not large_constants and (shape.is_tuple or shape.num_elements > _ELIDE_ABOVE):
        return "{...}"
    if shape.is_tuple:
        return "( " + ", ".join(literal_text(e) for e in literal.elements) + " )"
    if not dimensions and kind is P.PRED:
        return "true" if literal.array else "false"
    elements = _element_texts(literal.array, kind)
    if large_constants and (kind.is_floating or kind.is_complex):
        elements = [_NEGATIVE_ZERO.sub("-0.0", e) if "-0" in e else e for e in elements]
    return _nested(elements, dimensions) if dimensions else elements[0]


def _nested(elements: list[str], dimensions: tuple[int, ...]) -> str:
    if len(dimensions) == 1:
        return "{" + ", ".join(elements) + "}"
    if dimensions[0] == 0:
        return "{  }"
    size = dimensions[-1]
    rows = math.prod(dimensions[:-1])
    if size == 0:
        level = ["{}"] * rows
    elif size == 1:
        level = ["{" + e + "}" for e in elements]
    else:
        level = ["{ " + ", ".join(elements[i * size : (i + 1) * size]) + " }" for i in range(rows)]
    for axis in range(len(dimensions) - 2, -1, -1):
        n = dimensions[axis]
        groups = math.prod(dimensions[:axis])
        level = (
            ["{ " + ", ".join(level[i * n : (i + 1) * n]) + " }" for i in range(groups)]
            if n
            else ["{  }"] * groups
        )
    return level[0]


# -- parsing -------------------------------------------------------------------------------------


def parse_literal(cursor: Cursor, shape: Shape) -> Literal:
    """Read a literal of `shape` up to (not including) the closing parenthesis. `{...}` reads as
    zeros: the text of elided constants does not tell their values."""
    kind, dimensions = shape.element_type, shape.dimensions
    if shape.is_tuple:
        return _tuple_literal(cursor, shape)
    if not shape.is_array or UNBOUNDED in dimensions:
        cursor.fail(f"there is no constant of shape {shape}")
    # A constant has the size it has, also where its shape gives a bound only.
    plain = Shape(kind, dimensions, shape.layout, layout_details=shape.layout_details)
    cursor.skip_space()
    start = cursor.position
    if cursor.accept("{...}"):
        if shape.num_elements > _MAX_ELIDED:
            cursor.fail(f"constant of shape {shape} is too large", start)
        return Literal(np.zeros(dimensions, kind.numpy_dtype), plain)
    elements, positions = _read_elements(cursor, dimensions)
    if kind.is_complex:
        array = _complex_array(cursor, kind, elements, positions)
    else:
        array = _real_array(cursor, kind, elements, positions)
    return Literal(array.reshape(dimensions), plain)


def _tuple_literal(cursor: Cursor, shape: Shape) -> Literal:
    """`(1, {2, 3})`; the shape bounds the depth."""
    cursor.expect("(")
    elements = []
    for i, member in enumerate(shape.tuple_shapes):
        if i:
            cursor.expect(",")
        elements.append(parse_literal(cursor, member))
    cursor.expect(")")
    return Literal.tuple(elements)


def _read_elements(cursor: Cursor, dimensions: tuple[int, ...]) -> tuple[list[str], list[int]]:
    """Element texts in order with their positions; braces must nest as the shape says."""
    rank = len(dimensions)
    text = cursor.text
    elements: list[str] = []
    positions: list[int] = []
    counts = [0] * (rank + 1)  # members seen at each open depth
    depth = 0
    separated = True  # a value may come: after '{' or ','
    while True:
        space = SPACE.match(text, cursor.position)
        assert space is not None
        position = cursor.position = space.end()
        match = _TOKEN.match(text, position)
        if match is None:
            cursor.fail("expected a value or '{'")
        token = match[0]
        if token == ",":
            if separated or depth == 0:
                cursor.fail("unexpected ','")
            separated = True
        elif token == "{":
            if depth == rank or not separated:
                cursor.fail(f"unexpected '{{': the constant has rank {rank}")
            counts[depth] += 1
            depth += 1
            counts[depth] = 0
        elif token == "}":
            if depth == 0 or (separated and counts[depth]):
                cursor.fail("unexpected '}'")
            if counts[depth] != dimensions[depth - 1]:
                cursor.fail(
                    f"{counts[depth]} members in dimension {depth - 1}, the shape says "
                    f"{dimensions[depth - 1]}"
                )
            depth -= 1
            separated = False
        else:
            if depth != rank or not separated:
                cursor.fail(
                    f"unexpected value: the constant has rank {rank}, {depth} braces are open"
                )
            counts[depth] += 1
            elements.append(token)
            positions.append(position)
            separated = False
        cursor.position = match.end()
        if depth == 0 and not separated:
            return elements, positions


def _real_array(
    cursor: Cursor, kind: PrimitiveType, elements: list[str], positions: list[int]
) -> np.ndarray:
    if kind is P.PRED:
        return np.array(
            [_pred(cursor, text, at) for text, at in zip(elements, positions)], dtype=np.bool_
        )
    if kind.is_integral:
        return _integer_array(cursor, kind, elements, positions)
    dtype = kind.numpy_dtype
    wide = np.array(
        [_float(cursor, text, at) for text, at in zip(elements, positions)], dtype=np.float64
    )
    with np.errstate(all="ignore"):
        if kind is P.F8E8M0FNU:  # powers of two; ml_dtypes rounds up near the smallest
            wide = np.where(wide > 0, np.exp2(np.rint(np.log2(wide))), wide)
        result = wide.astype(dtype)
        overflow = np.isfinite(wide) & ~np.isfinite(result.astype(np.float64))
    for i in np.flatnonzero(np.isinf(wide)).tolist():
        overflow[i] = not elements[i].endswith("inf")  # too many digits
    if overflow.any():
        first = int(np.argmax(overflow))
        cursor.fail(f"{elements[first]} is out of range for {kind}", positions[first])
    for i in np.flatnonzero(np.isnan(wide)).tolist():
        result[i] = _nan(cursor, kind, elements[i], positions[i])
    return result


def _pred(cursor: Cursor, text: str, position: int) -> bool:
    if text in ("true", "1"):
        return True
    if text not in ("false", "0"):
        cursor.fail("expected true, false, 1 or 0", position)
    return False


def _integer_array(
    cursor: Cursor, kind: PrimitiveType, elements: list[str], positions: list[int]
) -> np.ndarray:
    bits = kind.bits
    low, high = (
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        if kind.is_signed_integral
        else (
            0,
            (1 << bits) - 1,
        )
    )
    values = []
    for text, position in zip(elements, positions):
        if not _INTEGER.match(text):
            cursor.fail(f"expected an integer, got '{text[:40]}'", position)
        value = int(text) if len(text) < 25 else high + 1
        if not low <= value <= high:
            cursor.fail(f"{text[:40]} is out of range for {kind}: {low} to {high}", position)
        values.append(value)
    carrier = np.uint64 if kind is P.U64 else np.int64
    return np.array(values, carrier).astype(kind.numpy_dtype)


def _float(cursor: Cursor, text: str, position: int) -> float:
    if _DECIMAL.match(text):
        value = float(text)
        # An integer has no negative zero, so `-0` is zero; `-0.0` is not.
        return 0.0 if value == 0.0 and _INTEGER.match(text) else value
    if _NAN.match(text):
        return math.nan
    if text == "-inf":
        return -math.inf
    cursor.fail(f"expected a decimal number, inf or nan, got '{text[:40]}'", position)


def _nan(cursor: Cursor, kind: PrimitiveType, text: str, position: int) -> np.ndarray:
    match = _NAN.match(text)
    sign, payload_text = (match[1], match[2]) if match else ("", None)
    dtype = kind.numpy_dtype
    if payload_text is None:
        default = np.asarray(np.nan).astype(dtype)
        return np.asarray(-default) if sign else default
    if kind not in _WITH_PAYLOADS:
        cursor.fail(f"a NaN of {kind} has no payload", position)
    mantissa = _mantissa_bits(kind)
    payload, most = int(payload_text, 16), (1 << mantissa) - 1
    if not 1 <= payload <= most:
        cursor.fail(
            f"NaN payload {payload_text[:40]} is out of range for {kind}: 0x1 to {most:#x}",
            position,
        )
    exponent = ((1 << (kind.bits - 1 - mantissa)) - 1) << mantissa
    bits = (1 << (kind.bits - 1) if sign else 0) | exponent | payload
    return np.array(bits, f"u{dtype.itemsize}").view(dtype)


def _complex_array(
    cursor: Cursor, kind: PrimitiveType, elements: list[str], positions: list[int]
) -> np.ndarray:
    part = P.F32 if kind is P.C64 else P.F64
    texts: list[str] = []
    where: list[int] = []
    for text, position in zip(elements, positions):
        if text.startswith("("):
            parts = _PART.findall(text[1:-1])
            if len(parts) != 2:
                cursor.fail("expected (real, imaginary)", position)
            texts += parts
        else:
            texts += [text, "0"]
        where += [position, position]
    pairs = _real_array(cursor, part, texts, where)
    return np.ascontiguousarray(pairs).view(kind.numpy_dtype)
