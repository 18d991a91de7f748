"""Sorts with a computed key: the key becomes an operand of the sort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xla_backend.hlo.attributes import (
    CompareAttributes,
    ComparisonDirection,
    ParameterAttributes,
    SortAttributes,
)
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import BY_NAME, PrimitiveType
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit, adopt
from xla_backend.passes.fusion_rules import ELEMENTWISE
from xla_backend.passes.sort_keys import sort_keys
from xla_backend.process.light_dataclasses import dataclass

P = PrimitiveType
_STRICT = {ComparisonDirection.LT: False, ComparisonDirection.GT: True}


class SortKeyRewriter(HloPass):
    """sort(x; f(a) < f(b)) -> sort(f(x), x; a0 < b0), with as many keys as the comparator has.

    Why: sorting by values is a radix sort; sorting by an unknown comparator calls it for each pair.
    Programs optimised for other targets spell total order as integer arithmetic on the bits.
    Needs: calls inlined, no bitcast.
    Leaves: comparators that order by a function of each element compare operands themselves, of
    types in `sortable`.
    """

    name = "sort-key-rewriter"
    opcodes = frozenset({Opcode.SORT})

    def __init__(self, sortable: Sequence[PrimitiveType]) -> None:
        self.sortable = frozenset(sortable)

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.post_order(Opcode.SORT):
            if self._is_plain(node):
                continue
            keys = computed_keys(node.called[0])
            if keys is not None and all(_carrier(k.type, self.sortable) for k in keys):
                computation.replace(node, self._with_keys(node, keys))
                changed = True
        if changed:
            adopt(computation)
        return changed

    def _is_plain(self, node: Instruction) -> bool:
        keys = sort_keys(node.called[0])
        return keys is not None and all(
            node.operands[k.operand].shape.element_type in self.sortable for k in keys
        )

    def _with_keys(self, node: Instruction, keys: Sequence[ComputedKey]) -> Instruction:
        b = Emit(node)
        columns = [self._column(b, node, key) for key in keys]
        operands = [*columns, *node.operands]
        attributes = node.attributes
        assert isinstance(attributes, SortAttributes)
        both = b.add(
            Opcode.SORT,
            operands,
            attributes,
            (_lexicographic([o.shape.element_type for o in operands], keys),),
            shape=Shape.tuple([o.shape for o in operands]),
        )
        results = [b.gte(both, len(columns) + i) for i in range(len(node.operands))]
        return b.tuple(results) if node.shape.is_tuple else results[0]

    def _column(self, b: Emit, node: Instruction, key: ComputedKey) -> Instruction:
        """The key of every element, in a type the sort has code for."""
        column = _on_arrays(b, key.expression, node.operands)
        if key.total_order:
            column = _total_order_bits(b, column)
        carrier = _carrier(column.shape.element_type, self.sortable)
        assert carrier is not None
        return b.convert(column, carrier)


@dataclass(frozen=True, slots=True)
class ComputedKey:
    """`expression` gives the key of the left element of a comparator, from its parameters."""

    expression: Instruction
    descending: bool
    total_order: bool  # -NaN < -inf < ... < -0 < 0 < ... < NaN

    @property
    def type(self) -> PrimitiveType:
        element_type = self.expression.shape.element_type
        return _total_order_type(element_type) if self.total_order else element_type


def computed_keys(comparator: Computation) -> list[ComputedKey] | None:
    """The keys of a comparator that is lexicographic on functions of single elements, most
    significant first; None for any other.

    Understood: f(a) < f(b) and f(a) > f(b); or(f(a) < f(b), and(f(a) == f(b), <the rest>)); and
    select(f(a) == f(b), <the rest>, f(a) < f(b)).
    """
    node = comparator.root
    keys: list[ComputedKey] = []
    while node is not None:
        key = _key(node)
        if key is not None:
            return [*keys, key]
        for first, equal, rest in _alternatives(node):
            key = _key(first)
            if key is not None and _is_equality_of(equal, key):
                keys.append(key)
                node = rest
                break
        else:
            return None
    return None


def _alternatives(node: Instruction) -> list[tuple[Instruction, Instruction, Instruction]]:
    """Ways to read a node as (less, equal, the rest)."""
    if node.opcode is Opcode.SELECT:
        equal, rest, less = node.operands
        return [(less, equal, rest)]
    if node.opcode is not Opcode.OR:
        return []
    found = []
    for less, tie in (node.operands, node.operands[::-1]):
        if tie.opcode is Opcode.AND:
            found += [(less, a, b) for a, b in (tie.operands, tie.operands[::-1])]
    return found


def _key(node: Instruction) -> ComputedKey | None:
    attributes = node.attributes
    if node.opcode is not Opcode.COMPARE or not isinstance(attributes, CompareAttributes):
        return None
    if attributes.direction not in _STRICT:
        return None
    left = _left_of(node)
    if left is None:
        return None
    element_type = left.shape.element_type
    if element_type.is_complex:
        return None
    total = attributes.total_order and element_type.is_floating
    if total and element_type.bits < 8:
        return None
    swapped = left is not node.operands[0]
    return ComputedKey(left, _STRICT[attributes.direction] != swapped, total)


def _is_equality_of(node: Instruction, key: ComputedKey) -> bool:
    attributes = node.attributes
    if node.opcode is not Opcode.COMPARE or not isinstance(attributes, CompareAttributes):
        return False
    if attributes.direction is not ComparisonDirection.EQ:
        return False
    left = _left_of(node)
    total = attributes.total_order and node.operands[0].shape.element_type.is_floating
    return left is not None and total == key.total_order and _same(left, key.expression)


def _left_of(compare: Instruction) -> Instruction | None:
    """Of two operands that are one function of the left and of the right element: the one of the
    left element."""
    first, second = compare.operands
    for left, right in ((first, second), (second, first)):
        if _mirrored(left, right):
            return left
    return None


def _mirrored(left: Instruction, right: Instruction) -> bool:
    """Whether `right` computes from right elements what `left` computes from left ones."""
    return _matches(left, right, mirror=True)


def _same(a: Instruction, b: Instruction) -> bool:
    return a is b or _matches(a, b, mirror=False)


def _matches(left: Instruction, right: Instruction, *, mirror: bool) -> bool:
    seen: set[tuple[Instruction, Instruction]] = set()
    stack = [(left, right)]
    while stack:
        pair = stack.pop()
        if pair in seen:
            continue
        seen.add(pair)
        a, b = pair
        if a.opcode is not b.opcode or a.shape != b.shape or a.called or b.called:
            return False
        if a.opcode is Opcode.PARAMETER:
            number = a.parameter_number
            if number % 2 or b.parameter_number != number + int(mirror):
                return False
        elif a.opcode is Opcode.CONSTANT:
            if not np.array_equal(_bits(a), _bits(b)):
                return False
        elif a.opcode not in ELEMENTWISE or a.attributes != b.attributes:
            return False
        stack.extend(zip(a.operands, b.operands))
    return True


def _bits(constant: Instruction) -> np.ndarray:
    return np.ascontiguousarray(constant.literal_array).reshape(-1).view(np.uint8)


def _on_arrays(b: Emit, expression: Instruction, operands: Sequence[Instruction]) -> Instruction:
    """A scalar expression of left elements, applied to whole operands."""
    dims = operands[0].shape.dimensions
    arrays: dict[Instruction, Instruction] = {}
    stack = [expression]
    while stack:
        node = stack[-1]
        waiting = [o for o in node.operands if o not in arrays]
        if node in arrays:
            stack.pop()
        elif waiting:
            stack.extend(waiting)
        else:
            arrays[node] = _on_array(b, node, arrays, operands, dims)
            stack.pop()
    return arrays[expression]


def _on_array(
    b: Emit,
    node: Instruction,
    arrays: Mapping[Instruction, Instruction],
    operands: Sequence[Instruction],
    dims: tuple[int, ...],
) -> Instruction:
    if node.opcode is Opcode.PARAMETER:
        return operands[node.parameter_number // 2]
    if node.opcode is Opcode.CONSTANT:
        return b.broadcast(b.computation.add(clone_instruction(node, [])), dims, ())
    shape = node.shape.with_dimensions(dims)
    return b.computation.add(clone_instruction(node, [arrays[o] for o in node.operands], shape))


def _total_order_type(element_type: PrimitiveType) -> PrimitiveType:
    """The integers that stand for floats in their total order."""
    if element_type is P.F8E8M0FNU:  # has no sign
        return P.U8
    return BY_NAME[f"s{element_type.bits}"]


def _total_order_bits(b: Emit, x: Instruction) -> Instruction:
    """Integers in the total order of floats: negative ones have their magnitude flipped."""
    signed = _total_order_type(x.shape.element_type)
    bits = b.bitcast_convert(x, signed)
    if not signed.is_signed_integral:
        return bits
    flipped = b.binary(Opcode.XOR, bits, b.splat(bits.shape, 2 ** (signed.bits - 1) - 1))
    negative = b.compare(bits, b.splat(bits.shape, 0), ComparisonDirection.LT)
    return b.add(Opcode.SELECT, (negative, flipped, bits), shape=bits.shape)


def _carrier(
    element_type: PrimitiveType, sortable: frozenset[PrimitiveType]
) -> PrimitiveType | None:
    """A sortable type that holds every value of `element_type` in the same order."""
    if element_type in sortable:
        return element_type
    if element_type.is_signed_integral and element_type.bits < 8:
        return P.S8
    if element_type.is_unsigned_integral and element_type.bits < 8:
        return P.U8
    return P.F32 if element_type.is_floating and element_type.bits <= 8 else None


def _lexicographic(types: Sequence[PrimitiveType], keys: Sequence[ComputedKey]) -> Computation:
    """Comparator of the first len(keys) operands."""
    computation = Computation("order_of_keys")
    parameters = [
        computation.add(
            Instruction(Opcode.PARAMETER, Shape.array(t), (), ParameterAttributes(i), name=f"p{i}")
        )
        for i, t in enumerate(t for t in types for _ in range(2))
    ]
    pred = Shape.array(P.PRED)
    root: Instruction | None = None
    for number, key in reversed(list(enumerate(keys))):
        pair = parameters[2 * number : 2 * number + 2]
        direction = ComparisonDirection.GT if key.descending else ComparisonDirection.LT
        less = computation.add(
            Instruction(Opcode.COMPARE, pred, pair, CompareAttributes(direction))
        )
        if root is None:
            root = less
            continue
        same = CompareAttributes(ComparisonDirection.EQ)
        equal = computation.add(Instruction(Opcode.COMPARE, pred, pair, same))
        rest = computation.add(Instruction(Opcode.AND, pred, (equal, root)))
        root = computation.add(Instruction(Opcode.OR, pred, (less, rest)))
    computation.root = root
    return computation
