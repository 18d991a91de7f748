"""Forks wait for other threads' locks; the child's are free, or it says why it cannot go on."""

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from tests.sampling import sampled
from xla_backend.process.forks import Visitors

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def test_visitors_share_and_the_one_who_acquires_is_alone():
    visitors = Visitors()
    inside, go = threading.Event(), threading.Event()

    def visit():
        with visitors.visit():
            inside.set()
            go.wait(30)

    thread = threading.Thread(target=visit)
    thread.start()
    assert inside.wait(30)
    with visitors.visit():
        pass
    assert not visitors.acquire(timeout=0.05)
    go.set()
    assert visitors.acquire(timeout=30)
    later = threading.Thread(target=visit)
    later.start()
    later.join(0.1)
    assert later.is_alive()
    visitors.release()
    later.join(30)
    assert not later.is_alive()
    thread.join()


def _run(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        timeout=200,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_fork_waits_for_the_holder_of_a_lock():
    _run("""
        import os, threading, time
        from xla_backend.process import forks
        lock = threading.Lock()
        forks.take_for_forks(lock, forks.LEAF)
        lock.acquire()
        threading.Timer(0.3, lock.release).start()
        start = time.monotonic()
        pid = os.fork()
        if pid == 0:
            os._exit(0 if lock.acquire(timeout=5) else 3)
        assert time.monotonic() - start > 0.25
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert lock.acquire(timeout=5)
        """)


def test_a_child_that_cannot_compile_says_so():
    _run("""
        import os, threading, time
        import pyjax, pyjax.numpy as np
        from xla_backend.process import forks
        from xla_backend.llvm import objects
        forks._BOUND = 0.2
        known = pyjax.jit(lambda x: x * 2 + 1)
        x = np.ones(3)
        known(x)
        inside, go = threading.Event(), threading.Event()

        def stay():
            with objects._emitting.visit():
                inside.set()
                go.wait(60)

        threading.Thread(target=stay).start()
        inside.wait(60)
        pid = os.fork()
        if pid == 0:
            status = 9
            try:
                assert known(x).tolist() == [3, 3, 3]
                try:
                    pyjax.jit(lambda x: x @ x + time.time())(x)  # none that is on disk
                except forks.ForkedWhileCompilingError as error:
                    assert "'forkserver'" in str(error)
                    status = 0
            finally:
                os._exit(status)
        go.set()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert float(pyjax.jit(lambda x: x @ x + 17)(x)) == 20  # the parent goes on
        """)


@sampled("context", ["fork", "forkserver", "spawn"], every=3)
def test_process_pools_beside_compiling_threads(context, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import multiprocessing, sys, threading
        from concurrent.futures import ProcessPoolExecutor
        import pyjax, pyjax.numpy as np

        def work(n):
            return float(pyjax.jit(lambda x: (x * n) @ x + n)(np.ones(n)))

        def compile_always(stop):
            n = 0
            while not stop.is_set():
                n += 1
                pyjax.jit(lambda x: np.tanh(x * n) @ x)(np.ones(20))

        if __name__ == "__main__":
            stop = threading.Event()
            thread = threading.Thread(target=compile_always, args=(stop,))
            thread.start()
            try:
                context = multiprocessing.get_context(sys.argv[1])
                with ProcessPoolExecutor(2, mp_context=context) as pool:
                    assert list(pool.map(work, range(1, 7))) == [n * n + n for n in range(1, 7)]
            finally:
                stop.set()
                thread.join()
        """)
    )
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, str(program), context],
        capture_output=True,
        timeout=200,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_thread_that_works_apart_is_there_in_children():
    """Forked while that thread comes back from waiting, a child's would wait for ever."""
    _run("""
        import os, signal, sys, threading
        from xla_backend.llvm.apart import apart, given_back_apart
        @given_back_apart
        class Gone:
            def give_back(self):
                pass
        sys.setswitchinterval(1e-5)
        def busy():
            while True:
                sum(range(200))
        threading.Thread(target=busy, daemon=True).start()
        for _ in range(40):
            assert apart(int, "7") == 7
            Gone()  # wakes it
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                os._exit(apart(int, "7"))
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        os._exit(0)
        """)


def test_a_fork_does_not_wait_for_a_thread_that_logs():
    """`logging` takes its lock before a fork, too: it must not have that while it waits here."""
    _run("""
        import os, threading, time
        from xla_backend.process import forks, on_first_use
        import logging
        forks._BOUND = 20.0
        held = threading.Event()

        def work():
            with on_first_use._importing:
                held.set()
                time.sleep(0.5)  # the fork begins
                logging.getLogger("another").isEnabledFor(10)  # takes the lock of logging

        threading.Thread(target=work).start()
        held.wait(60)
        start = time.monotonic()
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        assert time.monotonic() - start < 15
        assert os.waitpid(pid, 0)[1] == 0
        """)


def test_the_wait_of_a_fork_is_bounded_once():
    _run("""
        import os, threading, time
        from xla_backend.process import forks
        lock = threading.Lock()
        forks.take_for_forks(lock, forks.START)
        forks._BOUND = 2.0
        for _ in range(2):
            lock.acquire()
            start = time.monotonic()
            pid = os.fork()
            if pid == 0:
                os._exit(7)
            assert 1.9 < time.monotonic() - start < 3.5
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
            lock.release()
        """)


def test_a_child_that_cannot_start_a_backend_says_so():
    _run("""
        import os, threading
        import pyjax
        from pyjax.runtime import devices
        from xla_backend.process import forks
        forks._BOUND = 0.2
        held, go = threading.Event(), threading.Event()

        def work():
            with devices._lock:
                held.set()
                go.wait(60)

        threading.Thread(target=work).start()
        held.wait(60)
        pid = os.fork()
        if pid == 0:
            try:
                devices.backends()
            except forks.ForkedWhileCompilingError:
                os._exit(0)
            os._exit(9)
        go.set()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        """)


def test_a_lock_that_comes_while_a_fork_waits_is_taken_in_order():
    """Who has it may wait for one that the fork has already."""
    _run("""
        import os, threading, time
        from xla_backend.process import forks
        forks._BOUND = 20.0
        early, late = threading.Lock(), threading.Lock()
        forks.take_for_forks(late, forks.LEAF)
        held = threading.Event()

        def work():
            with late:
                held.set()
                time.sleep(0.5)  # the fork waits
                early.acquire()
                forks.take_for_forks(early, forks.START)
            time.sleep(0.5)  # the fork has the other one
            late.acquire()
            late.release()
            early.release()

        threading.Thread(target=work).start()
        held.wait(60)
        start = time.monotonic()
        pid = os.fork()
        if pid == 0:
            os._exit(not (early.acquire(timeout=5) and late.acquire(timeout=5)))
        assert time.monotonic() - start < 15
        assert os.waitpid(pid, 0)[1] == 0
        """)


def test_threads_that_fork_at_the_same_time_have_the_locks_each():
    _run("""
        import os, threading, time
        os.register_at_fork(before=lambda: time.sleep(0.01))  # when the locks are taken
        from xla_backend.process import forks
        lock = threading.Lock()
        forks.take_for_forks(lock, forks.LEAF)
        failures, ended = [], threading.Event()

        def hold():
            while not ended.is_set():
                with lock:
                    time.sleep(0.005)
                time.sleep(0.001)

        def work():
            for _ in range(10):
                pid = os.fork()
                if pid == 0:
                    os._exit(0 if lock.acquire(timeout=5) else 3)
                failures.append(os.waitpid(pid, 0)[1])

        holder = threading.Thread(target=hold)
        holder.start()
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
        ended.set()
        assert failures == [0] * 30, failures
        """)
