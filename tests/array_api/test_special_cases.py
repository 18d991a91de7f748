"""Elementwise functions in the special cases that the array API standard names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from tests.array_api.special_cases import CLASSES, COMPLEX, DEPARTURES, ONE_OPERAND, TWO_OPERANDS

_PI = re.compile(r"(-?)(\d?)pi(?:/(\d))?")


def _numbers(word: str) -> list[float]:
    """The numbers that a word for an operand stands for."""
    return CLASSES[word] if word in CLASSES else [float(word)]


def _result(word: str, operands: tuple[float, ...]) -> float:
    found = _PI.fullmatch(word)
    if found:
        sign, times, parts = found.groups()
        return float(f"{sign}{times or 1}") * math.pi / int(parts or 1)
    first, last = np.float32(operands[0]), operands[-1]
    named = {
        "same": first,
        "x2": last,
        "neg": -first,
        "up": np.nextafter(first, np.float32(np.inf)),
        "down": np.nextafter(first, np.float32(-np.inf)),
        "zero": 0.0,
        "infinite": math.inf,
    }
    return float(named[word] if word in named else word)


def _lines(table: str) -> dict[str, list[tuple[str, str]]]:
    """For each function its rules: operands and result."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in filter(None, table.split("\n")):
        name, rules = line.split(": ")
        found.setdefault(name, []).extend(
            (before, after) for before, after in (rule.split(" -> ") for rule in rules.split("; "))
        )
    return found


def _real_cases(rules: list[tuple[str, str]]) -> Iterator[tuple[tuple[float, ...], str, str]]:
    for before, word in rules:
        for operands in product(*map(_numbers, before.split())):
            yield operands, word, f"{before} -> {word}"


def _agrees(got: float, want: float, word: str) -> bool:
    if word in ("zero", "infinite"):
        return abs(got) == want
    if math.isnan(want) or want == 0 or math.isinf(want):
        same = math.isnan(got) if math.isnan(want) else got == want
        return same and (want != 0 or math.copysign(1, got) == math.copysign(1, want))
    return math.isclose(got, want, rel_tol=1e-6)


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "name, rules", [*_lines(ONE_OPERAND).items(), *_lines(TWO_OPERANDS).items()]
)
def test_real(name: str, rules: list[tuple[str, str]], jit: bool) -> None:
    function = getattr(jnp, name)
    cases = list(_real_cases(rules))
    columns = [np.array(column, np.float32) for column in zip(*(c[0] for c in cases), strict=True)]
    results = np.asarray((pyjax.jit(function) if jit else function)(*columns), np.float64)
    wrong = [
        (rule, f"{name}{operands} is {got}")
        for got, (operands, word, rule) in zip(results.tolist(), cases, strict=True)
        if not _agrees(got, _result(word, operands), word)
    ]
    _check(name, rules, wrong)


def _check(name: str, rules: list[tuple[str, str]], wrong: list[tuple[str, str]]) -> None:
    """Only the rules that are known not to be followed are broken, and all of those are."""
    known = set(DEPARTURES.get(name, {})) & {f"{before} -> {after}" for before, after in rules}
    found = {rule for rule, _ in wrong}
    lines = [f"{text}, by `{rule}`" for rule, text in wrong if rule not in known]
    assert not lines, "\n".join(lines)
    followed = known - found
    assert not followed, f"{name} follows {followed} now: remove them from DEPARTURES"


def _pair(text: str) -> tuple[str, str]:
    first, second = text.strip("()").split(", ")
    return first, second


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name, rules", _lines(COMPLEX).items())
def test_complex(name: str, rules: list[tuple[str, str]], jit: bool) -> None:
    """And the conjugate operand has the conjugate result."""
    cases = []
    for before, after in rules:
        for x, y in product(*map(_numbers, _pair(before))):
            cases += [(x, y, after, before, 1), (x, -y, after, before, -1)]
    operands = np.array([complex(x, y) for x, y, *_ in cases], np.complex64)
    function = pyjax.jit(getattr(jnp, name)) if jit else getattr(jnp, name)
    results = np.asarray(function(operands)).astype(np.complex128)
    wrong = []
    for got, (x, y, after, before, side) in zip(results.tolist(), cases, strict=True):
        words = _pair(after)
        real, imag = (_result(word, (x,)) for word in words)
        upper = got.imag * side if np.iscomplexobj(function(operands)) else got.imag
        if not (_agrees(got.real, real, words[0]) and _agrees(upper, imag, words[1])):
            wrong.append((f"{before} -> {after}", f"{name}({x}, {y}) is {got}"))
    _check(name, rules, wrong)
