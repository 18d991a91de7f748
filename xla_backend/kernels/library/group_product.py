"""Matrix products by groups of 128 threads, which multiply what lies in shared memory: the machine
copies and multiplies by itself, threads only begin both and wait.

    for block in grid(...):                    one block of rows x columns of the result
        for thread in threads(...):
            thread 0: the first slabs of both factors are on their way, each to its place in a ring
            for slab in range(...):            sums are carried
                await_arrivals(slab)
                sums = group_product(slab)     begun
                group_wait(pending=1)          for the slab before this one
                barrier()                      so all groups are done with that
                thread 0: to its place, the slab that comes next in the ring
            finish(group_wait(sums))

So there is always a product under way while the next one waits for its slab, and no thread is
there for copies alone: threads that only copied would save the barrier, which is reached while the
products of a whole slab (some thousand cycles) are still to be done.

Slabs are 128 bytes deep. Zeros stand for what is beyond the edges of factors, those of the sum too:
the machine makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.index import ZERO, Index, constant
from xla_backend.kernels.ir import BoxedArray, Buffer, BufferRole, Lines, LoopKind, Value
from xla_backend.kernels.library.factors import Element, Sizes, place_of_element
from xla_backend.kernels.library.matrix_product import Finish, add_up
from xla_backend.kernels.library.recipes import Recipe
from xla_backend.kernels.lines import LINE, PIECE
from xla_backend.kernels.matrix_tiles import GROUP, GROUP_ROWS, group_place, group_registers
from xla_backend.process.light_dataclasses import dataclass

_ALIGNED_BYTES = 16
_BAND = 8  # columns of blocks
_MOST_ROWS_OF_BOX = 256
# Sizes that are the same in both factors' types.
_TYPES = frozenset(
    {
        *(PrimitiveType.F16, PrimitiveType.BF16, PrimitiveType.F32),
        *(PrimitiveType.S8, PrimitiveType.U8, PrimitiveType.F8E4M3FN, PrimitiveType.F8E5M2),
    }
)


@dataclass(frozen=True)
class GroupTiling:
    """Fields:
    rows, columns: of the block that threads compute together.
    groups: of 128 threads, which share its rows.
    splits: how many blocks share the sum.
    stages: how many slabs there are in shared memory at once, two or more.
    """

    rows: int
    columns: int
    groups: int
    splits: int = 1
    stages: int = 4

    @property
    def threads(self) -> int:
        return self.groups * GROUP

    def blocks(self, sizes: Sizes) -> int:
        rows, columns = -(-sizes.m // self.rows), -(-sizes.n // self.columns)
        return self.splits * sizes.batch * rows * columns

    @property
    def slab_bytes(self) -> int:
        """Of both factors."""
        return (self.rows + self.columns) * LINE


class Plain(NamedTuple):
    """A factor that is an array in memory: the strides of batch, outer and inner, of which one of
    the last two is 1."""

    buffer: Buffer
    batch: int
    outer: int
    inner: int

    @property
    def inner_first(self) -> bool:
        return self.inner == 1


def multiplies_in_groups(recipe: Recipe) -> bool:
    """Whether groups multiply by a recipe: factors as they are, or rounded to tf32 by the copy."""
    types = {recipe.factor, recipe.other or recipe.factor}
    return recipe.tile is not None and len(recipe.terms) == 1 and types <= _TYPES


def plain_array(
    element: Element,
    sizes: tuple[int, int, int],
    leaves: Mapping[Instruction, Buffer],
    recipe: Recipe,
) -> Plain | None:
    """A factor as an array that can be copied by boxes; None if it is something else, or its rows
    begin where no copy can."""
    b = LoopBuilder("plain")
    with b.loop(sizes[0]) as batch, b.loop(sizes[1]) as outer, b.loop(sizes[2]) as inner:
        place = place_of_element(b, leaves, element, batch, outer, inner)
    if place is None or place.guard is not None:
        return None
    buffer, at = place.buffer, place.at
    variables = [next(iter(i.terms), None) for i in (batch, outer, inner)]
    if at.constant or any(atom not in variables for atom in at.terms):
        return None
    # A dimension of one element may have any stride.
    strides = [at.coefficient(v) if v is not None else 0 for v in variables]
    size = buffer.element_type.byte_size
    line = strides[1:].index(1) if 1 in strides[1:] else -1
    if buffer.element_type is not recipe.factor or line < 0:
        return None
    if line == 0 and size != 2:
        return None  # only elements of 16 bits are multiplied in the other order
    others = [s for n, s in enumerate(strides) if n != line + 1 and variables[n] is not None]
    if any(s <= 0 or s * size % _ALIGNED_BYTES for s in others):
        return None
    return Plain(buffer, *strides)


def group_product(
    e: ElementalEmitter,
    sizes: Sizes,
    lhs: Plain,
    rhs: Plain,
    recipe: Recipe,
    tiling: GroupTiling,
    finish: Finish,
) -> None:
    """Build the stages of a product whose elements `finish` takes one by one."""
    _GroupProduct(e, sizes, (lhs, rhs), recipe, tiling, finish).build()


def _in_bands(number: Index, rows: int, columns: int) -> tuple[Index, Index]:
    """Row and column of a block: blocks that run at once are about a square of the result, so that
    they read the same parts of both factors, where columns are whole bands."""
    if columns % _BAND:
        return number // columns, number % columns
    inside = number % (rows * _BAND)
    return inside // _BAND, number // (rows * _BAND) * _BAND + inside % _BAND


class _Side:
    """A factor: its slabs in shared memory, and how they come there."""

    def __init__(
        self, plain: Plain, sizes: tuple[int, int, int], rows: int, recipe: Recipe
    ) -> None:
        """`rows`: of a block, of this factor."""
        batches, outer, inner = sizes
        self.plain, self.rows = plain, rows
        size = recipe.factor.byte_size
        self.depth = LINE // size
        self.line = LINE // size
        if plain.inner_first:
            extents, stride, lines = (inner, outer), plain.outer, min(rows, _MOST_ROWS_OF_BOX)
        else:
            extents, stride, lines = (outer, inner), plain.inner, self.depth
        # Where there is one line only, no stride is used, and none of it may be odd.
        strides = [stride or self.line]
        dims = list(extents)
        if batches > 1:
            dims.append(batches)
            strides.append(plain.batch)
        self.array = BoxedArray(
            tuple(dims), tuple(strides), (self.line, lines), recipe.rounds_factors
        )
        self.size = rows * self.depth  # elements of a slab

    def boxes(self, batch: Index, outer: Index, inner: Index) -> list[tuple[int, list[Index]]]:
        """Of a slab: where each box goes, and its coordinates."""
        columns, lines = self.array.box
        found = []
        step = lines if self.plain.inner_first else columns
        for first in range(0, self.rows, step):
            at = [inner, outer + first] if self.plain.inner_first else [outer + first, inner]
            if len(self.array.sizes) > 2:
                at.append(batch)
            found.append((first * self.depth, at))
        return found

    def lines(self, buffer: Buffer, start: Index, row: Index) -> Lines:
        """What is multiplied of a slab, from a row on (a multiple of 64)."""
        leading = LINE * self.depth
        return Lines(buffer, start + row * self.depth, self.plain.inner_first, leading, PIECE)


class _GroupProduct:
    def __init__(
        self,
        e: ElementalEmitter,
        sizes: Sizes,
        factors: tuple[Plain, Plain],
        recipe: Recipe,
        tiling: GroupTiling,
        finish: Finish,
    ) -> None:
        assert tiling.rows % (GROUP_ROWS * tiling.groups) == 0 and tiling.stages > 1
        self.e, self.b = e, e.builder
        self.sizes, self.recipe, self.tiling, self.finish = sizes, recipe, tiling, finish
        self.recipes = recipe.of_side(0), recipe.of_side(1)
        self.sides = [
            _Side(plain, (sizes.batch, outer, sizes.k), rows, of_side)
            for plain, outer, rows, of_side in zip(
                factors, (sizes.m, sizes.n), (tiling.rows, tiling.columns), self.recipes
            )
        ]
        self.depth = self.sides[0].depth
        slabs = -(-sizes.k // self.depth)
        self.slabs = -(-slabs // tiling.splits)  # of one block
        self.splits = -(-slabs // self.slabs)
        self.stages = min(tiling.stages, self.slabs)
        # One place is free for what comes next while others are multiplied, unless all have one.
        self.ahead = self.stages if self.stages == self.slabs else self.stages - 1
        self.down = tiling.rows // (GROUP_ROWS * tiling.groups)
        self.shared: Sequence[Buffer] = ()
        self.partial: Buffer | None = None

    def build(self) -> None:
        b, t, s = self.b, self.tiling, self.sizes
        self.shared = [
            b.buffer(name, recipe.factor, self.stages * side.size, BufferRole.SHARED)
            for name, side, recipe in zip(("lhs", "rhs"), self.sides, self.recipes)
        ]
        self.arrived = b.buffer("arrived", PrimitiveType.U64, self.stages, BufferRole.SHARED)
        if self.splits > 1:
            total = self.splits * s.batch * s.m * s.n
            self.partial = b.buffer("partial", self.recipe.sums, total, BufferRole.SCRATCH)
        columns, rows = -(-s.n // t.columns), -(-s.m // t.rows)
        with b.loop(columns * rows * s.batch * self.splits, LoopKind.GRID) as block:
            row, column = _in_bands(block % (columns * rows), rows, columns)
            batch = block // (columns * rows) % s.batch
            split = block // (columns * rows * s.batch)
            with b.loop(t.threads, LoopKind.THREAD) as thread:
                self._block(split, batch, row * t.rows, column * t.columns, thread)
        if self.splits > 1:
            assert self.partial is not None
            add_up(self.e, self.partial, s, self.splits, self.finish)

    def _block(self, split: Index, batch: Index, row: Index, column: Index, thread: Index) -> None:
        b = self.b
        start = split * (self.slabs * self.depth)
        outers = row, column
        with b.where(thread, 0, 1):
            b.prepare_arrivals(self.arrived)
            for n in range(self.ahead):
                self._bring(batch, outers, start + n * self.depth, constant(n))
        b.barrier()
        group, own = thread // GROUP, thread % GROUP
        first = group * (self.down * GROUP_ROWS)
        registers = group_registers(self.tiling.columns)
        zero = b.constant(self.recipe.sums, 0)
        slab, sums = b.open_loop(self.slabs, inits=[zero] * (self.down * registers), name="slab")
        stage = slab % self.stages if self.stages > 1 else ZERO
        b.await_arrivals(self.arrived, stage, slab // self.stages % 2)
        sums = self._multiply(stage, first, sums)
        # What is multiplied now is waited for in the next round, while that is multiplied.
        sums = b.group_wait(self.down, sums)
        if self.slabs > self.ahead:
            b.barrier()
            self._bring_next(batch, outers, start, slab, thread)
        sums = b.close_loop(sums)
        sums = b.group_wait(0, sums)
        for n, total in enumerate(sums):
            i, j = group_place(own, n % registers)
            above = first + n // registers * GROUP_ROWS
            self._element(split, batch, row + above + i, column + j, total)

    def _multiply(self, stage: Index, first: Index, sums: Sequence[Value]) -> list[Value]:
        found: list[Value] = []
        registers = len(sums) // self.down
        shape = (GROUP_ROWS, self.tiling.columns, self.depth)
        lhs, rhs = self.sides
        for n in range(self.down):
            own = sums[n * registers : (n + 1) * registers]
            left = lhs.lines(self.shared[0], stage * lhs.size, first + n * GROUP_ROWS)
            right = rhs.lines(self.shared[1], stage * rhs.size, ZERO)
            found += self.b.group_product(shape, left, right, own)
        return found

    def _bring_next(
        self, batch: Index, outers: tuple[Index, Index], start: Index, slab: Index, thread: Index
    ) -> None:
        """In the place of the slab before this one, or in the first round in the one that is free,
        the next one that is not yet on its way."""
        b = self.b
        with b.where(slab, 0, self.slabs - self.ahead), b.where(thread, 0, 1):
            following = slab + self.ahead
            inner = start + following * self.depth
            self._bring(batch, outers, inner, following % self.stages)

    def _bring(self, batch: Index, outers: tuple[Index, Index], inner: Index, stage: Index) -> None:
        """Begin to copy a slab of both factors."""
        b = self.b
        nbytes = self.tiling.slab_bytes
        b.expect_bytes(self.arrived, stage, nbytes)
        for side, buffer, outer in zip(self.sides, self.shared, outers):
            for place, at in side.boxes(batch, outer, inner):
                target = buffer, stage * side.size + place
                b.box_copy(target, (side.plain.buffer, side.array), at, (self.arrived, stage))

    def _element(self, split: Index, batch: Index, row: Index, column: Index, total: Value) -> None:
        b, s = self.b, self.sizes
        guard = b.conjunction(b.in_range(row, 0, s.m), b.in_range(column, 0, s.n))
        if guard is False:
            return
        if self.partial is None:
            self.finish(batch, row, column, total, guard)
            return
        at = ((split * s.batch + batch) * s.m + row) * s.n + column
        b.store(self.partial, at, (total,), guard if isinstance(guard, Value) else None)
