"""Typed attributes of HLO instructions, one frozen dataclass per family of opcodes.

They are values: equal by content and hashable, so that cse and kernel caches can use them as keys.
Text printing and parsing live in printer.py and parser.py.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from xla_backend.hlo.literal import Literal
from xla_backend.hlo.shape import Shape

Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Attributes:
    """Base of all; used itself by opcodes that have no attributes."""


NO_ATTRIBUTES = Attributes()


class Precision(enum.Enum):
    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"


class ComparisonDirection(enum.Enum):
    EQ = "EQ"
    NE = "NE"
    GE = "GE"
    GT = "GT"
    LE = "LE"
    LT = "LT"


class FusionKind(enum.Enum):
    LOOP = "kLoop"
    INPUT = "kInput"
    OUTPUT = "kOutput"
    CUSTOM = "kCustom"


@dataclass(frozen=True, slots=True)
class ParameterAttributes(Attributes):
    number: int


@dataclass(frozen=True, slots=True)
class ConstantAttributes(Attributes):
    literal: Literal


@dataclass(frozen=True, slots=True)
class DimensionsAttributes(Attributes):
    """broadcast (where each operand dimension goes), transpose, reverse, reduce, concatenate, map,
    scan,
    get/set-dimension-size (one dimension), all-gather, all-to-all."""

    dimensions: Dims


@dataclass(frozen=True, slots=True)
class IotaAttributes(Attributes):
    dimension: int


@dataclass(frozen=True, slots=True)
class CompareAttributes(Attributes):
    direction: ComparisonDirection
    total_order: bool = False


@dataclass(frozen=True, slots=True)
class SliceAttributes(Attributes):
    starts: Dims
    limits: Dims
    strides: Dims


@dataclass(frozen=True, slots=True)
class DynamicSliceAttributes(Attributes):
    sizes: Dims


@dataclass(frozen=True, slots=True)
class PadAttributes(Attributes):
    low: Dims
    high: Dims
    interior: Dims


@dataclass(frozen=True, slots=True)
class DotAttributes(Attributes):
    lhs_contracting: Dims
    rhs_contracting: Dims
    lhs_batch: Dims = ()
    rhs_batch: Dims = ()
    precision: tuple[Precision, ...] = ()
    algorithm: str | None = None


@dataclass(frozen=True, slots=True)
class WindowDimension:
    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    reversal: bool = False


@dataclass(frozen=True, slots=True)
class WindowAttributes(Attributes):
    """reduce-window and select-and-scatter: one entry per operand dimension."""

    window: tuple[WindowDimension, ...]


@dataclass(frozen=True, slots=True)
class ConvolutionDimensionNumbers:
    """Positions of batch, feature and spatial dimensions in input, kernel and output."""

    input_batch: int
    input_feature: int
    input_spatial: Dims
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: Dims
    output_batch: int
    output_feature: int
    output_spatial: Dims


@dataclass(frozen=True, slots=True)
class ConvolutionAttributes(Attributes):
    window: tuple[WindowDimension, ...]
    dimension_numbers: ConvolutionDimensionNumbers
    feature_group_count: int = 1
    batch_group_count: int = 1
    precision: tuple[Precision, ...] = ()


@dataclass(frozen=True, slots=True)
class GatherAttributes(Attributes):
    offset_dims: Dims
    collapsed_slice_dims: Dims
    start_index_map: Dims
    index_vector_dim: int
    slice_sizes: Dims
    operand_batching_dims: Dims = ()
    start_indices_batching_dims: Dims = ()
    indices_are_sorted: bool = False


@dataclass(frozen=True, slots=True)
class ScatterAttributes(Attributes):
    update_window_dims: Dims
    inserted_window_dims: Dims
    scatter_dims_to_operand_dims: Dims
    index_vector_dim: int
    input_batching_dims: Dims = ()
    scatter_indices_batching_dims: Dims = ()
    indices_are_sorted: bool = False
    unique_indices: bool = False


@dataclass(frozen=True, slots=True)
class SortAttributes(Attributes):
    dimension: int
    is_stable: bool = False


@dataclass(frozen=True, slots=True)
class ScanAttributes(Attributes):
    dimension: int
    num_carries: int
    is_reverse: bool = False
    is_associative: bool = False


@dataclass(frozen=True, slots=True)
class GetTupleElementAttributes(Attributes):
    index: int


@dataclass(frozen=True, slots=True)
class FusionAttributes(Attributes):
    kind: FusionKind


@dataclass(frozen=True, slots=True)
class ConditionalAttributes(Attributes):
    """`is_indexed` False: a pred chooses between called[0] (true) and called[1] (false)."""

    is_indexed: bool


@dataclass(frozen=True, slots=True)
class CallAttributes(Attributes):
    is_composite: bool = False


@dataclass(frozen=True, slots=True)
class CustomCallAttributes(Attributes):
    target: str
    backend_config: str = ""
    has_side_effect: bool = False
    operand_layouts: tuple[Shape, ...] | None = None
    output_to_operand_aliasing: tuple[tuple[Dims, int, Dims], ...] = ()
    api_version: str | None = None
    schedule: str | None = None


@dataclass(frozen=True, slots=True)
class ReducePrecisionAttributes(Attributes):
    exponent_bits: int
    mantissa_bits: int


@dataclass(frozen=True, slots=True)
class FftAttributes(Attributes):
    fft_type: str  # FFT, IFFT, RFFT, IRFFT
    fft_length: Dims


@dataclass(frozen=True, slots=True)
class CholeskyAttributes(Attributes):
    lower: bool


@dataclass(frozen=True, slots=True)
class TriangularSolveAttributes(Attributes):
    left_side: bool
    lower: bool
    unit_diagonal: bool
    transpose_a: str  # NO_TRANSPOSE, TRANSPOSE, ADJOINT


@dataclass(frozen=True, slots=True)
class BatchNormAttributes(Attributes):
    epsilon: float
    feature_index: int


@dataclass(frozen=True, slots=True)
class RngAttributes(Attributes):
    distribution: str  # rng_uniform, rng_normal


@dataclass(frozen=True, slots=True)
class RngBitGeneratorAttributes(Attributes):
    algorithm: str  # rng_default, rng_three_fry, rng_philox


@dataclass(frozen=True, slots=True)
class RngGetAndUpdateStateAttributes(Attributes):
    delta: int


@dataclass(frozen=True, slots=True)
class TopKAttributes(Attributes):
    k: int
    largest: bool = True


@dataclass(frozen=True, slots=True)
class CollectiveAttributes(Attributes):
    """all-reduce, all-gather, all-to-all, reduce-scatter, collective-broadcast and their -start
    forms.
    """

    replica_groups: tuple[Dims, ...] = ()
    channel_id: int | None = None
    dimensions: Dims = ()
    use_global_device_ids: bool = False
    constrain_layout: bool = False


@dataclass(frozen=True, slots=True)
class CollectivePermuteAttributes(Attributes):
    source_target_pairs: tuple[tuple[int, int], ...]
    channel_id: int | None = None


@dataclass(frozen=True, slots=True)
class RawAttributes(Attributes):
    """Attributes of opcodes this compiler parses and prints but does not generate code for yet."""

    items: tuple[tuple[str, Any], ...] = ()

    def get(self, key: str, default: Any = None) -> Any:
        return dict(self.items).get(key, default)
