"""The kernel of a sort of some operands along one axis."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.shape import Shape
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import Buffer, Kernel, Value
from xla_backend.kernels.library.bitonic_sort import Sorted, first_of_rows, longest
from xla_backend.kernels.library.merge_sort import merge_sort
from xla_backend.kernels.library.orders import by_comparator, operands_and_outputs
from xla_backend.kernels.library.places import for_each
from xla_backend.kernels.library.radix_sort import (
    RADIX_TYPES,
    Column,
    ordered_bits,
    radix_sort,
    width_of,
)
from xla_backend.kernels.library.rows import Rows
from xla_backend.passes.sort_keys import sort_keys


def sort_kernel(
    name: str,
    shapes: Sequence[Shape],
    axis: int,
    comparator: Computation,
    first: int | None = None,
) -> Kernel:
    """`out0`, `out1` ...: the operands `p0`, `p1` ... in the stable order of a comparator along an
    axis. They have elements. Where nobody looks at more than the `first` of a row, the others may
    be anything.

    Raises:
      UnimplementedError: the comparator does more than elementwise operations on scalars.
    """
    b = LoopBuilder(name)
    operands, outputs = operands_and_outputs(b, shapes)
    e = ElementalEmitter(b, {})
    rows = Rows(shapes[0].dimensions, axis)
    order = by_comparator(e, comparator, shapes)
    most = longest(order)
    first = rows.n if first is None else first
    if rows.n > most and 2 * first > most:
        columns = _columns(b, comparator, operands, shapes)
        if columns is None:
            numbers = merge_sort(e, order, operands, rows)
        else:
            numbers = radix_sort(b, rows, columns)
        _in_order(e, shapes, operands, outputs, rows, numbers)
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

    first_of_rows(e, order, operands, rows, most, first, finish)
    return b.kernel


def _columns(
    b: LoopBuilder, comparator: Computation, operands: Sequence[Buffer], shapes: Sequence[Shape]
) -> list[Column] | None:
    """What a comparator orders by, as columns; None if it is no order of plain values."""
    keys = sort_keys(comparator)
    if keys is None or any(shapes[k.operand].element_type not in RADIX_TYPES for k in keys):
        return None
    return [_column(b, operands[key.operand], key.descending) for key in keys]


def _column(b: LoopBuilder, operand: Buffer, descending: bool) -> Column:
    def bits(at: Index, guard: Value | None) -> Value:
        return ordered_bits(b, b.load(operand, at, guard), descending=descending)

    return Column(bits, width_of(operand.element_type))


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
