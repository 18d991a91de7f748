"""dot as library GEMM calls: dimensions collapse to batch, M, N, K with one stride each, so
transposes are free.

The pass dot-decomposer sees to it that they do. Types the library lacks, and empty sums, run as
plain loops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.dots import (
    OperandDimensions,
    batch_split,
    collapse,
    contraction_order,
    dot_sizes,
    operand_dimensions,
)
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import KernelOperand, Library, Operand, Slice, Step
from xla_backend.targets.cpu.routines.contract_table import ROUTINES
from xla_backend.targets.cpu.rules import RULES

_CALL_CYCLES = 200.0
_MULTIPLIES_PER_CYCLE = 16.0


class Matrix(NamedTuple):
    """An operand as batch x outer x inner (outer: M of lhs, N of rhs; inner: K), strides in
    elements. Batches may come in groups: `group_stride` leads from group to group."""

    slice: Slice
    group_stride: int
    batch_stride: int
    outer_stride: int
    inner_stride: int


def gemm_name(lhs: PrimitiveType, rhs: PrimitiveType, result: PrimitiveType) -> str | None:
    """Suffix of the GEMM routines for these types, or None."""
    if lhs is not rhs:
        return None
    source, target = lhs.value, result.value
    name = source if source == target and source in ("f32", "f64") else f"{source}_{target}"
    return name if f"gemm_{name}" in ROUTINES else None


def has_product(lhs: PrimitiveType, rhs: PrimitiveType, result: PrimitiveType) -> bool:
    """Whether there is a GEMM routine for these types."""
    return gemm_name(lhs, rhs, result) is not None


def _name_for(dot: Instruction) -> str | None:
    lhs, rhs = (operand.shape.element_type for operand in dot.operands)
    return gemm_name(lhs, rhs, dot.shape.element_type)


def runs_as_product(dot: Instruction) -> bool:
    """Whether a dot is a GEMM call, rather than a plain loop."""
    sizes = dot_sizes(dot)
    if min(sizes) == 0:
        return False
    return _name_for(dot) is not None


class Finish(NamedTuple):
    """What a GEMM hands its finished blocks to: an epilogue, the number of the first batch, and
    the cost of an element in multiply-adds."""

    epilogue: KernelOperand | None
    batch: int
    weight: int


_NO_FINISH = Finish(None, 0, 0)


@RULES.runs(Opcode.DOT)
def _dot(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    if node.shape.num_elements == 0:
        return []
    if not runs_as_product(node):
        return builder.launch(node)
    return [product_step(builder, node.name, node, node.operands, builder.slice(node))]


def product_step(
    builder: ProgramBuilder,
    name: str,
    dot: Instruction,
    operands: Sequence[Instruction],
    target: Slice | None,
    *,
    add: bool = False,
    finish: Finish | None = None,
) -> Library:
    """Write (or add) a dot of instructions that lie in memory to `target`; None: only the
    epilogue sees the result."""
    lhs, rhs = operands
    sizes = dot_sizes(dot)
    m, n = sizes.m, sizes.n
    lhs_groups, rhs_groups = operand_dimensions(dot)
    lhs_contracting, rhs_contracting = contraction_order(dot)
    weight = finish.weight if finish is not None else 0
    work = sizes.batch * m * n * (sizes.k + weight)
    split = batch_split(lhs, rhs, (lhs_groups.batch, rhs_groups.batch))
    assert split is not None
    left = _matrix(builder, lhs, lhs_groups._replace(contracting=lhs_contracting), split)
    right = _matrix(builder, rhs, rhs_groups._replace(contracting=rhs_contracting), split)
    if n == 1:
        # A column is a row of the transposed product, and epilogues work along rows.
        m, n, left, right = n, m, right, left
    batched, fused = sizes.batch > 1, finish is not None or split > 0
    first = 0 if batched else 1  # one product has no batch strides
    arguments: list[Operand] = [sizes.batch] if batched else []
    arguments += [m, n, sizes.k]
    arguments += [left.slice, *(left.batch_stride, left.outer_stride, left.inner_stride)[first:]]
    arguments += [right.slice]
    arguments += (right.batch_stride, right.inner_stride, right.outer_stride)[first:]
    arguments += [target, *(m * n, n)[first:], int(add)]
    if fused:
        arguments += finish or _NO_FINISH
    if fused and batched:
        group = math.prod(lhs.shape.dimensions[d] for d in lhs_groups.batch[split:])
        arguments += [group, left.group_stride, right.group_stride]
    form = f"{'fused_' if fused else ''}{'batched_' if batched else ''}"
    routine = f"gemm_{form}{_name_for(dot)}"
    cycles = _CALL_CYCLES + work / _MULTIPLIES_PER_CYCLE
    return Library(name, cycles, routine, tuple(arguments))


def _matrix(
    builder: ProgramBuilder, operand: Instruction, groups: OperandDimensions, split: int
) -> Matrix:
    batch = groups.batch
    parts = (batch[:split], batch[split:], groups.free, groups.contracting)
    strides = [collapse(operand.shape.dimensions, part) for part in parts]
    assert None not in strides, f"the operand {operand!r} of a dot does not collapse"
    return Matrix(builder.slice(operand), *(s or 0 for s in strides))
