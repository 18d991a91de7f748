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
from collections.abc import Iterator
from itertools import repeat, takewhile

PAGE_BYTES = mmap.PAGESIZE
_HUGE_PAGE = 1 << 21
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, since Linux 5.14
_FAILED = (1 << 8 * ctypes.sizeof(ctypes.c_void_p)) - 1

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


def mapping(nbytes: int, margin: int = 0) -> Iterator[int]:
    """Gives the address of fresh zeroed memory when it is asked for the first time, and nothing if
    the system has none. The memory costs nothing until it is touched. `margin`: bytes in front of
    it and behind it that are mapped as well.

    `next` of it, and of what `map` and its like make of it, is one call of functions in C, so that
    no signal handler runs before the address is where it belongs.
    """
    if nbytes > sys.maxsize:
        return iter(())
    arguments = (None, nbytes + 2 * margin, _PROTECTION, _KIND, -1, 0)
    got = takewhile(_FAILED.__ne__, map(_mmap, *[(a,) for a in arguments]))
    return map(margin.__add__, got) if margin else got


def expect_use(address: int, nbytes: int) -> None:
    """All of a mapping will be used: the system may take large pages for it."""
    if nbytes >= _HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        _madvise(address, nbytes, mmap.MADV_HUGEPAGE)


def make_present(address: int, nbytes: int) -> None:
    """Have the system put memory behind the pages of these bytes now, where it can be asked to."""
    start = address // PAGE_BYTES * PAGE_BYTES
    end = -(-(address + nbytes) // PAGE_BYTES) * PAGE_BYTES
    if sys.platform == "linux":
        _madvise(start, end - start, _POPULATE_WRITE)


def unmapping(addresses: Iterator[int], nbytes: int, margin: int = 0) -> Iterator[int]:
    """Takes an address and gives that whole mapping of `nbytes` back to the system, each time it is
    asked; one call, as above. What comes out is for `check_unmapped`."""
    if margin:
        addresses = map((-margin).__add__, addresses)
    return map(_munmap, addresses, repeat(nbytes + 2 * margin))


def check_unmapped(status: int, nbytes: int) -> None:
    if status:
        code = ctypes.get_errno()
        raise OSError(code, f"munmap of {nbytes} bytes: {os.strerror(code)}")


def memory_limit() -> int:
    """Bytes that this process could have: those of the machine, or fewer if the address space is
    limited (`ulimit -v`)."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return machine if soft == resource.RLIM_INFINITY else min(machine, soft)


def mapped_bytes() -> int:
    """Address space of this process that is in use, touched or not. Linux; 0 elsewhere."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * mmap.PAGESIZE
    except FileNotFoundError:
        return 0
