"""Arithmetic of windows: padding strings, sizes of dilated and strided windows. No primitive lives
here.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Sequence
from typing import Any

from pyjax.core.errors import fail
from xla_backend.hlo.attributes import WindowDimension

Pads = tuple[tuple[int, int], ...]


class PaddingType(enum.Enum):
    VALID = 1
    SAME = 2
    SAME_LOWER = 3


def dilate_dim(size: int, dilation: int) -> int:
    """Size of a dimension after `dilation - 1` holes are put between its elements."""
    return 0 if size == 0 else 1 + dilation * (size - 1)


def stride_dim(size: int, window: int, stride: int) -> int:
    """How many positions a window of `window` elements has along `size` elements."""
    return 0 if window > size else (size - window) // stride + 1


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | PaddingType,
) -> list[tuple[int, int]]:
    """Explicit (low, high) padding for "VALID", "SAME" or "SAME_LOWER".

    SAME gives ceil(size / stride) outputs; an odd amount of padding puts the extra element at the
    end (SAME_LOWER: at the start).

    Raises:
      RuntimeError: unknown string.   TypeError: neither string nor PaddingType.

    >>> lax.padtype_to_pads((5,), (3,), (1,), "SAME")
    [(1, 1)]
    """
    if isinstance(padding, str):
        kind = PaddingType.__members__.get(padding.upper())
        if kind is None:
            fail(
                RuntimeError,
                "Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got "
                f"{padding}.",
                fix="use one of these strings or explicit (low, high) pairs.",
            )
        padding = kind
    if not isinstance(padding, PaddingType):
        fail(
            TypeError,
            f"padding must be a string or a sequence of pairs, got {padding!r}.",
        )
    if padding is PaddingType.VALID:
        return [(0, 0)] * len(in_shape)
    pads = []
    for size, window, stride in zip(in_shape, window_shape, window_strides):
        outputs = -(-size // stride)
        total = max((outputs - 1) * stride + window - size, 0)
        small, large = total // 2, total - total // 2
        pads.append((small, large) if padding is PaddingType.SAME else (large, small))
    return pads


def canonical_pads(name: str, padding: Any, rank: int) -> Pads:
    """Explicit padding as a tuple of pairs of Python ints.

    Raises:
      TypeError: not a sequence of pairs.   ValueError: not `rank` pairs.
    """
    try:
        pads = tuple((operator.index(low), operator.index(high)) for low, high in padding)
    except (TypeError, ValueError):
        fail(
            TypeError,
            f"{name} padding must be a string or a sequence of (low, high) pairs of integers, got "
            f"{padding!r}.",
            fix="use 'SAME', 'VALID', or for example ((1, 1), (0, 2)).",
        )
    if len(pads) != rank:
        fail(
            ValueError,
            f"{name} got {len(pads)} padding pairs for {rank} dimensions.",
            fix="give one (low, high) pair for each dimension.",
        )
    return pads


def positive_ints(
    name: str, what: str, values: Sequence[int] | None, rank: int, *, zero: bool = False
) -> tuple[int, ...]:
    """`values` as a tuple of `rank` positive ints; None means ones."""
    if values is None:
        return (1,) * rank
    ints = tuple(operator.index(v) for v in values)
    if len(ints) != rank:
        fail(
            TypeError,
            f"{name} got the wrong number of {what}: {rank} needed, got {ints}.",
            fix=f"give one entry for each of the {rank} dimensions.",
        )
    if any(v < (0 if zero else 1) for v in ints):
        sign = "nonnegative" if zero else "strictly positive"
        fail(TypeError, f"{name} {what} must have every element be {sign}, got {ints}.")
    return ints


def window_output_shape(
    shape: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Pads,
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> tuple[int, ...]:
    """How many positions a window has in every dimension."""
    return tuple(
        stride_dim(dilate_dim(n, bd) + low + high, dilate_dim(w, wd), s)
        for n, w, s, (low, high), bd, wd in zip(
            shape, window, strides, padding, base_dilation, window_dilation
        )
    )


def hlo_window(
    window: Sequence[int],
    strides: Sequence[int],
    padding: Pads,
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> tuple[WindowDimension, ...]:
    return tuple(
        WindowDimension(
            size=w,
            stride=s,
            padding_low=low,
            padding_high=high,
            base_dilation=bd,
            window_dilation=wd,
        )
        for w, s, (low, high), bd, wd in zip(
            window, strides, padding, base_dilation, window_dilation
        )
    )


# What a batch dimension means to each parameter of a window: a window of one element, moving by
# one.
_NEUTRAL: dict[str, Any] = {
    "window_dimensions": 1,
    "window_strides": 1,
    "padding": (0, 0),
    "base_dilation": 1,
    "window_dilation": 1,
}


def with_batch_dimension(params: dict[str, Any], dim: int) -> dict[str, Any]:
    """Parameters of a windowed primitive whose operand got a batch dimension at `dim`."""
    result = dict(params)
    for key, neutral in _NEUTRAL.items():
        if key in result:
            values = list(result[key])
            values.insert(dim, neutral)
            result[key] = tuple(values)
    return result


def window_offsets(window: Sequence[int]) -> list[tuple[int, ...]]:
    """All positions inside a window, in row-major order."""
    offsets: list[tuple[int, ...]] = [()]
    for size in window:
        offsets = [(*o, i) for o in offsets for i in range(size)]
    return offsets
