"""The memory pool and buffers: size classes, reuse, views that keep memory alive."""

from __future__ import annotations

import gc
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_backend.runtime.buffer import (
    Buffer,
    BufferSpec,
    allocate,
    copy_from_host,
    memory_view,
    wrap_host,
)
from xla_backend.runtime.memory import ALIGNMENT, MemoryPool, size_class


@given(st.integers(0, 1 << 40))
def test_size_classes_cover_and_waste_little(nbytes: int) -> None:
    size = size_class(nbytes)
    assert size >= max(1, nbytes) and size % ALIGNMENT == 0
    assert size <= max(ALIGNMENT, nbytes * 1.25 + ALIGNMENT)
    assert size_class(size) == size


def test_blocks_are_aligned_disjoint_and_reused() -> None:
    pool = MemoryPool()
    blocks = sorted(pool.allocate(100) for _ in range(1000))
    assert all(b % ALIGNMENT == 0 for b in blocks)
    assert all(b - a >= 128 for a, b in itertools.pairwise(blocks))
    pool.release(blocks[7], 100)
    assert pool.allocate(120) == blocks[7]  # the same size class


def test_trim_returns_large_blocks() -> None:
    pool = MemoryPool()
    address = pool.allocate(10 << 20)
    pool.release(address, 10 << 20)
    assert pool.trim() == size_class(10 << 20)
    assert pool.reserved_bytes == 0


def test_impossible_sizes_are_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="cannot allocate"):
        MemoryPool().allocate(1 << 62)


def test_views_keep_memory_alive() -> None:
    spec = BufferSpec((3,), np.dtype(np.int64))
    buffer = Buffer()
    copy_from_host(buffer, spec, np.array([1, 2, 3]))
    address = buffer.ptr
    view = memory_view(address, (3,), spec.numpy_dtype, buffer)
    del buffer
    gc.collect()
    assert address not in spec.free and view.tolist() == [1, 2, 3]
    del view
    gc.collect()
    assert address in spec.free


def test_delete_frees_once() -> None:
    spec = BufferSpec((5,), np.dtype(np.float32))
    buffer = Buffer()
    allocate(buffer, spec)
    address = buffer.ptr
    buffer.delete()
    buffer.delete()
    assert buffer.is_deleted() and spec.free.count(address) == 1
    del buffer
    gc.collect()
    assert spec.free.count(address) == 1


def test_foreign_memory_is_not_given_to_the_pool() -> None:
    array = np.arange(6.0)
    spec = BufferSpec((6,), array.dtype)
    buffer = Buffer()
    wrap_host(buffer, spec, array)
    address = buffer.ptr
    assert address == array.ctypes.data
    del buffer
    gc.collect()
    assert address not in spec.free


def test_empty_arrays() -> None:
    assert memory_view(0, (0, 3), np.dtype(np.float32), None).shape == (0, 3)
