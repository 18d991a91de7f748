"""A child that the handler of a signal forks while its thread waits for another one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

_HANDLER = """
import os, signal, threading, time

forked, children = threading.Event(), []

def handler(number, frame):
    children.append(os.fork())
    if not children[0]:
        signal.alarm(30)  # a child that waits for ever
    forked.set()

def fork_the_main_thread():
    time.sleep(0.2)  # it waits
    os.kill(os.getpid(), signal.SIGUSR1)
    return forked.wait(30)

def end_of_child():
    return os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1])

signal.signal(signal.SIGUSR1, handler)
"""


def run_with_forks(code: str) -> None:
    """Run a program in which another thread calls `fork_the_main_thread()`; `children` are then [0]
    in the child, and `end_of_child()` is its status for the parent."""
    done = subprocess.run(
        [sys.executable, "-c", _HANDLER + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
