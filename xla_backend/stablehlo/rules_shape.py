"""Operations that move data to HLO: constants, reshapes, slices, pads; those whose sizes are
operands need operands that follow from constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xla_backend.hlo.attributes import (
    ConstantAttributes,
    DimensionsAttributes,
    DynamicSliceAttributes,
    GatherAttributes,
    IotaAttributes,
    PadAttributes,
    SliceAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.stablehlo.attributes import DenseAttribute
from xla_backend.stablehlo.ir import Operation, Value
from xla_backend.stablehlo.lowering import (
    Dims,
    Rule,
    Scope,
    dimension_of,
    element_type,
    integer,
    ints,
    invalid,
    static_shape,
    unsupported,
)
from xla_backend.stablehlo.types import TensorType


def constant(scope: Scope, value: DenseAttribute) -> Instruction:
    """A constant instruction; a large one of equal elements is broadcast from a scalar."""
    shape = static_shape(value.type)
    assert shape is not None
    array = value.array
    if array.size > 1 and (array.reshape(-1)[:1].tobytes() * array.size == array.tobytes()):
        scalar = scope.builder.constant(array.reshape(-1)[0])
        return scope.builder.broadcast(scalar, shape.dimensions, ())
    return scope.builder.add(
        Opcode.CONSTANT, (), ConstantAttributes(Literal(array, shape)), shape=shape
    )


def _constant(scope: Scope, op: Operation) -> Instruction:
    value = op.attributes.get("value")
    if not isinstance(value, DenseAttribute) or value.text:
        raise unsupported(op, "only dense<...> constants have a value here")
    return constant(scope, value)


def broadcast_in_dim(
    scope: Scope, op: Operation, operand: Instruction, sizes: Dims, dims: Dims
) -> Instruction:
    """Operand dimension i becomes dims[i]; size 1 is stretched, which HLO's broadcast does not."""
    shape = operand.shape
    if len(dims) != shape.rank or any(not 0 <= d < len(sizes) for d in dims):
        raise invalid(op, f"dims = {list(dims)} do not fit {shape} and the result {list(sizes)}")
    kept = [i for i, d in enumerate(dims) if shape.dimensions[i] == sizes[d]]
    for i in range(shape.rank):
        if i not in kept and shape.dimensions[i] != 1:
            raise invalid(
                op,
                f"dimension {i} of {shape} has size {shape.dimensions[i]}, which becomes neither "
                f"1 nor {sizes[dims[i]]}",
            )
    operand = scope.builder.reshape(operand, [shape.dimensions[i] for i in kept])
    if operand.shape.dimensions == tuple(sizes) and [dims[i] for i in kept] == [*range(len(sizes))]:
        return operand
    return scope.builder.broadcast(operand, sizes, [dims[i] for i in kept])


def declared_sizes(op: Operation) -> Dims:
    """Sizes of the result type.

    Raises:
      UnimplementedError: one is unknown.
    """
    shape = static_shape(op.result.type)
    if shape is None:
        raise unsupported(op, f"the result type {op.result.type} must be static here")
    return shape.dimensions


def _broadcast_in_dim(scope: Scope, op: Operation) -> Instruction:
    (operand,) = scope.operands(op)
    return broadcast_in_dim(
        scope, op, operand, declared_sizes(op), ints(op, "broadcast_dimensions")
    )


def _broadcast(scope: Scope, op: Operation) -> Instruction:
    (operand,) = scope.operands(op)
    sizes = ints(op, "broadcast_sizes")
    dims = tuple(range(len(sizes), len(sizes) + operand.shape.rank))
    return scope.builder.broadcast(operand, (*sizes, *operand.shape.dimensions), dims)


def _reshape(scope: Scope, op: Operation) -> Instruction:
    (operand,) = scope.operands(op)
    return _checked_reshape(scope, op, operand, declared_sizes(op))


