"""The driver's maps of arrays, for the stand-in of CuPy: made of what the driver is told, and
looked at by launches."""

from __future__ import annotations

import ctypes
import struct
import types
from collections.abc import Sequence
from typing import Any

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.ir import Buffer, Kernel, Loop
from xla_backend.program.ir import launched_buffers
from xla_backend.targets.gpu.kernel_functions import boxed_arrays

INVALID = 1
_FORMAT = "<iIQ3Q2Q3I3I4i"
# CUtensorMapDataType of cuda.h: UINT8, FLOAT16, FLOAT32, BFLOAT16, TFLOAT32.
_SIZES = {0: 1, 6: 2, 7: 4, 9: 2, 11: 4}
_TYPES = {P.F16: 6, P.BF16: 9}
# INTERLEAVE_NONE, SWIZZLE_128B, L2_PROMOTION_L2_256B, FLOAT_OOB_FILL_NONE.
_MODES = (0, 3, 3, 0)


def encode(
    map: int,
    type: int,
    rank: int,
    address: int,
    sizes: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    steps: Sequence[int],
    *modes: int,
) -> int:
    """cuTensorMapEncodeTiled: refuses what its documentation does."""
    if (
        map % 64
        or address % 16
        or type not in _SIZES
        or not 1 <= rank <= 5
        or any(not 0 < sizes[i] <= 1 << 32 for i in range(rank))
        or any(s % 16 or not 0 < s < 1 << 40 for s in (strides[i] for i in range(rank - 1)))
        or any(not 0 < box[i] <= 256 for i in range(rank))
        or box[0] * _SIZES[type] > 128
    ):
        return INVALID
    padded = [
        [*(given[i] for i in range(count)), *[0] * (most - count)]
        for given, count, most in (
            (sizes, rank, 3),
            (strides, rank - 1, 2),
            (box, rank, 3),
            (steps, rank, 3),
        )
    ]
    numbers = [number for part in padded for number in part]
    packed = struct.pack(_FORMAT, type, rank, address, *numbers, *modes)
    ctypes.memmove(map, packed, len(packed))
    return 0


def fake_driver() -> Any:
    """The driver's library."""

    class Function:
        """Takes what ctypes would make of arguments."""

        argtypes: Any = None
        restype: Any = None

        def __call__(self, *arguments: Any) -> int:
            return encode(*arguments)

    return types.SimpleNamespace(cuTensorMapEncodeTiled=Function())


def check(kernel: Kernel, stage: Loop, addresses: Sequence[int], pointers: Sequence[int]) -> None:
    """The maps of a launch are those of the arrays that its stage copies boxes of."""
    where: dict[Buffer, int] = dict(zip(launched_buffers(kernel), addresses))
    for (buffer, array), pointer in zip(boxed_arrays(stage), pointers, strict=True):
        assert pointer % 64 == 0
        found = struct.unpack(_FORMAT, ctypes.string_at(pointer, struct.calcsize(_FORMAT)))
        kind, rank, address = found[:3]
        size = buffer.element_type.byte_size
        wanted = 11 if array.rounded else {1: 0, 4: 7}.get(size, _TYPES.get(buffer.element_type))
        assert (kind, rank, address) == (wanted, len(array.sizes), where[buffer])
        assert found[3 : 3 + rank] == array.sizes
        assert found[6 : 5 + rank] == tuple(stride * size for stride in array.strides)
        assert found[8 : 8 + rank] == (*array.box, *[1] * (rank - 2))
        assert found[11 : 11 + rank] == (1,) * rank and found[14:] == _MODES
