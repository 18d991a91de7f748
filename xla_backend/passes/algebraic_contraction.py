"""Simplifications of reduce and gather."""

from __future__ import annotations

import math

from xla_backend.hlo.attributes import (
    DimensionsAttributes,
    DynamicSliceAttributes,
    GatherAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.emit import Emit
from xla_backend.passes.patterns import binary_reducer, dims_of


def _reduce_of_transpose(node: Instruction) -> Instruction | None:
    """Reducing a transposed array reduces other dimensions of the original, if the rest keeps
    its order."""
    if node.shape.is_tuple:
        return None
    inner = node.operands[0]
    if inner.opcode is not Opcode.TRANSPOSE:
        return None
    permutation, reduced = dims_of(inner), dims_of(node)
    kept = [p for i, p in enumerate(permutation) if i not in reduced]
    if kept != sorted(kept):
        return None
    return Emit(node).add(
        Opcode.REDUCE,
        (inner.operands[0], node.operands[1]),
        DimensionsAttributes(tuple(sorted(permutation[d] for d in reduced))),
        node.called,
        shape=node.shape,
    )


def _degenerate_reduce(node: Instruction) -> Instruction | None:
    """A reduce over dimensions of size 1 combines the one element with the initial value."""
    if node.shape.is_tuple:
        return None
    x, init = node.operands
    if any(x.shape.dimensions[d] != 1 for d in dims_of(node)):
        return None
    opcode = binary_reducer(node.called[0])
    if opcode is None or node.called[0].root is None:
        return None
    b = Emit(node)
    initial = b.broadcast(init, node.shape.dimensions, ()) if node.shape.dimensions else init
    return b.add(
        opcode,
        (initial, b.reshape(x, node.shape.dimensions)),
        node.called[0].root.attributes,
        shape=node.shape,
    )


def _gather_of_one(node: Instruction) -> Instruction | None:
    """A gather of a single window is a dynamic-slice (both clamp the start)."""
    a = node.attributes
    assert isinstance(a, GatherAttributes)
    x, indices = node.operands
    if a.operand_batching_dims or indices.shape.rank > 2:
        return None
    windows = [d for i, d in enumerate(indices.shape.dimensions) if i != a.index_vector_dim]
    if math.prod(windows) != 1:
        return None
    count = len(a.start_index_map)
    b = Emit(node)
    flat = b.reshape(indices, (count,))
    zero = b.splat(flat.shape.with_dimensions(()), 0)
    starts = [zero] * x.shape.rank
    for i, d in enumerate(a.start_index_map):
        starts[d] = b.reshape(b.slice(flat, (i,), (i + 1,)), ())
    window = b.add(
        Opcode.DYNAMIC_SLICE,
        (x, *starts),
        DynamicSliceAttributes(a.slice_sizes),
        shape=x.shape.with_dimensions(a.slice_sizes),
    )
    # Collapsed dimensions and the dimensions of the indices have size 1, and offsets keep their
    # order.
    return b.reshape(window, node.shape.dimensions)


class AlgebraicContractionSimplifier(RuleTablePass):
    """Transposes folded into reduces, reduces over size 1, gathers of one window.

    Why: a transpose in front of a reduce is a pass over memory that other dimension numbers
    replace.
    Needs: algebraic-shape keeps transposes merged.
    Leaves: no reduce of a transpose whose kept dimensions are in order.
    """

    name = "algebraic-contraction"
    rules = {
        Opcode.REDUCE: (_degenerate_reduce, _reduce_of_transpose),
        Opcode.GATHER: (_gather_of_one,),
    }
