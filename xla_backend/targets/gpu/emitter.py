"""Scheduled kernel IR to LLVM text for NVPTX: the code of one thread.

There are no vectors but in memory: what a lanes loop computes is done lane by lane, each in scalars
of its own, and only loads and stores of neighbours are put together (access.py). Statements go
through the lanes one after another, so that no more than one lane's intermediate values are alive.
"""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.codegen.emitter import AbstractKernelEmitter
from xla_backend.kernels.index import ZERO, Index
from xla_backend.kernels.ir import (
    AsyncCopy,
    AsyncGroup,
    AsyncWait,
    Atomic,
    Await,
    AwaitArrivals,
    Barrier,
    BoxCopy,
    BoxedArray,
    Buffer,
    Carry,
    Combination,
    Combiner,
    Compute,
    ExpectBytes,
    GroupProduct,
    GroupWait,
    If,
    IndexValue,
    InRange,
    Load,
    Loop,
    LoopKind,
    MatrixLoad,
    MatrixTile,
    Move,
    PrepareArrivals,
    Shuffle,
    ShuffleMode,
    Signal,
    Statement,
    Store,
    Ticket,
    Transpose,
    Value,
)
from xla_backend.llvm.conversions import from_memory, to_memory
from xla_backend.llvm.types import register_type
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.gpu.access import Access
from xla_backend.targets.gpu.architectures import WARP, Architecture
from xla_backend.targets.gpu.atomics import emit_atomic
from xla_backend.targets.gpu.group_code import (
    emit_await,
    emit_box_copy,
    emit_expect,
    emit_group_product,
    emit_group_wait,
    emit_prepare,
)
from xla_backend.targets.gpu.handovers import (
    emit_await_signal,
    emit_fence,
    emit_signal,
    emit_ticket,
)
from xla_backend.targets.gpu.warps import (
    choose_bytes,
    emit_matrix_load,
    emit_matrix_tile,
    emit_shuffle,
    pack_word,
    unpack_word,
)

THREAD = "llvm.nvvm.read.ptx.sreg.tid.x"
BLOCK = "llvm.nvvm.read.ptx.sreg.ctaid.x"


