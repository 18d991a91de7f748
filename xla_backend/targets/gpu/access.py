"""Memory access of a thread: addresses in their address spaces, and the widest loads and stores.

Lanes that are neighbours in memory are loaded and stored 16 bytes at a time, as far as the index
tells that they begin at a multiple of that; all others one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import Protocol

from xla_backend.kernels.index import FloorDiv, Index, Mod, Parameter, Var
from xla_backend.kernels.ir import AsyncCopy, Buffer, BufferRole, Load, Move, Store, Value
from xla_backend.llvm.conversions import from_memory
from xla_backend.llvm.types import const, memory_type, vector
from xla_backend.llvm.writer import FunctionWriter

# Of buffers, and the widest access of one thread.
WIDEST = 16
# NVPTX's numbers of address spaces. A thread's own memory is accessed by generic addresses.
_SPACES = {
    BufferRole.OPERAND: 1,
    BufferRole.OUTPUT: 1,
    BufferRole.SCRATCH: 1,
    BufferRole.CONSTANT: 1,
    BufferRole.SHARED: 3,
    BufferRole.LOCAL: 0,
    BufferRole.REGISTERS: 0,
}
# Metadata that the module must define: nothing writes this memory while the kernel runs.
INVARIANT = ", !invariant.load !2"


def pointer_type(buffer: Buffer) -> str:
    """LLVM's type of a buffer's address."""
    space = _SPACES[buffer.role]
    return f"ptr addrspace({space})" if space else "ptr"


class Emitter(Protocol):
    """What memory access needs of the emitter whose values it loads and stores.

    Attributes:
      pointers: the address of each buffer, which is a multiple of 16.
      invariant: buffers that nobody writes while the kernel runs.
      raws: what was loaded, as it is in memory, by lane.
      lanes: how many values differ with `vector_var`, the variable of a lanes loop; 1 outside of
        one, or where code is emitted for the single `lane`.
    """

    w: FunctionWriter
    pointers: dict[Buffer, str]
    invariant: frozenset[Buffer]
    raws: dict[Value, Sequence[str]]
    lanes: int
    lane: int
    vector_var: Var | None

    def varies(self, index: Index) -> bool:
        """Whether the index differs between lanes."""

    def is_vector(self, value: Value) -> bool:
        """Whether the value does."""

    def uniform(self, index: Index) -> str:
        """An index that is the same in all lanes; of others, that of the first lane."""

    def in_lane(self, index: Index, lane: int) -> str:
        """An index in one lane."""

    def get(self, value: Value, lane: int) -> str:
        """The text of a value in one lane."""

    def raw(self, value: Value, lane: int) -> str:
        """A value in one lane as memory holds it."""

    def bind(self, value: Value, text: str) -> None:
        """Let a value be the same in all lanes."""

    def bind_lanes(self, value: Value, texts: Sequence[str]) -> None:
        """Let a value have these texts."""


class Access:
    """Loads and stores of one emitter."""

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter
        self.w = emitter.w

    def address(self, buffer: Buffer, index: str) -> str:
        """The address of an element."""
        base = self.e.pointers[buffer]
        if index == "0":
            return base
        w = self.w
        ty = memory_type(buffer.element_type)
        text = f"getelementptr inbounds {ty}, {pointer_type(buffer)} {base}, {w.index} {index}"
        return w.pure(text, base, index)

    # -- loads -------------------------------------------------------------------------------------

    def load(self, s: Load) -> None:
        e = self.e
        guard = s.guard
        if not e.varies(s.index) and (guard is None or not e.is_vector(guard)):
            (raw,) = self._loaded(s, 1, e.lane)
            e.bind(s.result, self._converted(s, raw))
            e.raws[s.result] = [raw]
            return
        chunk = self._chunk(s.buffer, s.index, 1, guard)
        raws: list[str] = []
        for first in range(0, e.lanes, chunk):
            raws += self._loaded(s, chunk, first)
        e.bind_lanes(s.result, [self._converted(s, raw) for raw in raws])
        e.raws[s.result] = raws

    def _loaded(self, s: Load, count: int, lane: int) -> list[str]:
        """`count` elements from that of a lane on, as they are in memory; zeros where the guard
        does not hold in the lane."""
        w, buffer = self.w, s.buffer
        address = self.address(buffer, self.e.in_lane(s.index, lane))
        align = self._align(buffer, s.index, lane)
        ty = vector(memory_type(buffer.element_type), count)
        if s.guard is None:
            return self._parts(ty, self._read(buffer, ty, address, align), count)
        guard = self.e.get(s.guard, lane)
        if buffer.role is BufferRole.OPERAND and buffer.count is None and buffer.size >= count:
            # Reads the first elements instead: no branch, so that all loads are under way at once.
            pointer = pointer_type(buffer)
            base = self.e.pointers[buffer]
            chosen = w.select(guard, pointer, address, base)
            read = self._read(buffer, ty, chosen, align)
            raw = w.pure(f"select i1 {guard}, {ty} {read}, {ty} {const(ty, 0)}", guard, read)
        else:
            (raw,) = w.if_else(
                guard,
                [ty],
                lambda: [self._read(buffer, ty, address, align)],
                lambda: [const(ty, 0)],
            )
        return self._parts(ty, raw, count)

    def _read(self, buffer: Buffer, ty: str, address: str, align: int) -> str:
        hint = INVARIANT if buffer in self.e.invariant else ""
        return self.w.value(f"load {ty}, {pointer_type(buffer)} {address}, align {align}{hint}")

    def _parts(self, ty: str, raw: str, count: int) -> list[str]:
        return [raw] if count == 1 else [self.w.extract(ty, raw, i) for i in range(count)]

    def _converted(self, s: Load, raw: str) -> str:
        return from_memory(self.w, s.result.type, 1, raw)

    # -- stores ------------------------------------------------------------------------------------

    def store(self, s: Store) -> None:
        e = self.e
        varying = [*s.values] if s.guard is None else [*s.values, s.guard]
        if not e.varies(s.index) and not any(map(e.is_vector, varying)):
            self._write_lane(s, e.lane)
            return
        count = len(s.values)
        chunk = self._chunk(s.buffer, s.index, count, s.guard)
        if chunk == 1:
            for lane in range(e.lanes):
                self._write_lane(s, lane)
            return
        raws = [e.raw(v, lane) for lane in range(e.lanes) for v in s.values]
        place = e.in_lane(s.index, 0)
        align = chunk * s.buffer.element_type.byte_size

        def write() -> None:
            for first in range(0, len(raws), chunk):
                here = raws[first : first + chunk]
                self._write(s.buffer, self.w.iadd(place, first), here, align)

        self._where(None if s.guard is None else e.get(s.guard, 0), write)

    def _write_lane(self, s: Store, lane: int) -> None:
        e = self.e
        raws = [e.raw(v, lane) for v in s.values]
        index, size = e.in_lane(s.index, lane), s.buffer.element_type.byte_size
        align = self._align(s.buffer, s.index, lane)

        def write() -> None:
            if align >= len(raws) * size:
                self._write(s.buffer, index, raws, align)
                return
            for i, raw in enumerate(raws):
                self._write(s.buffer, self.w.iadd(index, i), [raw], size)

        self._where(None if s.guard is None else e.get(s.guard, lane), write)

    def _where(self, guard: str | None, write: Callable[[], None]) -> None:
        if guard is None:
            write()
            return
        with self.w.if_(guard):
            write()

    def _write(self, buffer: Buffer, index: str, raws: Sequence[str], align: int) -> None:
        """Store neighbours in memory from `index` on, at a multiple of `align` bytes."""
        w, stored = self.w, memory_type(buffer.element_type)
        ty = vector(stored, len(raws))
        value = raws[0]
        if len(raws) > 1:
            value = "poison"
            for i, raw in enumerate(raws):
                value = w.insert(ty, value, raw, i)
        address = self.address(buffer, index)
        w.line(f"store {ty} {value}, {pointer_type(buffer)} {address}, align {align}")

    # -- moves -------------------------------------------------------------------------------------

    def move(self, s: Move) -> None:
        """The bits of elements, of all lanes."""
        e = self.e
        read = Load(Value(s.buffer.element_type, 0, 0), s.buffer, s.index)
        lanes = e.lanes if e.varies(s.index) or e.varies(s.target_index) else 1
        chunk = 1
        if lanes > 1:
            chunk = gcd(
                self._chunk(s.buffer, s.index, 1, None),
                self._chunk(s.target, s.target_index, 1, None),
            )
        for lane in range(0, lanes, chunk):
            here = lane if lanes > 1 else e.lane
            raws = self._loaded(read, chunk, here)
            align = self._align(s.target, s.target_index, here)
            self._write(s.target, e.in_lane(s.target_index, here), raws, align)

    def async_copy(self, s: AsyncCopy) -> None:
        """Neighbours, by the hardware and beside the thread; of those it does not read it makes
        zeros."""
        e, size = self.e, s.count * s.buffer.element_type.byte_size
        arguments = [
            (pointer_type(buffer), self.address(buffer, e.uniform(index)))
            for buffer, index in ((s.target, s.target_index), (s.buffer, s.index))
        ]
        # What fills a line of the first-level cache would push out what other threads use.
        name = f"llvm.nvvm.cp.async.{'cg' if size == WIDEST else 'ca'}.shared.global.{size}"
        if s.guard is not None:
            name += ".s"
            read = self.w.select(e.get(s.guard, e.lane), "i32", str(size), "0")
            arguments.append(("i32", read))
        self.w.call(name, "void", arguments)

    def transpose(self, target: Buffer, source: Buffer, size: int) -> None:
        """A tile, turned: read whole before any of it is written."""
        ty, align = memory_type(source.element_type), source.element_type.byte_size
        cells = [
            self._read(source, ty, self.address(source, str(i)), align) for i in range(size * size)
        ]
        for i in range(size):
            for j in range(size):
                self._write(target, str(size * i + j), [cells[size * j + i]], align)

    # -- classification ----------------------------------------------------------------------------

    def _align(self, buffer: Buffer, index: Index, lane: int) -> int:
        """What the address of an element is a multiple of in a lane, as far as it is known."""
        size, var = buffer.element_type.byte_size, self.e.vector_var
        if var is not None:
            rest = {a: c for a, c in index.terms.items() if a is not var}
            index = Index(rest, index.constant + lane * index.coefficient(var))
        return size * gcd(WIDEST // size, multiple_of(index))

    def _chunk(self, buffer: Buffer, index: Index, count: int, guard: Value | None) -> int:
        """How many elements of neighbouring lanes, `count` of each, one access takes."""
        e = self.e
        lane = e.vector_var
        if lane is None or index.coefficient(lane) != count:
            return 1
        rest = Index({a: c for a, c in index.terms.items() if a is not lane}, index.constant)
        if e.varies(rest) or (guard is not None and e.is_vector(guard)):
            return 1
        chunk = WIDEST // buffer.element_type.byte_size
        return gcd(chunk, multiple_of(rest), e.lanes * count)


def multiple_of(index: Index) -> int:
    """A number that the index is always a multiple of; 0 for the index 0."""
    found = abs(index.constant)
    for atom, c in index.terms.items():
        found = gcd(found, c * _unit(atom))
    return found


def _unit(atom: object) -> int:
    if isinstance(atom, Parameter):
        return atom.unit
    if isinstance(atom, Mod):
        return gcd(multiple_of(atom.index), atom.divisor)
    if isinstance(atom, FloorDiv):
        whole = multiple_of(atom.index)
        return whole // atom.divisor if whole % atom.divisor == 0 and whole else 1
    return 1
