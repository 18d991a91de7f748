"""What gather.py and scatter.py share: dimension numbers, out-of-bounds modes, and the declared
primitives.

The primitives are declared here and get their rules there, because each is the other's transpose.
"""

from __future__ import annotations

import builtins
import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyjax._config import options
from pyjax.core.array import Array
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.core.symbolic_dims import LARGEST, SymbolicDim
from pyjax.core.tree_util import tree_structure
from pyjax.interpreters.traced_function import trace_function
from pyjax.lax.arithmetic import min
from pyjax.lax.common import aval_of, is_integer
from pyjax.lax.compare import clamp
from pyjax.lax.convert import convert
from pyjax.lax.nary import expand_to
from pyjax.lax.shape import reshape
from pyjax.lax.shape_join import concatenate

gather_p = Primitive("gather")
scatter_p = Primitive("scatter")
scatter_add_p = Primitive("scatter-add")

Dims = tuple[int, ...]


class GatherDimensionNumbers(NamedTuple):
    """Which dimensions of `gather`'s operand, indices and result correspond (as in HLO's gather).

    Attributes:
      offset_dims: result dimensions that run inside a slice.
      collapsed_slice_dims: operand dimensions of slice size 1 left out of the result.
      start_index_map: for each component of an index vector, the operand dimension it indexes.
      operand_batching_dims, start_indices_batching_dims: dimensions that operand and indices share,
        position by position.

    >>> numbers = GatherDimensionNumbers((), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> lax.gather(jnp.arange(4), jnp.array([[3], [0]]), numbers, slice_sizes=(1,))
    Array([3, 0], dtype=int32)
    """

    offset_dims: Dims
    collapsed_slice_dims: Dims
    start_index_map: Dims
    operand_batching_dims: Dims = ()
    start_indices_batching_dims: Dims = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which dimensions of a scatter's operand, indices and updates correspond, as in HLO.

    Attributes:
      update_window_dims: update dimensions that run inside a window of the operand.
      inserted_window_dims: operand dimensions of window size 1 that updates do not have.
      scatter_dims_to_operand_dims: for each component of an index vector, the operand dimension it
        indexes.
      operand_batching_dims, scatter_indices_batching_dims: dimensions that operand and indices
        share.

    >>> numbers = ScatterDimensionNumbers(
    ...     (), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    ... )
    >>> lax.scatter(jnp.zeros(3), jnp.array([[2]]), jnp.array([5.0]), numbers)
    Array([0., 0., 5.], dtype=float32)
    """

    update_window_dims: Dims
    inserted_window_dims: Dims
    scatter_dims_to_operand_dims: Dims
    operand_batching_dims: Dims = ()
    scatter_indices_batching_dims: Dims = ()


class GatherScatterMode(enum.Enum):
    """What happens to indices out of bounds.

    CLIP: clamped so that the slice stays inside.   FILL_OR_DROP: gather returns `fill_value`,
    scatter skips the update.   PROMISE_IN_BOUNDS: the caller promises there are none.   ONE_HOT: as
    FILL_OR_DROP with 0.

    >>> lax.GatherScatterMode.from_any("clip").name
    'CLIP'
    """

    CLIP = enum.auto()
    FILL_OR_DROP = enum.auto()
    PROMISE_IN_BOUNDS = enum.auto()
    ONE_HOT = enum.auto()

    @staticmethod
    def from_any(s: str | GatherScatterMode | None) -> GatherScatterMode:
        """A mode from its name: "clip", "fill", "drop", "promise_in_bounds", "one_hot"; None is
        FILL_OR_DROP.

        Raises:
          ValueError: unknown name.
        """
        if isinstance(s, GatherScatterMode):
            return s
        mode = _MODES.get(s)
        if mode is None:
            fail(
                ValueError,
                f'Unknown gather mode "{s}"',
                fix='use "clip", "fill", "drop", "promise_in_bounds" or "one_hot".',
            )
        return mode


_MODES: dict[Any, GatherScatterMode] = {
    None: GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}


def mode_left_open(usual: GatherScatterMode) -> GatherScatterMode:
    """The mode where the user has chosen none.

    While indices out of bounds are an error (option error_checking_behavior_oob) it is the promise
    that there are none: that is what is checked, and not what was asked to be clamped or dropped.
    """
    if options.error_checking_behavior_oob.value == "raise":
        return GatherScatterMode.PROMISE_IN_BOUNDS
    return usual


_TWO_SCALARS = tree_structure(((0, 0), {}))


def combiner_jaxpr(fn: Callable[..., Any], dtype: Any) -> Any:
    """The jaxpr of a binary scalar function on `dtype` (Jaxpr without constants).

    Raises:
      NotImplementedError: the function closes over an array.
    """
    scalar = ShapedArray((), dtype)
    traced = trace_function("scatter", fn, _TWO_SCALARS, [scalar, scalar])
    if traced.consts:
        fail(
            NotImplementedError,
            "the function that is applied to elements uses arrays from outside.",
            "it runs inside of one operation, whose operands are fixed.",
            "pass scalars as Python numbers, or compute with x[indices] and set the results.",
        )
    return traced.closed.jaxpr


def shifted(dims: Sequence[int]) -> Dims:
    """The dimension numbers after a new dimension was put in front."""
    return tuple(d + 1 for d in dims)


def dims_text(dims: Sequence[int]) -> str:
    return f"({', '.join(map(str, dims))})"


def check_dims(
    op: str, what: str, dims: Sequence[int], rank: int, *, ascending: bool = True
) -> None:
    """Distinct dimension numbers in [0, rank), in ascending order if asked."""
    if ascending and list(dims) != sorted(dims):
        fail(TypeError, f"{what} in {op} op must be sorted; got {dims_text(dims)}")
    if len(set(dims)) != len(dims):
        fail(TypeError, f"{what} in {op} op must not repeat; got: {dims_text(dims)}.")
    for d in dims:
        if not 0 <= d < rank:
            fail(
                TypeError,
                f"Invalid {what} set in {op} op; valid range is [0, {rank}); got: {d}.",
            )


def check_index_operand(op: str, indices: ShapedArray) -> None:
    if not is_integer(indices.dtype):
        fail(
            ValueError,
            f"{op} indices must have an integer type, got {indices.str_short()}.",
            fix="convert them with lax.convert_element_type(indices, jnp.int32).",
        )
    if not indices.shape:
        fail(
            TypeError,
            f"{op} indices must have at least one dimension (the index vector, last), got a "
            "scalar.",
            fix="reshape the index to (1,).",
        )


def window_bounds(
    shape: Sequence[int], window: Sequence[int], index_dims: Sequence[int]
) -> list[int]:
    """For each index component, its largest value with the whole window inside the operand."""
    return [shape[d] - window[d] for d in index_dims]


def bounds_like(indices: Array, bounds: Sequence[int]) -> Array:
    """`bounds` broadcast to the shape of the indices, in their dtype (saturating)."""
    aval = aval_of(indices)
    limit = np.iinfo(aval.dtype)
    if any(type(b) is SymbolicDim for b in bounds):
        most = np.int32(builtins.min(limit.max, LARGEST))
        scalars = [min(convert(b, np.dtype(np.int32)), most) for b in bounds]
        parts = [reshape(convert(s, aval.dtype), (1,)) for s in scalars]
        return expand_to(concatenate(parts, 0), aval.shape, (len(aval.shape) - 1,))
    values = np.clip(np.asarray(bounds, np.int64), limit.min, limit.max).astype(aval.dtype)
    return expand_to(values, aval.shape, (len(aval.shape) - 1,))


def clamp_indices(indices: Array, bounds: Sequence[int]) -> Array:
    """Indices moved into [0, bound] component by component."""
    if not bounds:
        return indices
    return clamp(bounds_like(indices, [0] * len(bounds)), indices, bounds_like(indices, bounds))
