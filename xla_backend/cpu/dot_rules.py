"""dot as library GEMM calls: dimensions collapse to batch, M, N, K with one stride each, so
transposes are free.

An operand whose dimensions do not collapse is copied in the right order first. Types the library
lacks, and empty sums, run as plain loops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xla_backend.cpu.driver import PAIR_RULES, Driver, aligned, runs
from xla_backend.cpu.kernels.library import kernel_library
from xla_backend.hlo.attributes import DimensionsAttributes, DotAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.loops.ir import BufferRole
from xla_backend.passes.buffer_assignment import BufferSlice

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


@runs(Opcode.DOT)
def _dot(driver: Driver, node: Instruction) -> None:
    _emit_dot(driver, node, node, 0)


def _accumulate(driver: Driver, dot: Instruction, following: Instruction) -> bool:
    """x + dot(a, b) in the memory of x: the product is added where x lies.

    Only right after the dot (its operands are still there), and only if x is neither operand.
    """
    if following.opcode is not Opcode.FUSION or list(dot.users) != [following] or dot.is_root:
        return False
    root = following.called[0].root
    assert root is not None
    parameters = following.called[0].parameters
    if root.opcode is not Opcode.ADD or root.operands not in (parameters, parameters[::-1]):
        return False
    if dot.shape.element_type not in (PrimitiveType.F32, PrimitiveType.F64):
        return False
    if len(following.operands) != 2 or not following.shape.compatible(dot.shape):
        return False
    other = following.operands[0] if following.operands[1] is dot else following.operands[1]
    target = driver.place(following)
    k = math.prod(dot.operands[0].shape.dimensions[d] for d in _attributes(dot).lhs_contracting)
    shapes = [o.shape for o in dot.operands]
    if driver.place(other) != target or other is dot or k == 0 or dot.shape.num_elements == 0:
        return False
    if gemm_name(shapes[0], shapes[1], dot.shape) is None:
        return False
    if any(_overlap(driver.place(o), target) for o in dot.operands):
        return False
    _emit_dot(driver, dot, following, 1)
    return True


PAIR_RULES[Opcode.DOT] = _accumulate


def _attributes(node: Instruction) -> DotAttributes:
    assert isinstance(node.attributes, DotAttributes)
    return node.attributes


def _overlap(a: BufferSlice, b: BufferSlice) -> bool:
    if a.kind is not b.kind or a.index != b.index:
        return False
    return a.offset < b.offset + b.size and b.offset < a.offset + a.size


def _emit_dot(driver: Driver, node: Instruction, result: Instruction, flags: int) -> None:
    """Write (flags 0) or add (flags 1) the product to the memory of `result`."""
    lhs, rhs = node.operands
    a = node.attributes
    assert isinstance(a, DotAttributes)
    if node.shape.num_elements == 0:
        return
    name = gemm_name(lhs.shape, rhs.shape, node.shape)
    k = math.prod(lhs.shape.dimensions[d] for d in a.lhs_contracting)
    if name is None or k == 0:
        driver.run_kernel(node)
        return
    lhs_free = _free(lhs.shape, a.lhs_batch, a.lhs_contracting)
    rhs_free = _free(rhs.shape, a.rhs_batch, a.rhs_contracting)
    lhs_contracting, rhs_contracting = _contraction_order(lhs.shape, a)
    m = math.prod(lhs.shape.dimensions[d] for d in lhs_free)
    n = math.prod(rhs.shape.dimensions[d] for d in rhs_free)
    batch = math.prod(lhs.shape.dimensions[d] for d in a.lhs_batch)
    driver.cycles += _CALL_CYCLES + batch * m * n * k / _MULTIPLIES_PER_CYCLE
    left = _matrix(driver, lhs, a.lhs_batch, lhs_free, lhs_contracting, 0)
    used = aligned(lhs.shape.byte_size)
    right = _matrix(driver, rhs, a.rhs_batch, rhs_free, rhs_contracting, used)
    target = driver.address(result)
    if batch == 1:
        arguments: list[str | int] = [
            m, n, k, left.address, left.outer_stride, left.inner_stride,
            right.address, right.inner_stride, right.outer_stride, target, n, flags,
        ]  # fmt: skip
        function = f"pyjax_gemm_{name}"
    else:
        arguments = [
            batch, m, n, k, left.address, left.batch_stride, left.outer_stride, left.inner_stride,
            right.address, right.batch_stride, right.inner_stride, right.outer_stride,
            target, m * n, n, flags,
        ]  # fmt: skip
        function = f"pyjax_gemm_batched_{name}"
    driver.w.call(
        function,
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
