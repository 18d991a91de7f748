"""Kinds of attribute values in HLO text: how each is read at a cursor and written."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import (
    ConvolutionDimensionNumbers,
    Precision,
    WindowDimension,
)
from xla_backend.hlo.device_lists import read_list
from xla_backend.hlo.literal_text import float_text
from xla_backend.hlo.replica_groups import read_groups, show_groups
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.text_cursor import WORD as WORD_PATTERN
from xla_backend.hlo.text_cursor import Cursor, quote
from xla_backend.hlo.types import PrimitiveType
from xla_backend.process.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """`show` may give None: then nothing is printed."""

    read: Callable[[Cursor], Any]
    show: Callable[[Any], str | None]

    @staticmethod
    def string() -> Kind:
        return Kind(Cursor.read_string, quote)


def braces(values: Sequence[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


# -- scalars and words -----------------------------------------------------------------------------


def _read_word(cursor: Cursor) -> str:
    return cursor.read(WORD_PATTERN, "a word")[0]


def word_of(choices: type[enum.Enum] | Sequence[str]) -> Kind:
    """One of a few words: members of an enumeration by value, or plain strings."""
    table: dict[str, Any]
    if isinstance(choices, type):
        table = {member.value: member for member in choices}
    else:
        table = {word: word for word in choices}

    def read(cursor: Cursor) -> Any:
        cursor.skip_space()
        start = cursor.position
        word = _read_word(cursor)
        if word not in table:
            cursor.fail(f"'{word}' is not one of {', '.join(table)}", start)
        return table[word]

    return Kind(read, lambda v: v.value if isinstance(v, enum.Enum) else v)


def _read_single(cursor: Cursor) -> int:
    values = cursor.read_integers()
    if len(values) != 1:
        cursor.fail(f"expected exactly one dimension, got {len(values)}")
    return values[0]


def _float_text(value: float) -> str:
    return float_text(np.float32(value), PrimitiveType.F32)


def _show_bool(value: bool) -> str:
    return "true" if value else "false"


# -- precision -------------------------------------------------------------------------------------


def _read_precisions(cursor: Cursor) -> tuple[Precision, ...]:
    cursor.expect("{")
    kind = word_of(Precision)
    values = [kind.read(cursor)]
    while cursor.accept(","):
        values.append(kind.read(cursor))
    cursor.expect("}")
    if all(v is Precision.DEFAULT for v in values):
        return ()  # saying nothing and saying default are the same
    return tuple(values)


def _show_precisions(values: tuple[Precision, ...]) -> str | None:
    if all(v is Precision.DEFAULT for v in values):
        return None
    return "{" + ",".join(v.value for v in values) + "}"


# -- slices, padding, windows ----------------------------------------------------------------------

Triple = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _read_slice(cursor: Cursor) -> Triple:
    cursor.expect("{")
    starts, limits, strides = [], [], []
    if not cursor.accept("}"):
        while True:
            cursor.expect("[")
            starts.append(cursor.read_integer())
            cursor.expect(":")
            limits.append(cursor.read_integer())
            strides.append(cursor.read_integer() if cursor.accept(":") else 1)
            cursor.expect("]")
            if cursor.accept("}"):
                break
            cursor.expect(",")
    return tuple(starts), tuple(limits), tuple(strides)


def _show_slice(value: Triple) -> str:
    """Strides are written when one of them is not 1."""
    strided = any(s != 1 for s in value[2])
    parts = [f"[{a}:{b}:{c}]" if strided else f"[{a}:{b}]" for a, b, c in zip(*value)]
    return "{" + ", ".join(parts) + "}"


_PADDING_ENTRY = re.compile(r"(-?\d{1,18})_(-?\d{1,18})(?:_(\d{1,18}))?")


def _read_padding(cursor: Cursor) -> Triple:
    low, high, interior = [], [], []
    while True:
        match = cursor.read(_PADDING_ENTRY, "padding such as 1_2 or 1_2_1")
        low.append(int(match[1]))
        high.append(int(match[2]))
        interior.append(int(match[3] or 0))
        if not cursor.text.startswith("x", cursor.position):
            return tuple(low), tuple(high), tuple(interior)
        cursor.position += 1


def _show_padding(value: Triple) -> str | None:
    low, high, interior = value
    if not low:
        return None
    inner = any(interior)
    return "x".join(f"{a}_{b}_{c}" if inner else f"{a}_{b}" for a, b, c in zip(low, high, interior))


_SIZES = re.compile(r"\d{1,18}(?:x\d{1,18})*")
_PADS = re.compile(r"-?\d{1,18}_-?\d{1,18}(?:x-?\d{1,18}_-?\d{1,18})*")
_WINDOW_FIELDS = {
    "size": "size",
    "stride": "stride",
    "pad": "pad",
    "lhs_dilate": "base_dilation",
    "rhs_dilate": "window_dilation",
    "rhs_reversal": "reversal",
}


def _read_window(cursor: Cursor) -> tuple[WindowDimension, ...]:
    cursor.expect("{")
    values: dict[str, list[str]] = {}
    while not cursor.accept("}"):
        start = cursor.position
        name = cursor.read_name("a window field")
        if name not in _WINDOW_FIELDS:
            cursor.fail(f"unknown window field '{name}'; known: {', '.join(_WINDOW_FIELDS)}", start)
        cursor.expect("=")
        pattern = _PADS if name == "pad" else _SIZES
        values[name] = cursor.read(pattern, f"numbers joined by x after {name}=")[0].split("x")
    rank = len(values.get("size", ()))
    for name, entries in values.items():
        if len(entries) != rank:
            cursor.fail(f"window field {name} has {len(entries)} entries, size has {rank}")
    window = []
    for i in range(rank):
        low, high = values["pad"][i].split("_") if "pad" in values else ("0", "0")
        window.append(
            WindowDimension(
                int(values["size"][i]),
                int(values["stride"][i]) if "stride" in values else 1,
                int(low),
                int(high),
                int(values["lhs_dilate"][i]) if "lhs_dilate" in values else 1,
                int(values["rhs_dilate"][i]) if "rhs_dilate" in values else 1,
                "rhs_reversal" in values and values["rhs_reversal"][i] != "0",
            )
        )
    return tuple(window)


def _show_window(window: tuple[WindowDimension, ...]) -> str | None:
    if not window:
        return None
    parts = ["size=" + "x".join(str(w.size) for w in window)]
    if any(w.stride != 1 for w in window):
        parts.append("stride=" + "x".join(str(w.stride) for w in window))
    if any(w.padding_low or w.padding_high for w in window):
        parts.append("pad=" + "x".join(f"{w.padding_low}_{w.padding_high}" for w in window))
    if any(w.base_dilation != 1 for w in window):
        parts.append("lhs_dilate=" + "x".join(str(w.base_dilation) for w in window))
    if any(w.window_dilation != 1 for w in window):
        parts.append("rhs_dilate=" + "x".join(str(w.window_dilation) for w in window))
    if any(w.reversal for w in window):
        parts.append("rhs_reversal=" + "x".join(str(int(w.reversal)) for w in window))
    return "{" + " ".join(parts) + "}"


# -- convolution labels ----------------------------------------------------------------------------

_LABELS = re.compile(r"([0-9bf?]+)_([0-9io?]+)->([0-9bf?]+)")


def _read_labels(cursor: Cursor) -> ConvolutionDimensionNumbers:
    match = cursor.read(_LABELS, "dim_labels such as b01f_01io->b01f")
    start = match.start()
    rank = len(match[1])
    if rank < 2 or len(match[2]) != rank or len(match[3]) != rank:
        cursor.fail("dim_labels must have the same number of labels three times", start)
    found = []
    for text, letters in ((match[1], "bf"), (match[2], "io"), (match[3], "bf")):
        wanted = letters + "".join(map(str, range(min(rank - 2, 10))))
        if sorted(text) != sorted(wanted):
            cursor.fail(f"'{text}' must contain each of {' '.join(wanted)} once", start)
        spatial = tuple(text.index(str(i)) for i in range(rank - 2))
        found += [text.index(letters[0]), text.index(letters[1]), spatial]
    return ConvolutionDimensionNumbers(*found)  # type: ignore[arg-type]


def _label(first: int, second: int, spatial: Sequence[int], letters: str) -> str:
    text = [""] * (2 + len(spatial))
    text[first], text[second] = letters[0], letters[1]
    for i, position in enumerate(spatial):
        text[position] = str(i)
    return "".join(text)


def _show_labels(n: ConvolutionDimensionNumbers) -> str:
    lhs = _label(n.input_batch, n.input_feature, n.input_spatial, "bf")
    rhs = _label(n.kernel_input_feature, n.kernel_output_feature, n.kernel_spatial, "io")
    out = _label(n.output_batch, n.output_feature, n.output_spatial, "bf")
    return f"{lhs}_{rhs}->{out}"


# -- collectives -----------------------------------------------------------------------------------


def _read_pairs(cursor: Cursor) -> tuple[tuple[int, int], ...]:
    cursor.skip_space()
    start = cursor.position
    pairs = read_list(cursor, "{", "}", Cursor.read_integers)
    if any(len(pair) != 2 for pair in pairs):
        cursor.fail("expected pairs {{source,target},...}", start)
    return tuple(pairs)  # type: ignore[arg-type]


# -- shapes and aliasing ---------------------------------------------------------------------------


def _read_shapes(cursor: Cursor) -> tuple[Shape, ...]:
    cursor.expect("{")
    shapes = []
    if not cursor.accept("}"):
        while True:
            shapes.append(cursor.read_shape())
            if cursor.accept("}"):
                break
            cursor.expect(",")
    return tuple(shapes)


Aliasing = tuple[tuple[tuple[int, ...], int, tuple[int, ...]], ...]


def _read_aliasing(cursor: Cursor) -> Aliasing:
    cursor.expect("{")
    entries = []
    while not cursor.accept("}"):
        output = cursor.read_integers()
        cursor.expect(":")
        cursor.expect("(")
        operand = cursor.read_integer()
        cursor.expect(",")
        index = cursor.read_integers()
        cursor.expect(")")
        entries.append((output, operand, index))
        cursor.accept(",")
    return tuple(entries)


def _index_text(index: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, index)) + "}"


def _show_aliasing(entries: Aliasing) -> str:
    parts = [f"{_index_text(o)}: ({n}, {_index_text(i)})" for o, n, i in entries]
    return "{" + ", ".join(parts) + "}"


BOOL = Kind(Cursor.read_bool, _show_bool)
INT = Kind(Cursor.read_integer, str)
FLOAT = Kind(Cursor.read_float, _float_text)
WORD = Kind(_read_word, str)
DIMS = Kind(Cursor.read_integers, braces)
DIM = Kind(_read_single, lambda v: braces((v,)))
PRECISIONS = Kind(_read_precisions, _show_precisions)
SLICE = Kind(_read_slice, _show_slice)
PADDING = Kind(_read_padding, _show_padding)
WINDOW = Kind(_read_window, _show_window)
CONV_LABELS = Kind(_read_labels, _show_labels)
GROUPS = Kind(read_groups, show_groups)
PAIRS = Kind(_read_pairs, show_groups)
SHAPE = Kind(Cursor.read_shape, lambda s: s.to_text(layout=True))
SHAPES = Kind(_read_shapes, lambda v: "{" + ", ".join(s.to_text(layout=True) for s in v) + "}")
ALIASING = Kind(_read_aliasing, _show_aliasing)
RAW = Kind(Cursor.read_value_text, str)
