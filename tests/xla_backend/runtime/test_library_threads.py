"""LAPACK's threads: one while programs call it, the process's own number otherwise."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import xla_backend
from tests.interrupts import each_interrupt
from xla_backend.hlo.parser import parse_module
from xla_backend.runtime.host_libraries import lapack_calls, library_threads
from xla_backend.runtime.host_libraries.lent_threads import blas
from xla_backend.runtime.host_libraries.library_threads import on_library_threads, size_of

BLAS = blas()
pytestmark = pytest.mark.skipif(BLAS.set is None, reason="SciPy's BLAS is not OpenBLAS")

TRSM = """HloModule m
ENTRY %main {
  %a = f32[3,40,40] parameter(0)
  %b = f32[3,40,8] parameter(1)
  ROOT %x = (f32[3,40,8]) custom-call(%a, %b), custom_call_target="lapack.trsm",
    backend_config="{side = 76 : ui8, uplo = 76 : ui8}"
}"""


@pytest.fixture(autouse=True)
def three_threads():
    before = BLAS.get()
    BLAS.set(3)
    yield
    BLAS.set(before)


def test_one_thread_inside_and_the_old_number_after():
    def outer():
        assert BLAS.get() == on_library_threads(64, BLAS.get) == BLAS.get() == 1
        return "result"

    assert on_library_threads(64, outer) == "result"
    assert BLAS.get() == 3


def test_a_program_on_the_host_calls_lapack_with_one_thread(monkeypatch):
    seen = []

    def trsm(a, b, **how):
        seen.append(BLAS.get())
        return original(a, b, **how)

    original = lapack_calls.trsm
    monkeypatch.setattr(lapack_calls, "trsm", trsm)
    a = np.tile(np.eye(40, dtype=np.float32), (3, 1, 1))
    b = np.ones((3, 40, 8), np.float32)
    (x,) = xla_backend.compile(parse_module(TRSM), "interpreter").execute([a, b])
    np.testing.assert_array_equal(x, b)
    assert seen == [1, 1, 1]
    assert BLAS.get() == 3


def test_an_error_puts_the_number_back():
    with pytest.raises(ZeroDivisionError):
        on_library_threads(64, lambda: 1 / 0)
    assert BLAS.get() == 3


def test_a_number_set_meanwhile_stays():
    on_library_threads(64, BLAS.set, 2)
    assert BLAS.get() == 2


def test_the_last_of_several_threads_puts_the_number_back():
    inside, go = threading.Event(), threading.Event()

    def other():
        on_library_threads(64, lambda: inside.set() or go.wait(10))

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    on_library_threads(64, BLAS.get)
    assert BLAS.get() == 1
    go.set()
    thread.join()
    assert BLAS.get() == 3


@pytest.mark.parametrize(
    ("shape", "threads"),
    [
        ((1024, 1024), 2),
        ((5, 1024, 1024), 2),
        ((1797, 64), 1),
        ((64, 100_000), 1),
        ((50_000, 500), 2),
        ((9000, 1), 1),
    ],
)
def test_tall_matrices_have_little_work_between_joints(monkeypatch, shape, threads):
    monkeypatch.setattr(library_threads, "num_threads", lambda: 2)
    assert on_library_threads(size_of(shape), BLAS.get) == threads


@pytest.mark.parametrize("size, threads", [(1, 1), (1023, 1), (1024, 2), (9000, 2)])
def test_the_size_alone_decides(monkeypatch, size, threads):
    """Another number of threads rounds differently: the load of the machine must not choose it."""
    monkeypatch.setattr(library_threads, "num_threads", lambda: 2)
    assert on_library_threads(size, BLAS.get) == threads
    assert BLAS.get() == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_meanwhile_has_the_process_s_number():
    def fork():
        pid = os.fork()
        if pid == 0:
            os._exit(BLAS.get())
        return pid

    pid = on_library_threads(64, fork)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3


SPIN = """
import time
import pyjax
import pyjax.numpy as np
pyjax.config.update("jax_cpu_enable_async_dispatch", False)
x = np.arange(300.0 * 300).reshape(300, 300) % 17
symmetric = x + x.T
for _ in range(6):  # what is called often is compiled for its shapes
    np.linalg.eigh(symmetric)
time.sleep(0.3)  # threads that other code has used go to sleep
everybody, mine = time.process_time(), time.thread_time()
for _ in range(5):
    np.linalg.eigh(symmetric)[0].block_until_ready()
everybody, mine = time.process_time() - everybody, time.thread_time() - mine
assert everybody < 1.3 * mine, f"{everybody:.3f} s of all threads, {mine:.3f} s of the caller's"
"""


def test_no_other_thread_spins_during_an_eigendecomposition():
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "4"}
    done = subprocess.run(
        [sys.executable, "-c", SPIN], capture_output=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr.decode()


def test_interrupts_leave_no_call_behind():
    def work():
        on_library_threads(64, lambda: on_library_threads(64, BLAS.get))

    def handler():
        """The number that is put back late is put back at the end of the next call."""
        assert on_library_threads(64, BLAS.get) == 1
        assert BLAS.get() == 3 and not library_threads._lent.calls

    for _ in each_interrupt(work, library_threads, sys.modules[__name__]):
        handler()


def test_a_signal_handler_may_call_lapack():
    done = []

    def handler():
        done.append(on_library_threads(64, BLAS.get))

    for _ in each_interrupt(
        lambda: on_library_threads(64, BLAS.get), library_threads, handler=handler
    ):
        assert BLAS.get() == 3
    assert len(done) > 5 and set(done) == {1}
