"""ELF objects as LLVM writes them: 64 bits, little-endian, to be linked (System V ABI, chapter 4).

API
  ElfObject(data)              sections, symbols and relocations
  object_symbols(object_code)  names that an object defines for others, and that it needs
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_MAGIC = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
SECTION_FORMAT = struct.Struct("<IIQQQQIIQQ")
SYMBOL_FORMAT = struct.Struct("<IBBHQQ")
RELOCATION_FORMAT = struct.Struct("<QIIq")
_SYMTAB, _RELA, _REL = 2, 4, 9
_LOCAL = 0
X86_64 = 62


class Section(NamedTuple):
    """A row of the section table. `relocations`: (offset, type, symbol, addend) of what is to be
    written into it."""

    kind: int
    flags: int
    offset: int
    size: int
    alignment: int
    relocations: list[tuple[int, int, int, int]]


class Symbol(NamedTuple):
    """A symbol: `section` 0 if others have it; `value` is counted from there."""

    name: str
    is_local: bool
    section: int
    value: int


class ElfObject:
    """Attributes:
    data: the bytes.  machine: the processor.  sections, symbols: by their numbers.
    is_plain: whether all relocations have addends of their own.
    """

    def __init__(self, data: bytes) -> None:
        """Raises:
        NotImplementedError: it is an object of another format.
        """
        if data[: len(_MAGIC)] != _MAGIC:
            raise NotImplementedError(
                "reading the symbols of Mach-O, COFF and WebAssembly objects is not written: only "
                "ELF objects can be linked into this process"
            )
        _, self.machine, _, _, _, table, _, _, _, _, width, count, _ = _HEADER.unpack_from(data)
        self.data = data
        self.is_plain = True
        rows = [SECTION_FORMAT.unpack_from(data, table + i * width) for i in range(count)]
        self.sections = [
            Section(kind, flags, offset, size, alignment, [])
            for _, kind, flags, _, offset, size, _, _, alignment, _ in rows
        ]
        self.symbols: list[Symbol] = []
        for _, kind, _, _, offset, size, link, target, _, _ in rows:
            content = memoryview(data)[offset : offset + size]
            if kind == _SYMTAB:
                _, _, start, length, _, _ = self.sections[link]
                strings = data[start : start + length]
                self.symbols = [
                    Symbol(
                        strings[name : strings.index(0, name)].decode(),
                        info >> 4 == _LOCAL,
                        section,
                        value,
                    )
                    for name, info, _, section, value, _ in SYMBOL_FORMAT.iter_unpack(content)
                ]
            elif kind == _RELA:
                self.sections[target].relocations.extend(RELOCATION_FORMAT.iter_unpack(content))
            elif kind == _REL:
                self.is_plain = False

    def __len__(self) -> int:
        """Its bytes."""
        return len(self.data)

    def names(self) -> tuple[list[str], list[str]]:
        """Names that it defines for others, and that it needs from others."""
        defined: list[str] = []
        undefined: list[str] = []
        for symbol in self.symbols:
            if symbol.name and not symbol.is_local and symbol.name != "_GLOBAL_OFFSET_TABLE_":
                (defined if symbol.section else undefined).append(symbol.name)
        return defined, undefined


def object_symbols(object_code: bytes) -> tuple[list[str], list[str]]:
    """Names of the functions an object defines for others, and of those it needs from others.

    Raises:
      NotImplementedError: it is no ELF object.
    """
    return ElfObject(object_code).names()