class KernelEmitter(AbstractKernelEmitter):
    """Emits the statements of a stage into the function of one thread.

    `pointers`: the address of each buffer; `invariant`: those that nobody writes meanwhile.
    """

    def __init__(
        self,
        w: FunctionWriter,
        pointers: dict[Buffer, str],
        invariant: frozenset[Buffer],
        architecture: Architecture,
    ) -> None:
        super().__init__(w, pointers)
        self.invariant = invariant
        self.architecture = architecture
        self.lane_texts: dict[Value, Sequence[str]] = {}  # of values that differ between lanes
        self.raws: dict[Value, Sequence[str]] = {}  # what was loaded, as it is in memory, by lane
        self.words: dict[tuple[Value, ...], str] = {}  # what 32 bits hold together
        self.parts: dict[Value, tuple[str, int]] = {}  # the word that holds it, and where
        self.lane = 0  # the one that code is emitted for
        self.threads = 1
        self.is_part = False  # of a block: its other threads do not come to barriers
        # What the host makes of arrays, as parameters of the function.
        self.maps: dict[tuple[Buffer, BoxedArray], str] = {}

    @property
    def access(self) -> Access:
        """Made anew each time: kept, it and the emitter would hold each other."""
        return Access(self)

    # -- values ------------------------------------------------------------------------------------

    def bind(self, value: Value, text: str) -> None:
        self.env[value] = text
        self.lane_texts.pop(value, None)

    def bind_lanes(self, value: Value, texts: Sequence[str]) -> None:
        self.lane_texts[value] = texts

    def is_vector(self, value: Value) -> bool:
        return self.lanes > 1 and value in self.lane_texts

    def rename(self, value: Value, known: Value) -> None:
        texts = self.lane_texts.get(known)
        if texts is None:
            self.bind(value, self.env[known])
        else:
            self.bind_lanes(value, texts)
        if known in self.raws:
            self.raws[value] = self.raws[known]

    def scalar(self, value: Value) -> str:
        return self.get(value, self.lane)

    def get(self, value: Value, lane: int) -> str:
        texts = self.lane_texts.get(value)
        return self.env[value] if texts is None else texts[lane]

    def raw(self, value: Value, lane: int) -> str:
        """A value in one lane as memory holds it: as it was loaded, if it was."""
        raws = self.raws.get(value)
        if raws is None:
            return to_memory(self.w, value.type, 1, self.get(value, lane))
        return raws[lane] if len(raws) > 1 else raws[0]

    def in_lane(self, index: Index, lane: int) -> str:
        if self.vector_var is None or self.lanes == 1:
            return self.uniform(index)
        before = self.vars[self.vector_var], self.lane
        self.vars[self.vector_var], self.lane = str(lane), lane
        text = self.uniform(index)
        self.vars[self.vector_var], self.lane = before
        return text

    def _lanes(self) -> Sequence[int]:
        """The lanes that code is emitted for here."""
        return range(self.lanes) if self.lanes > 1 else (self.lane,)

    def carried_types(self, carries: Sequence[Carry]) -> list[str]:
        return [register_type(c.phi.type) for c in carries for _ in self._lanes()]

    def texts(self, values: Sequence[Value]) -> list[str]:
        return [self.get(v, lane) for v in values for lane in self._lanes()]

    def bind_texts(self, values: Sequence[Value], texts: Sequence[str]) -> None:
        lanes = self.lanes
        if lanes == 1:
            for value, text in zip(values, texts):
                self.bind(value, text)
            return
        for n, value in enumerate(values):
            self.bind_lanes(value, texts[n * lanes : (n + 1) * lanes])

    # -- statements --------------------------------------------------------------------------------

    def compute(self, s: Compute) -> None:
        if not any(map(self.is_vector, s.operands)):
            self.bind(s.result, self.operation(s, [self.scalar(o) for o in s.operands], 1))
            return
        self.bind_lanes(
            s.result,
            [
                self.operation(s, [self.get(o, lane) for o in s.operands], 1)
                for lane in self._lanes()
            ],
        )

    def load(self, s: Load) -> None:
        self.access.load(s)

    def store(self, s: Store) -> None:
        self.access.store(s)

    def index_value(self, s: IndexValue) -> None:
        def converted(text: str) -> str:
            return self.converted_index(s.result.type, self.w.index, text, 1)

        if not self.varies(s.index):
            self.bind(s.result, converted(self.uniform(s.index)))
            return
        texts = [converted(self.in_lane(s.index, lane)) for lane in self._lanes()]
        self.bind_lanes(s.result, texts)

    def in_range(self, s: InRange) -> None:
        if not self.varies(s.index):
            self.bind(s.result, self.uniform_in_range(s.index, s.low, s.high))
            return
        texts = [self._lane_in_range(s.index, s.low, s.high, lane) for lane in self._lanes()]
        self.bind_lanes(s.result, texts)

    def _lane_in_range(self, index: Index, low: int, high: int, lane: int) -> str:
        text = self.in_lane(index - low, lane)
        if text[0] != "%":
            return "true" if 0 <= int(text) < high - low else "false"
        return self.w.cmp("ult", self.w.index, text, str(high - low))

    def other(self, s: Statement) -> None:
        if isinstance(s, Barrier):
            self._barrier()
        elif isinstance(s, Shuffle):
            self._shuffle(s)
        elif isinstance(s, Atomic):
            self._atomic(s)
        elif isinstance(s, MatrixTile):
            self._matrix_tile(s)
        elif isinstance(s, MatrixLoad):
            self._matrix_load(s)
        elif isinstance(s, AsyncCopy):
            self.access.async_copy(s)
        elif isinstance(s, AsyncGroup):
            self.w.call("llvm.nvvm.cp.async.commit.group", "void")
        elif isinstance(s, AsyncWait):
            pending = ("i32", str(s.pending))
            self.w.call("llvm.nvvm.cp.async.wait.group", "void", [pending])
        elif isinstance(s, PrepareArrivals | ExpectBytes | BoxCopy | AwaitArrivals):
            self._arriving(s)
        elif isinstance(s, GroupProduct | GroupWait):
            self._group_product(s)
        elif isinstance(s, Ticket):
            self._ticket(s)
        elif isinstance(s, Signal | Await):
            self._signal(s)
        elif isinstance(s, Move):
            self.access.move(s)
        elif isinstance(s, Transpose):
            self.access.transpose(s.target, s.source, s.size)
        else:
            raise AssertionError(f"statement {s!r} has no emitter")

    def _barrier(self) -> None:
        if self.threads == 1:
            return
        # The threads of one warp need not wait for others.
        if self.threads == WARP:
            self.w.call("llvm.nvvm.bar.warp.sync", "void", [("i32", "-1")])
        elif self.is_part:
            numbers = [("i32", "1"), ("i32", str(self.threads))]
            self.w.call("llvm.nvvm.barrier.cta.sync.aligned.count", "void", numbers)
        else:
            self.w.call("llvm.nvvm.barrier0", "void")

    def _ticket(self, s: Ticket) -> None:
        w = self.w
        shared = Store(s.shared, ZERO, (s.result,))
        with w.if_(self.scalar(s.taker)):
            address = self.access.address(s.buffer, self.uniform(s.index))
            self.bind(s.result, emit_ticket(w, address))
            self.access.store(shared)
        self._barrier()
        self.access.load(Load(s.result, s.shared, ZERO))

    def _signal(self, s: Signal | Await) -> None:
        w = self.w
        emit = emit_signal if isinstance(s, Signal) else emit_await_signal
        address = self.access.address(s.buffer, self.uniform(s.index))
        if s.guard is None:
            emit(w, address)
        else:
            with w.if_(self.scalar(s.guard)):
                emit(w, address)
        if isinstance(s, Await):
            emit_fence(w)

    def _shuffle(self, s: Shuffle) -> None:
        if self.lanes > 1:
            values = [self.get(s.value, lane) for lane in range(self.lanes)]
            self.bind_lanes(s.result, [values[_neighbour(s, lane)] for lane in range(self.lanes)])
            return
        text = emit_shuffle(self.w, s, self.scalar(s.value), self.threads)
        self.bind(s.result, text)

    def _matrix_tile(self, s: MatrixTile) -> None:
        lhs, rhs = (self._packed(part) for part in (s.lhs, s.rhs))
        sums = [self.scalar(v) for v in s.sums]
        for value, text in zip(s.results, emit_matrix_tile(self.w, s, lhs, rhs, sums)):
            self.bind(value, text)

    def _packed(self, values: Sequence[Value]) -> list[str]:
        """Values in words of 32 bits, as memory would hold them."""
        each = max(1, 4 // values[0].type.byte_size)
        found = []
        for n in range(0, len(values), each):
            group = tuple(values[n : n + each])
            word = self.words.get(group)
            if word is None and all(v in self.parts for v in group):
                word = choose_bytes(self.w, [self.parts[v] for v in group])
            if word is None:
                raws = [self.raw(v, self.lane) for v in group]
                word = pack_word(self.w, group[0].type, raws)
            found.append(word)
        return found

    def _matrix_load(self, s: MatrixLoad) -> None:
        type = s.buffer.element_type
        each = 4 // type.byte_size
        address = self.access.address(s.buffer, self.uniform(s.index))
        words = emit_matrix_load(self.w, s, address, len(s.results) // each)
        for n, word in enumerate(words):
            group = s.results[n * each : (n + 1) * each]
            self.words[group] = word
            self.parts.update((v, (word, i)) for i, v in enumerate(group) if each == 4)
            for value, raw in zip(group, unpack_word(self.w, type, word)):
                self.bind(value, from_memory(self.w, type, 1, raw))
                self.raws[value] = [raw]

    def _arriving(self, s: PrepareArrivals | ExpectBytes | BoxCopy | AwaitArrivals) -> None:
        w = self.w
        if isinstance(s, PrepareArrivals):
            places = range(s.arrivals.size)
            emit_prepare(w, [self._shared_address(s.arrivals, Index({}, n)) for n in places])
        elif isinstance(s, ExpectBytes):
            emit_expect(w, self._shared_address(s.arrivals, s.index), s.count)
        elif isinstance(s, AwaitArrivals):
            emit_await(w, self._shared_address(s.arrivals, s.index), self._word(s.parity))
        else:
            map = w.cast("ptrtoint", "ptr", self.maps[s.buffer, s.array], "i64")
            target = self._shared_address(s.target, s.target_index)
            arrival = self._shared_address(s.arrivals, s.arrival)
            emit_box_copy(w, target, map, [self._word(i) for i in s.at], arrival)

    def _group_product(self, s: GroupProduct | GroupWait) -> None:
        if isinstance(s, GroupProduct):
            left, right = (self._shared_address(x.buffer, x.index) for x in (s.lhs, s.rhs))
            sums = [self.scalar(v) for v in s.sums]
            texts = emit_group_product(self.w, s, (left, right), sums)
        else:
            values = [self.scalar(v) for v in s.values]
            texts = emit_group_wait(self.w, s.pending, [v.type for v in s.values], values)
        for value, text in zip(s.results, texts):
            self.bind(value, text)

    def _word(self, index: Index) -> str:
        """An index in 32 bits."""
        text, w = self.uniform(index), self.w
        return text if text[0] != "%" or w.index == "i32" else w.cast("trunc", w.index, text, "i32")

    def _shared_address(self, buffer: Buffer, index: Index) -> str:
        """An address in shared memory, which has no more than 32 bits."""
        pointer = self.access.address(buffer, self.uniform(index))
        return self.w.cast("ptrtoint", "ptr addrspace(3)", pointer, "i32")

    def _atomic(self, s: Atomic) -> None:
        varying = self.varies(s.index) or any(
            self.is_vector(v) for v in (s.value, s.guard) if v is not None
        )
        for lane in self._lanes() if varying else (self.lane,):
            place = self.in_lane(s.index, lane)
            address = self.access.address(s.buffer, place)
            value = self.get(s.value, lane)
            if s.guard is None:
                emit_atomic(self.w, s, address, value, self.architecture)
                continue
            with self.w.if_(self.get(s.guard, lane)):
                emit_atomic(self.w, s, address, value, self.architecture)

    # -- loops -------------------------------------------------------------------------------------

    def parallel_loop(self, loop: Loop) -> None:
        w = self.w
        grid = loop.kind is LoopKind.GRID
        if not grid:
            self.threads = loop.var.extent
        self.vars[loop.var] = "0"
        if loop.var.extent > 1:
            self.vars[loop.var] = own_number(w, BLOCK if grid else THREAD)
        if not loop.limits:
            self.emit(loop.body)
            return
        inside = [
            w.cmp("slt", w.index, self.vars[loop.var], self.uniform(limit)) for limit in loop.limits
        ]
        condition = inside[0]
        for other in inside[1:]:
            condition = w.op("and", "i1", condition, other)
        with w.if_(condition):
            self.emit(loop.body)

    # -- lanes -------------------------------------------------------------------------------------

    def lanes_loop(self, loop: Loop) -> None:
        self.lanes = loop.var.extent
        self.lane = 0
        self.vector_var = loop.var
        self.vars[loop.var] = "0"
        self.forget_lanes()
        self.emit(loop.body)
        c = loop.combination
        values = [[self.get(v, lane) for lane in self._lanes()] for v in c.values] if c else []
        self._leave_lanes()
        if c is not None:
            self._combine_lanes(c, values)

    def _leave_lanes(self) -> None:
        self.vector_var = None
        self.lanes = 1
        self.lane = 0
        self.forget_lanes()

    def _combine_lanes(self, c: Combination, values: list[list[str]]) -> None:
        width = len(values[0])
        while width > 1:
            width //= 2
            pairs = [(i, width + i) if c.combiner.commutes else (2 * i, 2 * i + 1)
                     for i in range(width)]  # fmt: skip
            rounds = [
                self._combine(c.combiner, [v[i] for v in values], [v[j] for v in values])
                for i, j in pairs
            ]
            values = [[texts[n] for texts in rounds] for n in range(len(values))]
        ends = [v[0] for v in values]
        if c.inits:
            ends = self._combine(c.combiner, [self.scalar(v) for v in c.inits], ends)
        for value, text in zip(c.results, ends):
            self.bind(value, text)

    def _combine(self, combiner: Combiner, lhs: Sequence[str], rhs: Sequence[str]) -> list[str]:
        for value, text in zip([*combiner.lhs, *combiner.rhs], [*lhs, *rhs]):
            self.bind(value, text)
        self.emit(combiner.body)
        return [self.scalar(v) for v in combiner.results]

    def if_in_lanes(self, s: If) -> None:
        """Each lane by itself, with a branch of its own unless it is known whether it takes it."""
        var, lanes = self.vector_var, self.lanes
        assert var is not None
        conditions = [self._lane_in_range(s.index, s.low, s.high, n) for n in range(lanes)]
        results: list[list[str]] = []
        for lane, condition in enumerate(conditions):
            self.vector_var, self.lanes, self.lane = None, 1, lane
            self.vars[var] = str(lane)
            self.forget_lanes()
            if condition == "true":
                results.append(self.arm(s, self.texts([c.init for c in s.carries])))
            elif condition == "false":
                results.append(self.texts([c.init for c in s.carries]))
            else:
                self.branch(s, condition)
                results.append([self.env[c.result] for c in s.carries])
        self.vector_var, self.lanes, self.lane = var, lanes, 0
        self.vars[var] = "0"
        self.forget_lanes()
        for n, carry in enumerate(s.carries):
            self.bind_lanes(carry.result, [texts[n] for texts in results])


def own_number(w: FunctionWriter, register: str) -> str:
    """What a special register says, as an index: the number of the `THREAD` or of the `BLOCK`."""
    w.module.declare(register, "i32", [])
    return w.cast("zext", "i32", w.pure(f"call i32 @{register}()"), w.index)


def _neighbour(s: Shuffle, lane: int) -> int:
    """The lane whose value another one gets."""
    place = lane % s.width
    source = {
        ShuffleMode.XOR: place ^ s.number,
        ShuffleMode.DOWN: place + s.number,
        ShuffleMode.UP: place - s.number,
        ShuffleMode.FROM: s.number,
    }[s.mode]
    return lane - place + source if 0 <= source < s.width else lane
