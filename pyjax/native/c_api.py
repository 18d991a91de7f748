"""What native code calls of Python: functions of the stable ABI, and one that is documented."""

from __future__ import annotations

import ctypes
import enum
import sys
from typing import Any

import numpy as np

from xla_backend.process.builds import is_free_threaded

# name -> (type of the result, types of the parameters), as LLVM writes them
FUNCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "PyBytes_AsString": ("ptr", ("ptr",)),
    "PyContextVar_Get": ("i32", ("ptr", "ptr", "ptr")),  # no part of the stable ABI
    "PyDict_GetItemWithError": ("ptr", ("ptr", "ptr")),
    "PyDict_New": ("ptr", ()),
    "PyDict_Next": ("i32", ("ptr", "ptr", "ptr", "ptr")),
    "PyDict_SetItem": ("i32", ("ptr", "ptr", "ptr")),
    "PyDict_Size": ("i64", ("ptr",)),
    "PyErr_CheckSignals": ("i32", ()),
    "PyErr_Clear": ("void", ()),
    "PyErr_ExceptionMatches": ("i32", ("ptr",)),
    "PyErr_Occurred": ("ptr", ()),
    "PyEval_RestoreThread": ("void", ("ptr",)),
    "PyEval_SaveThread": ("ptr", ()),
    "PyFloat_AsDouble": ("double", ("ptr",)),
    "PyList_GetItem": ("ptr", ("ptr", "i64")),
    "PyList_New": ("ptr", ("i64",)),
    "PyList_SetItem": ("i32", ("ptr", "i64", "ptr")),
    "PyList_Size": ("i64", ("ptr",)),
    "PyLong_AsLongLong": ("i64", ("ptr",)),
    "PyLong_AsVoidPtr": ("ptr", ("ptr",)),
    "PyLong_FromLong": ("ptr", ("i64",)),
    "PyObject_GetAttr": ("ptr", ("ptr", "ptr")),
    "PyObject_IsTrue": ("i32", ("ptr",)),
    "PyObject_Vectorcall": ("ptr", ("ptr", "ptr", "i64", "ptr")),
    "PySet_Contains": ("i32", ("ptr", "ptr")),
    "PySet_Size": ("i64", ("ptr",)),
    "PyTuple_GetItem": ("ptr", ("ptr", "i64")),
    "PyTuple_New": ("ptr", ("i64",)),
    "PyTuple_SetItem": ("i32", ("ptr", "i64", "ptr")),
    "PyTuple_Size": ("i64", ("ptr",)),
    "PyType_GenericAlloc": ("ptr", ("ptr", "i64")),
    "PyObject_RichCompareBool": ("i32", ("ptr", "ptr", "i32")),
    "PyUnicode_Compare": ("i32", ("ptr", "ptr")),
    "Py_DecRef": ("void", ("ptr",)),
    "Py_IncRef": ("void", ("ptr",)),
}
OBJECT_TYPE = 8  # where in an object its type is


def is_usable() -> bool:
    """Whether native code can work with objects of this Python: of its usual build on 64 bits, not
    the free-threaded one (objects look different, and threads run at once) nor one for debugging.
    """
    return (
        sys.implementation.name == "cpython"
        and sys.maxsize == 2**63 - 1
        and not is_free_threaded()
        and not hasattr(sys, "gettotalrefcount")
        and ctypes.c_void_p.from_address(id(0) + OBJECT_TYPE).value == id(int)
    )


class NumpyField(enum.IntEnum):
    """Where in an array of NumPy things are, in bytes: its ABI has kept them there since 1.0."""

    DATA = 16
    RANK = 24  # 32 bits
    SIZES = 32
    DTYPE = 56
    FLAGS = 64  # 32 bits


# In row-major order, at addresses that the dtype asks for.
NUMPY_FLAGS = 0x1 | 0x100


def numpy_is_as_known() -> bool:
    """Whether arrays of this NumPy look as `NumpyField` says, as an example shows."""
    array = np.arange(6.0).reshape(2, 3)
    word = ctypes.c_int64.from_address
    half = ctypes.c_int32.from_address
    place = id(array)
    return (
        word(place + NumpyField.DATA).value == array.ctypes.data
        and half(place + NumpyField.RANK).value == 2
        and [word(word(place + NumpyField.SIZES).value + 8 * d).value for d in range(2)] == [2, 3]
        and word(place + NumpyField.DTYPE).value == id(array.dtype)
        and half(place + NumpyField.FLAGS).value & NUMPY_FLAGS == NUMPY_FLAGS
        and half(id(array.T) + NumpyField.FLAGS).value & NUMPY_FLAGS == NUMPY_FLAGS & ~1
    )


def address_of(name: str) -> int:
    """Where a function of Python is."""
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert address is not None
    return address


def offset_of_slot(kind: Any, name: str) -> int | None:
    """Where in objects of a type one of its `__slots__` is, as a new one shows; None: unknown."""
    blank, mark = kind.__new__(kind), object()
    setattr(blank, name, mark)
    places = range(2 * OBJECT_TYPE, kind.__basicsize__, 8)
    found = [at for at in places if ctypes.c_void_p.from_address(id(blank) + at).value == id(mark)]
    delattr(blank, name)
    return found[0] if len(found) == 1 else None
