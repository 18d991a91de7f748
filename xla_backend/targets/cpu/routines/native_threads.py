"""How threads of run-time code start, sleep and wake: on futexes on Linux, in naps elsewhere."""

from __future__ import annotations

from typing import Protocol

from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter

EVERYBODY = 2**31 - 1
_FUTEX_NUMBER = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
# Both for futexes of this process only.
_FUTEX_WAIT, _FUTEX_WAKE = 128, 129
_NAP_NANOSECONDS = 50_000
# Signals that mean the thread that gets them: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV,
# SIGPROF, SIGSYS.
_OWN_SIGNALS = (4, 5, 6, 7, 8, 11, 27, 31)
START = "pyjax.start_thread"


class Sleep(Protocol):
    """How a thread waits for an i32 in memory to change."""

    def wait(self, w: FunctionWriter, word: str, seen: str, timeout: str = "null") -> None:
        """Sleep while the word is what was seen of it; until the time that the timespec at
        `timeout` has is over, or a signal arrives, or for no reason."""

    def wake(self, w: FunctionWriter, word: str, count: int) -> None:
        """Wake so many of those that wait for the word."""


class _Futexes:
    """Linux: the system call of this number."""

    def __init__(self, number: int) -> None:
        self._number = number

    def _call(self, w: FunctionWriter, word: str, operation: int, value: str, timeout: str) -> None:
        w.module.declare("syscall", "i64", ["i64", "..."])
        w.value(
            f"call i64 (i64, ...) @syscall(i64 {self._number}, ptr {word}, "
            f"i32 {operation}, i32 {value}, ptr {timeout}, ptr null, i32 0)"
        )

    def wait(self, w: FunctionWriter, word: str, seen: str, timeout: str = "null") -> None:
        self._call(w, word, _FUTEX_WAIT, seen, timeout)

    def wake(self, w: FunctionWriter, word: str, count: int) -> None:
        self._call(w, word, _FUTEX_WAKE, str(count), "null")


class _Naps:
    """Elsewhere: naps; a wake-up is then a matter of the next look."""

    def __init__(self, module: ModuleWriter) -> None:
        module.add(f"@pyjax.nap = internal constant [2 x i64] [i64 0, i64 {_NAP_NANOSECONDS}]")

    def wait(self, w: FunctionWriter, word: str, seen: str, timeout: str = "null") -> None:
        w.call("nanosleep", "i32", [("ptr", "@pyjax.nap"), ("ptr", "null")])

    def wake(self, w: FunctionWriter, word: str, count: int) -> None:
        """Nobody sleeps for long."""


def sleep_of(module: ModuleWriter, target: TargetInfo, linux: bool) -> Sleep:
    """How threads of a module sleep."""
    number = _FUTEX_NUMBER.get(target.arch)
    return _Futexes(number) if linux and number is not None else _Naps(module)


def emit_pause(w: FunctionWriter) -> None:
    """One turn of a loop that spins."""
    hint = w.target.spin_hint
    if hint is not None:
        name, arguments = hint
        w.call(name, "void", arguments)


def emit_thread_start(module: ModuleWriter, linux: bool) -> None:
    """Adds i1 pyjax.start_thread(ptr function, ptr argument) to a module: whether there is a new
    thread in `function`. Signals are left to the threads of Python."""
    signals = ~sum(1 << (s - 1) for s in _OWN_SIGNALS)
    words = ", ".join(f"i64 {word}" for word in [signals] + [-1] * 15)
    module.add(f"@pyjax.blocked_signals = internal constant [16 x i64] [{words}]")
    parameters = [("ptr", "function"), ("ptr", "argument")]
    w = module.function(START, parameters, "i1", internal=True, attributes="noinline")
    thread, mask = w.alloca("i64", 1, 8), w.alloca("i64", 16, 8)
    how = ("i32", "2" if linux else "3")  # SIG_SETMASK
    blocked = ("ptr", "@pyjax.blocked_signals")
    w.call("pthread_sigmask", "i32", [how, blocked, ("ptr", mask)])
    arguments = [thread, "null", "%function", "%argument"]
    failed = w.call("pthread_create", "i32", [("ptr", a) for a in arguments])
    started = w.cmp("eq", "i32", failed, "0")
    with w.if_(started):
        w.call("pthread_detach", "i32", [("i64", w.load("i64", thread))])
    w.call("pthread_sigmask", "i32", [how, ("ptr", mask), ("ptr", "null")])
    w.ret("i1", started)
