"""Work on another thread while the body runs: when it ends, and what becomes of its errors."""

import _weakrefset
import gc
import threading

import pytest

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
