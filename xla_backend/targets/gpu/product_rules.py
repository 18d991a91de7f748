"""Products (dot, convolution, and fusions around one): kernels with tensor cores, kernels of rows,
calls of cuBLAS, or plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from xla_backend.hlo.attributes import FusionKind
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.ir import Kernel
from xla_backend.kernels.library.convolution import (
    convolution_kernel,
    convolution_sizes,
    recipe_of_convolution,
)
from xla_backend.kernels.library.dots import (
    FEW,
    Build,
    Product,
    dot_kernel,
    plain_factors,
    product_in,
    recipe_of_dot,
    sizes_of,
)
from xla_backend.kernels.library.factors import Sizes
from xla_backend.kernels.library.group_product import (
    GroupTiling,
    group_product,
    multiplies_in_groups,
    plain_array,
)
from xla_backend.kernels.library.matrix_product import Tiling, matrix_product
from xla_backend.kernels.library.recipes import Recipe
from xla_backend.kernels.library.skinny_product import SkinnyTiling, skinny_product
from xla_backend.passes.dots import collapse, contraction_order, operand_dimensions
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Library, Operand, Step
from xla_backend.targets.gpu.architectures import Architecture
from xla_backend.targets.gpu.product_candidates import (
    Candidate,
    Cublas,
    Loops,
    candidates,
    estimated_cycles,
    fastest,
    pass_cycles,
    ranked,
)
from xla_backend.targets.gpu.routines.cublas import TYPES
from xla_backend.targets.gpu.rules import RULES
from xla_backend.targets.gpu.schedules import Schedules

# A product with fewer multiplications takes about as long as a launch, in any way.
_WORTH_TRYING = 1 << 24


class _Family(NamedTuple):
    """What there is to know of products of one opcode."""

    sizes: Callable[[Instruction], Sizes]
    recipe: Callable[[Instruction, bool], Recipe | None]
    inner_first: Callable[[Instruction], bool]
    kernel: Callable[[Instruction, str, Recipe, Build], Kernel]


@RULES.runs(Opcode.DOT)
def _dot(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    chosen = _chosen(builder, node, library=True)
    if isinstance(chosen, Cublas):
        return [_library_step(builder, node, chosen)]
    return _launch(builder, node, chosen)


@RULES.runs(Opcode.CONVOLUTION)
def _convolution(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    return _launch(builder, node, _chosen(builder, node))


RULES.fusions[FusionKind.OUTPUT] = _convolution


def _chosen(builder: ProgramBuilder, node: Instruction, *, library: bool = False) -> Candidate:
    """How a product or a fusion around one runs; large ones are tried where there is a device."""
    schedules = builder.kernels.scheduler
    assert isinstance(schedules, Schedules)
    product = product_in(node)
    family = _FAMILIES[product.opcode]
    sizes, recipe = family.sizes(product), _recipe(product, schedules.architecture)
    worth = math.prod(sizes) >= _WORTH_TRYING
    if recipe is None or schedules.choose is None or not worth:
        return choice(node, schedules.architecture, library=library)
    found = alternatives(node, schedules.architecture, library=library)
    return schedules.choose(node, ranked(found, sizes, recipe, schedules.architecture))


def _launch(builder: ProgramBuilder, node: Instruction, chosen: Candidate) -> list[Step]:
    if isinstance(chosen, Tiling | GroupTiling | SkinnyTiling):
        schedules = builder.kernels.scheduler
        assert isinstance(schedules, Schedules)
        recipe = _recipe(product_in(node), schedules.architecture)
        assert recipe is not None
        return builder.launch(node, lambda name: kernel_by(node, name, recipe, chosen))
    return builder.launch(node)


def _recipe(product: Instruction, architecture: Architecture) -> Recipe | None:
    """How a product is computed there; None where tiles are no way to do so."""
    return _FAMILIES[product.opcode].recipe(product, architecture.has_float_byte_tiles)


def takes_epilogue(architecture: Architecture, product: Instruction) -> bool:
    """Whether elementwise work on the result of a product belongs into its kernel, rather than
    into one of its own behind a call of the library."""
    family = _FAMILIES[product.opcode]
    sizes, recipe = family.sizes(product), _recipe(product, architecture)
    if recipe is None or min(sizes) == 0:
        return False
    best = choice(product, architecture, library=True)
    if not isinstance(best, Cublas):
        return True
    own = choice(product, architecture)
    apart = pass_cycles(2 * product.shape.byte_size, architecture)
    library = estimated_cycles(best, sizes, recipe, architecture) + apart
    return estimated_cycles(own, sizes, recipe, architecture) <= library


def takes_prologue(architecture: Architecture, node: Instruction) -> bool:
    """Whether the kernel of a product, or of a fusion around one, should do light work on its
    operands: not where that turns a call of the library into a kernel of ours, nor where plain
    loops would do it again and again."""
    product = product_in(node)
    best = choice(node, architecture, library=node is product)
    if not isinstance(best, GroupTiling):
        return isinstance(best, Tiling | SkinnyTiling)
    # Groups multiply what lies in memory: the work would be worth another way of multiplying.
    sizes, recipe = _FAMILIES[product.opcode].sizes(product), _recipe(product, architecture)
    assert recipe is not None
    others = [c for c in alternatives(node, architecture) if isinstance(c, Tiling | SkinnyTiling)]
    apart = pass_cycles(2 * max(o.shape.byte_size for o in product.operands), architecture)
    with_work, without = (
        min(estimated_cycles(c, sizes, recipe, architecture) for c in found)
        for found in (others, [best])
    )
    return with_work <= without + apart


def alternatives(
    node: Instruction, architecture: Architecture, *, library: bool = False
) -> list[Candidate]:
    """The ways in which a product, or a fusion around one, may run. `library`: also as a call of
    cuBLAS."""
    product = product_in(node)
    family = _FAMILIES[product.opcode]
    sizes, recipe = family.sizes(product), _recipe(product, architecture)
    if recipe is None or min(sizes) == 0:
        return [Loops()]
    groups = (
        architecture.has_group_products
        and product.opcode is Opcode.DOT
        and multiplies_in_groups(recipe)
        and plain_factors(node, recipe) is not None
    )
    found = candidates(sizes, recipe, inner_first=family.inner_first(product), groups=groups)
    if library and (routine := _library_type(product, recipe)) is not None:
        found.append(routine)
    return found


def choice(node: Instruction, architecture: Architecture, *, library: bool = False) -> Candidate:
    """The way that should be the fastest, of a product or a fusion around one."""
    product = product_in(node)
    family = _FAMILIES[product.opcode]
    found = alternatives(node, architecture, library=library)
    recipe = _recipe(product, architecture)
    if recipe is None or len(found) == 1:
        return found[0]
    return fastest(found, family.sizes(product), recipe, architecture)


# -- the library -----------------------------------------------------------------------------------


def _library_type(dot: Instruction, recipe: Recipe) -> Cublas | None:
    """The call of the library that computes a dot by its recipe; None if there is none."""
    lhs, rhs = (o.shape.element_type for o in dot.operands)
    if (
        dot.opcode is not Opcode.DOT
        or lhs is not rhs
        or len(recipe.terms) > 1
        or _strides(dot) is None
    ):
        return None
    if min(sizes_of(dot)[1:3]) < FEW:
        return None
    result = dot.shape.element_type
    rounded = recipe.rounding is not None
    for t in TYPES.values():
        same = t.source is lhs is recipe.factor and t.target is result
        if same and rounded == t.compute.endswith("TF32"):
            return Cublas(t.name)
    return None


def _strides(dot: Instruction) -> list[tuple[int, int, int]] | None:
    """Strides of batch, outer and inner dimensions of both operands; None where one has none, or
    no neighbours."""
    found = []
    orders = contraction_order(dot)
    for x, groups, order in zip(dot.operands, operand_dimensions(dot), orders):
        dims = x.shape.dimensions
        strides = [collapse(dims, part) for part in (groups.batch, groups.free, order)]
        batch, outer, inner = strides
        if batch is None or outer is None or inner is None or 1 not in (outer, inner):
            return None
        found.append((batch, outer, inner))
    return found


def _library_step(builder: ProgramBuilder, node: Instruction, chosen: Cublas) -> Library:
    strides = _strides(node)
    assert strides is not None
    operands: list[Operand] = list(sizes_of(node))
    for x, numbers in zip(node.operands, strides):
        operands += [builder.slice(x), *numbers]
    operands.append(builder.slice(node))
    return Library(node.name, 0.0, f"cublas_gemm_{chosen.type}", tuple(operands))


def _inner_first(dot: Instruction) -> bool:
    """Whether neighbours in the sum are neighbours in the memory of the larger operand."""
    sizes = sizes_of(dot)
    side = 0 if sizes.m >= sizes.n else 1
    dims = dot.operands[side].shape.dimensions
    last = max((d for d, size in enumerate(dims) if size > 1), default=0)
    return last in operand_dimensions(dot)[side].contracting


def kernel_by(
    node: Instruction, name: str, recipe: Recipe, chosen: Tiling | GroupTiling | SkinnyTiling
) -> Kernel:
    """The kernel of a product or a fusion around one, in a certain way."""

    def build(p: Product) -> None:
        if isinstance(chosen, GroupTiling):
            lhs, rhs = (
                plain_array(factor.element, factor.sizes, p.e.leaves, p.recipe.of_side(side))
                for side, factor in enumerate((p.lhs, p.rhs))
            )
            assert lhs is not None and rhs is not None
            group_product(p.e, p.sizes, lhs, rhs, p.recipe, chosen, p.finish)
        elif isinstance(chosen, Tiling):
            matrix_product(p.e, p.sizes, p.lhs, p.rhs, p.recipe, chosen, p.finish)
        else:
            skinny_product(p.e, p.sizes, p.lhs, p.rhs, p.recipe, chosen, p.finish)

    return _FAMILIES[product_in(node).opcode].kernel(node, name, recipe, build)


_FAMILIES = {
    Opcode.DOT: _Family(sizes_of, recipe_of_dot, _inner_first, dot_kernel),
    Opcode.CONVOLUTION: _Family(
        convolution_sizes, recipe_of_convolution, lambda node: True, convolution_kernel
    ),
}
