"""Products of a matrix with a few vectors: each thread adds up a part of one row's sums, for all
of the vectors.

    for block in grid(...):
        for thread in threads(...):          a row, and a part of the sum
            for step in range(...): ...      `few` sums are carried
            shared[...] = sums
            barrier()
            finish(the parts of a sum added up)

Where neighbours in the sum are neighbours in memory, so are the parts; else rows are.
"""

from __future__ import annotations

from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import Buffer, BufferRole, LoopKind, ShuffleMode, Value
from xla_backend.kernels.library.factors import Factor, Sizes, factor_element
from xla_backend.kernels.library.matrix_product import Finish, add_up, multiply_add
from xla_backend.kernels.library.recipes import Recipe, convert
from xla_backend.kernels.matrix_tiles import WARP
from xla_backend.process.light_dataclasses import dataclass

# So many elements of a row are on their way to a thread at once.
AT_ONCE = 4


@dataclass(frozen=True)
class SkinnyTiling:
    """Fields:
    rows: of the matrix, that one block takes.
    parts: threads that share a sum; powers of two, of a warp or more where they are neighbours.
    splits: how many blocks share the sums.
    """

    rows: int
    parts: int
    splits: int = 1


def skinny_product(
    e: ElementalEmitter,
    sizes: Sizes,
    lhs: Factor,
    rhs: Factor,
    recipe: Recipe,
    tiling: SkinnyTiling,
    finish: Finish,
) -> None:
    """Build the stages of a product with few rows or few columns."""
    _Skinny(e, sizes, (lhs, rhs), recipe, tiling, finish).build()


class _Skinny:
    def __init__(
        self,
        e: ElementalEmitter,
        sizes: Sizes,
        factors: tuple[Factor, Factor],
        recipe: Recipe,
        tiling: SkinnyTiling,
        finish: Finish,
    ) -> None:
        self.e, self.b = e, e.builder
        self.sizes, self.recipe, self.tiling = sizes, recipe, tiling
        self.finish = finish
        self.transposed = sizes.m < sizes.n
        self.matrix, self.vectors = reversed(factors) if self.transposed else factors
        self.rows, self.few = sorted((sizes.m, sizes.n), reverse=True)
        step = tiling.parts * AT_ONCE
        steps = -(-sizes.k // step)
        self.steps = -(-steps // tiling.splits)
        self.splits = -(-steps // self.steps)
        self.step = step
        # Parts that are left when warps have added up what is theirs.
        self.left = tiling.parts // WARP if self._in_warps else tiling.parts

    @property
    def _in_warps(self) -> bool:
        return self.matrix.inner_first and self.tiling.parts >= WARP

    def build(self) -> None:
        b, t, s = self.b, self.tiling, self.sizes
        shared = b.buffer(
            "sums", self.recipe.sums, self.few * self.left * t.rows, BufferRole.SHARED
        )
        partial: Buffer | None = None
        if self.splits > 1:
            total = self.splits * s.batch * s.m * s.n
            partial = b.buffer("partial", self.recipe.sums, total, BufferRole.SCRATCH)
        blocks = -(-self.rows // t.rows)
        with b.loop(blocks * s.batch * self.splits, LoopKind.GRID) as block:
            first = block % blocks * t.rows
            batch, split = block // blocks % s.batch, block // (blocks * s.batch)
            with b.loop(t.rows * t.parts, LoopKind.THREAD) as thread:
                self._sums(split, batch, first, thread, shared)
                b.barrier()
                self._results(split, batch, first, thread, shared, partial)
        if partial is not None:
            add_up(self.e, partial, s, self.splits, self.finish)

    def _sums(
        self, split: Index, batch: Index, first: Index, thread: Index, shared: Buffer
    ) -> None:
        """What one thread adds up, into shared memory."""
        b, t, r = self.b, self.tiling, self.recipe
        if self.matrix.inner_first:
            row, part = thread // t.parts, thread % t.parts
        else:
            row, part = thread % t.rows, thread // t.rows
        start = split * (self.steps * self.step)
        inside = b.in_range(first + row, 0, self.rows)
        step, sums = b.open_loop(self.steps, inits=[b.constant(r.sums, 0)] * self.few, name="step")
        for n in range(AT_ONCE):
            inner = start + step * self.step + part + n * t.parts
            counted = b.in_range(inner, 0, self.sizes.k)
            guard = b.conjunction(inside, counted)
            lhs = self._terms(self.matrix, batch, first + row, inner, guard, counted)
            for j in range(self.few):
                rhs = self._terms(self.vectors, batch, Index({}, j), inner, counted, counted)
                for p, q in r.terms:
                    sums[j] = multiply_add(b, lhs[p], rhs[q], sums[j])
        sums = b.close_loop(sums)
        if not self._in_warps:
            for j, total in enumerate(sums):
                b.store(shared, (part + j * self.left) * t.rows + row, (total,))
            return
        for j, total in enumerate(sums):
            distance = WARP // 2
            while distance:
                other = b.shuffle(total, ShuffleMode.XOR, distance)
                total = b.compute(Opcode.ADD, r.sums, (total, other))
                distance //= 2
            with b.where(part % WARP, 0, 1):
                b.store(shared, (part // WARP + j * self.left) * t.rows + row, (total,))

    def _terms(
        self,
        side: Factor,
        batch: Index,
        outer: Index,
        inner: Index,
        guard: Value | bool | None,
        counted: Value | bool,
    ) -> list[Value]:
        b, r = self.b, self.recipe
        value = factor_element(self.e, r, side, batch, outer, inner, guard, counted)
        return [convert(b, part, r.sums) for part in r.parts_of(b, value)]

    def _results(
        self,
        split: Index,
        batch: Index,
        first: Index,
        thread: Index,
        shared: Buffer,
        partial: Buffer | None,
    ) -> None:
        """The parts of each sum of the block together, one thread for each sum."""
        b, t, s = self.b, self.tiling, self.sizes
        count, threads = t.rows * self.few, t.rows * t.parts
        for start in range(0, count, threads):
            number = thread + start
            with b.where(number, 0, count):
                row, j = number % t.rows, number // t.rows
                total: Value | None = None
                for part in range(self.left):
                    at = (j * self.left + part) * t.rows + row
                    value = b.load(shared, at, mutable=True)
                    total = b.compute(Opcode.ADD, value.type, (total, value)) if total else value
                assert total is not None
                here = first + row
                guard = b.in_range(here, 0, self.rows)
                i, k = (j, here) if self.transposed else (here, j)
                if partial is None:
                    self.finish(batch, i, k, total, guard)
                    continue
                place = ((split * s.batch + batch) * s.m + i) * s.n + k
                b.store(partial, place, (total,), guard if isinstance(guard, Value) else None)
