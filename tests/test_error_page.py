"""docs/errors.md has a section for each exception: its first example raises it, its second runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyjax
from pyjax.core import errors

PATH = Path(__file__).resolve().parent.parent / "docs" / "errors.md"
PAGE = PATH.read_text(encoding="utf-8")
INTRODUCTION, *SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
TEXTS = {text.split("\n", 1)[0]: text for text in SECTIONS}
OUT_OF_BOUNDS = "jax_error_checking_behavior_oob"
BASES = ("JAXTypeError", "JAXIndexError", "PyjaxError")


def examples(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.fixture(autouse=True)
def options_as_before() -> Iterator[None]:
    yield
    pyjax.config.update(OUT_OF_BOUNDS, "ignore")


def test_every_class_has_a_section() -> None:
    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.PyjaxError)
    }
    assert set(TEXTS) == classes


@pytest.mark.parametrize("name", TEXTS)
def test_examples_raise_and_run(name: str) -> None:
    wrong, right = examples(TEXTS[name])
    assert "**What:**" in TEXTS[name] and "**Instead:**" in TEXTS[name]
    names: dict[str, Any] = {}
    exec(examples(INTRODUCTION)[0], names)
    kind = getattr(errors, name)
    with pytest.raises(kind) as info:
        exec(compile(wrong, PATH.name, "exec"), names)
    assert name in BASES or type(info.value) is kind
    pyjax.config.update(OUT_OF_BOUNDS, "ignore")
    exec(compile(right, PATH.name, "exec"), names)
