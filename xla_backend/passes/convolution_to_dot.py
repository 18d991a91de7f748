"""Convolutions that are matrix products: 1x1 windows, windows as large as the image, no image."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import ConvolutionAttributes, DotAttributes, WindowDimension
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.emit import Emit


def _as_dot(node: Instruction) -> Instruction | None:
    a = node.attributes
    assert isinstance(a, ConvolutionAttributes)
    if a.feature_group_count != 1 or a.batch_group_count != 1 or node.shape.num_elements == 0:
        return None
    x, kernel = node.operands
    numbers = a.dimension_numbers
    sizes = [x.shape.dimensions[d] for d in numbers.input_spatial]
    kept = [i for i, (w, n) in enumerate(zip(a.window, sizes)) if _is_pointwise(w, n)]
    summed = [i for i, (w, n) in enumerate(zip(a.window, sizes)) if _covers(w, n)]
    # A dimension of size 1 is both; it is kept.
    summed = [i for i in summed if i not in kept]
    if len(kept) + len(summed) != len(a.window):
        return None
    free = [numbers.input_batch, *(numbers.input_spatial[i] for i in kept)]
    places = [numbers.output_batch, *(numbers.output_spatial[i] for i in kept)]
    swapped = _operand_order(node, free, places, numbers.output_feature)
    if swapped is None:
        return None
    b = Emit(node)
    contracting = [numbers.input_feature, *(numbers.input_spatial[i] for i in summed)]
    weights = [numbers.kernel_input_feature, *(numbers.kernel_spatial[i] for i in summed)]
    # Kernel dimensions of size 1 go, so that the output features are all that is free.
    ones = [numbers.kernel_spatial[i] for i in kept]
    kernel_dims = [n for d, n in enumerate(kernel.shape.dimensions) if d not in ones]
    kernel = b.reshape(kernel, kernel_dims)
    weights = [d - sum(one < d for one in ones) for d in weights]
    sides = [(x, tuple(contracting)), (kernel, tuple(weights))]
    (lhs, lhs_dims), (rhs, rhs_dims) = sides[::-1] if swapped else sides
    precision = a.precision[::-1] if swapped else a.precision
    attributes = DotAttributes(lhs_dims, rhs_dims, precision=precision)
    rows = [x.shape.dimensions[d] for d in sorted(free)]
    features = node.shape.dimensions[numbers.output_feature]
    shape = node.shape.with_dimensions([features, *rows] if swapped else [*rows, features])
    return b.reshape(b.add(Opcode.DOT, (lhs, rhs), attributes, shape=shape), node.shape.dimensions)


def _is_pointwise(w: WindowDimension, size: int) -> bool:
    """The output has the dimension of the input."""
    plain = w.size == 1 and w.stride == 1 and w.padding_low == 0 and w.padding_high == 0
    return plain and (w.base_dilation == 1 or size == 1)


def _covers(w: WindowDimension, size: int) -> bool:
    """The window is the whole image, and the output one element."""
    plain = w.size == size and w.padding_low == 0 and w.padding_high == 0
    return plain and w.base_dilation == 1 and w.window_dilation == 1 and not w.reversal


def _operand_order(
    node: Instruction, free: Sequence[int], places: Sequence[int], feature: int
) -> bool | None:
    """Which product has the output's order: image times kernel (False), kernel times image (True)
    or neither."""
    dims = node.shape.dimensions
    # Walking the input's free dimensions in memory order must walk the output's in order too.
    walk = [place for _, place in sorted(zip(free, places)) if dims[place] != 1]
    if walk != sorted(walk):
        return None
    if dims[feature] == 1 or all(place < feature for place in walk):
        return False
    return True if all(place > feature for place in walk) else None


class ConvolutionToDot(RuleTablePass):
    """Convolutions with trivial windows -> dot, where the output's order allows it.

    Why: dots take part in everything that is known about products: transposes and bias and
    activation fold into them, and chains of reshapes around them merge.
    Needs: nothing.
    Leaves: no ungrouped convolution without spatial dimensions, with 1x1 windows or with windows
    as large as the image, unless its result would have to be transposed.
    """

    name = "convolution-to-dot"
    opcodes = frozenset({Opcode.CONVOLUTION})
    rules = {Opcode.CONVOLUTION: (_as_dot,)}
