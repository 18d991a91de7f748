"""Reading HLO text: a position in the source, tokens at it, and errors that show the line with a
caret."""

from __future__ import annotations

import re
from typing import NoReturn

from xla_backend.hlo.errors import ParseError
from xla_backend.hlo.layout import parse_details
from xla_backend.hlo.shape import UNBOUNDED, Shape
from xla_backend.hlo.text_position import STRING, end_of_group, error_at
from xla_backend.hlo.types import BY_NAME, PrimitiveType

SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*[\s\S]*?\*/)*")
NAME = re.compile(r"%?([A-Za-z_][\w.\-]*)|%([\w.\-]+)", re.ASCII)
INTEGER = re.compile(r"-?\d+", re.ASCII)
_ANY_STRING = re.compile(STRING.pattern + "|" + STRING.pattern.replace('"', "'"))
WORD = re.compile(r"[\w.\-+>%<=/*?]+")
_VALUE_WORD = re.compile(r"[^\s{}()\[\]\",]+")
# An array shape: type, sizes, then the order of dimensions and what else the layout says.
_SHAPE = re.compile(
    r"([a-z]\w*)\s*\[([\d,\s<=?]*)\](?:\{\}|\s*\{\s*((?:\d[\d,\s]*)?)(?::([^{}]*))?\})?",
    re.ASCII,
)
_SHAPE_START = re.compile(r"[a-z]\w*\s*\[|\(|b\(")
_LAYOUT_START = re.compile(r"\s*\{[\d,\s]*:")
_SIZE = re.compile(r"(\d{1,19})|<=(\d{1,19})|(\?)", re.ASCII)
_BRACKET = re.compile(r'["{}()\[\]]|//[^\n]*|/\*[\s\S]*?\*/')
_CLOSING = {"{": "}", "(": ")", "[": "]"}
_ESCAPE = re.compile(r"\\(?:([abfnrtv'\"\\?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))")
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
MAX_NESTING = 100
MAX_DIMENSION = (1 << 63) - 1


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
        raise error_at(self.text, self.position if position is None else position, message)

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
        match = self.read(_ANY_STRING, "a quoted string")
        return unescape(match[1] if match[1] is not None else match[2])

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

    def try_balanced(self) -> bool:
        """Past the bracket group that starts here, if it is closed."""
        try:
            self.skip_balanced()
        except ParseError:
            return False
        return True

    def skip_balanced(self) -> None:
        """Past the bracket group that starts here."""
        self.position = end_of_group(self.text, self.position, _BRACKET, _CLOSING)

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
        """An array, tuple, buffer, token or opaque shape. A default layout is normalised away."""
        self.skip_space()
        if self.text.startswith("(", self.position):
            return self._read_tuple_shape(depth)
        if self.text.startswith("b(", self.position):
            return self._read_buffer_shape(depth)
        match = _SHAPE.match(self.text, self.position)
        if match is None:
            self.fail("expected a shape such as f32[2,3]{1,0}")
        shape = self._shapes.get(match[0])
        if shape is None:
            if match[3] is None and _LAYOUT_START.match(self.text, match.end()):
                self.fail("expected a layout such as {1,0:T(8,128)}", match.end())
            shape = self._shapes[match[0]] = self._array_shape(match)
        self.position = match.end()
        return shape

    def _read_buffer_shape(self, depth: int) -> Shape:
        start = self.position
        self.position += len("b(")
        held = self.read_shape(depth + 1)
        if not held.is_array:
            self.fail("a buffer holds an array: b(f32[2])", start)
        self.expect(")")
        return Shape.buffer(held)

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

    def _array_shape(self, match: re.Match[str]) -> Shape:
        name, sizes_text, layout_text, details_text = match.groups()
        element_type = BY_NAME.get(name)
        if element_type is None or element_type in (PrimitiveType.TUPLE, PrimitiveType.BUFFER):
            known = " ".join(name for name in BY_NAME if name not in ("tuple", "b"))
            self.fail(f"unknown element type '{name}'; known: {known}")
        dimensions, dynamic = self._sizes(sizes_text)
        if not element_type.is_array:
            if dimensions:
                self.fail(f"{element_type} has no dimensions")
            return Shape(element_type)
        layout = None
        if layout_text is not None:
            layout = self._layout(layout_text, len(dimensions))
        details = None
        if details_text:
            try:
                details = parse_details(details_text)
            except ValueError as error:
                self.fail(f"layout ':{details_text}': {error}", match.start(4))
        return Shape(element_type, dimensions, layout, (), dynamic, details)

    def _sizes(self, text: str) -> tuple[tuple[int, ...], tuple[bool, ...] | None]:
        """The sizes, and which of them are known at run time only (None: none)."""
        if not text.strip():
            return (), None
        sizes: list[int] = []
        flags: list[bool] = []
        for part in text.split(","):
            match = _SIZE.fullmatch(part.strip())
            if match is None:
                self.fail(
                    f"expected sizes separated by commas (3, <=3 or ?), got '{text.strip()[:40]}'"
                )
            size = UNBOUNDED if match[3] else int(match[1] or match[2])
            if size > MAX_DIMENSION:
                self.fail("dimension is too large")
            sizes.append(size)
            flags.append(match[1] is None)
        return tuple(sizes), tuple(flags) if any(flags) else None

    def _layout(self, text: str, rank: int) -> tuple[int, ...] | None:
        """Minor to major; None for the default order."""
        order = self._numbers(text)
        if order == tuple(range(rank - 1, -1, -1)):
            return None
        if sorted(order) != list(range(rank)):
            self.fail(f"layout {{{text.strip()}}} is not a permutation of {rank} dimensions")
        return order

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
