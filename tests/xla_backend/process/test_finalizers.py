"""Finalizers that no signal handler can interrupt."""

import signal
import threading
import time
from queue import SimpleQueue

import pytest

from xla_backend.process.finalizers import handing_over


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
                while time.monotonic() < end:
                    thing(), thing(), thing(), thing()
                    arrived.clear()
                pytest.fail("what the handler raised did not arrive")
            except InterruptedError:
                caught += 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert raised == caught == 400
