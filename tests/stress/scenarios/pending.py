"""Long programs that go on while their callers do: a main program that is interrupted at any moment
by a handler that raises, beside threads that do the same uninterrupted; forks in between; an end
with work under way. Right values everywhere, and nobody waits for ever."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from tests.stress import work

_LIMIT = 90  # seconds for a child


class Alarm(Exception):
    pass


def _alarm(number: int, frame: object) -> None:
    raise Alarm


def _interrupted(piece: Callable[[random.Random], None], draw: random.Random) -> bool:
    """Whether a timer ended the piece of work."""
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.0002, 0.03))
            piece(draw)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Alarm:
        return True
    return False


def _fork(draw: random.Random, x: pyjax.Array, expected: float) -> None:
    child = os.fork()
    if child == 0:
        status = 9
        try:
            work.check(x, expected)
            work.going_on(draw)
            status = 0
        finally:
            os._exit(status)
    end = time.monotonic() + _LIMIT
    done, status = 0, 0
    while not done:
        assert time.monotonic() < end, "a child hangs"
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.001)
    assert status == 0, f"a child ended with status {status}"


def main() -> None:
    seed, seconds = work.arguments()
    draw = random.Random(seed)
    work.going_on(draw)
    signal.signal(signal.SIGALRM, _alarm)
    threads = work.Workers(3, seed, (work.going_on, work.product, work.donation))
    end = time.monotonic() + seconds
    rounds = interrupts = forks = 0
    while time.monotonic() < end and not threads.stop.is_set():
        rounds += 1
        interrupts += _interrupted(work.going_on, draw)
        work.going_on(draw)
        if rounds % 20 == 0:
            _fork(draw, work._turns(jnp.ones((64, 64)), 20_000), 10_001)
            forks += 1
    threads.finish()
    print(f"{rounds} rounds, {interrupts} interrupts, {forks} forks, {threads.done} in threads")
    loop = pyjax.jit(lambda x: lax.while_loop(lambda c: c >= 0, lambda c: c * 0 + 1, x))
    assert not loop(1.0).is_ready()  # and the process ends


if __name__ == "__main__":
    main()
