"""Sums of weights and their gradients along the keys -> sums of results and theirs.

    result = weights @ v;  gradient = d(result) @ v^T
    sum over keys of weights * gradient = sum over columns of result * d(result)

The left side needs all products of queries and keys once more, the right side none (Dao 2023,
"FlashAttention-2", section 2.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.attention_fusion import Attention, attention_at
from xla_backend.passes.base import HloPass
from xla_backend.passes.dots import operand_dimensions
from xla_backend.passes.emit import Emit, adopt
from xla_backend.passes.patterns import binary_reducer, dims_of, splat_value

_SAME_ORDER = frozenset({Opcode.RESHAPE, Opcode.CONVERT})
F32 = PrimitiveType.F32


class _Sum(NamedTuple):
    """A reduction along the keys. `gradient`: the dot of d(result) and v; `factor`: what of it is
    multiplied; `rows`: factors that each row has one of; `is_quotient`: weights are what the powers
    are divided to."""

    node: Instruction
    gradient: Instruction
    factor: Instruction
    rows: list[Instruction]
    is_quotient: bool


class AttentionRowSums(HloPass):
    """sum(weights * (d(result) @ v^T)) -> sum(result * d(result))

    Why: the gradient of a softmax has such a sum for each query, and a kernel that makes all scores
    again for it takes a fourth of the gradient's time.
    Needs: no fusion has run; `takes` says of which attention the result is in memory.
    Leaves: sums of f32; results are rounded to the type of the attention before.
    """

    name = "attention-row-sums"
    opcodes = frozenset({Opcode.DOT})

    def __init__(self, takes: Callable[[Attention], bool] = lambda attention: True) -> None:
        self._takes = takes

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for dot in computation.post_order(Opcode.DOT):
            attention = attention_at(dot) if dot.parent is computation else None
            if attention is None or not _is_in_order(attention) or not self._takes(attention):
                continue
            for node in computation.post_order(Opcode.REDUCE):
                found = _sum_of_weights(attention, node)
                if found is not None and self.may_rewrite():
                    self.rewritten()
                    computation.replace(node, _of_results(attention, found))
                    _keep_digits(computation, found)
                    changed = True
        if changed:
            adopt(computation)
        return changed


def _is_in_order(attention: Attention) -> bool:
    """Whether weights are multiplied as the softmax has them: batches, queries, keys."""
    weights = operand_dimensions(attention.values)[attention.side]
    rank = attention.values.operands[attention.side].shape.rank
    dims = (*weights.batch, *weights.free, *weights.contracting)
    return dims == tuple(range(rank)) and all(
        node.opcode in _SAME_ORDER for node in attention.weights[:-1]
    )


def _sum_of_weights(attention: Attention, node: Instruction) -> _Sum | None:
    """A reduction as a sum that can be had of the results."""
    if len(node.operands) != 2 or node.shape.element_type is not F32:
        return None
    product, start = node.operands
    if binary_reducer(node.called[0]) is not Opcode.ADD or splat_value(start) != 0:
        return None
    quotient = attention.weights[-1]
    same = product.shape.dimensions == quotient.shape.dimensions
    if not same or dims_of(node) != (product.shape.rank - 1,):
        return None
    factors, rows, gradients, powers = [product], [], [], []
    multiplied: list[Instruction] = []
    while factors:
        factor = factors.pop()
        if factor in (quotient, quotient.operands[0]):
            powers.append(factor)
        elif factor.opcode is Opcode.MULTIPLY:
            factors += factor.operands
        elif _is_of_rows(factor, node):
            rows.append(factor.operands[0])
        else:
            gradients.append(_gradient(attention, factor))
            multiplied.append(factor)
    if len(powers) != 1 or len(gradients) != 1 or gradients[0] is None:
        return None
    return _Sum(node, gradients[0], multiplied[0], rows, powers[0] is quotient)


def _is_of_rows(factor: Instruction, reduction: Instruction) -> bool:
    return (
        factor.opcode is Opcode.BROADCAST
        and factor.operands[0].shape == reduction.shape
        and dims_of(factor) == tuple(range(reduction.shape.rank))
    )


def _gradient(attention: Attention, factor: Instruction) -> Instruction | None:
    """The product of d(result) and v that a factor is, with batches, queries and keys in the order
    of the weights."""
    while factor.opcode in _SAME_ORDER:
        (factor,) = factor.operands
    if factor.opcode is not Opcode.DOT or factor.operands[1] is not attention.v:
        return None
    own = operand_dimensions(factor)
    groups = operand_dimensions(attention.values)
    v = groups[1 - attention.side]
    same = own[1].batch == v.batch and own[1].free == v.contracting
    weights = attention.values.operands[attention.side].shape.dimensions
    queries = math.prod(weights[d] for d in groups[attention.side].free)
    left = factor.operands[0].shape.dimensions
    same = same and math.prod(left[d] for d in own[0].free) == queries
    return factor if same else None


def _of_results(attention: Attention, found: _Sum) -> Instruction:
    """The same sum, of results and their gradients."""
    left, right = operand_dimensions(found.gradient)
    groups = operand_dimensions(attention.values)
    v, weights = groups[1 - attention.side], groups[attention.side]
    batches = len(v.batch)
    # Where the result of the dot has its columns and queries.
    queries = [batches + n for n in range(len(weights.free))]
    columns = [batches + len(weights.free) + n for n in range(len(v.free))]
    if attention.side:
        columns = [batches + n for n in range(len(v.free))]
        queries = [batches + len(v.free) + n for n in range(len(weights.free))]
    columns = [columns[v.free.index(d)] for d in right.contracting]
    e = Emit(found.node)
    result = attention.root
    for move in reversed(attention.after):
        if move.opcode is Opcode.TRANSPOSE:
            result = e.transpose(result, _inverse(dims_of(move)))
        elif move.opcode is Opcode.RESHAPE:
            result = e.reshape(result, move.operands[0].shape.dimensions)
    result = e.transpose(result, [*range(batches), *queries, *columns])
    gradient = found.gradient.operands[0]
    gradient = e.transpose(gradient, [*left.batch, *left.free, *left.contracting])
    kept = found.node.shape.dimensions
    width = math.prod(attention.v.shape.dimensions[d] for d in v.free)
    sides = [e.reshape(e.convert(x, F32), (*kept, width)) for x in (result, gradient)]
    total = e.reduce_sum(e.binary(Opcode.MULTIPLY, *sides), [len(kept)])
    rows = [*found.rows]
    if not found.is_quotient:
        rows.append(e.reshape(attention.total, kept))
    for row in rows:
        total = e.binary(Opcode.MULTIPLY, total, row)
    return total


def _keep_digits(computation: Computation, found: _Sum) -> None:
    """The gradient of weights less its mean is what is wanted. Where both have been rounded alike,
    errors cancel; the new mean is not rounded, so the gradient must not be, either."""
    dot, factor = found.gradient, found.factor
    if dot.shape.element_type is F32:
        return
    wide = clone_instruction(dot, list(dot.operands), dot.shape.with_type(F32))
    computation.add(wide)
    e = Emit(factor)
    computation.replace(factor, e.reshape(wide, factor.shape.dimensions))


def _inverse(permutation: Sequence[int]) -> list[int]:
    return sorted(range(len(permutation)), key=lambda d: permutation[d])
