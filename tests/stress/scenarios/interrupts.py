"""A timer whose handler raises at any moment, whatever runs: afterwards everything still works and
gives right values."""

from __future__ import annotations

import random
import signal
import time

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from tests.stress import work


class Alarm(Exception):
    pass


_armed = False


def _raise(number: int, frame: object) -> None:
    if _armed:
        raise Alarm


def main() -> None:
    global _armed
    seed, seconds = work.arguments()
    draw = random.Random(seed)
    signal.signal(signal.SIGALRM, _raise)
    forever = pyjax.jit(lambda x: lax.fori_loop(0, 2**31 - 1, lambda i, c: c * 0.5 + 1, x))
    x = jnp.float32(1)
    forever = forever.lower(x).compile()
    end = time.monotonic() + seconds
    interrupted = 0
    while time.monotonic() < end:
        # Python ignores what a handler raises in finalizers, so the timer repeats.
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.0002, 0.05), 0.3)
        try:
            _armed = True
            if draw.random() < 0.3:
                forever(x)
            else:
                for _ in range(10):
                    draw.choice(work.ALL)(draw)
            _armed = False
        except Alarm:
            _armed = False
            interrupted += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        for piece in (work.product, work.loop, work.donation, work.linear_algebra, work.options):
            piece(draw)
        work.check(x + 1, 2)
    assert interrupted
    print(f"interrupted {interrupted} times")


if __name__ == "__main__":
    main()
