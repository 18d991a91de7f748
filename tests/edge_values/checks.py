"""Runs pyjax on a case in one mode and compares with the record. The tests are made of this."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pyjax
from tests.edge_values import execute, second
from tests.edge_values.compare import difference
from tests.edge_values.known_differences import known
from tests.edge_values.recorded import FOLDER, checksum, load
from tests.edge_values.rows import Case

Mode = str
RECORDED: tuple[Mode, ...] = ("value", "jit", "vmap", "jvp", "vjp")
# These need no record: derivatives of gradients and their batches, at a generic point.
SECOND: tuple[Mode, ...] = ("hvp", "vhp", "vmap_vjp")
MODES = (*RECORDED, *SECOND)


def _value(case: Case, record: dict) -> str | None:
    return difference(case, execute.value(pyjax, case), record["value"])


def _jit(case: Case, record: dict) -> str | None:
    got = execute.jitted(pyjax, case)
    want = record["trace"] or record["value"]
    return difference(case, got, want, structure=False)


def _vmap(case: Case, record: dict) -> str | None:
    for got in execute.batched(pyjax, case):
        text = difference(case, got, record["value"], structure=False)
        if text:
            return text
    return None


def _jvp(case: Case, record: dict) -> str | None:
    return difference(case, execute.jvp(pyjax, case), record["jvp"], gradient=True)


def _vjp(case: Case, record: dict) -> str | None:
    return difference(case, execute.vjp(pyjax, case), record["vjp"], gradient=True)


_CHECKS: dict[Mode, Callable[[Case, dict], str | None]] = {
    "value": _value,
    "jit": _jit,
    "vmap": _vmap,
    "jvp": _jvp,
    "vjp": _vjp,
    "hvp": lambda case, record: second.forward_over_reverse(case),
    "vhp": lambda case, record: second.reverse_over_reverse(case),
    "vmap_vjp": lambda case, record: second.batched_gradient(case),
}


def has_gradient(case: Case, record: dict) -> bool:
    """Whether there is a first derivative: of the reference, or where it is known to have none."""
    return "vjp" in record and ("tree" in record["vjp"] or known(case.key, "vjp"))


def applies(mode: Mode, case: Case, record: dict) -> bool:
    """Whether there is something to compare: not the gradient of an error, for example."""
    if mode == "value":
        return True
    if "error" in record["value"]:
        return False
    if mode == "vmap":  # what cannot be traced, and what has nothing to batch
        return not record["trace"] and bool(case.operands)
    if mode in SECOND:
        traced = not record["trace"] or mode != "vmap_vjp"
        return has_gradient(case, record) and second.has_generic_point(case) and traced
    return mode == "jit" or (bool(case.differentiated) and mode in record)


def check(table: str, case: Case, mode: Mode, folder: Path = FOLDER) -> str | None:
    """How pyjax differs from the record in this mode, known difference or not."""
    record = load(table, folder).get(case.key)
    if record is None:  # tables.py counts these
        return None
    if record["operands"] != checksum(case):
        return "the operands have changed since it was recorded: run tests/edge_values/record.py"
    return _CHECKS[mode](case, record) if applies(mode, case, record) else None


def failures(table: str, found: Iterable[Case], modes: Iterable[Mode]) -> list[str]:
    """The differences that are not known, one line each."""
    modes = tuple(modes)
    lines = []
    for case in found:
        for mode in modes:
            if known(case.key, mode):
                continue
            text = check(table, case, mode)
            if text:
                lines.append(f"{case.key} [{mode}]: {text}")
    return lines
