"""Code of this machine put into memory without LLVM: what a process needs whose programs are on
disk. Loading LLVM takes longer than all else that such a process does.

Objects of the large code model refer to everything by 64-bit addresses. So loading them is a copy
of their sections, and one number for each reference. Objects with anything else are for LLVM's own
linker (`lljit`).

API
  can_load(objects) -> bool
  load(objects, addresses) -> LoadedCode
"""

from __future__ import annotations

import atexit
import ctypes
import mmap
import os
import struct
import sys
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from xla_backend.llvm.elf import X86_64, ElfObject, Section
from xla_backend.llvm.word_table import WordTable

_WRITE, _ALLOCATED, _THREAD = 0x1, 0x2, 0x400
_CODE_OR_DATA, _ZEROS, _UNWINDING = 1, 8, 0x70000001
_ADDRESS = 1  # R_X86_64_64
_ABSOLUTE = 0xFF00  # from here on numbers of sections are no sections
_HERE = sys.platform.startswith("linux") and os.uname().machine == "x86_64"
_EXECUTABLE = mmap.PROT_READ | getattr(mmap, "PROT_EXEC", 0)
_put = struct.Struct("<Q").pack_into
# The memory of all code. When the process ends its threads may be inside, so then it stays.
_areas: list[weakref.ref[mmap.mmap]] = []
_most_areas = 64
_ending = False


class LoadedCode(NamedTuple):
    """Addresses of what the code defines, and the memory that it is in, which is unmapped when
    nothing refers to it any more."""

    addresses: dict[str, int]
    area: mmap.mmap


def can_load(objects: Sequence[ElfObject | WordTable]) -> bool:
    """Whether all of the objects are for this machine, and as this loader wants them."""
    return _HERE and all(
        code.machine == X86_64
        and code.is_plain
        and all(_is_simple(code, section) for section in code.sections)
        and all(s.section < _ABSOLUTE or s.is_local for s in code.symbols)
        for code in objects
    )


def _is_simple(code: ElfObject | WordTable, section: Section) -> bool:
    """Nothing unwinds through generated code: tables about that stay out."""
    kind, flags, _, _, _, relocations = section
    if not flags & _ALLOCATED or kind == _UNWINDING:
        return True
    if kind not in (_CODE_OR_DATA, _ZEROS) or flags & _THREAD:
        return False
    symbols = code.symbols
    for _, type, symbol, _ in relocations:
        if type != _ADDRESS or symbols[symbol].section >= _ABSOLUTE:
            return False
    return True


def load(objects: Sequence[ElfObject | WordTable], addresses: Mapping[str, int]) -> LoadedCode:
    """Put objects into memory that can be executed, and not written any more; their variables
    behind it.

    Args:
      addresses: of all that no object defines.
    Raises:
      OSError: the system gives no such memory.
    """
    places: dict[tuple[int, int], int] = {}
    size = _laid_out(objects, places, 0, written=False)
    executable = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    size = _laid_out(objects, places, executable, written=True)
    # Private: a forked child has variables of its own.
    area = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    found = {
        symbol.name: base + places[number, symbol.section] + symbol.value
        for number, code in enumerate(objects)
        for symbol in code.symbols
        if symbol.section and not symbol.is_local
    }
    known = {**addresses, **found}
    for (number, index), place in places.items():
        code = objects[number]
        section = code.sections[index]
        if isinstance(code, WordTable):
            area[place : place + section.size] = code.content(base + place, known)
            continue
        if section.kind != _ZEROS:
            area[place : place + section.size] = code.data[
                section.offset : section.offset + section.size
            ]
        symbols = code.symbols
        for at, _, symbol, addend in section.relocations:
            name, is_local, home, value = symbols[symbol]
            target = base + places[number, home] + value if is_local else known[name]
            _put(area, place + at, (target + addend) & 0xFFFF_FFFF_FFFF_FFFF)
    if executable:
        _protect(base, executable)
    _remember(area)
    return LoadedCode(found, area)


def _laid_out(
    objects: Sequence[ElfObject | WordTable],
    places: dict[tuple[int, int], int],
    end: int,
    *,
    written: bool,
) -> int:
    """Where sections come, behind `end`; returns where they end."""
    for number, code in enumerate(objects):
        for index, section in enumerate(code.sections):
            kept = section.flags & _ALLOCATED and section.kind != _UNWINDING
            if kept and bool(section.flags & _WRITE) == written:
                alignment = max(section.alignment, 1)
                places[number, index] = end = -(-end // alignment) * alignment
                end += section.size
    return end


@cache  # an open library has a class of its own, which only the cycle collector frees
def _protection() -> Any:
    # It takes microseconds, and whoever lets go of the interpreter's lock may wait for milliseconds
    # until a thread that compiles gives it back.
    protect = ctypes.PyDLL(None, use_errno=True)["mprotect"]
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return protect


def _protect(start: int, size: int) -> None:
    if _protection()(start, size, _EXECUTABLE):
        number = ctypes.get_errno()
        raise OSError(number, f"no memory for code: {os.strerror(number)}")


def _remember(area: mmap.mmap) -> None:
    global _areas, _most_areas
    _areas.append(weakref.ref(area))
    if len(_areas) > _most_areas:
        _areas = [known for known in _areas if known() is not None]
        _most_areas = 2 * len(_areas) + 64
    if _ending:
        _keep_for_good()


def _keep_for_good() -> None:
    global _ending
    _ending = True
    while _areas:
        area = _areas.pop()()
        if area is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(area))


atexit.register(_keep_for_good)
