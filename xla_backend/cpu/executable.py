"""CpuExecutable: a compiled program with what is known about it, and a plain way to run it."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from xla_backend.cpu.kernel_functions import KernelFunctions
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.shape import Shape
from xla_backend.llvm.jit import Library
from xla_backend.passes.buffer_assignment import BufferAssignment
from xla_backend.runtime.custom_calls import release_call, take_pending_exception

_ALIGNMENT = 64
_TINY_CYCLES = 25_000


class CpuExecutable:
    """Native code for one module.

    `entry_address` is `i32 entry(ptr args, ptr outs, ptr arena)`: arrays of leaf addresses and
    `temp_size` bytes aligned to 64; safe to call from several threads at once with different arenas
    and outputs.
    """

    def __init__(
        self,
        module: HloModule,
        assignment: BufferAssignment,
        library: Library,
        kernels: KernelFunctions,
        llvm_ir: str,
        object_code: bytes,
        temp_size: int,
        cycles: float,
        profile: dict[str, float],
        keep_alive: Sequence[object] = (),
        host_calls: Sequence[int] = (),
    ) -> None:
        entry = module.entry
        assert entry is not None and entry.root is not None
        self.module = module
        self.assignment = assignment
        self.library = library
        self.llvm_ir = llvm_ir
        self.object_code = object_code
        self.temp_size = temp_size
        # Runs for a few microseconds at most: not worth releasing the interpreter lock.
        self.is_tiny = cycles < _TINY_CYCLES
        self.profile = profile
        self.aliases = assignment.aliases
        self.parameter_shapes: list[Shape] = [
            leaf for p in entry.parameters for leaf in p.shape.flatten()
        ]
        self.output_is_tuple = entry.root.shape.is_tuple
        self.output_shapes: list[Shape] = entry.root.shape.flatten()
        self.entry_address: int = library.address("entry")
        self._kernels = kernels
        for number in host_calls:
            weakref.finalize(self, release_call, number)
        self._keep_alive = list(keep_alive)
        # CFUNCTYPE drops the GIL while native code runs; host callbacks take it back.
        self._entry = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)(self.entry_address)

    @cached_property
    def loop_ir(self) -> dict[str, str]:
        """Kernel name -> its loop nest as text."""
        return self._kernels.texts()

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
        if len(arguments) != len(self.parameter_shapes):
            raise ValueError(
                f"program {self.module.name!r} takes {len(self.parameter_shapes)} arrays, "
                f"got {len(arguments)}"
            )
        held = []
        for i, (argument, shape) in enumerate(zip(arguments, self.parameter_shapes)):
            array = np.ascontiguousarray(argument).reshape(np.shape(argument))
            dtype = shape.element_type.numpy_dtype
            if array.shape != shape.dimensions or array.dtype != dtype:
                raise ValueError(
                    f"argument {i} of program {self.module.name!r} must be {shape}, got "
                    f"{array.dtype}{list(array.shape)}"
                )
            held.append(array)
        donated = set(self.aliases.values())
        held = [a.copy() if i in donated else a for i, a in enumerate(held)]
        outputs: list[np.ndarray] = []
        for i, shape in enumerate(self.output_shapes):
            if i in self.aliases:
                outputs.append(held[self.aliases[i]])
            elif shape.is_array:
                outputs.append(_aligned_empty(shape))
            else:
                outputs.append(np.empty(0, np.uint8))
        arena = np.empty(self.temp_size + _ALIGNMENT, np.uint8)
        start = -arena.ctypes.data % _ALIGNMENT
        status = self._entry(
            _addresses(held), _addresses(outputs), ctypes.c_void_p(arena.ctypes.data + start)
        )
        if status:
            self.raise_error(status)
        return [o for o, s in zip(outputs, self.output_shapes) if s.is_array]


_ERRORS = {
    1: "a host callback raised an exception",
    2: "a library routine reported an invalid argument",
}


def _aligned_empty(shape: Shape) -> np.ndarray:
    dtype = shape.element_type.numpy_dtype
    raw = np.empty(shape.byte_size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + shape.byte_size].view(dtype).reshape(shape.dimensions)


def _addresses(arrays: Sequence[np.ndarray]) -> ctypes.Array:
    table = (ctypes.c_void_p * max(1, len(arrays)))()
    for i, array in enumerate(arrays):
        table[i] = array.ctypes.data
    return table
