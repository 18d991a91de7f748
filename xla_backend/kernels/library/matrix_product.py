"""Matrix products for machines with threads: blocks of the result, whose factors come through
shared memory slab by slab.

    for block in grid(...):                    one block of rows x columns of the result
        for thread in threads(...):
            lhs[0], rhs[0] = first slab of both factors; each slab is a group of copies
            lhs[1], rhs[1] = the second one
            for slab in range(...):            sums are carried
                async_wait(pending=1)          for this slab
                barrier()
                lhs[(slab + 2) % 3], rhs[...] = the slab after the next, where there is one
                sums += lhs[slab % 3] @ rhs[slab % 3]
            finish(sums)

Slabs are copied beside the threads, several ahead of what is multiplied, where factors lie in
memory as they are multiplied. What is computed on the way goes through the threads; if both factors
do, one slab is ahead.

Sums are formed by matrix tiles (32 threads together), or by each thread for rows and columns of its
own. With `splits` several blocks share a sum; what they find goes into scratch memory, and a second
stage adds it up in the order of the parts.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.index import ZERO, Index, constant
from xla_backend.kernels.ir import CONTRACTED, Buffer, BufferRole, LoopKind, Value
from xla_backend.kernels.library.factors import Factor, Part, SharedBlock, Sizes, fill
from xla_backend.kernels.library.recipes import Recipe
from xla_backend.kernels.matrix_tiles import LAYOUTS, WARP
from xla_backend.process.light_dataclasses import dataclass

_FINISHING_THREADS = 256
_UNROLLED_DEPTH = 4
_MATRIX_ROW = 16  # bytes

# What becomes of the sum at (batch, row, column), where the guard holds.
Finish = Callable[[Index, Index, Index, Value, Value | bool | None], None]


@dataclass(frozen=True)
class Tiling:
    """Fields:
    rows, columns, depth: of the block that threads compute together, and of its slabs.
    across, along: how many warps (or threads, without tiles) share its rows and its columns.
    splits: how many blocks share the sum.
    stages: how many slabs there are in shared memory at once, two or more.
    """

    rows: int
    columns: int
    depth: int
    across: int
    along: int
    splits: int = 1
    stages: int = 3

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
        self.recipes = recipe.of_side(0), recipe.of_side(1)
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
        self.asynchronous = any(block.asynchronous for block in self.blocks)
        self.stages = min(tiling.stages if self.asynchronous else 2, self.slabs)
        self.shared: list[Buffer] = []
        self.partial: Buffer | None = None

    def build(self) -> None:
        b, t, s = self.b, self.tiling, self.sizes
        names = ("lhs", "rhs")
        self.shared = [
            b.buffer(name, recipe.factor, self.stages * block.size, BufferRole.SHARED)
            for name, block, recipe in zip(names, self.blocks, self.recipes)
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
        depth, ahead = self.tiling.depth, max(self.stages - 1, 1)
        start = split * (self.slabs * depth)
        for n in range(ahead):
            self._fill(batch, row, column, start + n * depth, constant(n), thread)
            self._group()
        work: _Work = (_Tiles if self.recipe.tile is not None else _Threads)(self, thread)
        zero = b.constant(self.recipe.sums, 0)
        slab, sums = b.open_loop(self.slabs, inits=[zero] * work.count, name="slab")
        if self.asynchronous:
            b.async_wait(ahead - 1)
        # Now the slab is there, and all are done with the one before, whose place is next.
        b.barrier()
        if self.slabs > ahead:
            with b.where(slab, 0, self.slabs - ahead):
                following = start + (slab + ahead) * depth
                self._fill(batch, row, column, following, (slab + ahead) % self.stages, thread)
        if self.slabs > 1:
            self._group()
        sums = work.multiply(slab % self.stages if self.stages > 1 else ZERO, sums)
        sums = b.close_loop(sums)
        for (i, j), total in zip(work.places(), sums):
            self._element(split, batch, row + i, column + j, total)

    def _group(self) -> None:
        if self.asynchronous:
            self.b.async_group()

    def _fill(
        self, batch: Index, row: Index, column: Index, inner: Index, stage: Index, thread: Index
    ) -> None:
        sides = zip(self.recipes, self.blocks, (row, column), self.shared)
        for recipe, block, outer, buffer in sides:
            part = Part(batch, outer, inner, self.sizes.k)
            target = buffer, stage * block.size
            fill(self.e, recipe, block, part, target, thread, self.threads, asynchronous=True)

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

    def place(self, side: int, stage: Index, outer: Index, inner: Index) -> Index:
        """Where an element of a slab is in shared memory."""
        block = self.blocks[side]
        return stage * block.size + block.place(outer, inner)

    def part_of(self, side: int, stage: Index, outer: Index, inner: Index) -> list[Value]:
        """What is multiplied of an element of shared memory."""
        b, place = self.b, self.place(side, stage, outer, inner)
        return self.recipes[side].parts_of(b, b.load(self.shared[side], place, mutable=True))


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


class _Way(enum.Enum):
    """How tiles of a factor come from shared memory: element by element, or as small matrices,
    turned or not, or turned by pairs of bytes."""

    ELEMENTS = enum.auto()
    MATRICES = enum.auto()
    TURNED = enum.auto()
    BYTES = enum.auto()


class _Tiles(_Work):
    """Tiles by the warp: each has rows and columns of tiles of its own."""

    def __init__(self, product: _Product, thread: Index) -> None:
        t = product.tiling
        assert product.recipe.tile is not None
        self.product, self.shape = product, product.recipe.tile
        self.layout = LAYOUTS[self.shape]
        warp, lane = thread // WARP, thread % WARP
        self.lane, self.group, self.member = lane, lane // 4, lane % 4
        rows, columns = t.rows // t.across, t.columns // t.along
        self.row, self.column = warp // t.along * rows, warp % t.along * columns
        self.down, self.right = rows // self.shape[0], columns // self.shape[1]
        self.count = self.down * self.right * self.layout.registers["sum"]
        self.ways = self._way(0, self.down), self._way(1, self.right)

    def _way(self, side: int, count: int) -> _Way:
        """How tiles of a factor come from shared memory."""
        product = self.product
        size = product.recipe.factor.byte_size
        # Rows of matrices are half a tile deep.
        if size * self.shape[2] // 2 != _MATRIX_ROW:
            return _Way.ELEMENTS
        if product.blocks[side].factor.inner_first:
            return _Way.MATRICES
        if size == 2:
            return _Way.TURNED
        return _Way.BYTES if size == 1 and (side == 0 or count % 2 == 0) else _Way.ELEMENTS

    def places(self) -> list[tuple[Index, Index]]:
        found = []
        for i in range(self.down):
            for j in range(self.right):
                for r in range(self.layout.registers["sum"]):
                    row, column = self.layout.element("sum", self.group, self.member, r)
                    row, column = row + i * self.shape[0], column + j * self.shape[1]
                    # Of sixteen rows or columns that come as bytes, the even ones are in front.
                    if self.ways[0] is _Way.BYTES:
                        row = 2 * self.group + r // 2 + i * self.shape[0]
                    if self.ways[1] is _Way.BYTES:
                        column = 2 * (2 * self.member + r % 2) + j % 2 + j // 2 * 16
                    found.append((self.row + row, self.column + column))
        return found

    def multiply(self, stage: Index, sums: list[Value]) -> list[Value]:
        registers = self.layout.registers["sum"]
        sums = list(sums)
        for k in range(0, self.product.tiling.depth, self.shape[2]):
            lhs, rhs = self._parts(0, stage, k), self._parts(1, stage, k)
            for i in range(self.down):
                for j in range(self.right):
                    first = (i * self.right + j) * registers
                    total = sums[first : first + registers]
                    for p, q in self.product.recipe.terms:
                        total = self.product.b.matrix_tile(self.shape, lhs[i][p], rhs[j][q], total)
                    sums[first : first + registers] = total
        return sums

    def _parts(self, side: int, stage: Index, k: int) -> list[list[list[Value]]]:
        """The tiles of a factor: of each, and each of its parts, what this thread holds."""
        product, count, way = self.product, (self.down, self.right)[side], self.ways[side]
        if way is _Way.ELEMENTS:
            return [self._part(side, stage, n, k) for n in range(count)]
        if way is _Way.BYTES:
            tiles = self._bytes(side, stage, k)
        else:
            tiles = self._matrices(side, stage, k, turned=way is _Way.TURNED)
        found = []
        for held in tiles:
            parts = [product.recipes[side].parts_of(product.b, value) for value in held]
            found.append([list(part) for part in zip(*parts)])
        return found

    def _matrices(self, side: int, stage: Index, k: int, *, turned: bool) -> list[list[Value]]:
        """What this thread holds of each tile, by loads of four matrices: of the left factor, upper
        and lower rows in both halves of the sum; of the right one, both halves for two tiles."""
        product, count = self.product, (self.down, self.right)[side]
        row, near, far = self.lane % 8, self.lane // 8 % 2, self.lane // 16
        across, along = (near, far) if side == 0 else (far, near)
        together = 1 if side == 0 else 2
        found: list[Value] = []
        for n in range(0, count, together):
            matrices = 4 if n + together <= count else 2
            outer = (self.row, self.column)[side] + n * self.shape[side]
            if matrices == 4:
                outer = outer + across * 8
            inner = along * (self.shape[2] // 2) + k
            outer, inner = (outer, inner + row) if turned else (outer + row, inner)
            place = product.place(side, stage, outer, inner)
            buffer = product.shared[side]
            for matrix in product.b.matrix_load(buffer, place, matrices, transposed=turned):
                found += matrix
        each = self.layout.registers[("lhs", "rhs")[side]]
        return [found[n : n + each] for n in range(0, len(found), each)]

    def _bytes(self, side: int, stage: Index, k: int) -> list[list[Value]]:
        """The same of bytes whose neighbours are rows or columns of the result. Of matrices that
        are turned by pairs, a thread gets two of them; and so that its four places in the sum are
        neighbours, two matrices have the first and the last two of each four."""
        product, lane = self.product, self.lane
        count = (self.down, self.right // 2)[side]
        inner = lane // 16 * 16 + lane % 8 // 2 * 4 + lane // 8 % 2 * 2 + lane % 2 + k
        found = []
        for n in range(count):
            outer = (self.row, self.column)[side] + n * 16
            place = product.place(side, stage, outer, inner)
            loaded = product.b.matrix_load(product.shared[side], place, 4, transposed=True)
            halves = loaded[:2], loaded[2:]
            # By half of the sum, and whether it is the second one of the pair.
            quads = [[[x[p], x[2 + p], y[p], y[2 + p]] for p in (0, 1)] for x, y in halves]
            if side == 0:
                found.append([value for half in quads for quad in half for value in quad])
            else:
                found += [[value for half in quads for value in half[p]] for p in (0, 1)]
        return found

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
