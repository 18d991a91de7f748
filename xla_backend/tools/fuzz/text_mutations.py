"""Damaged texts: what a careless editor, a truncated download or an attacker makes of a program."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

_TOKEN = re.compile(r"[A-Za-z_][\w.\-]*|\d+|[^\w\s]")
_NUMBER = re.compile(r"-?\d+")
_NUMBERS = (
    "-1", "0", "1", "2", "3", "7", "64", "-9223372036854775808", "9223372036854775807",
    "9223372036854775808", "18446744073709551616", "99999999999999", "4294967296", "2147483648",
    "1" + "0" * 30, "1" * 400, "", "1e9", "0x10", "nan", "-inf", "1.5",
)  # fmt: skip
_TYPE = re.compile(r"\b(?:[suf]\d+|bf16|pred|c64|c128|i\d+|ui\d+|token|f8e\w+)\b")
_TYPES = (
    "f32", "f64", "s32", "u8", "s4", "pred", "c64", "c128", "token", "opaque", "bf16", "f8e4m3fn",
    "i1", "i32", "ui8", "index", "complex<f32>", "tuple", "b", "f0", "s1", "u2",
)  # fmt: skip
_SHAPES = (
    "f32[]", "f32[99999999999999]", "f32[4294967296,4294967296,4294967296]", "f32[0]", "s32[2,2]",
    "(f32[2], s32[])", "()", "f32[<=4]", "f32[?]", "pred[]", "token[]", "f32[2,3]{0,1}",
    "tensor<f32>", "tensor<99999999999999xf32>", "tensor<?xf32>", "tensor<0xi32>",
    "tensor<2x3xcomplex<f32>>", "tuple<tensor<f32>>", "tensor<4294967296x4294967296x2xf32>",
)  # fmt: skip
_SHAPE = re.compile(r"\b(?:[a-z]\w*\[[^\]]*\](?:\{[^}]*\})?|tensor<[^<>]*>)")
_ATTRIBUTE = re.compile(r",?\s*\w+\s*=\s*(?:\{[^{}]*\}|\[[^\[\]]*\]|[\w.\-]+|\"[^\"]*\")")
_BRACKETS = re.compile(r"[\[\](){}<>]")
_ODD = ("\x00", "é", "\u2028", "٣", "𝟛", "\\", '"', "'", "^", "%", "@", "#", "/*", "//", "\t")
_DEEP = 4000

Mutation = Callable[[random.Random, str], str]


def _replaced(text: str, start: int, end: int, new: str) -> str:
    return text[:start] + new + text[end:]


def _at_match(pattern: re.Pattern[str], new: Callable[[random.Random, str], str]) -> Mutation:
    """A mutation of one occurrence of a pattern."""

    def mutate(choices: random.Random, text: str) -> str:
        found = list(pattern.finditer(text))
        if not found:
            return text
        match = choices.choice(found)
        return _replaced(text, match.start(), match.end(), new(choices, match[0]))

    return mutate


def _one_of(options: Sequence[str]) -> Callable[[random.Random, str], str]:
    return lambda choices, old: choices.choice(options)


def _nudged(choices: random.Random, number: str) -> str:
    return str(int(number[:30]) + choices.choice((-2, -1, 1, 2)))


def _character(choices: random.Random, text: str) -> str:
    at = choices.randrange(len(text) + 1)
    kind = choices.random()
    if kind < 0.35:
        return _replaced(text, at, at + choices.choice((1, 1, 1, 5, 40)), "")
    new = choices.choice(_ODD) if kind < 0.6 else chr(choices.randrange(32, 127))
    return _replaced(text, at, at + (kind > 0.8), new)


def _other_token(choices: random.Random, text: str) -> str:
    tokens = list(_TOKEN.finditer(text))
    if not tokens:
        return text
    a, b = choices.choice(tokens), choices.choice(tokens)
    return _replaced(text, a.start(), a.end(), choices.choice((b[0], b[0], "", a[0] + a[0])))


def _line(choices: random.Random, text: str) -> str:
    lines = text.splitlines()
    if not lines:
        return text
    at, other = choices.randrange(len(lines)), choices.randrange(len(lines))
    kind = choices.random()
    if kind < 0.35:
        del lines[at]
    elif kind < 0.6:
        lines.insert(other, lines[at])
    else:
        lines[at], lines[other] = lines[other], lines[at]
    return "\n".join(lines)


def _truncated(choices: random.Random, text: str) -> str:
    return text[: choices.randrange(len(text) + 1)]


def _nested(choices: random.Random, text: str) -> str:
    """Brackets opened, and maybe closed, thousands of times."""
    opening = choices.choice(("(", "[", "{", "<", "tuple<", "((", "{%", "-", "b(", "tensor<"))
    closing = {"(": ")", "[": "]", "{": "}", "<": ">", "b(": ")"}.get(opening, ">")
    found = [m.start() for m in _BRACKETS.finditer(text)] or [0]
    at = choices.choice(found)
    tail = closing * _DEEP if choices.random() < 0.5 else ""
    return _replaced(text, at, at, opening * _DEEP + "1" + tail)


MUTATIONS: tuple[tuple[float, Mutation], ...] = (
    (4, _character),
    (4, _other_token),
    (2, _line),
    (0.7, _truncated),
    (0.3, _nested),
    (5, _at_match(_NUMBER, _one_of(_NUMBERS))),
    (4, _at_match(_NUMBER, _nudged)),
    (2, _at_match(_TYPE, _one_of(_TYPES))),
    (2, _at_match(_SHAPE, _one_of(_SHAPES))),
    (2, _at_match(_ATTRIBUTE, _one_of(("",)))),
    (1, _at_match(_ATTRIBUTE, lambda choices, old: old + old)),
)


def mutated(choices: random.Random, text: str) -> str:
    """The text with one to three mutations."""
    weights = [weight for weight, _ in MUTATIONS]
    for _ in range(choices.choice((1, 1, 1, 2, 3))):
        ((_, mutation),) = choices.choices(MUTATIONS, weights)
        text = mutation(choices, text)
    return text


def mutated_bytes(choices: random.Random, data: bytes) -> bytes:
    """Truncated, or with bits flipped, bytes replaced, removed, repeated."""
    changed = bytearray(data)
    for _ in range(choices.choice((1, 1, 2, 4))):
        at = choices.randrange(len(changed) + 1)
        kind = choices.randrange(6)
        if kind == 0:
            del changed[at:]
        elif kind == 1 and at < len(changed):
            changed[at] ^= 1 << choices.randrange(8)
        elif kind == 2 and at < len(changed):
            changed[at] = choices.choice((0, 0x7F, 0x80, 0xFF, choices.randrange(256)))
        elif kind == 3:
            del changed[at : at + choices.choice((1, 2, 9))]
        elif kind == 4:
            changed[at:at] = changed[at : at + choices.choice((1, 8, 64))]
        else:
            changed[at:at] = b"\xff" * choices.choice((1, 9, 11))
    return bytes(changed)
