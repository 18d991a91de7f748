"""The thread pool: every block once, any thread count, nested and concurrent calls, fork."""

import ctypes
import os
import subprocess
import sys

import pytest

from tests.threads import together
from xla_backend.llvm import objects
from xla_backend.llvm.target import host_target, make_target
from xla_backend.runtime import host_threads
from xla_backend.runtime.host_threads import num_threads
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.pool_functions import pool_text, serial_text

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


def parallel_for(fn, blocks):
    address = kernel_library()["pyjax_parallel_for"]
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address)
    callback = CALLBACK(lambda _, block: fn(block))
    call(ctypes.cast(callback, ctypes.c_void_p), None, blocks)


@pytest.fixture(autouse=True)
def restore():
    before = num_threads()
    yield
    host_threads.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("blocks", [0, 1, 2, 7, 300])
def test_every_block_once(threads, blocks):
    host_threads.set_num_threads(threads)
    assert num_threads() == threads
    for _ in range(3):
        seen = []
        parallel_for(seen.append, blocks)
        assert sorted(seen) == list(range(blocks))


def test_nested_calls():
    host_threads.set_num_threads(3)
    seen = []
    parallel_for(lambda i: parallel_for(lambda j: seen.append((i, j)), 5), 4)
    assert sorted(seen) == [(i, j) for i in range(4) for j in range(5)]


def test_concurrent_callers():
    host_threads.set_num_threads(3)

    def work():
        mine = []
        for _ in range(20):
            parallel_for(mine.append, 10)
        assert sorted(mine) == sorted(list(range(10)) * 20)

    together(*[work] * 4)


def test_refuses_no_threads():
    with pytest.raises(ValueError, match="at least 1"):
        host_threads.set_num_threads(0)


FORK = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[1])
from xla_backend.runtime import host_threads
from xla_backend.targets.cpu.routines.library import kernel_library
cb = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
    kernel_library()["pyjax_parallel_for"])
host_threads.set_num_threads(3)
def run():
    seen = []
    fn = cb(lambda _, b: seen.append(b))
    call(ctypes.cast(fn, ctypes.c_void_p), None, 50)
    return sorted(seen) == list(range(50))
assert run()
pid = os.fork()
if pid == 0:
    os._exit(0 if run() and run() else 3)
assert os.waitpid(pid, 0)[1] == 0
assert run()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork():
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 4))
    done = subprocess.run([sys.executable, "-c", FORK, root], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


SLEEPING_BLOCKS = """
import ctypes, os, signal, time
from xla_backend.runtime import host_threads
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.llvm.jit import compile_library

host_threads.set_num_threads(3)
# The first block sleeps for a second, wherever it runs.
library = compile_library(
    "declare i32 @usleep(i32)\\n"
    "define void @block(ptr %c, i64 %i) {\\n"
    "  %slow = icmp eq i64 %i, 0\\n  %t = select i1 %slow, i32 1000000, i32 100000\\n"
    "  %r = call i32 @usleep(i32 %t)\\n  ret void\\n}"
)
call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
    kernel_library()["pyjax_parallel_for"])
"""

PARKED = (
    SLEEPING_BLOCKS
    + """
start = time.process_time()
call(library.address("block"), None, 3)
burnt = time.process_time() - start
assert burnt < 0.2, burnt
"""
)


def test_a_caller_that_waits_for_the_others_sleeps():
    """It used to spin until the last block was done."""
    done = subprocess.run([sys.executable, "-c", PARKED], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


MASK = (
    SLEEPING_BLOCKS
    + """
before = set(os.listdir("/proc/self/task"))
call(library.address("block"), None, 3)
started = set(os.listdir("/proc/self/task")) - before
assert len(started) == 2
for task in started:
    with open(f"/proc/self/task/{task}/status") as file:
        (mask,) = [int(line.split()[1], 16) for line in file if line.startswith("SigBlk")]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD, signal.SIGUSR1):
        assert mask >> (number - 1) & 1, (task, number)
    for number in (signal.SIGSEGV, signal.SIGFPE, signal.SIGPROF):
        assert not mask >> (number - 1) & 1, (task, number)
assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])
"""
)


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs /proc")
def test_workers_leave_signals_to_others():
    done = subprocess.run([sys.executable, "-c", MASK], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


def test_portable_variant_compiles():
    assert objects.compile_object(pool_text(host_target(), linux=False), host_target())


@pytest.mark.parametrize("triple", ["aarch64-unknown-linux-gnu", "riscv64-unknown-linux-gnu"])
def test_other_machines(triple):
    target = make_target(triple, "", "")
    text = pool_text(target, linux=True)
    assert "@syscall(i64 98, ptr @pyjax.wake, i32 128, i32 %" in text
    assert ("llvm.aarch64.hint" in text) == triple.startswith("aarch64")
    assert objects.compile_object(text, target)
    assert objects.compile_object(serial_text(target), target)
