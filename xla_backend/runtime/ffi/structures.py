"""The structures of XLA's foreign function interface, version 0.3, as ctypes.

The facts are those of its published binary interface; pyjax/ffi/include has them as a C header. A
structure that may grow begins with its size and a list of extensions.
"""

from __future__ import annotations

import ctypes
import enum
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from typing import Any

import ml_dtypes
import numpy as np

MAJOR, MINOR = 0, 3


class ErrorCode(enum.IntEnum):
    """What an error is; the names are those of the messages of XLA."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class Stage(enum.IntEnum):
    """When a handler is called: once, before each run (twice), and in it."""

    INSTANTIATE = 0
    PREPARE = 1
    INITIALIZE = 2
    EXECUTE = 3


BUFFER = 1  # the one type of arguments and results
ARRAY, DICTIONARY, SCALAR, STRING = 1, 2, 3, 4  # types of attributes

# The numbers of element types, which are those of XLA's modules.
DATA_TYPES: dict[np.dtype, int] = {
    np.dtype(kind): number
    for kind, number in (
        (np.bool_, 1),
        (np.int8, 2),
        (np.int16, 3),
        (np.int32, 4),
        (np.int64, 5),
        (np.uint8, 6),
        (np.uint16, 7),
        (np.uint32, 8),
        (np.uint64, 9),
        (np.float16, 10),
        (np.float32, 11),
        (np.float64, 12),
        (np.complex64, 15),
        (ml_dtypes.bfloat16, 16),
        (np.complex128, 18),
        (ml_dtypes.float8_e5m2, 19),
        (ml_dtypes.float8_e4m3fn, 20),
        (ml_dtypes.int4, 21),
        (ml_dtypes.uint4, 22),
        (ml_dtypes.float8_e4m3b11fnuz, 23),
        (ml_dtypes.float8_e5m2fnuz, 24),
        (ml_dtypes.float8_e4m3fnuz, 25),
        (ml_dtypes.int2, 26),
        (ml_dtypes.uint2, 27),
        (ml_dtypes.float8_e4m3, 28),
        (ml_dtypes.float8_e3m4, 29),
        (ml_dtypes.float4_e2m1fn, 32),
        (ml_dtypes.float8_e8m0fnu, 33),
    )
}


def _structure(name: str, *fields: tuple[str, Any]) -> type[ctypes.Structure]:
    """One that may grow."""
    head = [("struct_size", c_size_t), ("extension_start", c_void_p)]
    return type(name, (ctypes.Structure,), {"_fields_": [*head, *fields]})


def made(kind: type[ctypes.Structure], **fields: Any) -> Any:
    """A structure that knows its size."""
    return kind(struct_size=ctypes.sizeof(kind), **fields)


class ByteSpan(ctypes.Structure):
    """A text that does not end with a zero."""

    _fields_ = [("ptr", c_char_p), ("len", c_size_t)]


class RawSpan(ctypes.Structure):
    """The same, of which Python reads as many bytes as it has."""

    _fields_ = [("ptr", c_void_p), ("len", c_size_t)]

    def text(self) -> str:
        return ctypes.string_at(self.ptr, self.len).decode() if self.len else ""


class Scalar(ctypes.Structure):
    _fields_ = [("dtype", c_int), ("value", c_void_p)]


class Array(ctypes.Structure):
    _fields_ = [("dtype", c_int), ("size", c_size_t), ("data", c_void_p)]


class TypeId(ctypes.Structure):
    _fields_ = [("type_id", c_int64)]


class HandlerBundle(ctypes.Structure):
    _fields_ = [(stage.name.lower(), c_void_p) for stage in Stage]


ApiVersion = _structure("ApiVersion", ("major_version", c_int), ("minor_version", c_int))
Buffer = _structure(
    "Buffer", ("dtype", c_int), ("data", c_void_p), ("rank", c_int64), ("dims", POINTER(c_int64))
)
Args = _structure("Args", ("size", c_int64), ("types", POINTER(c_int)), ("args", POINTER(c_void_p)))
Rets = _structure("Rets", ("size", c_int64), ("types", POINTER(c_int)), ("rets", POINTER(c_void_p)))
Attrs = _structure(
    "Attrs",
    ("size", c_int64),
    ("types", POINTER(c_int)),
    ("names", POINTER(POINTER(ByteSpan))),
    ("attrs", POINTER(c_void_p)),
)
CallFrame = _structure(
    "CallFrame",
    ("api", c_void_p),
    ("ctx", c_void_p),
    ("stage", c_int),
    ("args", Args),
    ("rets", Rets),
    ("attrs", Attrs),
    ("future", c_void_p),
)
TypeInfo = _structure("TypeInfo", ("deleter", c_void_p))

# What the functions of the interface take: a pointer to one of these.
ErrorCreate = _structure("ErrorCreate", ("message", c_char_p), ("errc", c_int))
ErrorGetMessage = _structure("ErrorGetMessage", ("error", c_void_p), ("message", c_void_p))
ErrorDestroy = _structure("ErrorDestroy", ("error", c_void_p))
HandlerRegister = _structure(
    "HandlerRegister",
    ("name", RawSpan),
    ("platform", RawSpan),
    ("bundle", HandlerBundle),
    ("traits", c_uint32),
)
StreamGet = _structure("StreamGet", ("ctx", c_void_p), ("stream", c_void_p))
TypeRegister = _structure(
    "TypeRegister",
    ("name", RawSpan),
    ("type_id", POINTER(TypeId)),
    ("type_info", c_void_p),
)
ContextGet = _structure(
    "ContextGet", ("ctx", c_void_p), ("type_id", POINTER(TypeId)), ("data", c_void_p)
)
_STATE = (
    ("ctx", c_void_p),
    ("stage", c_int),
    ("type_id", POINTER(TypeId)),
    ("state", c_void_p),
)
StateSet, StateGet = _structure("StateSet", *_STATE), _structure("StateGet", *_STATE)
MemoryAllocate = _structure(
    "MemoryAllocate",
    ("ctx", c_void_p),
    ("size", c_size_t),
    ("alignment", c_size_t),
    ("data", c_void_p),
)
MemoryFree = _structure("MemoryFree", ("ctx", c_void_p), ("size", c_size_t), ("data", c_void_p))
Schedule = _structure("Schedule", ("ctx", c_void_p), ("task", c_void_p), ("data", c_void_p))
NumThreads = _structure("NumThreads", ("ctx", c_void_p), ("num_threads", POINTER(c_int64)))
FutureCreate = _structure("FutureCreate", ("future", c_void_p))
FutureSetAvailable = _structure("FutureSetAvailable", ("future", c_void_p))
FutureSetError = _structure("FutureSetError", ("future", c_void_p), ("error", c_void_p))
RunIdGet = _structure("RunIdGet", ("ctx", c_void_p), ("run_id", c_int64))
OrdinalGet = _structure("OrdinalGet", ("ctx", c_void_p), ("device_ordinal", c_int32))

# The functions of the interface, in their order, by what they take.
FUNCTIONS: tuple[type[ctypes.Structure], ...] = (
    ErrorCreate,
    ErrorGetMessage,
    ErrorDestroy,
    HandlerRegister,
    StreamGet,
    TypeRegister,
    ContextGet,
    StateSet,
    StateGet,
    MemoryAllocate,
    MemoryFree,
    Schedule,
    NumThreads,
    FutureCreate,
    FutureSetAvailable,
    FutureSetError,
    RunIdGet,
    OrdinalGet,
)
# None of them throws; what fails gives an error, a number that is none of memory.
FUNCTION = ctypes.CFUNCTYPE(c_void_p, c_void_p)
HANDLER = ctypes.CFUNCTYPE(c_void_p, POINTER(CallFrame))

Api = _structure(
    "Api",
    ("api_version", ApiVersion),
    ("internal_api", c_void_p),
    *[(kind.__name__, FUNCTION) for kind in FUNCTIONS],
)
