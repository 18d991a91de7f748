"""Matrix products for machines with threads: blocks of the result, whose factors come through
shared memory slab by slab.

    for block in grid(...):                    one block of rows x columns of the result
        for thread in threads(...):
            lhs[0], rhs[0] = first slab of both factors
            barrier()
            for slab in range(...):            sums are carried
                lhs[(slab + 1) % 2], rhs[...] = the next slab, where there is one
                sums += lhs[slab % 2] @ rhs[slab % 2]
                barrier()
            finish(sums)

Sums are formed by matrix tiles (32 threads together), or by each thread for rows and columns of its
own. With `splits` several blocks share a sum; what they find goes into scratch memory, and a second
stage adds it up in the order of the parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.index import ZERO, Index, constant
from xla_backend.kernels.ir import CONTRACTED, Buffer, BufferRole, LoopKind, Value
from xla_backend.kernels.library.factors import Factor, Part, SharedBlock, Sizes, fill
from xla_backend.kernels.library.recipes import Recipe
from xla_backend.kernels.matrix_tiles import LAYOUTS, WARP

_FINISHING_THREADS = 256
_UNROLLED_DEPTH = 4

# What becomes of the sum at (batch, row, column), where the guard holds.
Finish = Callable[[Index, Index, Index, Value, Value | bool | None], None]


@dataclass(frozen=True)
class Tiling:
    """Fields:
    rows, columns, depth: of the block that threads compute together, and of its slabs.
    across, along: how many warps (or threads, without tiles) share its rows and its columns.
    splits: how many blocks share the sum.
    """

    rows: int
    columns: int
    depth: int
    across: int
    along: int
    splits: int = 1

    def threads(self, recipe: Recipe) -> int:
        return self.across * self.along * (WARP if recipe.tile is not None else 1)

    def blocks(self, sizes: Sizes) -> int:
        rows, columns = -(-sizes.m // self.rows), -(-sizes.n // self.columns)
        return self.splits * sizes.batch * rows * columns


def matrix_product(
    e: ElementalEmitter,
    sizes: Sizes,
    lhs: Factor,
    rhs: Factor,
    recipe: Recipe,
    tiling: Tiling,
    finish: Finish,
) -> None:
    """Build the stages of a product whose elements `finish` takes one by one."""
    _Product(e, sizes, (lhs, rhs), recipe, tiling, finish).build()


class _Product:
    def __init__(
        self,
        e: ElementalEmitter,
        sizes: Sizes,
        factors: tuple[Factor, Factor],
        recipe: Recipe,
        tiling: Tiling,
        finish: Finish,
    ) -> None:
        self.e, self.b = e, e.builder
        self.sizes, self.recipe, self.tiling = sizes, recipe, tiling
        self.finish = finish
        self.threads = tiling.threads(recipe)
        size, tiles = recipe.factor.byte_size, recipe.tile is not None
        self.blocks = [
            SharedBlock(factor, outer, tiling.depth, size, tiles=tiles)
            for factor, outer in zip(factors, (tiling.rows, tiling.columns))
        ]
        slabs = -(-sizes.k // tiling.depth)
        self.slabs = -(-slabs // tiling.splits)  # of one block
        self.splits = -(-slabs // self.slabs)
        self.shared: list[Buffer] = []
        self.partial: Buffer | None = None

    def build(self) -> None:
        b, t, s = self.b, self.tiling, self.sizes
        stages = 1 if self.slabs == 1 else 2
        names = ("lhs", "rhs")
        self.shared = [
            b.buffer(name, self.recipe.factor, stages * block.size, BufferRole.SHARED)
            for name, block in zip(names, self.blocks)
        ]
        if self.splits > 1:
            total = self.splits * s.batch * s.m * s.n
            self.partial = b.buffer("partial", self.recipe.sums, total, BufferRole.SCRATCH)
        columns, rows = -(-s.n // t.columns), -(-s.m // t.rows)
        with b.loop(columns * rows * s.batch * self.splits, LoopKind.GRID) as block:
            column, row = block % columns, block // columns % rows
            batch = block // (columns * rows) % s.batch
            split = block // (columns * rows * s.batch)
            with b.loop(self.threads, LoopKind.THREAD) as thread:
                self._block(split, batch, row * t.rows, column * t.columns, thread)
        if self.splits > 1:
            assert self.partial is not None
            add_up(self.e, self.partial, s, self.splits, self.finish)

    # -- one block ---------------------------------------------------------------------------------

    def _block(self, split: Index, batch: Index, row: Index, column: Index, thread: Index) -> None:
        b = self.b
        start = split * (self.slabs * self.tiling.depth)
        self._fill(batch, row, column, start, ZERO, thread)
        b.barrier()
        work: _Work = (_Tiles if self.recipe.tile is not None else _Threads)(self, thread)
        zero = b.constant(self.recipe.sums, 0)
        slab, sums = b.open_loop(self.slabs, inits=[zero] * work.count, name="slab")
        if self.slabs > 1:
            with b.where(slab, 0, self.slabs - 1):
                following = start + (slab + 1) * self.tiling.depth
                self._fill(batch, row, column, following, (slab + 1) % 2, thread)
        sums = work.multiply(slab % 2 if self.slabs > 1 else ZERO, sums)
        if self.slabs > 1:
            b.barrier()
        sums = b.close_loop(sums)
        for (i, j), total in zip(work.places(), sums):
            self._element(split, batch, row + i, column + j, total)

    def _fill(
        self, batch: Index, row: Index, column: Index, inner: Index, stage: Index, thread: Index
    ) -> None:
        for block, outer, buffer in zip(self.blocks, (row, column), self.shared):
            part = Part(batch, outer, inner, self.sizes.k)
            target = buffer, stage * block.size
            fill(self.e, self.recipe, block, part, target, thread, self.threads)

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

    def part_of(self, side: int, stage: Index, outer: Index, inner: Index) -> list[Value]:
        """What is multiplied of an element of shared memory."""
        b, block = self.b, self.blocks[side]
        place = stage * block.size + block.place(outer, inner)
        return self.recipe.parts_of(b, b.load(self.shared[side], place, mutable=True))


def add_up(e: ElementalEmitter, partial: Buffer, sizes: Sizes, splits: int, finish: Finish) -> None:
    """A stage that adds up the parts of each sum, one thread for each element of the result."""
    b, (batches, m, n, _) = e.builder, sizes
    total = batches * m * n
    threads = min(_FINISHING_THREADS, total)
    with b.loop(-(-total // threads), LoopKind.GRID) as block:
        with b.loop(threads, LoopKind.THREAD) as thread:
            here = block * threads + thread
            guard = b.in_range(here, 0, total)
            at = guard if isinstance(guard, Value) else None
            sums = b.load(partial, here, at, mutable=True)
            for split in range(1, splits):
                part = b.load(partial, here + split * total, at, mutable=True)
                sums = b.compute(Opcode.ADD, sums.type, (sums, part))
            finish(here // (m * n), here // n % m, here % n, sums, guard)


def multiply_add(b: LoopBuilder, lhs: Value, rhs: Value, total: Value) -> Value:
    """lhs * rhs + total, in one operation where a machine has one."""
    term = b.compute(Opcode.MULTIPLY, total.type, (lhs, rhs), CONTRACTED)
    return b.compute(Opcode.ADD, total.type, (total, term), CONTRACTED)


class _Work:
    """How the threads of a block share its sums; each has `count` of them."""

    count: int

    def places(self) -> list[tuple[Index, Index]]:
        """Row and column in the block of each sum."""
        raise NotImplementedError

    def multiply(self, stage: Index, sums: list[Value]) -> list[Value]:
        """The sums with one slab more."""
        raise NotImplementedError


class _Tiles(_Work):
    """Tiles by the warp: each has rows and columns of tiles of its own."""

    def __init__(self, product: _Product, thread: Index) -> None:
        t = product.tiling
        assert product.recipe.tile is not None
        self.product, self.shape = product, product.recipe.tile
        self.layout = LAYOUTS[self.shape]
        warp, lane = thread // WARP, thread % WARP
        self.group, self.member = lane // 4, lane % 4
        rows, columns = t.rows // t.across, t.columns // t.along
        self.row, self.column = warp // t.along * rows, warp % t.along * columns
        self.down, self.right = rows // self.shape[0], columns // self.shape[1]
        self.count = self.down * self.right * self.layout.registers["sum"]

    def places(self) -> list[tuple[Index, Index]]:
        found = []
        for i in range(self.down):
            for j in range(self.right):
                for r in range(self.layout.registers["sum"]):
                    row, column = self.layout.element("sum", self.group, self.member, r)
                    found.append(
                        (
                            self.row + row + i * self.shape[0],
                            self.column + column + j * self.shape[1],
                        )
                    )
        return found

    def multiply(self, stage: Index, sums: list[Value]) -> list[Value]:
        registers = self.layout.registers["sum"]
        sums = list(sums)
        for k in range(0, self.product.tiling.depth, self.shape[2]):
            lhs = [self._part(0, stage, i, k) for i in range(self.down)]
            rhs = [self._part(1, stage, j, k) for j in range(self.right)]
            for i in range(self.down):
                for j in range(self.right):
                    first = (i * self.right + j) * registers
                    total = sums[first : first + registers]
                    for p, q in self.product.recipe.terms:
                        total = self.product.b.matrix_tile(self.shape, lhs[i][p], rhs[j][q], total)
                    sums[first : first + registers] = total
        return sums

    def _part(self, side: int, stage: Index, number: int, k: int) -> list[list[Value]]:
        """A tile of a factor: for each of its parts, what this thread holds."""
        name = ("lhs", "rhs")[side]
        found = []
        for r in range(self.layout.registers[name]):
            row, column = self.layout.element(name, self.group, self.member, r)
            if side == 0:
                outer, inner = self.row + row + number * self.shape[0], column + k
            else:
                outer, inner = self.column + column + number * self.shape[1], row + k
            found.append(self.product.part_of(side, stage, outer, inner))
        return [list(part) for part in zip(*found)]


class _Threads(_Work):
    """Each thread alone: rows and columns as far apart as there are threads, so that neighbours
    read neighbours."""

    def __init__(self, product: _Product, thread: Index) -> None:
        t = product.tiling
        self.product = product
        self.row, self.column = thread // t.along, thread % t.along
        self.down, self.right = t.rows // t.across, t.columns // t.along
        self.count = self.down * self.right

    def _rows(self) -> list[Index]:
        return [self.row + i * self.product.tiling.across for i in range(self.down)]

    def _columns(self) -> list[Index]:
        return [self.column + j * self.product.tiling.along for j in range(self.right)]

    def places(self) -> list[tuple[Index, Index]]:
        return [(row, column) for row in self._rows() for column in self._columns()]

    def multiply(self, stage: Index, sums: list[Value]) -> list[Value]:
        p, b = self.product, self.product.b
        together = min(_UNROLLED_DEPTH, p.tiling.depth)
        group, sums = b.open_loop(p.tiling.depth // together, inits=sums, name="group")
        sums = list(sums)
        for k in range(together):
            inner = group * together + constant(k)
            lhs = [p.part_of(0, stage, row, inner)[0] for row in self._rows()]
            rhs = [p.part_of(1, stage, column, inner)[0] for column in self._columns()]
            for i, x in enumerate(lhs):
                for j, y in enumerate(rhs):
                    n = i * self.right + j
                    sums[n] = multiply_add(b, x, y, sums[n])
        return b.close_loop(sums)
