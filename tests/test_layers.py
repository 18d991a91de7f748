"""The layering is a test: imports go down, functions import nothing (but for the listed lazy
imports), files stay small.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Longest prefix wins. A module may import modules of its own layer and of lower ones.
LAYERS = {
    "pyjax._config": 0,
    "xla_backend.bounded_cache": 0,
    "xla_backend.compile_options": 0,
    "xla_backend.compile_target": 0,
    "xla_backend.dump_options": 0,
    "xla_backend.emitted_kernel": 0,
    "xla_backend.finalizers": 0,
    "xla_backend.forks": 0,
    "xla_backend.user_passes": 0,
    "xla_backend.xla_flag_meanings": 0,
    "xla_backend.xla_flag_table": 0,
    "xla_backend": 7,
    "xla_backend.hlo": 1,
    "xla_backend.debug_options": 2,
    "xla_backend.dump": 2,
    "xla_backend.flag_effects": 2,
    "xla_backend.flags": 2,
    "xla_backend.passes": 2,
    "xla_backend.stablehlo": 2,
    "xla_backend.kernels": 3,
    "xla_backend.llvm": 3,
    "xla_backend.program": 4,
    "xla_backend.runtime": 5,
    "xla_backend.targets": 6,
    "xla_backend.tools": 8,
    "pyjax.version": 0,
    "pyjax.core": 10,
    "pyjax.interpreters": 11,
    "pyjax.sharding": 12,
    "pyjax.runtime": 13,
    "pyjax.lax": 14,
    "pyjax.api": 15,
    "pyjax.parallel": 16,
    "pyjax.numpy": 17,
    "pyjax": 18,
    "pyjax.tools": 19,
    "pyjax.__init__": 20,
}

# Imports inside functions: optional or heavy libraries, on first use.
LAZY_LIBRARIES = {
    "absl",
    "llvmlite",
    "scipy",
    "cupy",
    "mpi4py",
    "sklearn",
    "matplotlib",
    "tqdm",
    "IPython",
}

SOURCES = sorted(
    path for folder in ("pyjax", "xla_backend", "config") for path in (ROOT / folder).rglob("*.py")
)


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] == "config":
        parts[:1] = ["pyjax", "_config"]
    if parts[-1] == "__init__" and len(parts) > 2:
        parts.pop()
    return ".".join(parts)


def layer(module: str) -> int | None:
    parts = module.split(".")
    for n in range(len(parts), 0, -1):
        found = LAYERS.get(".".join(parts[:n]))
        if found is not None:
            return found
    return None


def imports_of(path: Path) -> Iterator[tuple[int, str, bool]]:
    """(line, imported module, inside a function) of each import that runs."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]

    def visit(node: ast.AST, inside: bool) -> Iterator[tuple[int, str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield child.lineno, alias.name, inside
            elif isinstance(child, ast.ImportFrom):
                base = package[: len(package) - child.level + 1] if child.level else []
                target = ".".join([*base, *([child.module] if child.module else [])])
                for alias in child.names:
                    inner = f"{target}.{alias.name}"
                    is_module = any(
                        (ROOT / Path(*inner.replace("pyjax._config", "config").split(".")))
                        .with_suffix(s)
                        .exists()
                        for s in (".py", "")
                    )
                    yield child.lineno, inner if is_module else target, inside
            function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from visit(child, inside or function)

    yield from visit(tree, False)


def ours(module: str) -> bool:
    return module.split(".")[0] in ("pyjax", "xla_backend")


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_imports_go_down(path: Path) -> None:
    module = module_name(path)
    own = layer(module)
    assert own is not None, f"{module} belongs to no layer: add it to LAYERS"
    for line, target, inside in imports_of(path):
        top = target.split(".")[0]
        if inside:
            assert top in LAZY_LIBRARIES, f"{module}:{line} imports {target} inside a function"
        if ours(target):
            other = layer(target)
            assert other is not None, f"{module}:{line} imports {target}, which has no layer"
            assert other <= own, (
                f"{module}:{line}: layer {own} may not import {target} (layer {other})"
            )


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_files_stay_small(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= 800, f"{path.relative_to(ROOT)} has {lines} lines: look for the second subject"


def test_no_import_cycles() -> None:
    graph = {module_name(p): set() for p in SOURCES}
    for path in SOURCES:
        for _, target, inside in imports_of(path):
            if ours(target) and not inside:
                graph[module_name(path)].add(target)
    state: dict[str, int] = {}

    def visit(module: str, trail: tuple[str, ...]) -> None:
        if state.get(module) == 2 or module not in graph:
            return
        assert state.get(module) != 1, f"import cycle: {' -> '.join([*trail, module])}"
        state[module] = 1
        for target in graph[module]:
            if target != module:
                visit(target, (*trail, module))
        state[module] = 2

    for module in graph:
        visit(module, ())


def test_the_compiler_stands_alone() -> None:
    for path in SOURCES:
        if module_name(path).startswith("xla_backend"):
            for line, target, _ in imports_of(path):
                assert not target.startswith("pyjax"), f"{path}:{line} imports {target}"
