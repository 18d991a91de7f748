"""The list of known differences is true, and the documentation is made of it."""

from __future__ import annotations

import pytest

from tests.edge_values.checks import check
from tests.edge_values.document import PAGE, text
from tests.edge_values.known_differences import KNOWN, Difference
from tests.edge_values.rows import Case, cases
from tests.edge_values.tables import TABLES

CASES: dict[str, tuple[str, Case]] = {
    case.key: (table, case) for table, found in TABLES.items() for case in cases(found)
}


@pytest.mark.parametrize("entry", KNOWN, ids=[d.title for d in KNOWN])
def test_still_differs(entry: Difference) -> None:
    table, case = CASES[entry.example]
    mode = entry.modes.split()[0]
    assert entry.covers(entry.example, mode)
    assert check(table, case, mode), f"{entry.example} no longer differs: remove the entry"


def test_page_is_generated() -> None:
    assert PAGE.read_text() == text(), "run `python -m tests.edge_values.document`"
