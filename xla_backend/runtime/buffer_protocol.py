"""The buffer protocol (`memoryview(x)`) for a class written in Python, also before Python 3.12.

Since 3.12 a class with a method `__buffer__` has the protocol (PEP 688). Before, the only way is
the slot `bf_getbuffer` of a type, a C function. A callback of ctypes can fill in a buffer there,
but it cannot refuse one: ctypes clears the exception when the callback returns, and who asked gets
a SystemError ("returned NULL without setting an exception") where an array is deleted, or where
memory to write to is asked for. So a few native instructions stand around the callback and set its
exception again.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from xla_backend.llvm.jit import compile_library

# Where `tp_as_buffer` lies in a type object of CPython 3.11, whose layout does not change any more.
_TP_AS_BUFFER = 20 * ctypes.sizeof(ctypes.c_void_p)

_GET_BUFFER = """
define i32 @get_buffer(ptr %object, ptr %view, i32 %flags) {{
  %type = alloca ptr
  %error = alloca ptr
  %failed = call i32 inttoptr (i64 {fill} to ptr)(
      ptr %object, ptr %view, i32 %flags, ptr %type, ptr %error)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %done, label %raise
raise:
  %t = load ptr, ptr %type
  %e = load ptr, ptr %error
  call void inttoptr (i64 {set_error} to ptr)(ptr %t, ptr %e)
  call void inttoptr (i64 {drop} to ptr)(ptr %t)
  call void inttoptr (i64 {drop} to ptr)(ptr %e)
  br label %done
done:
  %status = phi i32 [ 0, %0 ], [ -1, %raise ]
  ret i32 %status
}}
"""

_kept: list[Any] = []  # what types call, for the life of the process


def give_buffer_protocol(cls: type) -> None:
    """Make `memoryview` of objects of this class and its subclasses call their `__buffer__`."""
    if sys.version_info >= (3, 12):
        return  # Python does
    api = ctypes.pythonapi
    api.PyObject_GetBuffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]

    def fill(owner: Any, view: int, flags: int, kind: int, error: int) -> int:
        try:
            api.PyObject_GetBuffer(owner.__buffer__(flags), view, flags)
        except BaseException as exception:
            # New references, which the native code passes on and drops.
            for where, value in ((kind, type(exception)), (error, exception)):
                api.Py_IncRef(ctypes.py_object(value))
                ctypes.c_void_p.from_address(where).value = id(value)
            return 1
        return 0

    prototype = ctypes.PYFUNCTYPE(
        ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int, *[ctypes.c_void_p] * 2
    )
    callback = prototype(fill)
    set_error, drop = _address(api.PyErr_SetObject), _address(api.Py_DecRef)
    library = compile_library(
        _GET_BUFFER.format(fill=_address(callback), set_error=set_error, drop=drop)
    )
    get_buffer = library.address("get_buffer")
    _kept.extend((callback, get_buffer))
    classes = [cls]
    for each in classes:
        classes.extend(each.__subclasses__())
        slots = ctypes.c_void_p.from_address(id(each) + _TP_AS_BUFFER).value
        # A class made in Python has its slots behind its type object, in the same piece of memory.
        metaclass: Any = type(each)
        assert slots is not None and id(each) < slots < id(each) + metaclass.__basicsize__
        ctypes.c_void_p.from_address(slots).value = +get_buffer


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address
