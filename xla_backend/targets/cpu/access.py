"""Memory access of the emitter: which lanes an index covers, and the best instruction for it.

An index splits into a part that is the same in all lanes and a part that differs. Lanes that are
neighbours in memory become vector loads and stores, equal ones a scalar load, every second one a
wide load and a shuffle, anything else a gather or scatter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from xla_backend.codegen.indices import index_element
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.index import QUOTIENTS, FloorDiv, Index, Parameter, Var
from xla_backend.kernels.ir import Buffer, Compute, Load, Loop, Move, Store, Value
from xla_backend.kernels.lane_patterns import Pieces, lane_offsets, pieces_of
from xla_backend.llvm.bytes import FAR_BYTES, prefetch
from xla_backend.llvm.conversions import from_memory, to_memory
from xla_backend.llvm.math_basics import any_lane
from xla_backend.llvm.types import (
    bits_of,
    const,
    element,
    first_lanes,
    mask_of,
    memory_type,
    register_type,
    vector,
    vector_const,
)
from xla_backend.llvm.types import lanes as lanes_of
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.cpu.lane_loads import loaded_lanes, loads_are_quicker
from xla_backend.targets.cpu.paired_gathers import gathered_pair
from xla_backend.targets.cpu.small_tables import looked_up, places_type, small_table

# Registers that lanes are put together in; LLVM cuts them where those of the machine are smaller.
_REGISTER_BITS = 512
_LINE, _PAGE = 64, 1 << 12
# Of arrays for which it pays to have a row's load twice, with a mask and without.
_ROW_BYTES = 1 << 18
# Which the processor finds by itself, be they apart.
_SEEN_STRETCH = 1 << 10


class Emitter(Protocol):
    """What memory access needs of the emitter whose values it loads and stores.

    Attributes:
      pointers: the address of each buffer.
      env: the text of each value; `vars` those of variables.
      streaming: the loop of vectors that carries values, where this is one; None elsewhere.
      vector_var: the variable that differs between `lanes`; None outside loops in lanes.
      mask: the lanes in use; None means all.
      whole: whether the mask holds for all lanes; None where nothing short says so.
      neighbours: loads whose lanes' neighbours in memory the next load reads, and that load.
      beside: what such loads get, which was read with their neighbours.
      near: loads whose lanes read near what others read.
    """

    w: FunctionWriter
    pointers: dict[Buffer, str]
    env: dict[Value, str]
    vars: dict[Var | Parameter, str]
    streaming: Loop | None
    vector_var: Var | None
    lanes: int
    mask: str | None
    whole: str | None
    neighbours: dict[Load, Load]
    beside: dict[Load, str]
    near: set[Load]

    def bind(self, value: Value, text: str, lanes: int = 1) -> None:
        """Let the value have this text."""

    def is_vector(self, value: Value) -> bool:
        """Whether the value is in lanes."""

    def get(self, value: Value, lanes: int = 1) -> str:
        """The text of a value, spread over `lanes` if it is scalar."""

    def varies(self, index: Index) -> bool:
        """Whether the index differs between lanes."""

    def atom_varies(self, atom: object) -> bool:
        """Whether a part of an index does."""

    def distance(self, index: Index) -> int | None:
        """Of neighbouring lanes in memory; None if irregular."""

    def uniform(self, index: Index) -> str:
        """An index that is the same in all lanes; of others, that of the first lane."""

    def uniform_in_range(self, index: Index, low: int, high: int) -> str:
        """low <= index < high, the index being the same in all lanes."""


class Access:
    """Loads, stores and index values of one emitter."""

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter
        self.w = emitter.w

    # -- index expressions -------------------------------------------------------------------------

    def lanes_of_index(self, index: Index, element: str) -> str:
        """The index in every lane, as a vector of i32 or i64."""
        w, e = self.w, self.e
        ty = vector(element, e.lanes)
        same: dict = {}
        total: str | None = None
        for atom, c in index.terms.items():
            if not e.atom_varies(atom):
                same[atom] = c
                continue
            text = self._lane_atom(atom, element, ty)
            if c != 1:
                text = w.op("mul", ty, text, const(ty, c))
            total = text if total is None else w.op("add", ty, total, text)
        rest = self.e.uniform(Index(same, index.constant))
        if rest != "0" or total is None:
            if element == "i32" and rest[0] == "%":
                rest = w.cast("trunc", "i64", rest, "i32")
            spread = const(ty, int(rest)) if rest[0] != "%" else w.splat(ty, rest)
            total = spread if total is None else w.op("add", ty, total, spread)
        return total

    def _lane_atom(self, atom: object, element: str, ty: str) -> str:
        w, e = self.w, self.e
        if isinstance(atom, Var):
            first = e.vars[atom]
            if element == "i32" and first[0] == "%":
                first = w.cast("trunc", "i64", first, "i32")
            if first == "0":
                return w.iota(ty)
            spread = const(ty, int(first)) if first[0] != "%" else w.splat(ty, first)
            return w.op("add", ty, spread, w.iota(ty))
        if isinstance(atom, Value):
            own = register_type(atom.type)
            text = e.get(atom, e.lanes)
            if own == element:
                return text
            return w.cast("sext" if own == "i32" else "trunc", vector(own, e.lanes), text, ty)
        assert isinstance(atom, QUOTIENTS)
        inner = self.lanes_of_index(atom.index, element)
        divisor = atom.divisor
        quotient = isinstance(atom, FloorDiv)
        if divisor & (divisor - 1) == 0:
            if quotient:
                return w.op("lshr", ty, inner, const(ty, divisor.bit_length() - 1))
            return w.op("and", ty, inner, const(ty, divisor - 1))
        # Never traps: the divisor is a constant.
        return w.pure(f"{'udiv' if quotient else 'urem'} {ty} {inner}, {const(ty, divisor)}", inner)

    def index(self, index: Index) -> tuple[str, str, int]:
        """(text, type, lanes) of an index as a value."""
        if not self.e.varies(index):
            return self.e.uniform(index), "i64", 1
        element = index_element(index)
        return self.lanes_of_index(index, element), vector(element, self.e.lanes), self.e.lanes

    def in_range(self, index: Index, low: int, high: int) -> tuple[str, int]:
        """(i1 or lanes of i1, lanes): low <= index < high, as one unsigned comparison."""
        shifted = index - low
        if not self.e.varies(shifted):
            return self.e.uniform_in_range(index, low, high), 1
        element = index_element(shifted)
        ty = vector(element, self.e.lanes)
        lanes = self.lanes_of_index(shifted, element)
        return self.w.cmp("ult", ty, lanes, const(ty, high - low)), self.e.lanes

    def lanes_in_range(self, index: Index, low: int, high: int) -> str:
        """The lanes where low <= index < high, as a mask: as one that the machine can count out
        where the index counts lanes and is never below `low`."""
        w, e = self.w, self.e
        lane = e.vector_var
        rest = {a: c for a, c in index.terms.items() if a is not lane}
        counts = index.coefficient(lane) == 1 and not any(e.atom_varies(a) for a in rest)
        if not counts or index.bounds[0] < low:
            return self.in_range(index, low, high)[0]
        begin = Index({a: c for a, c in rest.items() if c > 0})
        end = Index({a: -c for a, c in rest.items() if c < 0}, high - index.constant)
        first, last = self.e.uniform(begin), self.e.uniform(end)
        if first[0] != "%" and last[0] != "%":
            count = int(last) - int(first)
            return vector_const("i1", [1 if i < count else 0 for i in range(e.lanes)])
        some = lambda: w.active_mask(e.lanes, first, last)
        if e.mask is not None or (end - begin).bounds[1] < e.lanes:
            return some()
        e.whole = w.cmp("sge", w.index, w.isub(last, first), str(e.lanes))
        if not any(isinstance(atom, Parameter) for atom in index.terms):
            return some()
        # Most vectors have all lanes, and need not count them out: where the extent is known, fewer
        # bodies are there once, and they are so large that it hardly counts.
        ty = vector("i1", e.lanes)
        every = lambda: [const(ty, 1)]
        return w.if_else(e.whole, [ty], every, lambda: [some()], likely=True)[0]

    # -- classification ----------------------------------------------------------------------------

    def _mask(self, guard: Value | None) -> str | None:
        """Lanes that may be touched, or None for all."""
        e, w = self.e, self.w
        mask = e.mask
        if guard is not None:
            ty = vector("i1", e.lanes)
            own = e.get(guard, e.lanes)
            mask = own if mask is None else w.op("and", ty, own, mask)
        return mask

    # -- loads -------------------------------------------------------------------------------------

    def bind_loaded(self, s: Load, raw: str, lanes: int) -> None:
        """The result of a load whose memory form is at hand."""
        value = from_memory(self.w, s.result.type, lanes, raw)
        self.e.bind(s.result, value, lanes)

    def load(self, s: Load) -> None:
        e, w = self.e, self.w
        type = s.result.type
        stored = memory_type(type)
        stride = self.e.distance(s.index)
        guard = s.guard
        guard_varies = guard is not None and e.is_vector(guard)
        if stride == 0 and not guard_varies:
            raw = self._scalar_load(s, stored, guard)
            e.bind(s.result, from_memory(w, type, 1, raw))
            return
        lanes = e.lanes
        ty = vector(stored, lanes)
        base = e.pointers[s.buffer]
        uniform = None if guard is None or guard_varies else guard
        mask = self._mask(guard) if guard_varies else e.mask
        if stride == 1:
            first = self._readable(w.gep(stored, base, self.e.uniform(s.index)), ty, uniform)
            if guard_varies and mask is not None:
                raw = self._guarded_row(s, ty, first, mask)
            else:
                raw = self._contiguous(ty, first, mask)
            if e.streaming is not None:
                self._ask_ahead(s, ty, first, e.streaming)
        elif stride == -1:
            place = w.gep(stored, base, self.e.uniform(s.index - (lanes - 1)))
            first = self._readable(place, ty, uniform)
            backwards = list(range(lanes - 1, -1, -1))
            if mask is not None:
                mask = w.shuffle(vector("i1", lanes), mask, "poison", backwards)
            if guard_varies and mask is not None:
                row = self._guarded_row(s, ty, first, mask)
            else:
                row = self._contiguous(ty, first, mask)
            raw = w.shuffle(ty, row, "poison", backwards)
        else:
            raw = self._irregular(s, ty, base, mask, uniform)
        e.bind(s.result, from_memory(w, type, lanes, raw), lanes)

    def _ask_ahead(self, s: Load, ty: str, place: str, loop: Loop) -> None:
        """Asks for what later rounds of a loop read where an array is larger than nearby caches: a
        page behind, as the processor itself does not look beyond the end of one; where rounds
        leave something out, in which it sees no stretches unless these are long, as many rounds
        later as read two pages, or after all that there are."""
        w, size, lanes = self.e.w, bits_of(element(ty)) // 8, lanes_of(ty)
        step = s.index.coefficient(loop.var)
        seen = step > lanes and lanes * size >= _SEEN_STRETCH
        if step < lanes or seen or s.buffer.size * size < FAR_BYTES:
            return
        if step == lanes and not _waits(loop, lanes * size):
            return
        rounds = min(2 * _PAGE // (lanes * size), loop.var.extent)
        distance = _PAGE if step == lanes else rounds * step * size
        for at in range(0, lanes * size, _LINE):
            ahead = w.pure(f"getelementptr i8, ptr {place}, i64 {distance + at}", place)
            prefetch(w, ahead, far=True)

    def _readable(self, pointer: str, ty: str, guard: Value | None) -> str:
        """Where to read a row: at the pointer if the guard holds, which is the same in all lanes,
        else from zeros. (A masked load takes hundreds of cycles where no lane is in the mask and
        the address is none of the process.)"""
        if guard is None:
            return pointer
        return self._or_zeros(self.e.get(guard), pointer, ty)

    def _guarded_row(self, s: Load, ty: str, pointer: str, mask: str) -> str:
        """The same where the condition differs between lanes: at the pointer if any lane reads.
        What is not in the first cache is read without a mask where all lanes do: with one, the next
        rows are not on their way yet (4 MB took 1.3 times as long, 17 MB three times)."""
        w = self.w

        def some() -> list[str]:
            place = self._or_zeros(any_lane(w, ty, mask), pointer, ty)
            return [self._contiguous(ty, place, mask)]

        if s.buffer.size * bits_of(element(ty)) < 8 * _ROW_BYTES:
            return some()[0]
        every = w.reduce("and", mask_of(ty), mask)
        return w.if_else(every, [ty], lambda: [w.load(ty, pointer)], some, likely=True)[0]

    def _or_zeros(self, holds: str, pointer: str, ty: str) -> str:
        w = self.w
        zeros = w.module.constant_bytes(b"\0" * (lanes_of(ty) * bits_of(element(ty)) // 8))
        return w.pure(f"select i1 {holds}, ptr {pointer}, ptr {zeros}", holds, pointer)

    def _irregular(self, s: Load, ty: str, base: str, mask: str | None, guard: Value | None) -> str:
        """A load of lanes that are not neighbours: in pieces, if they are a pattern, else one by
        one."""
        e, w = self.e, self.w
        stored, lanes = element(ty), e.lanes

        def places() -> tuple[str, str, str, str | None]:
            every = mask
            if guard is not None:
                own = e.get(guard, lanes)
                every = own if mask is None else w.op("and", vector("i1", lanes), own, mask)
            index_type = index_element(s.index)
            positions = self.lanes_of_index(s.index, index_type)
            return base, vector(index_type, lanes), positions, every

        def gathered() -> list[str]:
            at, index_ty, positions, every = places()
            varying, near = self._varying(s.index), s in e.near
            if every is None and loads_are_quicker(w.target, ty, index_ty, varying, near):
                return [loaded_lanes(w, ty, at, index_ty, positions)]
            return [w.gather(ty, at, index_ty, positions, every)]

        pieces = self._pieces(s.index, stored) if guard is None else None
        if pieces is None:
            found = self._from_small_table(s, ty, base) if s.guard is None else None
            if found is not None:
                return found
            pair = gathered_pair(w, ty, *places()) if s in e.neighbours else None
            if pair is None:
                return gathered()[0]
            e.beside[e.neighbours[s]] = pair[1]
            return pair[0]
        first = w.gep(stored, base, self.e.uniform(s.index))
        if mask is None:
            return self._in_pieces(stored, first, pieces)
        count = first_lanes(mask)
        ends = _ends(pieces, count) if count else None
        if ends is not None:
            return self._in_pieces(stored, first, pieces, ends)
        return self._by_mask(
            mask, [ty], lambda: [self._in_pieces(stored, first, pieces)], gathered
        )[0]

    def _from_small_table(self, s: Load, ty: str, base: str) -> str | None:
        """A load from few elements; None where it is not."""
        table = small_table(self.w, ty, s.index, self._varying(s.index))
        if table is None:
            return None
        first = self.w.gep(element(ty), base, self.e.uniform(table.first))
        places = self.lanes_of_index(table.places, places_type(ty))
        return looked_up(self.w, ty, first, table.size, places)

    def _varying(self, index: Index) -> Index:
        """The part of an index that differs between lanes."""
        atom_varies = self.e.atom_varies
        return Index({atom: c for atom, c in index.terms.items() if atom_varies(atom)})

    def _pieces(self, index: Index, stored: str) -> list[Pieces] | None:
        """The pieces of memory of the registers of a vector, if its lanes are a pattern."""
        e = self.e
        if e.vector_var is None or e.vars[e.vector_var] != "0":
            return None
        offsets = lane_offsets(index, e.vector_var, e.lanes, e.atom_varies)
        if offsets is None:
            return None
        lanes = min(e.lanes, _REGISTER_BITS // bits_of(stored))
        found = [pieces_of(offsets[at : at + lanes]) for at in range(0, e.lanes, lanes)]
        return None if None in found else [p for p in found if p is not None]

    def _in_pieces(
        self,
        stored: str,
        first: str,
        registers: list[Pieces],
        ends: tuple[int, int] | None = None,
    ) -> str:
        """The lanes of some registers, put together from the pieces that hold them. `ends`: how far
        from the first lane the first and the last element are that may be read, for all else
        zeros."""
        w = self.w
        loaded: dict[tuple[int, int], str] = {}
        parts: list[str] = []
        for pieces in registers:
            for start in pieces.starts:
                place = (start, pieces.size)
                if place not in loaded:
                    loaded[place] = self._piece(stored, first, start, pieces.size, ends)
            values = [loaded[start, pieces.size] for start in pieces.starts]
            parts.append(self._picked(stored, pieces, values))
        count = len(registers[0].lanes)
        while len(parts) > 1:  # a power of two of them
            ty, count = vector(stored, count), 2 * count
            parts = [w.shuffle(ty, a, b, range(count)) for a, b in zip(parts[::2], parts[1::2])]
        return parts[0]

    def _piece(
        self, stored: str, first: str, start: int, size: int, ends: tuple[int, int] | None
    ) -> str:
        """Some elements side by side; zeros for those that are not between the ends."""
        w, ty = self.w, vector(stored, size)
        inside = [ends is None or ends[0] <= at <= ends[1] for at in range(start, start + size)]
        if not any(inside):
            return const(ty, 0)
        place = w.gep(stored, first, start)
        if all(inside):
            return w.load(ty, place)
        return w.masked_load(ty, place, vector_const("i1", inside))

    def _picked(self, stored: str, pieces: Pieces, values: list[str]) -> str:
        """One register of lanes from the pieces, two of them at a time."""
        w, size, lanes = self.w, pieces.size, len(pieces.lanes)
        if size == 1:
            values = [w.splat(vector(stored, 2), value) for value in values]
            size = 2
        ty, whole = vector(stored, size), vector(stored, lanes)
        result = ""
        for n in range(0, len(values), 2):
            second = values[n + 1] if n + 1 < len(values) else "poison"
            own = [piece - n if n <= piece < n + 2 else None for piece, _ in pieces.lanes]
            picks = [
                -1 if piece is None else piece * size + position
                for piece, (_, position) in zip(own, pieces.lanes)
            ]
            pair = w.shuffle(ty, values[n], second, picks)
            both = [lane if piece is None else lanes + lane for lane, piece in enumerate(own)]
            result = w.shuffle(whole, result, pair, both) if result else pair
        return result

    def first_lane(self, s: Load) -> str:
        """The address of what a load reads in its first lane."""
        stored = memory_type(s.result.type)
        return self.w.gep(stored, self.e.pointers[s.buffer], self.e.uniform(s.index))

    def raw_row(self, s: Move) -> str:
        """The elements that a move reads along the lanes, as they are in memory."""
        e, w = self.e, self.w
        assert self.e.distance(s.index) == 1 and e.mask is None
        stored = memory_type(s.buffer.element_type)
        pointer = w.gep(stored, e.pointers[s.buffer], self.e.uniform(s.index))
        return w.load(vector(stored, e.lanes), pointer)

    def _contiguous(self, ty: str, pointer: str, mask: str | None) -> str:
        w = self.w
        if mask is None:
            return w.load(ty, pointer)
        return self._by_mask(
            mask, [ty], lambda: [w.load(ty, pointer)], lambda: [w.masked_load(ty, pointer, mask)]
        )[0]

    def _by_mask(
        self,
        mask: str,
        types: list[str],
        plain: Callable[[], list[str]],
        masked: Callable[[], list[str]],
    ) -> list[str]:
        """An access under a mask; a plain one where that holds for all lanes, which takes a
        fraction of the time."""
        whole = self.e.whole if mask is self.e.mask else None
        if whole is None:
            return masked()
        return self.w.if_else(whole, types, plain, masked, likely=True)

    def _scalar_load(self, s: Load, stored: str, guard: Value | None) -> str:
        e, w = self.e, self.w
        pointer = w.gep(stored, e.pointers[s.buffer], self.e.uniform(s.index))
        if guard is None:
            return w.load(stored, pointer)
        # Reads a zero instead: no branch.
        zero = w.module.constant_bytes(b"\0" * 64)
        chosen = w.pure(
            f"select i1 {e.get(guard)}, ptr {pointer}, ptr {zero}", e.get(guard), pointer
        )
        return w.load(stored, chosen)

    # -- stores ------------------------------------------------------------------------------------

    def store(self, s: Store) -> None:
        e, w = self.e, self.w
        stored = memory_type(s.buffer.element_type)
        base = e.pointers[s.buffer]
        stride = self.e.distance(s.index)
        guard = s.guard
        values_vary = any(e.is_vector(v) for v in s.values) or (
            guard is not None and e.is_vector(guard)
        )
        if stride == 0 and not values_vary:
            self._scalar_store(s, stored, base, guard)
            return
        lanes = e.lanes
        ty = vector(stored, lanes)
        raws = [to_memory(w, s.buffer.element_type, lanes, e.get(v, lanes)) for v in s.values]
        mask = self._mask(guard)
        if len(raws) > 1 and stride == len(raws):
            self._interleaved(s, stored, base, raws, mask)
            return
        for i, raw in enumerate(raws):
            index = s.index + i
            if stride == 1:
                pointer = w.gep(stored, base, self.e.uniform(index))
                self._store_contiguous(ty, raw, pointer, mask)
                continue
            element = index_element(index)
            positions = self.lanes_of_index(index, element)
            w.scatter(ty, raw, base, vector(element, lanes), positions, mask)

    def _store_contiguous(self, ty: str, raw: str, pointer: str, mask: str | None) -> None:
        w = self.w
        if mask is None:
            w.store(ty, raw, pointer)
            return

        def plain() -> list[str]:
            w.store(ty, raw, pointer)
            return []

        def masked() -> list[str]:
            w.masked_store(ty, raw, pointer, mask)
            return []

        self._by_mask(mask, [], plain, masked)

    def _scalar_store(self, s: Store, stored: str, base: str, guard: Value | None) -> None:
        e, w = self.e, self.w
        raws = [to_memory(w, s.buffer.element_type, 1, e.get(v)) for v in s.values]

        def write() -> None:
            for i, raw in enumerate(raws):
                w.store(stored, raw, w.gep(stored, base, self.e.uniform(s.index + i)))

        condition = "true" if guard is None else e.get(guard)
        if condition == "true":
            write()
            return
        with w.if_(condition):
            write()

    def _interleaved(
        self, s: Store, stored: str, base: str, raws: list[str], mask: str | None
    ) -> None:
        """The lanes of several values in turn, without gaps between them: real and imaginary parts,
        components of vectors. Registers of lanes become as many registers of memory."""
        w, lanes, count = self.w, self.e.lanes, len(raws)
        size = min(lanes, _REGISTER_BITS // bits_of(stored))
        ty, whole = vector(stored, size), vector(stored, lanes)
        pointer = w.gep(stored, base, self.e.uniform(s.index))
        for first in range(0, lanes, size):
            own = list(range(first, first + size))
            parts = raws if size == lanes else [w.shuffle(whole, r, "poison", own) for r in raws]
            for n in range(count):
                places = [divmod(n * size + lane, count) for lane in range(size)]
                row = _mixed(w, ty, parts, places)
                at = w.gep(stored, pointer, count * first + n * size)
                if mask is None:
                    w.store(ty, row, at)
                    continue
                origins = [first + lane for lane, _ in places]
                kept = w.shuffle(vector("i1", lanes), mask, "poison", origins)
                w.masked_store(ty, row, at, kept)


def _waits(loop: Loop, bytes_of_round: int) -> bool:
    """Whether rounds take less than what they read from memory takes: they add it up, or it is long
    rows of which they do one thing more. (On a Zen 4 extremes of rows of a kilobyte take 1.2 to 1.7
    times as long where they ask, first extremes up to 2.5 times, sums 0.85 of the time.)"""
    computed = [s.opcode for s in loop.body if isinstance(s, Compute)]
    if len(computed) > sum(isinstance(s, Load) for s in loop.body):
        return False
    return all(opcode is Opcode.ADD for opcode in computed) or (
        loop.var.extent * bytes_of_round >= 2 * _PAGE
    )


def _mixed(w: FunctionWriter, ty: str, parts: list[str], places: list[tuple[int, int]]) -> str:
    """A register of lanes of others: for each its lane and which of them it is in."""
    size = len(places)
    picks = [lane if part == 0 else size + lane if part == 1 else -1 for lane, part in places]
    row = w.shuffle(ty, parts[0], parts[1], picks)
    for n in range(2, len(parts)):
        picks = [size + at if part == n else lane for lane, (at, part) in enumerate(places)]
        row = w.shuffle(ty, row, parts[n], picks)
    return row


def _ends(registers: list[Pieces], count: int) -> tuple[int, int] | None:
    """How far from the first lane what the first `count` lanes read begins and ends; None if others
    read in between, too."""
    places = [p.starts[piece] + position for p in registers for piece, position in p.lanes]
    low, high = min(places[:count]), max(places[:count])
    return None if any(low <= place <= high for place in places[count:]) else (low, high)
