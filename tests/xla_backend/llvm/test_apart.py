"""Work inside LLVM: on another thread, to its end, whatever signals arrive."""

import _thread
import ctypes
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from llvmlite.binding.orcjit import ResourceTracker

from tests.threads import SECONDS
from xla_backend.llvm import jit, objects
from xla_backend.llvm.apart import apart, given_back_apart
from xla_backend.llvm.target import host_target

TEXT = "define i32 @f() {\n  ret i32 %d\n}"
timers = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")


def _run(code):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, timeout=200, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_main_thread_hands_over_and_others_do_not():
    assert apart(threading.current_thread).name == "pyjax: LLVM"
    found = []
    other = threading.Thread(target=lambda: found.append(apart(threading.current_thread)))
    other.start()
    other.join(30)
    assert found == [other]


def test_errors_come_back_with_the_place_and_without_the_objects_of_its_frames():
    class Held:
        pass

    freed_by = []

    def work():
        held = Held()
        held.__class__.__del__ = lambda self: freed_by.append(threading.current_thread().name)
        raise KeyError("why")

    with pytest.raises(KeyError, match="why") as caught:
        apart(work)
    assert [entry.name for entry in caught.traceback][-1] == "work"
    assert freed_by == ["pyjax: LLVM"]
    with pytest.raises(objects.IrError, match="expected"):
        objects.compile_object("define i32 @f( {\n}", host_target())


@timers
def test_an_interrupted_caller_leaves_the_work_to_its_end():
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work():
        begun.set()
        go_on.wait(SECONDS)
        ended.set()

    def send():
        begun.wait(SECONDS)
        os.kill(os.getpid(), signal.SIGALRM)

    def handler(number, frame):
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(InterruptedError):
            threading.Thread(target=send).start()
            apart(work)
        assert not ended.is_set()
    finally:
        signal.signal(signal.SIGALRM, before)
        go_on.set()
    assert apart(ended.is_set)  # first come, first served


def test_a_signal_that_interrupts_no_wait_is_noticed_while_the_work_goes_on():
    """One that arrives when the caller has looked and does not sleep yet, or on another thread."""
    handled = threading.Event()

    def work():
        time.sleep(0.2)  # the caller waits
        _thread.interrupt_main(signal.SIGALRM)  # notes the signal, and interrupts nothing
        return handled.wait(20)

    before = signal.signal(signal.SIGALRM, lambda number, frame: handled.set())
    try:
        assert apart(work)
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.parametrize("stage", ["not yet released", "released"])
def test_a_child_does_not_do_again_what_was_done(stage):
    """A handler forks when the work is done, but its caller has not yet come back."""
    _run(f"""
    import os, signal, threading, time
    from xla_backend.llvm import apart as module

    times, jobs = [], []

    def work():
        times.append(1)
        return 5

    def handler(number, frame):
        if os.fork() == 0:
            signal.alarm(20)
            os._exit(module.apart(int) + child())
        assert os.wait()[1] == 0

    def child():
        return len(times) - 1 + (jobs[0].result != 5) + jobs[0].finished.locked()

    class Lock:
        def __init__(self, lock):
            self.locked, self.acquire, self._release = lock.locked, lock.acquire, lock.release

        def release(self):
            {"signalled()" if stage == "not yet released" else "pass"}
            self._release()
            {"signalled()" if stage == "released" else "pass"}

    def signalled():
        if os.getpid() == parent and not handled.is_set():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
            handled.wait(30)

    parent, handled = os.getpid(), threading.Event()

    def run(self):
        self.finished = Lock(self.finished)
        jobs.append(self)
        plain(self)

    plain, module._Job.run = module._Job.run, run
    signal.signal(signal.SIGUSR1, lambda *a: (handler(*a), handled.set()))
    assert module.apart(work) == 5 and handled.is_set()
    """)


def test_code_is_given_back_there(monkeypatch):
    """Whether the last reference goes or the garbage collector finds a cycle."""
    monkeypatch.setattr(jit, "can_load", lambda objects: False)
    gc.collect()
    apart(int)
    threads = []
    dispose = ResourceTracker._dispose
    monkeypatch.setattr(
        ResourceTracker,
        "_dispose",
        lambda self: (threads.append(threading.current_thread().name), dispose(self)),
    )
    library = jit.compile_library(TEXT % 7)
    function = library.function("f", ctypes.c_int32)
    del library
    gc.collect()
    apart(int)
    assert function() == 7
    assert not threads
    del function
    gc.collect()
    apart(int)
    assert threads == ["pyjax: LLVM"]
    library = jit.compile_library(TEXT % 8)
    library.itself = library
    del library
    gc.collect()
    apart(int)
    assert threads == ["pyjax: LLVM"] * 2


@given_back_apart
class _Broken:
    def give_back(self):
        raise KeyError("why")


@given_back_apart
class _Last:
    def __init__(self, given_back):
        self.given_back = given_back

    def give_back(self):
        self.given_back.set()


