"""Places in arrays of scores, which are moved and reshaped between the products around them, as
expressions of batch, query and key."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import DimensionsAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.index import (
    QUOTIENTS,
    ZERO,
    Index,
    Var,
    delinearize,
    linearize,
)
from xla_backend.passes.score_streams import SAME_PLACE


def put(at: list[Index], places: Sequence[int], values: Sequence[Index]) -> None:
    """Set some dimensions of a place."""
    for place, value in zip(places, values):
        at[place] = value


def only(parts: Sequence[Index], variable: Var) -> bool:
    """Whether indices depend on one variable at most."""
    return all(
        only([atom.index], variable) if isinstance(atom, QUOTIENTS) else atom is variable
        for part in parts
        for atom in part.terms
    )


def below(node: Instruction, index: tuple[Index, ...]) -> tuple[Index, ...]:
    """The index of the operand that an element of a node is made of."""
    if node.opcode is Opcode.TRANSPOSE:
        assert isinstance(node.attributes, DimensionsAttributes)
        found = [ZERO] * len(index)
        put(found, node.attributes.dimensions, index)
        return tuple(found)
    if node.opcode is Opcode.RESHAPE:
        linear = linearize(index, node.shape.dimensions)
        return delinearize(linear, node.operands[0].shape.dimensions)
    return index


def above(
    index: tuple[Index, ...], node: Instruction, moves: Sequence[Instruction]
) -> tuple[Index, ...]:
    """Where moves put an element of a node."""
    for move in moves:
        if move.opcode is Opcode.TRANSPOSE:
            assert isinstance(move.attributes, DimensionsAttributes)
            index = tuple(index[d] for d in move.attributes.dimensions)
        elif move.opcode is Opcode.RESHAPE:
            linear = linearize(index, node.shape.dimensions)
            index = delinearize(linear, move.shape.dimensions)
        node = move
    return index


def places_of(
    start: Instruction, index: tuple[Index, ...], nodes: Sequence[Instruction]
) -> dict[Instruction, tuple[Index, ...]]:
    """Where `nodes` (operands first) have the element that one of them has at an index: those that
    are made of it element by element, those that it is made of, and so on."""
    found = {start: index}
    for _ in range(len(nodes)):
        known = len(found)
        for node in nodes:
            if node.opcode in SAME_PLACE and node not in found:
                for operand in _of_same_size(node):
                    if operand in found:
                        found[node] = above(found[operand], operand, [node])
                        break
        for node in reversed(nodes):
            if node in found and node.opcode in SAME_PLACE:
                for operand in _of_same_size(node):
                    found.setdefault(operand, below(node, found[node]))
        if len(found) == known:
            break
    return found


def _of_same_size(node: Instruction) -> list[Instruction]:
    return [o for o in node.operands if o.shape.num_elements == node.shape.num_elements]


def kept(reduction: Instruction, index: Sequence[Index]) -> tuple[Index, ...]:
    """Where the element of a reduction is that an element of its operand goes into."""
    assert isinstance(reduction.attributes, DimensionsAttributes)
    reduced = reduction.attributes.dimensions
    return tuple(x for d, x in enumerate(index) if d not in reduced)
