"""What threads of a block have done for them, as the interpreter does it: copies of boxes, which
one thread begins and all wait for, and products of matrices in shared memory (`ir.BoxCopy`,
`ir.GroupProduct` and what belongs to them).

A copy has written nothing, and a product reads its factors and has no sums, until who needs it has
waited for it: each of these is found if it does not (`kernels.races`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from xla_backend.hlo.attributes import ParameterAttributes, ReducePrecisionAttributes
from xla_backend.hlo.evaluator.conversions import reduce_precision
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.async_copies import Copy
from xla_backend.kernels.interpreter_memory import Lockstep, Memory, Readers, Spread
from xla_backend.kernels.ir import BoxCopy, Buffer, GroupProduct, Lines
from xla_backend.kernels.lines import PIECE, box_places, matrix_places
from xla_backend.kernels.matrix_tiles import GROUP, GROUP_ROWS, WARP, group_place, multiply_add
from xla_backend.kernels.races import KernelRunError, RaceError

_F32 = Shape.array(PrimitiveType.F32)
_TO_TF32 = Instruction(
    Opcode.REDUCE_PRECISION,
    _F32,
    [Instruction(Opcode.PARAMETER, _F32, (), ParameterAttributes(0))],
    ReducePrecisionAttributes(8, 10),
)


class _Arrivals:
    """An element of memory that counts what arrives. `done`: how many phases are over; `expected`:
    bytes of the present one, None before somebody has said."""

    def __init__(self, prepared_by: int, phase: int) -> None:
        self.prepared_by = prepared_by
        self.prepared_in = phase
        self.done = 0
        self.expected: int | None = None
        self.copies: list[tuple[Copy[Spread], int]] = []

    @property
    def is_complete(self) -> bool:
        return self.expected is not None and self.expected == self.bytes

    @property
    def bytes(self) -> int:
        return sum(nbytes for _, nbytes in self.copies)


class _Product(NamedTuple):
    """Those under way of one statement: who reads, and the sums that there are not yet."""

    readers: Sequence[Readers]
    sums: Sequence[np.ndarray]


class GroupWork:
    """The copies and products of the blocks that run at once."""

    def __init__(
        self, memory: Memory, lockstep: Lockstep, error: Callable[..., KernelRunError]
    ) -> None:
        """`error(what, kind)`: makes one that says what a kernel does, and where."""
        self._memory = memory
        self._lockstep = lockstep
        self._error = error
        self._arrivals: dict[tuple[Buffer, int, int], _Arrivals] = {}  # by block and element
        self._products: list[_Product] = []
        self._unfinished: set[int] = set()  # identities of sums

    def begin_blocks(self) -> None:
        """Blocks begin, and have nothing under way."""
        self._arrivals.clear()
        self._products.clear()
        self._unfinished.clear()

    def end_blocks(self) -> None:
        """Blocks end, and must have nothing under way.

        Raises:
          KernelRunError: they do.
        """
        self._memory.check_over()
        if self._products:
            raise self._error("ends while products are under way: wait for them before")

    # -- copies ------------------------------------------------------------------------------------

    def prepare(self, arrivals: Buffer, threads: np.ndarray) -> None:
        """One thread of each block prepares all elements."""
        for thread, block in self._one_of_each_block(threads, "prepares arrivals"):
            for element in range(arrivals.size):
                found = _Arrivals(thread, self._memory.phase(block))
                self._arrivals[arrivals, block, element] = found

    def expect(self, arrivals: Buffer, index: np.ndarray, count: int, threads: np.ndarray) -> None:
        for thread, block in self._one_of_each_block(threads, "expects bytes"):
            found = self._prepared(arrivals, block, int(index[thread]), thread)
            if found.expected is not None:
                raise self._error(
                    f"expects bytes at {arrivals.name}[{index[thread]}] again, and nobody has "
                    f"waited for those of the last phase"
                )
            found.expected = count

    def copy(
        self,
        s: BoxCopy,
        at: Sequence[np.ndarray],
        target: np.ndarray,
        arrival: np.ndarray,
        threads: np.ndarray,
    ) -> None:
        """Begin to copy a box; indices are by thread."""
        size = s.target.element_type.byte_size
        columns, rows = s.array.box
        strides = (1, *s.array.strides)
        for thread, block in self._one_of_each_block(threads, "copies a box"):
            start = int(target[thread])
            if start * size % PIECE:
                raise self._error(f"copies a box to {s.target.name} at no multiple of {PIECE}")
            steps = (np.arange(columns), np.arange(rows)[:, None], *[np.zeros((), int)] * len(at))
            places = [int(i[thread]) + step for i, step in zip(at, steps)]
            inside = np.ones((rows, columns), bool)
            source = np.zeros((rows, columns), np.int64)
            for place, extent, stride in zip(places, s.array.sizes, strides):
                inside &= (place >= 0) & (place < extent)
                source = source + place * stride
            read = source[inside]
            values = np.zeros((rows, columns), s.buffer.element_type.numpy_dtype)
            values[inside] = self._memory.read_by(s.buffer, read, np.full(read.size, thread))
            if s.array.rounded:
                values = reduce_precision(_TO_TF32, values)
            places_there = (start + box_places(s.array, size)).reshape(-1)
            copy = self._memory.begin_copy(
                (s.buffer, read), (s.target, places_there), values.reshape(-1), thread
            )
            found = self._prepared(s.arrivals, block, int(arrival[thread]), thread)
            found.copies.append((copy, values.nbytes))

    def await_arrivals(self, arrivals: Buffer, index: np.ndarray, parity: np.ndarray) -> None:
        """All threads of all blocks wait; index and parity by thread."""
        each = self._lockstep.threads // self._lockstep.blocks
        for block in range(self._lockstep.blocks):
            here = slice(block * each, (block + 1) * each)
            if np.ptp(index[here]) or np.ptp(parity[here]):
                raise self._error("waits for different arrivals in threads of one block")
            element, odd = int(index[here][0]), int(parity[here][0])
            found = self._prepared(arrivals, block, element, None)
            if found.done % 2 != odd:
                continue  # the phase of that parity is over: there may be nothing to wait for
            if not found.is_complete:
                raise self._error(
                    f"waits for ever: {found.bytes} bytes arrive at {arrivals.name}[{element}], "
                    f"and {found.expected or 0} are expected"
                )
            for copy, _ in found.copies:
                self._memory.end_copy(copy)
            found.copies, found.expected, found.done = [], None, found.done + 1

    def _prepared(self, arrivals: Buffer, block: int, element: int, by: int | None) -> _Arrivals:
        """What counts, which another thread may use behind a barrier only."""
        found = self._arrivals.get((arrivals, block, element))
        if found is None:
            raise self._error(f"uses {arrivals.name}[{element}], which nothing has prepared")
        if by != found.prepared_by and found.prepared_in == self._memory.phase(block):
            raise self._error(
                f"uses {arrivals.name}[{element}] in threads that nothing orders behind the one "
                f"that prepares it: put a barrier between them",
                RaceError,
            )
        return found

    def _one_of_each_block(self, threads: np.ndarray, what: str) -> list[tuple[int, int]]:
        """(thread, block) of those that take part."""
        each = self._lockstep.threads // self._lockstep.blocks
        blocks = threads // each
        if np.unique(blocks).size != blocks.size:
            raise self._error(f"{what} in several threads of a block: let one of them do so")
        return [(int(t), int(b)) for t, b in zip(threads, blocks)]

    # -- products ----------------------------------------------------------------------------------

    def multiply(
        self,
        s: GroupProduct,
        starts: tuple[np.ndarray, np.ndarray],
        sums: Sequence[np.ndarray],
    ) -> list[np.ndarray]:
        """Begin to multiply: the sums by register, whose values are those at the end. `starts`:
        where factors begin, by thread."""
        rows, columns, depth = s.shape
        shape = self._lockstep.shape
        if not shape or shape[-1] % GROUP:
            raise self._error(f"multiplies where there are no {GROUP} threads together")
        assert rows == GROUP_ROWS
        factors, readers = [], []
        for matrix, outer, start in zip((s.lhs, s.rhs), (rows, columns), starts):
            first = start.reshape(-1, GROUP)
            if np.ptp(first, axis=1).any():
                raise self._error("multiplies different factors in threads of one group")
            found = self._factor(matrix, outer, depth, first[:, 0])
            factors.append(found[0])
            readers.append(found[1])
        thread = np.arange(GROUP)
        places = [group_place(thread, r) for r in range(len(sums))]
        row, column = (np.stack(part, axis=-1) for part in zip(*places))
        held = np.stack([np.broadcast_to(v, shape).reshape(-1, GROUP) for v in sums], axis=-1)
        total = np.zeros((held.shape[0], rows, columns), held.dtype)
        total[:, row, column] = held
        lhs, rhs = factors
        made = multiply_add(lhs, rhs.swapaxes(1, 2), total)[:, row, column]
        results = [made[..., r].reshape(shape) for r in range(len(sums))]
        self._products.append(_Product(readers, results))
        self._unfinished.update(map(id, results))
        return results

    def _factor(
        self, matrix: Lines, outer: int, depth: int, first: np.ndarray
    ) -> tuple[np.ndarray, Readers]:
        """What each group reads, and who: as the warps of a group are not in step, the first one
        and the last one stand for all."""
        if (first * matrix.buffer.element_type.byte_size % PIECE).any():
            raise self._error(f"multiplies from {matrix.buffer.name} at no multiple of {PIECE}")
        places = matrix_places(matrix, outer, depth, first)
        element = places.reshape(-1)
        each = np.arange(first.size) * GROUP
        thread = each.repeat(outer * depth)
        last = GROUP - WARP
        readers = self._memory.begin_reads(
            matrix.buffer,
            np.concatenate([element, element]),
            np.concatenate([thread, thread + last]),
            element.size,
        )
        values = self._memory.arrays[matrix.buffer][readers.read.element[: element.size]]
        return values.reshape(places.shape), readers

    def wait(self, pending: int) -> None:
        """Products but for the last ones are over."""
        count = max(len(self._products) - pending, 0)
        for product in self._products[:count]:
            for readers in product.readers:
                self._memory.end_reads(readers)
            self._unfinished.difference_update(map(id, product.sums))
        del self._products[:count]

    @property
    def is_multiplying(self) -> bool:
        return bool(self._unfinished)

    def check_finished(self, values: Sequence[np.ndarray]) -> None:
        """Raise if one of these is a sum that there is not yet."""
        if any(id(value) in self._unfinished for value in values):
            raise self._error(
                "uses sums of a product that is under way: wait for it before", RaceError
            )
