"""Messages as bytes: a topic, a head of numbers, strings and tables, and arrays, each aligned."""

from __future__ import annotations

import marshal
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_backend.runtime.processes.mpi import ALIGNMENT, aligned_bytes

_HEAD_SIZE = struct.Struct("<q")


def frame(topic: str, head: Any, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """A message: the size of the head, the head, and the bytes of arrays, each aligned."""
    encoded = marshal.dumps((topic, head))
    start = aligned(_HEAD_SIZE.size + len(encoded))
    message = aligned_bytes(start + sum(aligned(array.nbytes) for array in arrays))
    _HEAD_SIZE.pack_into(message.data, 0, len(encoded))
    message[_HEAD_SIZE.size : _HEAD_SIZE.size + len(encoded)] = np.frombuffer(encoded, np.uint8)
    for array in arrays:
        message[start : start + array.nbytes].reshape(array.shape)[...] = array
        start += aligned(array.nbytes)
    return message


def read(message: np.ndarray) -> tuple[str, Any, np.ndarray]:
    (size,) = _HEAD_SIZE.unpack_from(message.data)
    end = _HEAD_SIZE.size + size
    topic, head = marshal.loads(message[_HEAD_SIZE.size : end].data)
    return topic, head, message[aligned(end) :]


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
