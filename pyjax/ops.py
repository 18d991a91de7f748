"""Reductions over segments: rows that share an id are combined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.core import dtypes
from pyjax.core.errors import new_error
from pyjax.core.trace import Tracer
from pyjax.lax.common import real_dtype
from pyjax.lax.reshard import computed_as
from pyjax.numpy.examples import with_example
from pyjax.numpy.util import check_arraylike

Array = Any


def _segment_reduction(name: str, update: str, start: Callable[[Any], Any], doc: str) -> Any:
    def reduce(
        data: Any,
        segment_ids: Any,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: Any = None,
        out_sharding: Any = None,
    ) -> Array:
        check_arraylike(name, data, segment_ids)
        if out_sharding is not None:
            plain = lambda data, ids: reduce(
                data, ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode
            )
            return computed_as(name, out_sharding, plain, data, segment_ids)
        data, ids = jnp.asarray(data), jnp.asarray(segment_ids)
        if ids.dtype.kind not in "iu":
            raise new_error(TypeError, f"{name}: segment_ids must be integers, got {ids.dtype}")
        if ids.shape != data.shape[: ids.ndim]:
            raise new_error(
                ValueError,
                f"{name}: segment_ids has shape {ids.shape}, which is no prefix of the data's "
                f"shape {data.shape}",
            )
        if num_segments is None:
            if isinstance(ids, Tracer):
                raise new_error(
                    TypeError,
                    f"{name}: inside jit the number of segments must be given (num_segments=...), "
                    "because it is a shape",
                )
            num_segments = int(np.max(ids, initial=-1)) + 1
        if num_segments < 0:
            raise new_error(
                ValueError, f"{name}: num_segments must not be negative, got {num_segments}"
            )
        empty = start(real_dtype(data.dtype))
        out = jnp.full((num_segments, *data.shape[ids.ndim :]), empty, data.dtype)
        at = out.at[ids]
        options = {
            "indices_are_sorted": indices_are_sorted,
            "unique_indices": unique_indices,
            "mode": "drop" if mode is None else mode,
            "wrap_negative_indices": False,
        }
        if not bucket_size:
            return getattr(at, update)(data, **options)
        # Partial results per bucket: fewer roundings in long sums.
        parts = []
        for first in range(0, data.shape[0], bucket_size):
            chunk = slice(first, first + bucket_size)
            parts.append(getattr(out.at[ids[chunk]], update)(data[chunk], **options))
        combine = getattr(jnp, _COMBINE[update])
        # Sums of narrow integers would be wider.
        return combine(jnp.stack(parts), axis=0).astype(data.dtype)

    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = with_example(name, doc + _DETAILS)
    return reduce


_COMBINE = {"add": "sum", "multiply": "prod", "max": "max", "min": "min"}
_DETAILS = """

    Args:
      data: any shape; segment_ids: integers, whose shape is a prefix of the data's.
      num_segments: size of the result's first axis; by default the largest id plus one.
      indices_are_sorted, unique_indices: promises that allow faster code.
      bucket_size: combine in blocks of this many rows first.
      mode: what ids out of range do (default: they are dropped).
      out_sharding: how the result lies over mesh axes of type Explicit; needed if types say that
        the data are split.
    Returns:
      An array of the data's dtype and shape, its first axes replaced by one of `num_segments`.
    Raises:
      TypeError: ids that are no integers, or no `num_segments` where the ids are traced.
      ValueError: the shape of the ids is no prefix of the data's, or `num_segments` is negative."""


segment_sum = _segment_reduction(
    "segment_sum", "add", lambda _: 0, "Sum of the rows of each segment; 0 if empty."
)
segment_prod = _segment_reduction(
    "segment_prod", "multiply", lambda _: 1, "Product of the rows of each segment; 1 if empty."
)
segment_max = _segment_reduction(
    "segment_max",
    "max",
    dtypes.lowest,
    "Largest of the rows of each segment; -inf, or the least integer, if empty.",
)
segment_min = _segment_reduction(
    "segment_min",
    "min",
    dtypes.highest,
    "Smallest of the rows of each segment; inf, or the largest integer, if empty.",
)
