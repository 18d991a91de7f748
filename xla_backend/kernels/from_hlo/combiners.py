"""Kernels that combine two arrays element by element by a computation of scalars: what a reduction
over participants runs on each pair of their arrays."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.shape import Shape
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.ir import BufferRole, Kernel


def combiner(computation: Computation, shape: Shape, name: str) -> Kernel:
    """`out0` = computation(`p0`, `p1`), for arrays of one shape.

    Raises:
      UnimplementedError: the computation does more than elementwise operations on scalars.
    """
    builder = LoopBuilder(name)
    e = ElementalEmitter(builder, {})
    type, size = shape.element_type, shape.num_elements
    operands = [builder.buffer(f"p{k}", type, size, BufferRole.OPERAND, k) for k in range(2)]
    output = builder.buffer("out0", type, size, BufferRole.OUTPUT, 0)
    if size == 0:
        return builder.kernel
    at, _ = builder.open_loop(size, independent=True, may_vectorize=True)
    e.store(output, at, e.apply(computation, [e.load(operand, at, type) for operand in operands]))
    builder.close_loop()
    return builder.kernel
