"""The thread pool: every block once, any thread count, nested and concurrent calls, fork."""

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.threads import together
from xla_backend.llvm import objects
from xla_backend.llvm.target import host_target, make_target
from xla_backend.runtime import host_threads
from xla_backend.runtime.host_threads import num_threads
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.pool_functions import pool_text, serial_text

ROOT = Path(__file__).resolve().parents[5]
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


def meet_in_jobs(outer, threads):
    """Two jobs of two blocks at a time; all four blocks wait for each other."""
    host_threads.set_num_threads(threads)
    meeting = threading.Barrier(4)
    late = []

    def block(_):
        try:
            meeting.wait(60)
        except threading.BrokenBarrierError:
            late.append(block)

    outer(lambda: parallel_for(block, 2))
    assert not late


def test_concurrent_callers_share_the_workers():
    meet_in_jobs(lambda job: together(job, job), 4)


def test_nested_calls_share_the_workers():
    # One more than blocks: workers may take both outer blocks, and then the caller only waits.
    meet_in_jobs(lambda job: parallel_for(lambda _: job(), 2), 5)


def test_refuses_no_threads():
    with pytest.raises(ValueError, match="at least 1"):
        host_threads.set_num_threads(0)


FORK = """
import ctypes, os
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
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


FORK_INSIDE = """
import ctypes, os, signal
from xla_backend.llvm.jit import compile_library
from xla_backend.runtime import host_threads
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.python_calls import bridge_library

library = compile_library(
    "declare i32 @usleep(i32)\\n"
    "define void @block(ptr %c, i64 %i) {\\n"
    "  %p = getelementptr i32, ptr %c, i64 %i\\n"
    "  %r = call i32 @usleep(i32 10000)\\n"
    "  %o = atomicrmw add ptr %p, i32 1 seq_cst\\n  ret void\\n}"
)
call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
    kernel_library()["pyjax_parallel_for_polled"])
begin = bridge_library().function("pyjax_poll_begin", None)
host_threads.set_num_threads(3)
children = []
signal.signal(signal.SIGALRM, lambda *_: children.append(os.fork()))
signal.setitimer(signal.ITIMER_REAL, 0.15)

def each_once():
    counts = (ctypes.c_int32 * 120)()
    begin()
    call(library.address("block"), ctypes.cast(counts, ctypes.c_void_p), 120)
    return list(counts) == [1] * 120

first = each_once()
forked_inside = len(children) == 1
if children == [0]:
    os._exit(0 if first and each_once() else 3)
assert first and forked_inside and each_once()
assert os.waitpid(children[0], 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_handler_may_fork_inside_of_a_loop():
    """The child used to wait for the blocks of workers that it does not have."""
    done = subprocess.run([sys.executable, "-c", FORK_INSIDE], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


# Every 16th loop has a block that is slow enough for the joiner to sleep; every 64th comes after a
# gap in which the workers fall asleep.
FORK_JOINS = """
import ctypes, sys
from xla_backend.llvm.jit import compile_library
from xla_backend.runtime import host_threads
from xla_backend.targets.cpu.routines.thread_pool import pool_library
from tests.threads import together

library = compile_library('''
declare i32 @usleep(i32)
declare void @pyjax_parallel_for(ptr, ptr, i64)
define internal void @block(ptr %c, i64 %i) {
  %s = getelementptr i32, ptr %c, i64 1
  %slow = load i32, ptr %s
  %first = icmp eq i64 %i, 0
  %us = select i1 %first, i32 %slow, i32 0
  %some = icmp ne i32 %us, 0
  br i1 %some, label %nap, label %count
nap:
  %r = call i32 @usleep(i32 %us)
  br label %count
count:
  %o = atomicrmw add ptr %c, i32 1 seq_cst
  ret void
}
define i32 @fork_joins(i64 %n, i64 %blocks) {
entry:
  %c = alloca [2 x i32]
  %s = getelementptr i32, ptr %c, i64 1
  %want = trunc i64 %blocks to i32
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %run ]
  %bad = phi i32 [ 0, %entry ], [ %worse, %run ]
  %i16 = and i64 %i, 15
  %slow = icmp eq i64 %i16, 0
  %us = select i1 %slow, i32 100, i32 0
  store i32 0, ptr %c
  store i32 %us, ptr %s
  %i64 = and i64 %i, 63
  %gap = icmp eq i64 %i64, 5
  br i1 %gap, label %rest, label %run
rest:
  %r = call i32 @usleep(i32 200)
  br label %run
run:
  call void @pyjax_parallel_for(ptr @block, ptr %c, i64 %blocks)
  %seen = load i32, ptr %c
  %wrong = icmp ne i32 %seen, %want
  %one = zext i1 %wrong to i32
  %worse = add i32 %bad, %one
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %n
  br i1 %more, label %loop, label %out
out:
  ret i32 %worse
}''', pool_library().addresses())
fork_joins = library.function("fork_joins", ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)
for threads in (2, 7):
    host_threads.set_num_threads(threads)
    for callers in (1, 3, 12):
        for blocks in (2, 5, 64):
            work = lambda: fork_joins(int(sys.argv[1]) // callers, blocks)
            wrong = together(*[work] * callers)
            assert wrong == [0] * callers, (threads, callers, blocks, wrong)
"""


@pytest.mark.parametrize("each", [300, pytest.param(100_000, marks=pytest.mark.slow)])
def test_many_fork_joins(each):
    command = [sys.executable, "-c", FORK_JOINS, str(each)]
    done = subprocess.run(command, capture_output=True, timeout=1800, cwd=ROOT)
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
