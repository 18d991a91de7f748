"""Scatters of a single window become updates of a slice."""

from __future__ import annotations

import math

import ml_dtypes

from xla_backend.hlo.attributes import (
    ComparisonDirection,
    DynamicSliceAttributes,
    ScatterAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.emit import Emit
from xla_backend.passes.patterns import binary_reducer


def _scatter_of_one(node: Instruction) -> Instruction | None:
    """x[i] op= u  ->  dynamic-update-slice(x, select(inside, x[i] op u, x[i]), i)."""
    a = node.attributes
    assert isinstance(a, ScatterAttributes)
    if len(node.operands) != 3 or a.input_batching_dims or not _is_single(node, a):
        return None
    operand, indices, updates = node.operands
    window = _window_sizes(node, a)
    if operand.shape.num_elements == 0 or math.prod(window) == 0:
        return None
    b = Emit(node)
    combined = _combiner(node)
    if combined is None:
        return None
    starts, inside = _starts(b, node, a, indices, window)
    old = b.add(
        Opcode.DYNAMIC_SLICE,
        (operand, *starts),
        DynamicSliceAttributes(tuple(window)),
        shape=operand.shape.with_dimensions(window),
    )
    new = b.reshape(updates, window)
    if combined is not Opcode.PARAMETER:
        root = node.called[0].root
        assert root is not None
        new = b.add(combined, (old, new), root.attributes, shape=old.shape)
    chosen = b.broadcast(inside, window, ()) if window else inside
    new = b.add(Opcode.SELECT, (chosen, new, old), shape=old.shape)
    return b.add(Opcode.DYNAMIC_UPDATE_SLICE, (operand, new, *starts), shape=node.shape)


def _is_single(node: Instruction, a: ScatterAttributes) -> bool:
    """Every dimension of the updates that is not part of a window has size 1."""
    updates = node.operands[2].shape.dimensions
    return all(n == 1 for d, n in enumerate(updates) if d not in a.update_window_dims)


def _window_sizes(node: Instruction, a: ScatterAttributes) -> list[int]:
    """Extent of the window along each operand dimension."""
    sizes = iter([node.operands[2].shape.dimensions[d] for d in a.update_window_dims])
    inserted = set(a.inserted_window_dims)
    return [1 if d in inserted else next(sizes) for d in range(node.operands[0].shape.rank)]


def _combiner(node: Instruction) -> Opcode | None:
    """The operation of the update computation, PARAMETER if it takes the update as it is, None if
    it is anything else."""
    computation = node.called[0]
    if computation.root is computation.parameters[1]:
        return Opcode.PARAMETER
    opcode = binary_reducer(computation)
    return opcode if opcode is not None and opcode.is_elementwise else None


def _starts(
    b: Emit, node: Instruction, a: ScatterAttributes, indices: Instruction, window: list[int]
) -> tuple[list[Instruction], Instruction]:
    """Start of the window in each operand dimension, and whether all of the window lies inside."""
    dims = node.operands[0].shape.dimensions
    flat = b.reshape(indices, (indices.shape.num_elements,))
    index_shape = flat.shape.with_dimensions(())
    zero = b.splat(index_shape, 0)
    starts = [zero] * len(dims)
    largest = int(ml_dtypes.iinfo(index_shape.element_type.numpy_dtype).max)
    inside = b.splat(index_shape.with_type(PrimitiveType.PRED), True)
    for i, d in enumerate(a.scatter_dims_to_operand_dims):
        start = starts[d] = b.reshape(b.slice(flat, (i,), (i + 1,)), ())
        # Every index of a type too narrow for the last place is before it.
        last = b.splat(index_shape, min(dims[d] - window[d], largest))
        for direction, bound in ((ComparisonDirection.GE, zero), (ComparisonDirection.LE, last)):
            inside = b.binary(Opcode.AND, inside, b.compare(start, bound, direction))
    return starts, inside


class ScatterSimplifier(RuleTablePass):
    """A scatter of one window -> dynamic-update-slice, guarded where the window lies outside.

    Why: `x.at[i].set(v)` and `.add(v)` lower to scatters; an update of a slice is written in
    place, fuses with what computes v, and lets loops see which part of an array they touch.
    Needs: nothing.
    Leaves: no scatter of a single window whose combiner is one operation.
    """

    name = "scatter-simplifier"
    opcodes = frozenset({Opcode.SCATTER})
    rules = {Opcode.SCATTER: (_scatter_of_one,)}
