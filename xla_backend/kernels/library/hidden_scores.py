"""Which scores are hidden by their places alone, as by a causal mask, so that whole tiles of them
need not be computed.

A score is visible where a difference of positions is not negative: query - key >= 0. Masks that
are anything else besides hide scores of tiles that are computed.
"""

from __future__ import annotations

from xla_backend.hlo.attributes import (
    CompareAttributes,
    ComparisonDirection,
    DimensionsAttributes,
    IotaAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.index import QUOTIENTS, FloorDiv, Index, Mod, Var, constant
from xla_backend.kernels.library.score_places import below
from xla_backend.passes.patterns import splat_value
from xla_backend.passes.score_streams import MOVES

Indices = tuple[Index, ...]
# Of a score this low there is no power left, whatever the others of the row are.
_LOWEST = -1e30
_SIGNS = {
    ComparisonDirection.GE: (1, 0),
    ComparisonDirection.GT: (1, -1),
    ComparisonDirection.LE: (-1, 0),
    ComparisonDirection.LT: (-1, -1),
}
_ZERO_WITH_OPERAND = frozenset({Opcode.CONVERT, Opcode.NEGATE, *MOVES})


def visible(mask: Instruction, index: Indices, *, alone: bool) -> Index | None:
    """What is not negative where a mask holds; None for masks of another kind. `alone`: nothing
    else hides scores."""
    mask, index = _source(mask, index)
    if mask.opcode is Opcode.AND and not alone:
        found = [visible(o, index, alone=False) for o in mask.operands]
        return next((x for x in found if x is not None), None)
    if mask.opcode is not Opcode.COMPARE:
        return None
    assert isinstance(mask.attributes, CompareAttributes)
    sides = [_position(o, index) for o in mask.operands]
    if mask.attributes.direction not in _SIGNS or sides[0] is None or sides[1] is None:
        return None
    sign, offset = _SIGNS[mask.attributes.direction]
    return (sides[0] - sides[1]) * sign + offset


def _source(node: Instruction, index: Indices) -> tuple[Instruction, Indices]:
    """What a node is moves and broadcasts of, and where."""
    while node.opcode in MOVES or node.opcode is Opcode.BROADCAST:
        if node.opcode is Opcode.BROADCAST:
            assert isinstance(node.attributes, DimensionsAttributes)
            index = tuple(index[d] for d in node.attributes.dimensions)
        else:
            index = below(node, index)
        (node,) = node.operands
    return node, index


def _position(node: Instruction, index: Indices) -> Index | None:
    """An integer that follows from where it is."""
    node, index = _source(node, index)
    if node.opcode is Opcode.IOTA:
        assert isinstance(node.attributes, IotaAttributes)
        return index[node.attributes.dimension]
    if node.opcode is Opcode.CONSTANT and node.shape.element_type.is_integral:
        value = splat_value(node)
        return None if value is None else constant(int(value))
    if node.opcode in (Opcode.ADD, Opcode.SUBTRACT):
        lhs, rhs = (_position(o, index) for o in node.operands)
        if lhs is None or rhs is None:
            return None
        return lhs + rhs if node.opcode is Opcode.ADD else lhs - rhs
    return None


def shown_scores(scores: Instruction, index: Indices) -> Index | None:
    """What is not negative where the scores of a softmax are more than the lowest number: their
    powers are zero elsewhere."""
    while scores.opcode in MOVES:
        scores, index = scores.operands[0], below(scores, index)
    if scores.opcode is not Opcode.SELECT:
        return None
    mask, score, other = scores.operands
    low = splat_value(other)
    if low is None or low > _LOWEST or not _is_scaled_product(score):
        return None
    return visible(mask, index, alone=True)


def _is_scaled_product(node: Instruction) -> bool:
    """Whether a node is a product times constants, and so far from the lowest numbers."""
    while node.opcode is not Opcode.DOT:
        others = [o for o in node.operands if splat_value(o) is None]
        if len(others) != 1 or node.opcode not in (*_ZERO_WITH_OPERAND, Opcode.MULTIPLY):
            return False
        (node,) = others
    return True


def not_zero(node: Instruction, index: Indices) -> Index | None:
    """What is not negative wherever a number made of scores is not zero; None if that is not
    known."""
    if node.opcode is Opcode.SELECT:
        mask, _, other = node.operands
        return visible(mask, index, alone=False) if splat_value(other) == 0 else None
    if node.opcode in _ZERO_WITH_OPERAND:
        return not_zero(node.operands[0], below(node, index))
    if node.opcode is Opcode.MULTIPLY:
        found = [not_zero(o, index) for o in node.operands]
        return next((x for x in found if x is not None), None)
    if node.opcode is Opcode.DIVIDE:
        return not_zero(node.operands[0], index)
    if node.opcode is Opcode.EXPONENTIAL and node.operands[0].opcode is Opcode.SUBTRACT:
        return shown_scores(node.operands[0].operands[0], index)
    return None


def last_column(shown: Index, row: Var, column: Var, begin: Index, height: int) -> Index | None:
    """The last column that is seen in any of the rows of a block, which begins at `begin`; None
    where rows do not see the first columns up to one of them, more in each row or as many."""
    reach = shown + Index.of(column)
    if shown.coefficient(column) != -1 or not _grows(reach, row, height):
        return None
    last = begin + (height - 1)
    return reach.replaced(lambda atom: last if atom is row else None)


def first_column(shown: Index, row: Var, column: Var, begin: Index) -> Index | None:
    """The first column in which any of the rows from `begin` on is seen; None where rows are not
    seen from there on in all columns, or columns see rows beyond their own."""
    reach = shown + Index.of(row)
    if shown.coefficient(row) != -1 or not _grows(reach, column, 0) or reach.constant:
        return None
    ((atom, _),) = reach.terms.items()
    return begin * (atom.divisor if isinstance(atom, FloorDiv) else 1)


def _grows(reach: Index, variable: Var, height: int) -> bool:
    """Whether an index is a number that is not negative and a variable, a quotient of it, or a
    remainder that grows within each block of a height."""
    if len(reach.terms) != 1 or reach.constant < 0:
        return False
    ((atom, factor),) = reach.terms.items()
    if isinstance(atom, Mod) and (height == 0 or atom.divisor % height):
        return False
    if isinstance(atom, QUOTIENTS):
        return factor == 1 and atom.index == Index.of(variable)
    return factor == 1 and atom is variable
