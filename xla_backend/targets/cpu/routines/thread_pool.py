"""The thread pool of generated code: pyjax_parallel_for and the control of its threads. The code is
written in `pool_functions`.

One 64-bit ticket word holds (generation << 32 | blocks left); threads claim blocks by counting it
down with compare-and-swap, the caller among them, so a sleeping or absent worker costs nothing but
speed. Whoever waits spins a while and then sleeps: on a futex on Linux, in naps elsewhere. That is
so for workers without work, and for the caller whose last blocks are still with workers.

On a machine with more to run than processors, a worker that has claimed a block may be descheduled
with it, and everybody waits for it. No count of running threads tells that reliably; the wait does.
A caller that waited much longer for the others' last blocks than a block takes lets the pool rest
for eight times as long: its loops run on the calling thread, and idle workers sleep at once. So
late workers cost an eighth at most, and an idle machine forgets a hiccup within milliseconds.

pyjax_parallel_for_polled lets signals in between blocks: once a handler has raised, the blocks
that are left, and those of all polled loops until the program ends, do nothing. The program must
end by asking pyjax_poll_end, and until then work with what happens to be in memory.

A caller that finds the pool busy (nested or concurrent calls) runs its blocks itself. After fork
the child has no workers; they are started again by its first parallel call. Workers leave signals
to the threads of Python.
"""

from __future__ import annotations

import ctypes
import os
import sys

from xla_backend.llvm.jit import Library, compile_library
from xla_backend.llvm.target import host_target
from xla_backend.process.bounded_cache import once
from xla_backend.runtime import host_threads
from xla_backend.targets.cpu.routines.pool_functions import (
    POOL_NAMES,
    limited_text,
    pool_text,
    serial_text,
)
from xla_backend.targets.cpu.routines.python_calls import bridge_library


@once
def pool_library() -> Library:
    """The pool of this process, with its default number of threads."""
    text = pool_text(host_target(), sys.platform.startswith("linux"))
    library = compile_library(text, bridge_library().addresses(), cache=True)
    host_threads.keep_number_in(
        library.function("pyjax_num_threads", ctypes.c_int32),
        library.function("pyjax_set_num_threads", None, ctypes.c_int32),
    )
    if hasattr(os, "register_at_fork"):
        after_fork = library.function("pyjax_pool_after_fork", None)
        os.register_at_fork(after_in_child=after_fork)
    return library


def threads_library(limit: int | None) -> Library:
    """What kernels call of the pool, for kernels on at most so many threads."""
    if limit is None:
        return pool_library()
    addresses = dict(bridge_library().addresses())
    if limit == 1:
        text = serial_text(host_target())
    else:
        pool = pool_library().addresses()
        addresses |= {hidden: pool[name] for name, hidden in POOL_NAMES.items()}
        text = limited_text(host_target(), limit)
    return compile_library(text, addresses, cache=True)
