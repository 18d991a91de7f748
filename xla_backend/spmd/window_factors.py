"""Factors of products, convolutions and windows."""

from __future__ import annotations

from xla_backend.hlo.attributes import (
    ConvolutionAttributes,
    DotAttributes,
    WindowAttributes,
    WindowDimension,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.monoids import monoid
from xla_backend.hlo.opcode import Opcode
from xla_backend.spmd.combiners import is_identity
from xla_backend.spmd.factors import FactorMaker, Factors, no_factors


def dot(node: Instruction) -> Factors:
    a = node.attributes
    assert isinstance(a, DotAttributes)
    m = FactorMaker()
    lhs, rhs = (operand.shape for operand in node.operands[:2])
    of_lhs, of_rhs = no_factors(lhs), no_factors(rhs)
    reduced = []
    batch = []
    for i, j in zip(a.lhs_batch, a.rhs_batch):
        of_lhs[i] = of_rhs[j] = (m.new(lhs.dimensions[i]),)
        batch.append(of_lhs[i])
    for i, j in zip(a.lhs_contracting, a.rhs_contracting):
        factor = m.new(lhs.dimensions[i])
        of_lhs[i] = of_rhs[j] = (factor,)
        reduced.append(factor)
    free = []
    for shape, mapping, taken in (
        (lhs, of_lhs, {*a.lhs_batch, *a.lhs_contracting}),
        (rhs, of_rhs, {*a.rhs_batch, *a.rhs_contracting}),
    ):
        for d, size in enumerate(shape.dimensions):
            if d not in taken:
                mapping[d] = (m.new(size),)
                free.append(mapping[d])
    return m.made([of_lhs, of_rhs], [[*batch, *free]], reduced, Opcode.ADD)


def convolution(node: Instruction) -> Factors:
    """Batches, features, groups of them, and the dimensions along which windows move. Where a
    window is longer than the way that it moves, as in gradients of kernels, parts of the window
    are summed; else each device makes a part of the result from what is under its windows."""
    a = node.attributes
    assert isinstance(a, ConvolutionAttributes)
    n, m = a.dimension_numbers, FactorMaker()
    image, kernel = (operand.shape.dimensions for operand in node.operands)
    of_image, of_kernel = (no_factors(operand.shape) for operand in node.operands)
    of_result = no_factors(node.shape)
    groups = (m.new(a.feature_group_count),) if a.feature_group_count > 1 else ()
    batch_groups = (m.new(a.batch_group_count),) if a.batch_group_count > 1 else ()
    batch = m.new(image[n.input_batch] // a.batch_group_count)
    inputs = m.new(kernel[n.kernel_input_feature])
    outputs = m.new(
        kernel[n.kernel_output_feature] // (a.feature_group_count * a.batch_group_count)
    )
    of_image[n.input_batch] = (*batch_groups, batch)
    of_result[n.output_batch] = (batch,)
    of_image[n.input_feature] = (*groups, inputs)
    of_kernel[n.kernel_input_feature] = (inputs,)
    of_kernel[n.kernel_output_feature] = (*groups, *batch_groups, outputs)
    of_result[n.output_feature] = of_kernel[n.kernel_output_feature]
    reduced, moved = [inputs], []
    for window, i, k, o in zip(a.window, n.input_spatial, n.kernel_spatial, n.output_spatial):
        if window.reversal or not (image[i] and window.size and node.shape.dimensions[o]):
            continue
        if window.size > node.shape.dimensions[o]:
            factor = m.new(window.size)
            of_kernel[k] = (factor,)
            reduced.append(factor)
        else:
            factor = m.new(node.shape.dimensions[o])
            of_result[o] = (factor,)
        of_image[i] = (factor,)
        if not looks_at_itself(window) or window.size > node.shape.dimensions[o]:
            moved.append(factor)
    return m.made([of_image, of_kernel], [of_result], reduced, Opcode.ADD, moved)


def looks_at_itself(w: WindowDimension) -> bool:
    """Whether a window has one element, that which it is for."""
    return (w.size, w.stride, w.padding_low, w.padding_high, w.base_dilation) == (1, 1, 0, 0, 1)


def is_running(w: WindowDimension, size: int) -> bool:
    """Whether windows have all elements up to theirs, or from theirs on."""
    padding = (w.padding_low, w.padding_high)
    plain = (w.stride, w.base_dilation, w.window_dilation) == (1, 1, 1) and not w.reversal
    return plain and w.size == size > 1 and padding in ((size - 1, 0), (0, size - 1))


def span(w: WindowDimension) -> int:
    """From a window's first element to its last."""
    return (w.size - 1) * w.window_dilation + 1


def reduce_window(node: Instruction) -> Factors:
    """Dimensions of short windows, and one of running sums of which parts can be combined. What
    lies outside of the array is filled with the initial value: where there is such, that must be
    one that changes nothing."""
    a = node.attributes
    assert isinstance(a, WindowAttributes)
    arrays = len(node.operands) // 2
    source, result = node.operands[0].shape.dimensions, node.shape.flatten()[0].dimensions
    combiner = monoid(node.called[0]) if arrays == 1 else None
    sums = combiner is not None and is_identity(node.operands[1], combiner)
    m, is_first = FactorMaker(), True
    dims, moved = no_factors(node.operands[0].shape), []
    for d, w in enumerate(a.window):
        if looks_at_itself(w):
            dims[d] = (m.new(source[d]),)
        elif is_running(w, source[d]):
            if sums and is_first:
                dims[d] = (m.new(source[d]),)
                moved.append(dims[d][0])
                is_first = False
        elif (sums or _is_inside(w)) and _is_short(w, source[d], result[d]):
            dims[d] = (m.new(result[d]),)
            moved.append(dims[d][0])
    operands = [*[dims] * arrays, *[[]] * arrays]
    return m.made(operands, [dims] * arrays, moved=moved)


def _is_inside(w: WindowDimension) -> bool:
    """Whether windows have elements of the array only."""
    return w.padding_low <= 0 and w.padding_high <= 0 and w.base_dilation == 1


def _is_short(w: WindowDimension, size: int, windows: int) -> bool:
    return not w.reversal and size > 0 and windows > 0 and 2 * span(w) <= size


def select_and_scatter(node: Instruction) -> Factors:
    """Dimensions in which windows are single elements, or do not overlap and cover everything."""
    a = node.attributes
    assert isinstance(a, WindowAttributes)
    m = FactorMaker()
    shape, source = (operand.shape for operand in node.operands[:2])
    of_array, of_source = no_factors(shape), no_factors(source)
    for d, w in enumerate(a.window):
        size = source.dimensions[d]
        if looks_at_itself(w):
            of_array[d] = of_source[d] = (m.new(size),)
        elif _tiles(w, shape.dimensions[d], size):
            of_array[d] = of_source[d] = (m.new(size),)
    return m.made([of_array, of_source, []], [of_array])


def _tiles(w: WindowDimension, size: int, windows: int) -> bool:
    """Whether windows lie side by side and have every element once."""
    return (
        w.size == w.stride
        and windows * w.size == size
        and (w.padding_low, w.padding_high, w.window_dilation, w.base_dilation) == (0, 0, 1, 1)
    )
