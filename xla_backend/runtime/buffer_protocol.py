"""The buffer protocol (`memoryview(x)`) for a class written in Python, also before Python 3.12.

Since 3.12 a class with a method `__buffer__` has the protocol (PEP 688). Before, the only way is
the slot `bf_getbuffer` of a type, a C function. A callback of ctypes cannot stand there: it drops
its exception, also one that the handler of a signal raises before its first bytecode, and who asked
gets a buffer that nobody has filled in. A few native instructions call the method instead.

NumPy forgets whatever a buffer is refused with, and a handler's exception with it. So a method that
fails with anything but BufferError is called once more; if that succeeds, a handler had interrupted
it: the buffer is given, and the main thread raises the exception right afterwards.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from xla_backend.llvm.jit import compile_library

# Where `tp_as_buffer` lies in a type object of CPython 3.11, whose layout does not change any more.
_TP_AS_BUFFER = 20 * ctypes.sizeof(ctypes.c_void_p)

_GET_BUFFER = """
@name = external global i8
@refusal = external global i8
declare ptr @PyLong_FromLong(i64)
declare ptr @PyObject_CallMethodObjArgs(ptr, ptr, ...)
declare i32 @PyObject_GetBuffer(ptr, ptr, i32)
declare void @Py_DecRef(ptr)
declare i32 @PyErr_ExceptionMatches(ptr)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_NormalizeException(ptr, ptr, ptr)
declare i32 @PyException_SetTraceback(ptr, ptr)
declare void @PyErr_SetObject(ptr, ptr)
declare ptr @PyObject_Type(ptr)
declare i32 @Py_AddPendingCall(ptr, ptr)

define internal i32 @raise(ptr %error) {
  %kind = call ptr @PyObject_Type(ptr %error)
  call void @PyErr_SetObject(ptr %kind, ptr %error)
  call void @Py_DecRef(ptr %kind)
  call void @Py_DecRef(ptr %error)
  ret i32 -1
}

define i32 @get_buffer(ptr %object, ptr %view, i32 %flags) {
  %owner = getelementptr ptr, ptr %view, i64 1
  store ptr null, ptr %owner
  %wide = sext i32 %flags to i64
  %number = call ptr @PyLong_FromLong(i64 %wide)
  %memory = call ptr (ptr, ptr, ...) @PyObject_CallMethodObjArgs(
    ptr %object, ptr @name, ptr %number, ptr null)
  %none = icmp eq ptr %memory, null
  br i1 %none, label %failed, label %first
first:
  call void @Py_DecRef(ptr %number)
  br label %fill
failed:
  %refused = call i32 @PyErr_ExceptionMatches(ptr @refusal)
  %own = icmp ne i32 %refused, 0
  br i1 %own, label %fail, label %retry
retry:
  %kind = alloca ptr
  %value = alloca ptr
  %traceback = alloca ptr
  call void @PyErr_Fetch(ptr %kind, ptr %value, ptr %traceback)
  call void @PyErr_NormalizeException(ptr %kind, ptr %value, ptr %traceback)
  %k = load ptr, ptr %kind
  %error = load ptr, ptr %value
  %t = load ptr, ptr %traceback
  %untraced = icmp eq ptr %t, null
  br i1 %untraced, label %again, label %trace
trace:
  %r = call i32 @PyException_SetTraceback(ptr %error, ptr %t)
  call void @Py_DecRef(ptr %t)
  br label %again
again:
  call void @Py_DecRef(ptr %k)
  %second = call ptr (ptr, ptr, ...) @PyObject_CallMethodObjArgs(
    ptr %object, ptr @name, ptr %number, ptr null)
  %still = icmp eq ptr %second, null
  br i1 %still, label %drop, label %later
drop:
  call void @Py_DecRef(ptr %error)
  br label %fail
later:
  call void @Py_DecRef(ptr %number)
  %full = call i32 @Py_AddPendingCall(ptr @raise, ptr %error)
  %taken = icmp eq i32 %full, 0
  br i1 %taken, label %fill, label %now
now:
  call void @Py_DecRef(ptr %second)
  %status.now = call i32 @raise(ptr %error)
  ret i32 %status.now
fail:
  call void @Py_DecRef(ptr %number)
  ret i32 -1
fill:
  %bytes = phi ptr [ %memory, %first ], [ %second, %later ]
  %status = call i32 @PyObject_GetBuffer(ptr %bytes, ptr %view, i32 %flags)
  call void @Py_DecRef(ptr %bytes)
  ret i32 %status
}
"""
_PYTHON_NAMES = (
    "PyLong_FromLong",
    "PyObject_CallMethodObjArgs",
    "PyObject_GetBuffer",
    "Py_DecRef",
    "PyErr_ExceptionMatches",
    "PyErr_Fetch",
    "PyErr_NormalizeException",
    "PyException_SetTraceback",
    "PyErr_SetObject",
    "PyObject_Type",
    "Py_AddPendingCall",
)

_kept: list[Any] = []  # what types call, for the life of the process


def give_buffer_protocol(cls: type) -> None:
    """Make `memoryview` of objects of this class and its subclasses call their `__buffer__`."""
    if sys.version_info >= (3, 12):
        return  # Python does
    name = sys.intern("__buffer__")
    symbols = {"name": id(name), "refusal": id(BufferError)} | {
        each: _address(ctypes.pythonapi[each]) for each in _PYTHON_NAMES
    }
    library = compile_library(_GET_BUFFER, symbols, cache=True, keep=(name,))
    get_buffer = library.address("get_buffer")
    _kept.append(get_buffer)
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
