"""Random steps: gather and scatter with any dimension numbers.

Both are described by which operand dimensions the index vector names, which are batched with
dimensions of the indices, and which windows keep; a `_Plan` draws that once, for either opcode.
"""

from __future__ import annotations

from xla_backend.hlo.attributes import GatherAttributes, ScatterAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode as O
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.tools.fuzz.reducers import binary_computation, combiner
from xla_backend.tools.fuzz.scope import ARRAYS, FLOATS, INTEGERS, Scope


@dataclass
class _Plan:
    """Dimension numbers of a gather or a scatter."""

    batching: list[int]  # of the operand
    dropped: list[int]  # window dimensions of size 1 that the result does not have
    index_map: list[int]  # operand dimension of each entry of an index vector
    slice_sizes: list[int]
    index_dims: list[int]  # shape of the indices
    index_batching: list[int]  # which of them belong to `batching`
    vector_dim: int
    offset_dims: list[int]  # where windows stand in the result (the updates)
    result_dims: list[int]


def _plan(s: Scope, dims: tuple[int, ...]) -> _Plan:
    rank = len(dims)
    batching = s.subset(range(rank), most=1) if rank > 1 and s.chance(0.25) else []
    free = [d for d in range(rank) if d not in batching]
    index_map = s.shuffled(s.subset(free, least=1 if s.chance(0.95) else 0))
    dropped = [d for d in s.subset(free) if dims[d] > 0]
    sizes = [1 if d in dropped else s.between(min(1, size), size) for d, size in enumerate(dims)]
    sizes = [min(1, dims[d]) if d in batching else size for d, size in enumerate(sizes)]
    batch = [s.between(1, 5) for _ in range(s.between(0, 2))]
    index_batching: list[int] = []
    for d in batching:
        at = s.between(0, len(batch))
        batch.insert(at, dims[d])
        index_batching = [i + (i >= at) for i in index_batching] + [at]
    implicit = len(index_map) == 1 and s.chance(0.3)
    vector_dim = len(batch) if implicit else s.between(0, len(batch))
    index_dims = list(batch)
    if not implicit:
        index_dims.insert(vector_dim, len(index_map))
    index_batching = [i + (not implicit and i >= vector_dim) for i in index_batching]
    windows = [size for d, size in enumerate(sizes) if d not in dropped and d not in batching]
    total = len(batch) + len(windows)
    offset_dims = s.subset(range(total), least=len(windows), most=len(windows))
    rest, inner = iter(batch), iter(windows)
    result = [next(inner) if d in offset_dims else next(rest) for d in range(total)]
    return _Plan(
        batching, dropped, index_map, sizes, index_dims, index_batching, vector_dim, offset_dims,
        result,
    )  # fmt: skip


def _size_of(dims: list[int]) -> int:
    return Shape.array(P.S8, dims).num_elements


def gather(s: Scope) -> None:
    x = s.find(ARRAYS, least=1, most=4)
    plan = _plan(s, x.shape.dimensions)
    if _size_of(plan.result_dims) > 4 * s.scale.elements:
        return
    attributes = GatherAttributes(
        offset_dims=tuple(plan.offset_dims),
        collapsed_slice_dims=tuple(plan.dropped),
        start_index_map=tuple(plan.index_map),
        index_vector_dim=plan.vector_dim,
        slice_sizes=tuple(plan.slice_sizes),
        operand_batching_dims=tuple(plan.batching),
        start_indices_batching_dims=tuple(plan.index_batching),
        indices_are_sorted=_size_of(plan.index_dims) == 1,
    )
    s.keep(s.add(O.GATHER, (x, s.integers(plan.index_dims)), attributes))


def take_rows(s: Scope) -> None:
    """Rows of a table by number, the gather of an embedding."""
    table = s.find(ARRAYS, least=2, most=2)
    rows, width = table.shape.dimensions
    if not rows:
        return
    indices = s.integers((s.between(1, 9), 1))
    attributes = GatherAttributes((1,), (0,), (0,), 1, (1, width))
    s.keep(s.add(O.GATHER, (table, indices), attributes))


def _combiner(s: Scope, kind: P, has_duplicates: bool) -> Computation:
    """A commutative reducer; the last update of a place wins only where no two can meet."""
    if not has_duplicates and s.chance(0.5):
        return binary_computation(kind, lambda b, old, new: new, "replace")
    return combiner(s, kind)


def scatter(s: Scope) -> None:
    x = s.find(ARRAYS - {P.C64, P.C128}, least=1, most=4)
    plan = _plan(s, x.shape.dimensions)
    updates_shape = x.shape.with_dimensions(plan.result_dims)
    if updates_shape.num_elements > 2 * s.scale.elements:
        return
    updates = [n for d, n in enumerate(plan.index_dims) if d != plan.vector_dim]
    lone = _size_of(updates) <= 1 and not plan.batching
    attributes = ScatterAttributes(
        update_window_dims=tuple(plan.offset_dims),
        inserted_window_dims=tuple(plan.dropped),
        scatter_dims_to_operand_dims=tuple(plan.index_map),
        index_vector_dim=plan.vector_dim,
        input_batching_dims=tuple(plan.batching),
        scatter_indices_batching_dims=tuple(plan.index_batching),
        indices_are_sorted=lone,
        unique_indices=lone,
    )
    operands = (x, s.integers(plan.index_dims), s.like(updates_shape))
    to_apply = _combiner(s, x.shape.element_type, has_duplicates=not lone)
    s.keep(s.add(O.SCATTER, operands, attributes, (to_apply,)))


def _rows_scatter(s: Scope, table: Instruction, rows: int, *, unique: bool) -> None:
    width = table.shape.dimensions[1]
    if unique:
        indices = s.builder.iota(Shape.array(P.S32, (rows, 1)), 0)
    else:
        indices = s.integers((rows, 1))
    updates = s.like(table.shape.with_dimensions((rows, width)))
    attributes = ScatterAttributes(
        (1,), (0,), (0,), 1, indices_are_sorted=unique, unique_indices=unique
    )
    to_apply = _combiner(s, table.shape.element_type, has_duplicates=not unique)
    s.keep(s.add(O.SCATTER, (table, indices, updates), attributes, (to_apply,)))


def update_rows(s: Scope) -> None:
    """Rows added into, or replaced in, a table: the gradient of an embedding."""
    table = s.find(FLOATS | INTEGERS, least=2, most=2)
    if table.shape.num_elements:
        _rows_scatter(s, table, s.between(1, 8), unique=s.chance(0.3))


def scatter_pair(s: Scope) -> None:
    """Two operands at once."""
    x = s.find(FLOATS | INTEGERS, least=1, most=1)
    y = s.like(x.shape.with_type(s.element_type(FLOATS | INTEGERS)))
    count = s.between(1, 6)
    updates = [s.like(v.shape.with_dimensions((count,))) for v in (x, y)]
    attributes = ScatterAttributes((), (0,), (0,), 1)
    kinds = [x.shape.element_type, y.shape.element_type]
    nested = s.nested("pair")
    b = nested.builder
    a = [b.parameter(i, Shape(kinds[i % 2])) for i in range(4)]
    body = b.build(b.tuple([b.add(O.ADD, (a[0], a[2])), b.add(O.MAXIMUM, (a[1], a[3]))]))
    if x.shape.num_elements:
        s.keep(s.add(O.SCATTER, (x, y, s.integers((count, 1)), *updates), attributes, (body,)))


STEPS = [
    (2.5, gather),
    (1, take_rows),
    (2, scatter),
    (1.5, update_rows),
    (0.4, scatter_pair),
]
