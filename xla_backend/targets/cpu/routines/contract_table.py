"""Contracts of the routines that programs call, by name: those of `contracts`, which is loaded when
a program calls a routine."""

from __future__ import annotations

from collections.abc import Mapping

from xla_backend.process.on_first_use import TableOnFirstUse
from xla_backend.program.routines import Routine

ROUTINES: Mapping[str, Routine] = TableOnFirstUse(
    "xla_backend.targets.cpu.routines.contracts", "ROUTINES"
)
