"""Local forms of windows that move along cut dimensions: each device gets what is under the windows
of its results."""

from __future__ import annotations

from xla_backend.hlo.attributes import (
    ComparisonDirection,
    ConvolutionAttributes,
    WindowAttributes,
    WindowDimension,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.monoids import monoid
from xla_backend.spmd.halo import Along, masked, positions, without_padding
from xla_backend.spmd.on_parts import OnParts
from xla_backend.spmd.rearranged import bring_dilated
from xla_backend.spmd.specs import Axes
from xla_backend.spmd.window_factors import is_running, looks_at_itself, span


def convolution(x: OnParts) -> Instruction:
    a = x.node.attributes
    assert isinstance(a, ConvolutionAttributes)
    n, windows = a.dimension_numbers, list(a.window)
    for k in (0, 1):
        x.fill_padding(k)
    for number, w in enumerate(a.window):
        i, k, o = n.input_spatial[number], n.kernel_spatial[number], n.output_spatial[number]
        whole = x.node.shape.dimensions[o]
        if x.specs[1].dims[k]:
            axes, size = x.specs[1].dims[k], x.operands[1].shape.dimensions[k]
            w = WindowDimension(**{**vars(w), "size": size})
            step = size * w.window_dilation
            windows[number] = _windowed(x, 0, i, w, axes, step, whole, None)
        elif w.size > whole:
            x.set_cut(0, i, ())
        elif not looks_at_itself(w):
            axes = x.results[0].dims[o]
            size = x.size(o, axes)
            windows[number] = _windowed(x, 0, i, w, axes, size * w.stride, size, None)
    image, kernel = x.operands
    local = {
        "window": tuple(windows),
        "feature_group_count": image.shape.dimensions[n.input_feature]
        // kernel.shape.dimensions[n.kernel_input_feature],
        "batch_group_count": image.shape.dimensions[n.input_batch]
        // x.shape.dimensions[n.output_batch],
    }
    return x.written(ConvolutionAttributes(**{**vars(a), **local}))


def reduce_window(x: OnParts) -> Instruction:
    a = x.node.attributes
    assert isinstance(a, WindowAttributes)
    arrays, windows = len(x.operands) // 2, list(a.window)
    running = None
    for d, w in enumerate(a.window):
        axes = x.results[0].dims[d]
        if looks_at_itself(w):
            continue
        if is_running(w, x.node.operands[0].shape.dimensions[d]):
            if axes and running is None:
                running, windows[d] = d, _running_window(x, d, w)
            continue
        for k in range(arrays):
            size = x.size(d, axes)
            windows[d] = _windowed(x, k, d, w, axes, size * w.stride, size, x.operands[arrays + k])
    made = x.written(WindowAttributes(tuple(windows)))
    return made if running is None else _with_sums_before(x, made, running)


def _windowed(
    x: OnParts,
    k: int,
    dimension: int,
    w: WindowDimension,
    axes: Axes,
    step: int,
    count: int,
    value: Instruction | None,
) -> WindowDimension:
    """Bring what is under `count` windows, of which the first begins `step` further at each
    position along the axes; the windows on that."""
    if not axes:
        x.set_cut(k, dimension, ())
        return w
    begins, length = x.starts(axes, step, -w.padding_low), (count - 1) * w.stride + span(w)
    apart = w.base_dilation
    low = {-begin % apart for begin in begins}
    if apart == 1 or len(low) > 1 or length <= max(low):
        bring_dilated(x, k, dimension, axes, begins, length, apart, value)
        plain = {"padding_low": 0, "padding_high": 0, "base_dilation": 1}
        return WindowDimension(**{**vars(w), **plain})
    # Elements have the same places under the windows of all devices.
    (before,) = low
    elements = (length - before - 1) // apart + 1
    first = [(begin + before) // apart for begin in begins]
    x.bring(k, dimension, axes, first, elements)
    x.fill_outside(k, dimension, axes, first, value)
    behind = length - before - (elements - 1) * apart - 1
    return WindowDimension(**{**vars(w), "padding_low": before, "padding_high": behind})


# -- running sums ----------------------------------------------------------------------------------


def _running_window(x: OnParts, dimension: int, w: WindowDimension) -> WindowDimension:
    """The windows of a running sum of a part."""
    x.set_cut(0, dimension, x.results[0].dims[dimension])
    size = x.operands[0].shape.dimensions[dimension]
    whole = x.node.operands[0].shape.dimensions[dimension]
    along = Along(dimension, whole, x.specs[0].dims[dimension])
    x.operands[0] = without_padding(x.b, x.operands[0], along, x.operands[1])
    side = "padding_low" if w.padding_low else "padding_high"
    return WindowDimension(**{**vars(w), "size": size, side: size - 1})


def _with_sums_before(x: OnParts, made: Instruction, d: int) -> Instruction:
    """Running sums of a part, with the sums of the parts that come before."""
    b, axes = x.b, x.results[0].dims[d]
    a = x.node.attributes
    assert isinstance(a, WindowAttributes)
    combiner = monoid(x.node.called[0])
    assert combiner is not None
    forward = a.window[d].padding_low > 0
    dims, count = made.shape.dimensions, b.mesh.count(axes)
    last = dims[d] - 1 if forward else 0
    starts = [last if k == d else 0 for k in range(len(dims))]
    limits = [last + 1 if k == d else size for k, size in enumerate(dims)]
    sums = b.all_gather(b.slice(made, starts, limits), d, axes)
    # Backwards, those behind come before.
    order = ComparisonDirection.LT if forward else ComparisonDirection.GT
    numbers = positions(b, count, b.table((), (0,)))
    own = b.broadcast(b.position(axes, 1), (count,), ())
    sums = masked(b, sums, d, b.compare(numbers, own, order), x.operands[1])
    before = b.reduce(sums, x.operands[1], d, combiner)
    others = [k for k in range(len(dims)) if k != d]
    return b.binary(combiner, made, b.broadcast(before, dims, others))
