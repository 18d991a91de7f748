"""Attributes of instructions as HLO text, both ways: one table, read by the parser and by the
printer.

A `Field` is one `name=value` in the text; a `Codec` is the list of fields of an opcode with the
way to and from its attributes dataclass, and the names under which it refers to called
computations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from xla_backend.hlo.annotation_text import ANNOTATIONS
from xla_backend.hlo.attribute_values import (
    ALIASING,
    BOOL,
    CONV_LABELS,
    DIM,
    DIMS,
    FLOAT,
    GROUPS,
    INT,
    PADDING,
    PAIRS,
    PRECISIONS,
    RAW,
    SHAPE,
    SHAPES,
    SLICE,
    WINDOW,
    WORD,
    Kind,
    word_of,
)
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
    ConditionalAttributes,
    ConvolutionAttributes,
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
    RaggedDotAttributes,
    RawAttributes,
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
)
from xla_backend.hlo.opcode import Opcode
from xla_backend.process.light_dataclasses import dataclass

REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class Field:
    """One `name=value`. Values equal to the default are not printed unless `always`."""

    name: str
    kind: Kind
    default: Any = REQUIRED
    always: bool = False
    get: Callable[[Any], Any] | None = None  # value from the attributes; None: the attribute `name`


@dataclass(frozen=True, slots=True)
class Codec:
    """`make` builds the attributes from the values by field name. `calls` are field names of one
    computation each, `call_lists` of a braced list; `calls_first` prints them before the
    fields."""

    make: Callable[[dict[str, Any]], Attributes]
    fields: tuple[Field, ...] = ()
    calls: tuple[str, ...] = ()
    call_list: str = ""
    calls_optional: bool = False
    raw: tuple[str, ...] = ()  # further attributes kept as text in the annotations
    cls: type = Attributes  # what `make` returns

    def allowed(self) -> list[str]:
        names = [f.name for f in self.fields] + list(self.calls) + list(self.raw)
        return sorted(names + ([self.call_list] if self.call_list else []))


def _codec(
    cls: type,
    *fields: Field | tuple,
    calls: Sequence[str] = (),
    raw: Sequence[str] = (),
    **more: Any,
) -> Codec:
    """A codec for a dataclass. A field may be (text name, kind[, attribute, default, always])."""
    built: list[Field] = []
    attribute_of: dict[str, str] = {}
    for item in fields:
        assert isinstance(item, tuple)
        name, kind, *rest = item
        attribute = rest[0] if rest else name
        default = rest[1] if len(rest) > 1 else REQUIRED
        always = rest[2] if len(rest) > 2 else False
        built.append(Field(name, kind, default, always, attrgetter(attribute)))
        attribute_of[name] = attribute

    def make(values: dict[str, Any]) -> Attributes:
        return cls(**{attribute_of[name]: value for name, value in values.items()})

    return Codec(make, tuple(built), tuple(calls), raw=tuple(raw), cls=cls, **more)


_NONE = Codec(lambda values: NO_ATTRIBUTES)
_DIMENSIONS = _codec(DimensionsAttributes, ("dimensions", DIMS))
_DOT_FIELDS = (
    ("lhs_batch_dims", DIMS, "lhs_batch", ()),
    ("lhs_contracting_dims", DIMS, "lhs_contracting", (), True),
    ("rhs_batch_dims", DIMS, "rhs_batch", ()),
    ("rhs_contracting_dims", DIMS, "rhs_contracting", (), True),
    ("operand_precision", PRECISIONS, "precision", ()),
    ("algorithm", WORD, "algorithm", None),
)
_BATCH_NORM = _codec(BatchNormAttributes, ("epsilon", FLOAT), ("feature_index", INT))


def _make_raw(values: dict[str, Any]) -> Attributes:
    return RawAttributes(tuple((k, v) for k, v in values.items() if v is not None))


def _raw(names: str, calls: Sequence[str] = (), calls_optional: bool = False) -> Codec:
    """Attributes kept as text, in this order."""

    def getter(name: str) -> Callable[[Any], Any]:
        return lambda a: a.get(name) if isinstance(a, RawAttributes) else None

    fields = tuple(Field(n, RAW, None, get=getter(n)) for n in names.split())
    return Codec(_make_raw, fields, tuple(calls), calls_optional=calls_optional, cls=RawAttributes)


_COLLECTIVE_FIELDS = (
    ("channel_id", INT, "channel_id", None),
    ("replica_groups", GROUPS, "replica_groups", (), True),
    ("constrain_layout", BOOL, "constrain_layout", False),
    ("dimensions", DIMS, "dimensions", ()),
    ("use_global_device_ids", BOOL, "use_global_device_ids", False),
)
_REDUCE_SCATTER_FIELDS = (*_COLLECTIVE_FIELDS[:3], _COLLECTIVE_FIELDS[4], _COLLECTIVE_FIELDS[3])
_COLLECTIVE_RAW = ("async_execution_thread",)
_COLLECTIVE = _codec(CollectiveAttributes, *_COLLECTIVE_FIELDS, raw=_COLLECTIVE_RAW)
_COLLECTIVE_REDUCE = _codec(
    CollectiveAttributes, *_COLLECTIVE_FIELDS, calls=["to_apply"], raw=_COLLECTIVE_RAW
)
_REDUCE_SCATTER = _codec(
    CollectiveAttributes, *_REDUCE_SCATTER_FIELDS, calls=["to_apply"], raw=_COLLECTIVE_RAW
)
_PERMUTE = _codec(
    CollectivePermuteAttributes,
    ("channel_id", INT, "channel_id", None),
    ("source_target_pairs", PAIRS, "source_target_pairs"),
    raw=("slice_sizes",),
)
_WINDOW = Field("window", WINDOW, (), get=attrgetter("window"))


def _make_compare(values: dict[str, Any]) -> Attributes:
    return CompareAttributes(values["direction"], values["type"] == "TOTALORDER")


_COMPARE = Codec(
    _make_compare,
    (
        Field("direction", word_of(ComparisonDirection), get=attrgetter("direction")),
        Field(
            "type",
            word_of(("TOTALORDER", "FLOAT", "SIGNED", "UNSIGNED")),
            None,
            get=lambda a: "TOTALORDER" if a.total_order else None,
        ),
    ),
    cls=CompareAttributes,
)
_SLICE = Codec(
    lambda v: SliceAttributes(*v["slice"]),
    (Field("slice", SLICE, get=lambda a: (a.starts, a.limits, a.strides)),),
    cls=SliceAttributes,
)
_PAD = Codec(
    lambda v: PadAttributes(*v["padding"]),
    (Field("padding", PADDING, ((), (), ()), get=lambda a: (a.low, a.high, a.interior)),),
    cls=PadAttributes,
)
_CONVOLUTION = Codec(
    lambda v: ConvolutionAttributes(
        v["window"],
        v["dim_labels"],
        v["feature_group_count"],
        v["batch_group_count"],
        v["operand_precision"],
    ),
    (
        _WINDOW,
        Field("dim_labels", CONV_LABELS, get=attrgetter("dimension_numbers")),
        Field("feature_group_count", INT, 1, get=attrgetter("feature_group_count")),
        Field("batch_group_count", INT, 1, get=attrgetter("batch_group_count")),
        Field("operand_precision", PRECISIONS, (), get=attrgetter("precision")),
    ),
    cls=ConvolutionAttributes,
)
_CUSTOM_CALL = Codec(
    lambda v: CustomCallAttributes(
        v["custom_call_target"],
        "",
        v["custom_call_has_side_effect"],
        v["operand_layout_constraints"],
        v["output_to_operand_aliasing"],
        v["api_version"],
        v["schedule"],
    ),
    (
        Field("custom_call_target", Kind.string(), get=attrgetter("target")),
        Field("operand_layout_constraints", SHAPES, None, get=attrgetter("operand_layouts")),
        Field("custom_call_has_side_effect", BOOL, False, get=attrgetter("has_side_effect")),
        Field(
            "output_to_operand_aliasing", ALIASING, (), get=attrgetter("output_to_operand_aliasing")
        ),
        Field("schedule", WORD, None, get=attrgetter("schedule")),
        Field("api_version", WORD, None, get=attrgetter("api_version")),
    ),
    call_list="called_computations",
    calls=("to_apply",),
    calls_optional=True,
    raw=("window", "dim_labels", "feature_group_count", "batch_group_count", "operand_precision"),
    cls=CustomCallAttributes,
)

_TABLE: dict[str, Codec] = {
    "broadcast transpose reverse concatenate get-dimension-size set-dimension-size": _DIMENSIONS,
    "map": _codec(
        DimensionsAttributes, ("dimensions", DIMS, "dimensions", (), True), calls=["to_apply"]
    ),
    "reduce": _codec(DimensionsAttributes, ("dimensions", DIMS), calls=["to_apply"]),
    "reshape dynamic-reshape": Codec(lambda values: NO_ATTRIBUTES, raw=("inferred_dimension",)),
    "iota": _codec(IotaAttributes, ("iota_dimension", INT, "dimension")),
    "compare": _COMPARE,
    "slice": _SLICE,
    "dynamic-slice": _codec(DynamicSliceAttributes, ("dynamic_slice_sizes", DIMS, "sizes")),
    "pad": _PAD,
    "dot scaled-dot": _codec(DotAttributes, *_DOT_FIELDS),
    "ragged-dot": _codec(
        RaggedDotAttributes,
        *_DOT_FIELDS[:4],
        ("lhs_ragged_dims", DIMS, "lhs_ragged", ()),
        ("rhs_group_dims", DIMS, "rhs_group", ()),
        *_DOT_FIELDS[4:],
    ),
    "convolution": _CONVOLUTION,
    "reduce-window": Codec(
        lambda v: WindowAttributes(v["window"]),
        (_WINDOW,),
        calls=("to_apply",),
        cls=WindowAttributes,
    ),
    "select-and-scatter": Codec(
        lambda v: WindowAttributes(v["window"]),
        (_WINDOW,),
        calls=("select", "scatter"),
        cls=WindowAttributes,
    ),
    "scan": _codec(
        ScanAttributes,
        ("dimensions", DIM, "dimension"),
        ("is_reverse", BOOL, "is_reverse", False),
        ("num_carries", INT),
        ("is_associative", BOOL, "is_associative", False, True),
        calls=["to_apply"],
    ),
    "gather": _codec(
        GatherAttributes,
        ("offset_dims", DIMS),
        ("collapsed_slice_dims", DIMS),
        ("start_index_map", DIMS),
        ("operand_batching_dims", DIMS, "operand_batching_dims", ()),
        ("start_indices_batching_dims", DIMS, "start_indices_batching_dims", ()),
        ("index_vector_dim", INT),
        ("slice_sizes", DIMS),
        ("indices_are_sorted", BOOL, "indices_are_sorted", False),
    ),
    "scatter": _codec(
        ScatterAttributes,
        ("update_window_dims", DIMS),
        ("inserted_window_dims", DIMS),
        ("scatter_dims_to_operand_dims", DIMS),
        ("input_batching_dims", DIMS, "input_batching_dims", ()),
        ("scatter_indices_batching_dims", DIMS, "scatter_indices_batching_dims", ()),
        ("index_vector_dim", INT),
        ("indices_are_sorted", BOOL, "indices_are_sorted", False),
        ("unique_indices", BOOL, "unique_indices", False),
        calls=["to_apply"],
    ),
    "sort": _codec(
        SortAttributes,
        ("dimensions", DIM, "dimension"),
        ("is_stable", BOOL, "is_stable", False),
        ("places", DIMS, "places", ()),
        calls=["to_apply"],
    ),
    "topk": _codec(
        TopKAttributes,
        ("k", INT),
        ("largest", BOOL, "largest", True, True),
        calls=["to_apply"],
        calls_optional=True,
    ),
    "fft": _codec(
        FftAttributes,
        ("fft_type", word_of(("FFT", "IFFT", "RFFT", "IRFFT"))),
        ("fft_length", DIMS),
    ),
    "cholesky": _codec(CholeskyAttributes, ("lower", BOOL, "lower", False)),
    "triangular-solve": _codec(
        TriangularSolveAttributes,
        ("left_side", BOOL, "left_side", False),
        ("lower", BOOL, "lower", False),
        ("unit_diagonal", BOOL, "unit_diagonal", False),
        (
            "transpose_a",
            word_of(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")),
            "transpose_a",
            "NO_TRANSPOSE",
            True,
        ),
    ),
    "batch-norm-training batch-norm-inference batch-norm-grad": _BATCH_NORM,
    "get-tuple-element": _codec(GetTupleElementAttributes, ("index", INT)),
    "while": Codec(lambda values: NO_ATTRIBUTES, calls=("condition", "body")),
    "call": _codec(
        CallAttributes, ("is_composite", BOOL, "is_composite", False), calls=["to_apply"]
    ),
    "fusion": _codec(
        FusionAttributes,
        ("kind", word_of(FusionKind)),
        calls=["calls"],
        raw=["output_to_operand_aliasing"],
    ),
    "custom-call": _CUSTOM_CALL,
    "reduce-precision": _codec(
        ReducePrecisionAttributes, ("exponent_bits", INT), ("mantissa_bits", INT)
    ),
    "rng": _codec(RngAttributes, ("distribution", word_of(("rng_uniform", "rng_normal")))),
    "rng-bit-generator": _codec(
        RngBitGeneratorAttributes,
        ("algorithm", word_of(("rng_default", "rng_three_fry", "rng_philox"))),
    ),
    "rng-get-and-update-state": _codec(RngGetAndUpdateStateAttributes, ("delta", INT)),
    "all-gather all-to-all collective-broadcast ragged-all-to-all all-gather-start": _COLLECTIVE,
    "all-reduce all-reduce-start": _COLLECTIVE_REDUCE,
    "reduce-scatter": _REDUCE_SCATTER,
    "collective-permute collective-permute-start": _PERMUTE,
    "infeed": _raw("infeed_config"),
    "outfeed": _codec(
        OutfeedAttributes,
        ("outfeed_shape", SHAPE, "shape", None),
        ("outfeed_config", RAW, "config", None),
    ),
    "send recv send-done recv-done": _codec(
        TransferAttributes,
        ("channel_id", INT, "channel_id", None),
        ("is_host_transfer", BOOL, "is_host_transfer", False),
    ),
    "domain": _raw("domain"),
    "copy-start": _raw("cross_program_prefetch_index"),
    "async-start": _raw("async_execution_thread", ["calls"]),
    "async-update async-done": _raw("async_execution_thread", ["calls"], calls_optional=True),
    "all-gather-done all-reduce-done collective-permute-done copy-done": _NONE,
}

# `conditional` names its branches in one of two ways; parser and printer treat it themselves.
CONDITIONAL_LIST, CONDITIONAL_TRUE, CONDITIONAL_FALSE = (
    "branch_computations",
    "true_computation",
    "false_computation",
)
CONDITIONAL_INDEXED = ConditionalAttributes(True)
CONDITIONAL_PRED = ConditionalAttributes(False)

CODECS: dict[Opcode, Codec] = dict.fromkeys(Opcode, _NONE)
for _names, _entry in _TABLE.items():
    for _name in _names.split():
        CODECS[Opcode(_name)] = _entry

# Attributes any opcode may carry.
COMMON = (*ANNOTATIONS, "control-predecessors", "metadata", "backend_config")


def attribute_texts(opcode: Opcode, attributes: Attributes) -> list[str]:
    """`name=value` texts of the opcode's own fields (called computations not included), in printed
    order."""
    codec = CODECS[opcode]
    texts: list[str] = []
    if attributes is NO_ATTRIBUTES and codec.cls is not Attributes:
        return texts  # stands for all defaults
    for field in codec.fields:
        assert field.get is not None
        value = field.get(attributes)
        if value == field.default and not field.always:
            continue
        if value is None:
            continue
        text = field.kind.show(value)
        if text is not None:
            texts.append(f"{field.name}={text}")
    return texts
