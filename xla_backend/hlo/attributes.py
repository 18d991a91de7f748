"""Typed attributes of HLO instructions, one frozen dataclass per family of opcodes.

They are values: equal by content and hashable, so that cse and kernel caches can use them as keys.
Text printing and parsing live in printer.py and parser.py.
"""

from __future__ import annotations

import enum
from typing import Any

from xla_backend.hlo.literal import Literal
from xla_backend.hlo.shape import Shape
from xla_backend.process.values import Value as Value

Dims = tuple[int, ...]


class Attributes(Value):
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


class ParameterAttributes(Attributes):
    number: int


class ConstantAttributes(Attributes):
    literal: Literal


class DimensionsAttributes(Attributes):
    """broadcast (where each operand dimension goes), transpose, reverse, reduce, concatenate, map,
    scan, get/set-dimension-size (one dimension), all-gather, all-to-all."""

    dimensions: Dims


class IotaAttributes(Attributes):
    dimension: int


class CompareAttributes(Attributes):
    direction: ComparisonDirection
    total_order: bool = False


class SliceAttributes(Attributes):
    starts: Dims
    limits: Dims
    strides: Dims


class DynamicSliceAttributes(Attributes):
    sizes: Dims


class PadAttributes(Attributes):
    low: Dims
    high: Dims
    interior: Dims


class DotAttributes(Attributes):
    lhs_contracting: Dims
    rhs_contracting: Dims
    lhs_batch: Dims = ()
    rhs_batch: Dims = ()
    precision: tuple[Precision, ...] = ()
    algorithm: str | None = None


class RaggedDotAttributes(Attributes):
    """A dot whose dimension `lhs_ragged` of lhs is cut into groups of rows; `rhs_group` are the
    dimensions of rhs that number the groups (none when the ragged dimension is contracted or a
    batch dimension)."""

    lhs_contracting: Dims
    rhs_contracting: Dims
    lhs_ragged: Dims
    rhs_group: Dims = ()
    lhs_batch: Dims = ()
    rhs_batch: Dims = ()
    precision: tuple[Precision, ...] = ()
    algorithm: str | None = None


class WindowDimension(Value):
    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    reversal: bool = False


class WindowAttributes(Attributes):
    """reduce-window and select-and-scatter: one entry per operand dimension."""

    window: tuple[WindowDimension, ...]


class ConvolutionDimensionNumbers(Value):
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


class ConvolutionAttributes(Attributes):
    window: tuple[WindowDimension, ...]
    dimension_numbers: ConvolutionDimensionNumbers
    feature_group_count: int = 1
    batch_group_count: int = 1
    precision: tuple[Precision, ...] = ()


class GatherAttributes(Attributes):
    offset_dims: Dims
    collapsed_slice_dims: Dims
    start_index_map: Dims
    index_vector_dim: int
    slice_sizes: Dims
    operand_batching_dims: Dims = ()
    start_indices_batching_dims: Dims = ()
    indices_are_sorted: bool = False


class ScatterAttributes(Attributes):
    update_window_dims: Dims
    inserted_window_dims: Dims
    scatter_dims_to_operand_dims: Dims
    index_vector_dim: int
    input_batching_dims: Dims = ()
    scatter_indices_batching_dims: Dims = ()
    indices_are_sorted: bool = False
    unique_indices: bool = False


class SortAttributes(Attributes):
    """`places`: (lo, hi), where only these places of each row are read for what sorting puts there,
    and elements before and behind them may come in any order; () for a plain sort, which is right
    in its place, too."""

    dimension: int
    is_stable: bool = False
    places: tuple[int, ...] = ()


class ScanAttributes(Attributes):
    dimension: int
    num_carries: int
    is_reverse: bool = False
    is_associative: bool = False


class GetTupleElementAttributes(Attributes):
    index: int


class FusionAttributes(Attributes):
    kind: FusionKind


class ConditionalAttributes(Attributes):
    """`is_indexed` False: a pred chooses between called[0] (true) and called[1] (false)."""

    is_indexed: bool


class CallAttributes(Attributes):
    is_composite: bool = False


# Custom-call target of memory whose content does not matter, because all of it is written later.
ALLOCATE_BUFFER = "AllocateBuffer"
# Custom-call target that gives the k largest elements along the last dimension and their positions.
TOPK_CALL = "TopK"


class CustomCallAttributes(Attributes):
    target: str
    backend_config: str = ""
    has_side_effect: bool = False
    operand_layouts: tuple[Shape, ...] | None = None
    output_to_operand_aliasing: tuple[tuple[Dims, int, Dims], ...] = ()
    api_version: str | None = None
    schedule: str | None = None


class ReducePrecisionAttributes(Attributes):
    exponent_bits: int
    mantissa_bits: int


class FftAttributes(Attributes):
    fft_type: str  # FFT, IFFT, RFFT, IRFFT
    fft_length: Dims


class CholeskyAttributes(Attributes):
    lower: bool


class TriangularSolveAttributes(Attributes):
    left_side: bool
    lower: bool
    unit_diagonal: bool
    transpose_a: str  # NO_TRANSPOSE, TRANSPOSE, ADJOINT


class BatchNormAttributes(Attributes):
    epsilon: float
    feature_index: int


class RngAttributes(Attributes):
    distribution: str  # rng_uniform, rng_normal


class RngBitGeneratorAttributes(Attributes):
    algorithm: str  # rng_default, rng_three_fry, rng_philox


# The state that XLA's CPU programs start from.
RNG_INITIAL_STATE = 0x7012395


class RngGetAndUpdateStateAttributes(Attributes):
    delta: int


class TopKAttributes(Attributes):
    k: int
    largest: bool = True


class CollectiveAttributes(Attributes):
    """all-reduce, all-gather, all-to-all, reduce-scatter, collective-broadcast and their -start
    forms.
    """

    replica_groups: tuple[Dims, ...] = ()
    channel_id: int | None = None
    dimensions: Dims = ()
    use_global_device_ids: bool = False
    constrain_layout: bool = False


class CollectivePermuteAttributes(Attributes):
    source_target_pairs: tuple[tuple[int, int], ...]
    channel_id: int | None = None


class TransferAttributes(Attributes):
    """send, recv and their -done: the two ends of one channel."""

    channel_id: int | None = None
    is_host_transfer: bool = False


class OutfeedAttributes(Attributes):
    """`shape` (with a layout) is what the host sees; None: the operand's own. `config` is text."""

    shape: Shape | None = None
    config: str | None = None


class RawAttributes(Attributes):
    """Attributes kept as text: they say where something runs, not what it means."""

    items: tuple[tuple[str, Any], ...] = ()

    def get(self, key: str, default: Any = None) -> Any:
        return dict(self.items).get(key, default)
