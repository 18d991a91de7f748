"""The kernel of a sort of some operands along one axis."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.shape import Shape
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import Buffer, Kernel
from xla_backend.kernels.library.bitonic_sort import Sorted, longest, sort_stretches
from xla_backend.kernels.library.merge_sort import merge_sort
from xla_backend.kernels.library.orders import by_comparator, operands_and_outputs
from xla_backend.kernels.library.places import for_each, power_of_two
from xla_backend.kernels.library.rows import Rows


def sort_kernel(name: str, shapes: Sequence[Shape], axis: int, comparator: Computation) -> Kernel:
    """`out0`, `out1` ...: the operands `p0`, `p1` ... in the stable order of a comparator along an
    axis. They have elements.

    Raises:
      UnimplementedError: the comparator does more than elementwise operations on scalars.
    """
    b = LoopBuilder(name)
    operands, outputs = operands_and_outputs(b, shapes)
    e = ElementalEmitter(b, {})
    rows = Rows(shapes[0].dimensions, axis)
    order = by_comparator(e, comparator, shapes)
    size = power_of_two(rows.n)
    if size > longest(order):
        _in_order(e, shapes, operands, outputs, rows, merge_sort(e, order, operands, rows))
        return b.kernel

    def finish(element: Sorted) -> None:
        at = rows.place(element.row, element.place)
        source = rows.place(element.row, element.number)
        for i, (operand, output, shape) in enumerate(zip(operands, outputs, shapes)):
            if i in order.keys:
                value = element.keys[order.keys.index(i)]
            else:
                with e.guarded(element.guard):
                    value = e.load(operand, source, shape.element_type)
            e.store(output, at, value, element.guard)

    sort_stretches(e, order, operands, rows, size, finish)
    return b.kernel


def _in_order(
    e: ElementalEmitter,
    shapes: Sequence[Shape],
    operands: Sequence[Buffer],
    outputs: Sequence[Buffer],
    rows: Rows,
    order: Buffer,
) -> None:
    """A stage that puts the elements of rows in order."""
    b = e.builder
    with for_each(b, rows.elements) as at:
        outer = at // (rows.n * rows.inner)
        k, i = at // rows.inner % rows.n, at % rows.inner
        row = outer * rows.inner + i
        number = b.load(order, row * rows.n + k, mutable=True)
        number.bounds = (0, rows.n - 1)
        source = rows.place(row, Index.of(number))
        for operand, output, shape in zip(operands, outputs, shapes):
            e.store(output, at, e.load(operand, source, shape.element_type))
