"""Contractions, windows, gathers, sorts, decompositions and random numbers from HLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import (
    BatchNormAttributes,
    CholeskyAttributes,
    ConvolutionAttributes,
    ConvolutionDimensionNumbers,
    DimensionsAttributes,
    DotAttributes,
    FftAttributes,
    GatherAttributes,
    Precision,
    RaggedDotAttributes,
    RngAttributes,
    RngBitGeneratorAttributes,
    ScatterAttributes,
    SortAttributes,
    TopKAttributes,
    TriangularSolveAttributes,
    WindowAttributes,
    WindowDimension,
)
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.stablehlo.attributes import (
    ArrayAttribute,
    Attribute,
    DialectAttribute,
    EnumAttribute,
    FloatAttribute,
)
from xla_backend.stablehlo.from_hlo_context import (
    Rule,
    Scope,
    Values,
    dense,
    enum,
    int_array,
    int_attribute,
    leaf_types,
)
from xla_backend.stablehlo.from_hlo_elementwise import shape_constant
from xla_backend.stablehlo.struct_attributes import (
    ConvolutionLabels,
    convolution_labels_text,
    make_struct,
)
from xla_backend.stablehlo.types import ScalarType

Attributes = dict[str, Attribute]

# -- contractions ----------------------------------------------------------------------------------


def _precisions(values: Sequence[Precision], dialect: str = "stablehlo") -> tuple[Attribute, ...]:
    values = values or (Precision.DEFAULT, Precision.DEFAULT)
    return tuple(EnumAttribute(dialect, "precision", p.name) for p in values)


def _algorithm(name: str) -> DialectAttribute:
    """`dot_bf16_bf16_f32_x3` as `#stablehlo.dot_algorithm<...>`."""
    _, lhs, rhs, accumulation, *times = name.split("_")
    count = int(times[0].removeprefix("x")) if times else 1
    fields = {
        "lhs_precision_type": lhs,
        "rhs_precision_type": rhs,
        "accumulation_type": accumulation,
        "lhs_component_count": 1,
        "rhs_component_count": 1,
        "num_primitive_operations": count,
        "allow_imprecise_accumulation": False,
    }
    return make_struct("stablehlo.dot_algorithm", fields)


def _dot(scope: Scope, node: Instruction) -> Values:
    a = node.attributes
    assert isinstance(a, DotAttributes)
    numbers = {
        "lhs_batching_dimensions": a.lhs_batch,
        "rhs_batching_dimensions": a.rhs_batch,
        "lhs_contracting_dimensions": a.lhs_contracting,
        "rhs_contracting_dimensions": a.rhs_contracting,
    }
    attributes: Attributes = {
        "dot_dimension_numbers": make_struct("stablehlo.dot", numbers),
        "precision_config": _precisions(a.precision),
    }
    if a.algorithm and a.algorithm.startswith("dot_"):
        attributes["algorithm"] = _algorithm(a.algorithm)
    return scope.emit(
        "stablehlo.dot_general", scope.operands(node), leaf_types(node.shape), attributes
    )


def _ragged_dot(scope: Scope, node: Instruction) -> Values:
    a = node.attributes
    assert isinstance(a, RaggedDotAttributes)
    numbers = {
        "lhs_batching_dimensions": a.lhs_batch,
        "rhs_batching_dimensions": a.rhs_batch,
        "lhs_contracting_dimensions": a.lhs_contracting,
        "rhs_contracting_dimensions": a.rhs_contracting,
        "lhs_ragged_dimensions": a.lhs_ragged,
        "rhs_group_dimensions": a.rhs_group,
    }
    attributes: Attributes = {
        "ragged_dot_dimension_numbers": make_struct("chlo.ragged_dot", numbers),
        "precision_config": _precisions(a.precision, "chlo"),
    }
    return scope.emit("chlo.ragged_dot", scope.operands(node), leaf_types(node.shape), attributes)


def _labels(
    rank: int, first: int, second: int, spatial: Sequence[int], letters: str
) -> tuple[str, ...]:
    labels = [""] * rank
    labels[first], labels[second] = letters[0], letters[1]
    for i, position in enumerate(spatial):
        labels[position] = str(i)
    return tuple(labels)


def _convolution_labels(n: ConvolutionDimensionNumbers) -> ConvolutionLabels:
    rank = 2 + len(n.input_spatial)
    return (
        _labels(rank, n.input_batch, n.input_feature, n.input_spatial, "bf"),
        _labels(rank, n.kernel_input_feature, n.kernel_output_feature, n.kernel_spatial, "io"),
        _labels(rank, n.output_batch, n.output_feature, n.output_spatial, "bf"),
    )


def _padding(window: Sequence[WindowDimension]) -> Attribute:
    pairs = [(w.padding_low, w.padding_high) for w in window]
    known = all(isinstance(n, (int, np.integer)) for pair in pairs for n in pair)
    array = np.array(pairs, np.int64 if known else object)
    return dense(array.reshape(len(window), 2), "i64")


def _convolution(scope: Scope, node: Instruction) -> Values:
    a = node.attributes
    assert isinstance(a, ConvolutionAttributes)
    labels = convolution_labels_text(_convolution_labels(a.dimension_numbers))
    attributes: Attributes = {
        "dimension_numbers": DialectAttribute("stablehlo.conv", labels),
        "window_strides": int_array([w.stride for w in a.window]),
        "padding": _padding(a.window),
        "lhs_dilation": int_array([w.base_dilation for w in a.window]),
        "rhs_dilation": int_array([w.window_dilation for w in a.window]),
        "window_reversal": ArrayAttribute(ScalarType("i1"), tuple(w.reversal for w in a.window)),
        "batch_group_count": int_attribute(a.batch_group_count),
        "feature_group_count": int_attribute(a.feature_group_count),
        "precision_config": _precisions(a.precision),
    }
    return scope.emit(
        "stablehlo.convolution", scope.operands(node), leaf_types(node.shape), attributes
    )


# -- reductions and windows ------------------------------------------------------------------------


def _with_regions(scope: Scope, node: Instruction, name: str, attributes: Attributes) -> Values:
    regions = [scope.region(c) for c in node.called]
    return scope.emit(name, scope.operands(node), leaf_types(node.shape), attributes, regions)


def _reduce(scope: Scope, node: Instruction) -> Values:
    assert isinstance(node.attributes, DimensionsAttributes)
    dims = int_array(node.attributes.dimensions)
    return _with_regions(scope, node, "stablehlo.reduce", {"dimensions": dims})


def _map(scope: Scope, node: Instruction) -> Values:
    assert isinstance(node.attributes, DimensionsAttributes)
    dims = int_array(node.attributes.dimensions)
    return _with_regions(scope, node, "stablehlo.map", {"dimensions": dims})


def _window_attributes(node: Instruction) -> Attributes:
    assert isinstance(node.attributes, WindowAttributes)
    window = node.attributes.window
    return {
        "window_dimensions": int_array([w.size for w in window]),
        "window_strides": int_array([w.stride for w in window]),
        "padding": _padding(window),
    }


def _reduce_window(scope: Scope, node: Instruction) -> Values:
    assert isinstance(node.attributes, WindowAttributes)
    window = node.attributes.window
    if any(w.reversal for w in window):
        raise UnimplementedError(
            f"reversed windows of reduce-window have no StableHLO form: {node}"
        )
    attributes: Attributes = {
        **_window_attributes(node),
        "base_dilations": int_array([w.base_dilation for w in window]),
        "window_dilations": int_array([w.window_dilation for w in window]),
    }
    return _with_regions(scope, node, "stablehlo.reduce_window", attributes)


def _select_and_scatter(scope: Scope, node: Instruction) -> Values:
    return _with_regions(scope, node, "stablehlo.select_and_scatter", _window_attributes(node))


def _sort(scope: Scope, node: Instruction) -> Values:
    a = node.attributes
    assert isinstance(a, SortAttributes)
    attributes: Attributes = {"dimension": int_attribute(a.dimension), "is_stable": a.is_stable}
    return _with_regions(scope, node, "stablehlo.sort", attributes)


def _top_k(scope: Scope, node: Instruction) -> Values:
    a = node.attributes
    assert isinstance(a, TopKAttributes)
    attributes: Attributes = {"k": int_attribute(a.k)}
    if not a.largest:
        attributes["largest"] = False
    return scope.emit("chlo.top_k", scope.operands(node), leaf_types(node.shape), attributes)


# -- gather and scatter ----------------------------------------------------------------------------


def _indexed(name: str, fields: dict[str, Any], index_vector_dim: int) -> DialectAttribute:
    """Dimension numbers; index_vector_dim goes without saying when it is 0."""
    if index_vector_dim:
        fields["index_vector_dim"] = index_vector_dim
    return make_struct(name, fields)


def _gather(scope: Scope, node: Instruction) -> Values:
    a = node.attributes
    assert isinstance(a, GatherAttributes)
    fields = {
        "offset_dims": a.offset_dims,
        "collapsed_slice_dims": a.collapsed_slice_dims,
        "operand_batching_dims": a.operand_batching_dims,
        "start_indices_batching_dims": a.start_indices_batching_dims,
        "start_index_map": a.start_index_map,
    }
    attributes: Attributes = {
        "dimension_numbers": _indexed("stablehlo.gather", fields, a.index_vector_dim),
        "slice_sizes": int_array(a.slice_sizes),
        "indices_are_sorted": a.indices_are_sorted,
    }
    return scope.emit("stablehlo.gather", scope.operands(node), leaf_types(node.shape), attributes)


def _scatter(scope: Scope, node: Instruction) -> Values:
    a = node.attributes
    assert isinstance(a, ScatterAttributes)
    fields = {
        "update_window_dims": a.update_window_dims,
        "inserted_window_dims": a.inserted_window_dims,
        "input_batching_dims": a.input_batching_dims,
        "scatter_indices_batching_dims": a.scatter_indices_batching_dims,
        "scatter_dims_to_operand_dims": a.scatter_dims_to_operand_dims,
    }
    attributes: Attributes = {
        "scatter_dimension_numbers": _indexed("stablehlo.scatter", fields, a.index_vector_dim),
        "indices_are_sorted": a.indices_are_sorted,
        "unique_indices": a.unique_indices,
    }
    return _with_regions(scope, node, "stablehlo.scatter", attributes)


# -- decompositions, transforms, normalisation, random numbers -------------------------------------


def _fft(scope: Scope, node: Instruction) -> Values:
    a = node.attributes
    assert isinstance(a, FftAttributes)
    attributes: Attributes = {
        "fft_type": enum("fft_type", a.fft_type),
        "fft_length": int_array(a.fft_length),
    }
    return scope.emit("stablehlo.fft", scope.operands(node), leaf_types(node.shape), attributes)


def _cholesky(scope: Scope, node: Instruction) -> Values:
    assert isinstance(node.attributes, CholeskyAttributes)
    attributes: Attributes = {"lower": node.attributes.lower}
    return scope.emit(
        "stablehlo.cholesky", scope.operands(node), leaf_types(node.shape), attributes
    )


def _triangular_solve(scope: Scope, node: Instruction) -> Values:
    a = node.attributes
    assert isinstance(a, TriangularSolveAttributes)
    attributes: Attributes = {
        "left_side": a.left_side,
        "lower": a.lower,
        "unit_diagonal": a.unit_diagonal,
        "transpose_a": enum("transpose", a.transpose_a),
    }
    return scope.emit(
        "stablehlo.triangular_solve", scope.operands(node), leaf_types(node.shape), attributes
    )


def _batch_norm(name: str) -> Rule:
    def rule(scope: Scope, node: Instruction) -> Values:
        a = node.attributes
        assert isinstance(a, BatchNormAttributes)
        attributes: Attributes = {
            "epsilon": FloatAttribute(np.float32(a.epsilon), ScalarType("f32")),
            "feature_index": int_attribute(a.feature_index),
        }
        return scope.emit(name, scope.operands(node), leaf_types(node.shape), attributes)

    return rule


def _rng(scope: Scope, node: Instruction) -> Values:
    assert isinstance(node.attributes, RngAttributes)
    distribution = node.attributes.distribution.removeprefix("rng_").upper()
    sizes = shape_constant(scope, node.shape.dimensions)
    attributes: Attributes = {"rng_distribution": enum("rng_distribution", distribution)}
    operands = [*scope.operands(node), *sizes]
    return scope.emit("stablehlo.rng", operands, leaf_types(node.shape), attributes)


def _rng_bit_generator(scope: Scope, node: Instruction) -> Values:
    assert isinstance(node.attributes, RngBitGeneratorAttributes)
    algorithm = node.attributes.algorithm.removeprefix("rng_").upper()
    attributes: Attributes = {"rng_algorithm": enum("rng_algorithm", algorithm)}
    return scope.emit(
        "stablehlo.rng_bit_generator", scope.operands(node), leaf_types(node.shape), attributes
    )


RULES: dict[Opcode, Rule] = {
    Opcode.BATCH_NORM_GRAD: _batch_norm("stablehlo.batch_norm_grad"),
    Opcode.BATCH_NORM_INFERENCE: _batch_norm("stablehlo.batch_norm_inference"),
    Opcode.BATCH_NORM_TRAINING: _batch_norm("stablehlo.batch_norm_training"),
    Opcode.CHOLESKY: _cholesky,
    Opcode.CONVOLUTION: _convolution,
    Opcode.DOT: _dot,
    Opcode.FFT: _fft,
    Opcode.GATHER: _gather,
    Opcode.MAP: _map,
    Opcode.RAGGED_DOT: _ragged_dot,
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_WINDOW: _reduce_window,
    Opcode.RNG: _rng,
    Opcode.RNG_BIT_GENERATOR: _rng_bit_generator,
    Opcode.SCATTER: _scatter,
    Opcode.SELECT_AND_SCATTER: _select_and_scatter,
    Opcode.SORT: _sort,
    Opcode.TOPK: _top_k,
    Opcode.TRIANGULAR_SOLVE: _triangular_solve,
}
