"""Small questions that simplification rules ask about instructions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import DimensionsAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode

# Combining a value with itself gives that value.
IDEMPOTENT = frozenset({Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.AND, Opcode.OR})


def depend_on_any(nodes: Iterable[Instruction], sources: Collection[Instruction]) -> bool:
    """Whether any of the nodes is one of the sources, or computed from one."""
    stack = list(nodes) if sources else []
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node in sources:
            return True
        new = [o for o in node.operands if o not in seen]
        seen.update(new)
        stack.extend(new)
    return False


def is_pointwise(node: Instruction) -> bool:
    """Whether an element of the result is computed from the same one of each array. Not so for a
    bitcast-convert between widths, which adds or drops a dimension."""
    if not node.opcode.is_elementwise or node.called:
        return False
    return all(o.shape.dimensions in ((), node.shape.dimensions) for o in node.operands)


def scalar_of(node: Instruction) -> Instruction | None:
    """The scalar a node is filled with: the node itself if scalar, or the operand of its
    broadcast."""
    if not node.shape.dimensions and node.shape.is_array:
        return node
    if node.opcode is Opcode.BROADCAST and not node.operands[0].shape.dimensions:
        return node.operands[0]
    return None


def splat_value(node: Instruction) -> Any | None:
    """The constant every element of `node` equals, as a NumPy scalar, or None."""
    opcode = node.opcode
    if opcode is not Opcode.CONSTANT and opcode is not Opcode.BROADCAST:
        return None  # as of most that rules ask about
    scalar = scalar_of(node)
    if scalar is not None:
        return scalar.literal_array[()] if scalar.opcode is Opcode.CONSTANT else None
    if node.opcode is Opcode.CONSTANT and node.shape.num_elements <= 4096:
        array = node.literal_array
        if array.size and _is_splat(array):
            return array.reshape(-1)[0]
    return None


def constant_starts(indices: Iterable[Instruction]) -> list[int] | None:
    """The start indices of a slice that are constants, as they are written: not clamped."""
    starts = []
    for index in indices:
        value = None if index.shape.dimensions else splat_value(index)
        if value is None:
            return None
        starts.append(int(value))
    return starts


def _is_splat(array: np.ndarray) -> bool:
    flat = array.reshape(-1)
    return bool(
        flat.size == 1
        or (flat.view(np.uint8).reshape(flat.size, -1) == flat[:1].view(np.uint8)).all()
    )


def is_splat(node: Instruction, value: float) -> bool:
    """Every element of `node` is the constant `value`; zeros must agree in sign."""
    found = splat_value(node)
    if found is None:
        return False
    if value == 0 and node.shape.element_type.is_floating:
        number = float(found)
        return number == 0 and np.signbit(number) == np.signbit(value)
    return bool(found == value)


def dims_of(node: Instruction) -> tuple[int, ...]:
    assert isinstance(node.attributes, DimensionsAttributes)
    return node.attributes.dimensions


def is_float(node: Instruction) -> bool:
    return node.shape.element_type.is_floating


def is_int_or_pred(node: Instruction) -> bool:
    t = node.shape.element_type
    return t.is_array and not t.is_floating and not t.is_complex


def binary_reducer(computation: Computation) -> Opcode | None:
    """The opcode of a computation (a, b) -> op(a, b), in either order for commutative ops."""
    root = computation.root
    if root is None or len(computation.parameters) != 2 or len(root.operands) != 2:
        return None
    if root.operands == computation.parameters:
        return root.opcode
    if root.opcode.is_commutative and root.operands[::-1] == computation.parameters:
        return root.opcode
    return None


def drop_ones(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(d for d in dims if d != 1)


def read_leaves(node: Instruction) -> list[int]:
    """The arrays of a tuple that something reads."""
    if node.is_root or any(u.opcode is not Opcode.GET_TUPLE_ELEMENT for u in node.users):
        return list(range(len(node.shape.flatten())))
    return sorted({u.tuple_index for u in node.users})
