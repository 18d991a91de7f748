"""Dimension numbers of convolutions, and the shapes they lead to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pyjax.core.errors import fail
from pyjax.lax.windows.windowed import (
    Pads,
    canonical_pads,
    dilate_dim,
    padtype_to_pads,
    positive_ints,
    stride_dim,
)


class ConvDimensionNumbers(NamedTuple):
    """Positions (batch, feature, spatial...) in lhs and output, (out feature, in feature,
    spatial...) in rhs.

    >>> lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 16), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


ConvGeneralDilatedDimensionNumbers = (
    None | ConvDimensionNumbers | tuple[str, str, str]  # what dimension_numbers arguments may be
)


def conv_general_permutations(
    dimension_numbers: Sequence[str],
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Permutations to (N, C, spatial...), (O, I, spatial...), (N, C, spatial...) from strings like
    "NHWC".

    Spatial letters are those of the rhs string, in its order.

    Raises:
      TypeError: a letter is missing, repeated, or not shared by the three strings.

    >>> conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    lhs, rhs, out = dimension_numbers
    for i, (text, pair) in enumerate(zip((lhs, rhs, out), ("NC", "OI", "NC"))):
        if any(text.count(letter) != 1 for letter in pair):
            fail(
                TypeError,
                f"convolution dimension_numbers[{i}] must contain the characters '{pair[0]}' and "
                f"'{pair[1]}' exactly once, got {text}.",
            )
        if len(set(text)) != len(text):
            fail(
                TypeError,
                f"convolution dimension_numbers[{i}] cannot have duplicate characters, got {text}.",
            )
    spatial = [c for c in rhs if c not in "OI"]
    for text in (lhs, out):
        if sorted(c for c in text if c not in "NC") != sorted(spatial):
            fail(
                TypeError,
                "convolution dimension_numbers elements must each have the same set of spatial "
                f"characters, got {tuple(dimension_numbers)}.",
            )

    def permutation(text: str, pair: str) -> tuple[int, ...]:
        return tuple(text.index(c) for c in (*pair, *spatial))

    return permutation(lhs, "NC"), permutation(rhs, "OI"), permutation(out, "NC")


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """ConvDimensionNumbers from None (batch, feature, spatial), three strings, or themselves.

    Raises:
      TypeError: ranks differ or the strings do not fit.

    >>> layout = ("NHWC", "HWIO", "NHWC")
    >>> lax.conv_dimension_numbers((1, 5, 5, 3), (2, 2, 3, 8), layout).lhs_spec
    (0, 3, 1, 2)
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return ConvDimensionNumbers(*(tuple(int(d) for d in spec) for spec in dimension_numbers))
    if len(lhs_shape) != len(rhs_shape):
        fail(
            TypeError,
            f"convolution requires lhs and rhs ndim to be equal, got {len(lhs_shape)} and "
            f"{len(rhs_shape)}.",
            f"the shapes are {tuple(lhs_shape)} and {tuple(rhs_shape)}.",
            "add batch and feature dimensions, e.g. x[None, None].",
        )
    rank = len(lhs_shape)
    if dimension_numbers is None:
        plain = tuple(range(rank))
        return ConvDimensionNumbers(plain, plain, plain)
    if isinstance(dimension_numbers, (list, tuple)):
        if len(dimension_numbers) != 3:
            fail(
                TypeError,
                f"convolution dimension_numbers list/tuple must be length 3, got "
                f"{len(dimension_numbers)}.",
                fix='for example ("NHWC", "HWIO", "NHWC").',
            )
        if not all(isinstance(d, str) for d in dimension_numbers):
            fail(
                TypeError,
                "convolution dimension_numbers elements must be strings, got "
                f"{[type(d).__name__ for d in dimension_numbers]}.",
            )
        for i, text in enumerate(dimension_numbers):
            if len(text) != rank:
                fail(
                    TypeError,
                    f"convolution dimension_numbers[{i}] must have len equal to the ndim of lhs "
                    f"and rhs, got {len(text)} for lhs and rhs shapes {tuple(lhs_shape)} and "
                    f"{tuple(rhs_shape)}.",
                )
        return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))
    fail(
        TypeError,
        f"convolution dimension_numbers must be tuple/list or None, got {type(dimension_numbers)}.",
    )


def picked(shape: Sequence[int], spec: Sequence[int]) -> tuple[int, ...]:
    """The sizes of a shape in the order of a spec."""
    return tuple(shape[d] for d in spec)


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: str | Pads,
    batch_group_count: int = 1,
) -> tuple[int, ...]:
    """Output shape for lhs [N, C, spatial...], rhs [O, I, spatial...] and explicit or string
    padding.

    Raises:
      TypeError: not one pair of pads or one stride for each spatial dimension.
      RuntimeError: a string that is none of "SAME", "SAME_LOWER" and "VALID".

    >>> conv_shape_tuple((1, 3, 8, 8), (16, 3, 3, 3), (1, 1), ((0, 0), (0, 0)))
    (1, 16, 6, 6)
    """
    strides = positive_ints("convolution", "strides", strides, len(lhs_shape) - 2)
    if isinstance(pads, str):
        pads = tuple(padtype_to_pads(lhs_shape[2:], rhs_shape[2:], strides, pads))
    if len(pads) != len(lhs_shape) - 2:
        fail(
            TypeError,
            f"Wrong number of explicit pads for convolution: expected {len(lhs_shape) - 2}, got "
            f"{len(pads)}.",
        )
    spatial = tuple(
        stride_dim(max(0, n + low + high), k, s)
        for n, (low, high), k, s in zip(lhs_shape[2:], pads, rhs_shape[2:], strides)
    )
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *spatial)


def conv_general_dilated_shape(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Pads,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: ConvDimensionNumbers,
    batch_group_count: int,
) -> tuple[int, ...]:
    lhs = picked(lhs_shape, dimension_numbers.lhs_spec)
    rhs = picked(rhs_shape, dimension_numbers.rhs_spec)
    lhs = lhs[:2] + tuple(dilate_dim(n, d) for n, d in zip(lhs[2:], lhs_dilation))
    rhs = rhs[:2] + tuple(dilate_dim(n, d) for n, d in zip(rhs[2:], rhs_dilation))
    out = conv_shape_tuple(lhs, rhs, window_strides, padding, batch_group_count)
    result = [0] * len(out)
    for size, d in zip(out, dimension_numbers.out_spec):
        result[d] = size
    return tuple(result)


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Pads,
    dimension_numbers: Any,
) -> tuple[int, ...]:
    """Output shape of a convolution without dilation; see `conv_shape_tuple`.

    >>> numbers = ("NHWC", "HWIO", "NHWC")
    >>> conv_general_shape_tuple((1, 8, 8, 3), (3, 3, 3, 16), (2, 2), ((0, 0), (0, 0)), numbers)
    (1, 3, 3, 16)
    >>> conv_general_shape_tuple((1, 8, 8, 3), (3, 3, 3, 16), (2, 2), "SAME", numbers)
    (1, 4, 4, 16)
    """
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    ones = (1,) * (len(lhs_shape) - 2)
    return conv_general_dilated_shape(
        lhs_shape, rhs_shape, window_strides, padding, ones, ones, numbers, 1
    )


def _transposed_pad(k: int, s: int, padding: Any, consistent: bool) -> tuple[int, int]:
    if padding == "SAME":
        total = k + s - 2
        before = k - 1 if s > k - 1 else -(-total // 2)
    elif padding == "VALID":
        total = k + s - 2 + max(k - s, 0)
        before = k - 1
    else:
        before = k - 1 - padding[0]
        total = before + k - 1 - padding[1]
        if not consistent:
            before, total = padding[0], padding[0] + padding[1]
    return before, total - before


def transposed_pads(
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    consistent: bool = False,
) -> Pads:
    """Padding of the spread-out input that makes the sizes of a transposed convolution come out
    right: see `lax.conv_transpose`.

    Raises:
      ValueError: a string that is neither "SAME" nor "VALID", or not one pair for each dimension.
      TypeError: neither a string nor pairs.
    """
    if not isinstance(padding, str):
        wanted: Sequence[Any] = canonical_pads("conv_transpose", padding, len(kernel))
    elif padding.upper() in ("SAME", "VALID"):
        wanted = [padding.upper()] * len(kernel)
    else:
        fail(
            ValueError,
            f"Padding mode must be 'SAME' or 'VALID', got {padding!r}.",
            fix="use one of these or explicit pairs.",
        )
    return tuple(_transposed_pad(k, s, p, consistent) for k, s, p in zip(kernel, strides, wanted))


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Any,
) -> tuple[int, ...]:
    """Output shape of a transposed convolution, with the padding of `lax.conv_transpose`.

    >>> numbers = ("NHWC", "HWIO", "NHWC")
    >>> lax.conv_transpose_shape_tuple((1, 8, 8, 3), (3, 3, 3, 4), (2, 2), "SAME", numbers)
    (1, 16, 16, 4)
    """
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    kernel = picked(rhs_shape, numbers.rhs_spec)[2:]
    strides = positive_ints("convolution", "strides", window_strides, len(kernel))
    pads = transposed_pads(kernel, strides, padding)
    ones = (1,) * len(kernel)
    return conv_general_dilated_shape(lhs_shape, rhs_shape, ones, pads, strides, ones, numbers, 1)
