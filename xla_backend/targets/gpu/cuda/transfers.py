"""Between the memory of the host and of a device: through page-locked memory, which copies pass
without waiting for anybody, in pieces of bounded size.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from xla_backend.process.light_dataclasses import dataclass
from xla_backend.targets.gpu.cuda.waiting import wait_for

# Bytes of a piece, and of pieces on their way to a device before the next caller waits for some.
_PIECE = 4 << 20
_MOST_UNDER_WAY = 64 << 20
_LEAST = 1 << 12


@dataclass(slots=True)
class _Piece:
    """Page-locked memory that the device reads or writes until `event`, which counts from when it
    is recorded: before that, CUDA takes it to be over."""

    event: Any
    memory: Any
    nbytes: int
    is_recorded: bool = False


class Transfers:
    """Copies from and to one device, on its stream.

    Args:
      cupy: the library.   stream: of the device, which is the current one at each call.
    """

    def __init__(self, cupy: Any, stream: Any) -> None:
        self._cupy = cupy
        self._runtime = cupy.cuda.runtime
        self._pool = cupy.cuda.PinnedMemoryPool()
        self._stream = stream
        self._numbers = itertools.count()
        # In order. A piece stays until it is through, whatever interrupts.
        self._under_way: dict[int, _Piece] = {}

    def to_device(self, address: int, data: np.ndarray) -> None:
        """Copy bytes to a device's memory; they may be changed when this is back, and work that the
        stream gets from now on finds them there."""
        for start in range(0, data.size, _PIECE):
            part = data[start : start + _PIECE]
            self._wait_for_room()
            memory = self._memory(part.size)
            self._view(memory, part.size)[:] = part
            self._send(address + start, memory.ptr, memory, part.size)

    def to_host(self, address: int, nbytes: int) -> np.ndarray:
        """The bytes of a device's memory when all work that the stream has is done."""
        result = np.empty(nbytes, np.uint8)
        pieces = [(start, min(_PIECE, nbytes - start)) for start in range(0, nbytes, _PIECE)]
        before: tuple[int, int] | None = None
        for start, size in pieces:
            memory = self._memory(size)
            number = self._send(memory.ptr, address + start, memory, size)
            if before is not None:
                self._take(result, *before)
            before = start, number
        if before is not None:
            self._take(result, *before)
        return result

    def _send(self, target: int, source: int, memory: Any, nbytes: int) -> int:
        """Put a copy from or to page-locked memory on the stream; the number of its piece."""
        host = target == memory.ptr
        kind = self._runtime.memcpyDeviceToHost if host else self._runtime.memcpyHostToDevice
        piece = _Piece(self._cupy.cuda.Event(disable_timing=True), memory, nbytes)
        number = next(self._numbers)
        self._under_way[number] = piece
        try:
            self._copy(target, source, nbytes, kind)
        finally:
            piece.event.record(self._stream)
            piece.is_recorded = True
        return number

    def _take(self, result: np.ndarray, start: int, number: int) -> None:
        piece = self._under_way[number]
        wait_for(self._runtime, piece.event)
        result[start : start + piece.nbytes] = self._view(piece.memory, piece.nbytes)
        self._under_way.pop(number, None)

    def _copy(self, target: int, source: int, nbytes: int, kind: int) -> None:
        self._runtime.memcpyAsync(target, source, nbytes, kind, self._stream.ptr)

    def _memory(self, nbytes: int) -> Any:
        # In powers of two: the pool keeps a list for each size that there was, for ever.
        return self._pool.malloc(max(_LEAST, 1 << (nbytes - 1).bit_length()))

    @staticmethod
    def _view(memory: Any, nbytes: int) -> np.ndarray:
        return np.frombuffer(memory, np.uint8, nbytes)

    def _wait_for_room(self) -> None:
        """Forget pieces that are through, and wait for the oldest while there are too many."""
        for number, piece in list(self._under_way.items()):
            if not self._is_through(piece):
                break
            self._under_way.pop(number, None)
        while sum([piece.nbytes for piece in list(self._under_way.values())]) > _MOST_UNDER_WAY:
            number, piece = next(iter(list(self._under_way.items())))
            if not piece.is_recorded:  # another thread is about to
                return
            wait_for(self._runtime, piece.event)
            self._under_way.pop(number, None)

    @staticmethod
    def _is_through(piece: _Piece) -> bool:
        return piece.is_recorded and bool(piece.event.done)
