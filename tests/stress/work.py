"""What scenarios share: pieces of work that check themselves against NumPy, and the state of the
process."""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence

import numpy as np
import numpy.testing as numpy_testing  # now: a fork in its first use would leave a lock held

import pyjax
import pyjax.numpy as jnp
from pyjax import lax


def arguments() -> tuple[int, float]:
    """Seed and seconds, from the command line."""
    return int(sys.argv[1]), float(sys.argv[2])


def check(actual: object, expected: object) -> None:
    numpy_testing.assert_allclose(np.asarray(actual), expected, rtol=2e-4, atol=2e-4)


def first_call(draw: random.Random) -> None:
    """Operations on a shape that was not seen before."""
    n = draw.randrange(1, 5000)
    x = np.linspace(0, 1, n, dtype=np.float32)
    check(jnp.asarray(x) * 2 + 1, x * 2 + 1)
    check(jnp.sort(jnp.asarray(x)[::-1]), x)


def new_program(draw: random.Random) -> None:
    c, n = draw.random(), draw.randrange(2, 60)
    x = np.full((n, n), c, np.float32)
    check(pyjax.jit(lambda v: jnp.tanh(v * c) @ v)(x), np.tanh(x * c) @ x)


def gradient(draw: random.Random) -> None:
    n = draw.randrange(1, 200)
    x = np.linspace(-1, 1, n, dtype=np.float32)
    check(pyjax.grad(lambda v: jnp.sum(jnp.sin(v) ** 2))(x), np.sin(2 * x))


_add = pyjax.jit(lambda x, y: x + y, donate_argnums=0)


def donation(draw: random.Random) -> None:
    n = draw.choice([10, 1000, 30_000])
    x = jnp.arange(float(n))
    view = np.asarray(x)
    kept = view.copy()
    result = _add(x, 1.0)
    check(result, kept + 1)
    np.testing.assert_array_equal(view, kept)


def deletion(draw: random.Random) -> None:
    x = jnp.ones(draw.choice([5, 5000]))
    y = x + 1
    x.delete()
    try:
        x + 1
    except RuntimeError:
        check(y, 2)
        return
    raise AssertionError("a deleted array was used")


def options(draw: random.Random) -> None:
    with pyjax.enable_x64(True):
        x = jnp.arange(5, dtype=jnp.float64) / 3
        assert x.dtype == np.float64
        numpy_testing.assert_allclose(np.asarray(x * 3), np.arange(5.0), rtol=1e-15)
    assert jnp.ones(3).dtype == np.float32


def error_in_a_trace(draw: random.Random) -> None:
    def fail(v: object) -> object:
        jnp.sin(v)
        raise ZeroDivisionError

    try:
        pyjax.jit(fail)(jnp.ones(3))
    except ZeroDivisionError:
        return
    raise AssertionError("no error")


def error_in_a_callback(draw: random.Random) -> None:
    x = jnp.ones(3)

    def fail(v: object) -> np.ndarray:
        raise ZeroDivisionError

    try:
        pyjax.jit(lambda v: pyjax.pure_callback(fail, x, v))(x)
    except pyjax.errors.JaxRuntimeError as error:
        assert isinstance(error.__cause__, ZeroDivisionError)
        return
    raise AssertionError("no error")


def linear_algebra(draw: random.Random) -> None:
    n = draw.choice([3, 40, 150])
    a = np.eye(n, dtype=np.float32) * 4 + 1 / n
    check(jnp.linalg.solve(a, np.ones(n, np.float32)) @ a.T, np.ones(n))


def loop(draw: random.Random) -> None:
    n = draw.randrange(1, 3000)
    check(lax.fori_loop(0, n, lambda i, c: c * 0.5 + 1, jnp.float32(2)), 2)


_turns = pyjax.jit(lambda x, n: lax.fori_loop(0, n, lambda i, c: c + 0.5, x))
_turns_in_place = pyjax.jit(
    lambda x, n: lax.fori_loop(0, n, lambda i, c: c + 0.5, x), donate_argnums=0
)


def going_on(draw: random.Random) -> None:
    """Calls that come back before their results are there, and all that may become of these."""
    x, done = jnp.zeros((64, 64)), 0
    view, seen = np.asarray(x), 0
    for _ in range(draw.randrange(1, 8)):
        n = 2 * draw.randrange(1, 20_000)
        x = draw.choice((_turns, _turns_in_place))(x, n)
        done += n // 2
        kind = draw.randrange(5)
        if kind == 0:
            check(view, seen)
            view, seen = np.asarray(x), done
        elif kind == 1:
            y, x = x, x + 1
            done += 1
            y.delete()
        elif kind == 2:
            _turns(x, n)  # nobody waits for it
    check(x, done)
    check(view, seen)


_squares = pyjax.jit(lambda m: (m @ m).sum())


def product(draw: random.Random) -> None:
    n = draw.choice([64, 300])
    check(_squares(jnp.ones((n, n))) / n**3, 1)


def clear_caches(draw: random.Random) -> None:
    if draw.random() < 0.2:
        pyjax.clear_caches()


ALL: tuple[Callable[[random.Random], None], ...] = (
    first_call,
    new_program,
    gradient,
    donation,
    deletion,
    options,
    error_in_a_trace,
    error_in_a_callback,
    linear_algebra,
    loop,
    going_on,
    product,
    clear_caches,
)


class Workers:
    """Threads that do pieces of work until told to stop; the first failure of one ends all."""

    def __init__(
        self,
        count: int,
        seed: int,
        pieces: Sequence[Callable[[random.Random], None]] = ALL,
    ) -> None:
        self.pieces = pieces
        self.stop = threading.Event()
        self.failures: list[str] = []
        self.done = 0
        self.threads = [
            threading.Thread(target=self._run, args=(random.Random(seed * 1000 + i),), daemon=True)
            for i in range(count)
        ]
        for thread in self.threads:
            thread.start()

    def _run(self, draw: random.Random) -> None:
        while not self.stop.is_set():
            try:
                draw.choice(self.pieces)(draw)
                self.done += 1
            except BaseException:
                self.failures.append(traceback.format_exc())
                self.stop.set()

    def finish(self) -> None:
        """Stop the threads; raises if one failed or does not end."""
        self.stop.set()
        for thread in self.threads:
            thread.join(60)
            if thread.is_alive():
                faulthandler.dump_traceback()  # of all threads
                raise AssertionError("a thread hangs")
        if self.failures:
            raise AssertionError("\n".join(self.failures))


# Seconds for a child; it takes a fraction of one on an idle machine.
FORK_LIMIT = 90


def fork(name: str, run: Callable[[], None]) -> None:
    """Run in a child of this process; raises if that fails, or does not end."""
    pid = os.fork()
    if pid == 0:
        status = 9
        try:
            run()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    end = time.monotonic() + FORK_LIMIT
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert status == 0, f"{name} ended with status {status}"
            return
        time.sleep(0.002)
    os.kill(pid, signal.SIGABRT)  # prints where it is
    time.sleep(1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError(f"{name} hangs")


def until(seconds: float, stop: threading.Event | None = None) -> bool:
    """Waits; False if `stop` came first."""
    if stop is None:
        time.sleep(seconds)
        return True
    return not stop.wait(seconds)


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def thread_count() -> int:
    return len(os.listdir("/proc/self/task"))
