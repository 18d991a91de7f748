"""Threaded code as object code: instructions in, a table of words out.

A program's first code is threaded: a table of words, in which each instruction is the address of a
handler and its operands. Handlers are machine code that was compiled ahead (`routines.threaded`):
each does its work on a frame of memory and jumps to the handler of the next instruction. So there
is nothing to compile, and the table is data with references, which are resolved like those of any
object code (`llvm.loader`): it is linked, kept on disk and loaded in the same way.

    asm = Assembler()
    frame = Frame()
    x = frame.slot(8)
    asm.emit("pyjax_threaded_constant", x, 7)
    ...
    asm.object()            # what is linked

Operands are words: numbers (offsets of slots in the frame, constants), addresses of symbols
(`Symbol`), or of places of the table itself (`Label`); or so many bytes `Beyond` these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xla_backend.llvm.word_table import Reference, WordTable

WORD = 8
# Of frames, and of slots that hold vectors.
ALIGNMENT = 64
_MASK = (1 << 64) - 1


class Symbol(NamedTuple):
    """The address of something that is not part of the table."""

    name: str


class Label:
    """A place of the table: where it is, is known once it is `place`d."""

    __slots__ = ("word",)

    def __init__(self) -> None:
        self.word: int | None = None


class Beyond(NamedTuple):
    """The address so many bytes behind a place."""

    base: Symbol | Label
    offset: int


Word = int | Symbol | Label | Beyond


class Frame:
    """The memory of one activation of a piece of threaded code."""

    def __init__(self) -> None:
        self.size = 0

    def slot(self, nbytes: int = WORD, alignment: int | None = None) -> int:
        """The offset of a new slot; of a vector's size it begins where registers do."""
        if nbytes <= WORD and alignment is None:
            offset = self.size
            self.size = offset + WORD
            return offset
        alignment = alignment or (WORD if nbytes <= WORD else ALIGNMENT)
        offset = -(-self.size // alignment) * alignment
        self.size = offset + -(-nbytes // WORD) * WORD
        return offset


class Assembler:
    """The table of one program.

    Attributes:
      operations: how many of its instructions are elementwise operations. Who writes one counts it.
    """

    def __init__(self) -> None:
        self.operations = 0
        self._words: list[Word] = []
        self._constants: dict[tuple[bytes, int], Label] = {}
        self._exports: dict[str, Label] = {}
        self._found: tuple[int, list[tuple[int, Word]]] = 0, []

    def emit(self, handler: str, *operands: Word) -> None:
        """One instruction: the handler of this symbol, and its operands."""
        self._words.append(Symbol(handler))
        self._words.extend(operands)

    def label(self) -> Label:
        """A place that is not known yet."""
        return Label()

    def place(self, label: Label | None = None) -> Label:
        """Let a label be the place of what is emitted next."""
        label = label or Label()
        assert label.word is None, "a label has one place"
        label.word = len(self._words)
        return label

    def words(self, words: Sequence[Word]) -> Label:
        """A table of words, which is no code: code must not run into it."""
        start = self.place()
        self._words.extend(words)
        return start

    def subroutine(self, code: Label, frame: Frame) -> Label:
        """What says how a piece of code is run: the bytes of its frame, and where it begins."""
        return self.words([-(-frame.size // ALIGNMENT) * ALIGNMENT, code])

    def constant(self, data: bytes, alignment: int = ALIGNMENT) -> Label:
        """Where bytes lie that do not change; equal ones once."""
        key = (data, alignment)
        if key not in self._constants:
            self._constants[key] = Label()
        return self._constants[key]

    def export(self, name: str, label: Label) -> None:
        """Let others know a place under a name."""
        self._exports[name] = label

    @property
    def size(self) -> int:
        """Words of the table."""
        return len(self._words)

    @property
    def symbols(self) -> list[str]:
        """What the table refers to outside, each once, in order. All words are looked through."""
        places = [word for _, word in self._places()]
        outside = [p.base if p.__class__ is Beyond else p for p in places]  # type: ignore[union-attr]
        return list({p.name: None for p in outside if p.__class__ is Symbol})  # type: ignore[union-attr]

    def _places(self) -> list[tuple[int, Word]]:
        """The words that are no numbers, and where: once for a table that is not added to."""
        size, found = self._found
        if size != len(self._words):
            found = [p for p in enumerate(self._words) if p[1].__class__ is not int]
            self._found = len(self._words), found
        return found

    def object(self) -> WordTable:
        """The table as object code, with its constants behind it. It is data that may be written,
        so that what it `export`s can be changed."""
        words = self._words
        size = WORD * len(words)
        places: dict[Label, int] = {}
        constants = []
        for (data, alignment), label in self._constants.items():
            padding = -size % alignment
            constants += [b"\0" * padding, data]
            places[label] = size + padding
            size += padding + len(data)
        numbers = [word & _MASK if word.__class__ is int else 0 for word in words]  # type: ignore[operator]
        references: list[Reference] = []
        for at, word in self._places():
            place, beyond = word if word.__class__ is Beyond else (word, 0)  # type: ignore[misc]
            if place.__class__ is Symbol:
                references.append((at, place.name, beyond))  # type: ignore[union-attr]
            elif place.__class__ is Label:
                references.append((at, None, _offset(place, places) + beyond))  # type: ignore[arg-type]
            else:
                numbers[at] = int(word) & _MASK  # type: ignore[arg-type]  # of another class of integers
        exports = {name: _offset(label, places) for name, label in self._exports.items()}
        return WordTable(numbers, references, b"".join(constants), exports)


def _offset(label: Label, places: dict[Label, int]) -> int:
    if label in places:
        return places[label]
    assert label.word is not None, "a label that was never placed"
    return WORD * label.word
