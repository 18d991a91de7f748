"""Finalizers that no signal handler can interrupt."""

import signal
import threading
import time
from queue import SimpleQueue

import pytest

from xla_backend.process.finalizers import handing_over, handing_over_then


def test_the_object_lives_on_where_it_was_handed_to():
    gone = []
    thing = type("Thing", (), {"__del__": handing_over(gone.append)})()
    thing.name = "kept"
    del thing
    assert [t.name for t in gone] == ["kept"]
    gone.clear()  # the second time it goes for good
    assert gone == []


def test_from_a_queue_another_thread_takes_it():
    queue = SimpleQueue()
    freed_by = []

    class Inner:
        def __del__(self):
            freed_by.append(threading.current_thread())

    class Outer:
        def __init__(self):
            self.inner = Inner()

        __del__ = handing_over(queue.put)

    thread = threading.Thread(target=lambda: queue.get(timeout=30) and None)
    thread.start()
    outer = Outer()
    del outer
    thread.join(30)
    assert freed_by == [thread]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_no_signal_handler_runs_inside():
    """What a handler raises inside a finalizer is lost: here every exception must arrive."""
    arrived = []
    thing = type("Thing", (int,), {"__slots__": (), "__del__": handing_over(arrived.append)})
    raised = caught = 0

    def handler(number, frame):
        nonlocal raised
        raised += 1
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005)
                end = time.monotonic() + 5
                while True:  # see tests/test_guarded_loops.py
                    if time.monotonic() >= end:
                        break
                    thing(), thing(), thing(), thing()
                    arrived.clear()
                pytest.fail("what the handler raised did not arrive")
            except InterruptedError:
                caught += 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert raised == caught == 400


def some_byte_code():
    for _ in range(100):
        str(_)


@pytest.mark.parametrize("where", ["main thread", "another thread"])
def test_what_runs_after_an_object_was_received(where):
    gone, seen = [], []
    members = handing_over_then(gone.append, lambda: seen.append(list(gone)))
    kind = type("Thing", (int,), {"__slots__": (), **members})

    def work():
        for number in range(3):
            thing = kind(number)
            del thing
            some_byte_code()

    if where == "main thread":
        work()
    else:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(30)
    assert seen == [[0], [0, 1], [0, 1, 2]]


def test_it_runs_when_it_is_wanted():
    gone, seen = [], []
    wanted = iter([False, True, False])
    members = handing_over_then(gone.append, lambda: seen.append(list(gone)), wanted)
    kind = type("Thing", (int,), {"__slots__": (), **members})
    for number in range(3):
        kind(number)
        some_byte_code()
    assert gone == [0, 1, 2] and seen == [[0, 1]]


def test_what_it_raises_is_raised_where_the_main_thread_is():
    gone = []

    def then():
        if len(gone) == 2:
            raise ZeroDivisionError

    kind = type("Thing", (int,), {"__slots__": (), **handing_over_then(gone.append, then)})
    kind(1)
    some_byte_code()
    with pytest.raises(ZeroDivisionError):
        kind(2)
        some_byte_code()
    assert gone == [1, 2]
    kind(3)
    some_byte_code()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_what_a_handler_raises_while_that_runs_arrives():
    gone = []
    raised = caught = 0

    def then():
        for _ in range(20):  # most of the time is spent here
            str(gone)

    def handler(number, frame):
        nonlocal raised
        raised += 1
        raise InterruptedError(f"number {raised}")

    thing = type("Thing", (int,), {"__slots__": (), **handing_over_then(gone.append, then)})
    before = signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(400):
            with pytest.raises(InterruptedError, match=f"number {raised + 1}"):
                signal.setitimer(signal.ITIMER_REAL, 0.0005)
                end = time.monotonic() + 10
                while True:  # see tests/test_guarded_loops.py
                    if time.monotonic() >= end:
                        break
                    thing(), thing()
                    gone.clear()
            caught += 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert raised == caught == 400
