"""Shape rules of values and of opcodes that move data without computing."""

from __future__ import annotations

from xla_backend.hlo.attributes import (
    ConstantAttributes,
    DimensionsAttributes,
    DynamicSliceAttributes,
    IotaAttributes,
    PadAttributes,
    ParameterAttributes,
    SliceAttributes,
)
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_checks import (
    S32,
    Rule,
    RuleContext,
    set_text,
)
from xla_backend.hlo.types import PrimitiveType

P = PrimitiveType


def _dimensions(c: RuleContext) -> tuple[int, ...]:
    a = c.attributes
    if not isinstance(a, DimensionsAttributes):
        c.fail("needs DimensionsAttributes (dimensions={...})")
    return a.dimensions


# -- values ----------------------------------------------------------------------------------------


def _parameter(c: RuleContext) -> Shape:
    a = c.attributes
    assert isinstance(a, ParameterAttributes)
    # parameter_c1
    c.require(a.number >= 0, f"parameter number must not be negative, is {a.number}")
    return c.require_given()


def _constant(c: RuleContext) -> Shape:
    a = c.attributes
    assert isinstance(a, ConstantAttributes)
    if c.given is not None and not c.given.compatible(a.literal.shape):
        # constant_c1
        c.fail(f"the literal has shape {a.literal.shape}, the instruction {c.given}")
    return a.literal.shape


def _iota(c: RuleContext) -> Shape:
    a, given = c.attributes, c.require_given()
    assert isinstance(a, IotaAttributes)
    # iota_c2
    c.require(
        given.is_array and given.rank > 0, f"the result must be an array of rank >= 1, is {given}"
    )
    # iota_c3
    c.require(given.element_type is not P.PRED, "element type must be a number, is pred")
    # iota_c1
    c.require_dimension(a.dimension, given.rank, "iota_dimension")
    return given


# -- shape changes ---------------------------------------------------------------------------------


