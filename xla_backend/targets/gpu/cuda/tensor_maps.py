"""What launches of kernels get of arrays whose boxes they copy: CUtensorMap, which the driver makes
of an address (`cuTensorMapEncodeTiled`, CUDA Driver API, section "Tensor Map Object Management";
from CUDA 12.0 on). CuPy has no name for it, so the driver's own library is called.
"""

from __future__ import annotations

import ctypes
from typing import Any

from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.process.bounded_cache import once
from xla_backend.targets.gpu.cuda.driver import LIBRARY
from xla_backend.targets.gpu.group_code import TensorMap

_NAME = "cuTensorMapEncodeTiled"
_BYTES, _ALIGNMENT = 128, 64  # of a CUtensorMap
# Addresses that a launch remembers the maps of.
_MOST = 16
# Of cuda.h: CUtensorMapDataType, by element type and whether it is rounded to tf32 on the way;
# bytes are copied as they are. Elements are not interleaved; lines of 128 bytes are swizzled; the
# second-level cache takes 256 bytes at a time; beyond the array there are zeros.
_DATA_TYPES = {
    **{(t, False): 0 for t in (P.S8, P.U8, P.F8E4M3FN, P.F8E5M2)},
    (P.F16, False): 6,
    (P.F32, False): 7,
    (P.BF16, False): 9,
    (P.F32, True): 11,
}
_INTERLEAVE_NONE, _SWIZZLE_128B, _L2_256B, _FILL_ZEROS = 0, 3, 3, 0
_SIGNATURE = (
    ctypes.c_void_p,  # the map
    ctypes.c_int,  # type
    ctypes.c_uint32,  # rank
    ctypes.c_void_p,  # address
    ctypes.POINTER(ctypes.c_uint64),  # sizes
    ctypes.POINTER(ctypes.c_uint64),  # strides in bytes, but for the first
    ctypes.POINTER(ctypes.c_uint32),  # box
    ctypes.POINTER(ctypes.c_uint32),  # steps in the array from one element to the next
    *(ctypes.c_int,) * 4,
)


class ArrayMap:
    """What launches of one function get of one array, wherever it lies."""

    def __init__(self, map: TensorMap) -> None:
        self.buffer = map.buffer
        self._map = map
        self._known: dict[int, Map] = {}

    def at(self, address: int) -> Map:
        """The map for an address, which launches take a copy of.

        Raises:
          RuntimeFailure: the driver is too old for it, or refuses it.
        """
        found = self._known.get(address)
        if found is None:
            for oldest in list(self._known)[: max(0, len(self._known) - _MOST + 1)]:
                self._known.pop(oldest, None)
            found = self._known[address] = Map(self._map, address)
        return found


class Map:
    """128 bytes at `pointer`, as long as this is there."""

    def __init__(self, map: TensorMap, address: int) -> None:
        self._memory = ctypes.create_string_buffer(_BYTES + _ALIGNMENT)
        start = ctypes.addressof(self._memory)
        self.pointer = -(-start // _ALIGNMENT) * _ALIGNMENT
        array, size = map.array, map.type.byte_size
        rank = len(array.sizes)
        box = [*array.box, *[1] * (rank - 2)]
        status = _encode()(
            self.pointer,
            _DATA_TYPES[map.type, array.rounded],
            rank,
            address,
            (ctypes.c_uint64 * rank)(*array.sizes),
            (ctypes.c_uint64 * (rank - 1))(*[stride * size for stride in array.strides]),
            (ctypes.c_uint32 * rank)(*box),
            (ctypes.c_uint32 * rank)(*[1] * rank),
            _INTERLEAVE_NONE,
            _SWIZZLE_128B,
            _L2_256B,
            _FILL_ZEROS,
        )
        if status:
            raise RuntimeFailure(
                f"the driver makes no tensor map (error {status} of {_NAME}) of {map.type} at "
                f"{address:#x} with sizes {array.sizes}, strides {array.strides} and boxes of "
                f"{array.box}"
            )


@once
def _encode() -> Any:
    """The driver's function.

    Raises:
      RuntimeFailure: there is none.
    """
    try:
        function = getattr(_load(LIBRARY), _NAME)
    except (AttributeError, OSError) as error:
        raise RuntimeFailure(
            f"the driver has no {_NAME} ({error}), which kernels for sm_90a need: install a driver "
            "for CUDA 12.0 or later"
        ) from error
    function.argtypes, function.restype = _SIGNATURE, ctypes.c_int
    return function


def _load(name: str) -> Any:
    return ctypes.CDLL(name)
