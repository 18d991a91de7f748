"""Buffers: memory of one dense array on a device of the host."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from xla_backend.runtime.memory import POOL


class BufferSpec:
    """What all buffers of one kind share, so that making one means setting three attributes.

    `free` is the pool's list for this size: blocks are popped from it and pushed back onto it.
    """

    __slots__ = ("dimensions", "free", "nbytes", "numpy_dtype", "push")

    def __init__(self, dimensions: tuple[int, ...], numpy_dtype: np.dtype) -> None:
        self.dimensions = dimensions
        self.numpy_dtype = numpy_dtype
        self.nbytes = numpy_dtype.itemsize
        for n in dimensions:
            self.nbytes *= n
        self.free = POOL.free_list(self.nbytes)
        self.push = self.free.append


class Buffer:
    """One block of memory. A deleted or donated buffer has no attribute `ptr` any more.

    `ptr` is read on the hot path of every call. Because a dead buffer lacks it, nothing needs
    testing there:
    the AttributeError is turned into a clear message by the caller.

    `_owner` keeps foreign memory alive (a NumPy array, another buffer); None: the block is the
    pool's.
    """

    __slots__ = ("__weakref__", "_owner", "ptr", "spec")

    ptr: int
    spec: BufferSpec
    _owner: Any

    def __del__(self) -> None:
        try:
            if self._owner is None:
                self.spec.push(self.ptr)
        except AttributeError:
            return  # deleted before, or construction failed

    def delete(self) -> None:
        """Free the memory now; using the buffer later is an error."""
        if self.is_deleted():
            return
        if self._owner is None:
            self.spec.push(self.ptr)
        self.forget()

    def forget(self) -> None:
        """Give up the memory without freeing it: somebody else has taken it over."""
        del self.ptr
        self._owner = None

    def is_deleted(self) -> bool:
        return not hasattr(self, "ptr")


def allocate(buffer: Buffer, spec: BufferSpec) -> None:
    """Give a fresh buffer its memory from the pool."""
    free = spec.free
    try:
        buffer.ptr = free.pop()
    except IndexError:
        buffer.ptr = POOL.grow(spec.nbytes)
    buffer.spec = spec
    buffer._owner = None


def copy_from_host(buffer: Buffer, spec: BufferSpec, array: np.ndarray) -> None:
    """Copy a NumPy array (same shape and dtype as the spec) into memory from the pool."""
    allocate(buffer, spec)
    if spec.nbytes:
        np.copyto(memory_view(buffer.ptr, spec.dimensions, spec.numpy_dtype, None), array)


def wrap_host(buffer: Buffer, spec: BufferSpec, array: np.ndarray) -> None:
    """Use a C-contiguous NumPy array's memory without copying; the array lives as long as the
    buffer.
    """
    buffer.ptr = array.__array_interface__["data"][0]
    buffer.spec = spec
    buffer._owner = array


_view_types: dict[int, Any] = {}


def memory_view(ptr: int, shape: tuple[int, ...], dtype: np.dtype, keep_alive: Any) -> np.ndarray:
    """A writable NumPy array over memory at `ptr`; it keeps `keep_alive` alive."""
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
