"""Shape rules of gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import GatherAttributes, ScatterAttributes
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_checks import Rule, RuleContext, one_or_tuple, set_text


def _index_vector(c: RuleContext, indices: Shape, index_vector_dim: int) -> tuple[int, list[int]]:
    """Length of an index vector, and the other (batch) dimensions of the index array."""
    # gather_c24, scatter_c25
    c.require(indices.element_type.is_integral, f"indices must be integers, are {indices}")
    # gather_c2, scatter_c22
    c.require(
        0 <= index_vector_dim <= indices.rank,
        f"index_vector_dim {index_vector_dim} is out of range for {indices}",
    )
    batch = [d for i, d in enumerate(indices.dimensions) if i != index_vector_dim]
    if index_vector_dim == indices.rank:
        return 1, batch
    return indices.dimensions[index_vector_dim], batch


def _check_index_map(
    c: RuleContext, name: str, index_map: Sequence[int], length: int, batching: Sequence[int]
) -> None:
    """Which operand dimension each entry of an index vector moves along."""
    rank = c.shapes[0].rank
    # gather_c3, scatter_c19
    c.require(
        len(index_map) == length,
        f"{name}={set_text(index_map)} must have as many entries as an index vector ({length})",
    )
    # gather_c18, gather_c19, scatter_c20, scatter_c21
    c.require_distinct((*index_map, *batching), rank, f"{name} and batching dimensions")


def _require_sorted(c: RuleContext, dimensions: Sequence[int], what: str) -> None:
    # gather_c4, gather_c7, scatter_c7, scatter_c10
    c.require(
        list(dimensions) == sorted(dimensions), f"{what}={set_text(dimensions)} must be ascending"
    )


def _check_batching(
    c: RuleContext,
    indices: Shape,
    index_vector_dim: int,
    operand_dims: Sequence[int],
    indices_dims: Sequence[int],
) -> None:
    """Dimensions that operand and indices share position by position."""
    operand = c.shapes[0]
    # gather_c16, scatter_c17
    c.require(
        len(operand_dims) == len(indices_dims),
        "as many batching dimensions of the operand as of the indices",
    )
    # gather_c13, gather_c14, scatter_c14, scatter_c15
    c.require_distinct(indices_dims, indices.rank, "batching dimensions of the indices")
    # gather_c15, scatter_c16
    c.require(index_vector_dim not in indices_dims, "index_vector_dim is a batching dimension, too")
    for d, e in zip(operand_dims, indices_dims):
        # gather_c17, scatter_c18
        c.require(
            operand.dimensions[d] == indices.dimensions[e],
            f"batching dimensions {d} and {e} differ in size",
        )


def _check_slice_sizes(c: RuleContext, a: GatherAttributes) -> None:
    operand = c.shapes[0]
    # gather_c20
    c.require(
        len(a.slice_sizes) == operand.rank,
        f"slice_sizes={set_text(a.slice_sizes)} needs {operand.rank} sizes",
    )
    for i, (size, bound) in enumerate(zip(a.slice_sizes, operand.dimensions)):
        # gather_c21
        c.require(
            0 <= size <= bound, f"slice size {size} of dimension {i} exceeds the operand's {bound}"
        )
    for d in (*a.collapsed_slice_dims, *a.operand_batching_dims):
        # gather_c9, gather_c12
        c.require(
            a.slice_sizes[d] <= 1,
            f"slice size of dropped dimension {d} must be 1, is {a.slice_sizes[d]}",
        )


def _gather(c: RuleContext) -> Shape:
    c.require_arity(2)
    c.require_array()
    operand, indices = c.shapes
    a = c.attributes
    assert isinstance(a, GatherAttributes)
    length, batch = _index_vector(c, indices, a.index_vector_dim)
    dropped = (*a.collapsed_slice_dims, *a.operand_batching_dims)
    # gather_c6, gather_c8, gather_c11
    c.require_distinct(dropped, operand.rank, "collapsed_slice_dims and operand_batching_dims")
    _require_sorted(c, a.collapsed_slice_dims, "collapsed_slice_dims")
    _check_index_map(c, "start_index_map", a.start_index_map, length, a.operand_batching_dims)
    _check_batching(
        c, indices, a.index_vector_dim, a.operand_batching_dims, a.start_indices_batching_dims
    )
    _check_slice_sizes(c, a)
    rest = [s for i, s in enumerate(a.slice_sizes) if i not in dropped]
    # gather_c1
    c.require(
        len(a.offset_dims) == len(rest),
        f"offset_dims={set_text(a.offset_dims)} must name {len(rest)} result dimensions",
    )
    rank = len(batch) + len(rest)
    _require_sorted(c, a.offset_dims, "offset_dims")
    # gather_c5
    c.require_distinct(a.offset_dims, rank, "offset_dims")
    batch_sizes, slice_sizes = iter(batch), iter(rest)
    dims = [next(slice_sizes) if i in a.offset_dims else next(batch_sizes) for i in range(rank)]
    return Shape.array(operand.element_type, dims)


def _check_update(
    c: RuleContext, a: ScatterAttributes, update: Shape, windows: Sequence[int], batch: list[int]
) -> None:
    """`windows` are the sizes of the operand dimensions an update window covers."""
    # scatter_c4
    c.require(
        update.rank == len(a.update_window_dims) + len(batch),
        f"an update must have rank {len(a.update_window_dims) + len(batch)}, is {update}",
    )
    # scatter_c8
    c.require_distinct(a.update_window_dims, update.rank, "update_window_dims")
    sizes = [update.dimensions[d] for d in a.update_window_dims]
    # scatter_c26
    c.require(
        all(s <= w for s, w in zip(sizes, windows)),
        f"update window {set_text(sizes)} exceeds the operand's {set_text(windows)}",
    )
    scattered = [d for i, d in enumerate(update.dimensions) if i not in a.update_window_dims]
    # scatter_c27
    c.require(
        scattered == batch,
        f"update batch sizes {set_text(scattered)} differ from the indices' {set_text(batch)}",
    )


def _scatter(c: RuleContext) -> Shape:
    # scatter_c5
    c.require(len(c.shapes) >= 3 and len(c.shapes) % 2 == 1, "needs n operands, indices, n updates")
    c.require_array()
    c.require_called(1)
    n = len(c.shapes) // 2
    operands, indices, updates = c.shapes[:n], c.shapes[n], c.shapes[n + 1 :]
    a = c.attributes
    assert isinstance(a, ScatterAttributes)
    length, batch = _index_vector(c, indices, a.index_vector_dim)
    rank = operands[0].rank
    dropped = (*a.inserted_window_dims, *a.input_batching_dims)
    # scatter_c9, scatter_c11, scatter_c13
    c.require_distinct(dropped, rank, "inserted_window_dims and input_batching_dims")
    _require_sorted(c, a.inserted_window_dims, "inserted_window_dims")
    _check_index_map(
        c,
        "scatter_dims_to_operand_dims",
        a.scatter_dims_to_operand_dims,
        length,
        a.input_batching_dims,
    )
    _check_batching(
        c, indices, a.index_vector_dim, a.input_batching_dims, a.scatter_indices_batching_dims
    )
    # scatter_c2
    c.require(
        rank == len(a.update_window_dims) + len(dropped),
        f"rank {rank} must be the sum of update_window_dims, inserted_window_dims and "
        f"input_batching_dims",
    )
    _require_sorted(c, a.update_window_dims, "update_window_dims")
    windows = [d for i, d in enumerate(operands[0].dimensions) if i not in dropped]
    for operand, update in zip(operands, updates):
        # scatter_c1
        c.require(
            operand.dimensions == operands[0].dimensions, "all operands must have equal dimensions"
        )
        # scatter_c6
        c.require(update.element_type is operand.element_type, "update and operand types differ")
        _check_update(c, a, update, windows, batch)
    scalars = [Shape(s.element_type) for s in operands]
    # scatter_c23
    c.require_signature(c.called[0], [*scalars, *scalars], one_or_tuple(scalars), "to_apply")
    # scatter_c24
    return one_or_tuple([s.with_dimensions(s.dimensions) for s in operands])


INDEXING_RULES: dict[Opcode, Rule] = {Opcode.GATHER: _gather, Opcode.SCATTER: _scatter}
