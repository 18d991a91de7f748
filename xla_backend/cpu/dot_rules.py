"""dot as library GEMM calls: dimensions collapse to batch, M, N, K with one stride each, so
transposes are free.

An operand whose dimensions do not collapse is copied in the right order first. Types the library
lacks, and empty sums, run as plain loops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xla_backend.cpu.driver import Driver, aligned, runs
from xla_backend.cpu.kernels.library import kernel_library
from xla_backend.hlo.attributes import DimensionsAttributes, DotAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.loops.ir import BufferRole
from xla_backend.passes.output_fusion import dot_sizes

_CALL_CYCLES = 200.0
_MULTIPLIES_PER_CYCLE = 16.0


@dataclass(slots=True)
class Matrix:
    """An operand as batch x outer x inner (outer: M of lhs, N of rhs; inner: K), strides in
    elements."""

    address: str
    batch_stride: int
    outer_stride: int
    inner_stride: int


def row_major_strides(dimensions: Sequence[int]) -> list[int]:
    strides = [1] * len(dimensions)
    for i in range(len(dimensions) - 2, -1, -1):
        strides[i] = strides[i + 1] * dimensions[i + 1]
    return strides


def collapse(dimensions: Sequence[int], strides: Sequence[int], group: Sequence[int]) -> int | None:
    """The stride of a group of dimensions walked as one, in the given order; None if there is no
    single one."""
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


def gemm_name(lhs: Shape, rhs: Shape, result: Shape) -> str | None:
    """Suffix of the GEMM functions for these types, or None."""
    if lhs.element_type is not rhs.element_type:
        return None
    source, target = lhs.element_type.value, result.element_type.value
    name = source if source == target and source in ("f32", "f64") else f"{source}_{target}"
    return name if f"pyjax_gemm_{name}" in kernel_library() else None


def runs_as_product(dot: Instruction) -> bool:
    """Whether a dot is a GEMM call, rather than a plain loop."""
    sizes = dot_sizes(dot)
    if min(sizes) == 0:
        return False
    return gemm_name(dot.operands[0].shape, dot.operands[1].shape, dot.shape) is not None


@dataclass(slots=True)
class Finish:
    """What a GEMM hands its finished blocks to: the function, its data, cost per element."""

    function: str
    data: str
    weight: int


@runs(Opcode.DOT)
def _dot(driver: Driver, node: Instruction) -> None:
    if node.shape.num_elements == 0:
        return
    if runs_as_product(node):
        emit_product(driver, node, node.operands, driver.address(node))
    else:
        driver.run_kernel(node)


def emit_product(
    driver: Driver,
    dot: Instruction,
    operands: Sequence[Instruction],
    target: str,
    *,
    add: bool = False,
    finish: Finish | None = None,
) -> None:
    """Write (or add) a dot of instructions that lie in memory to `target`; "null": only the
    epilogue sees the result."""
    a = dot.attributes
    assert isinstance(a, DotAttributes)
    lhs, rhs = operands
    sizes = dot_sizes(dot)
    m, n = sizes.m, sizes.n
    lhs_free = _free(lhs.shape, a.lhs_batch, a.lhs_contracting)
    rhs_free = _free(rhs.shape, a.rhs_batch, a.rhs_contracting)
    lhs_contracting, rhs_contracting = _contraction_order(lhs.shape, a)
    weight = finish.weight if finish is not None else 0
    work = sizes.batch * m * n * (sizes.k + weight)
    driver.cycles += _CALL_CYCLES + work / _MULTIPLIES_PER_CYCLE
    left = _matrix(driver, lhs, a.lhs_batch, lhs_free, lhs_contracting, 0)
    used = aligned(lhs.shape.byte_size)
    right = _matrix(driver, rhs, a.rhs_batch, rhs_free, rhs_contracting, used)
    if n == 1:
        # A column is a row of the transposed product, and epilogues work along rows.
        m, n, left, right = n, m, right, left
    a_steps = [left.batch_stride, left.outer_stride, left.inner_stride]
    b_steps = [right.batch_stride, right.inner_stride, right.outer_stride]
    batched = sizes.batch > 1
    first = 0 if batched else 1  # one product has no batch strides
    arguments: list[str | int] = [sizes.batch] if batched else []
    arguments += [m, n, sizes.k, left.address, *a_steps[first:], right.address, *b_steps[first:]]
    arguments += [target, *[m * n, n][first:], int(add)]
    function = "pyjax_gemm_"
    if finish is not None:
        arguments += [finish.function, finish.data, 0, finish.weight]
        function += "fused_"
    name = gemm_name(lhs.shape, rhs.shape, dot.shape)
    driver.w.call(
        f"{function}{'batched_' if batched else ''}{name}",
        "void",
        [("i64", str(x)) if isinstance(x, int) else ("ptr", x) for x in arguments],
    )


def _free(shape: Shape, batch: Sequence[int], contracting: Sequence[int]) -> list[int]:
    return [d for d in range(shape.rank) if d not in batch and d not in contracting]


def _contraction_order(lhs: Shape, a: DotAttributes) -> tuple[list[int], list[int]]:
    """Contracted dimensions in the order lhs has them in memory: the order of a sum is free."""
    pairs = sorted(zip(a.lhs_contracting, a.rhs_contracting))
    return [p for p, _ in pairs], [q for _, q in pairs]


def _matrix(
    driver: Driver,
    operand: Instruction,
    batch: Sequence[int],
    outer: Sequence[int],
    inner: Sequence[int],
    scratch: int,
) -> Matrix:
    dims = operand.shape.dimensions
    strides = row_major_strides(dims)
    found = [collapse(dims, strides, group) for group in (batch, outer, inner)]
    if None not in found:
        return Matrix(driver.address(operand), *found)  # type: ignore[arg-type]
    order = [*batch, *outer, *inner]
    address = copy_in_order(driver, operand, order, scratch)
    inner_size = math.prod(dims[d] for d in inner)
    outer_size = math.prod(dims[d] for d in outer)
    return Matrix(address, inner_size * outer_size, inner_size, 1)


def copy_in_order(driver: Driver, operand: Instruction, order: Sequence[int], scratch: int) -> str:
    """A copy of an operand with its dimensions in another order, in scratch memory; returns its
    address."""
    shape = operand.shape.with_dimensions([operand.shape.dimensions[d] for d in order])
    transpose = Instruction(
        Opcode.TRANSPOSE, shape, [operand], DimensionsAttributes(tuple(order)), name="reorder"
    )
    compiled = driver.kernels.get(transpose)
    address = driver.scratch_at(scratch, shape.byte_size)
    pointers = {
        b: address if b.role is BufferRole.OUTPUT else driver.address(operand)
        for b in compiled.kernel.buffers
    }
    driver.call_kernel(compiled, pointers)
    return address