def _reshape(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    operand, given = c.shapes[0], c.require_given()
    # reshape_c2
    c.require(
        given.num_elements == operand.num_elements,
        f"cannot reshape {operand.num_elements} elements to {given.num_elements} ({given})",
    )
    # reshape_c1
    c.require(
        given.element_type is operand.element_type, "reshape keeps the element type", "Use convert"
    )
    return given


def _bitcast(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    operand, given = c.shapes[0], c.require_given()
    # bitcast_c1
    c.require(
        given.byte_size == operand.byte_size,
        f"operand has {operand.byte_size} bytes, result {given} has {given.byte_size}",
    )
    return given


def _dynamic_reshape(c: RuleContext) -> Shape:
    c.require_array()
    given = c.require_given()
    # dynamic_reshape_c1
    c.require(len(c.shapes) == 1 + given.rank, "needs one size operand per result dimension")
    # dynamic_reshape_c2
    c.require(given.num_elements == c.shapes[0].num_elements, f"element count differs from {given}")
    return given


def _broadcast(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    operand, given, dims = c.shapes[0], c.require_given(), _dimensions(c)
    # broadcast_c2
    c.require(
        len(dims) == operand.rank,
        f"dimensions={set_text(dims)} must name one result dimension per operand dimension",
    )
    # broadcast_c1
    c.require(
        given.element_type is operand.element_type,
        "broadcast keeps the element type",
        "Use convert",
    )
    # broadcast_c3, broadcast_c4
    c.require_distinct(dims, given.rank, "dimensions")
    for i, d in enumerate(dims):
        # broadcast_c5
        c.require(
            given.dimensions[d] == operand.dimensions[i],
            f"operand dimension {i} has size {operand.dimensions[i]}, "
            f"result dimension {d} of {given} has {given.dimensions[d]}",
            "HLO broadcast does not stretch size 1: reshape the dimension away first",
        )
    return given


def _transpose(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    operand, permutation = c.shapes[0], _dimensions(c)
    # transpose_c2
    c.require(
        sorted(permutation) == list(range(operand.rank)),
        f"dimensions={set_text(permutation)} is not a permutation of the operand's dimensions",
    )
    return operand.with_dimensions([operand.dimensions[p] for p in permutation])


def _reverse(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    # reverse_c1, reverse_c2
    c.require_distinct(_dimensions(c), c.shapes[0].rank, "dimensions")
    return c.shapes[0].with_dimensions(c.shapes[0].dimensions)


def _concatenate(c: RuleContext) -> Shape:
    # concatenate_c3
    c.require(c.shapes, "needs at least one operand")
    c.require_array()
    dims = _dimensions(c)
    # concatenate_c7
    c.require(len(dims) == 1, f"needs exactly one dimension, got {set_text(dims)}")
    first, axis = c.shapes[0], dims[0]
    # concatenate_c4
    c.require_dimension(axis, first.rank, "dimension")
    total = 0
    for shape in c.shapes:
        # concatenate_c1
        c.require(
            shape.element_type is first.element_type, "element types differ", "Insert a convert"
        )
        # concatenate_c2
        c.require(
            shape.rank == first.rank
            and all(
                a == b
                for i, (a, b) in enumerate(zip(shape.dimensions, first.dimensions))
                if i != axis
            ),
            f"operands may differ in dimension {axis} only",
        )
        total += shape.dimensions[axis]
    return first.with_dimensions((*first.dimensions[:axis], total, *first.dimensions[axis + 1 :]))


def _slice(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    operand, a = c.shapes[0], c.attributes
    assert isinstance(a, SliceAttributes)
    # slice_c2
    c.require(
        len(a.starts) == len(a.limits) == len(a.strides) == operand.rank,
        "needs start, limit and stride for each dimension",
    )
    sizes = []
    for i, (start, limit, stride, size) in enumerate(
        zip(a.starts, a.limits, a.strides, operand.dimensions)
    ):
        # slice_c4
        c.require(
            stride >= 1, f"stride of dimension {i} must be positive, is {stride}", "Use reverse"
        )
        # slice_c3
        c.require(
            0 <= start <= limit <= size,
            f"[{start}:{limit}] of dimension {i} is not inside 0..{size}",
        )
        sizes.append((limit - start + stride - 1) // stride)
    return operand.with_dimensions(sizes)


def _require_starts(c: RuleContext, first: int, rank: int) -> None:
    """Start indices: one integer scalar per dimension."""
    starts = c.shapes[first:]
    # dynamic_slice_c2, dynamic_update_slice_c4
    c.require(len(starts) == rank, f"needs {rank} start index operand(s), got {len(starts)}")
    for s in starts:
        # dynamic_slice_c6, dynamic_update_slice_c7
        c.require(
            s.is_scalar and s.element_type.is_integral,
            f"a start index must be an integer scalar, is {s}",
        )
        # dynamic_slice_c3, dynamic_update_slice_c5
        c.require(
            s.element_type is starts[0].element_type,
            "start indices must have equal element types",
            "Insert a convert",
        )


def _dynamic_slice(c: RuleContext) -> Shape:
    # dynamic_slice_c7
    c.require(c.shapes, "needs an operand")
    c.require_array()
    operand, a = c.shapes[0], c.attributes
    assert isinstance(a, DynamicSliceAttributes)
    _require_starts(c, 1, operand.rank)
    # dynamic_slice_c8
    c.require(
        len(a.sizes) == operand.rank,
        f"dynamic_slice_sizes={set_text(a.sizes)} needs {operand.rank} sizes",
    )
    for i, (size, bound) in enumerate(zip(a.sizes, operand.dimensions)):
        # dynamic_slice_c4
        c.require(0 <= size <= bound, f"size {size} of dimension {i} exceeds the operand's {bound}")
    return operand.with_dimensions(a.sizes)


def _dynamic_update_slice(c: RuleContext) -> Shape:
    # dynamic_update_slice_c8
    c.require(len(c.shapes) >= 2, "needs an operand and an update")
    c.require_array()
    operand, update = c.shapes[:2]
    _require_starts(c, 2, operand.rank)
    # dynamic_update_slice_c2
    c.require(
        update.element_type is operand.element_type, "element types differ", "Insert a convert"
    )
    # dynamic_update_slice_c3
    c.require(
        update.rank == operand.rank,
        "operand and update must have the same rank",
        "Reshape the update",
    )
    for i, (size, bound) in enumerate(zip(update.dimensions, operand.dimensions)):
        # dynamic_update_slice_c6
        c.require(
            size <= bound, f"update size {size} of dimension {i} exceeds the operand's {bound}"
        )
    return operand.with_dimensions(operand.dimensions)


def _pad(c: RuleContext) -> Shape:
    c.require_arity(2)
    c.require_array()
    operand, value = c.shapes
    a = c.attributes
    assert isinstance(a, PadAttributes)
    # pad_c5
    c.require(value.is_scalar, f"the padding value must be a scalar, is {value}")
    # pad_c1
    c.require(
        value.element_type is operand.element_type, "element types differ", "Insert a convert"
    )
    # pad_c2
    c.require(
        len(a.low) == len(a.high) == len(a.interior) == operand.rank,
        "needs low, high and interior padding for each dimension",
    )
    sizes = []
    for i, (low, high, interior, size) in enumerate(
        zip(a.low, a.high, a.interior, operand.dimensions)
    ):
        # pad_c3
        c.require(
            interior >= 0, f"interior padding of dimension {i} must not be negative, is {interior}"
        )
        padded = low + high + size + (max(size - 1, 0) * interior if interior else 0)
        # pad_c4
        c.require(padded >= 0, f"padding of dimension {i} gives a negative size {padded}")
        sizes.append(padded)
    return operand.with_dimensions(sizes)


def _get_dimension_size(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    dims = _dimensions(c)
    # get_dimension_size_c2
    c.require(len(dims) == 1, "needs exactly one dimension")
    # get_dimension_size_c1
    c.require_dimension(dims[0], c.shapes[0].rank, "dimension")
    return S32


def _set_dimension_size(c: RuleContext) -> Shape:
    c.require_arity(2)
    c.require_array()
    dims = _dimensions(c)
    # set_dimension_size_c2
    c.require(len(dims) == 1, "needs exactly one dimension")
    # set_dimension_size_c1
    c.require_dimension(dims[0], c.shapes[0].rank, "dimension")
    # set_dimension_size_c3
    c.require(c.shapes[1].compatible(S32), f"the size must be s32[], is {c.shapes[1]}")
    flags = list(c.shapes[0].dynamic_dimensions)
    # A size that is a constant, the full one, leaves the dimension static: only the text can tell.
    given = c.given if c.given is not None and c.given.rank == len(flags) else None
    flags[dims[0]] = given is None or given.dynamic_dimensions[dims[0]]
    return c.shapes[0].with_dynamic(flags)


STRUCTURAL_RULES: dict[Opcode, Rule] = {
    Opcode.PARAMETER: _parameter,
    Opcode.CONSTANT: _constant,
    Opcode.IOTA: _iota,
    Opcode.RESHAPE: _reshape,
    Opcode.BITCAST: _bitcast,
    Opcode.DYNAMIC_RESHAPE: _dynamic_reshape,
    Opcode.BROADCAST: _broadcast,
    Opcode.TRANSPOSE: _transpose,
    Opcode.REVERSE: _reverse,
    Opcode.CONCATENATE: _concatenate,
    Opcode.SLICE: _slice,
    Opcode.DYNAMIC_SLICE: _dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: _dynamic_update_slice,
    Opcode.PAD: _pad,
    Opcode.GET_DIMENSION_SIZE: _get_dimension_size,
    Opcode.SET_DIMENSION_SIZE: _set_dimension_size,
}
