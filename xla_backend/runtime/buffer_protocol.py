"""The buffer protocol (`memoryview(x)`) for a class written in Python.

Since 3.12 a class with a method `__buffer__` has the protocol (PEP 688). Before, the only way is
the slot `bf_getbuffer` of a type, a C function. A callback of ctypes cannot stand there: it drops
its exception, also one that the handler of a signal raises before its first bytecode, and who asked
gets a buffer that nobody has filled in. A few native instructions call the method instead; since
3.12, too, in place of Python's own, for what comes now.

NumPy forgets whatever a buffer is refused with, and a handler's exception with it. So a method that
fails with anything but BufferError is called once more; if that succeeds, or is BufferError, a
handler had interrupted it: the buffer is given or refused, and the main thread raises the exception
right afterwards.

Where the user of a holder has said what views of such buffers look like (`spec.view`, see
`buffer.view_of`), whoever asks for a whole read-only view, as `memoryview` and NumPy do, gets it
without a line of Python. Its memory belongs to the buffer, an int, and not to
the holder, which may be deleted while there are views.
"""

from __future__ import annotations

import ctypes
import re
import sys
from typing import Any

from xla_backend.llvm.jit import compile_library
from xla_backend.process.builds import is_free_threaded

# Where `tp_as_buffer` lies in a type object of CPython, up to 3.14 at least.
_TP_AS_BUFFER = 20 * ctypes.sizeof(ctypes.c_void_p)

