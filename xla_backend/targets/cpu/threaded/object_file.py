"""ELF objects with nothing but data, and references in it (System V ABI, chapter 4)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xla_backend.llvm.elf import X86_64

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_IDENTITY = b"\x7fELF\x02\x01\x01"
_RELOCATABLE = 1
_PROGBITS, _SYMTAB, _STRTAB, _RELA = 1, 2, 3, 4
_WRITE, _ALLOCATED, _INFO_LINK = 0x1, 0x2, 0x40
_GLOBAL_OBJECT, _GLOBAL, _LOCAL_SECTION = 0x11, 0x10, 0x03
_ADDRESS = 1  # R_X86_64_64
_ALIGNMENT = 64
# Numbers of the sections.
_DATA, _RELOCATIONS, _SYMBOLS, _STRINGS, _NAMES = 1, 2, 3, 4, 5


class Reference(NamedTuple):
    """A word at `offset` that is to be the address of a symbol, or of the data itself (None), and
    so many bytes more."""

    offset: int
    symbol: str | None
    addend: int


def data_object(
    content: bytes, references: Sequence[Reference], exports: Mapping[str, int]
) -> bytes:
    """An object file. `exports`: symbols that it defines, and where they are in the data."""
    needed = list({r.symbol: None for r in references if r.symbol is not None})
    strings = bytearray(b"\0")
    symbols = [_SYMBOL.pack(0, 0, 0, 0, 0, 0), _SYMBOL.pack(0, _LOCAL_SECTION, 0, _DATA, 0, 0)]
    numbers: dict[str | None, int] = {None: 1}
    for symbol in (*exports, *needed):
        numbers[symbol] = len(symbols)
        place = exports.get(symbol)
        defined = (_GLOBAL_OBJECT, 0, _DATA, place) if place is not None else (_GLOBAL, 0, 0, 0)
        symbols.append(_SYMBOL.pack(len(strings), *defined, 0))
        strings += symbol.encode() + b"\0"
    rows = [_RELOCATION.pack(r.offset, _ADDRESS, numbers[r.symbol], r.addend) for r in references]
    names = b"\0.data\0.rela.data\0.symtab\0.strtab\0.shstrtab\0"
    name_of = lambda text: names.index(b"\0" + text + b"\0") + 1
    bodies = (
        (b".data", _PROGBITS, _WRITE | _ALLOCATED, content, 0, 0, _ALIGNMENT, 0),
        (b".rela.data", _RELA, _INFO_LINK, b"".join(rows), _SYMBOLS, _DATA, 8, _RELOCATION.size),
        (b".symtab", _SYMTAB, 0, b"".join(symbols), _STRINGS, 2, 8, _SYMBOL.size),
        (b".strtab", _STRTAB, 0, bytes(strings), 0, 0, 1, 0),
        (b".shstrtab", _STRTAB, 0, names, 0, 0, 1, 0),
    )
    table = [_SECTION.pack(*[0] * 10)]
    out = bytearray(_HEADER.size)
    for name, kind, flags, body, link, info, alignment, width in bodies:
        out += b"\0" * (-len(out) % alignment)
        table.append(
            _SECTION.pack(
                name_of(name), kind, flags, 0, len(out), len(body), link, info, alignment, width
            )
        )
        out += body
    out += b"\0" * (-len(out) % 8)
    header = (
        _IDENTITY.ljust(16, b"\0"), _RELOCATABLE, X86_64, 1, 0, 0, len(out), 0,
        _HEADER.size, 0, 0, _SECTION.size, len(table), _NAMES,
    )  # fmt: skip
    out[: _HEADER.size] = _HEADER.pack(*header)
    return bytes(out + b"".join(table))
