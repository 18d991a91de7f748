"""Buffers in memory of the host: blocks of the memory pool, and views of them.

A client whose `buffer_kind` makes `HostBufferKind`s says by that that its buffers are host
addressable: `Block`s, which are ints, their address. Only who has asked may use it so
(`isinstance(kind, HostBufferKind)`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from xla_backend.runtime.buffer import BufferKind
from xla_backend.runtime.memory import POOL, Block, ForeignBlock


class HostBufferKind(BufferKind):
    """Buffers of one kind in blocks of the pool.

    `take()` is memory for one; if it raises IndexError, `grow()` is (see memory.SizeClass).
    `number(block).value` is what a buffer of a scalar holds, as a Python number; None: not of these
    buffers.
    """

    __slots__ = ("_write", "grow", "number", "take")

    take: Callable[[], Block]
    grow: Callable[[], Block]

    def __init__(self, dimensions: tuple[int, ...], numpy_dtype: np.dtype) -> None:
        super().__init__(dimensions, numpy_dtype)
        memory = POOL.size_class(self.nbytes)
        self.take = memory.take
        self.grow = memory.grow
        self._write = _SCALARS.get(numpy_dtype)
        self.number = None if dimensions else self._write

    def allocate(self) -> Block:
        """Memory for a buffer.

        Raises:
          OutOfMemory: there is none.
        """
        try:
            return self.take()
        except IndexError:
            return self.grow()

    def from_host(self, array: np.ndarray) -> Block:
        block = self.allocate()
        if self.nbytes:
            np.copyto(memory_view(block, self.dimensions, self.numpy_dtype, None), array)
        return block

    def to_host(self, buffer: Block) -> np.ndarray:  # type: ignore[override]
        return read_only_view(buffer, self.dimensions, self.numpy_dtype)

    def from_scalar(self, value: Any) -> Block:
        if self._write is None:
            return self.from_host(np.asarray(value, self.numpy_dtype))
        try:  # as `allocate`: numbers are frequent operands, and a call costs
            block = self.take()
        except IndexError:
            block = self.grow()
        self._write(block).value = value
        return block

    def address(self, buffer: Block) -> int:  # type: ignore[override]
        return +buffer

    def wrap_host(self, array: np.ndarray) -> Block:
        return ForeignBlock(array.__array_interface__["data"][0], array)


# How a number is written to an address without a NumPy array, which takes ten times as long.
_SCALARS: dict[np.dtype, Callable[[int], Any]] = {
    np.dtype(np.bool_): ctypes.c_bool.from_address,
    np.dtype(np.int32): ctypes.c_int32.from_address,
    np.dtype(np.int64): ctypes.c_int64.from_address,
    np.dtype(np.float32): ctypes.c_float.from_address,
    np.dtype(np.float64): ctypes.c_double.from_address,
}


class _Memory:
    """What NumPy takes for the base of a view: memory that cannot be made writable, because this
    object offers it in one way only, read-only. It keeps the block."""

    __slots__ = ("__array_interface__", "block")

    __array_interface__: dict[str, Any]
    block: Block


def read_only_view(block: Block, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A NumPy array over a block, which it keeps; nothing makes it, its views or its bases
    writable."""
    memory = _Memory()
    memory.block = block
    memory.__array_interface__ = {
        "shape": shape,
        # The types of ml_dtypes have no type string that NumPy takes: bytes, then.
        "typestr": dtype.str if dtype.isbuiltin == 1 else f"|V{dtype.itemsize}",
        "data": (+block, True),
        "version": 3,
    }
    view = np.asarray(memory)
    return view if view.dtype is dtype else view.view(dtype)


_view_types: dict[int, Any] = {}


def memory_view(ptr: int, shape: tuple[int, ...], dtype: np.dtype, keep_alive: Any) -> np.ndarray:
    """A writable NumPy array over memory at `ptr`; it keeps `keep_alive` alive. For memory that
    nobody else sees yet, or as long as a program runs; for anything else see `read_only_view`."""
    nbytes = dtype.itemsize
    for n in shape:
        nbytes *= n
    if nbytes == 0:
        return np.empty(shape, dtype)
    view_type: Any = _view_types.get(nbytes)
    if view_type is None:
        view_type = type("Memory", (ctypes.Array,), {"_type_": ctypes.c_char, "_length_": nbytes})
        if len(_view_types) < 1024:
            _view_types[nbytes] = view_type
    memory = view_type.from_address(ptr)
    memory.keep_alive = keep_alive
    return np.ndarray(shape, dtype, memory)
