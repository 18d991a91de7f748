"""Gathers whose indices are known to be a range become slices."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.attributes import DimensionsAttributes, GatherAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.emit import Emit
from xla_backend.passes.patterns import splat_value

_MAX_INDICES = 1 << 16


def _gather_of_range(node: Instruction) -> Instruction | None:
    """x[[1, 3, 5]] -> x[1:6:2], and the reverse of a slice where the range runs down."""
    a = node.attributes
    assert isinstance(a, GatherAttributes)
    x, indices = node.operands
    dimension = _only_dimension(x, a)
    if dimension is None or indices.opcode is not Opcode.CONSTANT:
        return None
    if not 1 < indices.shape.num_elements <= _MAX_INDICES or node.shape.rank != x.shape.rank:
        return None
    if a.offset_dims != tuple(d for d in range(x.shape.rank) if d != dimension):
        return None
    size = x.shape.dimensions[dimension]
    positions = np.clip(indices.literal_array.reshape(-1).astype(np.int64), 0, size - 1)
    steps = np.diff(positions)
    step = int(steps[0])
    if step == 0 or not (steps == step).all():
        return None
    return _slice(node, dimension, int(positions[0]), int(positions[-1]), step)


def _only_dimension(x: Instruction, a: GatherAttributes) -> int | None:
    """The one dimension that is indexed, an element at a time, all others being taken whole."""
    if len(a.start_index_map) != 1 or a.operand_batching_dims:
        return None
    (dimension,) = a.start_index_map
    sizes = list(x.shape.dimensions)
    sizes[dimension] = 1
    whole = tuple(sizes) == a.slice_sizes and a.collapsed_slice_dims == (dimension,)
    return dimension if whole else None


def _slice(node: Instruction, dimension: int, first: int, last: int, step: int) -> Instruction:
    x = node.operands[0]
    low, high = min(first, last), max(first, last)
    starts, limits = [0] * x.shape.rank, list(x.shape.dimensions)
    strides = [1] * x.shape.rank
    starts[dimension], limits[dimension], strides[dimension] = low, high + 1, abs(step)
    b = Emit(node)
    part = b.slice(x, starts, limits, strides)
    if step > 0:
        return part
    return b.add(Opcode.REVERSE, (part,), DimensionsAttributes((dimension,)), shape=node.shape)


def _gather_of_splat(node: Instruction) -> Instruction | None:
    """Whatever is taken from an array of one value is that value."""
    value = splat_value(node.operands[0])
    return None if value is None else Emit(node).splat(node.shape, value)


class GatherSimplifier(RuleTablePass):
    """gather of a constant range of rows -> slice; gather from a splat -> a splat.

    Why: indexing with lists and `arange` lowers to gathers; slices fuse, and are read in vectors.
    Needs: constants folded (indices pass through a test for negative ones).
    Leaves: no gather of whole rows along one dimension whose constant indices are a range.
    """

    name = "gather-simplifier"
    opcodes = frozenset({Opcode.GATHER})
    rules = {Opcode.GATHER: (_gather_of_splat, _gather_of_range)}
