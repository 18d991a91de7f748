"""Tables of words as object code: data that may be written, some of it addresses.

  WordTable(words, references, constants, exports)     what `Library` links like any other object
      .data       the same as an ELF object (System V ABI, chapter 4), for LLVM's linker

The `loader` writes the words into memory as they are: to make an object file of some thousand words
and to read it again takes longer than to link it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from xla_backend.llvm.elf import (
    RELOCATION_FORMAT,
    SECTION_FORMAT,
    SYMBOL_FORMAT,
    X86_64,
    Section,
    Symbol,
)

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_IDENTITY = b"\x7fELF\x02\x01\x01"
_RELOCATABLE = 1
_PROGBITS, _SYMTAB, _STRTAB, _RELA = 1, 2, 3, 4
_WRITE, _ALLOCATED, _INFO_LINK = 0x1, 0x2, 0x40
_GLOBAL_OBJECT, _GLOBAL, _LOCAL_SECTION = 0x11, 0x10, 0x03
_ADDRESS = 1  # R_X86_64_64
_ALIGNMENT = 64
# Numbers of the sections.
_DATA, _RELOCATIONS, _SYMBOLS, _STRINGS, _NAMES = 1, 2, 3, 4, 5
_WORD = 8
_MASK = (1 << 64) - 1

# A word that is to be the address of a symbol, or of the table itself (None), and so many bytes
# more.
Reference = tuple[int, str | None, int]


class WordTable:
    """Words and bytes behind them, as one section of an object.

    Attributes:
      data: the table as an ELF object.
      machine, sections, symbols, is_plain: as of `ElfObject`; what is to be written into the
        section is known to this class alone.
    """

    machine = X86_64
    is_plain = True

    def __init__(
        self,
        words: list[int],
        references: Sequence[Reference],
        constants: bytes,
        exports: Mapping[str, int],
    ) -> None:
        """
        Args:
          words: each of 64 bits, not negative.
          references: those that are addresses; what they are in `words` means nothing.
          constants: bytes behind the words.
          exports: symbols that it defines, and where they are, in bytes.
        """
        self._words = words
        self._references = references
        self._constants = constants
        self._exports = exports
        size = len(self)
        self.sections = [
            Section(0, 0, 0, 0, 0, []),
            Section(_PROGBITS, _WRITE | _ALLOCATED, 0, size, _ALIGNMENT, []),
        ]
        self.symbols = [Symbol(name, False, _DATA, place) for name, place in exports.items()]

    def __len__(self) -> int:
        """Its bytes."""
        return _WORD * len(self._words) + len(self._constants)

    def names(self) -> tuple[list[str], list[str]]:
        """Names that it defines for others, and that it needs."""
        needed = {symbol: None for _, symbol, _ in self._references if symbol is not None}
        return list(self._exports), [name for name in needed if name not in self._exports]

    def content(self, address: int, addresses: Mapping[str, int]) -> bytes:
        """Its bytes at an address. `addresses`: of all that it needs."""
        words = self._words.copy()
        for at, symbol, addend in self._references:
            target = address if symbol is None else addresses[symbol]
            words[at] = (target + addend) & _MASK
        return self._packed(words)

    def _packed(self, words: Sequence[int]) -> bytes:
        return struct.pack(f"<{len(words)}Q", *words) + self._constants

    @property
    def data(self) -> bytes:
        return _object_file(self._packed(self._words), self._references, self._exports)


def _object_file(
    content: bytes, references: Sequence[Reference], exports: Mapping[str, int]
) -> bytes:
    """An object file. `exports`: symbols that it defines, and where they are in the data."""
    needed = list({symbol: None for _, symbol, _ in references if symbol is not None})
    strings = bytearray(b"\0")
    symbols = [
        SYMBOL_FORMAT.pack(0, 0, 0, 0, 0, 0),
        SYMBOL_FORMAT.pack(0, _LOCAL_SECTION, 0, _DATA, 0, 0),
    ]
    numbers: dict[str | None, int] = {None: 1}
    for symbol in (*exports, *needed):
        numbers[symbol] = len(symbols)
        place = exports.get(symbol)
        defined = (_GLOBAL_OBJECT, 0, _DATA, place) if place is not None else (_GLOBAL, 0, 0, 0)
        symbols.append(SYMBOL_FORMAT.pack(len(strings), *defined, 0))
        strings += symbol.encode() + b"\0"
    rows = [
        RELOCATION_FORMAT.pack(_WORD * word, _ADDRESS, numbers[symbol], addend)
        for word, symbol, addend in references
    ]
    names = b"\0.data\0.rela.data\0.symtab\0.strtab\0.shstrtab\0"
    name_of = lambda text: names.index(b"\0" + text + b"\0") + 1
    bodies = (
        (b".data", _PROGBITS, _WRITE | _ALLOCATED, content, 0, 0, _ALIGNMENT, 0),
        (
            b".rela.data",
            _RELA,
            _INFO_LINK,
            b"".join(rows),
            _SYMBOLS,
            _DATA,
            8,
            RELOCATION_FORMAT.size,
        ),
        (b".symtab", _SYMTAB, 0, b"".join(symbols), _STRINGS, 2, 8, SYMBOL_FORMAT.size),
        (b".strtab", _STRTAB, 0, bytes(strings), 0, 0, 1, 0),
        (b".shstrtab", _STRTAB, 0, names, 0, 0, 1, 0),
    )
    table = [SECTION_FORMAT.pack(*[0] * 10)]
    out = bytearray(_HEADER.size)
    for name, kind, flags, body, link, info, alignment, width in bodies:
        out += b"\0" * (-len(out) % alignment)
        table.append(
            SECTION_FORMAT.pack(
                name_of(name), kind, flags, 0, len(out), len(body), link, info, alignment, width
            )
        )
        out += body
    out += b"\0" * (-len(out) % 8)
    header = (
        _IDENTITY.ljust(16, b"\0"), _RELOCATABLE, X86_64, 1, 0, 0, len(out), 0,
        _HEADER.size, 0, 0, SECTION_FORMAT.size, len(table), _NAMES,
    )  # fmt: skip
    out[: _HEADER.size] = _HEADER.pack(*header)
    return bytes(out + b"".join(table))
