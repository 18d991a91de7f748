"""Every public function is in a table with a value and a gradient, or excluded with a reason."""

from __future__ import annotations

import functools

import pytest

import pyjax
from docs.public_names import public_modules, public_objects
from pyjax.core.primitive import Primitive
from tests.edge_values.checks import applies, has_gradient
from tests.edge_values.excluded import EXCLUDED
from tests.edge_values.execute import resolve
from tests.edge_values.gradients import ALWAYS_ERRORS, WITHOUT, WITHOUT_SECOND
from tests.edge_values.known_differences import known
from tests.edge_values.recorded import load
from tests.edge_values.rows import cases
from tests.edge_values.tables import PENDING, TABLES

MODULES = public_modules()
NAMED = {row.name for table in TABLES.values() for row in table}


def public_functions(module: str) -> dict[str, object]:
    """Callables of the module's interface that are neither classes nor primitives, by the names
    that rows have for them."""
    prefix = f"{module}.".removeprefix("pyjax.")
    found = public_objects(MODULES[module])
    return {
        f"{prefix}{name}": value
        for name, value in found.items()
        if not isinstance(value, (type, Primitive))
    }


@functools.cache
def known_objects() -> frozenset[int]:
    """What rows and exclusions name: the same function under another name needs no other row."""
    return frozenset(id(resolve(pyjax, name)) for name in NAMED | EXCLUDED.keys())


@pytest.mark.parametrize("module", MODULES)
def test_every_public_function_is_in_a_table(module: str) -> None:
    found = public_functions(module)
    missing = sorted(name for name, value in found.items() if id(value) not in known_objects())
    assert not missing, f"neither in a table nor excluded: {', '.join(missing)}"


def test_exclusions_are_needed_and_exist() -> None:
    assert not NAMED & EXCLUDED.keys()
    for name, reason in EXCLUDED.items():
        resolve(pyjax, name)
        assert reason


def test_every_function_has_a_value() -> None:
    """At least one call of it gives a result in the reference, not an error."""
    values = {
        case.row.name
        for table, found in TABLES.items()
        for case in cases(found)
        if "tree" in load(table).get(case.key, {}).get("value", {})
    }
    assert NAMED - values == ALWAYS_ERRORS.keys()


def test_every_function_has_a_gradient_or_a_reason() -> None:
    differentiated = {
        case.row.name
        for table, found in TABLES.items()
        for case in cases(found)
        if has_gradient(case, load(table).get(case.key, {}))
    }
    names = {name for module in MODULES for name in public_functions(module)}
    missing = sorted((NAMED & names) - differentiated - WITHOUT.keys() - ALWAYS_ERRORS.keys())
    assert not missing, f"no gradient case and no reason in gradients.py: {', '.join(missing)}"
    needless = sorted(WITHOUT.keys() & differentiated | WITHOUT.keys() - names)
    assert not needless, f"differentiated, or no public function: {', '.join(needless)}"


def test_every_gradient_has_a_second_derivative_or_a_reason() -> None:
    first, second, excused = set(), set(), set()
    for table, found in TABLES.items():
        for case in cases(found):
            record = load(table).get(case.key, {})
            if not has_gradient(case, record):
                continue
            first.add(case.row.name)
            if known(case.key, "hvp"):
                excused.add(case.row.name)
            elif applies("hvp", case, record):
                second.add(case.row.name)
    missing = sorted(first - second - excused - WITHOUT_SECOND.keys())
    assert not missing, f"no case of second.py and no reason: {', '.join(missing)}"
    needless = sorted(WITHOUT_SECOND.keys() & second | WITHOUT_SECOND.keys() - first)
    assert not needless, f"has a second derivative, or no first: {', '.join(needless)}"


@pytest.mark.parametrize("table", TABLES)
def test_cases_are_recorded_but_for_those_that_are_counted(table: str) -> None:
    missing = sum(case.key not in load(table) for case in cases(TABLES[table]))
    assert missing == PENDING.get(table, 0), "run tests/edge_values/record.py, change PENDING"


@pytest.mark.parametrize("table", TABLES)
def test_nothing_is_recorded_that_no_row_names(table: str) -> None:
    stale = load(table).keys() - {case.key for case in cases(TABLES[table])}
    assert not stale, "run tests/edge_values/record.py"


def test_tables_do_not_share_a_case() -> None:
    keys = [case.key for table in TABLES.values() for case in cases(table)]
    assert len(keys) == len(set(keys)), sorted({k for k in keys if keys.count(k) > 1})