def _checked_reshape(
    scope: Scope, op: Operation, operand: Instruction, sizes: Sequence[int]
) -> Instruction:
    if any(size < 0 for size in sizes):
        raise invalid(op, f"the sizes {list(sizes)} must not be negative")
    shape = operand.shape.with_dimensions(sizes)
    if shape.num_elements != operand.shape.num_elements:
        raise invalid(op, f"{operand.shape} and {shape} have different numbers of elements")
    return scope.builder.add(Opcode.RESHAPE, [operand], shape=shape)


def _dimensions(opcode: Opcode, name: str) -> Rule:
    def rule(scope: Scope, op: Operation) -> Instruction:
        attributes = DimensionsAttributes(ints(op, name))
        return scope.add(op, opcode, scope.operands(op), attributes)

    return rule


def _concatenate(scope: Scope, op: Operation) -> Instruction:
    attributes = DimensionsAttributes((integer(op, "dimension"),))
    return scope.add(op, Opcode.CONCATENATE, scope.operands(op), attributes)


def _slice(scope: Scope, op: Operation) -> Instruction:
    attributes = SliceAttributes(
        ints(op, "start_indices"), ints(op, "limit_indices"), ints(op, "strides")
    )
    return scope.add(op, Opcode.SLICE, scope.operands(op), attributes)


def _pad(scope: Scope, op: Operation) -> Instruction:
    attributes = PadAttributes(
        ints(op, "edge_padding_low"), ints(op, "edge_padding_high"), ints(op, "interior_padding")
    )
    return scope.add(op, Opcode.PAD, scope.operands(op), attributes)


def _iota(scope: Scope, op: Operation) -> Instruction:
    return scope.add(op, Opcode.IOTA, (), IotaAttributes(integer(op, "iota_dimension")))


def _dynamic_slice(scope: Scope, op: Operation) -> Instruction:
    attributes = DynamicSliceAttributes(ints(op, "slice_sizes"))
    return scope.add(op, Opcode.DYNAMIC_SLICE, scope.operands(op), attributes)


def _dynamic_update_slice(scope: Scope, op: Operation) -> Instruction:
    return scope.add(op, Opcode.DYNAMIC_UPDATE_SLICE, scope.operands(op))


def _get_dimension_size(scope: Scope, op: Operation) -> Instruction:
    (operand,) = scope.operands(op)
    dimension = dimension_of(op, operand, "dimension")
    return scope.builder.constant(np.int32(operand.shape.dimensions[dimension]))


def _set_dimension_size(scope: Scope, op: Operation) -> Instruction:
    """A size known now is a slice."""
    operand = scope.value(op.operands[0])
    sizes = constant_dims(scope, op, op.operands[1], "the size")
    if len(sizes) != 1:
        raise invalid(op, f"the size is {list(sizes)}, expected one number")
    (count,) = sizes
    dimension = dimension_of(op, operand, "dimension")
    dims = operand.shape.dimensions
    if not 0 <= count <= dims[dimension]:
        raise invalid(op, f"size {count} is not between 0 and {dims[dimension]}")
    limits = (*dims[:dimension], count, *dims[dimension + 1 :])
    attributes = SliceAttributes((0,) * len(dims), limits, (1,) * len(dims))
    return scope.builder.add(Opcode.SLICE, [operand], attributes)


def _torch_index_select(scope: Scope, op: Operation) -> Instruction:
    """result[batch, before, index, after] = operand[batch, before, index[batch, ...], after]."""
    operand, index = scope.operands(op)
    dim, batch = dimension_of(op, operand, "dim"), integer(op, "batch_dims")
    if not 0 <= batch <= min(dim, index.shape.rank):
        raise invalid(op, f"batch_dims = {batch} does not fit dim = {dim} and {index.shape}")
    dims, extra = operand.shape.dimensions, index.shape.rank - batch
    rank = len(dims) - 1 + extra
    sizes = tuple(1 if i < batch or i == dim else d for i, d in enumerate(dims))
    attributes = GatherAttributes(
        offset_dims=(*range(batch, dim), *range(dim + extra, rank)),
        collapsed_slice_dims=(dim,),
        start_index_map=(dim,),
        index_vector_dim=index.shape.rank,
        slice_sizes=sizes,
        operand_batching_dims=tuple(range(batch)),
        start_indices_batching_dims=tuple(range(batch)),
    )
    return scope.add(op, Opcode.GATHER, [operand, index], attributes)


