"""Host memory for arrays: 64-byte aligned blocks in size classes, kept for reuse.

Why a pool: the operating system hands out large blocks page by page at first touch, which costs
  more than the
arithmetic that fills them; and a small block from a free list costs a list pop.
"""

from __future__ import annotations

import ctypes
import mmap
import threading

ALIGNMENT = 64
_SLAB_BYTES = 1 << 20
_SMALL_LIMIT = 1 << 16  # up to here blocks are carved from slabs, above each is its own mapping
_HUGE_PAGE = 1 << 21


def size_class(nbytes: int) -> int:
    """Rounded size: multiples of 64 up to 512, then four classes per power of two (at most 25 %
    waste).
    """
    if nbytes <= 512:
        return max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
    step = 1 << ((nbytes - 1).bit_length() - 3)
    return -(-nbytes // step) * step


class MemoryPool:
    """Free lists by size class. `list.pop` and `list.append` are atomic, so the hot path takes no
    lock.

    Blocks are never returned to the system but by `trim`.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[int]] = {}
        self._slabs: list[mmap.mmap] = []
        self._mappings: dict[int, mmap.mmap] = {}  # address of a large block -> its mapping
        self._slab_next = 0
        self._slab_end = 0
        self._lock = threading.Lock()
        self.reserved_bytes = 0

    def free_list(self, nbytes: int) -> list[int]:
        """The list that blocks of this size come from and go back to: `pop` it if it is not empty,
        else `grow`.
        """
        size = size_class(nbytes)
        found = self._free.get(size)
        if found is None:
            with self._lock:
                found = self._free.setdefault(size, [])
        return found

    def grow(self, nbytes: int) -> int:
        """Address of a new block of at least `nbytes` bytes.

        Raises:
          MemoryError: the system has no more memory; names the size.
        """
        size = size_class(nbytes)
        with self._lock:
            if size <= _SMALL_LIMIT:
                if self._slab_next + size > self._slab_end:
                    slab = _map(_SLAB_BYTES)
                    self._slabs.append(slab)
                    self._slab_next = _address(slab)
                    self._slab_end = self._slab_next + _SLAB_BYTES
                    self.reserved_bytes += _SLAB_BYTES
                address = self._slab_next
                self._slab_next += size
                return address
            mapping = _map(size)
            address = _address(mapping)
            self._mappings[address] = mapping
            self.reserved_bytes += size
            return address

    def allocate(self, nbytes: int) -> int:
        """Address of a free block of at least `nbytes` bytes, 64-byte aligned."""
        try:
            return self.free_list(nbytes).pop()
        except IndexError:
            return self.grow(nbytes)

    def release(self, address: int, nbytes: int) -> None:
        """Give back a block that `allocate(nbytes)` returned."""
        self.free_list(nbytes).append(address)

    def trim(self) -> int:
        """Unmap free large blocks; returns how many bytes went back to the system."""
        returned = 0
        with self._lock:
            for size, blocks in self._free.items():
                if size > _SMALL_LIMIT:
                    while blocks:
                        self._mappings.pop(blocks.pop()).close()
                        returned += size
            self.reserved_bytes -= returned
        return returned


def _map(nbytes: int) -> mmap.mmap:
    try:
        mapping = mmap.mmap(-1, nbytes)
    except (OSError, ValueError, OverflowError) as error:
        raise MemoryError(f"cannot allocate {nbytes} bytes for an array: {error}") from None
    if nbytes >= _HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping


def _address(mapping: mmap.mmap) -> int:
    # The exported view must not outlive this call, or the mapping could never be closed.
    view = ctypes.c_char.from_buffer(mapping)
    address = ctypes.addressof(view)
    del view
    return address


POOL = MemoryPool()
