"""Buffers: memory of one dense array on a device of the host."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from xla_backend.runtime.memory import POOL, Block, ForeignBlock


class BufferSpec:
    """What all buffers of one kind share, so that making one means setting two attributes.

    `take()` is memory for one; if it raises IndexError, `grow()` is (see memory.SizeClass).
    """

    __slots__ = ("dimensions", "grow", "nbytes", "numpy_dtype", "take")

    def __init__(self, dimensions: tuple[int, ...], numpy_dtype: np.dtype) -> None:
        self.dimensions = dimensions
        self.numpy_dtype = numpy_dtype
        self.nbytes = numpy_dtype.itemsize
        for n in dimensions:
            self.nbytes *= n
        memory = POOL.size_class(self.nbytes)
        self.take = memory.take
        self.grow = memory.grow


class Buffer:
    """Memory of one array. A deleted or donated buffer has no attribute `ptr` any more.

    `ptr` is the address and owns the memory (see Block): the memory is free when the buffer, all
    views of it and all calls that use it are gone.

    It is read on the hot path of every call. Because a dead buffer lacks it, nothing needs testing
    there: the AttributeError is turned into a clear message by the caller.
    """

    __slots__ = ("__weakref__", "ptr", "spec")

    ptr: Block
    spec: BufferSpec

    def delete(self) -> None:
        """Give up the memory now; using the buffer later is an error."""
        try:
            del self.ptr
        except AttributeError:
            return  # deleted before, maybe by another thread

    def is_deleted(self) -> bool:
        return not hasattr(self, "ptr")


def allocate(buffer: Buffer, spec: BufferSpec) -> None:
    """Give a fresh buffer its memory from the pool.

    Raises:
      MemoryError: there is none.
    """
    try:
        buffer.ptr = spec.take()
    except IndexError:
        buffer.ptr = spec.grow()
    buffer.spec = spec


def copy_from_host(buffer: Buffer, spec: BufferSpec, array: np.ndarray) -> None:
    """Copy a NumPy array (same shape and dtype as the spec) into memory from the pool."""
    allocate(buffer, spec)
    if spec.nbytes:
        np.copyto(memory_view(buffer.ptr, spec.dimensions, spec.numpy_dtype, None), array)


def wrap_host(buffer: Buffer, spec: BufferSpec, array: np.ndarray) -> None:
    """Use a C-contiguous NumPy array's memory without copying; the array lives as long as the
    buffer.
    """
    buffer.ptr = ForeignBlock(array.__array_interface__["data"][0], array)
    buffer.spec = spec


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