# Entry points: `get_buffer` gives known views itself, and asks `@otherwise`, `call_method`, for the
# rest.
_KNOWN_VIEWS = """
@buffer = external global i8
@spec = external global i8
@form = external global i8
@none = external global i8
@refusal = external global i8
declare i32 @otherwise(ptr, ptr, i32)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare void @PyErr_Clear()
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyBytes_AsString(ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_DecRef(ptr)

define i32 @get_buffer(ptr %object, ptr %view, i32 %flags) {
  %owner.at = getelementptr ptr, ptr %view, i64 1
  %whole = icmp eq i32 %flags, WHOLE
  br i1 %whole, label %look, label %other
look:
  %spec = call ptr @PyObject_GetAttr(ptr %object, ptr @spec)
  %lost = icmp eq ptr %spec, null
  br i1 %lost, label %clear, label %ask
ask:
  %form = call ptr @PyObject_GetAttr(ptr %spec, ptr @form)
  call void @Py_DecRef(ptr %spec)
  %formless = icmp eq ptr %form, null
  br i1 %formless, label %clear, label %test
test:
  %unset = icmp eq ptr %form, @none
  br i1 %unset, label %drop, label %take
take:
  %buffer = call ptr @PyObject_GetAttr(ptr %object, ptr @buffer)
  %gone = icmp eq ptr %buffer, null
  br i1 %gone, label %drop.clear, label %read
read:
  %f = call ptr @PyBytes_AsString(ptr %form)
  %size.at = getelementptr i64, ptr %f, i64 1
  %rank.at = getelementptr i64, ptr %f, i64 2
  %format.at = getelementptr i64, ptr %f, i64 3
  %shape.at = getelementptr i64, ptr %f, i64 4
  %size = load i64, ptr %size.at
  %refused = icmp eq i64 %size, 0
  br i1 %refused, label %refuse, label %own
refuse:
  store ptr null, ptr %owner.at
  call void @PyErr_SetString(ptr @refusal, ptr %shape.at)
  call void @Py_DecRef(ptr %buffer)
  call void @Py_DecRef(ptr %form)
  ret i32 -1
own:
  %address = call ptr @PyLong_AsVoidPtr(ptr %buffer)
  %owner = call ptr @PyTuple_New(i64 2)
  %full = icmp eq ptr %owner, null
  br i1 %full, label %fail, label %fill
fail:
  store ptr null, ptr %owner.at
  call void @Py_DecRef(ptr %buffer)
  call void @Py_DecRef(ptr %form)
  ret i32 -1
fill:
  %s0 = call i32 @PyTuple_SetItem(ptr %owner, i64 0, ptr %buffer)
  %s1 = call i32 @PyTuple_SetItem(ptr %owner, i64 1, ptr %form)
  %bytes = load i64, ptr %f
  %rank = load i64, ptr %rank.at
  %strides.at = getelementptr i64, ptr %shape.at, i64 %rank
  %scalar = icmp eq i64 %rank, 0
  %shape = select i1 %scalar, ptr null, ptr %shape.at
  %strides = select i1 %scalar, ptr null, ptr %strides.at
  %rank.32 = trunc i64 %rank to i32
  store ptr %address, ptr %view
  store ptr %owner, ptr %owner.at
  %v2 = getelementptr i64, ptr %view, i64 2
  store i64 %bytes, ptr %v2
  %v3 = getelementptr i64, ptr %view, i64 3
  store i64 %size, ptr %v3
  %v4 = getelementptr i64, ptr %view, i64 4
  store i32 1, ptr %v4
  %v4.high = getelementptr i32, ptr %v4, i64 1
  store i32 %rank.32, ptr %v4.high
  %v5 = getelementptr ptr, ptr %view, i64 5
  store ptr %format.at, ptr %v5
  %v6 = getelementptr ptr, ptr %view, i64 6
  store ptr %shape, ptr %v6
  %v7 = getelementptr ptr, ptr %view, i64 7
  store ptr %strides, ptr %v7
  %v8 = getelementptr ptr, ptr %view, i64 8
  store ptr null, ptr %v8
  %v9 = getelementptr ptr, ptr %view, i64 9
  store ptr null, ptr %v9
  ret i32 0
drop.clear:
  call void @Py_DecRef(ptr %form)
  br label %clear
clear:
  call void @PyErr_Clear()
  br label %other
drop:
  call void @Py_DecRef(ptr %form)
  br label %other
other:
  %status = call i32 @otherwise(ptr %object, ptr %view, i32 %flags)
  ret i32 %status
}
"""
_CALL_METHOD = """
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

define i32 @call_method(ptr %object, ptr %view, i32 %flags) {
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
  br i1 %still, label %failed.twice, label %later
failed.twice:
  %refused.now = call i32 @PyErr_ExceptionMatches(ptr @refusal)
  %interrupted = icmp ne i32 %refused.now, 0
  br i1 %interrupted, label %refuse, label %drop
refuse:
  %full.refused = call i32 @Py_AddPendingCall(ptr @raise, ptr %error)
  %told = icmp eq i32 %full.refused, 0
  br i1 %told, label %fail, label %instead
instead:
  %status.instead = call i32 @raise(ptr %error)
  br label %fail
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
_WHOLE = 0x100 | 0x18 | 0x4  # PyBUF_FULL_RO: with shape, strides and format

_kept: list[Any] = []  # what types call, for the life of the process


def give_buffer_protocol(cls: type) -> None:
    """Make `memoryview` of objects of this class and its subclasses call their `__buffer__`, unless
    their `spec` knows what it would give."""
    if sys.version_info >= (3, 12) and is_free_threaded():
        return  # Python calls `__buffer__`
    known = known_views_text()
    otherwise = _linked(_CALL_METHOD, {"name": "__buffer__"}, {}).address("call_method")
    get_buffer = _linked(known, _NAMES, {"otherwise": otherwise}).address("get_buffer")
    classes = [cls]
    for each in classes:
        classes.extend(each.__subclasses__())
        if hasattr(each, "__buffer__"):
            _slot_of(each).value = +get_buffer


def known_views_text() -> str:
    """The LLVM text of `get_buffer`."""
    return _KNOWN_VIEWS.replace("WHOLE", str(_WHOLE))


def buffer_protocol_texts() -> tuple[str, str]:
    """All LLVM text that is compiled here."""
    return known_views_text(), _CALL_METHOD


# Names of attributes that `get_buffer` reads.
_NAMES = {"buffer": "buffer", "spec": "spec", "form": "view"}


def _linked(text: str, names: dict[str, str], symbols: dict[str, int]) -> Any:
    """Code that knows these names as strings of Python; it stays for ever."""
    interned = [sys.intern(name) for name in names.values()]
    functions = re.findall(r"declare \w+ @(Py\w+)", text)
    library = compile_library(
        text,
        {"refusal": id(BufferError), "none": id(None)}
        | {symbol: id(name) for symbol, name in zip(names, interned, strict=True)}
        | {each: _address(ctypes.pythonapi[each]) for each in functions}
        | symbols,
        cache=True,
        keep=interned,
    )
    _kept.append(library)
    return library


def _slot_of(cls: type) -> Any:
    """Where the type object of a class of Python has its `bf_getbuffer`."""
    slots = ctypes.c_void_p.from_address(id(cls) + _TP_AS_BUFFER).value
    # They lie behind the type object, in the same piece of memory.
    metaclass: Any = type(cls)
    assert slots is not None and id(cls) < slots < id(cls) + metaclass.__basicsize__
    return ctypes.c_void_p.from_address(slots)


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address
