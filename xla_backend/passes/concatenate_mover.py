"""Components that are put side by side after what is computed from them, in place of before."""

from __future__ import annotations

from math import prod

from xla_backend.hlo.attributes import DimensionsAttributes, PadAttributes, SliceAttributes
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass, topological_order
from xla_backend.passes.emit import Emit
from xla_backend.passes.patterns import binary_reducer, dims_of, is_pointwise, scalar_of

# Each operation becomes as many.
_MOST_PARTS = 4
# What takes components out of a concatenation.
_READS = frozenset({Opcode.SLICE, Opcode.RESHAPE})
_COMBINES = frozenset(
    {Opcode.ADD, Opcode.MULTIPLY, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.AND, Opcode.OR}
)
# Operations of a computation that move: enough for steps of integrators on vectors.
_MOST_MOVED = 100


class ConcatenateMover(HloPass):
    """add(concatenate(a, b), x) -> concatenate(add(a, first of x), add(b, second of x)), for
    components that lie next to each other, as stack([a, b, c], axis=-1) makes; and so for a
    component among zeros, as in the gradient of x[..., 0]. Reductions of components, such as norms,
    are operations on them.

    Why: an element of a concatenation inside of a loop asks which operand it is of, and computes
    all of them; below the chain it is the root of a loop whose lanes go to memory together, and
    where somebody takes components out of it again, it is gone.
    Needs: nothing.
    Leaves: no elementwise operation on a concatenation of so many components, all of whose readers
    are such operations, reductions, and slices with a component each, up to a number of operations.
    """

    name = "concatenate-mover"
    opcodes = frozenset({Opcode.CONCATENATE, Opcode.PAD})

    def run_on_computation(self, computation: Computation) -> bool:
        moved = 0
        slices: dict[tuple[Instruction, int], Instruction] = {}
        for node in topological_order(computation):
            if node.parent is None or not (node.users or node.is_root):
                continue
            if node.opcode in _READS and moved:
                read = _part_of(node) if node.opcode is Opcode.SLICE else _before(node)
                if read is not None:
                    computation.replace(node, read)
            elif moved == _MOST_MOVED:
                continue
            elif is_pointwise(node):
                pattern = next((o for o in node.operands if _parts_company(o)), None)
                if pattern is not None:
                    computation.replace(node, _sunk(node, pattern, slices))
                    moved += 1
            elif _reduces_components(node) and _parts_company(node.operands[0]):
                computation.replace(node, _combined(node))
                moved += 1
        return bool(moved)


def _axis(node: Instruction) -> int | None:
    """The dimension along which a node has components; None: it is not made of any."""
    dimensions = node.shape.dimensions
    if node.opcode is Opcode.CONCATENATE:
        (d,) = dims_of(node)
        count = len(node.operands)
    elif node.opcode is Opcode.PAD:
        a = node.attributes
        assert isinstance(a, PadAttributes)
        inner = node.operands[0].shape.dimensions
        changed = [i for i, (low, high) in enumerate(zip(a.low, a.high)) if low or high]
        if len(changed) != 1 or any(a.interior):
            return None
        (d,) = changed
        if inner[d] != 1 or min(a.low[d], a.high[d]) < 0:
            return None
        count = dimensions[d]
    else:
        return None
    return d if 1 < count <= _MOST_PARTS and prod(dimensions[d:]) == count else None


def _parts_company(node: Instruction) -> bool:
    """Whether it joins components, and nobody needs them joined."""
    return (
        not node.is_root
        and _axis(node) is not None
        and all(
            is_pointwise(user)
            or (user.opcode is Opcode.SLICE and _part_of(user) is not None)
            or _reduces_components(user)
            for user in node.users
        )
    )


def _reduces_components(node: Instruction) -> bool:
    if node.opcode is not Opcode.REDUCE or len(node.operands) != 2:
        return False
    if node.shape.element_type.is_floating and node.shape.element_type.bits < 32:
        return False  # sums of such are rounded once
    d = _axis(node.operands[0])
    return d is not None and dims_of(node) == (d,) and binary_reducer(node.called[0]) in _COMBINES


