"""Work that is done later: in order, once, not kept alive; at the end of a process, in children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import pytest

from tests.interrupts import each_interrupt
from xla_backend.process import later
from xla_backend.process.later import Later, finish_all
from xla_backend.process.meanwhile import meanwhile

SECONDS = 60


class Held:
    """Work that waits until it may go on."""

    def __init__(self) -> None:
        self.begun, self.gate = threading.Event(), threading.Event()
        self.piece = Later(self._work)
        self.piece.begin()

    def _work(self, piece: Later) -> None:
        self.begun.set()
        assert self.gate.wait(SECONDS)


def test_it_is_done_in_order_on_one_thread_which_is_another() -> None:
    done: list[tuple[int, int]] = []
    pieces = [Later(lambda _, i=i: done.append((i, threading.get_ident()))) for i in range(5)]
    for piece in pieces:
        piece.begin()
    finish_all()
    assert [number for number, _ in done] == [0, 1, 2, 3, 4]
    (thread,) = {thread for _, thread in done}
    assert thread != threading.get_ident()
    assert all(piece.is_done for piece in pieces) and later.waiting() == 0


def test_what_somebody_waits_for_comes_first() -> None:
    done: list[str] = []
    held = Held()
    assert held.begun.wait(SECONDS)
    other, wanted = Later(lambda _: done.append("other")), Later(lambda _: done.append("wanted"))
    other.begin()
    wanted.begin()

    def let_go() -> None:
        while not later._urgent:
            time.sleep(0.001)
        held.gate.set()

    threading.Thread(target=let_go).start()
    assert wanted.finish()
    finish_all()
    assert done == ["wanted", "other"]


def test_it_is_not_done_before_its_time_unless_somebody_waits() -> None:
    done: list[str] = []
    first, second = Later(lambda _: done.append("first")), Later(lambda _: done.append("second"))
    first.begin(3600)
    second.begin()
    assert not first._gate.acquire(True, 0.1) and not done  # the second comes behind the first
    assert first.finish() and second.finish()
    assert done == ["first", "second"]
    Later(lambda _: done.append("third")).begin(0.01)
    deadline = time.monotonic() + SECONDS
    while later.waiting() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert done == ["first", "second", "third"]


def test_it_keeps_nothing_when_it_is_done() -> None:
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    piece = Later(lambda _, kept=thing: kept)
    piece.begin()
    del thing
    assert piece.finish()
    Later(lambda _: None).begin()  # the thread has let go of it when it is at the next
    finish_all()
    assert gone() is None


def test_what_is_done_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread may not have come to take it from the list."""
    gate = threading.Event()

    class Slow(dict[Later, None]):
        def pop(self, *arguments: object) -> None:  # type: ignore[override]
            assert gate.wait(SECONDS)
            super().pop(*arguments)  # type: ignore[call-overload]

    monkeypatch.setattr(later, "_pending", Slow())
    piece = Later(lambda _: None)
    piece.begin()
    assert piece.finish() and later.waiting() == 0
    gate.set()
    Later(lambda _: None).finish()  # the thread has come that far


def test_an_error_is_shown_and_the_next_one_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda hook: shown.append(hook.exc_value))
    error = KeyError("no such thing")

    def fail(piece: Later) -> None:
        raise error

    failing, next_one = Later(fail), Later(lambda _: None)
    failing.begin()
    next_one.begin()
    assert failing.finish() and next_one.finish()
    assert shown == [error]


def test_the_thread_stays_when_a_hook_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda hook: sys.exit(3))

    def fail(piece: Later) -> None:
        raise KeyError

    failing, next_one = Later(fail), Later(lambda _: None)
    failing.begin()
    next_one.begin()
    assert failing.finish() and next_one.finish()


def test_work_does_not_wait_for_itself() -> None:
    found: list[bool] = []
    piece = Later(lambda own: found.append(own.finish()))
    piece.begin()
    finish_all()
    assert found == [False]


def test_work_may_begin_other_work() -> None:
    done: list[str] = []
    inner = Later(lambda _: done.append("inner"))
    Later(lambda _: inner.begin()).begin()
    finish_all()
    finish_all()
    assert done == ["inner"]


def test_the_collector_is_left_as_others_have_it() -> None:
    code = """
        import gc, threading
        from xla_backend.process.later import Later, finish_all
        from xla_backend.process.no_collections import without_collections
        inside, gate = threading.Event(), threading.Event()
        def wait():
            inside.set()
            gate.wait(60)
        Later(lambda piece: without_collections(wait)).begin()
        assert inside.wait(60) and gc.isenabled()
        gc.disable()
        gate.set()
        finish_all()
        assert not gc.isenabled()
    """
    assert run(code) == (0, "", "")


@pytest.mark.skipif(sys.platform != "linux", reason="priorities are of whole processes here")
def test_the_thread_gives_way_and_begins_no_others() -> None:
    found: list[tuple[int, bool]] = []

    def work(piece: Later) -> None:
        me = threading.get_native_id()
        inner: list[int] = []
        with meanwhile(lambda: inner.append(threading.get_native_id())):
            pass
        found.append((os.getpriority(os.PRIO_PROCESS, me), inner == [me]))

    Later(work).begin()
    finish_all()
    ((priority, alone),) = found
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert alone and (priority > own or own >= 15)


# Python 3.12 and later warn of each fork where there are threads.
_FLAGS = ("-X", "faulthandler", "-W", "ignore:This process:DeprecationWarning")


