"""A module that is made when somebody needs it: what was compiled of it in another process is found
by what it is made from."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.module import HloModule
from xla_backend.process.lazy import lazy


class ModuleSource:
    """A module, or the way to make it.

    Attributes:
      name: of the module.
      digest: of all that the module is made from: of equal digests equal modules are made, in every
        process. None: only the module itself tells what it computes.
      is_missing: whether what was compiled of it was looked for by its digest, and is not there.
    """

    def __init__(self, name: str, make: Callable[[], HloModule], digest: str | None = None) -> None:
        self.name = name
        self.digest = digest
        self.is_missing = False
        self._make = make

    @classmethod
    def of(cls, module: HloModule) -> ModuleSource:
        """A module that is there."""
        return cls(module.name, lambda: module)

    @lazy
    def module(self) -> HloModule:
        """The module; made once."""
        return self._make()

    @property
    def is_made(self) -> bool:
        """Whether somebody needed the module so far."""
        return "module" in self.__dict__

    def copy(self) -> ModuleSource:
        """The same, with a module of its own: it is made now."""
        module = self.module.clone()
        return ModuleSource(self.name, lambda: module, self.digest)
