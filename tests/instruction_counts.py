"""Instructions that calls take, counted one by one: another process is run in single steps.

Times on shared machines say little about a path of a microsecond; how many instructions it takes
hardly varies. Counters of the processor are often not to be had in virtual machines, and emulators
do not know every instruction, but a debugger can step anywhere.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys

_CONTINUE, _STEP = 7, 9

# The process: each path is called until it is known, then stops before and after some calls. What
# the stops take is counted by a path that does nothing.
_CHILD = """
import ctypes, os, signal, sys
{setup}
paths = [("nothing", lambda: None), {paths}]
calls = int(sys.argv[1])
for name, path in paths:
    for _ in range(50):
        path()
import gc
gc.disable()
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(0, 0, None, None):  # to be traced by who started this
    sys.exit("ptrace: " + os.strerror(ctypes.get_errno()))
pid, stop, kill, turns = os.getpid(), signal.SIGSTOP, os.kill, range(calls)
for name, path in paths:
    kill(pid, stop)
    for _ in turns:
        path()
    kill(pid, stop)
"""


class CannotStep(Exception):
    """This machine lets no process step through another one."""


def count_instructions(setup: str, paths: dict[str, str], calls: int = 20) -> dict[str, float]:
    """Instructions of one call of each path, in user mode, on the thread that calls.

    Args:
      setup: lines that define what the paths use.
      paths: name -> an expression.
      calls: how many are counted; the mean is returned.
    Raises:
      CannotStep: the system does not let processes be traced, or is not Linux.
    """
    if sys.platform != "linux":
        raise CannotStep("stepping is done by Linux's ptrace")
    listed = ", ".join(f"({name!r}, lambda: {code})" for name, code in paths.items())
    program = _CHILD.format(setup=setup, paths=listed)
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(calls)], stderr=subprocess.PIPE, text=True
    )
    try:
        counts = [_steps_of_one_path(child) for _ in range(1 + len(paths))]
    except BaseException:
        child.kill()
        raise
    finally:
        child.communicate()
    around, *counts = counts
    return {name: (n - around) / calls for name, n in zip(paths, counts)}


def _steps_of_one_path(child: subprocess.Popen[str]) -> int:
    """Steps from the next stop that the process makes to the one after it."""
    if _wait(child) != signal.SIGSTOP:
        raise AssertionError("another signal than those of the program itself")
    count = 0
    while True:
        _trace(_STEP, child.pid)
        count += 1
        if _wait(child) == signal.SIGSTOP:
            _trace(_CONTINUE, child.pid)
            return count


def _wait(child: subprocess.Popen[str]) -> int:
    """The signal that the process stopped for."""
    _, status = os.waitpid(child.pid, 0)
    if os.WIFSTOPPED(status):
        return os.WSTOPSIG(status)
    child.returncode = os.waitstatus_to_exitcode(status)
    said = child.stderr.read() if child.stderr else ""
    if "ptrace: " in said:
        raise CannotStep(said)
    raise AssertionError(f"the process ended with {child.returncode}:\n{said}")


_ptrace = ctypes.CDLL(None, use_errno=True).ptrace if sys.platform == "linux" else None
if _ptrace is not None:
    _ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    _ptrace.restype = ctypes.c_long


def _trace(request: int, pid: int) -> None:
    """The stopped process goes on, without the signal that it stopped for."""
    assert _ptrace is not None
    if _ptrace(request, pid, None, None):
        raise CannotStep(f"ptrace: {os.strerror(ctypes.get_errno())}")
