"""Memory of the operating system by pages: private anonymous mappings, and how much there is.

The C library is called directly, because a `mmap` object unmaps when Python collects it: at exit
that may be before the last thread is out of native code.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import sys

_HUGE_PAGE = 1 << 21
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_munmap = _libc.munmap
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_madvise = _libc.madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

_PROTECTION = mmap.PROT_READ | mmap.PROT_WRITE
# Private: what a forked child writes is its own.
_KIND = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


def map_pages(nbytes: int) -> int | None:
    """Address of fresh zeroed memory, or None if the system has none. It costs nothing until it is
    touched."""
    if nbytes > sys.maxsize:
        return None
    address = _mmap(None, nbytes, _PROTECTION, _KIND, -1, 0)
    if address == _FAILED:
        return None
    if nbytes >= _HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        _madvise(address, nbytes, mmap.MADV_HUGEPAGE)
    return address


def unmap_pages(address: int, nbytes: int) -> None:
    """Give a whole mapping back to the system."""
    if _munmap(address, nbytes):
        code = ctypes.get_errno()
        raise OSError(code, f"munmap of {nbytes} bytes: {os.strerror(code)}")


def memory_limit() -> int:
    """Bytes that this process could have: those of the machine, or fewer if the address space is
    limited (`ulimit -v`)."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return machine if soft == resource.RLIM_INFINITY else min(machine, soft)
