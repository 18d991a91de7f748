"""Sorts that sort nothing, or carry along what nobody reads."""

from __future__ import annotations

from xla_backend.hlo.attributes import ParameterAttributes, SortAttributes
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.emit import Emit, adopt


def _sort_of_one(node: Instruction) -> Instruction | None:
    """Along a dimension of at most one element everything is in order."""
    assert isinstance(node.attributes, SortAttributes)
    if node.operands[0].shape.dimensions[node.attributes.dimension] > 1:
        return None
    return _as_result(node, node.operands)


def _unread_operands(node: Instruction) -> Instruction | None:
    """Operands that neither the comparator nor a reader of the result looks at are dropped."""
    count = len(node.operands)
    readers = list(node.users)
    if count == 1 or any(r.opcode is not Opcode.GET_TUPLE_ELEMENT for r in readers):
        return None
    if node.is_root:
        return None
    parameters = node.called[0].parameters
    kept = {r.tuple_index for r in readers}
    kept |= {p.parameter_number // 2 for p in parameters if p.users or p.is_root}
    if len(kept) == count:
        return None
    order = sorted(kept)
    operands = [node.operands[i] for i in order]
    shapes = [o.shape for o in operands]
    b = Emit(node)
    fewer = b.add(
        Opcode.SORT,
        operands,
        node.attributes,
        (_comparator_of(node.called[0], order),),
        shape=shapes[0] if len(shapes) == 1 else Shape.tuple(shapes),
    )
    sorted_ = [fewer] if len(order) == 1 else [b.gte(fewer, i) for i in range(len(order))]
    members = dict(zip(order, sorted_))
    return _as_result(node, [members.get(i, o) for i, o in enumerate(node.operands)])


def _comparator_of(comparator: Computation, kept: list[int]) -> Computation:
    """The comparator with the parameters of the kept operands only."""
    fewer = Computation(comparator.name)
    copies: dict[Instruction, Instruction] = {}
    numbers = [2 * i + side for i in kept for side in (0, 1)]
    for new, old in enumerate(numbers):
        parameter = comparator.parameters[old]
        copy = Instruction(
            Opcode.PARAMETER, parameter.shape, (), ParameterAttributes(new), name=parameter.name
        )
        copies[parameter] = fewer.add(copy)
    for inner in comparator.post_order():
        if inner.opcode is not Opcode.PARAMETER:
            operands = [copies[o] for o in inner.operands]
            copies[inner] = fewer.add(clone_instruction(inner, operands))
    assert comparator.root is not None
    fewer.root = copies[comparator.root]
    return fewer


def _as_result(node: Instruction, arrays: list[Instruction]) -> Instruction:
    return Emit(node).tuple(arrays) if node.shape.is_tuple else arrays[0]


class SortSimplifier(RuleTablePass):
    """sort of one element -> the element; sort(keys, unread values) -> sort(keys).

    Why: argsort and top-k sort values of which often only one half is used; each operand moves
    through memory several times.
    Needs: tuples simplified, dead code removed (both hide who reads a result).
    Leaves: no sort along a dimension of size 1, none with an operand nobody looks at.
    """

    name = "sort-simplifier"
    opcodes = frozenset({Opcode.SORT})
    rules = {Opcode.SORT: (_sort_of_one, _unread_operands)}

    def run_on_computation(self, computation: Computation) -> bool:
        changed = super().run_on_computation(computation)
        if changed:
            adopt(computation)
        return changed
