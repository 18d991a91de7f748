"""Tasks that run together end together, whatever interrupts the one who waits for them."""

import _thread
import os
import signal
import threading
import time

import pytest

from tests.forking_handlers import needs_fork, run_with_forks
from tests.interrupts import each_interrupt
from xla_backend.runtime import participant_threads
from xla_backend.runtime.participant_threads import (
    Interrupted,
    check_interrupt,
    run_apart,
    run_together,
)


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


def test_a_task_apart_gives_its_result_or_error():
    def fail():
        raise ZeroDivisionError

    assert run_apart(lambda: threading.current_thread() is threading.main_thread()) is False
    with pytest.raises(ZeroDivisionError):
        run_apart(fail)
    # Where no handlers run it needs no other thread.
    inner = run_apart(lambda: (threading.get_ident(), run_apart(threading.get_ident)))
    assert inner[0] == inner[1]


def test_an_interrupt_at_any_point_ends_a_task_apart():
    """It is told, and ends before the interrupt goes on its way."""
    running: list[int] = []

    def wait():
        running.append(1)
        try:
            for _ in range(20):
                check_interrupt()
                time.sleep(0.001)
        finally:
            running.pop()

    number = 0
    for number in each_interrupt(lambda: run_apart(wait), participant_threads):
        assert not running, f"the task goes on after interrupt {number}"
    assert number > 10


def test_what_waits_in_a_task_of_a_task_is_interrupted_with_it():
    waits = threading.Barrier(3)

    def wait():
        waits.wait(60)
        while True:
            check_interrupt()
            time.sleep(0.001)

    def together():
        first, second = run_together([wait, wait], lambda: None)
        assert isinstance(first.error, Interrupted) and isinstance(second.error, Interrupted)
        ended.append(1)

    def send():
        waits.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    ended: list[int] = []
    # Shells start programs in the background with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            threading.Thread(target=send).start()
            run_apart(together)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended


def test_a_signal_that_interrupts_no_wait_is_noticed():
    """One that arrives when the caller has looked and does not sleep yet, or on another thread."""
    told = []

    def work():
        time.sleep(0.2)  # the caller waits
        _thread.interrupt_main(signal.SIGUSR1)
        end = time.monotonic() + 20
        try:
            while time.monotonic() < end:
                check_interrupt()
                time.sleep(0.01)
        except Interrupted:
            told.append(True)
            raise

    def handler(number, frame):
        raise InterruptedError

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(InterruptedError):
            run_apart(work)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert told == [True]


@needs_fork
def test_a_child_that_is_forked_meanwhile_does_not_wait():
    run_with_forks("""
        from xla_backend.runtime.participant_threads import run_together

        try:
            outcomes = run_together([lambda: None, fork_the_main_thread], lambda: None)
        except RuntimeError as error:
            assert not children[0] and "forked" in str(error), error
            os._exit(7)
        assert children[0] and outcomes[1].results == [True]
        assert end_of_child() == 7
        """)
