"""EmittedKernel: what can be read about one kernel of a compiled program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EmittedKernel:
    """One generated kernel; instructions that need the same code share it.

    Attributes:
      name: unique in its executable.
      instructions: names of the optimised module's instructions that run it, in order.
      loop_ir: its loop nests as they are scheduled, printed like Python.
      llvm_ir: its functions as LLVM text.
      assembly: the same in the target's assembly language.
      inline: it has no function of its own: the entry function contains its code, which
        `llvm_ir` and `assembly` show apart for reading.
    """

    name: str
    instructions: tuple[str, ...]
    loop_ir: str
    llvm_ir: str
    assembly: str
    inline: bool
