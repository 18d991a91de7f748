"""A position in the text with tokens at it, and errors that show the line with a caret."""

from __future__ import annotations

import bisect
import re
from typing import NoReturn

from xla_backend.hlo.text_position import STRING, end_of_group, error_at

_SPACE = re.compile(r"(?:\s+|//[^\n]*)*")
BARE = re.compile(r"[A-Za-z_][\w$.]*")
# The first letter of a keyword of our own grammar must not be read as part of a longer word.
_WORD_END = re.compile(r"[\w$.]")
INTEGER = re.compile(r"-?(?:0x[0-9A-Fa-f]+|\d+)")
NUMBER = re.compile(r"-?(?:0x[0-9A-Fa-f]+|\d+\.\d*(?:[eE][+-]?\d+)?|\d+)")
_BRACKET = re.compile(r'->|["{}()\[\]<>]|//[^\n]*')
_CLOSING = {"{": "}", "(": ")", "[": "]", "<": ">"}
_ESCAPE = re.compile(r"((?:\\[0-9a-fA-F]{2})+)|\\(.)")
_SHORT = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
MAX_NESTING = 150


class Reader:
    """Every `read_` and `expect` advances or raises ParseError; `accept` may decline."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.depth = 0
        self._line_ends = [m.end() for m in re.finditer("\n", text)]

    # -- errors ----------------------------------------------------------------------------------

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        """Raise ParseError: line:column, message, the source line, a caret."""
        raise error_at(self.text, self.position if position is None else position, message)

    def line_number(self, position: int) -> int:
        return bisect.bisect_right(self._line_ends, position) + 1

    def enter(self) -> None:
        """Count nesting; text nested deeper than any program's is refused, not a crash."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail(f"nested more than {MAX_NESTING} deep")

    def leave(self) -> None:
        self.depth -= 1

    # -- tokens ----------------------------------------------------------------------------------

    def skip_space(self) -> int:
        """Past blanks and comments; where that is."""
        match = _SPACE.match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        return self.position

    def at(self, token: str) -> bool:
        return self.text.startswith(token, self.skip_space())

    def accept(self, token: str) -> bool:
        if self.text.startswith(token, self.skip_space()):
            self.position += len(token)
            return True
        return False

    def expect(self, token: str, why: str = "") -> None:
        if not self.accept(token):
            self.fail(f"expected '{token}'{' ' + why if why else ''}, got {self.found()}")

    def at_word(self, word: str) -> bool:
        end = self.skip_space() + len(word)
        return self.text.startswith(word, self.position) and not _WORD_END.match(self.text, end)

    def accept_word(self, word: str) -> bool:
        """Like accept, but `word` must not go on."""
        if self.at_word(word):
            self.position += len(word)
            return True
        return False

    def expect_word(self, word: str) -> None:
        if not self.accept_word(word):
            self.fail(f"expected '{word}', got {self.found()}")

    def at_end(self) -> bool:
        return self.skip_space() >= len(self.text)

    def found(self) -> str:
        """What stands here, for messages."""
        if self.at_end():
            return "the end of the text"
        match = re.compile(r"[%@#!^]?[\w$.:\-]+|->|.").match(self.text, self.position)
        assert match is not None
        return f"'{match[0][:40]}'"

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The token if it is here, and past it."""
        found = pattern.match(self.text, self.skip_space())
        if found is not None:
            self.position = found.end()
        return found

    def read(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        found = self.match(pattern)
        if found is None:
            self.fail(f"expected {what}, got {self.found()}")
        return found

    def read_word(self, what: str = "a word") -> str:
        return self.read(BARE, what)[0]

    def read_string(self, what: str = "a quoted string") -> str:
        return unescape(self.read(STRING, what)[1])

    def read_integer(self, what: str = "an integer") -> int:
        start = self.skip_space()
        text = self.read(INTEGER, what)[0]
        if len(text) > 40:
            self.fail(f"{what} is too large", start)
        return int(text, 0) if "x" in text else int(text)

    def read_integers(self, opening: str = "[", closing: str = "]") -> tuple[int, ...]:
        """`[1, 2]`."""
        self.expect(opening)
        values: list[int] = []
        if self.accept(closing):
            return ()
        while True:
            values.append(self.read_integer())
            if self.accept(closing):
                return tuple(values)
            self.expect(",", f"or '{closing}'")

    def balanced(self) -> str:
        """The bracket group that starts here, brackets included."""
        start = self.skip_space()
        self.position = end_of_group(self.text, start, _BRACKET, _CLOSING)
        return self.text[start : self.position]


def unescape(text: str) -> str:
    r"""Characters of a quoted string: `\n`, `\t`, `\"`, `\\`, and two hex digits for each byte of
    UTF-8. Bytes that are none are surrogates, as in `str.decode(errors="surrogateescape")`."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(
        lambda m: _decoded(m[1]) if m[1] is not None else _SHORT.get(m[2], m[2]), text
    )


def _decoded(escapes: str) -> str:
    return bytes.fromhex(escapes.replace("\\", "")).decode("utf-8", "surrogateescape")
