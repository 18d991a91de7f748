"""Programs as bytes, and back, constants and kernels included: see `records`, which has the format.

API
  program_to_bytes(program) -> bytes        program_from_bytes(data) -> Program
"""

from __future__ import annotations

from xla_backend.hlo import attribute_values
from xla_backend.kernels import index
from xla_backend.kernels import ir as kernel_ir
from xla_backend.program import ir
from xla_backend.program.ir import Program
from xla_backend.program.records import from_bytes, to_bytes

# Kernels are kept as the objects they are made of.
_MODULES = (index, kernel_ir, attribute_values, ir)


def program_to_bytes(program: Program) -> bytes:
    """A program as bytes.

    Raises:
      ProgramFormatError: an attribute of a host call is of a kind that bytes cannot hold.
    """
    return to_bytes(program, _MODULES)


def program_from_bytes(data: bytes) -> Program:
    """The program that `program_to_bytes` wrote.

    Raises:
      ProgramFormatError: the bytes are damaged, or of another version.
    """
    return from_bytes(data, Program, _MODULES)
