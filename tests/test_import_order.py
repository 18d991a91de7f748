"""Threads that import at the same time do not wait for each other.

Python has a lock per module. A package that imports its module M has the package's; another thread
that imports M has M's, and waits for the package where M says `from package import other`. Python
sees such a circle and gives one of the two a module that is half there: an ImportError.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.test_layers import ROOT, shown

NAMES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in ("pyjax", "xla_backend")
    for path in (ROOT / package).rglob("*.py")
}


def _at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, (ast.If, ast.Try, ast.With)):
            yield from _at_import(statement.body)


def _waits_for(name: str) -> set[str]:
    """Whose locks a thread takes while it imports a module."""
    found: set[str] = set()
    for statement in _at_import(ast.parse(NAMES[name].read_text(encoding="utf-8")).body):
        if isinstance(statement, ast.Import):
            found.update(alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            found.add(statement.module)
            found.update(f"{statement.module}.{alias.name}" for alias in statement.names)
    return found & NAMES.keys()


def _reached(start: str, edges: dict[str, set[str]]) -> set[str]:
    seen, todo = {start}, [start]
    while todo:
        new = edges[todo.pop()] - seen
        seen |= new
        todo += new
    return seen


def test_no_module_that_others_import_needs_its_package_while_that_needs_the_module() -> None:
    edges = {name: _waits_for(name) for name in NAMES}
    packages = {name for name, path in NAMES.items() if path.name == "__init__.py"}
    reached = {name: _reached(name, edges) for name in packages}
    wrong = []
    for name in NAMES:
        package = next((p for p in edges[name] & packages if name.startswith(f"{p}.")), None)
        if package is None or name not in reached[package]:
            continue
        circle = {m for m in reached[package] if m.startswith(f"{package}.")}
        circle = {m for m in circle if name in _reached(m, edges)}
        for other in NAMES:
            outside = not f"{other}.".startswith(f"{package}.")
            if outside and edges[other] & circle:
                wrong.append(f"{shown(NAMES[other])} enters {package}, {name} imports from it")
    assert not wrong, "\n".join(wrong)
