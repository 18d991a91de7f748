"""Contracts of the library routines that programs for GPUs call, by name."""

from __future__ import annotations

from xla_backend.program.routines import Routine
from xla_backend.targets.gpu.routines import cublas, solvers

ROUTINES: dict[str, Routine] = {**cublas.ROUTINES, **solvers.ROUTINES}
