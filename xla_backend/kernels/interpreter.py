"""Runs kernels in Python, one statement at a time and exactly as they are scheduled: slow and
plain, the meaning of the kernel IR.

    interpreter = Interpreter(kernel, operands)
    for step in interpreter.steps():      # each statement as it is executed
        print(step)                       # [block=2, i=0] Compute -> [0.5 1.5 2.5 3.5]
    interpreter.outputs()

Blocks of a grid run one after another in the order that one asks for; where they may wait for each
other, they take turns (`kernels.block_turns`). The threads of a block and the lanes of a vector run
in lockstep: a value inside their loops is an array with one axis for each. So do many blocks, and
the rounds of independent serial loops, where nobody looks at single steps (`run`): that is faster
by far, and finds rounds that are not independent after all. Accesses that a schedule must not make
raise (`kernels.races`): outside a buffer, of elements that nothing wrote, and by two blocks,
threads or rounds whose order is left open. What a kernel asks of a GPU can be counted on the way
(`kernels.counters`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import NO_ATTRIBUTES, Attributes, ParameterAttributes
from xla_backend.hlo.evaluator.conversions import convert_array
from xla_backend.hlo.evaluator.elementwise import ELEMENTWISE, Elementwise
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.at_once import MOST_AT_ONCE, blocks_at_once, own_buffers
from xla_backend.kernels.block_turns import (
    MEETINGS,
    TAKE_TURNS,
    BlockRun,
    BlockTurns,
    each_turn,
    waits_for_blocks,
)
from xla_backend.kernels.counters import KernelCounters
from xla_backend.kernels.group_work import GroupWork
from xla_backend.kernels.index import FloorDiv, Index, Parameter, Var
from xla_backend.kernels.interpreter_memory import Lockstep, Memory
from xla_backend.kernels.ir import (
    AsyncCopy,
    AsyncGroup,
    AsyncWait,
    Atomic,
    Await,
    AwaitArrivals,
    Barrier,
    BoxCopy,
    Buffer,
    BufferRole,
    Carry,
    Combination,
    Compute,
    Constant,
    ExpectBytes,
    GroupProduct,
    GroupWait,
    If,
    IndexValue,
    InRange,
    Kernel,
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
from xla_backend.kernels.matrix_tiles import LAYOUTS, WARP, multiply_add
from xla_backend.kernels.races import Axis, KernelRunError
from xla_backend.process.light_dataclasses import dataclass

GridOrder = Callable[[int], Iterable[int]]
_WITH_RESULT = (Compute, Load, Constant, IndexValue, InRange, Shuffle)


@dataclass(frozen=True, slots=True)
class Step:
    """One executed statement, the loop variables around it that have one value, and what it
    computed (None for stores): inside threads and lanes, an array with an axis for each."""

    statement: Statement
    position: dict[str, int]
    result: Any

    def __str__(self) -> str:
        where = ", ".join(f"{k}={v}" for k, v in self.position.items())
        return f"[{where}] {type(self.statement).__name__} -> {self.result}"


class Interpreter:
    """State of one execution: buffers (flat arrays of reals) and the values computed so far."""

    def __init__(
        self,
        kernel: Kernel,
        operands: Sequence[np.ndarray] = (),
        parameters: Mapping[str, int] | None = None,
        grid_order: GridOrder = range,
        *,
        memory: Mapping[Buffer, np.ndarray] | None = None,
        counters: KernelCounters | None = None,
        turns: BlockTurns = TAKE_TURNS,
    ) -> None:
        """`operands`: by operand number; complex arrays are taken as pairs of reals. In their
        place `memory` may hold a flat array for each buffer that a caller provides: the kernel
        works in it. `parameters`: the run-time numbers of the kernel, by name. `grid_order(n)`: the
        numbers of n blocks in the order in which they are to run. `counters`: to count in. `turns`:
        of blocks that wait for each other."""
        self.kernel = kernel
        self.values: dict[Value, np.ndarray] = {}
        self.variables: dict[Var | Parameter, int | np.ndarray] = {
            p: self._checked(p, (parameters or {})[p.name]) for p in kernel.parameters
        }
        self._grid_order = grid_order
        self._turns = turns
        self._running: BlockRun | None = None  # of blocks that take turns
        self._is_over = False  # its turn
        self._lockstep = Lockstep()  # around what is executed
        self._together = False
        self._mask: np.ndarray | None = None  # which of them take part; None: all
        self._counters = counters
        self._memory = Memory(
            kernel, operands, self._count, memory or {}, self._lockstep, self._position, counters
        )
        self._group_work = GroupWork(self._memory, self._lockstep, self._error)
        self._rules: dict[Compute | Atomic, tuple[Elementwise, Instruction]] = {}

    def _checked(self, parameter: Parameter, number: int) -> int:
        (low, high), unit = parameter.bounds, parameter.unit
        if not low <= number <= high or number % unit:
            raise KernelRunError(
                f"kernel {self.kernel.name!r} is called with {parameter.name}={number}, and takes "
                f"multiples of {unit} from {low} to {high}"
            )
        return number

    @property
    def memory(self) -> dict[Buffer, np.ndarray]:
        """What buffers hold now."""
        return self._memory.arrays

    def _count(self, buffer: Buffer) -> int:
        return buffer.size if buffer.count is None else int(self.index(buffer.count))

    def outputs(self) -> list[np.ndarray]:
        """Output buffers, flat, in order."""
        found = [b for b in self.kernel.buffers if b.role is BufferRole.OUTPUT]
        return [self.memory[b] for b in sorted(found, key=lambda b: b.number)]

    def run(self) -> list[np.ndarray]:
        """Execute everything; returns the outputs (flat arrays of reals). Rounds of serial loops
        that are independent run many at once, as threads would: it is an error if they are not."""
        self._together = True
        with np.errstate(all="ignore"):
            for _ in self.steps():
                pass
        return self.outputs()

    def steps(self) -> Iterator[Step]:
        """Execute one statement per item.

        Raises:
          KernelRunError: the kernel does what no kernel may do; see `kernels.races`.
        """
        for stage in self.kernel.stages:
            self._memory.begin_stage(waits_for_blocks(stage))
            if self._counters is not None:
                self._counters.begin_launch(self.kernel.buffers)
            yield from self._block([stage])

    # -- statements --------------------------------------------------------------------------------

    def _block(self, statements: Sequence[Statement]) -> Iterator[Step]:
        for s in statements:
            if isinstance(s, Loop):
                yield from self._loop(s)
            elif isinstance(s, If):
                yield from self._if(s)
            elif self._running is not None and isinstance(s, MEETINGS):
                yield from self._meeting(s, self._running)
            else:
                result = self._execute(s)
                if not self._together:
                    yield Step(s, self._position(), result)

    def _position(self) -> dict[str, int]:
        return {v.name: i for v, i in self.variables.items() if not isinstance(i, np.ndarray)}

    def _loop(self, s: Loop) -> Iterator[Step]:
        if s.kind is LoopKind.GRID:
            yield from self._grid(s)
        elif s.kind in (LoopKind.THREAD, LoopKind.LANES):
            yield from self._threads(s)
        elif self._may_run_together() and (own := own_buffers(self.kernel, s)) is not None:
            yield from self._at_once(s, own)
        else:
            yield from self._rounds(s)
        del self.variables[s.var]

    def _grid(self, s: Loop) -> Iterator[Step]:
        if self._counters is not None:
            self._counters.grid(s)
        if waits_for_blocks(s):
            yield from self._by_turns(s)
            return
        if not self._together:
            for block in self._grid_order(s.var.extent):
                self.variables[s.var] = block
                self._memory.begin_blocks(np.array([block]))
                self._group_work.begin_blocks()
                yield from self._block(s.body)
                self._group_work.end_blocks()
            return
        order = np.fromiter(self._grid_order(s.var.extent), np.int64)
        most = blocks_at_once(self.kernel, s)
        for first in range(0, order.size, most):
            blocks = order[first : first + most]
            self._lockstep.enter(Axis(LoopKind.GRID, blocks.size, s.var.name))
            self.variables[s.var] = blocks
            self._memory.begin_blocks(blocks)
            self._group_work.begin_blocks()
            yield from self._block(s.body)
            self._group_work.end_blocks()
            self._lockstep.leave()

    def _by_turns(self, s: Loop) -> Iterator[Step]:
        """Blocks that may wait for each other, each with values and memory of its own."""
        values, variables = self.values, self.variables
        for block in each_turn(self.kernel.name, self._grid_order(s.var.extent), self._turns):
            if block.state is None:
                self.values, self.variables = dict(values), {**variables, s.var: block.number}
                self._memory.begin_blocks(np.array([block.number]))
                block.steps = self._block(s.body)
            else:
                self.values, self.variables, self._mask, axes, memory = block.state
                self._lockstep.restore(axes)
                self._memory.return_to_block(memory)
            self._running, self._is_over, has_ended = block, False, True
            for step in block.steps:
                yield step
                if self._is_over:
                    has_ended = False
                    break
            left = self.values, self.variables, self._mask, self._lockstep.axes
            memory = self._memory.leave_block()
            block.state = None if has_ended else (*left, memory)
            self._mask = None
            self._lockstep.restore(())
        self._running = None
        self.values, self.variables = values, variables
        self.variables[s.var] = s.var.extent

    def _meeting(self, s: Statement, block: BlockRun) -> Iterator[Step]:
        """A statement by which threads know of others: another block may go on behind it, and has
        to where this one waits."""
        while isinstance(s, Await):
            block.waits = self._memory.await_signals(
                s.buffer, self.index(s.index), self._taking_part(s.guard)
            )
            if block.waits is None:
                break
            self._is_over = True
            yield Step(s, self._position(), None)
        result = self._execute(s)
        self._is_over = True
        yield Step(s, self._position(), result)

    def _may_run_together(self) -> bool:
        """Whether rounds of a serial loop may, if they are independent."""
        return self._together and all(axis.kind is LoopKind.GRID for axis in self._lockstep.axes)

    def _threads(self, s: Loop) -> Iterator[Step]:
        outer = self._mask
        extent = s.var.extent
        self._lockstep.enter(Axis(s.kind, extent, s.var.name))
        here = self._lockstep.count(extent)
        self.variables[s.var] = here
        for limit in s.limits:
            self._narrow(here < self.index(limit))
        yield from self._block(s.body)
        self._mask = outer
        if s.combination is None:
            self._lockstep.leave()
        else:
            yield from self._combine(s.combination)

    def _at_once(self, s: Loop, own: Sequence[Buffer]) -> Iterator[Step]:
        """Independent rounds, many at a time; each has its own memory in the buffers `own`."""
        outer = self._mask
        limits = [self.index(limit) for limit in s.limits]
        count = min([s.var.extent, *(int(np.max(limit)) for limit in limits)])
        most = max(MOST_AT_ONCE // self._lockstep.threads, 1)
        self._memory.barrier()
        for first in range(0, count, most):
            extent = min(count - first, most)
            self._lockstep.enter(Axis(LoopKind.SERIAL, extent, s.var.name, first))
            here = self._lockstep.count(extent, first)
            self.variables[s.var] = here
            for limit in s.limits:
                self._narrow(here < self.index(limit))
            yield from self._block(s.body)
            self._mask = outer
            self._lockstep.leave()
            self._memory.barrier()
            self._memory.forget(own)
        self.variables[s.var] = count

    def _combine(self, c: Combination) -> Iterator[Step]:
        """The halves of the last axis together, or neighbours, until one is left; the axis is gone
        then."""
        width = self._lockstep.shape[-1]
        shape = (1,) * (self._lockstep.depth - 1) + (width,)
        values = [
            np.broadcast_to(v, np.broadcast_shapes(v.shape, shape)) for v in self._all(c.values)
        ]
        while width > 1:
            width //= 2
            self._lockstep.narrow(width)
            lhs, rhs = slice(None, width), slice(width, None)
            if not c.combiner.commutes:
                lhs, rhs = slice(0, None, 2), slice(1, None, 2)
            yield from self._apply(c, [v[..., lhs] for v in values], [v[..., rhs] for v in values])
            values = self._all(c.combiner.results)
        self._lockstep.leave()
        values = [v[..., 0] for v in values]
        if c.inits:
            yield from self._apply(c, self._all(c.inits), values)
            values = self._all(c.combiner.results)
        self.values.update(zip(c.results, values))

    def _apply(
        self, c: Combination, lhs: Sequence[np.ndarray], rhs: Sequence[np.ndarray]
    ) -> Iterator[Step]:
        self.values.update(zip(c.combiner.lhs, lhs))
        self.values.update(zip(c.combiner.rhs, rhs))
        yield from self._block(c.combiner.body)

    def _rounds(self, s: Loop) -> Iterator[Step]:
        """Rounds of a serial loop; threads and lanes whose rounds are over wait for the others."""
        outer = self._mask
        count: Any = s.var.extent
        for limit in s.limits:
            count = np.minimum(count, self.index(limit))
        state = self._all([c.init for c in s.carries])
        here = count if outer is None else np.where(self._deep(outer), count, 0)
        rounds = int(np.max(here))
        for i in range(rounds):
            self.variables[s.var] = i
            self._mask = outer
            if isinstance(count, np.ndarray) and count.size > 1:
                self._narrow(i < count)
            state = yield from self._round(s.carries, state, s.body)
        self._mask = outer
        self.variables[s.var] = rounds
        self.values.update(zip([c.result for c in s.carries], state))

    def _round(
        self, carries: Sequence[Carry], state: Sequence[np.ndarray], body: Sequence[Statement]
    ) -> Generator[Step, None, list[np.ndarray]]:
        self.values.update(zip([c.phi for c in carries], state))
        yield from self._block(body)
        nexts = self._all([c.next for c in carries if c.next is not None])
        if self._mask is None:
            return nexts
        mask = self._deep(self._mask)
        return [np.where(mask, n, before) for n, before in zip(nexts, map(self._deep, state))]

    def _if(self, s: If) -> Iterator[Step]:
        outer = self._mask
        index = self.index(s.index)
        self._narrow((s.low <= index) & (index < s.high))
        state = self._all([c.init for c in s.carries])
        if self._mask is None or self._mask.any():
            state = yield from self._round(s.carries, state, s.body)
        self._mask = outer
        self.values.update(zip([c.result for c in s.carries], state))

    def _narrow(self, condition: Any) -> None:
        condition = np.asarray(condition)
        if not condition.all():
            self._mask = condition if self._mask is None else self._deep(self._mask) & condition

    # -- values ------------------------------------------------------------------------------------

    def _deep(self, array: np.ndarray) -> np.ndarray:
        """An array from outside some of the lockstep loops, with an axis for each of them."""
        depth = self._lockstep.depth
        if not 0 < array.ndim < depth:
            return array
        return array.reshape(array.shape + (1,) * (depth - array.ndim))

    def _value(self, value: Value) -> np.ndarray:
        return self._deep(self.values[value])

    def _all(self, values: Iterable[Value]) -> list[np.ndarray]:
        held = self.values
        return [self._deep(held[v]) for v in values]

    def index(self, index: Index) -> Any:
        """The present value of an index expression: an int, or an array of one for each lane."""
        total: Any = index.constant
        for atom, c in index.terms.items():
            number = self._atom(atom)
            part = number if c == 1 else c * number
            total = total + part if isinstance(total, np.ndarray) or total else part
        return total

    def _atom(self, atom: Any) -> Any:
        number = self.variables.get(atom)
        if number is not None:
            return self._deep(number) if isinstance(number, np.ndarray) else number
        if isinstance(atom, Value):
            return self._value(atom).astype(np.int64)
        inner = self.index(atom.index)
        return inner // atom.divisor if isinstance(atom, FloorDiv) else inner % atom.divisor

    def _taking_part(self, guard: Value | None) -> np.ndarray | None:
        """Which threads and lanes do; None: all."""
        mask = None if self._mask is None else self._deep(self._mask)
        if guard is None:
            return mask
        return self._value(guard) if mask is None else mask & self._value(guard)

    def _groups_taking_part(self, size: int | None = None) -> np.ndarray | None:
        """Which groups of `size` neighbouring threads (None: blocks) do; None: all.

        Raises:
          ValueError: some threads of a group do and others do not.
        """
        if self._mask is None:
            return None
        shape, blocks = self._lockstep.shape, self._lockstep.blocks
        taking = np.broadcast_to(self._deep(self._mask), shape)
        groups = taking.reshape(blocks, -1) if size is None else taking.reshape(-1, size)
        some = np.asarray(groups.any(axis=1))
        if (some != groups.all(axis=1)).any():
            raise ValueError("some threads of a group take part and others do not")
        return some

    # -- execution ---------------------------------------------------------------------------------

    def _execute(self, s: Statement) -> Any:
        if self._counters is not None:
            self._counters.statement(
                s, self._lockstep.axes, self._taking_part(getattr(s, "guard", None))
            )
        if self._group_work.is_multiplying and isinstance(s, Compute | Store | Shuffle | Atomic):
            self._check_finished(s)
        if isinstance(s, _WITH_RESULT):
            result = np.asarray(self._result(s))
            self.values[s.result] = result
            return result
        if isinstance(s, Store):
            at, active = self.index(s.index), self._taking_part(s.guard)
            for i, value in enumerate(s.values):
                self._write(s.buffer, at + i, active, self._value(value))
        elif isinstance(s, Move):
            active = self._taking_part(None)
            element = self._read(s.buffer, self.index(s.index), active)
            self._write(s.target, self.index(s.target_index), active, element)
        elif isinstance(s, Transpose):
            self._transpose(s)
        elif isinstance(s, Atomic):
            self._atomic(s)
        elif isinstance(s, MatrixTile):
            self._matrix_tile(s)
        elif isinstance(s, MatrixLoad):
            self._matrix_load(s)
        elif isinstance(s, AsyncCopy):
            self._async_copy(s)
        elif isinstance(s, AsyncGroup):
            self._together_only("makes a group of copies")
            self._memory.group_copies()
        elif isinstance(s, AsyncWait):
            self._together_only("waits for copies")
            self._memory.await_copies(s.pending)
        elif isinstance(s, Barrier):
            self._barrier()
        elif isinstance(s, AwaitArrivals | GroupProduct | GroupWait):
            self._of_all_threads(s)
        elif isinstance(s, PrepareArrivals | ExpectBytes | BoxCopy):
            self._of_one_thread(s)
        elif isinstance(s, Ticket):
            self._ticket(s)
        elif isinstance(s, Signal):
            self._memory.signal(s.buffer, self.index(s.index), self._taking_part(s.guard))
        else:
            assert isinstance(s, Await), s  # who waits has waited, here
        return None

    def _check_finished(self, s: Compute | Store | Shuffle | Atomic) -> None:
        if isinstance(s, Compute):
            used = s.operands
        else:
            used = s.values if isinstance(s, Store) else (s.value,)
        self._group_work.check_finished([self.values[v] for v in used])

    def _of_one_thread(self, s: PrepareArrivals | ExpectBytes | BoxCopy) -> None:
        """What one thread does for its block."""
        work, threads = self._group_work, np.arange(self._lockstep.threads)
        if self._mask is not None:
            taking = np.broadcast_to(self._deep(self._mask), self._lockstep.shape)
            threads = np.flatnonzero(taking)
        if isinstance(s, PrepareArrivals):
            work.prepare(s.arrivals, threads)
        elif isinstance(s, ExpectBytes):
            work.expect(s.arrivals, self._by_thread(s.index), s.count, threads)
        else:
            at = [self._by_thread(i) for i in s.at]
            target, arrival = self._by_thread(s.target_index), self._by_thread(s.arrival)
            work.copy(s, at, target, arrival, threads)

    def _of_all_threads(self, s: AwaitArrivals | GroupProduct | GroupWait) -> None:
        """What all threads of a block do together."""
        work = self._group_work
        if isinstance(s, AwaitArrivals):
            self._together_only("waits for what arrives")
            index, parity = self._by_thread(s.index), self._by_thread(s.parity)
            work.await_arrivals(s.arrivals, index, parity)
        elif isinstance(s, GroupProduct):
            self._together_only("multiplies")
            starts = self._by_thread(s.lhs.index), self._by_thread(s.rhs.index)
            results = work.multiply(s, starts, [self.values[v] for v in s.sums])
            self.values.update(zip(s.results, results))
        else:
            self._together_only("waits for products")
            work.wait(s.pending)
            self.values.update(zip(s.results, [self.values[v] for v in s.values]))

    def _by_thread(self, index: Index) -> np.ndarray:
        """An index in each of the threads of all blocks."""
        return np.broadcast_to(np.asarray(self.index(index)), self._lockstep.shape).reshape(-1)

    def _barrier(self) -> None:
        try:
            blocks = self._groups_taking_part()
        except ValueError:
            raise self._error("has a barrier that only some threads of a block come to") from None
        self._memory.barrier(blocks)

    def _ticket(self, s: Ticket) -> None:
        taker = np.broadcast_to(self._value(s.taker), self._lockstep.shape)
        if np.count_nonzero(taker) != 1:
            raise self._error(f"takes {np.count_nonzero(taker)} tickets for a block, and not one")
        number = self._memory.take_ticket(s.buffer, self.index(s.index), taker)
        self._barrier()
        self.values[s.result] = np.asarray(number, s.result.type.numpy_dtype)

    def _together_only(self, what: str) -> None:
        if self._mask is not None and not self._mask.all():
            raise self._error(f"{what} in some threads, and not in all")

    def _read(self, buffer: Buffer, at: Any, active: np.ndarray | None) -> np.ndarray:
        return self._memory.read(buffer, at, active)

    def _write(
        self, buffer: Buffer, at: Any, active: np.ndarray | None, values: np.ndarray
    ) -> None:
        self._memory.write(buffer, at, active, values)

    def _error(self, what: str, kind: type[KernelRunError] = KernelRunError) -> KernelRunError:
        where = ", ".join(f"{k}={v}" for k, v in self._position().items())
        return kind(f"kernel {self.kernel.name!r} {what}, at [{where}]")

    def _result(
        self, s: Compute | Load | Constant | IndexValue | InRange | Shuffle
    ) -> np.ndarray | np.generic:
        if isinstance(s, Compute):
            return self._elementwise(s, s.result.type, self._all(s.operands))
        if isinstance(s, Load):
            return self._read(s.buffer, self.index(s.index), self._taking_part(s.guard))
        if isinstance(s, Constant):
            return s.value
        if isinstance(s, IndexValue):
            return convert_array(np.asarray(self.index(s.index), np.int64), s.result.type)
        if isinstance(s, InRange):
            index = self.index(s.index)
            return np.asarray((s.low <= index) & (index < s.high))
        return self._shuffle(s)

    def _elementwise(
        self, s: Compute | Atomic, type: PrimitiveType, operands: list[np.ndarray]
    ) -> np.ndarray:
        if s.opcode is Opcode.BITCAST_CONVERT:
            return operands[0].view(type.numpy_dtype)
        shape = operands[0].shape
        for operand in operands:
            if operand.shape != shape:
                operands = list(np.broadcast_arrays(*operands))
                break
        rule = self._rules.get(s)
        if rule is None:
            rule = self._rules[s] = ELEMENTWISE[s.opcode], _node(s, type)
        function, node = rule
        if self._together:
            return np.asarray(function(node, *operands))
        with np.errstate(all="ignore"):
            return np.asarray(function(node, *operands))

    def _transpose(self, s: Transpose) -> None:
        # Every element is read before any is written.
        active = self._taking_part(None)
        place = np.arange(s.size * s.size)
        self._lockstep.enter(Axis(LoopKind.LANES, place.size, "tile"))
        axes = (1,) * (self._lockstep.depth - 1)
        turned = place.reshape(s.size, s.size).T.reshape(*axes, -1)
        active = None if active is None else self._deep(active)
        self._write(
            s.target, place.reshape(*axes, -1), active, self._read(s.source, turned, active)
        )
        self._lockstep.leave()

    def _async_copy(self, s: AsyncCopy) -> None:
        """Neighbours as lanes; they are in memory at once, and nobody may look before a wait."""
        active, read = self._taking_part(None), self._taking_part(s.guard)
        source, target = self.index(s.index), self.index(s.target_index)
        size = s.count * s.buffer.element_type.byte_size
        for buffer, at, made in ((s.buffer, source, read), (s.target, target, active)):
            odd = np.asarray(at) % s.count != 0
            if (odd if made is None else odd & made).any():
                raise self._error(f"copies {buffer.name} from no multiple of {size} bytes")
        self._lockstep.enter(Axis(LoopKind.LANES, s.count, "element"))
        lanes = self._lockstep.count(s.count)
        self._memory.copy(
            (s.buffer, self._deep(np.asarray(source)) + lanes, self._deeper(read)),
            (s.target, self._deep(np.asarray(target)) + lanes, self._deeper(active)),
        )
        self._lockstep.leave()

    def _deeper(self, active: np.ndarray | None) -> np.ndarray | None:
        return None if active is None else self._deep(active)

    def _matrix_load(self, s: MatrixLoad) -> None:
        """One access for each matrix: threads read where their elements are, which is in the rows
        that others name."""
        size = s.buffer.element_type.byte_size
        shape = self._whole_warps("loads matrices")
        each, row_length = 4 // size, 16 // size
        starts = np.broadcast_to(np.asarray(self.index(s.index)), shape).reshape(-1, WARP)
        thread = np.arange(WARP)[:, None]
        element = np.arange(each)[None, :]
        row, column = thread // 4, thread % 4 * each + element
        if s.transposed:
            # Pairs of bytes are turned as elements of two bytes are.
            row = thread % 4 * 2 + element * size // 2
            column = thread // 4 * (2 // size) + element % (2 // size)
        active = self._taking_part(None)
        for n in range(len(s.results) // each):
            named = starts[:, 8 * n : 8 * n + 8]
            if active is None and (named % row_length).any():
                raise self._error(f"loads rows of {s.buffer.name} from no multiple of 16 bytes")
            at = (named[:, row] + column).reshape(*shape, each)
            self._lockstep.enter(Axis(LoopKind.LANES, each, "element"))
            found = self._read(s.buffer, at, self._deeper(active))
            self._lockstep.leave()
            for i, result in enumerate(s.results[n * each : (n + 1) * each]):
                self.values[result] = found[..., i]

    def _atomic(self, s: Atomic) -> None:
        """One thread or lane after another."""

        def update(old: np.ndarray, new: np.ndarray) -> np.ndarray:
            return self._elementwise(s, s.value.type, [old, new])

        self._memory.update(
            s.buffer,
            self.index(s.index),
            self._taking_part(s.guard),
            self._value(s.value),
            update,
        )

    def _shuffle(self, s: Shuffle) -> np.ndarray:
        if not self._lockstep.depth or self._lockstep.shape[-1] % s.width:
            raise self._error(f"shuffles groups of {s.width} where there are none")
        try:
            self._groups_taking_part(s.width)
        except ValueError:
            raise self._error("shuffles values of threads that do not take part") from None
        extent = self._lockstep.shape[-1]
        value = self._value(s.value)
        outer = value.shape[:-1] or (1,) * (self._lockstep.depth - 1)
        value = np.broadcast_to(value, (*outer, extent))
        own = np.arange(extent)
        place = own % s.width
        source = {
            ShuffleMode.XOR: place ^ s.number,
            ShuffleMode.DOWN: place + s.number,
            ShuffleMode.UP: place - s.number,
            ShuffleMode.FROM: np.full_like(place, s.number),
        }[s.mode]
        found = (source >= 0) & (source < s.width)
        return value[..., np.where(found, own - place + source, own)]

    def _whole_warps(self, what: str) -> tuple[int, ...]:
        """The loops around, if warps take part as a whole."""
        if not self._lockstep.depth or self._lockstep.shape[-1] % WARP:
            raise self._error(f"{what} where there are no {WARP} threads together")
        try:
            self._groups_taking_part(WARP)
        except ValueError:
            raise self._error(
                f"{what} with some of {WARP} threads together, and takes all"
            ) from None
        return self._lockstep.shape

    def _matrix_tile(self, s: MatrixTile) -> None:
        """Threads by the warp put their parts together, multiply, and take their parts."""
        shape = self._whole_warps("multiplies tiles")
        layout = LAYOUTS[s.shape]
        lhs, rhs, total = (
            layout.matrices(part, [np.broadcast_to(v, shape).reshape(-1, WARP) for v in values])
            for part, values in (
                ("lhs", self._all(s.lhs)),
                ("rhs", self._all(s.rhs)),
                ("sum", self._all(s.sums)),
            )
        )
        total = multiply_add(lhs, rhs, total)
        for result, part in zip(s.results, layout.parts("sum", total)):
            self.values[result] = part.reshape(shape)


def _node(s: Compute | Atomic, type: PrimitiveType) -> Instruction:
    """An instruction that stands for the statement: the evaluator's rules take one."""
    types = tuple(o.type for o in s.operands) if isinstance(s, Compute) else (type, type)
    given = s.attributes if isinstance(s, Compute) else None
    return _scalar_instruction(s.opcode, type, types, NO_ATTRIBUTES if given is None else given)


@lru_cache(maxsize=1024)
def _scalar_instruction(
    opcode: Opcode, type: PrimitiveType, types: tuple[PrimitiveType, ...], attributes: Attributes
) -> Instruction:
    operands = [
        Instruction(Opcode.PARAMETER, Shape.array(t), (), ParameterAttributes(i))
        for i, t in enumerate(types)
    ]
    return Instruction(opcode, Shape.array(type), operands, attributes)


def run_kernel(
    kernel: Kernel,
    operands: Sequence[np.ndarray],
    shapes: Sequence[Shape],
    parameters: Mapping[str, int] | None = None,
    grid_order: GridOrder = range,
    turns: BlockTurns = TAKE_TURNS,
) -> list[np.ndarray]:
    """Interpret a kernel and give its outputs their shapes."""
    results = Interpreter(kernel, operands, parameters, grid_order, turns=turns).run()
    return [
        r.view(s.element_type.numpy_dtype).reshape(s.dimensions) for r, s in zip(results, shapes)
    ]