def _part_of(node: Instruction) -> Instruction | None:
    """The operand of a concatenation that a slice of it is."""
    joined = node.operands[0]
    if joined.opcode is not Opcode.CONCATENATE:
        return None
    a = node.attributes
    assert isinstance(a, SliceAttributes)
    (d,) = dims_of(joined)
    offset = 0
    for part in joined.operands:
        if offset == a.starts[d] and part.shape.dimensions == node.shape.dimensions:
            return part if set(a.strides) == {1} else None
        offset += part.shape.dimensions[d]
    return None


def _before(node: Instruction) -> Instruction | None:
    """What a reshape undoes a reshape of."""
    inner = node.operands[0]
    if inner.opcode is Opcode.RESHAPE and inner.operands[0].shape == node.shape:
        return inner.operands[0]
    return None


def _component(b: Emit, node: Instruction, number: int) -> Instruction:
    """A component of what is made of them, without their dimension."""
    d = _axis(node)
    assert d is not None
    apart = node.shape.dimensions[:d] + node.shape.dimensions[d + 1 :]
    if node.opcode is Opcode.CONCATENATE:
        return _reshaped(b, node.operands[number], apart)
    a = node.attributes
    assert isinstance(a, PadAttributes)
    inner, filler = node.operands
    if number == a.low[d]:
        return _reshaped(b, inner, apart)
    return b.broadcast(filler, apart, ()) if apart else filler


def _sunk(
    node: Instruction, pattern: Instruction, slices: dict[tuple[Instruction, int], Instruction]
) -> Instruction:
    """`node` on each component, and the results concatenated like `pattern`."""
    d = _axis(pattern)
    assert d is not None
    b = Emit(node)
    count = pattern.shape.dimensions[d]
    apart = pattern.shape.dimensions[:d] + pattern.shape.dimensions[d + 1 :]
    joined = (*pattern.shape.dimensions[:d], 1, *pattern.shape.dimensions[d + 1 :])

    def component(operand: Instruction, number: int) -> Instruction:
        scalar = scalar_of(operand)
        if not operand.shape.dimensions:
            return operand  # such as a select's condition
        if scalar is not None:
            return b.broadcast(scalar, apart, ()) if apart else scalar
        if _axis(operand) == d:
            return _component(b, operand, number)
        if operand.opcode is Opcode.BROADCAST:
            dims = dims_of(operand)
            if d not in dims:
                kept = [i - (i > d) for i in dims]
                return b.broadcast(operand.operands[0], apart, kept)
        found = slices.get((operand, number))
        if found is None or found.parent is None:
            starts = [number if i == d else 0 for i in range(len(joined))]
            limits = [s + n for s, n in zip(starts, joined)]
            found = b.reshape(b.slice(operand, starts, limits), apart)
            slices[operand, number] = found
        return found

    shape = node.shape.with_dimensions(apart)
    parts = []
    for number in range(count):
        operands = [component(o, number) for o in node.operands]
        part = b.computation.add(clone_instruction(node, operands, shape))
        parts.append(b.reshape(part, joined))
    return b.concatenate(parts, d)


def _combined(node: Instruction) -> Instruction:
    """A reduction of components as operations on them, in order."""
    b = Emit(node)
    joined, start = node.operands
    opcode = binary_reducer(node.called[0])
    assert opcode is not None and isinstance(node.attributes, DimensionsAttributes)
    (d,) = node.attributes.dimensions
    apart = node.shape.dimensions
    result = b.broadcast(start, apart, ()) if apart else start
    for number in range(joined.shape.dimensions[d]):
        result = b.binary(opcode, result, _component(b, joined, number))
    return result


def _reshaped(b: Emit, node: Instruction, dimensions: tuple[int, ...]) -> Instruction:
    if node.opcode is Opcode.RESHAPE and node.operands[0].shape.dimensions == dimensions:
        return node.operands[0]
    return b.reshape(node, dimensions)
