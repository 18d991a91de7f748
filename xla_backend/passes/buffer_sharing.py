"""Which instructions write their result over an operand, and which may.

Code generation relies on two rules stated here. (1) Where the result of an instruction listed by
`in_place_operands` and its operand have the same slice, the operand's other elements are already
in place. (2) A loop nest of a fusion loads everything it reads at one point before it stores
anything at that point, so an output may have the memory of an operand that other outputs of the
same nest read too. Outputs of other nests are written before that, or after it (see
kernels/from_hlo/lower.py): what they read, no output of this nest may overwrite.
"""

from __future__ import annotations

from xla_backend.hlo.attributes import CustomCallAttributes, FusionAttributes, FusionKind
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import topological_order
from xla_backend.passes.fusion_records import rows_of
from xla_backend.passes.fusion_rules import ELEMENTWISE, same_window_read
from xla_backend.passes.patterns import depend_on_any

# Roots that have loop nests of their own, or several, such as one for each operand of a
# concatenation.
_OWN_NESTS = frozenset(
    {
        Opcode.CONCATENATE,
        Opcode.DYNAMIC_UPDATE_SLICE,
        Opcode.REDUCE,
        Opcode.REDUCE_WINDOW,
        Opcode.SCATTER,
        Opcode.SELECT_AND_SCATTER,
    }
)
# Roots that write over their first operand.
_UPDATES = frozenset({Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SCATTER})
_SAME_ELEMENTS = frozenset({Opcode.BITCAST, Opcode.RESHAPE})


def in_place_operands(node: Instruction) -> list[tuple[int, int]]:
    """(operand number, result leaf) pairs that share memory: copy insertion makes it valid."""
    opcode = node.opcode
    if opcode is Opcode.FUSION:
        pairs: list[tuple[int, int]] = []
        for leaf, root in enumerate(node.called[0].outputs):
            if root.opcode in _UPDATES:
                target = root.operands[0]
                if target.opcode is Opcode.PARAMETER:
                    pairs.append((target.parameter_number, leaf))
        return pairs
    if opcode is Opcode.DYNAMIC_UPDATE_SLICE:
        return [(0, 0)]
    if opcode is Opcode.SCATTER:
        return [(i, i) for i in range((len(node.operands) - 1) // 2)]
    if opcode is Opcode.CUSTOM_CALL:
        assert isinstance(node.attributes, CustomCallAttributes)
        pairs = []
        for output_index, operand, operand_index in node.attributes.output_to_operand_aliasing:
            if len(output_index) > 1 or operand_index:
                continue
            pairs.append((operand, output_index[0] if output_index else 0))
        return pairs
    return []


class SharingRules:
    """Answers `may_write_over`, remembering what it found about each fused computation."""

    def __init__(self) -> None:
        self._linear: dict[Computation, frozenset[int]] = {}
        self._in_nest: dict[tuple[Computation, int, int], bool] = {}

    def may_write_over(self, node: Instruction, leaf: int, operand: int) -> bool:
        """Whether result `leaf` may have the memory of an operand that dies at this instruction.

        Sizes of the two buffers are the caller's business.
        """
        if (operand, leaf) in in_place_operands(node):
            if node.opcode is not Opcode.FUSION:
                return True
            return _target_is_read_at_window_only(node.called[0], operand, leaf)
        if node.opcode is not Opcode.FUSION:
            return False
        if operand not in self.linear_parameters(node):
            return False
        # A fusion of rows writes values of rows too, which are not where it reads.
        leaves = node.shape.flatten()
        if leaves[leaf].num_elements != node.operands[operand].shape.num_elements:
            return False
        key = (node.called[0], operand, leaf)
        known = self._in_nest.get(key)
        if known is None:
            known = rows_of(node) is not None or _read_in_nest_of(*key)
            self._in_nest[key] = known
        return known

    def linear_parameters(self, fusion: Instruction) -> frozenset[int]:
        """Parameters a loop fusion reads only at the element it is about to write."""
        fused = fusion.called[0]
        known = self._linear.get(fused)
        if known is None:
            known = _linear_parameters(fusion)
            self._linear[fused] = known
        return known


def _linear_parameters(fusion: Instruction) -> frozenset[int]:
    assert isinstance(fusion.attributes, FusionAttributes)
    fused = fusion.called[0]
    if fusion.attributes.kind is FusionKind.INPUT:
        return frozenset()
    roots = fused.outputs
    if any(r.opcode is Opcode.DYNAMIC_UPDATE_SLICE for r in roots):
        return frozenset()
    rows = rows_of(fusion)
    if rows is not None:
        return rows.read_where_written
    linear = read_where_written(fused)
    return frozenset(p.parameter_number for p in fused.parameters if p in linear)


def read_where_written(fused: Computation) -> set[Instruction]:
    """Instructions of which every element is used only for the elements of outputs that lie where
    it lies."""
    # Walk from the roots: a node is one while every use of it is elementwise in one.
    root_set = set(fused.outputs)
    linear: set[Instruction] = set()
    for node in reversed(topological_order(fused)):
        if node.opcode is Opcode.TUPLE and node is fused.root:
            continue
        if node not in root_set and not node.users:
            continue
        if all(
            user in linear
            and (
                (user.opcode in ELEMENTWISE and user.shape.dimensions == node.shape.dimensions)
                or user.opcode is Opcode.RESHAPE
            )
            for user in node.users
            if not (user is fused.root and user.opcode is Opcode.TUPLE)
        ):
            linear.add(node)
    return linear


def _read_in_nest_of(fused: Computation, operand: int, leaf: int) -> bool:
    """Whether only the loop nest that writes output `leaf` reads a parameter."""
    roots = fused.outputs
    nest = _nest(roots[leaf])
    if nest is None:
        return False
    read = (fused.parameters[operand],)
    return all(_nest(root) == nest for root in roots if depend_on_any([root], read))


def _nest(root: Instruction) -> tuple[int, ...] | None:
    """Roots with the same answer are computed in one loop nest; None: in nests of their own."""
    core = root
    while core.opcode in _SAME_ELEMENTS:
        core = core.operands[0]
    if core.opcode is Opcode.GET_TUPLE_ELEMENT:
        core = core.operands[0]
    return None if core.opcode in _OWN_NESTS else root.shape.dimensions


def _target_is_read_at_window_only(fused: Computation, operand: int, leaf: int) -> bool:
    update = fused.outputs[leaf]
    target = fused.parameters[operand]
    for user in target.users:
        if user is update:
            if any(o is target for o in update.operands[1:]):
                return False
        elif not same_window_read(user, update) or not _flows_elementwise_into(user, update):
            return False
    # Another in-place output over the same array would see this one's writes.
    return sum(r.operands[0] is target for r in fused.outputs if r.operands) == 1


def _flows_elementwise_into(node: Instruction, update: Instruction) -> bool:
    """Every use of `node` ends, element by element, in what `update` writes."""
    stack = [node]
    seen: set[Instruction] = set()
    while stack:
        for user in stack.pop().users:
            if user in seen:
                continue
            seen.add(user)
            if user is update:
                continue
            if user.opcode not in ELEMENTWISE or user.shape.dimensions != node.shape.dimensions:
                return False
            stack.append(user)
    return True
