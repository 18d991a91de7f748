"""Programs as object code for a machine that need not be this one: neither linked nor run."""

from __future__ import annotations

from xla_backend.compile_target import Target
from xla_backend.hlo.module import HloModule


class TargetCode:
    """What a client's `emit` returns.

    Attributes:
      module: the optimised HLO.
      target: what the code is made for.
    """

    module: HloModule
    target: Target

    def object_code(self) -> bytes:
        """An object file in the format of the target's system: ELF, Mach-O, COFF, WebAssembly."""
        raise NotImplementedError

    def assembly(self) -> str:
        """The same code as assembly text."""
        raise NotImplementedError

    def texts(self) -> dict[str, str]:
        """Printable stages of the program by name: "hlo", "loops", "llvm"."""
        raise NotImplementedError

    def routines(self) -> dict[str, bytes]:
        """Object files of the library routines that the program calls, and of those they call, by
        name."""
        raise NotImplementedError

    def needs(self) -> list[str]:
        """Functions of the runtime that the program and its routines call: threads, signals and
        calls of Python."""
        raise NotImplementedError
