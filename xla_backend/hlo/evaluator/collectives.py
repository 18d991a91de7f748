"""Meaning of the collectives: from the operands of all members of a group to their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import CollectiveAttributes
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.evaluator.participants import Participant
from xla_backend.hlo.evaluator.reductions import combine
from xla_backend.hlo.evaluator.scalar_computations import ScalarRunner
from xla_backend.hlo.evaluator.values import zeros_of
from xla_backend.hlo.instruction import Instruction

Value = Any


def _one_or_tuple(values: Sequence[np.ndarray]) -> Value:
    return values[0] if len(values) == 1 else tuple(values)


def _axis(node: Instruction) -> int:
    assert isinstance(node.attributes, CollectiveAttributes)
    return node.attributes.dimensions[0]


def _started(node: Instruction, operands: list[Value], result: Value) -> Value:
    """What a -start half returns: operands, result, and contexts, which are zero."""
    contexts = (zeros_of(s) for s in node.shape.tuple_shapes[2:])
    return (_one_or_tuple(operands), result, *contexts)


# -- reductions ------------------------------------------------------------------------------------


def _reduced(node: Instruction, members: list[list[Value]], run: ScalarRunner) -> list[np.ndarray]:
    """Each operand combined over the members, in group order."""
    return [combine(node.called[0], list(parts), run) for parts in zip(*members)]


def all_reduce(
    node: Instruction, operands: list[Value], me: Participant, run: ScalarRunner
) -> Value:
    """Every member gets the combination of all; also all-reduce-start, whose result is the same."""

    def meaning(members: list[list[Value]]) -> Sequence[Value]:
        total = _one_or_tuple(_reduced(node, members, run))
        return [total] * len(members)

    return me.exchange(node, operands, meaning)


def reduce_scatter(
    node: Instruction, operands: list[Value], me: Participant, run: ScalarRunner
) -> Value:
    """Member i gets the i-th part of the combination along the dimension."""

    def meaning(members: list[list[Value]]) -> Sequence[Value]:
        parts = [np.split(x, len(members), _axis(node)) for x in _reduced(node, members, run)]
        return [_one_or_tuple(member) for member in zip(*parts)]

    return me.exchange(node, operands, meaning)


# -- data movement ---------------------------------------------------------------------------------


def all_gather(node: Instruction, operands: list[Value], me: Participant) -> Value:
    """Every member gets the operands of all, joined along the dimension in group order."""

    def meaning(members: list[list[Value]]) -> Sequence[Value]:
        joined = _one_or_tuple([np.concatenate(parts, _axis(node)) for parts in zip(*members)])
        return [joined] * len(members)

    return me.exchange(node, operands, meaning)


def all_gather_start(node: Instruction, operands: list[Value], me: Participant) -> Value:
    return _started(node, operands, all_gather(node, operands, me))


def all_to_all(node: Instruction, operands: list[Value], me: Participant) -> Value:
    """Part j of member i becomes part i of member j. Parts are the operands, or slices of the one
    operand along the dimension, joined again along it."""
    a = node.attributes
    assert isinstance(a, CollectiveAttributes)

    def meaning(members: list[list[Value]]) -> Sequence[Value]:
        if not a.dimensions:
            return [tuple(received) for received in zip(*members)]
        parts = [np.split(operand, len(members), _axis(node)) for (operand,) in members]
        return [np.concatenate(received, _axis(node)) for received in zip(*parts)]

    return me.exchange(node, operands, meaning)


def collective_broadcast(node: Instruction, operands: list[Value], me: Participant) -> Value:
    """Every member gets the operands of the first; who is in no group gets zeros."""
    if not any(me.number in group for group in me.topology.groups(node)):
        return zeros_of(node.shape)

    def meaning(members: list[list[Value]]) -> Sequence[Value]:
        return [_one_or_tuple(members[0])] * len(members)

    return me.exchange(node, operands, meaning)


def collective_permute(node: Instruction, operands: list[Value], me: Participant) -> Value:
    """Each target gets its source's operands; who is no target gets zeros."""
    if "slice_sizes" in (node.annotations or {}):
        raise UnimplementedError(
            f"the evaluator has no meaning for the in-place form of {node}; write slices around it"
        )
    sources = me.topology.pairs(node)
    everyone = tuple(sorted({*sources, *sources.values()}))
    if me.number not in everyone:
        return zeros_of(node.shape)

    def meaning(members: list[list[Value]]) -> Sequence[Value]:
        of = dict(zip(everyone, members))
        nothing = [np.zeros_like(x) for x in members[0]]
        return [_one_or_tuple(of[sources[p]] if p in sources else nothing) for p in everyone]

    return me.meet(node, everyone, operands, meaning)


def collective_permute_start(node: Instruction, operands: list[Value], me: Participant) -> Value:
    if me.number in {*me.topology.pairs(node), *me.topology.pairs(node).values()}:
        result = collective_permute(node, operands, me)
    else:
        result = _one_or_tuple([np.zeros_like(x) for x in operands])
    return _started(node, operands, result)


def ragged_all_to_all(node: Instruction, operands: list[Value], me: Participant) -> Value:
    """Member i writes rows input[offset : offset + size] to the place it names in the output of
    member j, for each j (several times when the offsets hold several entries per member)."""

    def meaning(members: list[list[Value]]) -> Sequence[Value]:
        results = [np.array(member[1]) for member in members]
        for source, _, starts, sizes, places, _ in members:
            per_member = starts.size // len(members)
            for k in range(per_member * len(members)):
                start, size, place = int(starts[k]), int(sizes[k]), int(places[k])
                results[k // per_member][place : place + size] = source[start : start + size]
        return results

    return me.exchange(node, operands, meaning)
