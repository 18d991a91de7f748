"""EmittedKernel: what can be read about one kernel of a compiled program."""

from __future__ import annotations

from xla_backend.process.values import Value


class KernelLaunch(Value):
    """One launch of a kernel on a GPU.

    Attributes:
      function: its name in the code.
      blocks, threads: how many, and of how many threads each.
      shared_bytes: of shared memory that a block has.
      registers: of 32 bits that a thread has; None where no assembler was found.
      spilled_bytes: that a thread moves to and from memory for want of registers.
      occupancy: resident warps of those that a multiprocessor could have; None like registers.
    """

    function: str
    blocks: int
    threads: int
    shared_bytes: int
    registers: int | None = None
    spilled_bytes: int | None = None
    occupancy: float | None = None


class EmittedKernel(Value):
    """One generated kernel; instructions that need the same code share it.

    Attributes:
      name: unique in its executable.
      instructions: names of the optimised module's instructions that run it, in order.
      loop_ir: its loop nests as they are scheduled, printed like Python.
      llvm_ir: its functions as LLVM text.
      assembly: the same in the target's assembly language.
      inline: it has no function of its own: the entry function contains its code, which
        `llvm_ir` and `assembly` show apart for reading.
      launches: of one execution, on a GPU; its assembly is PTX.
    """

    name: str
    instructions: tuple[str, ...]
    loop_ir: str
    llvm_ir: str
    assembly: str
    inline: bool
    launches: tuple[KernelLaunch, ...] = ()
