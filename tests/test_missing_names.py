"""docs/missing_names.md lists names that are missing, and nothing that is there."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import pytest

from docs.missing_names import MISSING, PAGE, RAISING, full_names, text
from pyjax.interpreters import mlir


def exists(name: str) -> bool:
    """Whether pyjax has what JAX calls `name`: a module, or a member of one or of a class."""
    first, *rest = name.split(".")
    assert first == "jax", name
    path, value = "pyjax", import_module("pyjax")
    for part in rest:
        path = f"{path}.{part}"
        if hasattr(value, part):
            value = getattr(value, part)
            continue
        try:
            value = import_module(path)
        except ModuleNotFoundError:
            return False
    return True


@pytest.mark.parametrize(
    "name", ["jax", "jax.numpy.sin", "jax.Array.at", "jax.extend.core.Primitive"]
)
def test_existing_names_are_found(name: str) -> None:
    assert exists(name)


def test_what_is_listed_is_missing() -> None:
    assert [name for name in full_names() if exists(name)] == []


def test_names_are_listed_once() -> None:
    names = full_names()
    assert len(names) == len(set(names))


def test_what_to_write_instead_exists() -> None:
    said = {name for entry in MISSING for name in re.findall(r"`(jax\.[\w.]*\w)", entry.instead)}
    assert len(said) > 30
    assert sorted(name for name in said if not exists(name)) == []


def test_page_is_what_the_table_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == text()


def test_names_that_only_raise() -> None:
    found = [
        name
        for name, value in inspect.getmembers(mlir, inspect.isfunction)
        if (value.__doc__ or "").startswith("Raises NotImplementedError")
    ]
    assert found == list(RAISING)


@pytest.mark.parametrize("name", RAISING)
def test_they_raise(name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"mlir.{name} builds objects of MLIR"):
        getattr(mlir, name)()
