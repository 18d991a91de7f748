"""What views of buffers look like, as native code fills them in (`buffer_protocol`): bytes.

i64 bytes, i64 bytes of an element, i64 rank, 8 bytes of format; sizes; distances. Elements of no
bytes stand for a refusal, whose text follows the format.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np


def view_of(array: np.ndarray) -> tuple[memoryview | str, bytes | None]:
    """A view of an array in row-major order, or why there is none, and the form of such views;
    None: it cannot be written as a form."""
    given: Any = array
    try:
        view = memoryview(given)
    except ValueError as error:
        message = (
            f"dtype {array.dtype} has no form in the buffer protocol: {error}; bitcast it to an "
            "integer type of the same width first (x.view(...))"
        )
        return message, struct.pack("3q8s", 0, 0, 0, b"") + message.encode() + b"\0"
    written = view.format.encode()
    if len(written) > 7:
        return view, None
    step, strides = array.dtype.itemsize, [0] * array.ndim
    for d in reversed(range(array.ndim)):
        strides[d] = step
        step *= array.shape[d]
    words = struct.pack(f"{2 * array.ndim}q", *array.shape, *strides)
    return view, struct.pack("3q8s", step, array.dtype.itemsize, array.ndim, written) + words
