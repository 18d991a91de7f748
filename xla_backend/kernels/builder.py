"""Builds loop nests. Each statement is put into the outermost loop in which its operands are known,
and equal statements are made once, so that nothing is computed twice and loop invariants need no
later pass."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.index import Index, Parameter, Var, constant
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
    BufferRole,
    Carry,
    Combination,
    Combiner,
    Compute,
    Constant,
    ExpectBytes,
    GroupProduct,
    GroupWait,
    If,
    IndexValue,
    InRange,
    Kernel,
    Lines,
    Load,
    Loop,
    LoopKind,
    MatrixLoad,
    MatrixTile,
    PrepareArrivals,
    Shuffle,
    ShuffleMode,
    Signal,
    Statement,
    Store,
    Ticket,
    Value,
)


class _Block:
    """The body of a loop or condition that is built: its statements, and whether it is open, so
    that what they compute is at hand."""

    __slots__ = ("holds_loads", "is_open", "loop", "statements", "suspended")

    def __init__(self, loop: Loop | If | None, statements: list[Statement]) -> None:
        self.loop = loop
        # Whether what is read inside is not to be read outside: the memory of threads is theirs to
        # read, and what a condition guards may lie outside a buffer.
        self.holds_loads = (
            loop.kind is LoopKind.THREAD if isinstance(loop, Loop) else loop is not None
        )
        self.statements = statements
        self.is_open = True
        self.suspended: list[
            _Block
        ] = []  # inner blocks set aside while a loop is built further out


class LoopBuilder:
    """Appends statements to a kernel. Depth 0 is outside all loops."""

    def __init__(self, name: str) -> None:
        self.kernel = Kernel(name)
        self._blocks = [_Block(None, self.kernel.stages)]
        self._next = 0
        self._vars = 0
        # What was computed, by key, with the block that it is at hand in.
        self._memo: dict[Hashable, tuple[_Block, Any]] = {}
        self._numbers: dict[Hashable, int] = {}

    # -- buffers -----------------------------------------------------------------------------------

    def buffer(
        self,
        name: str,
        type: PrimitiveType,
        size: int | Parameter,
        role: BufferRole,
        number: int = 0,
        data: np.ndarray | None = None,
    ) -> Buffer:
        """Declare a buffer; complex arrays become arrays of pairs of reals."""
        count = None
        if isinstance(size, Parameter):
            count, size = Index.of(size), size.bounds[1]
        if type.is_complex:
            type, size = real_type(type), 2 * size
            count = count * 2 if count else None
        result = Buffer(name, type, size, role, number, data, count)
        self.kernel.buffers.append(result)
        return result

    def parameter(self, name: str, bounds: tuple[int, int]) -> Parameter:
        """Declare a number that the caller supplies."""
        result = Parameter(name, bounds)
        self.kernel.parameters.append(result)
        return result

    # -- memo --------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        return len(self._blocks) - 1

    @property
    def _floor(self) -> int:
        """The depth that loads and loops do not leave."""
        blocks = self._blocks
        for n in range(len(blocks) - 1, 0, -1):
            if blocks[n].holds_loads:
                return n
        return 0

    def number_of(self, part: Hashable) -> int:
        """A number for something that is part of many keys, which is then hashed once."""
        numbers = self._numbers
        return numbers.setdefault(part, len(numbers))

    def lookup(self, key: Hashable) -> Any:
        """What is remembered under a key, if it is at hand here; or None."""
        found = self._memo.get(key)
        return found[1] if found is not None and found[0].is_open else None

    def remember(self, key: Hashable, result: Any) -> None:
        """Have `lookup` find a value, or a (nested) sequence of values, as long as the block is
        open that they were computed in."""
        blocks = self._blocks
        depth = result.depth if isinstance(result, Value) else _depth_of(result)
        self._memo[key] = (blocks[depth] if depth < len(blocks) else blocks[-1], result)

    def _value(
        self, type: PrimitiveType, depth: int, bounds: tuple[int, int] | None = None
    ) -> Value:
        self._next += 1
        return Value(type, depth, self._next, bounds)

    def _emit(
        self,
        key: Hashable,
        type: PrimitiveType,
        depth: int,
        make: Callable[[Value], Statement],
        bounds: tuple[int, int] | None = None,
    ) -> Value:
        found = self._memo.get(key)
        if found is not None and found[0].is_open:
            return found[1]
        self._next += 1
        result = Value(type, depth, self._next, bounds)
        block = self._blocks[depth]
        block.statements.append(make(result))
        self._memo[key] = (block, result)
        return result

    # -- statements --------------------------------------------------------------------------------

    def constant(self, type: PrimitiveType, value: Any) -> Value:
        scalar = value
        if not isinstance(value, np.generic) or value.dtype is not type.numpy_dtype:
            scalar = np.asarray(value).astype(type.numpy_dtype)[()]
        key = ("constant", type, scalar.tobytes())
        return self._emit(key, type, 0, lambda r: Constant(r, scalar))

    def compute(
        self,
        opcode: Opcode,
        type: PrimitiveType,
        operands: Sequence[Value],
        attributes: Any = None,
        bounds: tuple[int, int] | None = None,
    ) -> Value:
        # As `_emit` does it, without a function for each of the many operations.
        operands = tuple(operands)
        key = (opcode, type, operands, attributes, bounds)
        found = self._memo.get(key)
        if found is not None and found[0].is_open:
            return found[1]
        depth = 0
        for operand in operands:
            if operand.depth > depth:
                depth = operand.depth
        self._next += 1
        result = Value(type, depth, self._next, bounds)
        block = self._blocks[depth]
        block.statements.append(Compute(result, opcode, operands, attributes))
        self._memo[key] = (block, result)
        return result

    def load(
        self, buffer: Buffer, index: Index, guard: Value | None = None, *, mutable: bool = False
    ) -> Value:
        """`mutable`: the buffer is written in this nest, so the load stays where it is and is never
        shared."""
        if mutable:
            result = self._value(buffer.element_type, self.depth)
            self._blocks[-1].statements.append(Load(result, buffer, index, guard))
            return result
        depth = max(index.depth, self._floor)
        if guard is not None and guard.depth > depth:
            depth = guard.depth
        return self._emit(
            ("load", buffer, index, guard),
            buffer.element_type,
            depth,
            lambda r: Load(r, buffer, index, guard),
        )

    def store(
        self, buffer: Buffer, index: Index, values: Sequence[Value], guard: Value | None = None
    ) -> None:
        self._blocks[-1].statements.append(Store(buffer, index, tuple(values), guard))

    # -- threads that work together ----------------------------------------------------------------

    def barrier(self) -> None:
        """All threads of the block have done what is above."""
        self._blocks[-1].statements.append(Barrier())

    def atomic(
        self,
        buffer: Buffer,
        index: Index,
        opcode: Opcode,
        value: Value,
        guard: Value | None = None,
    ) -> None:
        """Combine a value into an element that other threads may update, too."""
        self._blocks[-1].statements.append(Atomic(buffer, index, opcode, value, guard))

    def shuffle(self, value: Value, mode: ShuffleMode, number: int, width: int = 32) -> Value:
        """The value that a neighbour in a group of `width` threads has."""
        result = self._value(value.type, self.depth)
        self._blocks[-1].statements.append(Shuffle(result, value, mode, number, width))
        return result

    def matrix_tile(
        self,
        shape: tuple[int, int, int],
        lhs: Sequence[Value],
        rhs: Sequence[Value],
        sums: Sequence[Value],
    ) -> list[Value]:
        """lhs @ rhs + sums, of which each of 32 threads holds a part."""
        results = [self._value(v.type, self.depth) for v in sums]
        tile = MatrixTile(shape, tuple(results), tuple(lhs), tuple(rhs), tuple(sums))
        self._blocks[-1].statements.append(tile)
        return results

    def matrix_load(
        self, buffer: Buffer, index: Index, count: int, *, transposed: bool = False
    ) -> list[list[Value]]:
        """What this thread of 32 gets of each of `count` small matrices in shared memory."""
        each = 4 // buffer.element_type.byte_size
        results = [self._value(buffer.element_type, self.depth) for _ in range(count * each)]
        load = MatrixLoad(tuple(results), buffer, index, transposed)
        self._blocks[-1].statements.append(load)
        return [results[n : n + each] for n in range(0, count * each, each)]

    # -- blocks that know of each other ------------------------------------------------------------

    def ticket(
        self, counter: tuple[Buffer, Index], shared: Buffer, taker: Value, count: int
    ) -> Index:
        """The number of the block in the order in which blocks get here, of which there are
        `count`. `counter`: buffer and place, zero at first; the others: see `ir.Ticket`."""
        buffer, index = counter
        result = self._value(buffer.element_type, self.depth, (0, count - 1))
        self._blocks[-1].statements.append(Ticket(result, buffer, index, shared, taker))
        return Index.of(result)

    def signal(self, buffer: Buffer, index: Index, guard: Value | None = None) -> None:
        """Tell those who wait that this thread has done what is above."""
        self._blocks[-1].statements.append(Signal(buffer, index, guard))

    def await_signal(self, buffer: Buffer, index: Index, guard: Value | None = None) -> None:
        """Go on when another thread has signalled so."""
        self._blocks[-1].statements.append(Await(buffer, index, guard))

    # -- copies beside the threads -----------------------------------------------------------------

    def async_copy(
        self,
        target: Buffer,
        target_index: Index,
        source: tuple[Buffer, Index, Value | None],
        count: int,
    ) -> None:
        """Begin to copy neighbours; `source`: buffer, index, and the guard without which they are
        zeros."""
        buffer, index, guard = source
        copy = AsyncCopy(target, target_index, buffer, index, count, guard)
        self._blocks[-1].statements.append(copy)

    def async_group(self) -> None:
        """What each thread has begun to copy since its last group is one."""
        self._blocks[-1].statements.append(AsyncGroup())

    def async_wait(self, pending: int) -> None:
        """Wait for all groups but the last `pending` ones."""
        self._blocks[-1].statements.append(AsyncWait(pending))

    def prepare_arrivals(self, arrivals: Buffer) -> None:
        """Let elements of shared memory count what arrives."""
        self._blocks[-1].statements.append(PrepareArrivals(arrivals))

    def expect_bytes(self, arrivals: Buffer, index: Index, count: int) -> None:
        """So many bytes arrive in the present phase."""
        self._blocks[-1].statements.append(ExpectBytes(arrivals, index, count))

    def box_copy(
        self,
        target: tuple[Buffer, Index],
        source: tuple[Buffer, BoxedArray],
        at: Sequence[Index],
        arrival: tuple[Buffer, Index],
    ) -> None:
        """Begin to copy a box, whose bytes arrive at an element of `arrivals`."""
        copy = BoxCopy(*target, *source, tuple(at), *arrival)
        self._blocks[-1].statements.append(copy)

    def await_arrivals(self, arrivals: Buffer, index: Index, parity: Index) -> None:
        """Wait for the end of a phase."""
        self._blocks[-1].statements.append(AwaitArrivals(arrivals, index, parity))

    # -- groups of 128 threads ---------------------------------------------------------------------

    def group_product(
        self, shape: tuple[int, int, int], lhs: Lines, rhs: Lines, sums: Sequence[Value]
    ) -> list[Value]:
        """Begin to multiply what lies in shared memory."""
        results = [self._value(v.type, self.depth) for v in sums]
        product = GroupProduct(shape, tuple(results), lhs, rhs, tuple(sums))
        self._blocks[-1].statements.append(product)
        return results

    def group_wait(self, pending: int, values: Sequence[Value]) -> list[Value]:
        """Wait for all products but the last `pending` ones; what the sums are then."""
        results = [self._value(v.type, self.depth) for v in values]
        self._blocks[-1].statements.append(GroupWait(pending, tuple(results), tuple(values)))
        return results

    def argument(self, type: PrimitiveType, bounds: tuple[int, int] | None = None) -> Value:
        """A value that the user of the kernel supplies."""
        return self._value(type, 0, bounds)

    def index_value(self, index: Index, type: PrimitiveType) -> Value:
        if index.is_constant:
            return self.constant(type, index.constant)
        if len(index.terms) == 1 and index.constant == 0:
            ((atom, c),) = index.terms.items()
            if c == 1 and isinstance(atom, Value) and atom.type is type:
                return atom
        return self._emit(("index", index, type), type, index.depth, lambda r: IndexValue(r, index))

    def in_range(self, index: Index, low: int, high: int) -> Value | bool:
        """low <= index < high; a bool if the bounds of the index decide it."""
        a, b = index.bounds
        if low <= a and b < high:
            return True
        if b < low or a >= high:
            return False
        return self._emit(
            ("in range", index, low, high),
            PrimitiveType.PRED,
            index.depth,
            lambda r: InRange(r, index, low, high),
        )

    def conjunction(
        self, lhs: Value | bool | None, rhs: Value | bool | None
    ) -> Value | bool | None:
        """Logical and of guards; None and True both stand for always."""
        if lhs is None or lhs is True:
            return rhs
        if rhs is None or rhs is True or lhs is False:
            return lhs
        if rhs is False or lhs is rhs:
            return rhs
        return self.compute(Opcode.AND, PrimitiveType.PRED, (lhs, rhs))

    # -- loops -------------------------------------------------------------------------------------

    def open_loop(
        self,
        extent: int | Parameter,
        *,
        depth: int | None = None,
        inits: Sequence[Value] = (),
        independent: bool = False,
        may_vectorize: bool = False,
        name: str | None = None,
        kind: LoopKind = LoopKind.SERIAL,
        limits: tuple[Index, ...] = (),
    ) -> tuple[Index, list[Value]]:
        """Begin a loop in the block at `depth` (default: the innermost); returns its variable and
        the carried values.

        A loop of extent 1 is still a loop. Extent 0 is the caller's business, unless it is known at
        run time only.
        """
        if isinstance(extent, Parameter):
            limits, extent = (Index.of(extent), *limits), extent.bounds[1]
        assert extent > 0
        at = self.depth if depth is None else max(depth, self._floor)
        suspended = self._blocks[at + 1 :]
        del self._blocks[at + 1 :]
        for inner_block in suspended:
            inner_block.is_open = False
        inner = at + 1
        self._vars += 1
        var = Var(name or _loop_name(self._vars - 1), extent, inner)
        loop = Loop(
            var, independent=independent, may_vectorize=may_vectorize, limits=limits, kind=kind
        )
        block = _Block(loop, loop.body)
        block.suspended = suspended
        self._blocks.append(block)
        for init in inits:
            loop.carries.append(
                Carry(self._value(init.type, inner), init, self._value(init.type, at))
            )
        index = Index.of(var) if extent > 1 else constant(0)
        return index, [c.phi for c in loop.carries]

    @property
    def innermost(self) -> Loop:
        """The loop that is closed next."""
        loop = self._blocks[-1].loop
        assert isinstance(loop, Loop)
        return loop

    def close_loop(
        self,
        nexts: Sequence[Value] = (),
        combiner: Combiner | None = None,
        identities: Sequence[Any] = (),
        elements: Sequence[Value] = (),
    ) -> list[Value]:
        """End the innermost loop; returns the results of its carried values."""
        block = self._close()
        loop = block.loop
        assert isinstance(loop, Loop) and len(nexts) == len(loop.carries)
        for i, (carry, value) in enumerate(zip(loop.carries, nexts)):
            carry.next = value
            if identities:
                carry.identity = identities[i]
        loop.combiner = combiner
        loop.elements = tuple(elements)
        self._blocks[-1].statements.append(loop)
        self._resume(block.suspended)
        return [c.result for c in loop.carries]

    def _close(self) -> _Block:
        block = self._blocks.pop()
        block.is_open = False
        return block

    def _resume(self, suspended: list[_Block]) -> None:
        for block in suspended:
            block.is_open = True
        self._blocks.extend(suspended)

    def close_lanes(self, values: Sequence[Value], combiner: Combiner) -> list[Value]:
        """End the innermost loop, which is one of lanes; returns what the values of all of them are
        together."""
        block = self._close()
        loop = block.loop
        assert isinstance(loop, Loop) and loop.kind is LoopKind.LANES
        results = [self._value(v.type, self.depth) for v in values]
        loop.combination = Combination(list(values), [], results, combiner)
        self._blocks[-1].statements.append(loop)
        self._resume(block.suspended)
        return results

    @contextmanager
    def loop(
        self, extent: int, kind: LoopKind = LoopKind.SERIAL, limits: tuple[Index, ...] = ()
    ) -> Iterator[Index]:
        """A loop around what is built inside, which carries nothing; its rounds are independent
        unless it is serial."""
        independent = kind not in (LoopKind.SERIAL, LoopKind.UNROLLED)
        index, _ = self.open_loop(extent, kind=kind, limits=limits, independent=independent)
        yield index
        self.close_loop()

    def open_if(self, index: Index, low: int, high: int, inits: Sequence[Value] = ()) -> None:
        """Begin a body that runs where low <= index < high, in the innermost block. Where it does
        not, the results of `close_if` are the `inits`."""
        at = self.depth
        condition = If(index, low, high)
        for init in inits:
            phi, result = self._value(init.type, at + 1), self._value(init.type, at)
            condition.carries.append(Carry(phi, init, result))
        self._blocks.append(_Block(condition, condition.body))

    def close_if(self, nexts: Sequence[Value] = ()) -> list[Value]:
        """End the innermost condition; returns its results."""
        condition = self._close().loop
        assert isinstance(condition, If) and len(nexts) == len(condition.carries)
        for carry, value in zip(condition.carries, nexts):
            carry.next = value
        self._blocks[-1].statements.append(condition)
        return [c.result for c in condition.carries]

    @contextmanager
    def where(self, index: Index, low: int, high: int) -> Iterator[None]:
        """A condition around what is built inside, which hands nothing on."""
        self.open_if(index, low, high)
        yield
        self.close_if()

    def combiner(
        self,
        types: Sequence[PrimitiveType],
        body: Callable[[list[Value], list[Value]], list[Value]],
        *,
        commutes: bool = True,
    ) -> Combiner:
        """Build a combiner from a function of two lists of values that emits statements into this
        builder."""
        saved = self._blocks, self._memo
        statements: list[Statement] = []
        self._blocks, self._memo = [_Block(None, statements)], {}
        lhs = [self._value(t, 0) for t in types]
        rhs = [self._value(t, 0) for t in types]
        results = body(lhs, rhs)
        self._blocks, self._memo = saved
        return Combiner(lhs, rhs, statements, results, commutes)


def _depth_of(element: Any) -> int:
    if isinstance(element, Value):
        return element.depth
    return max(map(_depth_of, element), default=0)


def real_type(type: PrimitiveType) -> PrimitiveType:
    """The type of the parts of a complex type; other types are their own."""
    if type is PrimitiveType.C64:
        return PrimitiveType.F32
    return PrimitiveType.F64 if type is PrimitiveType.C128 else type


def _loop_name(n: int) -> str:
    letters = "ijklmnopqrstuvwxyz"
    return letters[n] if n < len(letters) else f"i{n}"
