"""The table of what GPUs run otherwise than as a plain kernel; `program_rules` fills it."""

from __future__ import annotations

from xla_backend.program.build import Rules
from xla_backend.runtime.host_rules import HOST_RULES

RULES = Rules("GPU backend", dict(HOST_RULES))
