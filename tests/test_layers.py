"""Imports go down (the contracts in pyproject.toml say where down is), functions import nothing
(but for the listed lazy libraries), files stay small.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Imports inside functions: optional or heavy libraries, on first use.
LAZY_LIBRARIES = {
    "absl",
    "llvmlite",
    "scipy",
    "opt_einsum",
    "cupy",
    "mpi4py",
    "sklearn",
    "matplotlib",
    "tqdm",
    "IPython",
    "tomllib",
    "importlib",  # importlib.metadata
}

SOURCES = sorted(
    path for folder in ("pyjax", "xla_backend", "config") for path in (ROOT / folder).rglob("*.py")
)
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]


def imports_of(path: Path) -> Iterator[tuple[int, str, bool]]:
    """(line, imported module or its package, inside a function) of each import."""

    def visit(node: ast.AST, inside: bool) -> Iterator[tuple[int, str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield child.lineno, alias.name, inside
            elif isinstance(child, ast.ImportFrom):
                yield child.lineno, child.module or ".", inside
            function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from visit(child, inside or function)

    yield from visit(ast.parse(path.read_text(encoding="utf-8")), False)


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_imports_keep_the_contracts() -> None:
    # In a process of its own: it keeps the stream that it finds for its output, and pytest closes
    # that at the end of the test.
    command = "from importlinter.cli import lint_imports_command as run; run()"
    flags = ("--no-cache", "--config", str(ROOT / "pyproject.toml"))
    done = subprocess.run(
        [sys.executable, "-c", command, *flags], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_contracts_have_no_exceptions() -> None:
    """Every module of both packages has a floor, every import counts."""
    assert "exclude_type_checking_imports" not in CONTRACTS
    covered = set()
    for contract in CONTRACTS["contracts"]:
        assert not {"ignore_imports", "exhaustive_ignores", "skip_descendants"} & contract.keys()
        if contract["type"] == "layers":
            assert contract["exhaustive"], contract["name"]
            covered.update(contract["containers"])
    assert covered == {"pyjax", "xla_backend"} == set(CONTRACTS["root_packages"])


def test_only_one_room_of_the_compiler_stands_below_both_packages() -> None:
    rooms = {
        f"xla_backend.{path.stem}"
        for path in (ROOT / "xla_backend").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    rooms -= {"xla_backend.__init__", "xla_backend.process"}
    (contract,) = (c for c in CONTRACTS["contracts"] if c.get("source_modules") == ["pyjax.core"])
    assert set(contract["forbidden_modules"]) == rooms


def test_options_know_nothing_else() -> None:
    for path in (ROOT / "config").rglob("*.py"):
        for line, target, _ in imports_of(path):
            ours = target.split(".")[0] in ("pyjax", "xla_backend")
            assert not ours or target.startswith("pyjax._config"), f"{shown(path)}:{line}"


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_functions_import_nothing(path: Path) -> None:
    for line, target, inside in imports_of(path):
        if inside:
            assert target.split(".")[0] in LAZY_LIBRARIES, f"line {line} imports {target}"


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_types_need_no_imports_of_their_own(path: Path) -> None:
    """A type that only a checker may import stands on the wrong floor."""
    assert "TYPE_CHECKING" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_files_stay_small(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= 800, f"{shown(path)} has {lines} lines: look for the second subject"
