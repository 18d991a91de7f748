"""dot, and fusions around one: kernels with tensor cores, kernels of rows, or plain loops."""

from __future__ import annotations

from xla_backend.hlo.attributes import FusionKind
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.ir import Kernel
from xla_backend.kernels.library.dots import (
    Product,
    dot_kernel,
    product_in,
    recipe_of_dot,
    sizes_of,
)
from xla_backend.kernels.library.matrix_product import Tiling, matrix_product
from xla_backend.kernels.library.skinny_product import SkinnyTiling, skinny_product
from xla_backend.passes.dots import operand_dimensions
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Step
from xla_backend.targets.gpu.architectures import Architecture
from xla_backend.targets.gpu.product_candidates import Candidate, Loops, candidates, fastest
from xla_backend.targets.gpu.rules import RULES
from xla_backend.targets.gpu.schedules import Schedules


@RULES.runs(Opcode.DOT)
def _dot(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    chosen = choice(product_in(node), architecture_of(builder))
    if isinstance(chosen, Loops):
        return builder.launch(node)
    return builder.launch(node, lambda name: kernel_by(node, name, chosen))


RULES.fusions[FusionKind.OUTPUT] = _dot


def architecture_of(builder: ProgramBuilder) -> Architecture:
    """What the kernels of a program are made for."""
    schedules = builder.kernels.scheduler
    assert isinstance(schedules, Schedules)
    return schedules.architecture


def takes_epilogue(product: Instruction) -> bool:
    """Whether the kernel of a dot can do elementwise work on its result."""
    if product.opcode is not Opcode.DOT:
        return False
    return min(sizes_of(product)) > 0 and recipe_of_dot(product) is not None


def choice(dot: Instruction, architecture: Architecture) -> Candidate:
    """How a dot runs."""
    sizes, recipe = sizes_of(dot), recipe_of_dot(dot)
    if recipe is None or min(sizes) == 0:
        return Loops()
    found = candidates(sizes, recipe, inner_first=_inner_first(dot))
    return fastest(found, sizes, recipe, architecture)


def _inner_first(dot: Instruction) -> bool:
    """Whether neighbours in the sum are neighbours in the memory of the larger operand."""
    sizes = sizes_of(dot)
    side = 0 if sizes.m >= sizes.n else 1
    dims = dot.operands[side].shape.dimensions
    last = max((d for d, size in enumerate(dims) if size > 1), default=0)
    return last in operand_dimensions(dot)[side].contracting


def kernel_by(node: Instruction, name: str, chosen: Tiling | SkinnyTiling) -> Kernel:
    """The kernel of a dot or a fusion around one, in a certain way."""

    def build(p: Product) -> None:
        if isinstance(chosen, Tiling):
            matrix_product(p.e, p.sizes, p.lhs, p.rhs, p.recipe, chosen, p.finish)
        else:
            skinny_product(p.e, p.sizes, p.lhs, p.rhs, p.recipe, chosen, p.finish)

    return dot_kernel(node, name, build)
