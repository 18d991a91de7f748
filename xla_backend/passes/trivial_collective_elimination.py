"""Collectives among one participant."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.attributes import (
    CollectivePermuteAttributes,
    ComparisonDirection,
    GatherAttributes,
)
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit, rewrite_each

_COPIES = (
    Opcode.ALL_REDUCE,
    Opcode.ALL_GATHER,
    Opcode.ALL_TO_ALL,
    Opcode.REDUCE_SCATTER,
    Opcode.COLLECTIVE_BROADCAST,
)


class TrivialCollectiveElimination(HloPass):
    """Collectives of a program for one device -> their operands; its number -> 0.

    A collective-permute without a pair from the device to itself gives zeros; ragged-all-to-all
    moves rows inside the device.

    Why: there is nobody to exchange with, and operands can fuse.
    Needs: no asynchronous forms.  Leaves: no collective, if there is one participant.
    """

    name = "trivial-collective-elimination"

    def run(self, module: HloModule) -> bool:
        if module.replica_count * module.num_partitions != 1:
            return False
        return super().run(module)

    def run_on_computation(self, computation: Computation) -> bool:
        return rewrite_each(computation, _REWRITES)


def _operands(node: Instruction) -> Instruction:
    return Emit(node).tuple(node.operands) if node.shape.is_tuple else node.operands[0]


def _permute(node: Instruction) -> Instruction:
    assert isinstance(node.attributes, CollectivePermuteAttributes)
    if (0, 0) in node.attributes.source_target_pairs:
        return _operands(node)
    b = Emit(node)
    if not node.shape.is_tuple:
        return b.splat(node.shape, 0)
    return b.tuple([b.splat(shape, 0) for shape in node.shape.tuple_shapes])


def _own_number(node: Instruction) -> Instruction:
    return Emit(node).splat(node.shape, 0)


def _ragged_all_to_all(node: Instruction) -> Instruction:
    """Rows [start, start + size) of the input go to rows [place, place + size) of the output, one
    entry of the offsets after another; those that one of the two has not are left out."""
    b = Emit(node)
    source, result = node.operands[:2]
    if not source.shape.dimensions[0]:
        return result
    # In 64 bits numbers of rows do not overflow, whatever the offsets are.
    starts, sizes, places = (_wide(b, x) for x in node.operands[2:5])
    row_count = result.shape.dimensions[0]
    rows = b.iota(starts.shape.with_dimensions((row_count,)), 0)
    none, some = b.splat(rows.shape, 0), b.splat(rows.shape, source.shape.dimensions[0])
    for k in range(starts.shape.dimensions[0]):
        start, size, place = (_element(b, x, k, row_count) for x in (starts, sizes, places))
        behind = b.binary(Opcode.SUBTRACT, rows, place)
        number = b.binary(Opcode.ADD, behind, start)
        inside = b.compare(behind, size, ComparisonDirection.LT)
        for bound in (
            b.compare(behind, none, ComparisonDirection.GE),
            b.compare(number, none, ComparisonDirection.GE),
            b.compare(number, some, ComparisonDirection.LT),
        ):
            inside = b.binary(Opcode.AND, inside, bound)
        moved = _rows(b, source, number)
        mask = b.broadcast(inside, moved.shape.dimensions, (0,))
        result = b.add(Opcode.SELECT, (mask, moved, result), shape=moved.shape)
    return result


def _wide(b: Emit, x: Instruction) -> Instruction:
    if x.shape.element_type is PrimitiveType.U64:
        x = b.binary(Opcode.MINIMUM, x, b.splat(x.shape, 2**63 - 1))
    return b.convert(x, PrimitiveType.S64)


def _element(b: Emit, x: Instruction, k: int, count: int) -> Instruction:
    scalar = b.reshape(b.slice(x, (k,), (k + 1,)), ())
    return b.broadcast(scalar, (count,), ())


def _rows(b: Emit, x: Instruction, numbers: Instruction) -> Instruction:
    """Rows of x; numbers out of range give some row."""
    dims = x.shape.dimensions
    attributes = GatherAttributes(
        offset_dims=tuple(range(1, len(dims))),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=1,
        slice_sizes=(1, *dims[1:]),
    )
    shape = x.shape.with_dimensions((numbers.shape.dimensions[0], *dims[1:]))
    return b.add(Opcode.GATHER, (x, numbers), attributes, shape=shape)


_REWRITES: dict[Opcode, Callable[[Instruction], Instruction]] = {
    **dict.fromkeys(_COPIES, _operands),
    Opcode.COLLECTIVE_PERMUTE: _permute,
    Opcode.RAGGED_ALL_TO_ALL: _ragged_all_to_all,
    Opcode.PARTITION_ID: _own_number,
    Opcode.REPLICA_ID: _own_number,
}
TrivialCollectiveElimination.opcodes = frozenset(_REWRITES)
