"""Public functions at the edges of their domains against recorded results of the reference.

Every case of tables.py (a call of a public function, on edge values of one dtype) is run eagerly,
under jit, under vmap, and differentiated forwards and backwards, and compared with what JAX
gave (compare.py says how): values, signs of zeros, dtype, weak type, shape and classes of
exceptions. JAX is not needed to run this. Second derivatives and gradients under vmap are compared
with differences of gradients and with a loop (second.py).

Add a function: a row in the table_*.py where it belongs (rows.py explains the columns, operands.py
the letters), then `record.py` with a Python that has JAX, then `python -m tests.edge_values
PATTERN` to see what differs. A difference is a bug here unless known_differences.py says why not.

`make test` runs the values for the commonest dtypes but those of samples, and the gradients of
elementwise functions, first and second, for float32; `make test-slow` the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.edge_values.checks import MODES, failures
from tests.edge_values.rows import Case, cases
from tests.edge_values.tables import TABLES
from tests.sampling import sampled


def groups() -> Iterator[tuple[str, str, list[Case]]]:
    """Table, function and cases: one test each."""
    for table, found in TABLES.items():
        by_name: dict[str, list[Case]] = {}
        for case in cases(found):
            by_name.setdefault(case.row.name, []).append(case)
        for name, group in by_name.items():
            yield table, name, group


GROUPS = list(groups())
IDS = [name for _, name, _ in GROUPS]
# Samples are slow to compile, and are all for `make test-slow`; the gradients of functions that
# only move elements, too.
VALUES = [group for group in GROUPS if group[0] != "random"]
GRADIENTS = [
    group for group in GROUPS if group[0] in ("lax_elementwise", "numpy_elementwise", "special")
]


def report(lines: list[str]) -> str:
    return f"{len(lines)} cases differ:\n" + "\n".join(lines)


@sampled("table, name, group", VALUES, every=2, ids=[name for _, name, _ in VALUES])
def test_values(table: str, name: str, group: list[Case]) -> None:
    lines = failures(table, (case for case in group if case.fast), ["value"])
    assert not lines, report(lines)


@sampled("table, name, group", GRADIENTS, every=3, ids=[name for _, name, _ in GRADIENTS])
def test_gradients(table: str, name: str, group: list[Case]) -> None:
    found = (case for case in group if case.fast and case.dtype == "float32")
    lines = failures(table, found, ["vjp", "hvp"])
    assert not lines, report(lines)


@pytest.mark.slow
@pytest.mark.parametrize("table, name, group", GROUPS, ids=IDS)
def test_all(table: str, name: str, group: list[Case]) -> None:
    lines = failures(table, group, MODES)
    assert not lines, report(lines)
