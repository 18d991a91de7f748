"""The thread pool of generated code: pyjax_parallel_for and the control of its threads. The code is
written in `pool_functions`.

What a caller shares is a job. Its ticket, one 64-bit word, holds (generation << 32 | blocks left);
threads claim blocks by counting it down with compare-and-swap, the caller among them, so a sleeping
or absent worker costs nothing but speed. Several callers have jobs at a time, as many as there are
threads, and workers go from job to job; a caller that finds no free one (or is nested too deep)
runs its blocks itself. Whoever waits spins a while and then sleeps: on a futex on Linux, in naps
elsewhere. That is so for workers without work, and for the caller whose last blocks are still with
workers.

On a machine with more to run than processors, a worker that has claimed a block may be descheduled
with it, and its caller waits, asleep: then both begin their next slices of time together. (To keep
loops on the calling thread for a while after such a wait was measured not to be better.)

pyjax_parallel_for_polled lets signals in between blocks: once a handler has raised, the blocks
that are left, and those of all polled loops until the program ends, do nothing. The program must
end by asking pyjax_poll_end, and until then work with what happens to be in memory.

A fork waits for the blocks that workers are in, and they begin none meanwhile: so a handler that
forks inside of a loop finds each block done or left, and the loop ends in parent and child. The
child has no workers; they are started again by its next parallel call. Workers leave signals to
the threads of Python.
"""

from __future__ import annotations

import ctypes
import os
import sys

from xla_backend.llvm.jit import Library
from xla_backend.llvm.target import host_target
from xla_backend.process.bounded_cache import once
from xla_backend.process.on_first_use import on_first_use
from xla_backend.runtime import host_threads
from xla_backend.targets.cpu.routines.kept_objects import kept_object
from xla_backend.targets.cpu.routines.pool_names import POOL_NAMES
from xla_backend.targets.cpu.routines.python_calls import bridge_library

# Of entries on disk.
POOL, SERIAL_POOL = "pool", "serial pool"
_FUNCTIONS = "xla_backend.targets.cpu.routines.pool_functions"
_pool_text = on_first_use(_FUNCTIONS, "pool_text")
_limited_text = on_first_use(_FUNCTIONS, "limited_text")
_serial_text = on_first_use(_FUNCTIONS, "serial_text")
_LINUX = sys.platform.startswith("linux")


@once
def pool_library() -> Library:
    """The pool of this process, with its default number of threads."""
    target = host_target()
    code = kept_object(POOL, target, lambda: _pool_text(target, _LINUX))
    library = Library(code, bridge_library().addresses())
    host_threads.keep_number_in(
        library.function("pyjax_num_threads", ctypes.c_int32),
        library.function("pyjax_set_num_threads", None, ctypes.c_int32),
    )
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=library.function("pyjax_pool_before_fork", None),
            after_in_parent=library.function("pyjax_pool_after_fork_in_parent", None),
            after_in_child=library.function("pyjax_pool_after_fork_in_child", None),
        )
    return library


def threads_library(limit: int | None) -> Library:
    """What kernels call of the pool, for kernels on at most so many threads."""
    if limit is None:
        return pool_library()
    addresses = dict(bridge_library().addresses())
    target = host_target()
    if limit == 1:
        code = kept_object(SERIAL_POOL, target, lambda: _serial_text(target))
    else:
        pool = pool_library().addresses()
        addresses |= {hidden: pool[name] for name, hidden in POOL_NAMES.items()}
        text = lambda: _limited_text(target, limit)
        code = kept_object("limited pool", target, text, str(limit))
    return Library(code, addresses)
