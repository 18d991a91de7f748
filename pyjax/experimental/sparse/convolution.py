"""Convolution of sparse arrays: of all pairs of elements, those that meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.eval_shape import eval_shape
from pyjax.core.array import Array
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.experimental.sparse import coordinates, products
from pyjax.experimental.sparse.bcoo_array import BCOO, bcoo_fromdense
from pyjax.experimental.sparse.bcoo_layouts import bcoo_update_layout


def bcoo_conv_general_dilated(
    lhs: BCOO,
    rhs: BCOO | Array,
    *,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: None = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> BCOO:
    """A convolution of sparse arrays, in any number of dimensions.

    Args: as of `lax.conv_general_dilated`; `rhs` may be an array, all of whose elements are stored.
    Returns:
      BCOO without batch or dense dimensions, with an element for each pair of elements of the
      operands, most of them beside each other or outside.
    Raises:
      NotImplementedError: batch_group_count is not 1.

    >>> import numpy as np
    >>> x = BCOO.fromdense(np.array([[[1, 0, 2]]], np.float32))
    >>> w = BCOO.fromdense(np.array([[[1, 1]]], np.float32))
    >>> bcoo_conv_general_dilated(x, w, window_strides=(1,), padding="VALID").todense().tolist()
    [[[1.0, 2.0]]]
    """
    del precision, out_sharding
    if batch_group_count != 1:
        fail(
            NotImplementedError,
            f"bcoo_conv_general_dilated with {batch_group_count=}",
            "elements of all batches are paired with all of the kernel.",
            "Use lax.conv_general_dilated on dense arrays.",
        )
    if not isinstance(rhs, BCOO):
        rhs = jnp.asarray(rhs)
        rhs = bcoo_fromdense(rhs, nse=rhs.size)
    dtype = preferred_element_type or jnp.promote_types(lhs.dtype, rhs.dtype)
    lhs, rhs = (bcoo_update_layout(x, n_batch=0, n_dense=0) for x in (lhs, rhs))
    n = lhs.ndim - 2
    strides, ldil, rdil = (
        tuple(map(int, x)) if x is not None else (1,) * n
        for x in (window_strides, lhs_dilation, rhs_dilation)
    )
    numbers = lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    shape = eval_shape(
        lambda x, w: lax.conv_general_dilated(
            x, w, strides, padding, ldil, rdil, numbers, feature_group_count
        ),
        ShapedArray(lhs.shape, np.dtype(np.float32)),
        ShapedArray(rhs.shape, np.dtype(np.float32)),
    ).shape
    spatial = [lhs.shape[d] for d in numbers.lhs_spec[2:]]
    window = [rhs.shape[d] for d in numbers.rhs_spec[2:]]
    if isinstance(padding, str):
        dilated = [_dilated(a, b) for a, b in zip(spatial, ldil)]
        padding = lax.padtype_to_pads(
            dilated, [_dilated(a, b) for a, b in zip(window, rdil)], strides, padding
        )
    before = [int(p[0]) for p in padding]
    out_features = rhs.shape[numbers.rhs_spec[0]]
    per_group_in = rhs.shape[numbers.rhs_spec[1]]
    per_group_out = out_features // feature_group_count
    sizes = [shape[d] for d in numbers.out_spec[2:]]

    def places(a: Array, b: Array) -> Array:
        """Place in the output, times the strides, of what a pair of elements gives."""
        at = [
            a[i] * dil + low - b[j] * rd
            for i, j, dil, low, rd in zip(
                numbers.lhs_spec[2:], numbers.rhs_spec[2:], ldil, before, rdil
            )
        ]
        return jnp.stack(at) if at else jnp.zeros(0, a.dtype)

    def meet(a: Array, b: Array) -> Array:
        out, feature = b[numbers.rhs_spec[0]], a[numbers.lhs_spec[1]]
        own = out // per_group_out * per_group_in + b[numbers.rhs_spec[1]]
        at = places(a, b)
        ok = coordinates.inside(a[None], lhs.shape) & coordinates.inside(b[None], rhs.shape)
        inside = [
            (at[k] % step == 0) & (at[k] >= 0) & (at[k] < size * step)
            for k, (step, size) in enumerate(zip(strides, sizes))
        ]
        return jnp.all(jnp.stack([ok[0], own == feature, *inside]))

    def joint(a: Array, b: Array) -> Array:
        at = places(a, b)
        columns: list[Any] = [None] * lhs.ndim
        columns[numbers.out_spec[0]] = a[numbers.lhs_spec[0]]
        columns[numbers.out_spec[1]] = b[numbers.rhs_spec[0]].astype(a.dtype)
        for k, d in enumerate(numbers.out_spec[2:]):
            columns[d] = at[k].astype(a.dtype) // strides[k]
        return jnp.stack(columns)

    (data,) = products.outer(lax.mul, (lhs.data.astype(dtype), rhs.data.astype(dtype)))
    places_of_both = (
        coordinates.from_front(lhs.indices, lhs.shape),
        coordinates.from_front(rhs.indices, rhs.shape),
    )
    (indices,) = products.outer(joint, places_of_both)
    (keep,) = products.outer(meet, places_of_both)
    return BCOO((data, coordinates.put_outside(indices, keep, shape)), shape=shape)


def _dilated(size: int, dilation: int) -> int:
    return (size - 1) * dilation + 1 if size else 0
