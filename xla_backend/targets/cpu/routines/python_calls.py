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

Programs in a queue (see `queues`) run on a thread that runs no handlers. They ask as well,
and stop when their queue is told to: `pyjax_stopping` is the queue that is, or null. The main
thread may run one of them in its place (`pyjax_helping`): signals wait for that, which is short.

API
  bridge_library()         pyjax_host_call, pyjax_poll, pyjax_poll_begin, pyjax_poll_end
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache

from xla_backend.llvm.elf import object_symbols
from xla_backend.llvm.jit import Library
from xla_backend.llvm.target import host_target
from xla_backend.process.on_first_use import on_first_use
from xla_backend.runtime.custom_calls import host_call, pending_exceptions
from xla_backend.targets.cpu.routines.kept_objects import kept_object

# Of entries on disk.
BRIDGE = "bridge"
_bridge_text = on_first_use("xla_backend.targets.cpu.routines.bridge_functions", "bridge_text")


@cache
def bridge_library() -> Library:
    """The native side of host calls and polls."""
    target = host_target()
    code = kept_object(BRIDGE, target, lambda: _bridge_text(target))
    # The address of an object is its id; both live as long as their module.
    symbols = {"pyjax_python_call": id(host_call), "pyjax_python_pending": id(pending_exceptions)}
    _, undefined = object_symbols(code)
    for name in (n for n in undefined if n.startswith("Py") and n not in symbols):
        address = ctypes.cast(ctypes.pythonapi[name], ctypes.c_void_p).value
        assert address is not None
        symbols[name] = address
    library = Library(code, symbols, keep=(host_call, pending_exceptions))
    main_thread = ctypes.c_uint64.from_address(library.address("pyjax_main_thread"))
    main_thread.value = threading.main_thread().ident or 0

    stopping = ctypes.c_void_p.from_address(library.address("pyjax_stopping"))
    helping = ctypes.c_int32.from_address(library.address("pyjax_helping"))

    def after_fork() -> None:
        main_thread.value = threading.get_ident()
        stopping.value = None
        helping.value = 0

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=after_fork)
    return library
