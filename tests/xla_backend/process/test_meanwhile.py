"""Work on another thread while the body runs: when it ends, and what becomes of its errors."""

import _thread
import _weakrefset
import gc
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from tests.forking_handlers import needs_fork, run_with_forks
from tests.interrupts import each_interrupt
from tests.threads import SECONDS
from xla_backend.process import kept_threads
from xla_backend.process import meanwhile as meanwhile_module
from xla_backend.process.meanwhile import meanwhile


def test_body_and_work_run_at_the_same_time():
    begun, ended = threading.Event(), threading.Event()

    def work():
        begun.set()
        assert ended.wait(SECONDS)

    with meanwhile(work):
        assert begun.wait(SECONDS)
        ended.set()


def test_work_has_ended_behind_the_body():
    gate, made = threading.Event(), []

    def work():
        gate.wait(SECONDS)
        made.append(threading.get_ident())

    with meanwhile(work):
        gate.set()
    assert made and made[0] != threading.get_ident()


def test_errors_of_work_are_left_to_who_asks_for_its_result():
    with meanwhile(lambda: 1 / 0):
        pass


def test_errors_of_the_body_are_raised_when_work_has_ended():
    made = []
    with pytest.raises(KeyError), meanwhile(lambda: made.append(1)):
        raise KeyError
    assert made == [1]


def test_no_interrupt_is_lost():
    """A thread that goes would call functions of Python in a finalizer, here on this thread."""

    def work():
        with meanwhile(lambda: None):
            pass

    work()
    gc.collect()
    modules = (_weakrefset, kept_threads, meanwhile_module)
    assert len(list(each_interrupt(work, *modules))) > 3


def test_a_signal_that_interrupts_no_wait_is_noticed():
    handled, seen = threading.Event(), []

    def work():
        time.sleep(0.2)  # the other thread waits
        _thread.interrupt_main(signal.SIGUSR1)
        seen.append(handled.wait(20))

    before = signal.signal(signal.SIGUSR1, lambda number, frame: handled.set())
    try:
        with meanwhile(work):
            pass
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [True]


@needs_fork
def test_a_child_that_is_forked_meanwhile_does_not_wait():
    run_with_forks("""
        from xla_backend.process.meanwhile import meanwhile

        with meanwhile(fork_the_main_thread):
            pass
        if not children[0]:
            os._exit(7)
        assert end_of_child() == 7
        """)


def test_it_ends_when_python_does():
    """Threads that are kept do not run any more."""
    code = """
        import os, signal, sys, types
        from xla_backend.process.meanwhile import meanwhile

        def work():
            os.write(1, b"work ")

        class Last:
            def __del__(self, meanwhile=meanwhile, work=work, alarm=signal.alarm):
                alarm(50)
                with meanwhile(work):
                    pass

        with meanwhile(work):
            pass
        sys.modules["last"] = module = types.ModuleType("last")
        module.last = Last()
        del module
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "work work ", "")
