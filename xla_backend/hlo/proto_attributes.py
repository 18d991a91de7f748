"""Attributes of instructions as fields of HloInstructionProto, both ways.

One `Link` for each attribute that is a single field of the message, by class of attributes; what is
spread over several fields or nested messages has a pair of functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xla_backend.hlo.attributes import (
    NO_ATTRIBUTES,
    Attributes,
    BatchNormAttributes,
    CallAttributes,
    CholeskyAttributes,
    CollectiveAttributes,
    CollectivePermuteAttributes,
    CompareAttributes,
    ComparisonDirection,
    ConstantAttributes,
    ConvolutionAttributes,
    ConvolutionDimensionNumbers,
    CustomCallAttributes,
    DimensionsAttributes,
    DotAttributes,
    DynamicSliceAttributes,
    FftAttributes,
    FusionAttributes,
    FusionKind,
    GatherAttributes,
    GetTupleElementAttributes,
    IotaAttributes,
    OutfeedAttributes,
    PadAttributes,
    ParameterAttributes,
    Precision,
    RaggedDotAttributes,
    ReducePrecisionAttributes,
    RngAttributes,
    RngBitGeneratorAttributes,
    RngGetAndUpdateStateAttributes,
    ScanAttributes,
    ScatterAttributes,
    SliceAttributes,
    SortAttributes,
    TopKAttributes,
    TransferAttributes,
    TriangularSolveAttributes,
    WindowAttributes,
    WindowDimension,
)
from xla_backend.hlo.proto_groups import groups_from_message, groups_to_message
from xla_backend.hlo.proto_values import (
    literal_from_message,
    literal_to_message,
    shape_from_message,
    shape_to_message,
)
from xla_backend.hlo.proto_wire import Message, ProtoError

To = Callable[[Any], Any]
_PLAIN: tuple[To, To] = (lambda v: v, lambda v: v)
_DIMS: tuple[To, To] = (list, tuple)
_ONE: tuple[To, To] = (lambda v: [v], lambda v: v[0])  # a list of one number


class Link(NamedTuple):
    """An attribute and the field that holds it; `default` stands for an absent field."""

    attribute: str
    field: str
    default: Any
    convert: tuple[To, To] = _PLAIN


def _numbered(*words: str, first: int = 0) -> tuple[To, To]:
    """Words by their position, counted from `first`."""

    def to_word(number: int) -> str:
        if not 0 <= number - first < len(words):
            raise ProtoError(f"{number} stands for none of {', '.join(words)}")
        return words[number - first]

    return (lambda word: words.index(word) + first), to_word


def _by_value(kind: Any) -> tuple[To, To]:
    """An enumeration by its spelling."""

    def from_text(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise ProtoError(f"'{text}' is no {kind.__name__}") from None

    return (lambda member: member.value), from_text


_TRI_STATE: tuple[To, To] = (lambda flag: 1 if flag else 2, lambda number: number == 1)


def _flag(attribute: str, field: str = "") -> Link:
    return Link(attribute, field or attribute, False)


def _number(attribute: str, field: str = "") -> Link:
    return Link(attribute, field or attribute, 0)


def _dims(attribute: str, field: str = "") -> Link:
    return Link(attribute, field or attribute, (), _DIMS)


_DIMENSION = Link("dimension", "dimensions", [0], _ONE)
_CHANNEL = Link("channel_id", "channel_id", None)

_LINKS: dict[type[Attributes], tuple[Link, ...]] = {
    ParameterAttributes: (_number("number", "parameter_number"),),
    DimensionsAttributes: (_dims("dimensions"),),
    IotaAttributes: (_DIMENSION,),
    DynamicSliceAttributes: (_dims("sizes", "dynamic_slice_sizes"),),
    SortAttributes: (_DIMENSION, _flag("is_stable")),
    ScanAttributes: (
        _DIMENSION,
        _number("num_carries"),
        _flag("is_reverse"),
        Link("is_associative", "is_associative", 0, _TRI_STATE),
    ),
    GetTupleElementAttributes: (_number("index", "tuple_index"),),
    FusionAttributes: (Link("kind", "fusion_kind", "kLoop", _by_value(FusionKind)),),
    CallAttributes: (_flag("is_composite"),),
    ReducePrecisionAttributes: (_number("exponent_bits"), _number("mantissa_bits")),
    FftAttributes: (
        Link("fft_type", "fft_type", 0, _numbered("FFT", "IFFT", "RFFT", "IRFFT")),
        _dims("fft_length"),
    ),
    BatchNormAttributes: (Link("epsilon", "epsilon", 0.0), _number("feature_index")),
    RngAttributes: (
        Link("distribution", "distribution", 1, _numbered("rng_uniform", "rng_normal", first=1)),
    ),
    RngBitGeneratorAttributes: (
        Link(
            "algorithm", "rng_algorithm", 0, _numbered("rng_default", "rng_three_fry", "rng_philox")
        ),
    ),
    RngGetAndUpdateStateAttributes: (_number("delta"),),
    TopKAttributes: (_number("k"), _flag("largest")),
    TransferAttributes: (_CHANNEL, _flag("is_host_transfer")),
}

_GATHER = (
    _dims("offset_dims"),
    _dims("collapsed_slice_dims"),
    _dims("start_index_map"),
    _number("index_vector_dim"),
    _dims("operand_batching_dims"),
    _dims("start_indices_batching_dims"),
)
_SCATTER = (
    _dims("update_window_dims"),
    _dims("inserted_window_dims"),
    _dims("scatter_dims_to_operand_dims"),
    _number("index_vector_dim"),
    _dims("input_batching_dims"),
    _dims("scatter_indices_batching_dims"),
)
_DOT = (
    _dims("lhs_contracting", "lhs_contracting_dimensions"),
    _dims("rhs_contracting", "rhs_contracting_dimensions"),
    _dims("lhs_batch", "lhs_batch_dimensions"),
    _dims("rhs_batch", "rhs_batch_dimensions"),
)
_TRIANGULAR = (
    _flag("left_side"),
    _flag("lower"),
    _flag("unit_diagonal"),
    Link(
        "transpose_a", "transpose_a", 1, _numbered("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT", first=1)
    ),
)
_CONVOLUTION = (
    _number("input_batch", "input_batch_dimension"),
    _number("input_feature", "input_feature_dimension"),
    _dims("input_spatial", "input_spatial_dimensions"),
    _number("kernel_input_feature", "kernel_input_feature_dimension"),
    _number("kernel_output_feature", "kernel_output_feature_dimension"),
    _dims("kernel_spatial", "kernel_spatial_dimensions"),
    _number("output_batch", "output_batch_dimension"),
    _number("output_feature", "output_feature_dimension"),
    _dims("output_spatial", "output_spatial_dimensions"),
)
_WINDOW = (
    _number("size"),
    _number("stride"),
    _number("padding_low"),
    _number("padding_high"),
    _number("base_dilation"),
    _number("window_dilation"),
    _flag("reversal", "window_reversal"),
)
_PRECISIONS = _numbered("default", "high", "highest")
ALGORITHMS = _numbered(
    "dot_any_f8_any_f8_f32",
    "dot_any_f8_any_f8_f32_fast_accum",
    "dot_f16_f16_f16",
    "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16",
    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_tf32_tf32_f32",
    "dot_tf32_tf32_f32_x3",
    "dot_f32_f32_f32",
    "dot_f64_f64_f64",
    "dot_bf16_bf16_f32_x9",
    first=1,
)
_SCHEDULES = _numbered("SCHEDULE_LATEST", "SCHEDULE_EARLIEST", first=1)
_API_VERSIONS = _numbered(
    "API_VERSION_ORIGINAL",
    "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
    first=1,
)


def _encode(links: tuple[Link, ...], value: Any) -> Message:
    message = {}
    for link in links:
        found = getattr(value, link.attribute)
        if found is not None:
            message[link.field] = link.convert[0](found)
    return message


def _decode(links: tuple[Link, ...], message: Message) -> dict[str, Any]:
    values = {}
    for link in links:
        found = message.get(link.field, link.default)
        values[link.attribute] = found if found is None else link.convert[1](found)
    return values


def window_to_message(window: tuple[WindowDimension, ...]) -> Message:
    return {"dimensions": [_encode(_WINDOW, w) for w in window]}


def window_from_message(message: Message) -> tuple[WindowDimension, ...]:
    dimensions = [WindowDimension(**_decode(_WINDOW, d)) for d in message.get("dimensions", ())]
    return tuple(dimensions)


def convolution_numbers_to_message(numbers: ConvolutionDimensionNumbers) -> Message:
    return _encode(_CONVOLUTION, numbers)


def convolution_numbers_from_message(message: Message) -> ConvolutionDimensionNumbers:
    return ConvolutionDimensionNumbers(**_decode(_CONVOLUTION, message))


def _precision_to_message(attributes: Any, operands: int) -> Message:
    precision = attributes.precision or (Precision.DEFAULT,) * operands
    message: Message = {"operand_precision": [_PRECISIONS[0](p.value) for p in precision]}
    if getattr(attributes, "algorithm", None):
        message["algorithm"] = ALGORITHMS[0](attributes.algorithm)
    return message


def precision_from_message(message: Message) -> tuple[tuple[Precision, ...], str | None]:
    values = tuple(Precision(_PRECISIONS[1](n)) for n in message.get("operand_precision", ()))
    if all(v is Precision.DEFAULT for v in values):
        values = ()
    number = message.get("algorithm", 0)
    return values, ALGORITHMS[1](number) if number else None


# -- attributes spread over several fields ---------------------------------------------------------


def _dot_to(a: DotAttributes) -> Message:
    return {
        "dot_dimension_numbers": _encode(_DOT, a),
        "precision_config": _precision_to_message(a, 2),
    }


def _dot_from(m: Message) -> Attributes:
    precision, algorithm = precision_from_message(m.get("precision_config", {}))
    numbers = _decode(_DOT, m.get("dot_dimension_numbers", {}))
    return DotAttributes(**numbers, precision=precision, algorithm=algorithm)


def _ragged_to(a: RaggedDotAttributes) -> Message:
    numbers = {
        "dot_dimension_numbers": _encode(_DOT, a),
        "lhs_ragged_dimensions": list(a.lhs_ragged),
        "rhs_group_dimensions": list(a.rhs_group),
    }
    precision = _precision_to_message(a, 2)
    return {"ragged_dot_dimension_numbers": numbers, "precision_config": precision}


def _ragged_from(m: Message) -> Attributes:
    precision, algorithm = precision_from_message(m.get("precision_config", {}))
    numbers = m.get("ragged_dot_dimension_numbers", {})
    return RaggedDotAttributes(
        **_decode(_DOT, numbers.get("dot_dimension_numbers", {})),
        lhs_ragged=tuple(numbers.get("lhs_ragged_dimensions", ())),
        rhs_group=tuple(numbers.get("rhs_group_dimensions", ())),
        precision=precision,
        algorithm=algorithm,
    )


def _convolution_to(a: ConvolutionAttributes) -> Message:
    return {
        "window": window_to_message(a.window),
        "convolution_dimension_numbers": convolution_numbers_to_message(a.dimension_numbers),
        "feature_group_count": a.feature_group_count,
        "batch_group_count": a.batch_group_count,
        "precision_config": _precision_to_message(a, 2),
    }


def _convolution_from(m: Message) -> Attributes:
    return ConvolutionAttributes(
        window_from_message(m.get("window", {})),
        convolution_numbers_from_message(m.get("convolution_dimension_numbers", {})),
        m.get("feature_group_count", 1) or 1,
        m.get("batch_group_count", 1) or 1,
        precision_from_message(m.get("precision_config", {}))[0],
    )


def _slice_to(a: SliceAttributes) -> Message:
    rows = zip(a.starts, a.limits, a.strides)
    return {"slice_dimensions": [{"start": s, "limit": e, "stride": n} for s, e, n in rows]}


def _slice_from(m: Message) -> Attributes:
    rows = m.get("slice_dimensions", ())
    return SliceAttributes(
        *(tuple(r.get(name, 0) for r in rows) for name in ("start", "limit", "stride"))
    )


_PAD_FIELDS = ("edge_padding_low", "edge_padding_high", "interior_padding")


def _pad_to(a: PadAttributes) -> Message:
    rows = zip(a.low, a.high, a.interior)
    return {"padding_config": {"dimensions": [dict(zip(_PAD_FIELDS, row)) for row in rows]}}


def _pad_from(m: Message) -> Attributes:
    rows = m.get("padding_config", {}).get("dimensions", ())
    return PadAttributes(*(tuple(r.get(name, 0) for r in rows) for name in _PAD_FIELDS))


def _gather_to(a: GatherAttributes) -> Message:
    return {
        "gather_dimension_numbers": _encode(_GATHER, a),
        "gather_slice_sizes": list(a.slice_sizes),
        "indices_are_sorted": a.indices_are_sorted,
    }


def _gather_from(m: Message) -> Attributes:
    return GatherAttributes(
        **_decode(_GATHER, m.get("gather_dimension_numbers", {})),
        slice_sizes=tuple(m.get("gather_slice_sizes", ())),
        indices_are_sorted=m.get("indices_are_sorted", False),
    )


def _scatter_to(a: ScatterAttributes) -> Message:
    return {
        "scatter_dimension_numbers": _encode(_SCATTER, a),
        "indices_are_sorted": a.indices_are_sorted,
        "unique_indices": a.unique_indices,
    }


def _scatter_from(m: Message) -> Attributes:
    return ScatterAttributes(
        **_decode(_SCATTER, m.get("scatter_dimension_numbers", {})),
        indices_are_sorted=m.get("indices_are_sorted", False),
        unique_indices=m.get("unique_indices", False),
    )


def _compare_to(a: CompareAttributes) -> Message:
    message = {"comparison_direction": a.direction.value}
    return {**message, "comparison_type": "TOTALORDER"} if a.total_order else message


def _compare_from(m: Message) -> Attributes:
    direction = _by_value(ComparisonDirection)[1](m.get("comparison_direction", ""))
    return CompareAttributes(direction, m.get("comparison_type") == "TOTALORDER")


def _custom_call_to(a: CustomCallAttributes) -> Message:
    message: Message = {
        "custom_call_target": a.target,
        "backend_config": a.backend_config.encode("utf-8", "surrogateescape"),
        "custom_call_has_side_effect": a.has_side_effect,
        "output_operand_aliasing": aliasing_to_message(a.output_to_operand_aliasing),
    }
    if a.operand_layouts is not None:
        message["constrain_layout"] = True
        message["operand_shapes_with_layout"] = [shape_to_message(s) for s in a.operand_layouts]
    if a.schedule and a.schedule != "SCHEDULE_NONE":
        message["custom_call_schedule"] = _SCHEDULES[0](a.schedule)
    message["custom_call_api_version"] = _API_VERSIONS[0](a.api_version or "API_VERSION_ORIGINAL")
    return message


def _custom_call_from(m: Message) -> Attributes:
    layouts = None
    if m.get("constrain_layout"):
        layouts = tuple(shape_from_message(s) for s in m.get("operand_shapes_with_layout", ()))
    schedule, version = m.get("custom_call_schedule", 0), m.get("custom_call_api_version", 0)
    return CustomCallAttributes(
        m.get("custom_call_target", ""),
        m.get("backend_config", b"").decode("utf-8", "surrogateescape"),
        m.get("custom_call_has_side_effect", False),
        layouts,
        aliasing_from_message(m.get("output_operand_aliasing", ())),
        _API_VERSIONS[1](version) if version > 1 else None,
        _SCHEDULES[1](schedule) if schedule else None,
    )


def aliasing_to_message(entries: Any) -> list[Message]:
    return [
        {"output_shape_index": list(o), "operand_index": n, "operand_shape_index": list(i)}
        for o, n, i in entries
    ]


def aliasing_from_message(messages: Any) -> tuple[Any, ...]:
    return tuple(
        (
            tuple(m.get("output_shape_index", ())),
            m.get("operand_index", 0),
            tuple(m.get("operand_shape_index", ())),
        )
        for m in messages
    )


def _collective_to(a: CollectiveAttributes) -> Message:
    return {
        **groups_to_message(a.replica_groups),
        **({} if a.channel_id is None else {"channel_id": a.channel_id}),
        "dimensions": list(a.dimensions),
        "use_global_device_ids": a.use_global_device_ids,
        "constrain_layout": a.constrain_layout,
    }


def _collective_from(m: Message) -> Attributes:
    return CollectiveAttributes(
        groups_from_message(m),
        m.get("channel_id") or None,
        tuple(m.get("dimensions", ())),
        m.get("use_global_device_ids", False),
        m.get("constrain_layout", False),
    )


def _permute_to(a: CollectivePermuteAttributes) -> Message:
    pairs = [{"source": s, "target": t} for s, t in a.source_target_pairs]
    channel = {} if a.channel_id is None else {"channel_id": a.channel_id}
    return {"source_target_pairs": pairs, **channel}


def _permute_from(m: Message) -> Attributes:
    pairs = [(p.get("source", 0), p.get("target", 0)) for p in m.get("source_target_pairs", ())]
    return CollectivePermuteAttributes(tuple(pairs), m.get("channel_id") or None)


def _outfeed_to(a: OutfeedAttributes) -> Message:
    message: Message = {}
    if a.shape is not None:
        message["outfeed_shape"] = shape_to_message(a.shape)
    if a.config:
        message["outfeed_config"] = a.config.strip('"').encode("utf-8", "surrogateescape")
    return message


def _outfeed_from(m: Message) -> Attributes:
    config = m.get("outfeed_config", b"").decode("utf-8", "surrogateescape")
    shape = shape_from_message(m["outfeed_shape"]) if "outfeed_shape" in m else None
    return OutfeedAttributes(shape, f'"{config}"' if config else None)


_PAIRS: dict[type[Attributes], tuple[Callable[[Any], Message], Callable[[Message], Attributes]]] = {
    ConstantAttributes: (
        lambda a: {"literal": literal_to_message(a.literal)},
        lambda m: ConstantAttributes(literal_from_message(m.get("literal", {}))),
    ),
    DotAttributes: (_dot_to, _dot_from),
    RaggedDotAttributes: (_ragged_to, _ragged_from),
    ConvolutionAttributes: (_convolution_to, _convolution_from),
    WindowAttributes: (
        lambda a: {"window": window_to_message(a.window)},
        lambda m: WindowAttributes(window_from_message(m.get("window", {}))),
    ),
    SliceAttributes: (_slice_to, _slice_from),
    PadAttributes: (_pad_to, _pad_from),
    GatherAttributes: (_gather_to, _gather_from),
    ScatterAttributes: (_scatter_to, _scatter_from),
    CompareAttributes: (_compare_to, _compare_from),
    CustomCallAttributes: (_custom_call_to, _custom_call_from),
    CollectiveAttributes: (_collective_to, _collective_from),
    CollectivePermuteAttributes: (_permute_to, _permute_from),
    OutfeedAttributes: (_outfeed_to, _outfeed_from),
    CholeskyAttributes: (
        lambda a: {"cholesky_options": {"lower": a.lower}},
        lambda m: CholeskyAttributes(m.get("cholesky_options", {}).get("lower", False)),
    ),
    TriangularSolveAttributes: (
        lambda a: {"triangular_solve_options": _encode(_TRIANGULAR, a)},
        lambda m: TriangularSolveAttributes(
            **_decode(_TRIANGULAR, m.get("triangular_solve_options", {}))
        ),
    ),
}


def attributes_to_message(attributes: Attributes) -> Message:
    """The fields that hold these attributes; none for classes that other code treats."""
    pair = _PAIRS.get(type(attributes))
    if pair is not None:
        return pair[0](attributes)
    return _encode(_LINKS.get(type(attributes), ()), attributes)


def attributes_from_message(cls: type[Attributes], message: Message) -> Attributes:
    """Attributes of class `cls` from the fields of an HloInstructionProto.

    Raises:
      ProtoError: a value that stands for nothing.
    """
    pair = _PAIRS.get(cls)
    if pair is not None:
        return pair[1](message)
    links = _LINKS.get(cls)
    return NO_ATTRIBUTES if links is None else cls(**_decode(links, message))
