"""The thread pool: every block once, any thread count, nested and concurrent calls, fork."""

import ctypes
import os
import subprocess
import sys
import threading

import pytest

from xla_backend.cpu.kernels import thread_pool
from xla_backend.cpu.kernels.library import kernel_library
from xla_backend.cpu.kernels.thread_pool import pool_text
from xla_backend.llvm import jit
from xla_backend.llvm.target import host_target

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


def parallel_for(fn, blocks):
    address = kernel_library()["pyjax_parallel_for"]
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address)
    callback = CALLBACK(lambda _, block: fn(block))
    call(ctypes.cast(callback, ctypes.c_void_p), None, blocks)


@pytest.fixture(autouse=True)
def restore():
    before = thread_pool.num_threads()
    yield
    thread_pool.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("blocks", [0, 1, 2, 7, 300])
def test_every_block_once(threads, blocks):
    thread_pool.set_num_threads(threads)
    assert thread_pool.num_threads() == threads
    for _ in range(3):
        seen = []
        parallel_for(seen.append, blocks)
        assert sorted(seen) == list(range(blocks))


def test_nested_calls():
    thread_pool.set_num_threads(3)
    seen = []
    parallel_for(lambda i: parallel_for(lambda j: seen.append((i, j)), 5), 4)
    assert sorted(seen) == [(i, j) for i in range(4) for j in range(5)]


def test_concurrent_callers():
    thread_pool.set_num_threads(3)
    results = [[] for _ in range(4)]

    def work(mine):
        for _ in range(20):
            parallel_for(mine.append, 10)

    threads = [threading.Thread(target=work, args=(r,)) for r in results]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for mine in results:
        assert sorted(mine) == sorted(list(range(10)) * 20)


def test_refuses_no_threads():
    with pytest.raises(ValueError, match="at least 1"):
        thread_pool.set_num_threads(0)


FORK = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[1])
from xla_backend.cpu.kernels import thread_pool
from xla_backend.cpu.kernels.library import kernel_library
cb = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
    kernel_library()["pyjax_parallel_for"])
thread_pool.set_num_threads(3)
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


def test_portable_variant_compiles():
    assert jit.compile_object(pool_text(host_target(), linux=False))
