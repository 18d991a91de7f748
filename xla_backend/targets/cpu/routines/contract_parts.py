"""What contracts of several kinds of routines say, and how their references find elements."""

from __future__ import annotations

import numpy as np

from xla_backend.program.routines import Kind, Parameter

Array = np.ndarray


def numbers(names: str) -> list[Parameter]:
    return [Parameter(name, Kind.NUMBER) for name in names.split()]


def grid(*axes: tuple[int, int]) -> Array:
    """Indices of an array with the given (extent, stride) axes in flat memory."""
    index: Array = np.zeros((), np.int64)
    for extent, stride in axes:
        index = index[..., None] + np.arange(extent) * stride
    return index
