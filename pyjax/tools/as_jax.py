"""Programs written for JAX run on pyjax: `import jax` gives them pyjax.

`jax.numpy` is `pyjax.numpy`, and so on for every module; one that pyjax does not have is not found.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class _Finder:
    """Finds `jax` and what is below it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        if name != "jax" and not name.startswith("jax."):
            return None
        ours = "py" + name
        try:
            there = find_spec(ours) is not None
        except ModuleNotFoundError:  # its package is not there, either
            there = False
        return ModuleSpec(name, _Loader(ours), is_package=True) if there else None


class _Loader(Loader):
    def __init__(self, ours: str) -> None:
        self._ours = ours

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        # The import system hands out what stands here when the module has been executed.
        sys.modules[module.__name__] = importlib.import_module(self._ours)


@contextmanager
def as_jax() -> Iterator[None]:
    """Inside the block `import jax` imports pyjax.

    >>> with as_jax():
    ...     import jax.numpy as jnp
    >>> jnp.__name__
    'pyjax.numpy'
    """
    before = {name: sys.modules.pop(name) for name in _jax_modules()}
    sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
    try:
        yield
    finally:
        sys.meta_path.remove(_Finder)  # type: ignore[arg-type]
        for name in _jax_modules():
            del sys.modules[name]
        sys.modules.update(before)


def _jax_modules() -> list[str]:
    return [name for name in sys.modules if name == "jax" or name.startswith("jax.")]
