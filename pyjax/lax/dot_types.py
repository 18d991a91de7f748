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
    """The types and passes in which a dot product is formed: one of the named ways
    (`DotAlgorithmPreset`), spelled out.

    >>> algorithm = lax.DotAlgorithm(jnp.bfloat16, jnp.bfloat16, jnp.float32)
    >>> x = jnp.ones((2, 3), jnp.bfloat16)
    >>> lax.dot(x, x.T, precision=algorithm, preferred_element_type=jnp.float32)[0, 0].dtype
    dtype('float32')
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


_BY_NAME = {"F64": np.float64, "F32": np.float32, "BF16": ml_dtypes.bfloat16, "F16": np.float16}


class DotAlgorithmPreset(enum.Enum):
    """Named algorithms: operand types, accumulator type, and in how many passes.

    >>> x = jnp.ones((2, 3))
    >>> float(lax.dot(x, x.T, precision=lax.DotAlgorithmPreset.F32_F32_F32)[0, 0])
    3.0
    """

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
        for part, dtype in _BY_NAME.items():
            if self.name.removesuffix("_FAST_ACCUM").split("_X")[0].endswith(f"_{part}"):
                return dtype
        return None


def _spelled_out() -> dict[DotAlgorithm, DotAlgorithmPreset]:
    """The named algorithms whose types have a dtype: tf32 has none, and `ANY` is none."""
    passes = {1: "", 3: "_X3", 6: "_X6", 9: "_X9"}
    found = {}
    for operands, sums, counts in (
        ("F16", "F16", (1,)),
        ("F16", "F32", (1,)),
        ("BF16", "BF16", (1,)),
        ("BF16", "F32", (1, 3, 6, 9)),
        ("F32", "F32", (1,)),
        ("F64", "F64", (1,)),
    ):
        read, kept = np.dtype(_BY_NAME[operands]), np.dtype(_BY_NAME[sums])
        for count in counts:
            algorithm = DotAlgorithm(read, read, kept, num_primitive_operations=count)
            name = f"{operands}_{operands}_{sums}{passes[count]}"
            found[algorithm] = DotAlgorithmPreset[name]
    return found


_NAMED = _spelled_out()


def _preset(algorithm: DotAlgorithm) -> DotAlgorithmPreset:
    types = {field: np.dtype(getattr(algorithm, field)) for field in DotAlgorithm._fields[:3]}
    found = _NAMED.get(algorithm._replace(**types))
    if found is None:
        fail(
            ValueError,
            f"{algorithm} is not supported.",
            "Products are formed in one of the ways that have a name.",
            f"One of {', '.join(map(str, _NAMED.values()))} of lax.DotAlgorithmPreset.",
        )
    return found


PrecisionLike = Any
DotDimensionNumbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]


class RaggedDotDimensionNumbers(NamedTuple):
    """Dimension numbers of ragged_dot_general: those of the dot, the ragged dimension and the group
    dimension.

    >>> rows = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
    >>> x, w, sizes = jnp.ones((4, 3)), jnp.ones((2, 3, 5)), jnp.array([1, 3])
    >>> lax.ragged_dot_general(x, w, sizes, rows).shape
    (4, 5)
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


def canonicalize_precision(precision: PrecisionLike) -> Any:
    """None, the name of an algorithm, or a pair of Precisions.

    None stands for the option `default_matmul_precision`.

    Raises:
      ValueError: a name or type that is no precision, or an algorithm that has no name.
    """
    if precision is None:
        configured = options.default_matmul_precision.value
        if configured is None:
            return None
        return canonicalize_precision(configured)
    if isinstance(precision, Precision):
        return (precision, precision)
    if isinstance(precision, DotAlgorithm):
        return _preset(precision)
    if isinstance(precision, DotAlgorithmPreset):
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
        f"lax.Precision, a lax.DotAlgorithm(Preset), or a pair of precisions; got {precision!r}.",
    )


def canonical_dot_dimensions(name: str, dimension_numbers: Any) -> Any:
    """((lhs contracting, rhs contracting), (lhs batch, rhs batch)) as tuples of ints."""
    try:
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    except (TypeError, ValueError):
        fail(
            TypeError,
            f"{name} dimension_numbers must be ((lhs_contracting, rhs_contracting), (lhs_batch, "
            f"rhs_batch)), got {dimension_numbers!r}.",
        )
    return (
        (canonical_dims(name, lhs_contract), canonical_dims(name, rhs_contract)),
        (canonical_dims(name, lhs_batch), canonical_dims(name, rhs_batch)),
    )
