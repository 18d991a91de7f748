"""A timer whose handler compiles, computes, clears caches and forks in the middle of a main program
that does the same: right values in both, and nobody waits for ever."""

from __future__ import annotations

import os
import random
import signal
import time

import pyjax
from tests.stress import work

_PIECES = (work.new_program, work.first_call, work.donation, work.gradient, work.options)
# Not options: one of the interrupted code may be in force.
_IN_HANDLERS = (work.new_program, work.first_call, work.donation, work.gradient)


class _Handler:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.calls = 0
        self.busy = False

    def __call__(self, number: int, frame: object) -> None:
        if self.busy:  # handlers inside handlers would never end
            return
        self.busy = True
        try:
            self.calls += 1
            # A handler has the state of the thread that it interrupts, which may trace a function.
            with pyjax.ensure_compile_time_eval():
                self.draw.choice(_IN_HANDLERS)(self.draw)
            if self.calls % 7 == 0:
                pyjax.clear_caches()
            if self.calls % 50 == 0:
                self._fork()
        finally:
            self.busy = False

    def _fork(self) -> None:
        pid = os.fork()
        if pid == 0:
            status = 9
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                with pyjax.ensure_compile_time_eval():
                    work.new_program(self.draw)
                status = 0
            finally:
                os._exit(status)
        end = time.monotonic() + 90
        done, status = 0, 0
        while not done:
            assert time.monotonic() < end, "a child hangs"
            done, status = os.waitpid(pid, os.WNOHANG)
            time.sleep(0.001)
        assert status == 0, f"a child ended with status {status}"


def main() -> None:
    seed, seconds = work.arguments()
    draw = random.Random(seed)
    handler = _Handler(seed + 1)
    for piece in _PIECES:
        piece(draw)
    signal.signal(signal.SIGALRM, handler)
    workers = work.Workers(2, seed)
    end = time.monotonic() + seconds
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
    pieces = 0
    while time.monotonic() < end:
        draw.choice(_PIECES)(draw)
        work.clear_caches(draw)
        pieces += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    workers.finish()
    assert handler.calls
    print(f"{pieces} pieces of work, {handler.calls} handlers")


if __name__ == "__main__":
    main()
