"""Pretty forms as lists of directives (the strings of op_table.py, read once)."""

from __future__ import annotations

from functools import cache

from xla_backend.process.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Directive:
    """`what`: operand, operands, attribute, dictionary, type, or text; `text`: the attribute's
    name, the kind of type, or the word itself."""

    what: str
    text: str = ""
    kind: str = ""
    enum: str = ""
    optional: bool = False
    keyword: str = ""


def _directive(word: str) -> Directive:
    if word == "%":
        return Directive("operand")
    if word == "%*":
        return Directive("operands")
    if word == "{}":
        return Directive("dictionary")
    if word.startswith(":"):
        return Directive("type", word[1:])
    if "$" not in word:
        return Directive("text", word)
    before, rest = word.split("$")
    name, kind = rest.split(":")
    kind, _, enum = kind.partition(".")
    optional = before.startswith("?")
    return Directive(
        "attribute", name, kind, enum or name, optional, before.removeprefix("?").rstrip("=")
    )


@cache
def directives(form: str) -> tuple[Directive, ...]:
    return tuple(_directive(word) for word in form.split())
