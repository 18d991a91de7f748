"""softmax(q k^T) v without the scores in memory: a block of queries stays, keys and values stream
past it.

    for block in grid(...):                    some queries of one batch
        for thread in threads(...):            each warp has 16 rows of them
            q = ...                            in shared memory, and tile by tile in registers
            for tile in range(...):            largest score, sum, result so far are carried
                k, v = the next keys and values
                scores = f(q @ k^T)
                largest, before = max(largest, scores), largest
                weights = exp(scores - largest)
                sum, result = ... * exp(before - largest)
                sum += weights;  result += weights @ v
            out = result / sum

What f does (scale, bias, masks) is asked element by element, so that there are no variants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xla_backend.hlo.attributes import CompareAttributes, ComparisonDirection
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.from_hlo.lower import begin
from xla_backend.kernels.index import ZERO, Atom, Index, Var, delinearize, linearize
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel, LoopKind, Value
from xla_backend.kernels.library.dots import recipe_of_dot
from xla_backend.kernels.library.factors import Part, SharedBlock, factor, fill
from xla_backend.kernels.library.held_tiles import (
    COLUMNS,
    ROWS,
    across_members,
    add_products,
    eight_products,
    held_place,
    lane_of,
    padded,
    row_tiles,
)
from xla_backend.kernels.library.hidden_scores import last_column, shown_scores
from xla_backend.kernels.library.places import at_most
from xla_backend.kernels.library.recipes import Recipe, convert
from xla_backend.kernels.library.score_places import above, below, kept, only, places_of, put
from xla_backend.kernels.matrix_tiles import WARP
from xla_backend.passes.attention_fusion import Attention, attention_in, contracted
from xla_backend.passes.dots import operand_dimensions
from xla_backend.process.light_dataclasses import dataclass

P = PrimitiveType
_SHARED_BYTES = 48 << 10
# Queries and keys of a block, the best ones first.
_BLOCKS = ((64, 64), (64, 32), (32, 32), (32, 16))
_WIDEST = 128
_EQUAL = CompareAttributes(ComparisonDirection.EQ)

Indices = tuple[Index, ...]


class Geometry:
    """Which elements of the arrays belong to a batch, query, key and column of the result.

    Expressions are made once, of variables with the exact extents, and then filled in: positions
    beyond the edge of an array take part in nothing, but would spoil the simplification.
    """

    def __init__(self, attention: Attention) -> None:
        a = self.attention = attention
        weights = a.values.operands[a.side]
        groups = operand_dimensions(a.values)[a.side]
        dims = weights.shape.dimensions
        self.batches = [dims[d] for d in groups.batch]
        self.rows = [dims[d] for d in groups.free]
        v = operand_dimensions(a.values)[1 - a.side]
        self.columns = [a.v.shape.dimensions[d] for d in v.free]
        self.depth, self.keys = contracted(a)
        self.batch, self.queries, self.width = map(
            math.prod, (self.batches, self.rows, self.columns)
        )
        extents = (self.batch, self.queries, self.keys, self.width)
        self.names = [Var(n, extent, 1) for n, extent in zip("bijc", extents)]
        b, i, j, c = (Index.of(v) if v.extent > 1 else ZERO for v in self.names)
        at = [ZERO] * len(dims)
        put(at, groups.batch, delinearize(b, self.batches))
        put(at, groups.free, delinearize(i, self.rows))
        put(at, groups.contracting, (j,))
        index = tuple(at)
        for node in a.weights[:-1]:
            index = below(node, index)
        self.scores = index
        for node in a.queries[:-1]:
            index = below(node, index)
        self.products = index
        rows, columns = delinearize(i, self.rows), delinearize(c, self.columns)
        free = (*columns, *rows) if a.side else (*rows, *columns)
        self.result = above((*delinearize(b, self.batches), *free), a.values, a.after)

    def sides(self) -> tuple[int, int] | None:
        """The numbers of q and k among the operands of their dot; None where queries and keys are
        not apart from each other."""
        dot = self.attention.products
        left, right = operand_dimensions(dot)
        batch, m = len(left.batch), len(left.free)
        parts = self.products[:batch], self.products[batch : batch + m], self.products[batch + m :]
        b, i, j, _ = self.names
        key_parts = [
            Index.of(j)
            == linearize(part, [dot.operands[side].shape.dimensions[d] for d in group.free])
            for side, (part, group) in enumerate(zip(parts[1:], (left, right)))
        ]
        if sum(key_parts) != 1 or not only(parts[0], b):
            return None
        q = 1 if key_parts[0] else 0
        return (q, 1 - q) if only(parts[1 + q], i) else None

    def fill_in(self, index: Sequence[Index], *values: Index) -> Indices:
        """Expressions at a batch, query, key and column."""
        known: dict[Atom, Index] = dict(zip(self.names, values))
        return tuple(x.replaced(known.get) for x in index)


@dataclass(frozen=True)
class _Plan:
    geometry: Geometry
    first: Recipe
    second: Recipe
    queries: int
    keys: int


def _plan(attention: Attention) -> _Plan | None:
    """How attention runs in one kernel; None where it does not."""
    first, second = map(recipe_of_dot, (attention.products, attention.values))
    for recipe in (first, second):
        if recipe is None or recipe.tile is None or recipe.parts > 1 or recipe.sums is not P.F32:
            return None
    assert first is not None and second is not None
    geometry = Geometry(attention)
    if geometry.sides() is None or max(geometry.depth, geometry.width) > _WIDEST:
        return None
    for queries, keys in _BLOCKS:
        sizes = padded(geometry.depth, first), padded(geometry.width, second)
        elements = (queries + keys) * (sizes[0] + 8) * first.factor.byte_size
        elements += (keys + 8) * (sizes[1] + 8) * second.factor.byte_size
        if elements <= _SHARED_BYTES:
            return _Plan(geometry, first, second, queries, keys)
    return None


def runs_as_attention(attention: Attention) -> bool:
    """Whether there is a kernel for it."""
    return _plan(attention) is not None


def attention_kernel(fusion: Instruction, name: str) -> Kernel:
    """The kernel of a fusion that `runs_as_attention`."""
    e, _, outputs = begin(fusion, name)
    attention = attention_in(fusion.called[0])
    assert attention is not None
    plan = _plan(attention)
    assert plan is not None
    _Streaming(e, attention, plan, outputs).build()
    return e.builder.kernel


class _Streaming:
    def __init__(
        self, e: ElementalEmitter, attention: Attention, plan: _Plan, outputs: Sequence[Buffer]
    ) -> None:
        self.e, self.b, self.attention = e, e.builder, attention
        self.output, *self.statistics = outputs
        g = self.geometry = plan.geometry
        self.plan = plan
        sides = g.sides()
        assert sides is not None
        (q, k), dot = sides, attention.products
        shapes = (g.batch, g.queries, g.depth), (g.batch, g.keys, g.depth)
        self.q, self.k = (
            factor(self._factor_of(dot.operands[n], n), shape, e.leaves, plan.first, zero=True)
            for n, shape in zip((q, k), shapes)
        )
        self.v = factor(self._value, (g.batch, g.width, g.keys), e.leaves, plan.second, zero=True)
        self.depth = padded(g.depth, plan.first)
        self.width = padded(g.width, plan.second)
        self.threads = plan.queries // ROWS * WARP

    # -- elements ----------------------------------------------------------------------------------

    def _factor_of(
        self, x: Instruction, side: int
    ) -> Callable[[ElementalEmitter, Index, Index, Index], Value]:
        """Elements of q or k by batch, query (or key), and position in the sum."""
        dot, g = self.attention.products, self.geometry
        groups = operand_dimensions(dot)
        own, dims = groups[side], x.shape.dimensions
        start = len(own.batch) + (len(groups[0].free) if side else 0)
        batch, free = g.products[: len(own.batch)], g.products[start : start + len(own.free)]

        def element(e: ElementalEmitter, at: Index, outer: Index, inner: Index) -> Value:
            place = [ZERO] * len(dims)
            put(place, own.batch, g.fill_in(batch, at, outer, outer))
            put(place, own.free, g.fill_in(free, at, outer, outer))
            sizes = [dims[d] for d in own.contracting]
            put(place, own.contracting, delinearize(inner, sizes))
            return e.real(x, tuple(place))

        return element

    def _value(self, e: ElementalEmitter, at: Index, outer: Index, inner: Index) -> Value:
        """Elements of v by batch, column of the result, and key."""
        a, g = self.attention, self.geometry
        groups = operand_dimensions(a.values)[1 - a.side]
        place = [ZERO] * a.v.shape.rank
        put(place, groups.batch, delinearize(at, g.batches))
        put(place, groups.free, delinearize(outer, g.columns))
        put(place, groups.contracting, (inner,))
        return e.real(a.v, tuple(place))

    def _score(self, at: Index, query: Index, key: Index, total: Value) -> Value:
        """What becomes of a product of query and key; none is as small as that of no key."""
        e, b, a, g = self.e, self.b, self.attention, self.geometry
        made = convert(b, total, a.products.shape.element_type)
        e.provided[a.products] = lambda node, index: made
        there = b.in_range(key, 0, g.keys)
        if there is False:
            return b.constant(P.F32, -np.inf)
        # What lies beyond the edges reads what is there: no condition, and no register for one.
        query, key = at_most(b, query, g.queries - 1), at_most(b, key, g.keys - 1)
        score = e.real(a.scores, g.fill_in(g.scores, at, query, key))
        if not isinstance(there, Value):
            return score
        return b.compute(Opcode.SELECT, P.F32, (there, score, b.constant(P.F32, -np.inf)))

    # -- the kernel --------------------------------------------------------------------------------

    def build(self) -> None:
        b, g, p = self.b, self.geometry, self.plan
        first, second = p.first, p.second
        assert first.tile is not None
        sizes = first.factor.byte_size, second.factor.byte_size
        q = SharedBlock(self.q, p.queries, self.depth, sizes[0], tiles=True)
        k = SharedBlock(self.k, p.keys, self.depth, sizes[0], tiles=True)
        v = SharedBlock(self.v, self.width, p.keys, sizes[1], tiles=True)
        shared = [
            b.buffer(name, recipe.factor, block.size, BufferRole.SHARED)
            for name, recipe, block in (("q", first, q), ("k", first, k), ("v", second, v))
        ]
        blocks = -(-g.queries // p.queries)
        with b.loop(blocks * g.batch, LoopKind.GRID) as block:
            at, start = block // blocks, block % blocks * p.queries
            with b.loop(self.threads, LoopKind.THREAD) as thread:
                part = Part(at, start, ZERO, g.depth)
                fill(self.e, first, q, part, (shared[0], ZERO), thread, self.threads)
                b.barrier()
                warp, self.lane = thread // WARP, lane_of(thread)
                row = warp * ROWS
                queries = row_tiles(
                    self.lane,
                    first.tile,
                    self.depth,
                    lambda i, inner: b.load(shared[0], q.place(row + i, inner), mutable=True),
                )
                self._stream(at, start, start + row, queries, (k, v), shared[1:], thread)

    def _stream(
        self,
        at: Index,
        begin: Index,
        row: Index,
        queries: list[list[Value]],
        blocks: tuple[SharedBlock, SharedBlock],
        shared: Sequence[Buffer],
        thread: Index,
    ) -> None:
        b, g, p = self.b, self.geometry, self.plan
        zero, lowest = b.constant(P.F32, 0), b.constant(P.F32, -np.inf)
        results = self.width // COLUMNS * 4
        tile, state = b.open_loop(
            -(-g.keys // p.keys),
            inits=[lowest, lowest, zero, zero, *[zero] * results],
            name="tile",
            limits=self._limits(begin),
        )
        largest, sums, result = state[:2], state[2:4], state[4:]
        start = tile * p.keys
        b.barrier()
        for block, buffer, recipe, part in zip(
            blocks,
            shared,
            (p.first, p.second),
            (Part(at, start, ZERO, g.depth), Part(at, ZERO, start, g.keys)),
        ):
            fill(self.e, recipe, block, part, (buffer, ZERO), thread, self.threads)
        b.barrier()
        scores = self._scores(at, row, start, queries, blocks[0], shared[0])
        before = largest
        largest = [self._largest(largest[h], scores, h) for h in (0, 1)]
        # Where no score counts yet, nothing is added to: inf - inf would be nan.
        shift = [self._finite(x) for x in largest]
        scale = [self._exp(x, y) for x, y in zip(before, shift)]
        weights = [[self._exp(x, shift[r // 2]) for r, x in enumerate(t)] for t in scores]
        sums = [self._sum(sums[h], scale[h], weights, h) for h in (0, 1)]
        result = [self._times(x, scale[n % 4 // 2]) for n, x in enumerate(result)]
        held = [[self._weight(x) for x in eight] for eight in weights]
        tile_of_values = p.second.tile
        assert tile_of_values is not None
        result = add_products(b, self.lane, tile_of_values, result, held, blocks[1], shared[1])
        state = b.close_loop([*largest, *sums, *result])
        totals = [across_members(b, Opcode.ADD, x) for x in state[2:4]]
        for n, x in enumerate(state[4:]):
            query, column = held_place(self.lane, n % 4)
            value = b.compute(Opcode.DIVIDE, P.F32, (x, totals[n % 4 // 2]))
            self._store(at, row + query, column + n // 4 * COLUMNS, value)
        if self.statistics:
            self._store_statistics(at, row, state[:2], totals)

    def _limits(self, begin: Index) -> tuple[Index, ...]:
        """How many tiles of keys there are for a block of queries, which begins at `begin`, where a
        mask hides whole ones."""
        g, p = self.geometry, self.plan
        shown = shown_scores(self.attention.scores, g.scores)
        _, query, key, _ = g.names
        if shown is None:
            return ()
        last = last_column(shown, query, key, begin, p.queries)
        return () if last is None else (last // p.keys + 1,)

    def _store(self, at: Index, query: Index, column: Index, value: Value) -> None:
        b, g, root = self.b, self.geometry, self.attention.root
        guard = b.conjunction(b.in_range(query, 0, g.queries), b.in_range(column, 0, g.width))
        if guard is False:
            return
        made = convert(b, value, root.shape.element_type)
        place = linearize(g.fill_in(g.result, at, query, ZERO, column), root.shape.dimensions)
        b.store(self.output, place, (made,), guard if isinstance(guard, Value) else None)

    def _store_statistics(
        self, at: Index, row: Index, largest: Sequence[Value], totals: Sequence[Value]
    ) -> None:
        """Store the largest score of each row and the sum of powers."""
        b, g, a = self.b, self.geometry, self.attention
        assert a.values.parent is not None
        places = places_of(a.scores, g.scores, a.values.parent.post_order())
        for half in (0, 1):
            query = row + held_place(self.lane, 2 * half)[0]
            here = b.in_range(query, 0, g.queries)
            guard = b.conjunction(here, b.in_range(self.lane.member, 0, 1))
            if guard is False:
                continue
            # A row without a largest score has no powers: they are nan.
            lost = b.compute(Opcode.SUBTRACT, P.F32, (largest[half], largest[half]))
            total = b.compute(Opcode.ADD, P.F32, (totals[half], lost))
            for node, value, output in zip(
                (a.largest, a.total), (largest[half], total), self.statistics
            ):
                index = kept(node, places[node.operands[0]])
                index = g.fill_in(index, at, query, ZERO, ZERO)
                place = linearize(index, node.shape.dimensions)
                b.store(output, place, (value,), guard if isinstance(guard, Value) else None)

    def _scores(
        self,
        at: Index,
        row: Index,
        start: Index,
        queries: list[list[Value]],
        block: SharedBlock,
        buffer: Buffer,
    ) -> list[list[Value]]:
        """The scores of a tile of keys: for each eight of them, what this thread holds."""
        tile = self.plan.first.tile
        assert tile is not None
        found = []
        for first in range(0, self.plan.keys, COLUMNS):
            scores = []
            sums = eight_products(self.b, self.lane, tile, queries, block, buffer, first)
            for r, total in enumerate(sums):
                query, key = held_place(self.lane, r)
                scores.append(self._score(at, row + query, start + key + first, total))
            found.append(scores)
        return found

    def _weight(self, value: Value) -> Value:
        """A weight as it is multiplied."""
        for node in reversed(self.attention.weights[:-1]):
            value = convert(self.b, value, node.shape.element_type)
        return self.plan.second.factor_of(self.b, value)

    # -- rows --------------------------------------------------------------------------------------

    def _largest(self, largest: Value, scores: list[list[Value]], half: int) -> Value:
        b = self.b
        own: Value | None = None
        for held in scores:
            for score in held[2 * half : 2 * half + 2]:
                own = b.compute(Opcode.MAXIMUM, P.F32, (own, score)) if own else score
        assert own is not None
        return b.compute(Opcode.MAXIMUM, P.F32, (largest, across_members(b, Opcode.MAXIMUM, own)))

    def _finite(self, value: Value) -> Value:
        """A largest score, or 0 in the place of that of no score."""
        b = self.b
        lowest, zero = b.constant(P.F32, -np.inf), b.constant(P.F32, 0)
        none = b.compute(Opcode.COMPARE, P.PRED, (value, lowest), _EQUAL)
        return b.compute(Opcode.SELECT, P.F32, (none, zero, value))

    def _exp(self, value: Value, shift: Value) -> Value:
        difference = self.b.compute(Opcode.SUBTRACT, P.F32, (value, shift))
        return self.b.compute(Opcode.EXPONENTIAL, P.F32, (difference,))

    def _times(self, value: Value, scale: Value) -> Value:
        return self.b.compute(Opcode.MULTIPLY, P.F32, (value, scale))

    def _sum(self, total: Value, scale: Value, weights: list[list[Value]], half: int) -> Value:
        total = self._times(total, scale)
        for held in weights:
            for weight in held[2 * half : 2 * half + 2]:
                total = self.b.compute(Opcode.ADD, P.F32, (total, weight))
        return total
