"""Ctrl-C, sent by a thread and by another process, and a timer whose handler raises, at any moment
of whatever runs. Each exception arrives, soon; afterwards no block is open, no lock is held, values
are right here and in other threads, and neither memory nor threads grow."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType

import numpy as np

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from tests import interrupts
from tests.stress import work
from tests.threads import together
from xla_backend.runtime.memory import POOL

# Seconds from a signal to its exception. Programs look for signals every tenth of a second; calls
# of LAPACK end first; the machine may be loaded.
_SOON = 20.0
_BETWEEN_LOOKS = 10  # interrupts
# What part may be lost: Python prints and forgets what is raised in a finalizer, and NumPy forgets
# what is raised where it asks for a buffer.
_LOST = 0.03
_KEPT = 1 << 12  # bytes of arrays
_GROWTH = 200 << 20  # of resident memory: caches fill up to their bounds


class Alarm(Exception):
    pass


class _Signals:
    """One signal at a time, from one of three senders.

    Attributes:
      handled: the last one's handler has run, and raised.
      where: what it interrupted.
      slowest: the longest time from sending to handling, in seconds.
    """

    def __init__(self) -> None:
        self.handled = True
        self.sent_at = 0.0
        self.slowest = 0.0
        self.where = ""
        self._delays: SimpleQueue[float] = SimpleQueue()
        sender = threading.Thread(target=self._send, daemon=True)
        sender.start()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SENDER, str(os.getpid())], stdin=subprocess.PIPE, bufsize=0
        )
        # A shell that starts this with `&` lets it ignore SIGINT.
        signal.signal(signal.SIGINT, self._interrupt)
        signal.signal(signal.SIGALRM, self._alarm)

    def send(self, draw: random.Random) -> None:
        delay = draw.uniform(0, draw.choice((0.0005, 0.005, 0.05)))
        self.sent_at = time.monotonic() + delay
        self.handled = False
        draw.choice((self._by_thread, self._by_process, self._by_timer))(delay)

    def _by_thread(self, delay: float) -> None:
        self._delays.put(delay)

    def _by_process(self, delay: float) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{delay}\n".encode())

    def _by_timer(self, delay: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, max(delay, 1e-6))

    def _send(self) -> None:
        while True:
            time.sleep(self._delays.get())
            os.kill(os.getpid(), signal.SIGINT)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._note(frame)
        raise KeyboardInterrupt

    def _alarm(self, number: int, frame: FrameType | None) -> None:
        self._note(frame)
        raise Alarm

    def _note(self, frame: FrameType | None) -> None:
        self.where = "".join(traceback.format_stack(frame, limit=6))
        assert not self.handled, "a signal that nobody sent"
        self.handled = True
        self.slowest = max(self.slowest, time.monotonic() - self.sent_at)


_SENDER = """
import os, signal, sys, time
for line in sys.stdin:
    time.sleep(float(line))
    os.kill(int(sys.argv[1]), signal.SIGINT)
