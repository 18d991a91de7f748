"""Elementwise and data-moving opcodes from HLO."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xla_backend.hlo.attributes import (
    CompareAttributes,
    ConstantAttributes,
    DimensionsAttributes,
    DynamicSliceAttributes,
    IotaAttributes,
    PadAttributes,
    ReducePrecisionAttributes,
    SliceAttributes,
)
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.stablehlo.attributes import Attribute, DenseAttribute, IntegerAttribute
from xla_backend.stablehlo.format_values import I32
from xla_backend.stablehlo.from_hlo_context import (
    Rule,
    Scope,
    Values,
    enum,
    int_array,
    int_attribute,
    leaf_types,
    tensor_type,
)
from xla_backend.stablehlo.ir import Value
from xla_backend.stablehlo.rules_elementwise import ELEMENTWISE_OPCODES
from xla_backend.stablehlo.types import TensorType

_CHLO = {
    Opcode.ACOS: "acos",
    Opcode.ACOSH: "acosh",
    Opcode.ASIN: "asin",
    Opcode.ASINH: "asinh",
    Opcode.ATANH: "atanh",
    Opcode.COSH: "cosh",
    Opcode.ERF: "erf",
    Opcode.MULHI: "mulhi",
    Opcode.SINH: "sinh",
}


def plain(name: str) -> Rule:
    """An operation with the same operands and no attributes."""

    def rule(scope: Scope, node: Instruction) -> Values:
        return scope.emit(name, scope.operands(node), leaf_types(node.shape))

    return rule


def same(scope: Scope, node: Instruction) -> Values:
    """Opcodes that only say where or when: the operand itself."""
    return scope.leaves(node.operands[0])


def _constant(scope: Scope, node: Instruction) -> Values:
    assert isinstance(node.attributes, ConstantAttributes)
    results: Values = []
    for leaf in node.attributes.literal.leaves():
        type_ = tensor_type(leaf.shape)
        assert isinstance(type_, TensorType)
        value = DenseAttribute(leaf.array, type_)
        results += scope.emit("stablehlo.constant", (), [type_], {"value": value})
    return results


def _compare(scope: Scope, node: Instruction) -> Values:
    a = node.attributes
    assert isinstance(a, CompareAttributes)
    kind = node.operands[0].shape.element_type
    if a.total_order:
        compare_type = "TOTALORDER"
    elif kind.is_signed_integral:
        compare_type = "SIGNED"
    elif kind.is_unsigned_integral or kind is PrimitiveType.PRED:
        compare_type = "UNSIGNED"
    else:
        compare_type = "FLOAT"
    attributes: dict[str, Attribute] = {
        "comparison_direction": enum("comparison_direction", a.direction.value),
        "compare_type": enum("comparison_type", compare_type),
    }
    return scope.emit("stablehlo.compare", scope.operands(node), leaf_types(node.shape), attributes)


def _reduce_precision(scope: Scope, node: Instruction) -> Values:
    a = node.attributes
    assert isinstance(a, ReducePrecisionAttributes)
    attributes: dict[str, Attribute] = {
        "exponent_bits": IntegerAttribute(a.exponent_bits, I32),
        "mantissa_bits": IntegerAttribute(a.mantissa_bits, I32),
    }
    return scope.emit(
        "stablehlo.reduce_precision", scope.operands(node), leaf_types(node.shape), attributes
    )


def _dimensions(name: str, attribute: str) -> Rule:
    def rule(scope: Scope, node: Instruction) -> Values:
        a = node.attributes
        assert isinstance(a, DimensionsAttributes)
        return scope.emit(
            name,
            scope.operands(node),
            leaf_types(node.shape),
            {attribute: int_array(a.dimensions)},
        )

    return rule


def _one_dimension(name: str, attribute: str) -> Rule:
    def rule(scope: Scope, node: Instruction) -> Values:
        a = node.attributes
        assert isinstance(a, DimensionsAttributes)
        return scope.emit(
            name,
            scope.operands(node),
            leaf_types(node.shape),
            {attribute: int_attribute(a.dimensions[0])},
        )

    return rule


def _iota(scope: Scope, node: Instruction) -> Values:
    assert isinstance(node.attributes, IotaAttributes)
    attributes: dict[str, Attribute] = {"iota_dimension": int_attribute(node.attributes.dimension)}
    return scope.emit("stablehlo.iota", (), leaf_types(node.shape), attributes)


def _slice(scope: Scope, node: Instruction) -> Values:
    a = node.attributes
    assert isinstance(a, SliceAttributes)
    attributes: dict[str, Attribute] = {
        "start_indices": int_array(a.starts),
        "limit_indices": int_array(a.limits),
        "strides": int_array(a.strides),
    }
    return scope.emit("stablehlo.slice", scope.operands(node), leaf_types(node.shape), attributes)


def _pad(scope: Scope, node: Instruction) -> Values:
    a = node.attributes
    assert isinstance(a, PadAttributes)
    attributes: dict[str, Attribute] = {
        "edge_padding_low": int_array(a.low),
        "edge_padding_high": int_array(a.high),
        "interior_padding": int_array(a.interior),
    }
    return scope.emit("stablehlo.pad", scope.operands(node), leaf_types(node.shape), attributes)


def _dynamic_slice(scope: Scope, node: Instruction) -> Values:
    assert isinstance(node.attributes, DynamicSliceAttributes)
    attributes: dict[str, Attribute] = {"slice_sizes": int_array(node.attributes.sizes)}
    return scope.emit(
        "stablehlo.dynamic_slice", scope.operands(node), leaf_types(node.shape), attributes
    )


def _dynamic_reshape(scope: Scope, node: Instruction) -> Values:
    operand = scope.leaves(node.operands[0])
    return scope.emit("stablehlo.reshape", operand, leaf_types(node.shape))


def _transposed(scope: Scope, value: Value, permutation: Sequence[int]) -> Value:
    type_ = value.type
    assert isinstance(type_, TensorType) and type_.dimensions is not None
    if list(permutation) == list(range(len(permutation))):
        return value
    sizes = tuple(type_.dimensions[p] for p in permutation)
    (result,) = scope.emit(
        "stablehlo.transpose",
        [value],
        [TensorType(sizes, type_.element)],
        {"permutation": int_array(permutation)},
    )
    return result


def _bitcast(scope: Scope, node: Instruction) -> Values:
    """The same memory with other dimensions: elements in their order in memory, reshaped, and
    brought back from the order that the result's layout means."""
    source, target = node.operands[0].shape, node.shape
    if source.element_type.bits != target.element_type.bits:
        raise UnimplementedError(
            f"bitcast between types of different width has no StableHLO equivalent: {node}"
        )
    value = _transposed(scope, scope.value(node.operands[0]), source.minor_to_major[::-1])
    order = target.minor_to_major[::-1]  # dimensions from the slowest to the fastest
    physical = target.with_dimensions([target.dimensions[d] for d in order])
    same_type = physical.with_type(source.element_type)
    (value,) = scope.emit("stablehlo.reshape", [value], leaf_types(same_type))
    if source.element_type is not target.element_type:
        (value,) = scope.emit("stablehlo.bitcast_convert", [value], leaf_types(physical))
    return [_transposed(scope, value, [order.index(d) for d in range(target.rank)])]


