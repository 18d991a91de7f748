"""Dots, alone or with the elementwise work around them, as products of factors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.from_hlo.lower import begin
from xla_backend.kernels.index import ZERO, Index, delinearize, linearize
from xla_backend.kernels.ir import Buffer, Kernel, Value
from xla_backend.kernels.library.factors import Element, Factor, Sizes, factor
from xla_backend.kernels.library.group_product import Plain, plain_array
from xla_backend.kernels.library.matrix_product import Finish
from xla_backend.kernels.library.recipes import Recipe, convert, recipe_for
from xla_backend.passes.dots import (
    OperandDimensions,
    contraction_order,
    dot_attributes,
    dot_sizes,
    operand_dimensions,
)
from xla_backend.passes.output_fusion import product_of

# A product with fewer multiplications is not worth the rounding that tensor cores need.
SMALL = 1 << 18
# Fewer rows or columns than this make no tile.
FEW = 16


class Product(NamedTuple):
    """What kernels of products are built from."""

    e: ElementalEmitter
    sizes: Sizes
    lhs: Factor
    rhs: Factor
    recipe: Recipe
    finish: Finish


# Builds the stages of a product.
Build = Callable[[Product], None]


def product_in(node: Instruction) -> Instruction:
    """The dot or convolution of a kOutput fusion, or the instruction itself."""
    return product_of(node.called[0]) if node.opcode is Opcode.FUSION else node


def sizes_of(dot: Instruction) -> Sizes:
    found = dot_sizes(dot)
    return Sizes(found.batch, found.m, found.n, found.k)


def recipe_of_dot(
    dot: Instruction, float_bytes: bool = False, small: bool | None = None
) -> Recipe | None:
    """How a dot is computed; None where tiles of products are no way to do so. `float_bytes`: see
    `recipe_for`. `small`: whether f32 is not worth rounding, for what is not decided by the
    size."""
    lhs, rhs = (o.shape.element_type for o in dot.operands)
    a = dot_attributes(dot)
    sizes = sizes_of(dot)
    few = min(sizes.m, sizes.n) < FEW
    if small is None:
        small = sizes.batch * sizes.m * sizes.n * sizes.k < SMALL
    result = dot.shape.element_type
    return recipe_for(
        lhs,
        rhs,
        result,
        a.precision,
        a.algorithm,
        few=few,
        small=small,
        float_bytes=float_bytes,
    )


def dot_kernel(node: Instruction, name: str, recipe: Recipe, build: Build) -> Kernel:
    """The kernel of a dot or of a kOutput fusion around one, whose stages `build` makes."""
    e, root, outputs = begin(node, name)
    dot = product_in(node)
    sizes = sizes_of(dot)
    factors = []
    for side, (x, (element, shape)) in enumerate(zip(dot.operands, _elements(dot))):
        of_side = recipe.of_side(side)
        factors.append(factor(element, shape, e.leaves, of_side, zero=x in e.leaves))
    roots = root.operands if root.opcode is Opcode.TUPLE else [root]
    left, right = operand_dimensions(dot)
    lhs, rhs = (o.shape.dimensions for o in dot.operands)
    groups_of_result = (
        [lhs[d] for d in left.batch],
        [lhs[d] for d in left.free],
        [rhs[d] for d in right.free],
    )

    def index(batch: Index, row: Index, column: Index) -> tuple[Index, ...]:
        parts = zip((batch, row, column), groups_of_result)
        return tuple(i for part, dims in parts for i in delinearize(part, dims))

    finish = finish_of(e, dot, roots, outputs, index)
    build(Product(e, sizes, factors[0], factors[1], recipe, finish))
    return e.builder.kernel


def plain_factors(node: Instruction, recipe: Recipe) -> tuple[Plain, Plain] | None:
    """The factors of a dot, alone or in a kOutput fusion, as arrays that boxes can be copied of;
    None where one of them is something else."""
    e, _, _ = begin(node, "factors")
    found = [
        plain_array(element, sizes, e.leaves, recipe.of_side(side))
        for side, (element, sizes) in enumerate(_elements(product_in(node)))
    ]
    lhs, rhs = found
    return None if lhs is None or rhs is None else (lhs, rhs)


def _elements(dot: Instruction) -> Iterator[tuple[Element, tuple[int, int, int]]]:
    """How the elements of each factor are made, and the sizes of its batch, outer and inner."""
    sizes = sizes_of(dot)
    orders = contraction_order(dot)
    for x, groups, order, outer in zip(
        dot.operands, operand_dimensions(dot), orders, (sizes.m, sizes.n)
    ):
        element = _element(x, groups._replace(contracting=order))
        yield element, (sizes.batch, outer, sizes.k)


def _element(x: Instruction, groups: OperandDimensions) -> Element:
    """The elements of an operand by batch, outer and inner index."""
    dims = x.shape.dimensions

    def element(e: ElementalEmitter, batch: Index, outer: Index, inner: Index) -> Value:
        at = [ZERO] * len(dims)
        for group, index in zip(
            (groups.batch, groups.free, groups.contracting), (batch, outer, inner)
        ):
            for d, i in zip(group, delinearize(index, [dims[d] for d in group])):
                at[d] = i
        return e.real(x, tuple(at))

    return element


def finish_of(
    e: ElementalEmitter,
    product: Instruction,
    roots: Sequence[Instruction],
    outputs: Sequence[Buffer],
    index_of: Callable[[Index, Index, Index], tuple[Index, ...]],
) -> Finish:
    """Store the results that depend on a sum. `index_of`: where in the product the sum of a batch,
    row and column is."""

    def finish(
        batch: Index, row: Index, column: Index, total: Value, guard: Value | bool | None
    ) -> None:
        made = convert(e.builder, total, product.shape.element_type)
        index = index_of(batch, row, column)
        linear = linearize(index, product.shape.dimensions)
        e.provided[product] = lambda node, at: made
        where = guard if isinstance(guard, Value) else None
        with e.guarded(guard):
            elements = [
                e.value(
                    root,
                    index
                    if root.shape.dimensions == product.shape.dimensions
                    else delinearize(linear, root.shape.dimensions),
                )
                for root in roots
            ]
            # Everything is read before anything is written: a result may lie where an operand lies.
            for output, element in zip(outputs, elements):
                e.store(output, linear, element, where)

    return finish
