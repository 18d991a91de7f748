"""Dimension groups of dots, as passes and code generation ask for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from xla_backend.hlo.attributes import DotAttributes
from xla_backend.hlo.instruction import Instruction


class DotSizes(NamedTuple):
    """A dot as `batch` products of m x k by k x n."""

    batch: int
    m: int
    n: int
    k: int

    @property
    def columns(self) -> int:
        """Elements that lie next to each other in a row of the result; vectors count as rows."""
        return self.m if self.n == 1 else self.n


class OperandDimensions(NamedTuple):
    """Dimension numbers of one operand of a dot: batch, contracting, and free in order."""

    batch: tuple[int, ...]
    contracting: tuple[int, ...]
    free: tuple[int, ...]


def dot_attributes(dot: Instruction) -> DotAttributes:
    assert isinstance(dot.attributes, DotAttributes)
    return dot.attributes


def operand_dimensions(dot: Instruction) -> tuple[OperandDimensions, OperandDimensions]:
    """The groups of lhs and rhs."""
    a = dot_attributes(dot)
    lhs, rhs = dot.operands[0].shape, dot.operands[1].shape
    return (
        _groups(len(lhs.dimensions), a.lhs_batch, a.lhs_contracting),
        _groups(len(rhs.dimensions), a.rhs_batch, a.rhs_contracting),
    )


@lru_cache(maxsize=256)  # a dozen passes ask about each dot
def _groups(rank: int, batch: tuple[int, ...], contracting: tuple[int, ...]) -> OperandDimensions:
    free = tuple(d for d in range(rank) if d not in batch and d not in contracting)
    return OperandDimensions(batch, contracting, free)


def dot_sizes(dot: Instruction) -> DotSizes:
    """Sizes of the groups of dimensions of a dot."""
    left, right = operand_dimensions(dot)
    lhs, rhs = (operand.shape.dimensions for operand in dot.operands)
    return DotSizes(
        math.prod([lhs[d] for d in left.batch]),
        math.prod([lhs[d] for d in left.free]),
        math.prod([rhs[d] for d in right.free]),
        math.prod([lhs[d] for d in left.contracting]),
    )


def contraction_order(dot: Instruction) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Contracted dimensions of both operands in the order lhs has them in memory: the order of a
    sum is free."""
    a = dot_attributes(dot)
    pairs = sorted(zip(a.lhs_contracting, a.rhs_contracting))
    return tuple(p for p, _ in pairs), tuple(q for _, q in pairs)


def batch_split(lhs: Instruction, rhs: Instruction, groups: Sequence[Sequence[int]]) -> int | None:
    """How many leading batch dimensions to walk apart from the others, so that both parts have one
    stride in lhs and in rhs; None if there is no such number. `groups`: batch dimensions of each.
    """
    count = len(groups[0])
    for split in range(max(count, 1)):
        if all(
            collapse(x.shape.dimensions, part) is not None
            for x, group in zip((lhs, rhs), groups)
            for part in (group[:split], group[split:])
        ):
            return split
    return None


def row_major_strides(dimensions: Sequence[int]) -> list[int]:
    strides = [1] * len(dimensions)
    for i in range(len(dimensions) - 2, -1, -1):
        strides[i] = strides[i + 1] * dimensions[i + 1]
    return strides


def collapse(dimensions: Sequence[int], group: Sequence[int]) -> int | None:
    """The stride of a group of dimensions of a row-major array walked as one, in the given order;
    None if there is no single one."""
    strides = row_major_strides(dimensions)
    stride: int | None = None
    following = 0  # the stride at which the next dimension outwards continues the walk
    for d in reversed(group):
        if dimensions[d] == 1:
            continue
        if stride is None:
            stride = strides[d]
        elif strides[d] != following:
            return None
        following = strides[d] * dimensions[d]
    return 0 if stride is None else stride
