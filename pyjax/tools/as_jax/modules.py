"""The finder of `jax`, `jaxlib` and what is below them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pyjax
from pyjax.core.errors import new_error
from pyjax.tools.as_jax.distributions import NAMES, JaxDistribution
from pyjax.tools.as_jax.private_names import (
    PRIVATE,
    PrivateModule,
    give_private_attributes,
    is_private,
    private_module,
)
from pyjax.version import jax_version, jax_version_info


class _Jax(ModuleType):
    """`jax` itself: pyjax, under the version of JAX whose API it follows."""

    __file__ = pyjax.__file__
    __version__ = jax_version
    __version_info__ = jax_version_info

    def __getattr__(self, name: str) -> Any:
        # Without an import of theirs, and in place of modules of ours that say something else.
        if f"jax.{name}" in PRIVATE:
            return importlib.import_module(f"jax.{name}")
        try:
            return getattr(pyjax, name)
        except AttributeError:
            raise AttributeError(f"module 'jax' has no attribute {name!r}") from None

    def __dir__(self) -> list[str]:
        return sorted({*dir(pyjax), "__version__", "__version_info__", "lib", "version"})


class _Finder(DistributionFinder):
    """Finds modules of JAX, and what is installed under its name."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] not in NAMES:
            return None
        if name == "jax" or is_private(name):
            return ModuleSpec(name, _Loader(name), is_package=True)
        if not name.startswith("jax."):
            return None
        ours = "py" + name
        try:
            there = find_spec(ours) is not None
        except ModuleNotFoundError:  # its package is not there, either
            there = False
        return ModuleSpec(name, _Loader(name), is_package=True) if there else None

    def find_distributions(
        self, context: DistributionFinder.Context = DistributionFinder.Context()
    ) -> Iterator[Distribution]:
        for name in NAMES:
            if context.name in (None, name):
                yield JaxDistribution(name)


class _Loader(Loader):
    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        if self._name == "jax":
            return _Jax("jax", pyjax.__doc__)
        return private_module(self._name) if is_private(self._name) else None

    def exec_module(self, module: ModuleType) -> None:
        if not isinstance(module, _Jax | PrivateModule):
            # The import system hands out what stands here when the module has been executed.
            public = sys.modules[self._name] = importlib.import_module("py" + self._name)
            # Where ours is no package, `from ... import` looks for its private modules here only.
            for name in PRIVATE:
                parent, _, child = name.rpartition(".")
                if parent == self._name:
                    sys.modules[name] = private_module(name)
                    setattr(public, child, sys.modules[name])


_finder = _Finder()


def install() -> None:
    """From now on `import jax` imports pyjax, in this process.

    Raises:
      ImportError: JAX itself is imported already: what holds its functions would not meet pyjax's.

    >>> from pyjax.tools.as_jax import install
    >>> install()
    >>> import jax.numpy as jnp
    >>> jnp.__name__
    'pyjax.numpy'
    """
    if _finder in sys.meta_path:
        return
    before = sys.modules.get("jax")
    if before is not None:
        raise new_error(
            ImportError,
            f"JAX is imported already, from {getattr(before, '__file__', None)}",
            "modules that have taken its functions would go on with them",
            "write `import pyjax.as_jax` above the first import of jax and of libraries that use "
            "it, or run the program by `python -m pyjax.as_jax program.py`",
        )
    sys.meta_path.insert(0, _finder)
    give_private_attributes()


@contextmanager
def as_jax() -> Iterator[None]:
    """Inside the block `import jax` imports pyjax; behind it, what it imported before.

    >>> with as_jax():
    ...     import jax.numpy as jnp
    >>> jnp.__name__
    'pyjax.numpy'
    """
    before = {name: sys.modules.pop(name) for name in _jax_modules()}
    was_installed = _finder in sys.meta_path
    if not was_installed:
        sys.meta_path.insert(0, _finder)
    give_private_attributes()
    try:
        yield
    finally:
        if not was_installed:
            sys.meta_path.remove(_finder)
            _take_private_modules_back()
        for name in _jax_modules():
            del sys.modules[name]
        sys.modules.update(before)


def _take_private_modules_back() -> None:
    """Removes what imports of private modules have left in public ones of pyjax."""
    for name in PRIVATE:
        parent, _, child = name.rpartition(".")
        public = sys.modules.get("py" + parent)
        if public is not None and isinstance(vars(public).get(child), PrivateModule):
            delattr(public, child)


def _jax_modules() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] in NAMES]
