"""CpuExecutable: a compiled program with what is known about it, and a plain way to run it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from xla_backend.dump.interface import RunListener
from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.shape import Shape
from xla_backend.llvm.jit import Library
from xla_backend.passes.base import PassRun
from xla_backend.passes.buffer_assignment import BufferAssignment
from xla_backend.program.ir import Program
from xla_backend.runtime.custom_calls import take_pending_exception
from xla_backend.runtime.host_arrays import ALIGNMENT, run_on_arrays
from xla_backend.targets.cpu.kernel_listing import KernelListing

_TINY_CYCLES = 25_000


class CpuExecutable:
    """Native code for one module.

    `library` has `i32 entry(ptr args, ptr outs, ptr arena)`: arrays of leaf addresses and
    `temp_size` bytes aligned to 64; safe to call from several threads at once with different arenas
    and outputs.
    """

    # Every run of a pass that made the module, in order.
    pass_log: Sequence[PassRun] = ()
    # What wants to know of each run; told by whoever loads the program.
    recorder: RunListener | None = None

    def __init__(
        self,
        module: HloModule,
        assignment: BufferAssignment,
        program: Program,
        library: Library,
        kernels: KernelListing,
        llvm_ir_bytes: int,
        code_bytes: int,
        cycles: float,
        profile: dict[str, float],
    ) -> None:
        entry = module.entry
        assert entry is not None and entry.root is not None
        self.module = module
        self.assignment = assignment
        self.program = program
        self.library = library
        self.code_bytes = code_bytes
        constants = sum(data.nbytes for data in program.constants)
        # As measured: the objects that stages are shown from take six bytes per byte of LLVM text.
        self.held_bytes = (1 << 16) + 6 * llvm_ir_bytes + 2 * code_bytes + constants
        self.temp_size = program.arena_size
        # Runs for a few microseconds at most: not worth releasing the interpreter lock.
        self.is_tiny = cycles < _TINY_CYCLES
        self.profile = profile
        self.aliases = program.aliases
        self.parameter_shapes: list[Shape] = [
            leaf for p in entry.parameters for leaf in p.shape.flatten()
        ]
        self.output_shapes: list[Shape] = entry.root.shape.flatten()
        self._kernels = kernels
        # It drops the GIL while native code runs; host callbacks take it back.
        self._entry = library.function("entry", ctypes.c_int, *[ctypes.c_void_p] * 3)

    @property
    def llvm_ir(self) -> str:
        """The program as LLVM text."""
        return self._kernels.module.to_text()

    @cached_property
    def loop_ir(self) -> dict[str, str]:
        """Kernel name -> its loop nest as text."""
        return self._kernels.texts()

    @cached_property
    def emitted_kernels(self) -> list[EmittedKernel]:
        """Every generated kernel with its code; made on first use."""
        return self._kernels.emitted()

    def error_message(self, code: int) -> str:
        """What a nonzero result of the entry function means."""
        return _ERRORS.get(code, f"the program failed with status {code}")

    def raise_error(self, code: int) -> None:
        """Raise what a nonzero status of the entry function stands for, if need be a callback's own
        exception."""
        pending = take_pending_exception()
        if pending is not None:
            raise pending
        raise RuntimeFailure(self.error_message(code))

    def execute(self, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run on NumPy arrays (flat leaves) and return new arrays.

        Raises:
          ValueError: number, shapes or dtypes of the arguments are not the program's.
          RuntimeFailure: the program reported an error.
        """
        return run_on_arrays(
            self.module.name,
            self._run,
            self.parameter_shapes,
            self.output_shapes,
            self.aliases,
            arguments,
        )

    def _run(self, arguments: Sequence[int], outputs: Sequence[int]) -> None:
        arena = np.empty(self.temp_size + ALIGNMENT, np.uint8)
        start = -arena.ctypes.data % ALIGNMENT
        status = self._entry(
            _addresses(arguments), _addresses(outputs), ctypes.c_void_p(arena.ctypes.data + start)
        )
        if status:
            self.raise_error(status)


_ERRORS = {
    1: "a host callback raised an exception",
    2: "a library routine reported an invalid argument",
}


def _addresses(addresses: Sequence[int]) -> ctypes.Array:
    return (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
