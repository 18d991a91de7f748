"""Contractions, windows, gathers, sorts, decompositions and random numbers to HLO."""

from __future__ import annotations

from collections.abc import Sequence

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
    RngAttributes,
    RngBitGeneratorAttributes,
    ScatterAttributes,
    SortAttributes,
    TriangularSolveAttributes,
    WindowAttributes,
    WindowDimension,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.stablehlo.attributes import EnumAttribute, FloatAttribute
from xla_backend.stablehlo.ir import Operation
from xla_backend.stablehlo.lowering import (
    Dims,
    Rule,
    Scope,
    fields_of,
    flag,
    integer,
    ints,
    invalid,
    structure,
    unsupported,
    word,
)
from xla_backend.stablehlo.rules_shape import constant_dims
from xla_backend.stablehlo.struct_attributes import convolution_labels

# -- contractions ----------------------------------------------------------------------------------


def precisions(op: Operation) -> tuple[Precision, ...]:
    """precision_config; () when all are DEFAULT."""
    values: list[Precision] = []
    for value in op.attributes.get("precision_config", ()):
        name = value.value if isinstance(value, EnumAttribute) else str(value)
        if name not in Precision.__members__:
            known = ", ".join(Precision.__members__)
            raise invalid(op, f"there is no precision {name} (there are {known})")
        values.append(Precision[name])
    return () if all(p is Precision.DEFAULT for p in values) else tuple(values)


def _algorithm(op: Operation) -> str | None:
    """`dot_bf16_bf16_f32_x3` of a `#stablehlo.dot_algorithm<...>`."""
    if "algorithm" not in op.attributes:
        return None
    fields = fields_of(op, "algorithm")
    parts = ("lhs_precision", "rhs_precision", "accumulation")
    name = "dot_" + "_".join(fields.word(f"{part}_type") for part in parts)
    count = fields.number("num_primitive_operations", None)
    return name if count == 1 else f"{name}_x{count}"


def _dot_general(scope: Scope, op: Operation) -> Instruction:
    fields = fields_of(op, "dot_dimension_numbers")
    attributes = DotAttributes(
        fields.dims("lhs_contracting_dimensions"),
        fields.dims("rhs_contracting_dimensions"),
        fields.dims("lhs_batching_dimensions"),
        fields.dims("rhs_batching_dimensions"),
        precisions(op),
        _algorithm(op),
    )
    return scope.add(op, Opcode.DOT, scope.operands(op), attributes)


def _dot(scope: Scope, op: Operation) -> Instruction:
    """The last dimension of lhs with the first of rhs."""
    operands = scope.operands(op)
    attributes = DotAttributes((operands[0].shape.rank - 1,), (0,), precision=precisions(op))
    return scope.add(op, Opcode.DOT, operands, attributes)


def _positions(op: Operation, labels: Sequence[str], letters: str) -> tuple[int, int, Dims]:
    """Where the two letters stand among the labels, and the spatial dimensions in order."""
    spatial = [label for label in labels if label.isdigit()]
    wanted = sorted([*letters, *map(str, range(len(spatial)))])
    if sorted(labels) != wanted:
        raise invalid(op, f"the labels [{', '.join(labels)}] should be {', '.join(wanted)}")
    places = tuple(labels.index(str(i)) for i in range(len(spatial)))
    return labels.index(letters[0]), labels.index(letters[1]), places


def _convolution_dimensions(op: Operation) -> ConvolutionDimensionNumbers:
    """`[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]` as positions."""
    lhs, rhs, out = convolution_labels(structure(op, "dimension_numbers"))
    return ConvolutionDimensionNumbers(
        *_positions(op, lhs, "bf"), *_positions(op, rhs, "io"), *_positions(op, out, "bf")
    )


def _window(op: Operation, sizes: Dims, padding: Dims | None = None) -> tuple[WindowDimension, ...]:
    """One entry per dimension of `sizes`; what is absent is 1, 0 or false."""
    rank = len(sizes)
    ones = (1,) * rank
    strides = ints(op, "window_strides", ones)
    pads = padding if padding is not None else ints(op, "padding", (0,) * (2 * rank))
    base = ints(op, "lhs_dilation", ints(op, "base_dilations", ones))
    dilation = ints(op, "rhs_dilation", ints(op, "window_dilations", ones))
    reversal = ints(op, "window_reversal", (0,) * rank)
    lists = (strides, base, dilation, reversal)
    if any(len(values) != rank for values in lists) or len(pads) != 2 * rank:
        raise invalid(op, f"window attributes must have {rank} entries, padding {rank} pairs")
    return tuple(
        WindowDimension(
            sizes[i],
            strides[i],
            pads[2 * i],
            pads[2 * i + 1],
            base[i],
            dilation[i],
            bool(reversal[i]),
        )
        for i in range(rank)
    )


