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
from dataclasses import dataclass

import numpy as np

from xla_backend.hlo.attributes import CompareAttributes, ComparisonDirection, DimensionsAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.from_hlo.lower import begin
from xla_backend.kernels.index import ZERO, Atom, FloorDiv, Index, Mod, Var, delinearize, linearize
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel, LoopKind, ShuffleMode, Value
from xla_backend.kernels.library.dots import recipe_of_dot
from xla_backend.kernels.library.factors import Part, SharedBlock, factor, fill
from xla_backend.kernels.library.recipes import Recipe, convert
from xla_backend.kernels.matrix_tiles import LAYOUTS, WARP
from xla_backend.passes.attention_fusion import Attention, attention_in, contracted
from xla_backend.passes.dots import operand_dimensions

P = PrimitiveType
_ROWS = 16  # of a warp
_KEYS = 8  # columns of a tile
# Threads that share a row of a tile.
_MEMBERS = 4
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
        _set(at, groups.batch, delinearize(b, self.batches))
        _set(at, groups.free, delinearize(i, self.rows))
        _set(at, groups.contracting, (j,))
        index = tuple(at)
        for node in a.weights[:-1]:
            index = _below(node, index)
        self.scores = index
        for node in a.queries[:-1]:
            index = _below(node, index)
        self.products = index
        rows, columns = delinearize(i, self.rows), delinearize(c, self.columns)
        free = (*columns, *rows) if a.side else (*rows, *columns)
        self.result = _above((*delinearize(b, self.batches), *free), a.values, a.after)

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
        if sum(key_parts) != 1 or not _only(parts[0], b):
            return None
        q = 1 if key_parts[0] else 0
        return (q, 1 - q) if _only(parts[1 + q], i) else None

    def fill_in(self, index: Sequence[Index], *values: Index) -> Indices:
        """Expressions at a batch, query, key and column."""
        known: dict[Atom, Index] = dict(zip(self.names, values))
        return tuple(x.replaced(known.get) for x in index)


def _set(at: list[Index], places: Sequence[int], values: Sequence[Index]) -> None:
    for place, value in zip(places, values):
        at[place] = value


def _only(parts: Sequence[Index], variable: Var) -> bool:
    """Whether indices depend on one variable at most."""
    return all(
        _only([atom.index], variable) if isinstance(atom, FloorDiv | Mod) else atom is variable
        for part in parts
        for atom in part.terms
    )


def _below(node: Instruction, index: Indices) -> Indices:
    """The index of the operand that an element of a node is made of."""
    if node.opcode is Opcode.TRANSPOSE:
        assert isinstance(node.attributes, DimensionsAttributes)
        found = [ZERO] * len(index)
        _set(found, node.attributes.dimensions, index)
        return tuple(found)
    if node.opcode is Opcode.RESHAPE:
        linear = linearize(index, node.shape.dimensions)
        return delinearize(linear, node.operands[0].shape.dimensions)
    return index


def _above(index: Indices, node: Instruction, moves: Sequence[Instruction]) -> Indices:
    """Where moves put an element of a node."""
    for move in moves:
        if move.opcode is Opcode.TRANSPOSE:
            assert isinstance(move.attributes, DimensionsAttributes)
            index = tuple(index[d] for d in move.attributes.dimensions)
        elif move.opcode is Opcode.RESHAPE:
            linear = linearize(index, node.shape.dimensions)
            index = delinearize(linear, move.shape.dimensions)
        node = move
    return index


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
        sizes = _padded(geometry.depth, first), _padded(geometry.width, second)
        elements = (queries + keys) * (sizes[0] + 8) * first.factor.byte_size
        elements += (keys + 8) * (sizes[1] + 8) * second.factor.byte_size
        if elements <= _SHARED_BYTES:
            return _Plan(geometry, first, second, queries, keys)
    return None


