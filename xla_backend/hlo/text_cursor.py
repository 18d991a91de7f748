"""Reading HLO text: a position in the source, tokens at it, and errors that show the line with a
caret."""

from __future__ import annotations

import re
from typing import NoReturn

from xla_backend.hlo.errors import ParseError
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import BY_NAME, PrimitiveType

SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*[\s\S]*?\*/)*")
NAME = re.compile(r"%?([A-Za-z_][\w.\-]*)|%([\w.\-]+)")
INTEGER = re.compile(r"-?\d+")
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
WORD = re.compile(r"[\w.\-+>%<=/*?]+")
_VALUE_WORD = re.compile(r"[^\s{}()\[\]\",]+")
_SHAPE = re.compile(r"([a-z]\w*)\[([\d,\s]*)\](?:\{([\d,\s]*)\})?")
_SHAPE_START = re.compile(r"[a-z]\w*\[|\(")
_DYNAMIC = re.compile(r"[a-z]\w*\[[\d,\s]*(?:<=|\?)")
_LAYOUT_SUFFIX = re.compile(r"\{([\d,\s]*):([^{}]*)\}")
_BRACKET = re.compile(r'["{}()\[\]]|//[^\n]*|/\*[\s\S]*?\*/')
_CLOSING = {"{": "}", "(": ")", "[": "]"}
_ESCAPE = re.compile(r"\\(?:([abfnrtv'\"\\?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))")
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
MAX_NESTING = 100
MAX_DIMENSION = 1 << 62