def _convolution(scope: Scope, op: Operation) -> Instruction:
    lhs, rhs = (scope.value(v) for v in op.operands[:2])
    amounts = op.operands[2:]
    numbers = _convolution_dimensions(op)
    if rhs.shape.rank != len(numbers.kernel_spatial) + 2:
        raise invalid(op, f"the kernel {rhs.shape} has other dimensions than its labels")
    sizes = tuple(rhs.shape.dimensions[d] for d in numbers.kernel_spatial)
    padding = constant_dims(scope, op, amounts[0], "the padding") if amounts else None
    attributes = ConvolutionAttributes(
        _window(op, sizes, padding),
        numbers,
        integer(op, "feature_group_count", 1),
        integer(op, "batch_group_count", 1),
        precisions(op),
    )
    return scope.add(op, Opcode.CONVOLUTION, [lhs, rhs], attributes)


# -- reductions and windows ------------------------------------------------------------------------


def _with_initial_types(scope: Scope, operands: Sequence[Instruction]) -> list[Instruction]:
    """Inputs converted to the types of the initial values, in which a reducer may accumulate."""
    count = len(operands) // 2
    inputs, initial = operands[:count], operands[count:]
    kinds = [i.shape.element_type for i in initial]
    return [*(scope.builder.convert(x, k) for x, k in zip(inputs, kinds)), *initial]


def _reduce(scope: Scope, op: Operation) -> list[Instruction]:
    operands = _with_initial_types(scope, scope.operands(op))
    called = [scope.region(op.regions[0])]
    attributes = DimensionsAttributes(ints(op, "dimensions"))
    return scope.members(scope.builder.add(Opcode.REDUCE, operands, attributes, called))


def _reduce_window(scope: Scope, op: Operation) -> list[Instruction]:
    operands = _with_initial_types(scope, scope.operands(op))
    called = [scope.region(op.regions[0])]
    attributes = WindowAttributes(_window(op, ints(op, "window_dimensions")))
    return scope.members(scope.builder.add(Opcode.REDUCE_WINDOW, operands, attributes, called))


def _select_and_scatter(scope: Scope, op: Operation) -> Instruction:
    operands = scope.operands(op)
    ones = (1,) * operands[0].shape.rank
    attributes = WindowAttributes(_window(op, ints(op, "window_dimensions", ones)))
    called = [scope.region(op.regions[0], "select"), scope.region(op.regions[1], "scatter")]
    return scope.add(op, Opcode.SELECT_AND_SCATTER, operands, attributes, called)


def _map(scope: Scope, op: Operation) -> Instruction:
    attributes = DimensionsAttributes(ints(op, "dimensions"))
    called = [scope.region(op.regions[0])]
    return scope.add(op, Opcode.MAP, scope.operands(op), attributes, called)


def _sort(scope: Scope, op: Operation) -> list[Instruction]:
    operands = scope.operands(op)
    rank = operands[0].shape.rank
    dimension = integer(op, "dimension", rank - 1)
    if not -rank <= dimension < rank:
        raise invalid(op, f"{operands[0].shape} has no dimension {dimension}")
    attributes = SortAttributes(dimension % rank, flag(op, "is_stable"))
    called = [scope.region(op.regions[0], "compare")]
    return scope.members(scope.builder.add(Opcode.SORT, operands, attributes, called))


# -- gather and scatter ----------------------------------------------------------------------------


def _gather_with(scope: Scope, op: Operation, sizes: Dims) -> Instruction:
    fields = fields_of(op, "dimension_numbers")
    attributes = GatherAttributes(
        fields.dims("offset_dims"),
        fields.dims("collapsed_slice_dims"),
        fields.dims("start_index_map"),
        fields.number("index_vector_dim"),
        sizes,
        fields.dims("operand_batching_dims"),
        fields.dims("start_indices_batching_dims"),
        flag(op, "indices_are_sorted"),
    )
    return scope.add(op, Opcode.GATHER, [scope.value(v) for v in op.operands[:2]], attributes)


def _gather(scope: Scope, op: Operation) -> Instruction:
    return _gather_with(scope, op, ints(op, "slice_sizes"))


