"""A small pretty printer: documents of texts, breaks, groups and nesting, laid out in a width.

A group is printed on one line if it fits, otherwise its breaks become newlines (Wadler, "A prettier
printer", with a group's fit judged by the group alone). Layer: core.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xla_backend.process.light_dataclasses import dataclass

WIDTH = 80
_COLORS = {"keyword": "\x1b[34m\x1b[1m", "type": "\x1b[35m", "name": "\x1b[1m"}
_RESET = "\x1b[0m"


class Doc:
    """Base of documents; `+` concatenates."""

    __slots__ = ()

    def __add__(self, other: Doc) -> Doc:
        return Concat((self, other))


@dataclass(frozen=True, slots=True)
class Text(Doc):
    text: str
    color: str | None = None


@dataclass(frozen=True, slots=True)
class Break(Doc):
    """`flat` on one line, a newline otherwise."""

    flat: str = " "


@dataclass(frozen=True, slots=True)
class Note(Doc):
    """A remark at the end of a line: takes no room, and a group that holds one is not put on a
    single line."""

    text: str


@dataclass(frozen=True, slots=True)
class Concat(Doc):
    parts: Sequence[Doc]


@dataclass(frozen=True, slots=True)
class Group(Doc):
    inner: Doc


@dataclass(frozen=True, slots=True)
class Nest(Doc):
    indent: int
    inner: Doc


def concat(parts: Sequence[Doc]) -> Doc:
    return Concat(tuple(parts))


def join(separator: Doc, parts: Sequence[Doc]) -> Doc:
    """Documents with a separator between them."""
    out: list[Doc] = []
    for i, part in enumerate(parts):
        if i:
            out.append(separator)
        out.append(part)
    return Concat(tuple(out))


def _fits(doc: Doc, room: int) -> bool:
    stack: list[Doc] = [doc]
    while stack:
        if room < 0:
            return False
        top: Any = stack.pop()
        kind = type(top)
        if kind is Text:
            room -= len(top.text)
        elif kind is Break:
            room -= len(top.flat)
        elif kind is Concat:
            stack.extend(reversed(top.parts))
        elif kind is Note:
            return False
        else:
            stack.append(top.inner)
    return room >= 0


def layout(doc: Doc, width: int = WIDTH, use_color: bool = False) -> str:
    """The text of a document."""
    out: list[str] = []
    column = 0
    stack: list[tuple[int, bool, Doc]] = [(0, False, doc)]
    while stack:
        indent, flat, top_doc = stack.pop()
        top: Any = top_doc
        kind = type(top)
        if kind is Text:
            color = _COLORS.get(top.color) if use_color and top.color else None
            out.append(f"{color}{top.text}{_RESET}" if color else top.text)
            column += len(top.text)
        elif kind is Break:
            if flat:
                out.append(top.flat)
                column += len(top.flat)
            else:
                out.append("\n" + " " * indent)
                column = indent
        elif kind is Note:
            out.append(top.text)
        elif kind is Concat:
            stack.extend((indent, flat, part) for part in reversed(top.parts))
        elif kind is Group:
            stack.append((indent, flat or _fits(top.inner, width - column), top.inner))
        else:
            stack.append((indent + top.indent, flat, top.inner))
    return "".join(out)
