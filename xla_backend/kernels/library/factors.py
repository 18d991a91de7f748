"""The two factors of a product, by element, and how blocks of them come into shared memory.

A factor is batch x outer x inner: outer are the rows of the left one and the columns of the right
one, inner is the sum. In what order a machine finds neighbours in memory, and how many of them it
can read at once, is found out by looking at the loads that one element takes, so that it holds for
whatever is computed on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter, Indices
from xla_backend.kernels.index import QUOTIENTS, ZERO, Atom, Index
from xla_backend.kernels.ir import Buffer, Load, LoopKind, Value, walk
from xla_backend.kernels.library.recipes import Recipe
from xla_backend.process.light_dataclasses import dataclass

_ACCESS_BYTES = 16
# Of what is copied beside the threads.
_ASYNC_BYTES = (4, 8, 16)
# All banks together.
_LINE_BYTES = 128

# The element at (batch, outer, inner).
Element = Callable[[ElementalEmitter, Index, Index, Index], Value]
Leaves = Mapping[Instruction, Buffer]


class Sizes(NamedTuple):
    """`batch` products of m x k by k x n."""

    batch: int
    m: int
    n: int
    k: int


@dataclass(frozen=True)
class Factor:
    """Fields:
    element: makes an element.
    sizes: batch, outer, inner.
    inner_first: neighbours in the sum are neighbours in memory, rather than neighbours in outer.
    width: how many neighbours are read at once, all of them of one whole group.
    zero: an element whose loads are guarded is zero where they are not made.
    plain: an element is what lies in memory, and goes into shared memory as it is.
    """

    element: Element
    sizes: tuple[int, int, int]
    inner_first: bool
    width: int
    zero: bool
    plain: bool


def factor(
    element: Element, sizes: tuple[int, int, int], leaves: Leaves, recipe: Recipe, *, zero: bool
) -> Factor:
    """A factor, with what its loads allow."""
    found = {
        inner: _width(element, sizes, leaves, recipe, along_inner=inner) for inner in (True, False)
    }
    inner_first = found[True] >= found[False]
    width = max(1, *found.values())
    return Factor(element, sizes, inner_first, width, zero, _is_plain(element, leaves, recipe))


class Place(NamedTuple):
    """Where an element is loaded from: nothing is read where the guard does not hold."""

    buffer: Buffer
    at: Index
    guard: Value | None


class _Places(ElementalEmitter):
    """Finds the places that elements are loaded from, and loads nothing."""

    def __init__(self, builder: LoopBuilder, leaves: Leaves) -> None:
        super().__init__(builder, leaves)
        self.found: list[tuple[Place, Value]] = []

    def load(
        self, buffer: Buffer, linear: Index, type: PrimitiveType, *, mutable: bool = False
    ) -> Value:
        value = Value(buffer.element_type, linear.depth, 0)
        self.found.append((Place(buffer, linear, self.guard), value))
        return value

    def _index_number(self, index: Indices) -> int:
        return self.builder.number_of((self, index))

    def place_of(self, element: Value) -> Place | None:
        """The place that an element is read from, if it is nothing but that."""
        return next((place for place, value in self.found if value is element), None)


def place_of_element(
    b: LoopBuilder, leaves: Leaves, element: Element, batch: Index, outer: Index, inner: Index
) -> Place | None:
    """Where an element is read from, if it is nothing but that."""
    places = _Places(b, leaves)
    return places.place_of(element(places, batch, outer, inner))


def _is_plain(element: Element, leaves: Leaves, recipe: Recipe) -> bool:
    places = _Places(LoopBuilder("element"), leaves)
    place = places.place_of(element(places, ZERO, ZERO, ZERO))
    same = place is not None and place.buffer.element_type is recipe.factor
    return same and not recipe.rounds_factors and len(places.found) == 1


def _width(
    element: Element,
    sizes: tuple[int, int, int],
    leaves: Leaves,
    recipe: Recipe,
    *,
    along_inner: bool,
) -> int:
    """How many neighbours are one access; 0 where neighbours are apart in memory."""
    width = _ACCESS_BYTES // recipe.factor.byte_size
    while width > 1 and sizes[2 if along_inner else 1] % width:
        width //= 2
    while width >= 1:
        fits = _fits(element, sizes, leaves, max(width, 2), width, along_inner=along_inner)
        if fits:
            return width
        width //= 2
    return 0


def _fits(
    element: Element,
    sizes: tuple[int, int, int],
    leaves: Leaves,
    lanes: int,
    width: int,
    *,
    along_inner: bool,
) -> bool:
    """Whether every load of `lanes` neighbours is of one element, or of neighbours at a multiple of
    `width`."""
    b = LoopBuilder("neighbours")
    e = ElementalEmitter(b, leaves)
    batch, outer, inner = sizes
    along, across = (inner, outer) if along_inner else (outer, inner)
    with b.loop(batch) as at, b.loop(-(-along // lanes)) as group, b.loop(across) as other:
        with b.loop(lanes, LoopKind.LANES) as lane:
            here = group * lanes + lane
            element(e, at, *((other, here) if along_inner else (here, other)))
    loads = [s for s in walk(b.kernel.stages) if isinstance(s, Load)]
    (variable,) = lane.terms
    return all(
        _is_one_access(load.index, variable, width)
        and load.buffer.element_type.byte_size * width <= _ACCESS_BYTES
        # A group is read as a whole or not at all.
        and (width == 1 or load.guard is None or load.guard.depth < variable.depth)
        for load in loads
        if _reaches(load.index, variable)
    )


def _reaches(index: Index, variable: Atom) -> bool:
    return any(
        _reaches(atom.index, variable) if isinstance(atom, QUOTIENTS) else atom is variable
        for atom in index.terms
    )


def _is_one_access(index: Index, variable: Atom, width: int) -> bool:
    rest = index - Index.of(variable)
    if index.coefficient(variable) != 1 or _reaches(rest, variable):
        return False
    return rest.constant % width == 0 and all(c % width == 0 for c in rest.terms.values())


class SharedBlock:
    """A block of a factor, outer x depth, in shared memory; there may be several of them (stages)
    in one buffer.

    Threads that go from row to row must find different banks. Rows that tiles are read from are
    turned, by lines, each by one access more than those on the line before, so that neither who
    reads 8 rows nor who writes a whole line meets a bank twice. Rows along the sum that are longer
    than a line, or no whole part of one, are followed by a gap instead, and so are those of others.

    Fields:
      width: how many neighbours one access writes.
      asynchronous: blocks may be copied beside the threads.
    """

    def __init__(self, factor: Factor, outer: int, depth: int, size: int, *, tiles: bool) -> None:
        """`size`: bytes of an element. `tiles`: threads read the elements of matrix tiles, rather
        than all the same row."""
        self.factor, self.outer, self.depth = factor, outer, depth
        rows, length = (outer, depth) if factor.inner_first else (depth, outer)
        self._access = _ACCESS_BYTES // size
        row_bytes = length * size
        turned = tiles and _LINE_BYTES % row_bytes == 0
        if not factor.inner_first:
            turned = tiles and size <= 2 and 0 in (row_bytes % _LINE_BYTES, _LINE_BYTES % row_bytes)
        self._turns = min(row_bytes, _LINE_BYTES) // _ACCESS_BYTES if turned else 1
        self._together = max(1, _LINE_BYTES // row_bytes) if turned else 1
        # Those who read columns of bytes go through two rows of each four.
        self._by_twos = size == 1 and not factor.inner_first
        if turned:
            gap = 0
        elif tiles:
            gap = self._access if factor.inner_first else 8
        else:
            gap = 1 if factor.inner_first else 0
        self.pitch = length + gap
        self.size = self.pitch * rows
        width = min(factor.width, length)
        while self.pitch % width:
            width //= 2
        self.width = width
        self.asynchronous = factor.plain and width * size in _ASYNC_BYTES

    def place(self, outer: Index, inner: Index) -> Index:
        """Where an element lies in its stage."""
        row, column = (outer, inner) if self.factor.inner_first else (inner, outer)
        if self._turns > 1:
            number = column // self._access
            rank = row % 2 + row // 4 * 2 if self._by_twos else row
            access = (number + rank // self._together) % self._turns
            access = number // self._turns * self._turns + access
            column = access * self._access + column % self._access
        return row * self.pitch + column


class Part(NamedTuple):
    """Which part of a factor a block takes: its batch, and where rows and sum start. `end`: of the
    sum."""

    batch: Index
    outer: Index
    inner: Index
    end: int


def fill(
    e: ElementalEmitter,
    recipe: Recipe,
    block: SharedBlock,
    part: Part,
    target: tuple[Buffer, Index],
    thread: Index,
    threads: int,
    *,
    asynchronous: bool = False,
) -> None:
    """Let the threads of a block copy a part of a factor into shared memory, each some groups of
    neighbours. Zeros stand for what is beyond the factor's end. `asynchronous`: where that is
    possible they only begin it, and have to wait for it."""
    b = e.builder
    copy = _begin_copy if asynchronous and block.asynchronous else _copy
    width = block.width
    columns = (block.depth if block.factor.inner_first else block.outer) // width
    rows = block.outer if block.factor.inner_first else block.depth
    groups = rows * columns
    for first in range(0, groups, threads):
        number = thread + first
        row, column = number // columns, number % columns * width
        outer, inner = (row, column) if block.factor.inner_first else (column, row)
        if first + threads > groups:
            with b.where(number, 0, groups):
                copy(e, recipe, block, part, target, outer, inner)
        else:
            copy(e, recipe, block, part, target, outer, inner)


def _copy(
    e: ElementalEmitter,
    recipe: Recipe,
    block: SharedBlock,
    part: Part,
    target: tuple[Buffer, Index],
    outer: Index,
    inner: Index,
) -> None:
    """Copy one group of neighbours."""
    b = e.builder
    factor = block.factor
    here, along = part.outer + outer, part.inner + inner
    counted = b.in_range(along, 0, part.end)
    guard = b.conjunction(b.in_range(here, 0, factor.sizes[1]), counted)
    buffer, start = target
    if block.width == 1:
        _store_element(e, recipe, block, part, buffer, start, (outer, inner), guard, counted)
        return
    with b.loop(block.width, LoopKind.LANES) as lane:
        at = (outer, inner + lane) if factor.inner_first else (outer + lane, inner)
        _store_element(e, recipe, block, part, buffer, start, at, guard, counted)


def _begin_copy(
    e: ElementalEmitter,
    recipe: Recipe,
    block: SharedBlock,
    part: Part,
    target: tuple[Buffer, Index],
    outer: Index,
    inner: Index,
) -> None:
    """Begin to copy one group of neighbours."""
    b = e.builder
    here, along = part.outer + outer, part.inner + inner
    counted = b.in_range(along, 0, part.end)
    guard = b.conjunction(b.in_range(here, 0, block.factor.sizes[1]), counted)
    if guard is False:
        _copy(e, recipe, block, part, target, outer, inner)
        return
    places = _Places(b, e.leaves)
    with places.guarded(guard):
        place = places.place_of(block.factor.element(places, part.batch, here, along))
    assert place is not None
    buffer, start = target
    b.async_copy(buffer, start + block.place(outer, inner), place, block.width)


def _store_element(
    e: ElementalEmitter,
    recipe: Recipe,
    block: SharedBlock,
    part: Part,
    buffer: Buffer,
    start: Index,
    at: tuple[Index, Index],
    guard: Value | bool | None,
    counted: Value | bool,
) -> None:
    b = e.builder
    value = factor_element(
        e, recipe, block.factor, part.batch, part.outer + at[0], part.inner + at[1], guard, counted
    )
    b.store(buffer, start + block.place(*at), (value,))


def factor_element(
    e: ElementalEmitter,
    recipe: Recipe,
    factor: Factor,
    batch: Index,
    outer: Index,
    inner: Index,
    guard: Value | bool | None,
    counted: Value | bool | None,
) -> Value:
    """An element as it is multiplied, zero where it does not count; nothing is read where `guard`
    does not hold."""
    b = e.builder
    if guard is False:
        return b.constant(recipe.factor, 0)
    with e.guarded(guard):
        value = recipe.factor_of(b, factor.element(e, batch, outer, inner))
    if isinstance(counted, Value) and not factor.zero:
        zero = b.constant(recipe.factor, 0)
        value = b.compute(Opcode.SELECT, recipe.factor, (counted, value, zero))
    return value
