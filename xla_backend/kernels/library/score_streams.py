"""Products and sums of scores (`passes.score_streams`) without the scores in memory: a block of
rows stays, the rest streams past it.

    for block in grid(...):                    some rows of one batch
        for thread in threads(...):            each warp has 16 of them
            q, dO = ...                        tile by tile in registers
            for tile in range(...):            results so far are carried
                k, v, x = ... the next columns of scores
                scores, gradients = q @ k^T, dO @ v^T
                result += f(scores, gradients) @ x

Rows are queries or keys, whichever the results have; columns are the others. What f does is asked
element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xla_backend.hlo.attributes import DimensionsAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.from_hlo.lower import begin
from xla_backend.kernels.index import ZERO, Atom, Index, Var, delinearize, linearize
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel, LoopKind, Value
from xla_backend.kernels.library.dots import recipe_of_dot
from xla_backend.kernels.library.factors import (
    Element,
    Factor,
    Part,
    SharedBlock,
    factor,
    factor_element,
    fill,
)
from xla_backend.kernels.library.held_tiles import (
    COLUMNS,
    ROWS,
    Lane,
    across_members,
    add_products,
    eight_products,
    held_place,
    lane_of,
    padded,
    row_tiles,
)
from xla_backend.kernels.library.hidden_scores import first_column, last_column, not_zero
from xla_backend.kernels.library.places import at_most
from xla_backend.kernels.library.recipes import Recipe, convert
from xla_backend.kernels.library.score_places import above, kept, only, places_of, put
from xla_backend.kernels.matrix_tiles import WARP
from xla_backend.passes.dots import dot_sizes, operand_dimensions
from xla_backend.passes.score_streams import MOVES, Stream, is_widened, streams_in
from xla_backend.process.light_dataclasses import dataclass

P = PrimitiveType
_SHARED_BYTES = 48 << 10
# Rows and columns of a block, the best ones first.
_BLOCKS = ((64, 64), (64, 32), (32, 32), (32, 16))
_WIDEST = 128
# Of 32 bits, for rows and results: with more of them, what is computed in between does not fit.
_REGISTERS = 160

Indices = tuple[Index, ...]


def _recipe(dot: Instruction) -> Recipe | None:
    """How a dot is computed in tiles of one product; None where it is not."""
    # A factor that had fewer bits before leaves nothing to lose by rounding the other one.
    found = recipe_of_dot(dot, small=False if any(map(_was_narrow, dot.operands)) else None)
    if found is None or found.tile is None or found.parts > 1 or found.sums is not P.F32:
        return None
    return found


def _was_narrow(operand: Instruction) -> bool:
    while operand.opcode in MOVES:
        (operand,) = operand.operands
    return is_widened(operand)


def _tile(recipe: Recipe) -> tuple[int, int, int]:
    assert recipe.tile is not None
    return recipe.tile


class _Space:
    """Batch, row and column of the scores, and where arrays have what belongs to them.

    Expressions are made once, of variables with the exact extents, and then filled in: positions
    beyond the edge of an array take part in nothing, but would spoil the simplification.
    """

    def __init__(self, product: Instruction, nodes: Sequence[Instruction]) -> None:
        sizes = dot_sizes(product)
        left, right = operand_dimensions(product)
        lhs, rhs = (o.shape.dimensions for o in product.operands)
        self.names = [
            Var(name, extent, 1) for name, extent in zip("bij", (sizes.batch, sizes.m, sizes.n))
        ]
        b, i, j = (Index.of(v) if v.extent > 1 else ZERO for v in self.names)
        index = (
            *delinearize(b, [lhs[d] for d in left.batch]),
            *delinearize(i, [lhs[d] for d in left.free]),
            *delinearize(j, [rhs[d] for d in right.free]),
        )
        self.places = places_of(product, index, nodes)

    def is_along(self, parts: Sequence[Index], sizes: Sequence[int], variable: Var) -> bool:
        """Whether some dimensions of an array are a variable, all of it."""
        return only(parts, variable) and math.prod(sizes) == variable.extent

    def turned(self) -> None:
        """Let rows be columns."""
        b, i, j = self.names
        self.names = [b, j, i]

    @property
    def extents(self) -> tuple[int, int, int]:
        """Of batch, rows and columns."""
        b, i, j = (v.extent for v in self.names)
        return b, i, j

    def fill_in(self, index: Sequence[Index], *values: Index) -> Indices:
        """Expressions at a batch, row and column."""
        known: dict[Atom, Index] = dict(zip(self.names, values))
        return tuple(x.replaced(known.get) for x in index)


@dataclass(frozen=True)
class _Product:
    """A product that scores are made of. `rows`: the number of its operand that has the rows."""

    dot: Instruction
    rows: int
    depth: int
    recipe: Recipe


@dataclass(frozen=True)
class _Result:
    """What becomes of a stream. `recipe`: of a dot, whose result has columns. `place`: where the
    result of a row has them."""

    stream: Stream
    recipe: Recipe | None
    column: Var
    place: Indices

    @property
    def width(self) -> int:
        return self.column.extent


@dataclass(frozen=True)
class _Plan:
    space: _Space
    products: list[_Product]
    results: list[_Result]
    rows: int
    columns: int


def _plan(fused: Computation) -> _Plan | None:
    """How streams run in one kernel; None where they do not."""
    streams = streams_in(fused)
    if not streams:
        return None
    ends = {s.node for s in streams}
    dots = [n for n in fused.post_order(Opcode.DOT) if n not in ends]
    space = _Space(dots[0], fused.post_order())
    ways = {_reduces_rows(space, s) for s in streams}
    if len(ways) > 1 or None in ways:
        return None
    if ways == {True}:
        space.turned()
    products = [_product_plan(space, dot) for dot in dots]
    results = [_result_plan(space, s) for s in streams]
    made, ended = [p for p in products if p], [r for r in results if r]
    if len(made) < len(products) or len(ended) < len(results):
        return None
    if _registers(made, ended) > _REGISTERS:
        return None
    for rows, columns in _BLOCKS:
        size = sum(columns * (padded(p.depth, p.recipe) + 8) * _bytes(p.recipe) for p in made)
        for r in ended:
            if r.recipe is not None:
                size += (columns + 8) * (padded(r.width, r.recipe) + 8) * _bytes(r.recipe)
        if size <= _SHARED_BYTES:
            return _Plan(space, made, ended, rows, columns)
    return None


def _bytes(recipe: Recipe) -> int:
    return recipe.factor.byte_size


def _registers(products: Sequence[_Product], results: Sequence[_Result]) -> int:
    """What a thread keeps from one tile to the next: its part of 16 rows of each factor, and of
    the results."""
    held = sum(padded(p.depth, p.recipe) * _bytes(p.recipe) for p in products) * ROWS // WARP // 4
    return held + sum(
        padded(r.width, r.recipe) * ROWS // WARP if r.recipe is not None else 2 for r in results
    )


def _reduces_rows(space: _Space, stream: Stream) -> bool | None:
    """Whether a stream goes along the rows of the scores, so that results have their columns; None
    where it mixes them, or is of something else."""
    place, dims = space.places.get(stream.scores), stream.scores.shape.dimensions
    if place is None:
        return None
    if stream.node.opcode is Opcode.DOT:
        groups = operand_dimensions(stream.node)[stream.side]
        contracted = groups.contracting
        if not only([place[d] for d in groups.batch], space.names[0]):
            return None
        if math.prod(dims[d] for d in groups.batch) != space.extents[0]:
            return None
        free: tuple[int, ...] = groups.free
    else:
        assert isinstance(stream.node.attributes, DimensionsAttributes)
        contracted, free = stream.node.attributes.dimensions, ()
    for along, other in ((1, 2), (2, 1)):
        parts = [place[d] for d in contracted]
        if space.is_along(parts, [dims[d] for d in contracted], space.names[along]) and (
            only([place[d] for d in free], space.names[other])
        ):
            return along == 1
    return None


def _product_plan(space: _Space, dot: Instruction) -> _Product | None:
    recipe, place = _recipe(dot), space.places.get(dot)
    if recipe is None or place is None:
        return None
    batch, rows, columns = space.names
    groups = operand_dimensions(dot)
    ends = len(groups[0].batch), len(groups[0].batch) + len(groups[0].free)
    if not only(place[: ends[0]], batch) or dot_sizes(dot).batch != batch.extent:
        return None
    frees = place[ends[0] : ends[1]], place[ends[1] :]
    extents = dot_sizes(dot).m, dot_sizes(dot).n
    for side in (0, 1):
        if (
            only(frees[side], rows)
            and only(frees[1 - side], columns)
            and (extents[side], extents[1 - side]) == (rows.extent, columns.extent)
        ):
            depth = dot_sizes(dot).k
            return _Product(dot, side, depth, recipe) if depth <= _WIDEST else None
    return None


def _result_plan(space: _Space, stream: Stream) -> _Result | None:
    place, node = space.places[stream.scores], stream.node
    if node.opcode is not Opcode.DOT:
        if node.shape.element_type is not P.F32:
            return None
        ended = above(kept(node, place), node, stream.after)
        return _Result(stream, None, Var("c", 1, 1), ended)
    recipe, groups = _recipe(node), operand_dimensions(node)
    scores, own = groups[stream.side], groups[1 - stream.side]
    dims = node.operands[1 - stream.side].shape.dimensions
    widths = [dims[d] for d in own.free]
    column = Var("c", math.prod(widths), 1)
    if recipe is None or column.extent > _WIDEST:
        return None
    columns = delinearize(Index.of(column), widths)
    batch, free = ([place[d] for d in group] for group in (scores.batch, scores.free))
    index = (*batch, *columns, *free) if stream.side else (*batch, *free, *columns)
    return _Result(stream, recipe, column, above(index, node, stream.after))


def runs_as_streams(fused: Computation) -> bool:
    """Whether there is a kernel for a computation of streams."""
    return _plan(fused) is not None


def streams_kernel(fusion: Instruction, name: str) -> Kernel:
    """The kernel of a fusion whose computation `runs_as_streams`."""
    e, _, outputs = begin(fusion, name)
    plan = _plan(fusion.called[0])
    assert plan is not None
    _Streaming(e, plan, outputs).build()
    return e.builder.kernel


@dataclass(frozen=True)
class _Block:
    """A part of a factor in shared memory. `along`: its columns are those of the scores, rather
    than its sum."""

    recipe: Recipe
    block: SharedBlock
    buffer: Buffer
    along: bool


class _Streaming:
    def __init__(self, e: ElementalEmitter, plan: _Plan, outputs: Sequence[Buffer]) -> None:
        self.e, self.b, self.plan, self.outputs = e, e.builder, plan, outputs
        self.space = plan.space
        self.threads = plan.rows // ROWS * WARP
        batch, rows, columns = self.space.extents
        self.stays = [self._factor(p, p.rows, (batch, rows, p.depth)) for p in plan.products]
        self.moving = [
            self._factor(p, 1 - p.rows, (batch, columns, p.depth)) for p in plan.products
        ]

    # -- elements ----------------------------------------------------------------------------------

    def _factor(self, p: _Product, side: int, sizes: tuple[int, int, int]) -> Factor:
        """An operand of a product by batch, row (or column), and position in the sum."""
        x, own = p.dot.operands[side], operand_dimensions(p.dot)[side]
        left = operand_dimensions(p.dot)[0]
        dims, place, space = x.shape.dimensions, self.space.places[p.dot], self.space
        start = len(own.batch) + (len(left.free) if side else 0)
        batch, free = place[: len(own.batch)], place[start : start + len(own.free)]

        def element(e: ElementalEmitter, at: Index, outer: Index, inner: Index) -> Value:
            found = [ZERO] * len(dims)
            put(found, own.batch, space.fill_in(batch, at, outer, outer))
            put(found, own.free, space.fill_in(free, at, outer, outer))
            sums = [dims[d] for d in own.contracting]
            put(found, own.contracting, delinearize(inner, sums))
            return e.real(x, tuple(found))

        return factor(element, sizes, self.e.leaves, p.recipe, zero=True)

    def _other(self, stream: Stream) -> Element:
        """The other operand of a dot of scores by batch, column of the result, and position in the
        sum."""
        x = stream.node.operands[1 - stream.side]
        groups = operand_dimensions(stream.node)
        scores, own = groups[stream.side], groups[1 - stream.side]
        dims, place, space = x.shape.dimensions, self.space.places[stream.scores], self.space
        batch = [place[d] for d in scores.batch]
        sums = [place[d] for d in scores.contracting]

        def element(e: ElementalEmitter, at: Index, outer: Index, inner: Index) -> Value:
            found = [ZERO] * len(dims)
            put(found, own.batch, space.fill_in(batch, at, inner, inner))
            put(found, own.contracting, space.fill_in(sums, at, inner, inner))
            put(found, own.free, delinearize(outer, [dims[d] for d in own.free]))
            return e.real(x, tuple(found))

        return element

    # -- the kernel --------------------------------------------------------------------------------

    def build(self) -> None:
        b, p = self.b, self.plan
        batch, rows, columns = self.space.extents
        shared = [
            self._block(f"k{n}", x, m.recipe, p.columns, padded(m.depth, m.recipe), along=True)
            for n, (x, m) in enumerate(zip(self.moving, p.products))
        ]
        others: list[_Block | None] = []
        for n, r in enumerate(p.results):
            if r.recipe is None:
                others.append(None)
                continue
            sizes = batch, r.width, columns
            x = factor(self._other(r.stream), sizes, self.e.leaves, r.recipe, zero=True)
            width = padded(r.width, r.recipe)
            others.append(self._block(f"x{n}", x, r.recipe, width, p.columns, along=False))
        blocks = -(-rows // p.rows)
        with b.loop(blocks * batch, LoopKind.GRID) as block:
            at, start = block // blocks, block % blocks * p.rows
            with b.loop(self.threads, LoopKind.THREAD) as thread:
                lane = lane_of(thread)
                first = start + thread // WARP * ROWS
                held = [self._rows(m, x, lane, at, first) for m, x in zip(p.products, self.stays)]
                state = self._stream(at, start, first, lane, held, shared, others, thread)
                self._store(at, first, lane, state)

    def _block(
        self, name: str, x: Factor, recipe: Recipe, outer: int, depth: int, *, along: bool
    ) -> _Block:
        block = SharedBlock(x, outer, depth, _bytes(recipe), tiles=True)
        buffer = self.b.buffer(name, recipe.factor, block.size, BufferRole.SHARED)
        return _Block(recipe, block, buffer, along)

    def _rows(
        self, p: _Product, x: Factor, lane: Lane, at: Index, first: Index
    ) -> list[list[Value]]:
        """The rows of a warp in one product."""

        def element(row: Index, inner: Index) -> Value:
            counted = self.b.in_range(inner, 0, p.depth)
            # Of rows beyond the edge nothing is kept.
            there = at_most(self.b, first + row, self.space.extents[1] - 1)
            return factor_element(self.e, p.recipe, x, at, there, inner, counted, counted)

        return row_tiles(lane, _tile(p.recipe), padded(p.depth, p.recipe), element)

    def _stream(
        self,
        at: Index,
        block: Index,
        first: Index,
        lane: Lane,
        held: Sequence[list[list[Value]]],
        shared: Sequence[_Block],
        others: Sequence[_Block | None],
        thread: Index,
    ) -> list[list[Value]]:
        """The results of a warp, whose rows begin at `first` and those of its block at `block`."""
        b, p = self.b, self.plan
        columns = self.space.extents[2]
        sizes = [2 if x is None else x.block.outer // COLUMNS * 4 for x in others]
        inits = [b.constant(P.F32, self._start(r)) for r in p.results]
        tiles = -(-columns // p.columns)
        limits, backwards = self._limits(block, tiles)
        tile, state = b.open_loop(
            tiles,
            inits=[x for x, size in zip(inits, sizes) for _ in range(size)],
            name="tile",
            limits=limits,
        )
        start = (tile * -1 + (tiles - 1) if backwards else tile) * p.columns
        b.barrier()
        for x, m in zip(shared, p.products):
            part = Part(at, start, ZERO, m.depth)
            fill(self.e, x.recipe, x.block, part, (x.buffer, ZERO), thread, self.threads)
        for other in others:
            if other is not None:
                part = Part(at, ZERO, start, columns)
                fill(
                    self.e, other.recipe, other.block, part, (other.buffer, ZERO), thread,
                    self.threads,
                )  # fmt: skip
        b.barrier()
        parts = _split(state, sizes)
        step = max([_tile(x.recipe)[2] for x in others if x is not None], default=COLUMNS)
        for n in range(0, p.columns, step):
            eights = [
                self._scores(at, first, start, eight, lane, held, shared)
                for eight in range(n, n + step, COLUMNS)
            ]
            for number, (result, other) in enumerate(zip(p.results, others)):
                scores = [eight[number] for eight in eights]
                if other is None:
                    parts[number] = self._combined(result, parts[number], scores)
                    continue
                factors = [[other.recipe.factor_of(b, x) for x in eight] for eight in scores]
                parts[number] = add_products(
                    b,
                    lane,
                    _tile(other.recipe),
                    parts[number],
                    factors,
                    other.block,
                    other.buffer,
                    n,
                )
        return _split(b.close_loop([x for part in parts for x in part]), sizes)

    def _limits(self, block: Index, tiles: int) -> tuple[tuple[Index, ...], bool]:
        """How many tiles of columns there are for the rows that begin at `block`, where masks hide
        whole ones, and whether it is the last ones that count."""
        p, (_, row, column) = self.plan, self.space.names
        found = []
        for r in p.results:
            scores = r.stream.scores
            is_sum = r.stream.reducer in (None, Opcode.ADD)
            found.append(not_zero(scores, self.space.places[scores]) if is_sum else None)
        shown = found[0]
        if shown is None or any(x != shown for x in found):
            return (), False
        last = last_column(shown, row, column, block, p.rows)
        if last is not None:
            return (last // p.columns + 1,), False
        first = first_column(shown, row, column, block)
        return ((), False) if first is None else ((first // p.columns * -1 + tiles,), True)

    def _start(self, result: _Result) -> float:
        return -np.inf if result.stream.reducer is Opcode.MAXIMUM else 0.0

    def _combined(
        self, result: _Result, state: Sequence[Value], scores: Sequence[Sequence[Value]]
    ) -> list[Value]:
        """A reduction of rows with some more of their elements."""
        reducer, found = result.stream.reducer, list(state)
        assert reducer is not None
        for eight in scores:
            for r, x in enumerate(eight):
                found[r // 2] = self.b.compute(reducer, P.F32, (found[r // 2], x))
        return found

    def _scores(
        self,
        at: Index,
        first: Index,
        start: Index,
        eight: int,
        lane: Lane,
        held: Sequence[list[list[Value]]],
        shared: Sequence[_Block],
    ) -> list[list[Value]]:
        """What this thread holds of eight columns, of the scores of each result."""
        b = self.b
        products = [
            eight_products(b, lane, _tile(m.recipe), rows, x.block, x.buffer, eight)
            for m, rows, x in zip(self.plan.products, held, shared)
        ]
        found: list[list[Value]] = [[] for _ in self.plan.results]
        for r in range(4):
            i, j = held_place(lane, r)
            totals = [product[r] for product in products]
            for n, x in enumerate(self._elements(at, first + i, start + eight + j, totals)):
                found[n].append(x)
        return found

    def _elements(
        self, at: Index, row: Index, column: Index, totals: Sequence[Value]
    ) -> list[Value]:
        """The scores of each result that a product's sums become; nothing where there is no
        column."""
        b, e, space = self.b, self.e, self.space
        _, rows, columns = space.extents
        for m, total in zip(self.plan.products, totals):
            made = convert(b, total, m.dot.shape.element_type)
            e.provided[m.dot] = _given(made)
        there = b.in_range(column, 0, columns)
        # What lies beyond the edges reads what is there: where there are no conditions, rows share
        # loads, and fewer registers hold addresses.
        row, column = at_most(b, row, rows - 1), at_most(b, column, columns - 1)
        found = []
        for r in self.plan.results:
            scores = r.stream.scores
            nothing = b.constant(scores.shape.element_type, self._start(r))
            value = e.real(scores, space.fill_in(space.places[scores], at, row, column))
            if there is not True:
                made = there if isinstance(there, Value) else b.constant(P.PRED, False)
                value = b.compute(Opcode.SELECT, value.type, (made, value, nothing))
            found.append(value)
        return found

    def _store(self, at: Index, first: Index, lane: Lane, state: Sequence[Sequence[Value]]) -> None:
        for result, values, output in zip(self.plan.results, state, self.outputs):
            reducer = result.stream.reducer
            if reducer is not None:
                one = self.b.in_range(lane.member, 0, 1)
                for half, x in enumerate(values):
                    whole = across_members(self.b, reducer, x)
                    row = first + held_place(lane, 2 * half)[0]
                    self._store_element(result, output, (at, row, ZERO), whole, one)
                continue
            for n, x in enumerate(values):
                i, c = held_place(lane, n % 4)
                column = c + n // 4 * COLUMNS
                there = self.b.in_range(column, 0, result.width)
                self._store_element(result, output, (at, first + i, column), x, there)

    def _store_element(
        self,
        result: _Result,
        output: Buffer,
        at: tuple[Index, Index, Index],
        value: Value,
        guard: Value | bool,
    ) -> None:
        """Store what belongs to a batch, row and column."""
        b, stream = self.b, result.stream
        batch, row, column = at
        there = b.conjunction(b.in_range(row, 0, self.space.extents[1]), guard)
        if there is False:
            return
        known: dict[Atom, Index] = {result.column: column}
        place = [x.replaced(known.get) for x in self.space.fill_in(result.place, batch, row, row)]
        for node in (stream.node, *stream.after):
            value = convert(b, value, node.shape.element_type)
        linear = linearize(place, stream.root.shape.dimensions)
        b.store(output, linear, (value,), there if isinstance(there, Value) else None)


def _given(value: Value) -> Callable[[Instruction, Indices], Value]:
    return lambda node, index: value


def _split(values: Sequence[Value], sizes: Sequence[int]) -> list[list[Value]]:
    found, start = [], 0
    for size in sizes:
        found.append(list(values[start : start + size]))
        start += size
    return found
