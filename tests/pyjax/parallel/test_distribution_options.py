"""Every option that distributes programs acts, or says why not (distribution_options.py)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pyjax._config import options_devices
from pyjax._config.registry import Option, all_options, environment_names

from tests.config.effects.rows import ROWS
from tests.eight_devices import printed
from tests.pyjax.parallel.distribution_options import INERT, ON_DEVICES, ON_ONE

# What names of such options have in them, wherever they are declared.
WORDS = (
    "collective|distribut|device|process|host|topology|mesh|shmap|pmap|shard|partition|vma|pcast|"
    "empty_arrays|recover|preempt|rocm|cuda"
)
# Of other things: the memory of this process, rows of a table, files that are shared, the way back.
NOT_OF_THEM = frozenset(
    """
    jax_compilation_cache_check_contents jax_traceback_in_locations_limit
    jax_debug_leaked_clients_on_clear_backends
    """.split()
)


def area() -> set[str]:
    """All options that distribute programs."""
    declared = {o.name for o in vars(options_devices).values() if isinstance(o, Option)}
    named = {name for name in all_options() if re.search(WORDS, name)}
    return (declared | named) - NOT_OF_THEM


def looked(*arguments: str, **environment: str) -> Any:
    module = "tests.pyjax.parallel.distribution_options"
    return json.loads(printed(module, *arguments, **environment))


@pytest.fixture(scope="module")
def on_eight() -> dict[str, list[Any]]:
    return looked()


def test_every_option_of_the_area_is_in_the_table() -> None:
    tables = [{*ON_DEVICES}, ON_ONE, INERT]
    assert set().union(*tables) == area()
    assert sum(map(len, tables)) == len(area()), "an option is in two tables"


@pytest.mark.parametrize("name", ON_DEVICES)
def test_over_eight_devices(name: str, on_eight: dict[str, list[Any]]) -> None:
    seen = ON_DEVICES[name]
    if seen.at_start:
        variable = environment_names(name)[0]
        found = [*on_eight[name], looked(name, **{variable: str(seen.value)})]
        assert found == [seen.default, seen.changed]
        return
    assert on_eight[name] == [seen.default, seen.changed, seen.default]


def test_the_others_are_looked_at_where_one_device_shows_them() -> None:
    acting = {row.option for row in ROWS if row.acts}
    assert acting >= ON_ONE


@pytest.mark.parametrize("name", sorted(INERT))
def test_what_does_nothing_says_why(name: str) -> None:
    option = all_options()[name]
    reason = option.no_effect or option.waits_for
    assert reason, name
    assert {row.inert or row.waits for row in ROWS if row.option == name} == {reason}
