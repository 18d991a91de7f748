"""The list of known differences is true, and the documentation is made of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.edge_values.checks import check
from tests.edge_values.document import PAGE, text
from tests.edge_values.known_differences import GENERAL, KNOWN, Difference
from tests.edge_values.known_programs import PROGRAMS
from tests.edge_values.not_smooth import NOT_SMOOTH
from tests.edge_values.rows import Case, cases
from tests.edge_values.tables import TABLES

ENTRIES = (*KNOWN, *NOT_SMOOTH)
TITLES = [entry.title for entry in ENTRIES]
CASES: dict[str, tuple[str, Case]] = {
    case.key: (table, case) for table, found in TABLES.items() for case in cases(found)
}


@pytest.mark.parametrize("entry", ENTRIES, ids=TITLES)
def test_still_differs(entry: Difference) -> None:
    table, case = CASES[entry.example]
    mode = entry.modes.split()[0]
    assert entry.covers(entry.example, mode)
    assert check(table, case, mode), f"{entry.example} no longer differs: remove the entry"


@pytest.mark.parametrize("entry", ENTRIES, ids=TITLES)
def test_patterns_name_cases(entry: Difference) -> None:
    for pattern in entry.cases:
        alone = replace(entry, cases=(pattern,))
        found = any(alone.covers(key, mode) for key in CASES for mode in entry.modes.split())
        assert found, f"no case is called {pattern}"


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES, ids=TITLES)
def test_covers_only_what_differs(entry: Difference) -> None:
    """Each case differs in one of the modes, and in each of the modes there is one that differs."""
    modes = entry.modes.split()
    covered = [found for key, found in CASES.items() if entry.covers(key, modes[0])]
    differing = {case.key: [m for m in modes if check(table, case, m)] for table, case in covered}
    idle = [key for key, found in differing.items() if not found]
    assert not idle, f"{entry.title!r}: no longer differ: {idle}"
    unused = set(modes) - {mode for found in differing.values() for mode in found}
    assert not unused, f"{entry.title!r}: nothing differs in the modes {sorted(unused)}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_have_a_section(program: str) -> None:
    """Each name stands in the section that has its reason."""
    (section,) = [s for s in PAGE.read_text().split("\n## ") if f"`{program}`" in s]
    assert section.startswith(PROGRAMS[program] + "\n") and PROGRAMS[program] in dict(GENERAL)


def test_page_is_generated() -> None:
    assert PAGE.read_text() == text(), "run `python -m tests.edge_values.document`"
