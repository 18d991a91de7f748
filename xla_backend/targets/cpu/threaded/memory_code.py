"""Memory access of threaded code: where the lanes of an index are, and what instructions move them.

The same cases as in `targets.cpu.access`, whose results these are: lanes that are equal, neighbours
in memory, in equal distances, or anywhere. What is not to be read is not touched, and zero.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from xla_backend.codegen.indices import index_element
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import Buffer, BufferRole, Load, Move, Store, Transpose, Value
from xla_backend.kernels.lane_patterns import lane_offsets
from xla_backend.llvm.target import TargetInfo
from xla_backend.targets.cpu.routines.threaded_memory_names import (
    CONVERTED,
    DIRECT_LANES,
    TILES,
    is_as_in_memory,
    stored_bytes,
)
from xla_backend.targets.cpu.routines.threaded_names import LANES, value_bytes
from xla_backend.targets.cpu.threaded.assembler import Assembler, Frame, Word
from xla_backend.targets.cpu.threaded.code import chunks
from xla_backend.targets.cpu.threaded.errors import NoThreadedCode
from xla_backend.targets.cpu.threaded.index_code import IndexCode

# What it takes to move a lane by itself, some lanes under a mask, and to convert as many.
_LANE_CYCLES, _MASKED_CYCLES, _CONVERSION_CYCLES = 2.0, 4.0, 4.0
_REGISTER_BYTES = 64
# Of the numbers in tables of places.
_WORD_LIMIT = 1 << 31
# Instructions for vectors of other lanes than neighbours in their order, by their distance.
_TURNED = {("load", -1): "reversed", ("store", -1): "reversed", ("load", 2): "every2"}


class _Instruction(NamedTuple):
    """An instruction that moves elements between a slot, its first operand, and memory."""

    name: str
    words: tuple[Word, ...]  # the other operands
    cycles: float


class MemoryCode(IndexCode):
    """Code that loads and stores.

    Attributes:
      target: what the machine can do.
      mask: the slot of the lanes in use; None: all.
    """

    def __init__(
        self, asm: Assembler, frame: Frame, pointers: dict[Buffer, int], target: TargetInfo
    ) -> None:
        super().__init__(asm, frame, pointers)
        self.target = target
        self.mask: int | None = None
        self._registers: dict[Buffer, int] = {}
        # What values in slots were in memory: rounded again, a NaN would be a quiet one. (Where the
        # conversions are no instructions, it is one in optimised code, too.)
        self._as_stored: dict[int, int] = {}

    def _forget(self, slot: int) -> None:
        super()._forget(slot)
        self._as_stored.pop(slot, None)

    # -- where -------------------------------------------------------------------------------------

    def _lanes_to_touch(self, guard: Value | None) -> int | None:
        """The slot of the mask of what may be touched; None: all lanes."""
        return self.mask if guard is None else self._lanes_in_use(self.spread(guard))

    def _lanes_in_use(self, own: int) -> int:
        """The slot of a mask without the lanes that are not in use."""
        if self.mask is None:
            return own
        size, count = value_bytes(P.PRED, self.lanes), chunks(self.lanes)
        return self.pure("mask.and", size, (own, self.mask, count), (own, self.mask), count)

    def _lanes(self, what: str, buffer: Buffer, index: Index, guard: Value | None) -> _Instruction:
        """What moves the lanes of an index; `what`: a load or a store."""
        size, lanes, distance = buffer.element_type.byte_size, self.lanes, self.distance(index)
        if distance == 1 and self.mask is None and (guard is None or not self.is_vector(guard)):
            return self._neighbours(what, buffer, index, guard)
        mask = self._lanes_to_touch(guard)
        words: tuple[Word, ...]
        if distance == 1:
            assert mask is not None
            count, some = chunks(lanes), (1 << min(lanes, LANES)) - 1
            words = (*self.address(buffer, index, size), mask, some, count)
            return _Instruction(f"{what}.{size}.masked", words, _MASKED_CYCLES * count)
        if distance is not None:
            words = self.address(buffer, index, size)
            turned = _TURNED.get((what, distance))
            if turned is not None and mask is None and not lanes % LANES:
                count = chunks(lanes)
                return _Instruction(f"{what}.{size}.{turned}", (*words, count), 3.0 * count)
            words = (*words, distance * size, lanes)
            return self._by_lane(f"{what}.{size}.apart", words, mask)
        if what == "load":
            assert self.vector_var is not None
            offsets = lane_offsets(index, self.vector_var, lanes, self.atom_varies)
            if offsets is not None and -_WORD_LIMIT <= min(offsets) <= max(offsets) < _WORD_LIMIT:
                table = self.asm.constant(struct.pack(f"<{lanes}i", *offsets))
                words = (*self.address(buffer, index, size), table, lanes)
                return self._by_lane(f"gather.{size}.table", words, mask)
        element = index_element(index)
        words = self.pointers[buffer], self.lanes_of_index(index, element), lanes
        name = "gather" if what == "load" else "scatter"
        return self._by_lane(f"{name}.{size}.{element}", words, mask)

    def _neighbours(
        self, what: str, buffer: Buffer, index: Index, guard: Value | None
    ) -> _Instruction:
        """What moves all lanes, or none, where they are neighbours."""
        size, lanes = buffer.element_type.byte_size, self.lanes
        words: tuple[Word, ...] = self.address(buffer, index, size)
        cycles = max(1.0, size * lanes / _REGISTER_BYTES)
        if lanes not in DIRECT_LANES:
            if lanes % LANES:
                raise NoThreadedCode(f"vectors of {lanes} lanes")
            if guard is None:
                return _Instruction(f"{what}.{size}.n", (*words, chunks(lanes)), cycles)
            words = (*words, self.env[guard], chunks(lanes))
            return _Instruction(f"{what}.{size}.n.if", words, cycles)
        if guard is None:
            return _Instruction(f"{what}.{size}x{lanes}", words, cycles)
        return _Instruction(f"{what}.{size}x{lanes}.if", (*words, self.env[guard]), cycles)

    def _by_lane(self, name: str, words: tuple, mask: int | None) -> _Instruction:
        """What goes through the lanes, or those of a mask."""
        cycles = _LANE_CYCLES * self.lanes
        if mask is None:
            return _Instruction(name, words, cycles)
        return _Instruction(f"{name}.masked", (*words, mask), cycles)

    # -- loads -------------------------------------------------------------------------------------

    def load(self, s: Load) -> None:
        """The value that a statement reads."""
        guard, t, lanes = s.guard, s.result.type, self.lanes
        if s.buffer.role is BufferRole.REGISTERS:
            self._load_register(s)
            return
        if self.distance(s.index) == 0 and not (guard is not None and self.is_vector(guard)):
            self._load_scalar(s)
            return
        name, words, cycles = self._lanes("load", s.buffer, s.index, guard)
        slot = self.new(t, lanes)
        if t in CONVERTED and not lanes % LANES and self._are_neighbours(name, t):
            self.emit(f"load.{t}.n", slot, *words[:3], chunks(lanes), cycles=chunks(lanes))
        else:
            raw = slot if is_as_in_memory(t) else self.slot(stored_bytes(t.byte_size, lanes))
            self.emit(name, raw, *words, cycles=cycles)
            self._from_memory(t, lanes, slot, raw)
        self.bind(s.result, slot, lanes)

    def _are_neighbours(self, name: str, t: P) -> bool:
        """Whether an instruction moves neighbours, all of them."""
        what, size = name.split(".")[0], t.byte_size
        return name in (f"{what}.{size}x{self.lanes}", f"{what}.{size}.n")

    def _load_scalar(self, s: Load) -> None:
        t = s.result.type
        words: tuple[int, ...] = self.address(s.buffer, s.index, t.byte_size)
        suffix = ""
        if s.guard is not None:
            words, suffix = (*words, self.env[s.guard]), ".if"
        slot = self.new(t)
        if t in CONVERTED:
            self.emit(f"load.{t}{suffix}", slot, *words, cycles=1)
        else:
            raw = slot if is_as_in_memory(t) else self.slot()
            self.emit(f"load.{t.byte_size}x1{suffix}", raw, *words, cycles=1)
            self._from_memory(t, 1, slot, raw)
        self.bind(s.result, slot)

    def _from_memory(self, t: P, lanes: int, slot: int, raw: int) -> None:
        """Convert what is in a slot as it is in memory, if it is not in place."""
        if raw == slot:
            return
        if lanes == 1:
            self.emit(f"from.{t}", slot, raw, cycles=_CONVERSION_CYCLES)
        else:
            count = chunks(lanes)
            self.emit(f"from.{t}.n", slot, raw, count, cycles=_CONVERSION_CYCLES * count)
        if t is P.F16 and self.target.has_half:
            self._as_stored[slot] = raw

    # -- stores ------------------------------------------------------------------------------------

    def store(self, s: Store) -> None:
        """Put values into memory."""
        t, guard = s.buffer.element_type, s.guard
        varies = any(self.is_vector(v) for v in s.values)
        varies = varies or (guard is not None and self.is_vector(guard))
        if self.distance(s.index) == 0 and not varies:
            for i, value in enumerate(s.values):
                self._store_scalar(s, s.index + i, value)
            return
        slots = [self.spread(v) for v in s.values]
        if self._are_pairs(s):
            raws = [self._to_memory(t, self.lanes, slot) for slot in slots]
            where, count = self.address(s.buffer, s.index, t.byte_size), chunks(self.lanes)
            self.emit(f"store.{t.byte_size}.pairs", *raws, *where, count, cycles=4 * count)
            return
        for i, slot in enumerate(slots):
            name, words, cycles = self._lanes("store", s.buffer, s.index + i, guard)
            if t in CONVERTED and not self.lanes % LANES and self._are_neighbours(name, t):
                count = chunks(self.lanes)
                self.emit(f"store.{t}.n", slot, *words[:3], count, cycles=count)
            else:
                self.emit(name, self._to_memory(t, self.lanes, slot), *words, cycles=cycles)

    def _are_pairs(self, s: Store) -> bool:
        """Whether the lanes of two values are stored in turn, all of them."""
        plain = self.mask is None and s.guard is None and not self.lanes % LANES
        return plain and len(s.values) == 2 and self.distance(s.index) == 2

    def _store_scalar(self, s: Store, index: Index, value: Value) -> None:
        t = s.buffer.element_type
        words: tuple[int, ...] = self.address(s.buffer, index, t.byte_size)
        suffix = ""
        if s.guard is not None:
            words, suffix = (*words, self.env[s.guard]), ".if"
        if t is P.BF16:
            self.emit(f"store.{t}{suffix}", self.env[value], *words, cycles=1)
        else:
            raw = self._to_memory(t, 1, self.env[value])
            self.emit(f"store.{t.byte_size}x1{suffix}", raw, *words, cycles=1)

    def _to_memory(self, t: P, lanes: int, slot: int) -> int:
        """The slot of a value as it is to be in memory."""
        # Integers of less than a byte are stored as they are; a single condition is a byte.
        if is_as_in_memory(t) or (t.is_integral and t.bits < 8) or (t is P.PRED and lanes == 1):
            return slot
        if slot in self._as_stored:
            return self._as_stored[slot]
        count = chunks(lanes)
        name, words = (f"to.{t}", ()) if lanes == 1 else (f"to.{t}.n", (count,))
        size, cycles = stored_bytes(t.byte_size, lanes), _CONVERSION_CYCLES * count
        return self.pure(name, size, (slot, *words), (slot,), cycles)

    # -- registers ---------------------------------------------------------------------------------

    def _register(self, buffer: Buffer, index: Index) -> int:
        """The slot of an element of an array in registers; others follow it."""
        first = self._registers.get(buffer)
        if first is None:
            size = buffer.size * buffer.element_type.byte_size
            first = self._registers[buffer] = self.frame.slot(max(size, _REGISTER_BYTES))
        slot, number = self.uniform(index)
        assert slot is None, "places in registers are known"
        return first + number * buffer.element_type.byte_size

    def _load_register(self, s: Load) -> None:
        raw, t, lanes = self._register(s.buffer, s.index), s.result.type, self.lanes
        self.is_set_here(raw)
        slot = raw if is_as_in_memory(t) else self.new(t, lanes)
        self._from_memory(t, lanes, slot, raw)
        self.bind(s.result, slot, lanes)

    def move(self, s: Move) -> None:
        """A row of elements into registers."""
        assert s.target.role is BufferRole.REGISTERS, "only registers are filled by moves"
        assert self.distance(s.index) == 1 and self.mask is None
        row = self._register(s.target, s.target_index)
        name, words, cycles = self._neighbours("load", s.buffer, s.index, None)
        self.emit(name, row, *words, cycles=cycles)

    def transpose(self, s: Transpose) -> None:
        """A square tile, from registers to such or to memory."""
        size, rows = s.source.element_type.byte_size, s.size
        if (size, rows) not in TILES:
            raise NoThreadedCode(f"tiles of {rows} rows of {s.source.element_type}")
        source = self._register(s.source, Index({}))
        if s.target.role is BufferRole.REGISTERS:
            target = self.fixed("frame_address", self._register(s.target, Index({})))
        else:
            target = self.pointers[s.target]
        self.emit(f"transpose.{size}x{rows}", target, source, cycles=rows * rows.bit_length())
