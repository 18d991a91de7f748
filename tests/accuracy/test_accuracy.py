"""Errors of elementwise functions against exact values, in units in the last place.

Each row of the tables is a function with its exact definition, its operands and the error that is
allowed (rows.py explains the columns). To add one, write the row, look at what
`python -m tests.accuracy PATTERN` measures, and run `python -m tests.accuracy.document`, which
makes docs/accuracy.md.
"""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

from tests.accuracy.check import measure, resolve, results, sample
from tests.accuracy.document import PAGE, text
from tests.accuracy.measure import error, mp
from tests.accuracy.rows import DEFAULT, Row
from tests.accuracy.tables import NOT_MEASURED, ROWS
from tests.edge_values.tables import TABLES
from tests.sampling import sampled

FAST = 120
IDS = [f"{row.names} {row.call}" for row in ROWS]


@sampled("row", ROWS, every=3, ids=IDS)
def test_float32(row: Row) -> None:
    elements = sample(row, "float32", FAST)
    for name in row.names.split():
        found = measure(row, name, "float32", FAST)
        assert found.ulp <= row.ulp, f"{name}: {found}"
        one, other = (results(row, name, elements.arrays, jit=jit) for jit in (True, False))
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_float32_densely(row: Row) -> None:
    found = measure(row, row.names.split()[0], "float32", 20_000)
    assert found.ulp <= row.ulp, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_float64(row: Row) -> None:
    found = measure(row, row.names.split()[0], "float64", 1000)
    assert found.ulp <= row.wide, str(found)


def test_every_rounding_function_has_a_row() -> None:
    """What the tables of edge values compare with a tolerance is measured here, too; but for
    distributions, which are made of functions that are."""
    measured = {name for row in ROWS for name in row.names.split()}
    rounds = {
        row.name
        for name, rows in TABLES.items()
        if name != "scipy_stats"
        for row in rows
        if row.elementwise and row.ulp + row.norm
    }
    assert rounds - measured == set(NOT_MEASURED)


@pytest.mark.parametrize("row", [row for row in ROWS if row.note or row.ulp > DEFAULT or row.scale])
def test_docstrings_have_other_bounds(row: Row) -> None:
    for name in row.names.split():
        words = re.sub(r"\s+", " ", inspect.getdoc(resolve(name)) or "")
        assert row.note and row.note in words, name


def test_page_is_generated() -> None:
    assert PAGE.read_text() == text(), "run `python -m tests.accuracy.document`"


@pytest.mark.parametrize(
    "found, exact, ulp",
    [
        (np.float32(1), 1 + mp.ldexp(3, -25), 0.75),
        (np.float32(1), 1 - mp.ldexp(3, -25), 1.5),
        (np.float32(0), mp.ldexp(1, -150), 0.5),
        (np.float32(np.inf), mp.ldexp(1, 128) - mp.ldexp(1, 103), 0.5),
        (np.float32(np.inf), mp.mpf("1e999"), 0),
        (np.float32(-np.inf), mp.inf, np.inf),
        (np.float32(np.nan), mp.sqrt(-1), 0),
        (np.float32(np.nan), mp.one, np.inf),
        (np.float32(1), mp.nan, np.inf),
        (np.complex64(1 + 1j), mp.mpc(1, 1 + mp.ldexp(1, -23)), 1),
    ],
)
def test_units(found: np.generic, exact: object, ulp: float) -> None:
    got = error(found, exact)
    assert got == ulp or (ulp == np.inf and got > 1e6)
