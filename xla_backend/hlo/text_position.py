"""What readers of HLO and StableHLO text share: errors that show the place, bracket groups, and
quoted strings."""

from __future__ import annotations

import re
from collections.abc import Mapping

from xla_backend.hlo.errors import ParseError

STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def error_at(text: str, position: int, message: str) -> ParseError:
    """A ParseError of line:column, message, the source line, and a caret."""
    at = min(position, len(text))
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    line_number = text.count("\n", 0, at) + 1
    column = at - start
    first = start + max(0, column - 70)  # long lines are cut around the caret
    shown = text[first : min(end, first + 120)].replace("\t", " ")
    return ParseError(f"{line_number}:{column + 1}: {message}\n{shown}\n{' ' * (at - first)}^")


def end_of_group(
    text: str, start: int, brackets: re.Pattern[str], closing: Mapping[str, str]
) -> int:
    """The position behind the bracket group that starts at `start`.

    Args:
      brackets: finds brackets, the quotes of strings, comments, and whatever else (starting with
        `-`) only looks like a bracket.
      closing: the closing bracket of each opening one.
    Raises:
      ParseError: the group or a string in it is never closed, or brackets cross.
    """
    opened: list[str] = []
    position = start
    while True:
        match = brackets.search(text, position)
        if match is None:
            raise error_at(text, start, "this bracket is never closed")
        token = match[0]
        position = match.end()
        if token == '"':
            string = STRING.match(text, match.start())
            if string is None:
                raise error_at(text, match.start(), "this string is never closed")
            position = string.end()
        elif token in closing:
            opened.append(closing[token])
        elif token[0] not in "/-":
            if not opened or opened.pop() != token:
                raise error_at(text, match.start(), f"unbalanced '{token}'")
            if not opened:
                return position


def quote(text: str) -> str:
    """`text` as a quoted string of StableHLO; HLO's own (`text_cursor.quote`) escapes otherwise."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    parts = []
    for character in text:
        if character == "\\":
            parts.append("\\\\")
        elif character == '"' or not (character.isprintable() and character.isascii()):
            # These surrogates stand for bytes that are no UTF-8 (see `reader.unescape`).
            errors = "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass"
            parts.extend(f"\\{byte:02X}" for byte in character.encode("utf-8", errors))
        else:
            parts.append(character)
    return '"' + "".join(parts) + '"'
