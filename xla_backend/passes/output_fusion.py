"""What a kOutput fusion is: a product (dot or convolution) and the elementwise work on its result.

The fused computation holds one product; everything else reads it at the very element that it
computes. The pass that makes such fusions, buffer sharing and code generation agree on the
questions answered here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from xla_backend.hlo.attributes import ConvolutionAttributes, FusionAttributes, FusionKind
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.dots import dot_sizes

PRODUCTS = frozenset({Opcode.DOT, Opcode.CONVOLUTION})


class ResultShape(NamedTuple):
    """A result as `batch` matrices; elements of a row lie next to each other."""

    batch: int
    rows: int
    columns: int


def is_output_fusion(node: Instruction) -> bool:
    return (
        node.opcode is Opcode.FUSION
        and isinstance(node.attributes, FusionAttributes)
        and node.attributes.kind is FusionKind.OUTPUT
    )


def product_of(fused: Computation) -> Instruction:
    """The dot or convolution of the computation of a kOutput fusion."""
    return next(node for node in fused.instructions if node.opcode in PRODUCTS)


def result_shape(product: Instruction) -> ResultShape | None:
    """The result of a product as a code generator forms it; None for a convolution whose output
    has another order than [batch, spatial, feature] or [batch, feature, spatial]."""
    if product.opcode is Opcode.DOT:
        sizes = dot_sizes(product)
        return ResultShape(sizes.batch, sizes.m * sizes.n // max(sizes.columns, 1), sizes.columns)
    assert isinstance(product.attributes, ConvolutionAttributes)
    numbers, dims = product.attributes.dimension_numbers, product.shape.dimensions
    rank = len(dims)
    order = (numbers.output_batch, numbers.output_feature, *numbers.output_spatial)
    if order == (0, rank - 1, *range(1, rank - 1)):
        return ResultShape(1, math.prod(dims[:-1]), dims[-1])
    if order == tuple(range(rank)):
        return ResultShape(1, dims[0] * dims[1], math.prod(dims[2:]))
    return None


def first_column_dimension(dimensions: Sequence[int], columns: int) -> int | None:
    """The first of the trailing dimensions whose product is `columns`; None if there are none."""
    product, d = 1, len(dimensions)
    while product < columns and d > 0:
        d -= 1
        product *= dimensions[d]
    return d if product == columns else None
