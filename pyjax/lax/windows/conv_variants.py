"""Compositions around conv_general_dilated: transposed convolution, patches, unshared ("local")
weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import fail
from pyjax.lax.common import dtype_of, shape_of
from pyjax.lax.dot import dot_general
from pyjax.lax.dot_types import PrecisionLike
from pyjax.lax.shape import rev, transpose
from pyjax.lax.windows.conv_dims import (
    ConvDimensionNumbers,
    conv_dimension_numbers,
    picked,
    transposed_pads,
)
from pyjax.lax.windows.convolution import conv_general_dilated
from pyjax.lax.windows.windowed import dilate_dim


def conv_transpose(
    lhs: Array,
    rhs: Array,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Array:
    """Transposed ("fractionally strided") convolution: upsamples by `strides`.

    Args:
      padding: "SAME" gives outputs of size n * stride, "VALID" n * stride + max(kernel - stride,
        0), or explicit pairs: the padding of the spread-out input, or with use_consistent_padding
        that of the forward convolution this one transposes.
      dimension_numbers: default: channels last, e.g. ("NHWC", "HWIO", "NHWC").
      transpose_kernel: reverse the kernel and exchange its channels: the exact gradient of a
        convolution.
    Raises:
      TypeError, ValueError: as conv_general_dilated.

    >>> lax.conv_transpose(jnp.ones((1, 4, 1)), jnp.ones((3, 1, 1)), (2,), "SAME").shape
    (1, 8, 1)
    """
    rank = len(shape_of(lhs)) - 2
    if dimension_numbers is None:
        letters = "DHW"[-rank:] if rank <= 3 else ""
        if rank == 1:
            letters = "H"
        if not letters and rank:
            fail(
                ValueError,
                "No 4+ dimensional dimension_number defaults.",
                fix="pass dimension_numbers.",
            )
        dimension_numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    dn = conv_dimension_numbers(shape_of(lhs), shape_of(rhs), dimension_numbers)
    dilation = (1,) * rank if rhs_dilation is None else tuple(rhs_dilation)
    kernel = [dilate_dim(k, r) for k, r in zip(picked(shape_of(rhs), dn.rhs_spec)[2:], dilation)]
    pads = transposed_pads(kernel, strides, padding, use_consistent_padding)
    if transpose_kernel:
        rhs = rev(rhs, tuple(dn.rhs_spec[2:]))
        order = list(range(rank + 2))
        o, i = dn.rhs_spec[:2]
        order[o], order[i] = i, o
        rhs = transpose(rhs, order)
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * rank,
        pads,
        lhs_dilation=strides,
        rhs_dilation=dilation,
        dimension_numbers=dn,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The patches a convolution would see, as features: feature c * prod(filter_shape) + offset.

    Args are those of conv_general_dilated; filter_shape holds the kernel's spatial sizes.

    >>> lax.conv_general_dilated_patches(jnp.ones((1, 1, 4)), (2,), (1,), "VALID").shape
    (1, 2, 3)
    """
    shape, filter_shape = shape_of(lhs), tuple(filter_shape)
    rank = len(filter_shape)
    dn = conv_dimension_numbers(shape, (1,) * (rank + 2), dimension_numbers)
    features = shape[dn.lhs_spec[1]]
    taps = math.prod(filter_shape)
    # A depthwise kernel with one filter for each position of the window.
    one_hot = np.eye(taps, dtype=np.float32).astype(dtype_of(lhs))
    kernel = np.broadcast_to(one_hot, (features, taps, taps))
    kernel = kernel.reshape((features * taps, 1, *filter_shape))
    kernel = np.ascontiguousarray(np.transpose(kernel, np.argsort(dn.rhs_spec)))
    return conv_general_dilated(
        lhs,
        kernel,
        window_strides,
        padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        dimension_numbers=dn,
        feature_group_count=features,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: PrecisionLike = None,
) -> Array:
    """Convolution with a kernel of its own at every output position ("locally connected").

    Args:
      rhs: by default [out feature, in feature * prod(filter_shape), output spatial...].
      filter_shape: spatial sizes of the kernels; the rest as in conv_general_dilated.

    >>> signal = jnp.arange(4.0).reshape(1, 1, 4)  # batch, features, positions
    >>> kernels = jnp.array([[1.0, 1.0, 1.0], [0.0, 1.0, 2.0]])[None]  # one column per position
    >>> lax.conv_general_dilated_local(signal, kernels, (1,), "VALID", (2,)).tolist()
    [[[0.0, 3.0, 8.0]]]
    """
    dn = conv_dimension_numbers(shape_of(lhs), shape_of(rhs), dimension_numbers)
    patches = conv_general_dilated_patches(
        lhs,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        ConvDimensionNumbers(dn.lhs_spec, dn.rhs_spec, dn.out_spec),
        precision if not isinstance(precision, (tuple, list)) else precision[0],
    )
    out = dot_general(
        patches,
        rhs,
        (((dn.out_spec[1],), (dn.rhs_spec[1],)), (tuple(dn.out_spec[2:]), tuple(dn.rhs_spec[2:]))),
        precision=precision,
    )
    # The dot gives [spatial..., N, O].
    rank = len(dn.out_spec) - 2
    order = [0] * (rank + 2)
    for role, d in enumerate(dn.out_spec):
        order[d] = rank + role if role < 2 else role - 2
    return transpose(out, order)