def run(code: str, *, interrupt: bool = False) -> tuple[int, str, str]:
    """Exit status, output and errors of a program; it is interrupted when it says so."""
    arguments = [sys.executable, *_FLAGS, "-c", textwrap.dedent(code)]
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            if interrupt:
                assert process.stdout is not None and process.stdout.readline() == "now\n"
                process.send_signal(signal.SIGINT)
            out, error = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    return process.returncode, out, error


_WORK = """
import os, time
from xla_backend.process.later import Later, finish_all, is_over, waiting
def say(*what):
    os.write(1, (" ".join(map(str, what)) + "\\n").encode())
"""


def test_the_end_waits_for_what_is_of_use_to_others() -> None:
    code = """
        def work(piece):
            time.sleep(0.3)
            say("first")
        Later(work, outlives=lambda: True).begin()
        Later(lambda piece: say("of no use")).begin()
        Later(lambda piece: say("second", is_over()), outlives=lambda: True).begin()
    """
    assert run(_WORK + textwrap.dedent(code)) == (0, "first\nsecond True\n", "")


def test_the_end_drops_what_is_not() -> None:
    code = """
        def work(piece):
            while not piece.is_dropped:
                time.sleep(0.01)
            say("dropped")
        piece = Later(work)
        piece.begin()
        Later(lambda piece: say("never")).begin()
        time.sleep(0.2)
    """
    assert run(_WORK + textwrap.dedent(code)) == (0, "dropped\n", "")


def test_an_interrupt_ends_the_wait_at_the_end_but_not_what_is_under_way() -> None:
    code = """
        def work(piece):
            while not is_over():
                time.sleep(0.01)
            say("now")
            while not piece.is_dropped:
                time.sleep(0.01)
            time.sleep(0.3)
            say("through")
        Later(work, outlives=lambda: True).begin()
        Later(lambda piece: say("never"), outlives=lambda: True).begin()
    """
    status, out, error = run(_WORK + textwrap.dedent(code), interrupt=True)
    assert (status, out) == (0, "through\n")
    assert "KeyboardInterrupt" in error


def test_the_end_waits_for_a_thread_that_python_takes_for_ended() -> None:
    """An interrupt in `Thread.is_alive` makes it so, in Python 3.11."""
    held = Held()
    assert held.begun.wait(SECONDS)
    for _ in each_interrupt(lambda: later._goes_on(float("inf")), threading):
        pass
    assert later._goes_on(float("inf"))
    held.gate.set()
    finish_all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_children_that_handlers_fork_at_any_step_do_the_work() -> None:
    code = """
        import signal, threading
        from tests.interrupts import each_interrupt
        from xla_backend.process import later, own_threads
        parent, done = os.getpid(), []
        def work():
            later._service = own_threads.Service("pyjax: later")
            done.clear()
            piece = Later(lambda piece: done.append("this"))
            piece.begin()
            assert piece.finish() and done[-1] == "this", done
        def handler():
            pid = os.fork()
            if not pid:
                signal.alarm(60)
            elif status := os.waitpid(pid, 0)[1]:
                os._exit(os.waitstatus_to_exitcode(status) % 256)
        last = 0
        for last in each_interrupt(work, later, own_threads, threading, handler=handler):
            if os.getpid() != parent:
                os._exit(waiting())
        assert last > 20
    """
    assert run(_WORK + textwrap.dedent(code)) == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("when", ["under way", "waiting"])
def test_a_child_does_what_was_not_done_if_it_is_of_use_there(when: str) -> None:
    code = """
        import threading
        me, gate, begun = os.getpid(), threading.Event(), threading.Event()
        done = []
        def hold(piece):
            begun.set()
            while not gate.is_set() and os.getpid() == me:
                time.sleep(0.01)
            done.append("held")
        Later(hold, in_child=lambda: WHEN == "under way").begin()
        Later(lambda piece: done.append("wanted")).begin()
        Later(lambda piece: done.append("unwanted"), in_child=lambda: False).begin()
        assert begun.wait(60)
        pid = os.fork()
        if pid == 0:
            finish_all()
            assert waiting() == 0
            again = Later(lambda piece: done.append("new"))
            again.begin()
            assert again.finish()
            os._exit(0 if done == ["held"] * (WHEN == "under way") + ["wanted", "new"] else 3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, WHEN
        gate.set()
        finish_all()
        assert done == ["held", "wanted", "unwanted"], done
    """
    assert run(_WORK + f"WHEN = {when!r}\n" + textwrap.dedent(code)) == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_leaves_to_its_parent_what_is_of_use_to_others() -> None:
    code = """
        import sys
        me = os.getpid()
        def work(piece):
            time.sleep(0.3)
            if os.getpid() == me:
                say("kept")
        Later(work, outlives=lambda: True).begin()
        Later(lambda piece: say("and this"), outlives=lambda: True).begin()
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    """
    assert run(_WORK + textwrap.dedent(code)) == (0, "kept\nand this\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_who_waits_in_a_child_without_threads_is_told() -> None:
    code = """
        import _thread, signal, threading
        def fail(work, arguments):
            raise RuntimeError("can't start new thread")
        gate = threading.Event()
        Later(lambda piece: gate.wait(60), in_child=lambda: False).begin()
        Later(lambda piece: say("done")).begin()
        start, _thread.start_new_thread = _thread.start_new_thread, fail
        pid = os.fork()
        if pid == 0:
            signal.alarm(50)
            try:
                finish_all()
            except RuntimeError as error:
                say(error)
            _thread.start_new_thread = start
            finish_all()
            os._exit(waiting())
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        gate.set()
        finish_all()
    """
    assert run(_WORK + textwrap.dedent(code)) == (0, "can't start new thread\ndone\ndone\n", "")