def test_an_error_while_something_is_given_back_is_shown_and_the_thread_goes_on(monkeypatch):
    def goes_on():
        given_back = threading.Event()  # a call of apart would wait for ever
        _Broken()
        _Last(given_back)
        return given_back.wait(20)

    def hook(error):
        shown.append((error.exc_type, error.exc_value.args, error.thread.name))
        raise OSError("nowhere to show it")

    apart(int)
    shown = []
    monkeypatch.setattr(threading, "excepthook", hook)
    assert goes_on()
    assert goes_on()
    assert shown == [(KeyError, ("why",), "pyjax: LLVM")] * 2
    assert apart(int) == 0


def test_a_library_that_could_not_be_linked_has_nothing_to_give_back():
    code = objects.compile_object(
        "declare i32 @nobody()\ndefine i32 @f() {\n  %r = call i32 @nobody()\n  ret i32 %r\n}",
        host_target(),
    )
    with pytest.raises(jit.UnresolvedSymbolError):
        jit.Library(code)
    gc.collect()
    assert apart(int) == 0


@timers
def test_handlers_that_raise_all_the_time_leave_the_compiler_whole():
    _run("""
        import signal, threading
        from xla_backend.llvm import jit, objects  # not loaded in the middle of signals
        from xla_backend.llvm.apart import apart
        from xla_backend.llvm.target import host_target

        host_target()  # reads a file, where an InterruptedError would be that of the file

        # Before the first signal: Python's own start of a thread loses its lock in a handler's
        # exception, now and then, and raises RuntimeError.
        apart(int)
        text = "define i32 @f() {\\n  ret i32 %d\\n}"

        def handler(number, frame):
            raise InterruptedError

        signal.signal(signal.SIGALRM, handler)
        interrupted = 0
        while interrupted < 1500:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 + interrupted % 37 * 0.00005)
                while True:
                    jit.compile_library(text % interrupted)
            except InterruptedError:
                interrupted += 1
        found = []
        other = threading.Thread(
            target=lambda: found.append(jit.compile_library(text % 5)), daemon=True
        )
        other.start()
        other.join(30)
        assert found, "another thread cannot compile"
        """)


@timers
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_in_a_handler_while_the_main_thread_compiles():
    _run("""
        import os, signal, time
        from xla_backend.llvm import jit
        from xla_backend.llvm.apart import apart

        children = []

        def handler(number, frame):
            children.append(os.fork())
            if not children[-1]:
                signal.alarm(0)

        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        assert apart(lambda: time.sleep(0.3) or 6 * 7) == 42
        jit.compile_library("define i32 @f() {\\n  ret i32 1\\n}")
        if not children[0]:
            os._exit(0)
        end = time.monotonic() + 60
        while True:
            pid, status = os.waitpid(children[0], os.WNOHANG)
            if pid:
                break
            assert time.monotonic() < end, "the child waits for a thread that it does not have"
            time.sleep(0.05)
        assert os.waitstatus_to_exitcode(status) == 0
        """)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_children_that_handlers_fork_at_any_step_wait_for_no_thread_of_their_parent():
    """In the middle of a thread's beginning, too, and before and after a job is handed over."""
    _run("""
        import os, signal, threading
        from tests.interrupts import each_interrupt
        from xla_backend.llvm import apart as module
        from xla_backend.process import own_threads

        parent, runs = os.getpid(), []

        def work():
            module._service = own_threads.Service("pyjax: LLVM")
            runs.clear()
            assert module.apart(lambda: runs.append(1) or 5) == 5

        def handler():
            pid = os.fork()
            if not pid:
                signal.alarm(60)
                runs.clear()
            elif status := os.waitpid(pid, 0)[1]:
                os._exit(os.waitstatus_to_exitcode(status) % 256)

        last = 0
        for last in each_interrupt(work, module, own_threads, threading, handler=handler):
            if os.getpid() != parent:
                assert module.apart(int) == 0 and len(runs) <= 1, runs
                os._exit(0)
        assert last > 10
        """)


def test_a_finalizer_that_compiles_while_python_ends_does_not_wait_for_ever():
    _run("""
        import sys
        from xla_backend.llvm import jit

        class Late:
            def __del__(self, compile=jit.compile_library, sys=sys):
                assert sys.is_finalizing()
                print(compile("define i32 @f() {\\n  ret i32 2\\n}"))

        jit.compile_library("define i32 @f() {\\n  ret i32 1\\n}")
        late = Late()
        """)


@timers
def test_what_a_handler_raises_is_not_taken_for_an_error_of_the_cache(tmp_path, monkeypatch):
    """TimeoutError is an OSError, and time limits raise it from a handler."""
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path))
    caught = 0

    def handler(number, frame):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for i in range(60):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001 + i % 7 * 0.0002)
                end = time.monotonic() + 5
                while time.monotonic() < end:
                    objects.compile_object(TEXT % 9, host_target(), cache=True)
                pytest.fail("what the handler raised did not arrive")
            except TimeoutError:
                caught += 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert caught == 60
