"""Tasks that run together end together, whatever interrupts the one who waits for them."""

import threading
import time

from tests.interrupts import each_interrupt
from xla_backend.runtime import participant_threads
from xla_backend.runtime.participant_threads import run_together


def test_results_and_errors():
    stop = threading.Event()
    meeting = threading.Barrier(3)

    def task(number):
        def run():
            meeting.wait(60)
            if number == 1:
                raise ZeroDivisionError
            return number

        return run

    outcomes = run_together([task(n) for n in range(3)], stop.set)
    assert [outcome.results for outcome in outcomes] == [[0], [], [2]]
    assert isinstance(outcomes[1].error, ZeroDivisionError)
    assert not stop.is_set()


def test_the_others_are_stopped_if_the_first_never_began():
    stop = threading.Event()

    def refuse():
        raise KeyboardInterrupt

    def wait():
        return stop.wait(60)

    first, other = run_together([refuse, wait], stop.set)
    assert isinstance(first.error, KeyboardInterrupt) and other.results == [True]


def test_an_interrupt_at_any_point_ends_all_tasks():
    """The task of the caller and the others wait until all have come, or are told to stop."""
    running: list[int] = []

    def together():
        stop = threading.Event()
        all_here = threading.Event()
        came: list[int] = []

        def task():
            running.append(1)
            try:
                came.append(1)
                if len(came) == 3:
                    all_here.set()
                while not (stop.is_set() or all_here.is_set()):
                    time.sleep(0.001)
            except BaseException:
                stop.set()
                raise
            finally:
                running.pop()

        for outcome in run_together([task] * 3, stop.set):
            if outcome.error is not None:
                raise outcome.error

    number = 0
    for number in each_interrupt(together, participant_threads):
        deadline = time.monotonic() + 60
        while running and time.monotonic() < deadline:
            time.sleep(0.001)
        assert not running, f"tasks go on after interrupt {number}"
    assert number > 20
    together()
