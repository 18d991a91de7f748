"""Shape rules of opcodes that move data, call computations, build tuples or order side effects."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.attributes import (
    ConditionalAttributes,
    ConstantAttributes,
    DimensionsAttributes,
    DynamicSliceAttributes,
    GetTupleElementAttributes,
    IotaAttributes,
    PadAttributes,
    ParameterAttributes,
    SliceAttributes,
)
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_checks import (
    PRED,
    S32,
    TOKEN,
    U32,
    Rule,
    RuleContext,
    one_or_tuple,
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
    c.require(a.number >= 0, f"parameter number must not be negative, is {a.number}")
    return c.require_given()


def _constant(c: RuleContext) -> Shape:
    a = c.attributes
    assert isinstance(a, ConstantAttributes)
    if c.given is not None and not c.given.compatible(a.literal.shape):
        c.fail(f"the literal has shape {a.literal.shape}, the instruction {c.given}")
    return a.literal.shape


def _iota(c: RuleContext) -> Shape:
    a, given = c.attributes, c.require_given()
    assert isinstance(a, IotaAttributes)
    c.require(
        given.is_array and given.rank > 0, f"the result must be an array of rank >= 1, is {given}"
    )
    c.require(given.element_type is not P.PRED, "element type must be a number, is pred")
    c.require_dimension(a.dimension, given.rank, "iota_dimension")
    return given


# -- shape changes ---------------------------------------------------------------------------------


def _reshape(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    operand, given = c.shapes[0], c.require_given()
    c.require(
        given.num_elements == operand.num_elements,
        f"cannot reshape {operand.num_elements} elements to {given.num_elements} ({given})",
    )
    c.require(
        given.element_type is operand.element_type, "reshape keeps the element type", "Use convert"
    )
    return given


def _bitcast(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    operand, given = c.shapes[0], c.require_given()
    c.require(
        given.byte_size == operand.byte_size,
        f"operand has {operand.byte_size} bytes, result {given} has {given.byte_size}",
    )
    return given


def _dynamic_reshape(c: RuleContext) -> Shape:
    c.require_array()
    given = c.require_given()
    c.require(len(c.shapes) == 1 + given.rank, "needs one size operand per result dimension")
    c.require(given.num_elements == c.shapes[0].num_elements, f"element count differs from {given}")
    return given


def _broadcast(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    operand, given, dims = c.shapes[0], c.require_given(), _dimensions(c)
    c.require(
        len(dims) == operand.rank,
        f"dimensions={set_text(dims)} must name one result dimension per operand dimension",
    )
    c.require(
        given.element_type is operand.element_type,
        "broadcast keeps the element type",
        "Use convert",
    )
    c.require_distinct(dims, given.rank, "dimensions")
    for i, d in enumerate(dims):
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
    c.require(
        sorted(permutation) == list(range(operand.rank)),
        f"dimensions={set_text(permutation)} is not a permutation of the operand's dimensions",
    )
    return operand.with_dimensions([operand.dimensions[p] for p in permutation])


def _reverse(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    c.require_distinct(_dimensions(c), c.shapes[0].rank, "dimensions")
    return c.shapes[0].with_dimensions(c.shapes[0].dimensions)


def _concatenate(c: RuleContext) -> Shape:
    c.require(c.shapes, "needs at least one operand")
    c.require_array()
    dims = _dimensions(c)
    c.require(len(dims) == 1, f"needs exactly one dimension, got {set_text(dims)}")
    first, axis = c.shapes[0], dims[0]
    c.require_dimension(axis, first.rank, "dimension")
    total = 0
    for shape in c.shapes:
        c.require(
            shape.element_type is first.element_type, "element types differ", "Insert a convert"
        )
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
    c.require(
        len(a.starts) == len(a.limits) == len(a.strides) == operand.rank,
        "needs start, limit and stride for each dimension",
    )
    sizes = []
    for i, (start, limit, stride, size) in enumerate(
        zip(a.starts, a.limits, a.strides, operand.dimensions)
    ):
        c.require(
            stride >= 1, f"stride of dimension {i} must be positive, is {stride}", "Use reverse"
        )
        c.require(
            0 <= start <= limit <= size,
            f"[{start}:{limit}] of dimension {i} is not inside 0..{size}",
        )
        sizes.append((limit - start + stride - 1) // stride)
    return operand.with_dimensions(sizes)


def _require_starts(c: RuleContext, first: int, rank: int) -> None:
    """Start indices: one integer scalar per dimension."""
    starts = c.shapes[first:]
    c.require(len(starts) == rank, f"needs {rank} start index operand(s), got {len(starts)}")
    for s in starts:
        c.require(
            s.is_scalar and s.element_type.is_integral,
            f"a start index must be an integer scalar, is {s}",
        )


def _dynamic_slice(c: RuleContext) -> Shape:
    c.require(c.shapes, "needs an operand")
    c.require_array()
    operand, a = c.shapes[0], c.attributes
    assert isinstance(a, DynamicSliceAttributes)
    _require_starts(c, 1, operand.rank)
    c.require(
        len(a.sizes) == operand.rank,
        f"dynamic_slice_sizes={set_text(a.sizes)} needs {operand.rank} sizes",
    )
    for i, (size, bound) in enumerate(zip(a.sizes, operand.dimensions)):
        c.require(0 <= size <= bound, f"size {size} of dimension {i} exceeds the operand's {bound}")
    return operand.with_dimensions(a.sizes)


def _dynamic_update_slice(c: RuleContext) -> Shape:
    c.require(len(c.shapes) >= 2, "needs an operand and an update")
    c.require_array()
    operand, update = c.shapes[:2]
    _require_starts(c, 2, operand.rank)
    c.require(
        update.element_type is operand.element_type, "element types differ", "Insert a convert"
    )
    c.require(
        update.rank == operand.rank,
        "operand and update must have the same rank",
        "Reshape the update",
    )
    for i, (size, bound) in enumerate(zip(update.dimensions, operand.dimensions)):
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
    c.require(value.is_scalar, f"the padding value must be a scalar, is {value}")
    c.require(
        value.element_type is operand.element_type, "element types differ", "Insert a convert"
    )
    c.require(
        len(a.low) == len(a.high) == len(a.interior) == operand.rank,
        "needs low, high and interior padding for each dimension",
    )
    sizes = []
    for i, (low, high, interior, size) in enumerate(
        zip(a.low, a.high, a.interior, operand.dimensions)
    ):
        c.require(
            interior >= 0, f"interior padding of dimension {i} must not be negative, is {interior}"
        )
        padded = low + high + size + max(size - 1, 0) * interior
        c.require(padded >= 0, f"padding of dimension {i} gives a negative size {padded}")
        sizes.append(padded)
    return operand.with_dimensions(sizes)


def _get_dimension_size(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    dims = _dimensions(c)
    c.require(len(dims) == 1, "needs exactly one dimension")
    c.require_dimension(dims[0], c.shapes[0].rank, "dimension")
    return S32


def _set_dimension_size(c: RuleContext) -> Shape:
    c.require_arity(2)
    c.require_array()
    dims = _dimensions(c)
    c.require(len(dims) == 1, "needs exactly one dimension")
    c.require_dimension(dims[0], c.shapes[0].rank, "dimension")
    c.require(c.shapes[1].compatible(S32), f"the size must be s32[], is {c.shapes[1]}")
    return c.shapes[0]


# -- tuples and control ----------------------------------------------------------------------------


def _get_tuple_element(c: RuleContext) -> Shape:
    c.require_arity(1)
    operand, a = c.shapes[0], c.attributes
    assert isinstance(a, GetTupleElementAttributes)
    c.require(operand.is_tuple, "the operand must be a tuple")
    c.require(
        0 <= a.index < len(operand.tuple_shapes),
        f"index {a.index} is out of range for {len(operand.tuple_shapes)} members",
    )
    return operand.tuple_shapes[a.index]


def _tuple(c: RuleContext) -> Shape:
    return Shape.tuple(c.shapes)


def _while(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_called(2)
    init = c.shapes[0]
    c.require_signature(c.called[0], [init], PRED, "condition")
    c.require_signature(c.called[1], [init], init, "body")
    return init


def _conditional(c: RuleContext) -> Shape:
    a = c.attributes
    assert isinstance(a, ConditionalAttributes)
    c.require(len(c.called) >= 1, "needs at least one branch")
    c.require_called(len(c.called))
    c.require(
        len(c.shapes) == len(c.called) + 1,
        f"{len(c.called)} branches need {len(c.called)} operands after the selector",
    )
    if a.is_indexed:
        c.require(c.shapes[0].compatible(S32), f"the branch index must be s32[], is {c.shapes[0]}")
    else:
        c.require(c.shapes[0].compatible(PRED), f"the predicate must be pred[], is {c.shapes[0]}")
        c.require(len(c.called) == 2, "a predicate chooses between exactly 2 branches")
    result = c.called[0].program_shape[1]
    for i, (branch, operand) in enumerate(zip(c.called, c.shapes[1:])):
        c.require_signature(branch, [operand], result, f"branch {i}")
    return result


def _call(c: RuleContext) -> Shape:
    c.require_called(1)
    return c.require_signature(c.called[0], c.shapes, None, "callee")


def _explicit(c: RuleContext) -> Shape:
    return c.require_given()


def _first(c: RuleContext) -> Shape:
    c.require(c.shapes, "needs an operand")
    return c.shapes[0]


def _all_operands(c: RuleContext) -> Shape:
    c.require(c.shapes, "needs at least one operand")
    return one_or_tuple(c.shapes)


def _fixed(shape: Shape) -> Callable[[RuleContext], Shape]:
    return lambda c: shape


def _after_all(c: RuleContext) -> Shape:
    c.require(all(s.is_token for s in c.shapes), "operands must be tokens")
    return TOKEN


def _outfeed(c: RuleContext) -> Shape:
    c.require_arity(2)
    c.require(c.shapes[1].is_token, f"operand 1 must be a token, is {c.shapes[1]}")
    return TOKEN


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
    Opcode.PARTITION_ID: _fixed(U32),
    Opcode.REPLICA_ID: _fixed(U32),
    Opcode.GET_TUPLE_ELEMENT: _get_tuple_element,
    Opcode.TUPLE: _tuple,
    Opcode.OPT_BARRIER: _first,
    Opcode.WHILE: _while,
    Opcode.CONDITIONAL: _conditional,
    Opcode.CALL: _call,
    Opcode.FUSION: _call,
    Opcode.CUSTOM_CALL: _explicit,
    Opcode.AFTER_ALL: _after_all,
    Opcode.ADD_DEPENDENCY: _first,
    Opcode.DOMAIN: _first,
    Opcode.OUTFEED: _outfeed,
    Opcode.ALL_REDUCE: _all_operands,
    Opcode.COLLECTIVE_PERMUTE: _all_operands,
    Opcode.COLLECTIVE_BROADCAST: _all_operands,
    Opcode.ALL_TO_ALL: _explicit,
    Opcode.ALL_GATHER: _explicit,
    Opcode.REDUCE_SCATTER: _explicit,
    Opcode.RAGGED_ALL_TO_ALL: _explicit,
}
for _name in (
    "infeed all-gather-start collective-permute-start all-reduce-start all-gather-done "
    "all-reduce-done "
    "collective-permute-done copy-start copy-done send recv send-done recv-done async-start "
    "async-update "
    "async-done"
).split():
    STRUCTURAL_RULES[Opcode(_name)] = _explicit
