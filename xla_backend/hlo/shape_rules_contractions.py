"""Shape rules of dot, ragged-dot, scaled-dot and convolution, and the arithmetic of windows."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import (
    ConvolutionAttributes,
    DotAttributes,
    RaggedDotAttributes,
    WindowDimension,
)
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_checks import Rule, RuleContext, set_text
from xla_backend.hlo.types import PrimitiveType

P = PrimitiveType


def _product_type(c: RuleContext) -> PrimitiveType:
    """Element type of a product: the operands' common type, the wider of two of one class, or what
    the instruction says (s8 x s8 -> s32, bf16 x bf16 -> f32)."""
    a, b = c.shapes[0].element_type, c.shapes[1].element_type
    if c.given is not None:
        # dot_c13, convolution_c28
        c.require(c.given.is_array, f"the result must be an array, is {c.given}")
        return c.given.element_type
    if a is b:
        return a
    same_class = (a.is_floating and b.is_floating) or (a.is_integral and b.is_integral)
    if same_class and a.bits != b.bits:
        return a if a.bits > b.bits else b
    # dot_c14, convolution_c27
    c.fail("operands must have equal element types", "Insert a convert, or give the result shape")


# -- dot and its relatives -------------------------------------------------------------------------


def _check_dot_dimensions(
    c: RuleContext, a: DotAttributes | RaggedDotAttributes, rhs_other: Sequence[int] = ()
) -> None:
    """What dot, scaled-dot and ragged-dot share; `rhs_other` are further dimensions of rhs that
    may not be batch or contracting dimensions."""
    lhs, rhs = c.shapes[:2]
    # dot_c2
    c.require(
        len(a.lhs_contracting) == len(a.rhs_contracting),
        f"as many lhs as rhs contracting dimensions, got {set_text(a.lhs_contracting)} "
        f"and {set_text(a.rhs_contracting)}",
    )
    # dot_c1
    c.require(len(a.lhs_batch) == len(a.rhs_batch), "as many lhs as rhs batch dimensions")
    # dot_c3, dot_c5, dot_c6
    c.require_distinct((*a.lhs_batch, *a.lhs_contracting), lhs.rank, "lhs dimensions")
    # dot_c4, dot_c7, dot_c8
    c.require_distinct((*a.rhs_batch, *a.rhs_contracting, *rhs_other), rhs.rank, "rhs dimensions")
    for what, left, right in (
        ("contracting", a.lhs_contracting, a.rhs_contracting),
        ("batch", a.lhs_batch, a.rhs_batch),
    ):
        for i, j in zip(left, right):
            # dot_c9, dot_c10
            c.require(
                lhs.dimensions[i] == rhs.dimensions[j],
                f"{what} dimensions {i} and {j} have sizes {lhs.dimensions[i]} and "
                f"{rhs.dimensions[j]}",
            )


def _check_precision(c: RuleContext, count: int) -> None:
    precision = c.attributes.precision  # type: ignore[attr-defined]
    # dot_c11, convolution_c24
    c.require(
        len(precision) in (0, count),
        f"operand_precision names {len(precision)} operands, there are {count}",
    )


def _free(rank: int, *used: Sequence[int]) -> list[int]:
    taken = {d for dims in used for d in dims}
    return [d for d in range(rank) if d not in taken]


def _dot_dimensions(c: RuleContext, a: DotAttributes) -> list[int]:
    lhs, rhs = c.shapes[:2]
    dims = [lhs.dimensions[i] for i in a.lhs_batch]
    dims += [lhs.dimensions[i] for i in _free(lhs.rank, a.lhs_batch, a.lhs_contracting)]
    dims += [rhs.dimensions[i] for i in _free(rhs.rank, a.rhs_batch, a.rhs_contracting)]
    return dims


def _dot(c: RuleContext) -> Shape:
    c.require_arity(2)
    c.require_array()
    a = c.attributes
    assert isinstance(a, DotAttributes)
    _check_dot_dimensions(c, a)
    _check_precision(c, 2)
    # dot_c12
    return Shape.array(_product_type(c), _dot_dimensions(c, a))


def _scaled_dot(c: RuleContext) -> Shape:
    """dot(lhs * scale of its block, rhs * scale of its block); a scalar scale is one block."""
    c.require_arity(4)
    c.require_array()
    a = c.attributes
    assert isinstance(a, DotAttributes)
    _check_dot_dimensions(c, a)
    for name, operand, scale in (
        ("lhs", c.shapes[0], c.shapes[2]),
        ("rhs", c.shapes[1], c.shapes[3]),
    ):
        # scaled_dot_c1
        c.require(
            operand.element_type.is_floating and scale.element_type.is_floating,
            f"{name} and its scale must be floating-point, are {operand} and {scale}",
        )
        if scale.rank == 0:
            continue
        # scaled_dot_c2
        c.require(
            scale.rank == operand.rank, f"the scale of {name} must be a scalar or have its rank"
        )
        for i, (size, blocks) in enumerate(zip(operand.dimensions, scale.dimensions)):
            # scaled_dot_c3
            c.require(
                (blocks > 0 and size % blocks == 0) or size == blocks,
                f"dimension {i} of {name} has {size} elements, not a multiple of its {blocks} "
                f"scale blocks",
            )
    given = c.require_given()
    # scaled_dot_c4
    c.require(
        given.is_array and given.element_type.is_floating,
        f"the result must be floating-point, is {given}",
    )
    return Shape.array(given.element_type, _dot_dimensions(c, a))


class RaggedMode:
    """Where the ragged dimension of lhs lies: "rows" (neither batch nor contracting), "contracting"
    or "batch"."""

    ROWS = "rows"
    CONTRACTING = "contracting"
    BATCH = "batch"


def ragged_mode(a: RaggedDotAttributes) -> str:
    """The mode of a ragged-dot, from the place of its ragged dimension."""
    (ragged,) = a.lhs_ragged
    if ragged in a.lhs_batch:
        return RaggedMode.BATCH
    return RaggedMode.CONTRACTING if ragged in a.lhs_contracting else RaggedMode.ROWS


def ragged_prefix(a: RaggedDotAttributes, rank: int) -> list[int]:
    """Dimensions of lhs that may each have their own group sizes: batch dimensions, and those of
    the ragged dimension's own kind before it."""
    (ragged,) = a.lhs_ragged
    mode = ragged_mode(a)
    if mode is RaggedMode.BATCH:
        return list(a.lhs_batch[: a.lhs_batch.index(ragged)])
    kind = (
        list(a.lhs_contracting)
        if mode is RaggedMode.CONTRACTING
        else _free(rank, a.lhs_batch, a.lhs_contracting)
    )
    return [*a.lhs_batch, *kind[: kind.index(ragged)]]


