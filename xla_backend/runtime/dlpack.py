"""DLPack of bfloat16 in host memory.

NumPy, which makes and reads the capsules, takes the type for a void: it is handed unsigned
integers of the same width, and the element type in the capsule is changed.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

# Of the structure DLDataType: code and bits.
_UNSIGNED_16 = (1, 16)
_BFLOAT_16 = (4, 16)

# Where the element type lies, by the capsule's name: behind address, device and number of axes of
# the tensor, which has a header since version 1.0.
_ELEMENT_TYPE = {b"dltensor": 20, b"dltensor_versioned": 32 + 20}

_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
_address = ctypes.pythonapi.PyCapsule_GetPointer
_address.argtypes, _address.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p


def _replaced(capsule: Any, old: tuple[int, int], new: tuple[int, int]) -> bool:
    """Whether the elements of the tensor were of the old type; they are of the new one then."""
    for name, offset in _ELEMENT_TYPE.items():
        if _is_valid(capsule, name):
            element_type = (ctypes.c_uint8 * 2).from_address(_address(capsule, name) + offset)
            if tuple(element_type) == old:
                element_type[:] = list(new)
                return True
    return False


def exported(array: np.ndarray, **wishes: Any) -> Any:
    """`array.__dlpack__(**wishes)`, of bfloat16, too."""
    if array.dtype != BFLOAT16:
        return array.__dlpack__(**wishes)
    capsule = array.view(np.uint16).__dlpack__(**wishes)
    if not _replaced(capsule, _UNSIGNED_16, _BFLOAT_16):
        raise BufferError("NumPy's capsule of DLPack has an unknown form")
    return capsule


class _AsIntegers:
    """An exporter whose bfloat16 are unsigned integers of 16 bits."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter
        self.were_bfloat16 = False

    def __dlpack__(self, **wishes: Any) -> Any:
        capsule = self._exporter.__dlpack__(**wishes)
        self.were_bfloat16 = _replaced(capsule, _BFLOAT_16, _UNSIGNED_16)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._exporter.__dlpack_device__()


def imported(exporter: Any) -> np.ndarray:
    """`np.from_dlpack(exporter)`, of bfloat16, too."""
    integers = _AsIntegers(exporter)
    array = np.from_dlpack(integers)
    return array.view(BFLOAT16) if integers.were_bfloat16 else array
