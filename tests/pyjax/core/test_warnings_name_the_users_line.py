"""Every warning of the library points at the line that called it, not at a file of the library."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax

X = np.arange(3)
ROWS = np.ones((2, 3), np.float32)
MASK = np.array([True, False, True])


def _ranks(function: Callable[..., Any]) -> Callable[[], Any]:
    def call() -> Any:
        with pyjax.numpy_rank_promotion("warn"):
            return function(ROWS, np.ones(3, np.float32))

    return call


CALLS: dict[str, Callable[[], Any]] = {
    "set-number": lambda: jnp.array(X).at[0].set(0.5),
    "set-array": lambda: jnp.array(X).at[np.array([0])].set(np.float32(0.5)),
    "set-traced": lambda: pyjax.jit(lambda x: x.at[0].set(0.5))(jnp.array(X)),
    "set-mask": lambda: jnp.array(X).at[MASK].set(0.5),
    "add-mask": lambda: jnp.array(X).at[MASK].add(0.5),
    "add": lambda: jnp.array(X).at[0].add(0.5),
    "power": lambda: jnp.array(X).at[0].power(0.5),
    "array": lambda: jnp.array(X, dtype="float64"),
    "asarray": lambda: jnp.asarray(X, dtype="float64"),
    "zeros": lambda: jnp.zeros(3, dtype="float64"),
    "arange": lambda: jnp.arange(3, dtype="int64"),
    "sum": lambda: jnp.sum(X, dtype="int64"),
    "mean": lambda: jnp.mean(X, dtype="float64"),
    "cumsum": lambda: jnp.cumsum(X, dtype="int64"),
    "astype": lambda: jnp.array(X).astype("float64"),
    "sort": lambda: jnp.sort(X, kind="stable"),
    "argsort": lambda: jnp.argsort(X, kind="stable"),
    "rank": _ranks(jnp.add),
    "rank-operator": _ranks(lambda x, y: jnp.array(x) * y),
    "rank-jit": _ranks(lambda x, y: pyjax.jit(lambda a, b: a - b)(x, y)),
    "rank-scan": _ranks(lambda x, y: lax.fori_loop(0, 2, lambda i, c: jnp.maximum(c, y), x)),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_points_here(name: str) -> None:
    with pytest.warns(Warning) as seen:
        CALLS[name]()
    assert {w.filename for w in seen} == {__file__}


def test_one_function_warns() -> None:
    """Only it counts frames; a `stacklevel` is wrong as soon as somebody inserts a function."""
    package = Path(pyjax.__file__).parent
    callers = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in ("warn", "warn_explicit")
        and isinstance(node.value, ast.Name)
        and node.value.id == "warnings"
    }
    assert callers == {"core/source_info.py"}