def shape_constant(scope: Scope, sizes: tuple[int, ...]) -> Values:
    """Sizes as a constant vector of i64."""
    type_ = TensorType((len(sizes),), _I64)
    value = DenseAttribute(np.array(sizes, np.int64), type_)
    return scope.emit("stablehlo.constant", (), [type_], {"value": value})


_I64 = int_array(()).element

RULES: dict[Opcode, Rule] = {
    **{opcode: plain(f"stablehlo.{name}") for name, opcode in ELEMENTWISE_OPCODES.items()},
    **{opcode: plain(f"chlo.{name}") for opcode, name in _CHLO.items()},
    Opcode.ADD_DEPENDENCY: same,
    Opcode.BITCAST: _bitcast,
    Opcode.BITCAST_CONVERT: plain("stablehlo.bitcast_convert"),
    Opcode.BROADCAST: _dimensions("stablehlo.broadcast_in_dim", "broadcast_dimensions"),
    Opcode.CLAMP: plain("stablehlo.clamp"),
    Opcode.COMPARE: _compare,
    Opcode.CONCATENATE: _one_dimension("stablehlo.concatenate", "dimension"),
    Opcode.CONSTANT: _constant,
    Opcode.CONVERT: plain("stablehlo.convert"),
    Opcode.COPY: same,
    Opcode.DOMAIN: same,
    Opcode.DYNAMIC_RESHAPE: _dynamic_reshape,
    Opcode.DYNAMIC_SLICE: _dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: plain("stablehlo.dynamic_update_slice"),
    Opcode.GET_DIMENSION_SIZE: _one_dimension("stablehlo.get_dimension_size", "dimension"),
    Opcode.IOTA: _iota,
    Opcode.PAD: _pad,
    Opcode.REDUCE_PRECISION: _reduce_precision,
    Opcode.RESHAPE: plain("stablehlo.reshape"),
    Opcode.REVERSE: _dimensions("stablehlo.reverse", "dimensions"),
    Opcode.SELECT: plain("stablehlo.select"),
    Opcode.SET_DIMENSION_SIZE: _one_dimension("stablehlo.set_dimension_size", "dimension"),
    Opcode.SLICE: _slice,
    Opcode.TRANSPOSE: _dimensions("stablehlo.transpose", "permutation"),
}
