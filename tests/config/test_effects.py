"""Each option does what it says: rows of `tests/config/effects`, in every way of setting them."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyjax._config.registry import (
    Option,
    Scope,
    all_options,
    environment_names,
    find,
)

from tests.config.effects import rows, server
from tests.config.effects.table import ROWS, Row
from tests.sampling import sampled

ROOT = Path(__file__).resolve().parents[2]


def ways_of(row: Row) -> tuple[str, ...]:
    if row.ways is not None:
        return row.ways
    first = next(r for r in ROWS if r.option == row.option)
    ways = ("environment", "update", "flag") if row is first else ("update", "flag")
    return (*ways, "context") if find(row.option).scope is Scope.THREAD else ways


class Server:
    """The process that looks: see `tests/config/effects/server.py`."""

    def __init__(self, scratch: Path, table: str = "tests.config.effects.server") -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "PYJAX_", "XLA_"))}
        for name in ("PYJAX_CACHE_DIR", "PYJAX_INSTALLED_DIR"):  # they are no options
            if name in os.environ:
                kept[name] = os.environ[name]
        chosen: dict[str, str] = {}
        for row in ROWS:
            if "environment" in ways_of(row):
                value = row.value_in(server.scratch_of(row, scratch))
                chosen.setdefault(environment_names(row.option)[0], str(value))
        self.process = subprocess.Popen(
            [sys.executable, "-m", table],
            cwd=ROOT,
            env={**kept, **chosen, "EFFECTS_SCRATCH": str(scratch)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, row: str, way: str) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"row": row, "way": way}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the server died"
        return json.loads(line)

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("effects"))
    yield server
    server.close()


@sampled(
    "row, way",
    [pytest.param(row, way, id=f"{row.id}-{way}") for row in ROWS for way in ways_of(row)],
    every=2,
)
def test_option_does_what_it_says(row: Row, way: str, asked: Server) -> None:
    answer = asked.ask(row.id, way)
    assert not answer["problems"], "\n".join([*answer["problems"], str(answer["seen"])])


# -- the table itself ------------------------------------------------------------------------------


def reference() -> dict[str, Option]:
    """The options that the reference has; the others are ours."""
    return {name: option for name, option in all_options().items() if not option.ours}


def test_the_reference_has_135_options() -> None:
    assert len(reference()) == 135


def test_every_option_has_a_row() -> None:
    assert {row.option for row in ROWS} == set(all_options())


def test_rows_and_declarations_agree_on_what_acts() -> None:
    for row in ROWS:
        declared = find(row.option).no_effect, find(row.option).waits_for
        assert declared == (row.inert, row.waits), f"{row.option}: {declared} is declared"


def test_rows_have_names_of_their_own() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("area", rows.AREAS, ids=lambda area: area.__name__.rpartition(".")[2])
def test_areas_use_the_library_as_programs_do(area: Any) -> None:
    """Neither the registry nor anything private: a row cannot look at an option behind its back."""
    for node in ast.walk(ast.parse(Path(area.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            assert "_config" not in ast.unparse(node)
        if isinstance(node, ast.Attribute):
            private = node.attr.startswith("_") and not node.attr.endswith("__")
            assert not private, ast.unparse(node)


BROKEN = {
    "reads_config": "the row reads an option",
    "reads_values": "the row reads an option",
    "explains": "the row reads an option",
    "same": "the option makes no difference",
    "wrong": "changed: seen 'float64', expected 'int8'",
    "dies": "the process died: -9",
    "raises": "ZeroDivisionError",
    "stays": "restored: seen [1, 1], expected []",
}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("broken"), "tests.config.effects.broken_rows")
    yield server
    server.close()


@pytest.mark.parametrize("row", BROKEN)
def test_rows_that_show_nothing_fail(row: str, broken: Server) -> None:
    problems = broken.ask(f"jax_enable_x64=True-{row}", "update")["problems"]
    assert any(BROKEN[row] in problem for problem in problems), problems
