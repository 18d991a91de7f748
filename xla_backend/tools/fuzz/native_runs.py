"""Runs of compiled code in memory that the caller prepares: donated arguments really shared, dirty
arenas, guards around every array, several threads in one program."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

import numpy as np

from xla_backend.hlo.shape import Shape
from xla_backend.runtime.client import ExecutionContext
from xla_backend.targets.cpu.executable import CpuExecutable

_ALIGNMENT = 64
_GUARD = 192  # bytes on either side: a store of a few vectors too far shows
_GUARD_BYTE = 0xC3
# What memory holds before a run: zeros, the bytes of NaN, and of numbers.
FILLS = (0x00, 0xFF, 0x47)


class MemoryDamage(Exception):
    """A run wrote where it may not."""


class _Block:
    """Aligned memory with guards."""

    def __init__(self, size: int, fill: int) -> None:
        raw = np.full(size + 2 * _GUARD + _ALIGNMENT, _GUARD_BYTE, np.uint8)
        self.start = _GUARD + -(raw.ctypes.data + _GUARD) % _ALIGNMENT
        self.raw = raw
        self.bytes = raw[self.start : self.start + size]
        self.bytes[:] = fill
        self.address = raw.ctypes.data + self.start

    def is_guarded(self) -> bool:
        end = self.start + self.bytes.size
        outside = (self.raw[: self.start], self.raw[end:])
        return all(bool((part == _GUARD_BYTE).all()) for part in outside)


class NativeRuns:
    """Memory for calls of one executable; the arena is as the last call left it."""

    def __init__(self, executable: CpuExecutable, fill: int) -> None:
        self.executable = executable
        self.arena = _Block(executable.temp_size, fill)
        # It drops the GIL while native code runs.
        self._entry = executable.library.function("entry", ctypes.c_int, *[ctypes.c_void_p] * 3)

    def run(self, arguments: Sequence[np.ndarray], fill: int) -> list[np.ndarray]:
        """The results of a call whose outputs hold `fill` before; a donated argument's memory is
        the output's.

        Raises:
          MemoryDamage: something outside of the outputs and the arena changed.
          HloError: the program failed.
        """
        executable = self.executable
        given = iter(arguments)
        values = [next(given) if s.is_array else None for s in executable.parameter_shapes]
        inputs = [_Block(_size(s), fill) for s in executable.parameter_shapes]
        for block, value in zip(inputs, values):
            if value is not None:
                block.bytes[:] = np.frombuffer(value.tobytes(), np.uint8)
        outputs = [
            inputs[executable.aliases[i]] if i in executable.aliases else _Block(_size(s), fill)
            for i, s in enumerate(executable.output_shapes)
        ]
        addresses = [block.address for block in inputs]
        if executable.uses_context:
            native = executable.native_context(ExecutionContext(executable.device))
            addresses.append(ctypes.addressof(native))
        results = [block.address for block in outputs]
        status = self._entry(_table(addresses), _table(results), self.arena.address)
        if status:
            executable.raise_error(status)
        donated = set(executable.aliases.values())
        for i, (block, value) in enumerate(zip(inputs, values)):
            if not block.is_guarded():
                raise MemoryDamage(f"a run wrote next to argument {i}")
            if value is not None and i not in donated and block.bytes.tobytes() != value.tobytes():
                raise MemoryDamage(f"a run changed argument {i}")
        for i, block in enumerate(outputs):
            if not block.is_guarded():
                raise MemoryDamage(f"a run wrote next to output {i}")
        if not self.arena.is_guarded():
            raise MemoryDamage("a run wrote next to its arena")
        return [
            block.bytes.view(shape.element_type.numpy_dtype).reshape(shape.dimensions)
            for block, shape in zip(outputs, executable.output_shapes)
            if shape.is_array
        ]


def run_in_threads(
    executable: CpuExecutable, inputs: Sequence[Sequence[np.ndarray]], repeats: int
) -> list[list[list[np.ndarray]]]:
    """Results by thread and call: each thread calls the program with inputs of its own."""
    results: list[list[list[np.ndarray]]] = [[] for _ in inputs]
    errors: list[BaseException] = []
    ready = threading.Barrier(len(inputs))

    def work(number: int) -> None:
        try:
            runs = NativeRuns(executable, FILLS[number % len(FILLS)])
            ready.wait()
            for k in range(repeats):
                results[number].append(runs.run(inputs[number], FILLS[k % len(FILLS)]))
        except BaseException as error:  # raised again by the caller
            errors.append(error)
            ready.abort()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def _size(shape: Shape) -> int:
    return shape.byte_size if shape.is_array else 0


def _table(addresses: Sequence[int]) -> ctypes.Array:
    return (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
