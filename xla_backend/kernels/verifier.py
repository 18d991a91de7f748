"""Checks that a kernel is well formed: what steps on it rely on, and must leave behind.

    verify_kernel(kernel, after="vectorise")

Values are defined once, before they are used and where they are seen; loops nest as what runs them
does; conditions, limits and indices speak of loops around them and of declared parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.index import QUOTIENTS, ZERO, Atom, Index, Parameter
from xla_backend.kernels.ir import (
    HANDOVERS,
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
    Signal,
    Statement,
    Store,
    Ticket,
    Transpose,
    Value,
    walk,
)
from xla_backend.kernels.lines import LINE
from xla_backend.kernels.matrix_tiles import GROUP_ROWS, LAYOUTS, group_registers

# Of a box.
_MOST_ROWS = 256
_ATOMIC = frozenset({Opcode.ADD, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.AND, Opcode.OR, Opcode.XOR})
# What may be around a loop of each kind; None: anything.
_OUTSIDE = {
    LoopKind.GRID: frozenset[LoopKind](),
    LoopKind.THREAD: frozenset({LoopKind.GRID, LoopKind.THREAD, LoopKind.SERIAL}),
    LoopKind.LANES: frozenset({LoopKind.GRID, LoopKind.THREAD, LoopKind.SERIAL, LoopKind.UNROLLED}),
}


# What blocks that take turns (`block_turns`) have not.
_OF_GROUPS = (PrepareArrivals, ExpectBytes, BoxCopy, AwaitArrivals, GroupProduct, GroupWait)


class KernelVerificationError(ValueError):
    """A kernel is not well formed."""


def verify_kernel(kernel: Kernel, after: str = "") -> None:
    """Check a kernel; `after` names the step that made it so.

    Raises:
      KernelVerificationError: with the statement and what is wrong with it.
    """
    _Verifier(kernel, after).run()


class _Verifier:
    def __init__(self, kernel: Kernel, after: str) -> None:
        self.kernel = kernel
        self.after = f" after step {after!r}" if after else ""
        self.buffers = set(kernel.buffers)
        self.values: set[Value] = set()  # that are seen here
        self.defined: set[Value] = set()  # anywhere
        self.loops: list[Loop] = []

    def run(self) -> None:
        names = [b.name for b in self.kernel.buffers] + [p.name for p in self.kernel.parameters]
        for name in names:
            if names.count(name) > 1:
                self._fail(f"two buffers or parameters are called {name}")
        self._block(self.kernel.stages)

    def _fail(self, what: str) -> None:
        around = ", ".join(f"{l.kind.value} {l.var.name}" for l in self.loops) or "no loop"
        raise KernelVerificationError(
            f"kernel {self.kernel.name!r}{self.after}: {what} (inside {around})"
        )

    # -- values ------------------------------------------------------------------------------------

    def _define(self, values: Iterable[Value]) -> None:
        for value in values:
            if value in self.defined:
                self._fail(f"{value} has two definitions")
            self.defined.add(value)
            self.values.add(value)

    def _use(self, values: Iterable[Value | None]) -> None:
        for value in values:
            if value is not None and value not in self.values:
                seen = "outside the loop that defines it" if value in self.defined else "undefined"
                self._fail(f"{value} is used {seen}")

    def _index(self, index: Index) -> None:
        for atom in index.terms:
            if isinstance(atom, QUOTIENTS):
                self._index(atom.index)
            elif isinstance(atom, Value):
                self._use([atom])
            elif isinstance(atom, Parameter):
                if atom not in self.kernel.parameters:
                    self._fail(f"parameter {atom.name} is not declared")
            elif all(loop.var is not atom for loop in self.loops):
                self._fail(f"{index} speaks of {atom}, which no loop around it counts")

    def _access(self, buffer: Buffer, index: Index, guard: Value | None = None) -> None:
        if buffer not in self.buffers:
            self._fail(f"buffer {buffer.name} is not declared")
        self._index(index)
        self._use([guard])
        low, high = index.bounds
        # With a guard it may be an access that is never made, in a piece of a loop.
        if guard is None and (high < 0 or low >= buffer.size):
            self._fail(f"{buffer.name}[{index}] is outside its {buffer.size} elements")
        if buffer.role is BufferRole.REGISTERS:
            kinds: dict[Atom, LoopKind] = {loop.var: loop.kind for loop in self.loops}
            fixed = {LoopKind.LANES, LoopKind.UNROLLED}
            if any(kinds.get(atom) not in fixed for atom in index.terms):
                self._fail(f"{buffer.name}[{index}] is no constant place in registers")

    # -- statements --------------------------------------------------------------------------------

    def _block(self, statements: Sequence[Statement]) -> None:
        for s in statements:
            self._statement(s)

    def _inside(
        self,
        statements: Sequence[Statement],
        carries: Sequence[Carry],
        elements: Sequence[Value] = (),
    ) -> None:
        """A body: what it defines is not seen after it."""
        before = set(self.values)
        self._define(c.phi for c in carries)
        self._block(statements)
        self._use(c.next for c in carries)
        self._use(elements)
        self.values = before

    def _statement(self, s: Statement) -> None:
        if isinstance(s, Loop):
            self._loop(s)
        elif isinstance(s, If):
            self._index(s.index)
            self._carries(s.carries)
            self._inside(s.body, s.carries)
            self._define(c.result for c in s.carries)
        elif isinstance(s, Load):
            self._access(s.buffer, s.index, s.guard)
            self._typed(s.result, s.buffer.element_type, "loaded")
            self._define([s.result])
        elif isinstance(s, Store):
            self._access(s.buffer, s.index, s.guard)
            self._use(s.values)
            for value in s.values:
                self._typed(value, s.buffer.element_type, "stored")
            self._written(s.buffer)
        elif isinstance(s, Compute):
            self._use(s.operands)
            self._define([s.result])
        elif isinstance(s, Constant):
            self._define([s.result])
        elif isinstance(s, IndexValue | InRange):
            self._index(s.index)
            self._define([s.result])
        else:
            self._cooperative(s)

    def _cooperative(self, s: Statement) -> None:
        if isinstance(s, Move):
            self._access(s.buffer, s.index)
            self._access(s.target, s.target_index)
            self._written(s.target)
            if s.buffer.element_type is not s.target.element_type:
                self._fail(f"bits of {s.buffer.name} are moved to {s.target.name} of another type")
        elif isinstance(s, Transpose):
            for buffer in (s.target, s.source):
                if buffer not in self.buffers or buffer.size != s.size**2:
                    self._fail(f"{buffer.name} is no declared tile of {s.size} x {s.size}")
            self._written(s.target)
        elif isinstance(s, Barrier):
            if not {LoopKind.GRID, LoopKind.THREAD} & {loop.kind for loop in self.loops}:
                self._fail("a barrier has no block around it")
        elif isinstance(s, HANDOVERS):
            self._handover(s)
        elif isinstance(s, Atomic):
            self._access(s.buffer, s.index, s.guard)
            self._use([s.value])
            self._written(s.buffer)
            if s.opcode not in _ATOMIC:
                self._fail(f"{s.opcode.value} is no atomic operation")
        elif isinstance(s, Shuffle):
            self._use([s.value])
            inner = next((l for l in reversed(self.loops) if l.kind in _LOCKSTEP), None)
            if inner is None or inner.var.extent % s.width or s.width & (s.width - 1):
                self._fail(f"a shuffle has no groups of {s.width} threads or lanes around it")
            self._define([s.result])
        elif isinstance(s, MatrixTile):
            self._matrix_tile(s)
        elif isinstance(s, MatrixLoad):
            self._matrix_load(s)
        elif isinstance(s, AsyncCopy | AsyncGroup | AsyncWait):
            self._asynchronous(s)
        elif isinstance(s, PrepareArrivals | ExpectBytes | AwaitArrivals):
            self._arrivals(s, s.arrivals)
        elif isinstance(s, BoxCopy):
            self._box_copy(s)
        elif isinstance(s, GroupProduct):
            self._group_product(s)
        elif isinstance(s, GroupWait):
            self._of_threads("wait for products")
            self._use(s.values)
            for result, value in zip(s.results, s.values, strict=True):
                self._typed(result, value.type, "waited for")
            self._define(s.results)
        else:
            self._fail(f"{type(s).__name__} is unknown")

    def _handover(self, s: Ticket | Signal | Await) -> None:
        kinds = [loop.kind for loop in self.loops]
        if kinds[:1] != [LoopKind.GRID] or LoopKind.THREAD not in kinds or LoopKind.LANES in kinds:
            self._fail("only threads of a grid's blocks know of other blocks")
        if any(isinstance(other, _OF_GROUPS) for other in walk([self.loops[0]])):
            self._fail("blocks that wait for others have copies of boxes, or products of groups")
        self._access(s.buffer, s.index, None if isinstance(s, Ticket) else s.guard)
        self._written(s.buffer)
        if s.buffer.element_type is not PrimitiveType.U32 or not s.buffer.role.is_global:
            self._fail(f"{s.buffer.name} is no u32 that all blocks see")
        if isinstance(s, Ticket):
            self._access(s.shared, ZERO)
            self._use([s.taker])
            if s.shared.role is not BufferRole.SHARED:
                self._fail(f"{s.shared.name} tells threads a number, and is not shared memory")
            self._typed(s.result, s.shared.element_type, "shared")
            self._define([s.result])

    def _matrix_tile(self, s: MatrixTile) -> None:
        layout = LAYOUTS.get(s.shape)
        if layout is None:
            self._fail(f"there is no matrix tile of the shape {s.shape}")
            return
        self._use([*s.lhs, *s.rhs, *s.sums])
        for part, values in (("lhs", s.lhs), ("rhs", s.rhs), ("sum", s.sums), ("sum", s.results)):
            if len(values) != layout.registers[part]:
                self._fail(f"{len(values)} values are not the {part} of a tile {s.shape}")
        self._define(s.results)

    def _matrix_load(self, s: MatrixLoad) -> None:
        self._access(s.buffer, s.index)
        size = s.buffer.element_type.byte_size
        if s.buffer.role is not BufferRole.SHARED or size > 4:
            self._fail(f"matrices are loaded from {s.buffer.name}, which is no memory of theirs")
        if s.transposed and size > 2:
            self._fail(f"matrices of {s.buffer.element_type} are loaded transposed")
        if len(s.results) not in (n * 4 // size for n in (1, 2, 4)):
            self._fail(f"{len(s.results)} values are not 1, 2 or 4 matrices")
        for value in s.results:
            self._typed(value, s.buffer.element_type, "loaded")
        self._define(s.results)

    def _asynchronous(self, s: AsyncCopy | AsyncGroup | AsyncWait) -> None:
        kinds = {loop.kind for loop in self.loops}
        if LoopKind.THREAD not in kinds or LoopKind.LANES in kinds:
            self._fail("only threads copy asynchronously, not lanes")
        if not isinstance(s, AsyncCopy):
            return
        self._access(s.buffer, s.index, s.guard)
        self._access(s.target, s.target_index)
        if s.target.role is not BufferRole.SHARED or not s.buffer.role.is_global:
            self._fail(f"{s.buffer.name} is copied to {s.target.name}, which is not shared memory")
        if s.buffer.element_type is not s.target.element_type:
            self._fail(f"bits of {s.buffer.name} are copied to {s.target.name} of another type")
        if s.count * s.buffer.element_type.byte_size not in (4, 8, 16):
            self._fail(f"{s.count} elements of {s.buffer.name} are not 4, 8 or 16 bytes")

    def _of_threads(self, what: str) -> None:
        kinds = {loop.kind for loop in self.loops}
        if LoopKind.THREAD not in kinds or LoopKind.LANES in kinds:
            self._fail(f"only threads {what}, not lanes")

    def _arrivals(self, s: Statement, arrivals: Buffer) -> None:
        self._of_threads("deal with arrivals")
        if arrivals.role is not BufferRole.SHARED or arrivals.element_type is not PrimitiveType.U64:
            self._fail(f"{arrivals.name} is no shared memory of u64, which counts arrivals")
        if arrivals not in self.buffers:
            self._fail(f"buffer {arrivals.name} is not declared")
        if isinstance(s, ExpectBytes | AwaitArrivals):
            self._access(arrivals, s.index)
        if isinstance(s, AwaitArrivals):
            self._index(s.parity)
            low, high = s.parity.bounds
            if low < 0 or high > 1:
                self._fail(f"the parity {s.parity} is not 0 or 1")

    def _box_copy(self, s: BoxCopy) -> None:
        self._arrivals(s, s.arrivals)
        self._access(s.arrivals, s.arrival)
        self._access(s.target, s.target_index)
        for index in s.at:
            self._index(index)
        size, array = s.buffer.element_type.byte_size, s.array
        if s.target.role is not BufferRole.SHARED or not s.buffer.role.is_global:
            self._fail(f"{s.buffer.name} is copied to {s.target.name}, which is not shared memory")
        if s.buffer.element_type is not s.target.element_type:
            self._fail(f"bits of {s.buffer.name} are copied to {s.target.name} of another type")
        if array.box[0] * size != LINE or not 1 <= array.box[1] <= _MOST_ROWS:
            self._fail(f"a box of {array.box} elements has no lines of {LINE} bytes")
        ranks = {len(array.sizes), len(array.strides) + 1, len(s.at)}
        if len(ranks) > 1 or len(s.at) not in (2, 3):
            self._fail(f"{len(s.at)} coordinates are not those of an array of {array.sizes}")
        if any(stride * size % 16 for stride in array.strides):
            self._fail(f"strides {array.strides} of {s.buffer.name} are no multiples of 16 bytes")

    def _group_product(self, s: GroupProduct) -> None:
        self._of_threads("multiply")
        rows, columns, depth = s.shape
        for lines in (s.lhs, s.rhs):
            self._access(lines.buffer, lines.index)
            size = lines.buffer.element_type.byte_size
            if lines.buffer.role is not BufferRole.SHARED:
                self._fail(f"{lines.buffer.name} is no shared memory")
            if lines.inner_first and depth * size != LINE:
                self._fail(f"a depth of {depth} is no line of {lines.buffer.name}")
            if not lines.inner_first and size != 2:
                self._fail(f"lines of {lines.buffer.element_type} go along outer")
        if rows != GROUP_ROWS or columns % 8 or not 8 <= columns <= 256:
            self._fail(f"128 threads do not multiply {rows} x {columns}")
        for values in (s.sums, s.results):
            if len(values) != group_registers(columns):
                self._fail(f"{len(values)} values are not the sums of {rows} x {columns}")
        self._use(s.sums)
        self._define(s.results)

    def _written(self, buffer: Buffer) -> None:
        if buffer.role in (BufferRole.OPERAND, BufferRole.CONSTANT):
            self._fail(f"{buffer.role.value} {buffer.name} is written")

    def _typed(self, value: Value, type: PrimitiveType, what: str) -> None:
        if value.type is not type:
            self._fail(f"{value} of type {value.type} is {what} as {type}")

    # -- loops -------------------------------------------------------------------------------------

    def _loop(self, s: Loop) -> None:
        allowed = _OUTSIDE.get(s.kind)
        for outer in self.loops:
            if allowed is not None and outer.kind not in allowed:
                self._fail(f"a loop of {s.kind.value} is inside one of {outer.kind.value}")
        if s.carries and s.kind not in (LoopKind.SERIAL, LoopKind.UNROLLED):
            self._fail(f"iterations of {s.kind.value} {s.var.name} hand values on")
        if s.kind is LoopKind.UNROLLED and s.limits:
            self._fail(f"unrolled {s.var.name} has a limit that is known at run time only")
        if any(loop.var is s.var for loop in self.loops):
            self._fail(f"two nested loops count {s.var.name}")
        for limit in s.limits:
            self._index(limit)
        self._carries(s.carries)
        before = set(self.values)
        self.loops.append(s)
        self._inside(s.body, s.carries, s.elements)
        self.loops.pop()
        self._define(c.result for c in s.carries)
        if s.combination is not None:
            self._combination(s, s.combination, before)

    def _carries(self, carries: Sequence[Carry]) -> None:
        self._use(c.init for c in carries)
        for c in carries:
            if c.next is None:
                self._fail(f"{c.phi} is carried and never set")
            elif not c.phi.type is c.init.type is c.result.type is c.next.type:
                self._fail(f"{c.phi} changes its type from round to round")

    def _combination(self, s: Loop, c: Combination, before: set[Value]) -> None:
        width = s.var.extent
        if s.kind is not LoopKind.LANES or width & (width - 1):
            self._fail(f"{width} of {s.kind.value} cannot be combined by halves")
        self._use(c.inits)
        inside = {v for v in c.values if v not in self.defined}
        if inside:
            self._fail(f"{inside.pop()} is combined and undefined")
        sizes = {len(c.values), len(c.results), len(c.combiner.lhs), len(c.combiner.rhs)}
        if len(sizes) > 1 or len(c.inits) not in (0, len(c.values)):
            self._fail("a combination has too few values")
        seen = set(self.values)
        self.values = before | set(c.combiner.lhs) | set(c.combiner.rhs)
        outside = set(self.defined)
        self._block(c.combiner.body)  # it stays the same for every use of a reduction
        self._use(c.combiner.results)
        self.defined = outside
        self.values = seen
        self._define(c.results)


_LOCKSTEP = frozenset({LoopKind.THREAD, LoopKind.LANES})