def _padded(size: int, recipe: Recipe) -> int:
    """A size as a whole number of tiles, of either side."""
    assert recipe.tile is not None
    return -(-size // max(recipe.tile[1:])) * max(recipe.tile[1:])


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
    _Streaming(e, attention, plan, outputs[0]).build()
    return e.builder.kernel


class _Streaming:
    def __init__(
        self, e: ElementalEmitter, attention: Attention, plan: _Plan, output: Buffer
    ) -> None:
        self.e, self.b, self.attention, self.output = e, e.builder, attention, output
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
        self.depth = _padded(g.depth, plan.first)
        self.width = _padded(g.width, plan.second)
        self.threads = plan.queries // _ROWS * WARP

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
            _set(place, own.batch, g.fill_in(batch, at, outer, outer))
            _set(place, own.free, g.fill_in(free, at, outer, outer))
            sizes = [dims[d] for d in own.contracting]
            _set(place, own.contracting, delinearize(inner, sizes))
            return e.real(x, tuple(place))

        return element

    def _value(self, e: ElementalEmitter, at: Index, outer: Index, inner: Index) -> Value:
        """Elements of v by batch, column of the result, and key."""
        a, g = self.attention, self.geometry
        groups = operand_dimensions(a.values)[1 - a.side]
        place = [ZERO] * a.v.shape.rank
        _set(place, groups.batch, delinearize(at, g.batches))
        _set(place, groups.free, delinearize(outer, g.columns))
        _set(place, groups.contracting, (inner,))
        return e.real(a.v, tuple(place))

    def _score(self, at: Index, query: Index, key: Index, total: Value) -> Value:
        """What becomes of a product of query and key; none is as small as that of no key."""
        e, b, a, g = self.e, self.b, self.attention, self.geometry
        made = convert(b, total, a.products.shape.element_type)
        e.provided[a.products] = lambda node, index: made
        there = b.in_range(key, 0, g.keys)
        guard = b.conjunction(b.in_range(query, 0, g.queries), there)
        if guard is False:
            return b.constant(P.F32, -np.inf)
        with e.guarded(guard):
            score = e.real(a.scores, g.fill_in(g.scores, at, query, key))
        if not isinstance(there, Value):
            return score
        return b.compute(Opcode.SELECT, P.F32, (there, score, b.constant(P.F32, -np.inf)))

    # -- the kernel --------------------------------------------------------------------------------

    def build(self) -> None:
        b, g, p = self.b, self.geometry, self.plan
        first, second = p.first, p.second
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
                warp, lane = thread // WARP, thread % WARP
                self.group, self.member = lane // _MEMBERS, lane % _MEMBERS
                row = warp * _ROWS
                queries = self._rows_of(first, q, shared[0], row)
                self._stream(at, start + row, queries, (k, v), shared[1:], thread)

    def _rows_of(
        self, recipe: Recipe, block: SharedBlock, buffer: Buffer, row: Index
    ) -> list[list[Value]]:
        """The tiles of the queries of a warp, along the sum."""
        assert recipe.tile is not None
        layout = LAYOUTS[recipe.tile]
        found = []
        for start in range(0, self.depth, recipe.tile[2]):
            places = [
                layout.element("lhs", self.group, self.member, r)
                for r in range(layout.registers["lhs"])
            ]
            found.append(
                [
                    self.b.load(buffer, block.place(row + i, inner + start), mutable=True)
                    for i, inner in places
                ]
            )
        return found

    def _stream(
        self,
        at: Index,
        row: Index,
        queries: list[list[Value]],
        blocks: tuple[SharedBlock, SharedBlock],
        shared: Sequence[Buffer],
        thread: Index,
    ) -> None:
        b, g, p = self.b, self.geometry, self.plan
        zero, lowest = b.constant(P.F32, 0), b.constant(P.F32, -np.inf)
        results = self.width // _KEYS * 4
        tile, state = b.open_loop(
            -(-g.keys // p.keys),
            inits=[lowest, lowest, zero, zero, *[zero] * results],
            name="tile",
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
        result = self._add_values(result, weights, blocks[1], shared[1])
        state = b.close_loop([*largest, *sums, *result])
        totals = [self._across(Opcode.ADD, x) for x in state[2:4]]
        for n, x in enumerate(state[4:]):
            column = 2 * self.member + n % 2 + n // 4 * _KEYS
            query = row + self.group + 8 * (n % 4 // 2)
            value = b.compute(Opcode.DIVIDE, P.F32, (x, totals[n % 4 // 2]))
            self._store(at, query, column, value)

    def _store(self, at: Index, query: Index, column: Index, value: Value) -> None:
        b, g, root = self.b, self.geometry, self.attention.root
        guard = b.conjunction(b.in_range(query, 0, g.queries), b.in_range(column, 0, g.width))
        if guard is False:
            return
        made = convert(b, value, root.shape.element_type)
        place = linearize(g.fill_in(g.result, at, query, ZERO, column), root.shape.dimensions)
        b.store(self.output, place, (made,), guard if isinstance(guard, Value) else None)

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
        b, tile = self.b, self.plan.first.tile
        assert tile is not None
        layout = LAYOUTS[tile]
        found = []
        for first in range(0, self.plan.keys, _KEYS):
            sums = [b.constant(P.F32, 0)] * 4
            for n, lhs in enumerate(queries):
                places = [
                    layout.element("rhs", self.group, self.member, r)
                    for r in range(layout.registers["rhs"])
                ]
                rhs = [
                    b.load(buffer, block.place(key + first, inner + n * tile[2]), mutable=True)
                    for inner, key in places
                ]
                sums = b.matrix_tile(tile, lhs, rhs, sums)
            scores = []
            for r, total in enumerate(sums):
                query, key = layout.element("sum", self.group, self.member, r)
                scores.append(self._score(at, row + query, start + key + first, total))
            found.append(scores)
        return found

    def _add_values(
        self,
        result: list[Value],
        weights: list[list[Value]],
        block: SharedBlock,
        buffer: Buffer,
    ) -> list[Value]:
        """The result with weights @ v. A thread holds of the weights what it holds of sums; as the
        order of keys is free, that is a left factor with the keys in another order."""
        b, recipe, result = self.b, self.plan.second, list(result)
        tile = recipe.tile
        assert tile is not None
        layout = LAYOUTS[tile]
        made = [[self._weight(x) for x in held] for held in weights]
        for n in range(0, self.plan.keys, tile[2]):
            held = made[n // _KEYS : (n + tile[2]) // _KEYS]
            if tile[2] == 2 * _KEYS:
                lhs, keys = [x for eight in held for x in eight], None
            else:
                (x,) = held
                lhs, keys = [x[0], x[2], x[1], x[3]], 2 * self.member
            for column in range(0, self.width, _KEYS):
                rhs = []
                for r in range(layout.registers["rhs"]):
                    key, c = layout.element("rhs", self.group, self.member, r)
                    if keys is not None:
                        key = keys + r
                    place = block.place(c + column, key + n)
                    rhs.append(b.load(buffer, place, mutable=True))
                first = column // _KEYS * 4
                result[first : first + 4] = b.matrix_tile(tile, lhs, rhs, result[first : first + 4])
        return result

    def _weight(self, value: Value) -> Value:
        """A weight as it is multiplied."""
        for node in reversed(self.attention.weights[:-1]):
            value = convert(self.b, value, node.shape.element_type)
        return self.plan.second.factor_of(self.b, value)

    # -- rows --------------------------------------------------------------------------------------

    def _across(self, opcode: Opcode, value: Value) -> Value:
        """The values of the threads that share a row, together."""
        for distance in (1, 2):
            other = self.b.shuffle(value, ShuffleMode.XOR, distance)
            value = self.b.compute(opcode, P.F32, (value, other))
        return value

    def _largest(self, largest: Value, scores: list[list[Value]], half: int) -> Value:
        b = self.b
        own: Value | None = None
        for held in scores:
            for score in held[2 * half : 2 * half + 2]:
                own = b.compute(Opcode.MAXIMUM, P.F32, (own, score)) if own else score
        assert own is not None
        return b.compute(Opcode.MAXIMUM, P.F32, (largest, self._across(Opcode.MAXIMUM, own)))

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
