"""The queue of programs over several devices, without any: who takes what out of it, and when."""

from __future__ import annotations

import signal
import threading

import pytest

from tests.threads import SECONDS
from xla_backend.runtime import group_queue
from xla_backend.runtime.group_queue import GroupQueue
from xla_backend.runtime.pending import Origin


class Caller(Origin):
    def error(self, message):
        return RuntimeError(message)


def nothing():
    pass


class Alarm(Exception):
    pass


@pytest.fixture
def queue(monkeypatch):
    made = GroupQueue()
    monkeypatch.setattr(group_queue, "_queue", made)
    return made


def test_two_threads_that_reap_take_out_nothing_that_has_not_run(queue):
    class Over:
        """Another thread takes it out where this one has seen that it is over."""

        @property
        def is_over(self):
            queue._runs.remove(self)
            return True

    class Waits:
        is_over = False

    waits = Waits()
    queue._runs.extend([Over(), waits])
    queue.doubt()
    queue.reap()
    assert list(queue._runs) == [waits] and queue._doubtful


def test_programs_run_in_order_and_an_error_passes_to_those_that_come_after(queue):
    order, go_on = [], threading.Event()

    def fail():
        order.append(1)
        raise ValueError("a reason")

    assert queue.takes(())
    queue.submit(lambda: go_on.wait(SECONDS), (), Caller())
    failed = queue.submit(fail, (), Caller())
    after = queue.submit(lambda: order.append(2), [failed], Caller())
    last = queue.submit(lambda: order.append(3), (), Caller())
    go_on.set()
    last.wait()
    assert order == [1, 3]
    for job in (failed, after, failed):
        with pytest.raises(RuntimeError, match="a reason"):
            job.wait()


def test_an_error_without_a_text_ends_its_program_alone(queue):
    class Mute(Exception):
        def __str__(self):
            raise KeyError

    def fail():
        raise Mute

    assert queue.takes(())
    failed = queue.submit(fail, (), Caller())
    last = queue.submit(nothing, (), Caller())
    last.wait()
    with pytest.raises(RuntimeError, match="Mute, which raises"):
        failed.wait()


def test_who_is_interrupted_before_a_full_queue_does_not_stand_there_again(queue, monkeypatch):
    """The next program does not get in line behind one that may take for ever."""
    begun, go_on = threading.Event(), threading.Event()

    def alarm(*_):
        raise Alarm

    def look(run, seconds):  # the wait of the main thread: it is interrupted
        monkeypatch.undo()
        signal.raise_signal(signal.SIGALRM)

    assert queue.takes(())
    kept = [queue.submit(lambda: begun.set() or go_on.wait(SECONDS), (), Caller())]
    kept += [queue.submit(nothing, (), Caller()) for _ in range(group_queue._MOST_RUNS - 1)]
    assert begun.wait(SECONDS)
    before = signal.signal(signal.SIGALRM, alarm)
    try:
        monkeypatch.setattr(group_queue._Run, "look", look)
        with pytest.raises(Alarm):
            queue.takes(())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not queue.takes(())
    go_on.set()
    for job in kept:
        job.wait()
    queue.reap()
    assert queue.takes(())


def test_a_queue_serves_one_thread_at_a_time(queue):
    go_on, answers = threading.Event(), []
    assert queue.takes(())
    job = queue.submit(lambda: go_on.wait(SECONDS), (), Caller())
    thread = threading.Thread(target=lambda: answers.append(queue.takes(())))
    thread.start()
    thread.join(SECONDS)
    assert answers == [False] and queue.takes(())
    go_on.set()
    job.wait()
