"""What is expected of a row, and how an outcome differs from it."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from pyjax import errors
from tests.collectives.recorded import load
from tests.collectives.rows import INSIDE, Row, row_of

Outcome = dict[str, Any]

# The reference has found its own mistake, or the user's too late to say what it is: no program
# waits for these.
ACCIDENTS = frozenset({"AssertionError", "JaxRuntimeError", "MLIRError", "NotImplementedError"})

# Where blocks lie in the same order.
_ORDERS = (
    frozenset({"vmap", "shard_map", "shard_map-", "some axes", "some axes-", "pmap"}),
    frozenset({"vmap, vmap", "shard_map, both", "shard_map-, both", "shard_map in vmap"}),
    frozenset({"vmap in shard_map", "vmap in shard_map-", "vmap in pmap"}),
)
# Here types say what varies, and the transpose of a sum inside of the map is another.
_TYPED = frozenset({"shard_map", "some axes", "shard_map, both"})
_INSIDE = frozenset(how for how in INSIDE if "grad" in how) | {"vjp", "checkpoint", "custom_vjp"}


def _order(context: str) -> frozenset[str]:
    return next((order for order in _ORDERS if context in order), frozenset({context}))


def _twin(row: Row) -> tuple[Any, ...]:
    how = "" if row.transformation == "eager" else row.transformation
    typed = how in _INSIDE and row.context in _TYPED
    return row.call, how, row.dtype, row.shape, _order(row.context), typed


@cache
def _values() -> dict[tuple[Any, ...], set[int]]:
    """Checksums that the reference has of a call somewhere."""
    found: dict[tuple[Any, ...], set[int]] = {}
    for key, want in load().items():
        want = want.get("model", want)
        row = row_of(key)
        if "error" in want or row.transformation == "P()":
            continue
        found.setdefault(_twin(row), set()).add(want["sum"])
    return found


def class_of(name: str) -> type[BaseException] | None:
    if name == "AxisError":
        return np.exceptions.AxisError
    return getattr(builtins, name, None) or getattr(errors, name, None)


def is_a(name: str, wanted: str) -> bool:
    """Whether who catches one class catches the other."""
    one, other = class_of(name), class_of(wanted)
    return name == wanted or (one is not None and other is not None and issubclass(one, other))


def differences(key: str, got: Outcome) -> Iterator[str]:
    """In a word each: "value", "types", "refused", "another error", "not refused"."""
    want = load()[key]
    if "error" not in want:
        if "error" in got:
            yield "refused"
            return
        if (want["inside"], want["outside"]) != (got["inside"], got["outside"]):
            yield "types"
        if want["sum"] != got["sum"]:
            yield "value"
        return
    if "error" in got:
        if want["error"] not in ACCIDENTS and not is_a(got["error"], want["error"]):
            yield "another error"
        return
    if want["error"] not in ACCIDENTS:
        yield "not refused"
    model = want.get("model", want)
    if "error" not in model:
        if model["sum"] != got["sum"]:
            yield "value"
    elif got["sum"] not in _values().get(_twin(row_of(key)), {got["sum"]}):
        yield "value"


def checked(key: str) -> bool:
    """Whether values are compared with something."""
    want = load()[key]
    return "error" not in want.get("model", want) or _twin(row_of(key)) in _values()