"""


_known = pyjax.jit(lambda v, w: (jnp.sin(v["a"]) @ w, v["b"] + 1))
_rows = pyjax.jit(pyjax.vmap(lambda m, v: lax.while_loop(_small, lambda c: c * 2.0, m @ v)))
_add = pyjax.jit(lambda x, y: x + y, donate_argnums=0)
_spin = pyjax.jit(lambda n, x: lax.fori_loop(0, n, lambda i, c: c * 0.5 + 1, x))


def _small(values: pyjax.Array) -> pyjax.Array:
    return jnp.sum(values) < 100


def _known_shapes(draw: random.Random) -> None:
    x = jnp.arange(10.0)
    for _ in range(20):
        work.check(jnp.sum(x * 2 - x) + x[3] + x[2:4].sum(), 45 + 3 + 5)


def _later_calls(draw: random.Random) -> None:
    a = {"a": jnp.zeros((8, 8)), "b": jnp.ones(3)}
    for _ in range(20):
        product, more = _known(a, jnp.ones((8, 2)))
    work.check(product, np.zeros((8, 2)))
    work.check(more, np.full(3, 2))


def _lanes(draw: random.Random) -> None:
    m = np.stack([np.eye(4, dtype=np.float32) * k for k in (1, 40)])
    work.check(_rows(m, np.ones((2, 4), np.float32)), [[32] * 4, [40] * 4])


def _readback(draw: random.Random) -> None:
    for n in (3, 1000, 100_000, 1_000_000):
        x = jnp.arange(n, dtype=np.int32)
        assert np.asarray(x)[-1] == pyjax.device_get([x])[0][-1] == memoryview(x)[n - 1] == n - 1
        assert x.tolist()[:3] == [0, 1, 2] if n < 2000 else int(x[2]) == 2


def _memory(draw: random.Random) -> None:
    """Blocks of all kinds come and go."""
    held = []
    for _ in range(10):
        n = draw.choice((10, 10_000, 100_000, 3_000_000))
        held.append((n, jnp.full(n, 3, np.int32)))
        if len(held) > 3:
            n, array = held.pop(draw.randrange(3))
            assert int(array[n - 1]) == 3


def _given_away(draw: random.Random) -> None:
    n = draw.choice((10, 30_000, 1_000_000))
    x, y = jnp.ones(n), jnp.ones(n)
    try:
        assert int(_add(x, y)[n - 1]) == 2
    except (Alarm, KeyboardInterrupt):
        assert x.is_deleted() or int(x[n - 1]) == 1
        assert int(y[n - 1]) == 1
        raise


def _blocks(draw: random.Random) -> None:
    with pyjax.default_matmul_precision("float32"), pyjax.named_scope("outer"):
        work.options(draw)
        with pyjax.disable_jit(draw.random() < 0.1), pyjax.debug_nans(True):
            work.check(_known({"a": jnp.zeros((2, 2)), "b": 1.0}, jnp.ones((2, 2)))[1], 2)
        with pyjax.ensure_compile_time_eval():
            work.check(jnp.ones(3) + 1, np.full(3, 2))


def _long_loop(draw: random.Random) -> None:
    work.check(_spin(2**28, jnp.float32(1)), 2)


def _clear(draw: random.Random) -> None:
    if draw.random() < 0.1:
        pyjax.clear_caches()


_PIECES: tuple[Callable[[random.Random], None], ...] = (
    *work.ALL,
    _known_shapes,
    _later_calls,
    _lanes,
    _readback,
    _memory,
    _given_away,
    _blocks,
    _long_loop,
    _clear,
)
_AFTERWARDS = (work.product, work.loop, work.donation, work.options, _known_shapes, _lanes)


def _is_interrupted(signals: _Signals, draw: random.Random) -> bool:
    """Works until the next signal; whether its exception arrived here."""
    try:
        signals.send(draw)
        while not signals.handled:
            draw.choice(_PIECES)(draw)
    except (Alarm, KeyboardInterrupt):
        return True
    return False


def _check_other_threads(draw: random.Random) -> None:
    def compute() -> None:
        interrupts.check_locks()
        draw.choice(_AFTERWARDS)(draw)
        work.new_program(draw)

    together(compute)


def _leave_nothing() -> int:
    """Bytes of arrays that somebody still has when nothing is remembered."""
    pyjax.clear_caches()
    gc.collect()
    pyjax.clear_caches()
    gc.collect()
    return POOL.stats()["bytes_in_use"]


def main() -> None:
    seed, seconds = work.arguments()
    draw = random.Random(seed)
    for piece in _PIECES:
        piece(draw)
    signals = _Signals()
    before, in_use, threads = interrupts.thread_state(), _leave_nothing(), work.thread_count()
    start = time.monotonic()
    arrived = lost = memory = 0
    while arrived < 10 or time.monotonic() < start + seconds:
        if _is_interrupted(signals, draw):
            arrived += 1
        else:
            lost += 1
            print(f"lost:\n{signals.where}")
        assert interrupts.thread_state() == before
        interrupts.check_nothing_entered()
        draw.choice(_AFTERWARDS)(draw)
        if arrived % _BETWEEN_LOOKS == 0:
            _check_other_threads(draw)
            memory = memory or work.resident_bytes()
    _check_other_threads(draw)
    assert lost <= 2 + arrived * _LOST, f"{lost} of {arrived + lost} exceptions did not arrive"
    assert signals.slowest < _SOON, f"an exception came after {signals.slowest:.1f} s"
    kept, more = _leave_nothing() - in_use, work.thread_count() - threads
    assert kept <= _KEPT, f"{kept} bytes are still in use"
    assert more <= 2, f"{more} more threads"
    grown = work.resident_bytes() - memory
    assert grown < _GROWTH, f"{grown >> 20} MiB more"
    print(
        f"{arrived} exceptions arrived, at most {signals.slowest:.2f} s late; {lost} were lost;"
        f" {kept} bytes still in use, {grown >> 20} MiB more"
    )


if __name__ == "__main__":
    main()
