"""What compilers tell of a compilation. Who listens, with all the
formats it writes, loads with the first compilation that asks for a dump.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from xla_backend.dump.run_listener import RunListener
from xla_backend.dump_options import DumpOptions
from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.hlo.module import HloModule
from xla_backend.passes.base import PassObserver, PassRun
from xla_backend.passes.buffer_assignment import BufferAssignment
from xla_backend.process.on_first_use import on_first_use

_new_dumper = on_first_use("xla_backend.dump.dumper", "new_dumper")


class CompilationListener(PassObserver, Protocol):
    """Is told of the stages of one compilation, in this order, and of its passes."""

    def inputs(self, module: HloModule, target: dict[str, str], profile_version: int) -> None:
        """What the compilation starts from."""

    def before_optimizations(self, module: HloModule) -> None:
        """The module as it was received."""

    def after_optimizations(
        self, module: HloModule, assignment: BufferAssignment, backend: str = "cpu"
    ) -> None:
        """The module as it is compiled; `backend`: for what, "cpu" or "sm_9.0_gpu"."""

    def kernels(self, loop_ir: dict[str, str]) -> None:
        """Scheduled loop nests by the name of the kernel."""

    @property
    def wants_emitters(self) -> bool:
        """Whether `emitted` is to be called: finding out what to tell costs time."""

    def emitted(self, kernels: Iterable[EmittedKernel]) -> None:
        """What can be read about each kernel."""

    def units(self, units: Sequence[tuple[str, str, str, bytes]]) -> None:
        """Name, LLVM text, assembly and object code of each part."""

    def code(self, files: Mapping[str, str | bytes]) -> None:
        """Generated code in further forms, by the end of the file's name."""

    @property
    def prefix(self) -> str:
        """How the names of all files of this compilation begin."""

    def metadata(self, log: Sequence[PassRun]) -> None:
        """Every run of a pass that made the module."""

    def recorder(self, module: HloModule) -> RunListener | None:
        """Who wants to know of each run of the compiled module."""


def make_dumper(options: DumpOptions | None, module_name: str) -> CompilationListener | None:
    """The dumper of one compilation, or None if nothing is to be dumped."""
    if options is None or not options.wanted:
        return None
    dumper: CompilationListener = _new_dumper(options, module_name)
    return dumper