class Cursor:
    """A position in HLO text. Every `read_` method advances or raises ParseError; `accept` methods
    may decline."""

    def __init__(self, text: str, position: int = 0) -> None:
        self.text = text
        self.position = position
        self._shapes: dict[str, Shape] = {}  # array shapes read so far, by their text

    # -- errors ----------------------------------------------------------------------------------

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        """Raise ParseError: message with line and column, the source line, a caret."""
        at = min(self.position if position is None else position, len(self.text))
        start = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        end = len(self.text) if end < 0 else end
        line_number = self.text.count("\n", 0, at) + 1
        column = at - start
        first = start + max(0, column - 70)  # long lines are cut around the caret
        shown = self.text[first : min(end, first + 120)].replace("\t", " ")
        raise ParseError(f"{line_number}:{column + 1}: {message}\n{shown}\n{' ' * (at - first)}^")

    # -- tokens ----------------------------------------------------------------------------------

    def skip_space(self) -> None:
        """Blanks and comments."""
        match = SPACE.match(self.text, self.position)
        assert match is not None
        self.position = match.end()

    def accept(self, token: str) -> bool:
        self.skip_space()
        if self.text.startswith(token, self.position):
            self.position += len(token)
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(f"expected '{token}'")

    def at(self, token: str) -> bool:
        self.skip_space()
        return self.text.startswith(token, self.position)

    def at_end(self) -> bool:
        self.skip_space()
        return self.position >= len(self.text)

    def read(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        self.skip_space()
        match = pattern.match(self.text, self.position)
        if match is None:
            self.fail(f"expected {what}")
        self.position = match.end()
        return match

    def read_name(self, what: str = "a name") -> str:
        match = self.read(NAME, what)
        return match[1] or match[2]

    def read_integer(self, what: str = "an integer") -> int:
        start = self.position
        text = self.read(INTEGER, what)[0]
        if len(text) > 19:
            self.fail(f"{what} is too large", start)
        return int(text)

    def read_bool(self) -> bool:
        if self.accept("true"):
            return True
        if self.accept("false"):
            return False
        self.fail("expected 'true' or 'false'")

    def read_string(self) -> str:
        return unescape(self.read(STRING, "a quoted string")[1])

    def read_float(self) -> float:
        start = self.position
        word = self.read(WORD, "a number")[0]
        try:
            return float(word)
        except ValueError:
            self.fail("expected a number", start)

    def read_integers(self, opening: str = "{", closing: str = "}") -> tuple[int, ...]:
        """`{1,2,3}`."""
        self.expect(opening)
        values: list[int] = []
        if self.accept(closing):
            return ()
        while True:
            values.append(self.read_integer())
            if self.accept(closing):
                return tuple(values)
            self.expect(",")

    def skip_balanced(self) -> None:
        """Past the bracket group that starts here."""
        opened: list[str] = []
        start = position = self.position
        while True:
            match = _BRACKET.search(self.text, position)
            if match is None:
                self.fail("this bracket is never closed", start)
            token = match[0]
            position = match.end()
            if token == '"':
                string = STRING.match(self.text, match.start())
                if string is None:
                    self.fail("this string is never closed", match.start())
                position = string.end()
            elif token in _CLOSING:
                opened.append(_CLOSING[token])
            elif token[0] != "/":
                if not opened or opened.pop() != token:
                    self.fail(f"unbalanced '{token}'", match.start())
                if not opened:
                    break
        self.position = position

    def read_value_text(self) -> str:
        """The text of an attribute value: a word, string or bracket group, or several without
        blanks between."""
        self.skip_space()
        start = self.position
        while self.position < len(self.text):
            character = self.text[self.position]
            if character in "{([":
                self.skip_balanced()
            elif character == '"':
                self.read(STRING, "a quoted string")
            else:
                word = _VALUE_WORD.match(self.text, self.position)
                if word is None:
                    break
                self.position = word.end()
        if self.position == start:
            self.fail("expected a value")
        return self.text[start : self.position]

    # -- shapes ----------------------------------------------------------------------------------

    def at_shape(self) -> bool:
        self.skip_space()
        return _SHAPE_START.match(self.text, self.position) is not None

    def read_shape(self, depth: int = 0) -> Shape:
        """An array, tuple, token or opaque shape. A default layout is normalised away; tiles and
        memory spaces (`{1,0:T(8,128)S(1)}`) are dropped: they never change the meaning."""
        self.skip_space()
        if self.text.startswith("(", self.position):
            return self._read_tuple_shape(depth)
        match = _SHAPE.match(self.text, self.position)
        if match is None:
            if _DYNAMIC.match(self.text, self.position):
                self.fail(
                    "dynamic dimensions ('<=N', '?') are not supported; write the static size"
                )
            self.fail("expected a shape such as f32[2,3]{1,0}")
        known = self._shapes.get(match[0])
        if known is not None and not self.text.startswith("{", match.end()):
            self.position = match.end()
            return known
        if match[3] is None:
            suffix = _LAYOUT_SUFFIX.match(self.text, match.end())
            layout_text = suffix[1] if suffix else None
            end = suffix.end() if suffix else match.end()
        else:
            layout_text, end = match[3], match.end()
        shape = self._array_shape(match, layout_text)
        self.position = end
        if end == match.end():
            self._shapes[match[0]] = shape
        return shape

    def _read_tuple_shape(self, depth: int) -> Shape:
        if depth > MAX_NESTING:
            self.fail(f"tuple shapes are nested more than {MAX_NESTING} deep")
        self.expect("(")
        members: list[Shape] = []
        if not self.accept(")"):
            while True:
                members.append(self.read_shape(depth + 1))
                if self.accept(")"):
                    break
                self.expect(",")
        return Shape.tuple(members)

    def _array_shape(self, match: re.Match[str], layout_text: str | None) -> Shape:
        element_type = BY_NAME.get(match[1])
        if element_type is None or element_type is PrimitiveType.TUPLE:
            known = " ".join(name for name in BY_NAME if name != "tuple")
            self.fail(f"unknown element type '{match[1]}'; known: {known}")
        dimensions = self._numbers(match[2])
        if not element_type.is_array:
            if dimensions:
                self.fail(f"{element_type} has no dimensions")
            return Shape(element_type)
        if any(d > MAX_DIMENSION for d in dimensions):
            self.fail("dimension is too large")
        layout: tuple[int, ...] | None = None
        if layout_text is not None:
            layout = self._numbers(layout_text)
            rank = len(dimensions)
            if layout != tuple(range(rank - 1, -1, -1)):
                if not layout:
                    layout = None
                elif sorted(layout) != list(range(rank)):
                    self.fail(f"layout {{{layout_text}}} is not a permutation of {rank} dimensions")
            else:
                layout = None
        return Shape(element_type, dimensions, layout)

    def _numbers(self, text: str) -> tuple[int, ...]:
        text = text.strip()
        if not text:
            return ()
        parts = [part.strip() for part in text.split(",")]
        if not all(part.isdigit() and len(part) < 20 for part in parts):
            self.fail(f"expected numbers separated by commas, got '{text[:40]}'")
        return tuple(map(int, parts))


def unescape(text: str) -> str:
    """The characters of a quoted string with C escapes."""
    if "\\" not in text:
        return text

    def character(match: re.Match[str]) -> str:
        if match[1] is not None:
            return _ESCAPED.get(match[1], match[1])
        if match[2] is not None:
            return chr(int(match[2], 8))
        if match[3] is not None:
            return chr(int(match[3], 16))
        return match[4]

    return _ESCAPE.sub(character, text)


_UNSAFE = re.compile(r'[\\"\x00-\x1f\x7f]')
_SHORT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quote(text: str) -> str:
    """`text` as a quoted string with C escapes."""
    return '"' + _UNSAFE.sub(lambda m: _SHORT_ESCAPES.get(m[0]) or f"\\{ord(m[0]):03o}", text) + '"'