def _dynamic_gather(scope: Scope, op: Operation) -> Instruction:
    sizes = constant_dims(scope, op, op.operands[2], "the slice sizes")
    return _gather_with(scope, op, sizes)


def _scatter(scope: Scope, op: Operation) -> list[Instruction]:
    fields = fields_of(op, "scatter_dimension_numbers")
    attributes = ScatterAttributes(
        fields.dims("update_window_dims"),
        fields.dims("inserted_window_dims"),
        fields.dims("scatter_dims_to_operand_dims"),
        fields.number("index_vector_dim"),
        fields.dims("input_batching_dims"),
        fields.dims("scatter_indices_batching_dims"),
        flag(op, "indices_are_sorted"),
        flag(op, "unique_indices"),
    )
    called = [scope.region(op.regions[0])]
    operands = scope.operands(op)
    return scope.members(scope.builder.add(Opcode.SCATTER, operands, attributes, called))


# -- decompositions, transforms, normalisation -----------------------------------------------------


def _fft(scope: Scope, op: Operation) -> Instruction:
    attributes = FftAttributes(word(op, "fft_type"), ints(op, "fft_length"))
    return scope.add(op, Opcode.FFT, scope.operands(op), attributes)


def _cholesky(scope: Scope, op: Operation) -> Instruction:
    return scope.add(op, Opcode.CHOLESKY, scope.operands(op), CholeskyAttributes(flag(op, "lower")))


def _triangular_solve(scope: Scope, op: Operation) -> Instruction:
    attributes = TriangularSolveAttributes(
        flag(op, "left_side"),
        flag(op, "lower"),
        flag(op, "unit_diagonal"),
        word(op, "transpose_a", "NO_TRANSPOSE"),
    )
    return scope.add(op, Opcode.TRIANGULAR_SOLVE, scope.operands(op), attributes)


def _batch_norm(opcode: Opcode) -> Rule:
    def rule(scope: Scope, op: Operation) -> list[Instruction]:
        epsilon = op.attributes.get("epsilon")
        if not isinstance(epsilon, FloatAttribute):
            raise invalid(op, "the attribute 'epsilon' is missing or no float")
        attributes = BatchNormAttributes(float(epsilon.value), integer(op, "feature_index"))
        return scope.members(scope.builder.add(opcode, scope.operands(op), attributes))

    return rule


# -- random numbers --------------------------------------------------------------------------------


def _rng(scope: Scope, op: Operation) -> Instruction:
    low, high = (scope.value(v) for v in op.operands[:2])
    distribution = "rng_" + word(op, "rng_distribution").lower()
    shape = Shape(
        low.shape.element_type,
        constant_dims(scope, op, op.operands[2], "the shape of random numbers"),
    )
    return scope.add(op, Opcode.RNG, [low, high], RngAttributes(distribution), shape=shape)


def _rng_bit_generator(scope: Scope, op: Operation) -> list[Instruction]:
    shapes = [scope.program.shape(t) for t in op.result_types]
    attributes = RngBitGeneratorAttributes("rng_" + word(op, "rng_algorithm").lower())
    if len(shapes) != 2:
        raise unsupported(op, "it gives the new state and the random bits")
    return scope.members(
        scope.builder.add(
            Opcode.RNG_BIT_GENERATOR, scope.operands(op), attributes, shape=Shape.tuple(shapes)
        )
    )


RULES: dict[str, Rule] = {
    "stablehlo.batch_norm_grad": _batch_norm(Opcode.BATCH_NORM_GRAD),
    "stablehlo.batch_norm_inference": _batch_norm(Opcode.BATCH_NORM_INFERENCE),
    "stablehlo.batch_norm_training": _batch_norm(Opcode.BATCH_NORM_TRAINING),
    "stablehlo.cholesky": _cholesky,
    "stablehlo.convolution": _convolution,
    "stablehlo.dot": _dot,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.dynamic_conv": _convolution,
    "stablehlo.dynamic_gather": _dynamic_gather,
    "stablehlo.fft": _fft,
    "stablehlo.gather": _gather,
    "stablehlo.map": _map,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.rng": _rng,
    "stablehlo.rng_bit_generator": _rng_bit_generator,
    "stablehlo.scatter": _scatter,
    "stablehlo.select_and_scatter": _select_and_scatter,
    "stablehlo.sort": _sort,
    "stablehlo.triangular_solve": _triangular_solve,
}
