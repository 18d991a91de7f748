"""Where native code meets the interpreter: host calls, and signals while a program runs.

Python's handlers of signals run between bytecodes of the main thread, which a native program never
reaches. So programs ask every now and then: `pyjax_poll`, on the main thread and if a tenth of a
second has passed since the last time, takes the interpreter lock and runs the pending handlers. A
loop or a program stops if a handler raises. This serves any signal with any handler (Ctrl-C,
alarms, SIGTERM, those a user installs later) as Python code would; a handler of our own in front of
Python's would have to know about all of these.

Both functions keep the exception, whatever raises it, for whoever ran the program: an exception
that arrives before the first bytecode of a host function is kept like one it raises itself.

Host functions and handlers may run programs themselves, and an interrupt of those is theirs: it
says nothing about the program around them. A program that was interrupted makes no host calls any
more.

API
  bridge_library()         pyjax_host_call, pyjax_poll, pyjax_poll_begin, pyjax_poll_end
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from functools import cache

from xla_backend.llvm.jit import Library, compile_library
from xla_backend.runtime.custom_calls import host_call, pending_exceptions

# Nanoseconds between looks at signals. Each may wait for the interpreter lock (5 ms by default).
_INTERVAL = 100_000_000

_TEMPLATE = """
@pyjax.interrupted = internal global i32 0
@pyjax_main_thread = global i64 0
@pyjax.last_poll = internal global i64 0
@pyjax_python_call = external global i8
@pyjax_python_pending = external global i8
declare i64 @pthread_self()
declare i32 @clock_gettime(i32, ptr)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_NormalizeException(ptr, ptr, ptr)
declare i32 @PyException_SetTraceback(ptr, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyLong_FromUnsignedLongLong(i64)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare void @Py_DecRef(ptr)

; Keeps the exception that is set, under the number of this thread.
define internal void @pyjax.keep_exception() noinline {{
entry:
  %kind = alloca ptr
  %value = alloca ptr
  %traceback = alloca ptr
  call void @PyErr_Fetch(ptr %kind, ptr %value, ptr %traceback)
  call void @PyErr_NormalizeException(ptr %kind, ptr %value, ptr %traceback)
  %k = load ptr, ptr %kind
  %v = load ptr, ptr %value
  %t = load ptr, ptr %traceback
  %none = icmp eq ptr %t, null
  br i1 %none, label %keep, label %trace
trace:
  %r = call i32 @PyException_SetTraceback(ptr %v, ptr %t)
  br label %keep
keep:
  %self = call i64 @pthread_self()
  %number = call ptr @PyLong_FromUnsignedLongLong(i64 %self)
  %s = call i32 @PyDict_SetItem(ptr @pyjax_python_pending, ptr %number, ptr %v)
  call void @Py_DecRef(ptr %number)
  call void @Py_DecRef(ptr %k)
  call void @Py_DecRef(ptr %v)
  call void @Py_DecRef(ptr %t)
  ret void
}}

; The host call whose number %handle is, as an address, for the ExecutionContext that %context is.
; Nonzero: an exception is kept and the caller ends its program. What programs inside the call left
; in pyjax.interrupted is dropped.
define i32 @pyjax_host_call(ptr %handle, ptr %buffers, ptr %context) {{
entry:
  %self = call i64 @pthread_self()
  %main = load atomic i64, ptr @pyjax_main_thread monotonic, align 8
  %ours = icmp eq i64 %self, %main
  br i1 %ours, label %look, label %call
look:
  %before = load i32, ptr @pyjax.interrupted
  %stopped = icmp ne i32 %before, 0
  br i1 %stopped, label %stop, label %call
stop:
  ret i32 1
call:
  %gil = call i32 @PyGILState_Ensure()
  %number = ptrtoint ptr %handle to i64
  %address = ptrtoint ptr %buffers to i64
  %n = call ptr @PyLong_FromLongLong(i64 %number)
  %a = call ptr @PyLong_FromUnsignedLongLong(i64 %address)
  %result = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(
    ptr @pyjax_python_call, ptr %n, ptr %a, ptr %context, ptr null)
  call void @Py_DecRef(ptr %n)
  call void @Py_DecRef(ptr %a)
  call void @Py_DecRef(ptr %result)
  %failed = icmp eq ptr %result, null
  br i1 %ours, label %clear, label %check
clear:
  store i32 0, ptr @pyjax.interrupted
  br label %check
check:
  br i1 %failed, label %keep, label %out
keep:
  call void @pyjax.keep_exception()
  br label %out
out:
  call void @PyGILState_Release(i32 %gil)
  %status = zext i1 %failed to i32
  ret i32 %status
}}

; Whether something has interrupted the program that this thread runs.
define internal i1 @pyjax.is_interrupted() {{
entry:
  %flag = load i32, ptr @pyjax.interrupted
  %clean = icmp eq i32 %flag, 0
  br i1 %clean, label %no, label %look
look:
  %self = call i64 @pthread_self()
  %main = load atomic i64, ptr @pyjax_main_thread monotonic, align 8
  %ours = icmp eq i64 %self, %main
  ret i1 %ours
no:
  ret i1 false
}}

; At the start of a program that polls: nothing has interrupted it yet.
define void @pyjax_poll_begin() {{
entry:
  %stale = call i1 @pyjax.is_interrupted()
  br i1 %stale, label %clear, label %out
clear:
  store i32 0, ptr @pyjax.interrupted
  br label %out
out:
  ret void
}}

; At its end: nonzero if something has interrupted it.
define i32 @pyjax_poll_end() {{
entry:
  %stopped = call i1 @pyjax.is_interrupted()
  %status = zext i1 %stopped to i32
  ret i32 %status
}}

; Nonzero: an exception is kept and the caller ends its program. Threads that are not the main one
; are not interrupted.
define i32 @pyjax_poll() {{
entry:
  %time = alloca [2 x i64], align 8
  %self = call i64 @pthread_self()
  %main = load atomic i64, ptr @pyjax_main_thread monotonic, align 8
  %ours = icmp eq i64 %self, %main
  br i1 %ours, label %look, label %fine
look:
  %before = load i32, ptr @pyjax.interrupted
  %again = icmp ne i32 %before, 0
  br i1 %again, label %stop, label %watch
watch:
  %rc = call i32 @clock_gettime(i32 {monotonic}, ptr %time)
  %seconds = load i64, ptr %time
  %at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %at
  %big = mul i64 %seconds, 1000000000
  %now = add i64 %big, %rest
  %last = load i64, ptr @pyjax.last_poll
  %passed = sub i64 %now, %last
  %due = icmp ugt i64 %passed, {interval}
  br i1 %due, label %ask, label %fine
ask:
  store i64 %now, ptr @pyjax.last_poll
  %gil = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  %failed = icmp ne i32 %raised, 0
  %mark = zext i1 %failed to i32
  store i32 %mark, ptr @pyjax.interrupted
  br i1 %failed, label %keep, label %release
keep:
  call void @pyjax.keep_exception()
  br label %release
release:
  call void @PyGILState_Release(i32 %gil)
  br i1 %failed, label %stop, label %fine
stop:
  ret i32 1
fine:
  ret i32 0
}}
"""

_PYTHON_NAMES = (
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyErr_CheckSignals",
    "PyErr_Fetch",
    "PyErr_NormalizeException",
    "PyException_SetTraceback",
    "PyLong_FromLongLong",
    "PyLong_FromUnsignedLongLong",
    "PyObject_CallFunctionObjArgs",
    "PyDict_SetItem",
    "Py_DecRef",
)


@cache
def bridge_library() -> Library:
    """The native side of host calls and polls."""
    text = _TEMPLATE.format(
        monotonic=1 if sys.platform.startswith("linux") else 6, interval=_INTERVAL
    )
    # The address of an object is its id; both live as long as their module.
    symbols = {"pyjax_python_call": id(host_call), "pyjax_python_pending": id(pending_exceptions)}
    for name in _PYTHON_NAMES:
        address = ctypes.cast(ctypes.pythonapi[name], ctypes.c_void_p).value
        assert address is not None
        symbols[name] = address
    library = compile_library(text, symbols, cache=True, keep=(host_call, pending_exceptions))
    main_thread = ctypes.c_uint64.from_address(library.address("pyjax_main_thread"))
    main_thread.value = threading.main_thread().ident or 0

    def after_fork() -> None:
        main_thread.value = threading.get_ident()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=after_fork)
    return library
