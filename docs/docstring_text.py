"""Docstrings as Markdown: their sections become lists, their examples code, all else stays."""

from __future__ import annotations

import re
import textwrap

_SECTION = re.compile(r"^([A-Z][A-Za-z ]+):$")
_CODE = re.compile(r"(`+[^`]+`+)")
_SPECIAL = re.compile(r"([*<>\[\]$#|\\]|(?<!\w)_|_(?!\w))")


def as_markdown(doc: str) -> str:
    """The Markdown of a docstring whose indentation is removed (`inspect.getdoc`)."""
    lines = doc.splitlines()
    out: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(">>>"):
            end = _end_of_example(lines, at)
            out += ["", "```pycon", *lines[at:end], "```", ""]
            at = end
        elif (section := _SECTION.match(line)) and _is_indented(lines, at + 1):
            end = at + 1
            while end < len(lines) and (_is_indented(lines, end) or not lines[end].strip()):
                end += 1
            out += ["", f"**{section[1]}**", "", *_entries(lines[at + 1 : end]), ""]
            at = end
        else:
            out.append(escaped(line))
            at += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def escaped(line: str) -> str:
    """A line whose signs mean themselves, outside of `code`."""
    if line.startswith("    "):  # a block of code
        return line
    parts = _CODE.split(line)
    return "".join(p if i % 2 else _SPECIAL.sub(r"\\\1", p) for i, p in enumerate(parts))


def _is_indented(lines: list[str], at: int) -> bool:
    return at < len(lines) and lines[at].startswith("  ")


def _end_of_example(lines: list[str], at: int) -> int:
    """Examples end at an empty line that no further example follows."""
    while at < len(lines):
        if not lines[at].strip() and not (at + 1 < len(lines) and lines[at + 1].startswith(">>>")):
            return at
        at += 1
    return at


def _entries(block: list[str]) -> list[str]:
    """A list with an item for each line that is not indented further; examples are code."""
    text = textwrap.dedent("\n".join(block)).strip("\n").splitlines()
    if any(line.startswith(">>>") for line in text):
        return ["```pycon", *text, "```"]
    out: list[str] = []
    for line in text:
        if line.strip():
            out.append(("  " if line.startswith(" ") else "- ") + escaped(line.strip()))
    return out
