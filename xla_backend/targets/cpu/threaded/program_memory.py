"""Addresses of a program's memory, in the frame of its threaded code.

All addresses are the same as long as a run takes. So whoever calls something finds what it takes in
a table in the frame: of the steps of a loop, tables are filled before the first round; those of
other steps one after another in the same memory, just before they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from xla_backend.llvm.types import bits_of, memory_type
from xla_backend.program.ir import (
    CONTEXT_SIZE,
    Element,
    Program,
    Slice,
    Space,
    aligned,
)
from xla_backend.targets.cpu.routines import threaded_instructions as instructions
from xla_backend.targets.cpu.routines import threaded_names as names
from xla_backend.targets.cpu.threaded.assembler import (
    WORD,
    Assembler,
    Beyond,
    Frame,
    Label,
    Symbol,
    Word,
)

# Constants up to this size live in the table; larger ones are bound by address.
_EMBEDDED_BYTES = 1 << 16
# A slot, and what is added to its contents.
Sum = tuple[int, Word]


class ProgramMemory:
    """The frame of a program."""

    def __init__(self, program: Program, asm: Assembler) -> None:
        self.bound_constants: dict[str, int] = {}
        self._program = program
        self._asm = asm
        self._frame = frame = Frame()
        frame.slot(names.ENTRY_BYTES, WORD)
        self._zero = frame.slot()
        self._own = frame.slot()
        self._uses_context = program.uses_context
        self._counts = (len(program.parameters) + self._uses_context, len(program.outputs))
        self._arguments, self._outputs = (frame.slot(WORD * n, WORD) for n in self._counts)
        self.host = self._state = 0
        if self._uses_context:
            self.host, self._state = frame.slot(), frame.slot()
        self._pieces = [frame.slot(size) for size in program.stack]
        self._most = frame.size
        # Tables of the loop that is being written, and where they are; None outside of loops.
        self._tables: dict[tuple[Sum, ...], int] | None = None

    @property
    def frame(self) -> Frame:
        """As large as it has to be."""
        self._frame.size = max(self._most, self._frame.size)
        return self._frame

    def prepare(self) -> None:
        """Fill the slots that tables are computed from."""
        emit = self._asm.emit
        emit(names.CONSTANT, self._zero, 0)
        emit(instructions.OWN_ADDRESS, self._own)
        places = (self._arguments, names.ARGUMENTS), (self._outputs, names.OUTPUTS)
        for count, (slots, table) in zip(self._counts, places):
            if count:
                emit(instructions.POINTERS, slots, table, count)
        if self._uses_context:
            context = self._arguments + WORD * len(self._program.parameters)
            for number, slot in enumerate((self.host, self._state)):
                emit(instructions.POINTER, slot, context, CONTEXT_SIZE + WORD * number)

    # -- addresses ---------------------------------------------------------------------------------

    def number(self, value: Word) -> Sum:
        """A number, or an address that is known."""
        return self._zero, value

    def own(self, offset: int) -> Sum:
        """The address of a slot."""
        return self._own, offset

    def address(self, place: Slice) -> Sum:
        """Of an array."""
        return self._at(place.space, place.number, place.offset)

    def element(self, place: Element) -> Sum:
        """Of an element of an array."""
        slice = place.slice
        type = slice.shape.element_type
        nbytes = bits_of(memory_type(type)) // 8 * (2 if type.is_complex else 1)
        return self._at(slice.space, slice.number, slice.offset + place.index * nbytes)

    def _at(self, space: Space, number: int, offset: int) -> Sum:
        if space is Space.ARGUMENT:
            return self._arguments + WORD * number, offset
        if space is Space.OUTPUT:
            return self._outputs + WORD * number, offset
        if space is Space.TEMP:
            return names.ARENA, offset
        if space is Space.SCRATCH:
            return names.ARENA, offset + aligned(self._program.temp_size)
        if space is Space.CONTEXT:
            return self._arguments + WORD * len(self._program.parameters), offset
        if space is Space.STACK:
            return self._own, self._pieces[number] + offset
        if space is Space.STATE:
            return self._state, self._program.state_offsets[number] + offset
        base = self._constant(number)
        return self._zero, Beyond(base, offset) if offset else base

    def _constant(self, number: int) -> Symbol | Label:
        data = self._program.constants[number]
        if data.nbytes <= _EMBEDDED_BYTES:
            return self._asm.constant(data.tobytes())
        symbol = f"pyjax_constant_{number}"
        self.bound_constants[symbol] = number
        return Symbol(symbol)

    # -- tables ------------------------------------------------------------------------------------

    def slot(self) -> int:
        """A word that a loop has as long as it runs."""
        return self._frame.slot()

    def table(self, sums: Sequence[Sum]) -> int:
        """The slot of the first of some words."""
        if self._tables is None:
            slot = self._frame.slot(WORD * len(sums), WORD)
            self._fill(slot, sums)
            return slot
        key = tuple(sums)
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = self._frame.slot(WORD * len(sums), WORD)
        return found

    def _fill(self, slot: int, sums: Sequence[Sum]) -> None:
        words = [word for pair in sums for word in pair]
        self._asm.emit(instructions.ADDRESSES, slot, len(sums), *words)

    @contextmanager
    def reused(self) -> Iterator[None]:
        """What is taken of the frame in the body is free behind it."""
        size = self._frame.size
        yield
        self._most = max(self._most, self._frame.size)
        self._frame.size = size

    @property
    def in_loop(self) -> bool:
        return self._tables is not None

    @contextmanager
    def loop(self) -> Iterator[None]:
        """The body writes a loop that is in no other one, and at last `fill_tables`."""
        assert self._tables is None
        with self.reused():
            self._tables = {}
            yield
            self._tables = None

    def fill_tables(self) -> None:
        """Fill those of the loop; what lies together at once."""
        assert self._tables is not None
        start = end = 0
        together: list[Sum] = []
        for sums, slot in self._tables.items():
            if slot != end and together:
                self._fill(start, together)
                together = []
            start = start if together else slot
            together += sums
            end = slot + WORD * len(sums)
        if together:
            self._fill(start, together)
