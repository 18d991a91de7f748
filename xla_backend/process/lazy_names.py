"""Packages whose public names are loaded with the first use of one: `import` then costs nothing.

A package has a module that imports its names from where they live, and a `__getattr__` that asks
`LazyNames`. With the first of these names all of them are there, as globals of the package: later
uses are those of any module. Names that many programs do without come one at a time.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from xla_backend.process.on_first_use import import_now


class LazyNames:
    """The names of `package`: those of the module `public`, its submodules, and further ones from
    modules that are loaded for them alone.

    >>> names = LazyNames("xml", "xml.sax", {"parse": "xml.dom.minidom"})
    >>> names.find("parse").__module__, names.find("etree").__name__
    ('xml.dom.minidom', 'xml.etree')
    """

    def __init__(
        self, package: str, public: str, on_demand: Mapping[str, str] | None = None
    ) -> None:
        self._package = package
        self._public = public
        self._on_demand = on_demand or {}

    def find(self, name: str) -> Any:
        """What a package's `__getattr__` returns.

        Raises:
          AttributeError: there is no such name.
        """
        if name in self._on_demand:
            found = getattr(import_now(self._on_demand[name]), name)
            setattr(sys.modules[self._package], name, found)
            return found
        # `from package import *` asks for this first, and then takes what is there.
        if name == "__all__":
            for later in self._on_demand:
                self.find(later)
        # `from package import module` asks here first, also while the public names are loaded.
        if find_spec(f"{self._package}.{name}") is not None:
            return import_now(f"{self._package}.{name}")
        public = vars(self._loaded())
        if name in public and (name in public.get("__all__", ()) or not name.startswith("_")):
            return public[name]
        raise AttributeError(f"module {self._package!r} has no attribute {name!r}")

    def all(self) -> list[str]:
        """The names of the package, for its `__dir__`."""
        self._loaded()
        return sorted(vars(sys.modules[self._package]))

    def _loaded(self) -> ModuleType:
        module = import_now(self._public)
        # Not of one that is being loaded: who asks then gets what there is.
        if not getattr(module.__spec__, "_initializing", False):
            names = getattr(module, "__all__", None)
            usual = [name for name in vars(module) if not name.startswith("_")]
            package = vars(sys.modules[self._package])
            package.update({name: vars(module)[name] for name in names or usual})
            if names is not None:
                package["__all__"] = names
        return module
