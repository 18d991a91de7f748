"""What compilers tell of a compilation, and programs of their runs. Who listens, with all the
formats it writes, loads with the first compilation that asks for a dump.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.module import HloModule
from xla_backend.passes.base import PassObserver, PassRun
from xla_backend.passes.buffer_assignment import BufferAssignment


class RunListener(Protocol):
    """Is told of each run of one program, maybe of several at the same time."""

    def started(self, arguments: Sequence[Literal]) -> None:
        """A run begins; one literal for each parameter."""

    def finished(self, arguments: Sequence[Literal], result: Literal) -> None:
        """A run has ended without an error."""


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