# -- sizes that are operands -----------------------------------------------------------------------


def constant_dims(scope: Scope, op: Operation, value: Value, what: str) -> Dims:
    values = scope.constant_of(op, value, what)
    if values.dtype.kind not in "iub":
        raise invalid(op, f"{what} must be integers, not {values.dtype}")
    return tuple(int(v) for v in values.reshape(-1))


def _dynamic_broadcast_in_dim(scope: Scope, op: Operation) -> Instruction:
    return broadcast_in_dim(
        scope,
        op,
        scope.value(op.operands[0]),
        constant_dims(scope, op, op.operands[1], "the output sizes"),
        ints(op, "broadcast_dimensions"),
    )


def _dynamic_iota(scope: Scope, op: Operation) -> Instruction:
    type_ = op.result.type
    kind = element_type(type_.element) if isinstance(type_, TensorType) else None
    if kind is None:
        raise unsupported(op, f"the type {type_} has no HLO equivalent")
    shape = Shape(kind, constant_dims(scope, op, op.operands[0], "the output sizes"))
    return scope.add(
        op, Opcode.IOTA, (), IotaAttributes(integer(op, "iota_dimension")), shape=shape
    )


def _dynamic_reshape(scope: Scope, op: Operation) -> Instruction:
    operand = scope.value(op.operands[0])
    shape = static_shape(op.result.type)
    if shape is not None:
        return _checked_reshape(scope, op, operand, shape.dimensions)
    target = constant_dims(scope, op, op.operands[1], "the output sizes")
    return _checked_reshape(scope, op, operand, target)


def _dynamic_pad(scope: Scope, op: Operation) -> Instruction:
    operand, value = (scope.value(v) for v in op.operands[:2])
    names = ("the low padding", "the high padding", "the interior padding")
    low, high, interior = (constant_dims(scope, op, a, n) for a, n in zip(op.operands[2:], names))
    return scope.add(op, Opcode.PAD, [operand, value], PadAttributes(low, high, interior))


def _real_dynamic_slice(scope: Scope, op: Operation) -> Instruction:
    operand = scope.value(op.operands[0])
    names = ("the start indices", "the limit indices", "the strides")
    starts, limits, strides = (
        constant_dims(scope, op, a, n) for a, n in zip(op.operands[1:], names)
    )
    return scope.add(op, Opcode.SLICE, [operand], SliceAttributes(starts, limits, strides))


RULES: dict[str, Rule] = {
    "stablehlo.constant": _constant,
    "chlo.constant": _constant,
    "stablehlo.broadcast": _broadcast,
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.dynamic_broadcast_in_dim": _dynamic_broadcast_in_dim,
    "stablehlo.dynamic_iota": _dynamic_iota,
    "stablehlo.dynamic_pad": _dynamic_pad,
    "stablehlo.dynamic_reshape": _dynamic_reshape,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.get_dimension_size": _get_dimension_size,
    "stablehlo.iota": _iota,
    "stablehlo.pad": _pad,
    "stablehlo.real_dynamic_slice": _real_dynamic_slice,
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": _dimensions(Opcode.REVERSE, "dimensions"),
    "stablehlo.set_dimension_size": _set_dimension_size,
    "stablehlo.slice": _slice,
    "stablehlo.torch_index_select": _torch_index_select,
    "stablehlo.transpose": _dimensions(Opcode.TRANSPOSE, "permutation"),
}
