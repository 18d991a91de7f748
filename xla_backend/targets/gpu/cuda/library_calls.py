"""Routines of the vendor's libraries, called through CuPy."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.errors import UnimplementedError
from xla_backend.program.ir import Library, Slice
from xla_backend.targets.gpu.cuda.commands import LibraryCommand
from xla_backend.targets.gpu.cuda.device import CudaDevice
from xla_backend.targets.gpu.cuda.layout import Place


def library_command(
    step: Library, place: Callable[[Slice], Place], device: CudaDevice
) -> LibraryCommand:
    """The command of a library step.

    Raises:
      UnimplementedError: nothing here runs the routine.
    """
    raise UnimplementedError(f"%{step.name}: {device} has no routine {step.routine!r}")
