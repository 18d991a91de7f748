"""Which modules and objects of pyjax are public, read off the package itself.

A module is public if a public package hands it out: imports it by name (`from pyjax.scipy.stats
import norm`), or lists it among those that load on first use; and so is each that lies directly in
`pyjax.experimental`, whose modules are imported by their own names.  Of a module's names those of
`__all__` are public, or else, in the `__init__.py` of a package, all that do not begin with an
underscore, and in other files those that are defined there or imported `as` the same name.
The pages of the reference and tests/test_docstrings.py walk what is found here.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

from pyjax._config.registry import Option

import pyjax

# How packages call the set of modules that they load on first use.
_ON_FIRST_USE = ("_SUBMODULES", "_ON_DEMAND", "_PUBLIC")

# The module of a package from which its names come with the first use of one.
_LAZY = "_public"

# Packages whose modules are imported by their own names.
_BY_THEIR_NAMES = frozenset({"pyjax.experimental", "pyjax.experimental.compilation_cache"})

# For libraries that build on the internals: a reader of the reference looks for none of it.
_INTERNAL = frozenset({"pyjax.api_util", "pyjax.core", "pyjax.interpreters", "pyjax.test_util"})

# What is documented is ours: NumPy's dtypes, for example, are handed on as they are.
_OURS = ("pyjax", "xla_backend")


def _bound_names(module: ModuleType) -> tuple[set[str], set[str]]:
    """The names that a module's text binds: all of them, and those that it defines or hands on."""
    every: set[str] = set()
    own: set[str] = set()
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            own |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            every |= {alias.asname or alias.name for alias in node.names} - {"*"}
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                every |= set(import_module(str(node.module)).__all__)
            own |= {alias.name for alias in node.names if alias.asname == alias.name}
    for kept in _ON_FIRST_USE:
        every |= set(getattr(module, kept, ()))
    if hasattr(module, "__path__") and find_spec(f"{module.__name__}.{_LAZY}") is not None:
        lazily = _bound_names(import_module(f"{module.__name__}.{_LAZY}"))
        every, own = every | lazily[0], own | lazily[1]
    return every | own, own


@cache
def public_modules(root: ModuleType = pyjax) -> dict[str, ModuleType]:
    """The public modules below `root`, and itself, by their full names."""
    found = {root.__name__: root}
    if not hasattr(root, "__path__"):
        return found
    names = _bound_names(root)[0]
    if root.__name__ in _BY_THEIR_NAMES:
        inside = [module.name for module in pkgutil.iter_modules(root.__path__)]
        names |= {import_module(f"{root.__name__}.{n}").__name__.rpartition(".")[2] for n in inside}
    for name in sorted(names):
        value = None if name.startswith("_") else getattr(root, name, None)
        full = f"{root.__name__}.{name}"
        if isinstance(value, ModuleType) and value.__name__ == full and full not in _INTERNAL:
            found = found | public_modules(value)
    return found


def public_objects(module: ModuleType) -> dict[str, Any]:
    """The callables and classes of a public module that are ours, by their short names."""
    every, own = _bound_names(module)
    names = getattr(module, "__all__", every if hasattr(module, "__path__") else own)
    found = {}
    for name in sorted(names):
        value = None if name.startswith("_") else getattr(module, name)
        home = getattr(value, "__module__", None) or ""
        if callable(value) and home.split(".")[0] in _OURS:
            found[name] = value
    return found


class Public(NamedTuple):
    """A public object under the name by which it is documented, and its other names."""

    name: str
    value: Any
    aliases: tuple[str, ...]

    @property
    def module(self) -> str:
        """The public module that documents it."""
        return self.name.rpartition(".")[0]

    @property
    def doc(self) -> str:
        """Its docstring, without indentation; of options what they say, and how all are used."""
        doc = inspect.getdoc(self.value) or ""
        if isinstance(self.value, Option):
            return f"{self.value.help} See the page of options.\n\n{doc[doc.index('>>>') :]}"
        return doc


def _home(value: Any, name: str) -> tuple[bool, int, int, str]:
    """Sorts the names of an object: that of its definition first, then in the room that has it."""
    module, _, short = name.rpartition(".")
    inside = f"{value.__module__}.".startswith(f"{module}.")
    renamed = short != getattr(value, "__name__", short)
    return (renamed, -len(module) if inside else 0, module.count("."), name)


@cache
def documented() -> tuple[Public, ...]:
    """Every public object, once."""
    names: dict[int, list[str]] = {}
    values: dict[int, Any] = {}
    for full, module in public_modules().items():
        for short, value in public_objects(module).items():
            values[id(value)] = value
            names.setdefault(id(value), []).append(f"{full}.{short}")
    found = []
    for key, value in values.items():
        first, *others = sorted(names[key], key=lambda name: _home(value, name))
        found.append(Public(first, value, tuple(others)))
    return tuple(sorted(found, key=lambda public: public.name))