def _ragged_dot(c: RuleContext) -> Shape:
    c.require_arity(3)
    c.require_array()
    lhs, rhs, sizes = c.shapes
    a = c.attributes
    assert isinstance(a, RaggedDotAttributes)
    _check_dot_dimensions(c, a, a.rhs_group)
    # ragged_dot_c1
    c.require(
        len(a.lhs_ragged) == 1, f"needs exactly one lhs_ragged_dims, got {set_text(a.lhs_ragged)}"
    )
    # ragged_dot_c2
    c.require_dimension(a.lhs_ragged[0], lhs.rank, "lhs_ragged_dims")
    mode = ragged_mode(a)
    # ragged_dot_c3
    wanted = 1 if mode is RaggedMode.ROWS else 0
    c.require(
        len(a.rhs_group) == wanted,
        f"rhs_group_dims={set_text(a.rhs_group)} must name {wanted} dimension(s) when the ragged "
        f"dimension is {mode}",
    )
    # ragged_dot_c4
    c.require(sizes.element_type.is_integral, f"group sizes must be integers, are {sizes}")
    # ragged_dot_c5
    prefix = [lhs.dimensions[d] for d in ragged_prefix(a, lhs.rank)]
    c.require(
        sizes.rank == 1 or list(sizes.dimensions[:-1]) == prefix,
        f"group sizes must be a vector or have dimensions {set_text(prefix)} before the groups",
    )
    if mode is RaggedMode.ROWS:
        # ragged_dot_c6
        c.require(
            rhs.dimensions[a.rhs_group[0]] == sizes.dimensions[-1],
            f"rhs has {rhs.dimensions[a.rhs_group[0]]} groups, {sizes} sizes are given",
        )
    _check_precision(c, 2)
    dims = [sizes.dimensions[-1]] if mode is RaggedMode.CONTRACTING else []
    dims += [lhs.dimensions[i] for i in a.lhs_batch]
    dims += [lhs.dimensions[i] for i in _free(lhs.rank, a.lhs_batch, a.lhs_contracting)]
    dims += [
        rhs.dimensions[i] for i in _free(rhs.rank, a.rhs_batch, a.rhs_contracting, a.rhs_group)
    ]
    return Shape.array(_product_type(c), dims)


# -- windows and convolution -----------------------------------------------------------------------


