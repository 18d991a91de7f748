"""What a contraction may be told: precisions, algorithms, dimension numbers."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from pyjax._config import options
from pyjax.core.errors import fail
from pyjax.lax.common import canonical_dims


class Precision(enum.Enum):
    """How exactly float32 products are formed on hardware with cheaper formats. CPUs always use
    full float32.

    >>> lax.Precision.HIGHEST
    Precision.HIGHEST
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name


_PRECISION_NAMES = {
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
    "bfloat16_3x": Precision.HIGH,
    "high": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "default": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    None: Precision.DEFAULT,
}


class DotAlgorithm(NamedTuple):
    """The types and passes in which a dot product is formed."""

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


_BF16, _F16, _F32, _F64 = ml_dtypes.bfloat16, np.float16, np.float32, np.float64


class DotAlgorithmPreset(enum.Enum):
    """Named algorithms: operand types, accumulator type, and in how many passes."""

    DEFAULT = enum.auto()
    ANY_F8_ANY_F8_F32 = enum.auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = enum.auto()
    ANY_F8_ANY_F8_ANY = enum.auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def accumulation_dtype(self) -> Any:
        """The dtype of the result this algorithm forms, or None if it follows the operands."""
        for part, dtype in (("_F64", _F64), ("_F32", _F32), ("_BF16", _BF16), ("_F16", _F16)):
            if self.name.removesuffix("_FAST_ACCUM").split("_X")[0].endswith(part):
                return dtype
        return None


PrecisionLike = Any
DotDimensionNumbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]


class RaggedDotDimensionNumbers(NamedTuple):
    """Dimension numbers of ragged_dot_general: those of the dot, the ragged dimension and the group
    dimension.
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


def canonicalize_precision(precision: PrecisionLike) -> Any:
    """None, an algorithm, or a pair of Precisions.

    None stands for the option `default_matmul_precision`.

    Raises:
      ValueError: a name or type that is no precision.
    """
    if precision is None:
        configured = options.default_matmul_precision.value
        if configured is None:
            return None
        return canonicalize_precision(configured)
    if isinstance(precision, Precision):
        return (precision, precision)
    if isinstance(precision, (DotAlgorithmPreset, DotAlgorithm)):
        return None if precision is DotAlgorithmPreset.DEFAULT else precision
    if isinstance(precision, str):
        if precision in _PRECISION_NAMES:
            named = _PRECISION_NAMES[precision]
            return (named, named)
        if precision.upper() in DotAlgorithmPreset.__members__:
            return DotAlgorithmPreset[precision.upper()]
    elif isinstance(precision, (tuple, list)) and len(precision) == 2:
        pair = tuple(p if isinstance(p, Precision) else _PRECISION_NAMES.get(p) for p in precision)
        if None not in pair:
            return pair
    fail(
        ValueError,
        f"Precision argument must be None, a string in {[n for n in _PRECISION_NAMES if n]}, a "
        "lax.Precision, "
        f"a lax.DotAlgorithm(Preset), or a pair of precisions; got {precision!r}.",
    )


def canonical_dot_dimensions(name: str, dimension_numbers: Any) -> Any:
    """((lhs contracting, rhs contracting), (lhs batch, rhs batch)) as tuples of ints."""
    try:
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    except (TypeError, ValueError):
        fail(
            TypeError,
            f"{name} dimension_numbers must be ((lhs_contracting, rhs_contracting), (lhs_batch, "
            "rhs_batch)), "
            f"got {dimension_numbers!r}.",
        )
    return (
        (canonical_dims(name, lhs_contract), canonical_dims(name, rhs_contract)),
        (canonical_dims(name, lhs_batch), canonical_dims(name, rhs_batch)),
    )
