"""Products by groups of 128 threads, as kernels of their own: built, and run in the interpreter."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import BufferRole, Kernel, Value
from xla_backend.kernels.library.factors import Sizes
from xla_backend.kernels.library.group_product import GroupTiling, Plain, group_product
from xla_backend.kernels.library.recipes import Recipe
from xla_backend.kernels.verifier import verify_kernel


def product(
    sizes: Sizes,
    recipe: Recipe,
    tiling: GroupTiling,
    layouts: tuple[bool, bool] = (True, False),
) -> Kernel:
    """A bare product. `layouts`: whether the sum is the last dimension of each operand."""
    b = LoopBuilder("product")
    e = ElementalEmitter(b, {})
    batch, m, n, k = sizes
    factors = []
    for i, (outer, last) in enumerate(zip((m, n), layouts)):
        type = recipe.of_side(i).factor
        source = b.buffer(f"p{i}", type, batch * outer * k, BufferRole.OPERAND, i)
        factors.append(Plain(source, outer * k, *((k, 1) if last else (1, outer))))
    out = b.buffer("out0", recipe.sums, batch * m * n, BufferRole.OUTPUT)

    def finish(at: Index, i: Index, j: Index, total: Value, guard: Value | bool | None) -> None:
        where = guard if isinstance(guard, Value) else None
        b.store(out, (at * m + i) * n + j, (total,), where)

    group_product(e, sizes, factors[0], factors[1], recipe, tiling, finish)
    verify_kernel(b.kernel)
    return b.kernel


def operands(
    sizes: Sizes, recipe: Recipe, layouts: tuple[bool, bool] = (True, False)
) -> tuple[list[np.ndarray], np.ndarray]:
    """Operands of such a kernel, and what their product is in f64; small numbers, exact in every
    type."""
    rng = np.random.default_rng(1)
    made = []
    for i, shape in enumerate(((sizes.batch, sizes.m, sizes.k), (sizes.batch, sizes.k, sizes.n))):
        type = recipe.of_side(i).factor
        low = 0 if type is P.U8 else -4
        made.append(rng.integers(low, 5, shape).astype(type.numpy_dtype))
    x, y = made
    lhs = x if layouts[0] else x.swapaxes(1, 2)
    rhs = y.swapaxes(1, 2) if layouts[1] else y
    return [lhs, rhs], x.astype(np.float64) @ y.astype(np.float64)
