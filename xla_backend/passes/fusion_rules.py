"""What may be fused and what it costs: the tables and predicates behind fusion.py."""

from __future__ import annotations

from collections.abc import Container
from math import prod

from xla_backend.hlo.attributes import (
    DimensionsAttributes,
    DynamicSliceAttributes,
    GatherAttributes,
    SliceAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.patterns import constant_starts

# Shape operations whose element is one element of an operand, found by index arithmetic.
INDEX_OPCODES = frozenset(
    {
        Opcode.BROADCAST,
        Opcode.RESHAPE,
        Opcode.TRANSPOSE,
        Opcode.SLICE,
        Opcode.REVERSE,
        Opcode.PAD,
        Opcode.CONCATENATE,
        Opcode.GATHER,
        Opcode.DYNAMIC_SLICE,
        Opcode.DYNAMIC_UPDATE_SLICE,
        Opcode.IOTA,
    }
)
# Elementwise by the opcode table, but not one scalar to one scalar for this compiler.
_NOT_SCALAR_TO_SCALAR = frozenset({Opcode.MAP})
ELEMENTWISE = frozenset(op for op in Opcode if op.is_elementwise) - _NOT_SCALAR_TO_SCALAR

# As many are computed in one loop.
MOST_COMPONENTS = 12

# A concatenation of less elements is rather computed several times than written.
_FEW_ELEMENTS = 256
_AT_RUN_TIME = frozenset({Opcode.DYNAMIC_SLICE, Opcode.GATHER})

# Cycles of an op that is never computed twice on purpose.
EXPENSIVE = 8


def cost_of(node: Instruction) -> int:
    """Rough cycles of one vector register of elements of a fusible instruction."""
    cost = node.opcode.cycles
    if node.shape.element_type.is_complex:
        cost = 4 * max(cost, 1) if cost else 0
    return cost


def is_fusible(node: Instruction) -> bool:
    """Whether the instruction can be a member of a loop fusion."""
    opcode = node.opcode
    if opcode in ELEMENTWISE:
        if opcode is Opcode.BITCAST_CONVERT:
            # A change of rank is a free relabelling of memory, not an elementwise operation.
            return node.shape.dimensions == node.operands[0].shape.dimensions
        return True
    if opcode is Opcode.CONSTANT:
        return not node.shape.dimensions and node.shape.is_array
    if opcode is Opcode.RESHAPE:
        return reshape_index_is_affine(node)
    return opcode in INDEX_OPCODES


def reshape_index_is_affine(node: Instruction) -> bool:
    """Whether the operand's index is an affine function of the result's: each operand dimension is
    a product of neighbouring result dimensions (splitting, or adding and dropping dimensions of
    size 1). Merging dimensions would need a division per element."""
    source = [d for d in node.operands[0].shape.dimensions if d != 1]
    target = [d for d in node.shape.dimensions if d != 1]
    if 0 in source:
        return False
    i = 0
    for size in source:
        product = 1
        while product < size:
            if i == len(target):
                return False
            product *= target[i]
            i += 1
        if product != size:
            return False
    return i == len(target)


def reads_apart(node: Instruction) -> bool:
    """Whether neighbours in a slice are none in what it is a slice of: a diagonal, a column."""
    if node.opcode is not Opcode.SLICE:
        return False
    assert isinstance(node.attributes, SliceAttributes)
    distance = 1
    whole = node.operands[0].shape.dimensions
    for size, of, stride in zip(
        reversed(node.shape.dimensions), reversed(whole), reversed(node.attributes.strides)
    ):
        if size > 1:
            return distance * stride > 1
        distance *= of
    return False


def joins_components(node: Instruction) -> bool:
    """Whether a concatenation puts single elements next to each other, as a stack along the last
    dimension does; nothing else does."""
    if node.opcode is not Opcode.CONCATENATE:
        return False
    assert isinstance(node.attributes, DimensionsAttributes)
    (d,) = node.attributes.dimensions
    return 1 < len(node.operands) == prod(node.shape.dimensions[d:]) <= MOST_COMPONENTS


def reads_components(user: Instruction, joined: Instruction) -> bool:
    """Whether a gather takes its places from a concatenation: it reads each component of a place
    by itself."""
    if user.opcode is not Opcode.GATHER or user.operands[0] is joined:
        return False
    assert isinstance(user.attributes, GatherAttributes)
    assert isinstance(joined.attributes, DimensionsAttributes)
    return joined.attributes.dimensions == (user.attributes.index_vector_dim,)


def takes_one_by_one(user: Instruction, places: Instruction) -> bool:
    """Whether a gather reads one element for each of its places, which are numbers: each result is
    computed of the place that would be there if they were reshaped."""
    if user.opcode is not Opcode.GATHER or user.operands[0] is places:
        return False
    assert isinstance(user.attributes, GatherAttributes)
    one = places.shape.num_elements == user.shape.num_elements
    return one and not user.attributes.offset_dims


def takes_rows(user: Instruction, places: Instruction) -> bool:
    """Whether a gather reads several elements that follow each other for each of its places."""
    if user.opcode is not Opcode.GATHER or user.operands[0] is places:
        return False
    assert isinstance(user.attributes, GatherAttributes)
    return user.shape.rank - 1 in user.attributes.offset_dims


def asks_twice(node: Instruction, members: Container[Instruction]) -> bool:
    """Whether a concatenation among members of a fusion joins what this one gives, at places that
    are known at run time only. No loop can be split where operands meet then, so each element would
    be computed from all operands of one for each operand of the other."""
    if node.opcode is not Opcode.CONCATENATE or node.shape.num_elements < _FEW_ELEMENTS:
        return False
    joined = at_run_time = False
    seen = {node}
    stack = [node]
    while stack:
        read = stack.pop()
        for user in read.users:
            if user not in members or user in seen:
                continue
            joined |= user.opcode is Opcode.CONCATENATE
            at_run_time |= user.opcode in _AT_RUN_TIME and read is user.operands[0]
            seen.add(user)
            stack.append(user)
    return joined and at_run_time


def is_reduce_root(node: Instruction) -> bool:
    return node.opcode is Opcode.REDUCE


def inlinable_edge(producer: Instruction, user: Instruction) -> bool:
    """Whether `user`, inside a fusion, may compute `producer` instead of reading it from memory."""
    opcode = user.opcode
    if opcode is Opcode.DYNAMIC_UPDATE_SLICE:
        # The updated array is written in place: it must be in memory.
        return user.operands[0] is not producer
    if opcode in (Opcode.CONCATENATE, Opcode.PAD):
        # All operands of a concatenation may be evaluated for each element.
        return cost_of(producer) < EXPENSIVE
    return producer.opcode is not Opcode.DYNAMIC_UPDATE_SLICE


def may_be_interior(node: Instruction) -> bool:
    """Whether a fusible instruction may be computed inside a consumer's fusion at all."""
    if node.opcode is Opcode.DYNAMIC_UPDATE_SLICE:
        return False
    if node.opcode is Opcode.CONCATENATE:
        return len(node.operands) <= 4
    return True


def same_window_read(reader: Instruction, update: Instruction) -> bool:
    """`reader` takes just the window that the dynamic-update-slice writes, of as large an array."""
    attributes, whole = reader.attributes, update.shape.dimensions
    if not isinstance(attributes, (DynamicSliceAttributes, SliceAttributes)):
        return False
    window = update.operands[1].shape.dimensions
    if reader.shape.dimensions != window or reader.operands[0].shape.dimensions != whole:
        return False
    if isinstance(attributes, DynamicSliceAttributes):
        return reader.operands[1:] == update.operands[2:]
    if any(stride != 1 for stride in attributes.strides):
        return False
    starts = constant_starts(update.operands[2:])
    return starts is not None and all(
        first == min(max(start, 0), size - taken)
        for first, start, size, taken in zip(attributes.starts, starts, whole, window, strict=True)
    )


FREE_ALIASES = frozenset(
    {Opcode.RESHAPE, Opcode.BITCAST, Opcode.OPT_BARRIER, Opcode.ADD_DEPENDENCY}
)


def memory_origin(node: Instruction) -> Instruction:
    """The instruction whose memory `node` shares, looking through relabellings."""
    while node.opcode in FREE_ALIASES:
        node = node.operands[0]
    return node


def reads_memory(node: Instruction, target: Instruction) -> bool:
    """Whether the node reads the memory of `target` itself."""
    return any(memory_origin(operand) is target for operand in node.operands)


def overwriters(order: list[Instruction]) -> dict[Instruction, list[Instruction]]:
    """What writes over an array in place: updates of it, and loops that carry it."""
    result: dict[Instruction, list[Instruction]] = {}
    for node in order:
        targets: list[Instruction] = []
        if node.opcode is Opcode.DYNAMIC_UPDATE_SLICE:
            targets = node.operands[:1]
        elif node.opcode is Opcode.SCATTER:
            targets = node.operands[: (len(node.operands) - 1) // 2]
        elif node.opcode is Opcode.WHILE and node.operands[0].opcode is Opcode.TUPLE:
            targets = node.operands[0].operands
        for target in targets:
            if target.shape.is_array and target.shape.dimensions:
                result.setdefault(memory_origin(target), []).append(node)
    return result