def window_output_size(size: int, w: WindowDimension) -> int:
    """How many positions a window has along a dimension of `size` elements."""
    base = (size - 1) * w.base_dilation + 1 if size else 0
    padded = base + w.padding_low + w.padding_high
    reach = (w.size - 1) * w.window_dilation + 1 if w.size else 0
    if padded < reach or w.size == 0:
        return 0
    return (padded - reach) // w.stride + 1


def check_window(c: RuleContext, window: Sequence[WindowDimension], count: int) -> None:
    # convolution_c2, reduce_window_c4
    c.require(len(window) == count, f"window has {len(window)} dimensions, needs {count}")
    for i, w in enumerate(window):
        # convolution_c3, reduce_window_c7
        c.require(w.stride >= 1, f"stride of window dimension {i} must be positive, is {w.stride}")
        # convolution_c6, reduce_window_c9
        c.require(
            w.base_dilation >= 1,
            f"lhs_dilate of window dimension {i} must be positive, is {w.base_dilation}",
        )
        # convolution_c8, reduce_window_c11
        c.require(
            w.window_dilation >= 1,
            f"rhs_dilate of window dimension {i} must be positive, is {w.window_dilation}",
        )
        # reduce_window_c5
        c.require(w.size >= 1 or c.opcode is Opcode.CONVOLUTION, f"window dimension {i} is empty")


def _check_groups(c: RuleContext, a: ConvolutionAttributes) -> None:
    lhs, rhs, n = c.shapes[0], c.shapes[1], a.dimension_numbers
    fg, bg = a.feature_group_count, a.batch_group_count
    # convolution_c21, convolution_c22
    c.require(
        fg >= 1 and bg >= 1, f"feature and batch group count must be positive, are {fg}, {bg}"
    )
    # convolution_c23
    c.require(fg == 1 or bg == 1, "one of feature and batch group count must be 1")
    batch, in_feature = lhs.dimensions[n.input_batch], lhs.dimensions[n.input_feature]
    k_in, k_out = rhs.dimensions[n.kernel_input_feature], rhs.dimensions[n.kernel_output_feature]
    # convolution_c11, convolution_c14
    c.require(
        in_feature == k_in * fg,
        f"input features {in_feature} must be kernel input features {k_in} x "
        f"feature_group_count {fg}",
    )
    # convolution_c16
    c.require(
        k_out % fg == 0, f"kernel output features {k_out} must divide by feature_group_count {fg}"
    )
    # convolution_c15
    c.require(
        k_out % bg == 0, f"kernel output features {k_out} must divide by batch_group_count {bg}"
    )
    # convolution_c10
    c.require(batch % bg == 0, f"batch {batch} must divide by batch_group_count {bg}")


def _convolution(c: RuleContext) -> Shape:
    c.require_arity(2)
    c.require_array()
    lhs, rhs = c.shapes
    a = c.attributes
    assert isinstance(a, ConvolutionAttributes)
    n = a.dimension_numbers
    # convolution_c1
    c.require(lhs.rank == rhs.rank >= 2, "input and kernel must have the same rank >= 2")
    positions = (
        (n.input_batch, n.input_feature, *n.input_spatial),
        (n.kernel_input_feature, n.kernel_output_feature, *n.kernel_spatial),
        (n.output_batch, n.output_feature, *n.output_spatial),
    )
    for which in positions:
        # convolution_c13, convolution_c18, convolution_c20
        c.require(
            sorted(which) == list(range(lhs.rank)),
            f"dim_labels must name each of the {lhs.rank} dimensions once",
        )
    check_window(c, a.window, lhs.rank - 2)
    _check_groups(c, a)
    _check_precision(c, 2)
    dims = [0] * lhs.rank
    dims[n.output_batch] = lhs.dimensions[n.input_batch] // a.batch_group_count
    dims[n.output_feature] = rhs.dimensions[n.kernel_output_feature]
    for i, w in enumerate(a.window):
        k = rhs.dimensions[n.kernel_spatial[i]]
        # convolution_c17
        c.require(
            w.size == k,
            f"window size {w.size} of spatial dimension {i} differs from the kernel's {k}",
        )
        dims[n.output_spatial[i]] = window_output_size(lhs.dimensions[n.input_spatial[i]], w)
    # convolution_c25
    return Shape.array(_product_type(c), dims)


CONTRACTION_RULES: dict[Opcode, Rule] = {
    Opcode.DOT: _dot,
    Opcode.RAGGED_DOT: _ragged_dot,
    Opcode.SCALED_DOT: _scaled_dot,
    Opcode.CONVOLUTION: _convolution,
}
