"""Processes that end while programs are under way: at once, whatever these do, with the status that
they have without, and without a word on stderr."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.sampling import sampled

# `slow` takes a tenth of a second, `long` about ten seconds, `endless` as long as it says.
_START = """
import atexit, os, sys, threading, time
{before}
import numpy as np
import pyjax, pyjax.numpy as jnp
from pyjax import lax
turns = pyjax.jit(lambda x, n: lax.fori_loop(0, n, lambda i, c: c + 0.5, x))
endless = pyjax.jit(
    lambda x: lax.while_loop(lambda c: c[0] >= 0, lambda c: (c[0] * 0 + 1, c[1] + 1.0), (0, x))[1]
)
x = jnp.zeros((64, 64))
slow = lambda x: turns(x, 400_000)
long = lambda x: turns(x, 40_000_000)
product = pyjax.jit(lambda x: x @ x)
turns(x, 10).block_until_ready()
turns(x, 100_000).block_until_ready()
"""

ENDLESS = "y = endless(x)"
MANY = "y = x\nfor _ in range(20): y = slow(y)"
ENDS = {
    "falls off the end": ("", 0),
    "exit": ("sys.exit(3)", 3),
    "exception": ("sys.stderr = open(os.devnull, 'w'); raise KeyError('x')", 1),
    "interrupt": (
        "sys.stderr = open(os.devnull, 'w'); raise KeyboardInterrupt",
        -signal.SIGINT,
    ),
    "_exit": ("os._exit(4)", 4),
    "signal": ("os.kill(os.getpid(), 15); time.sleep(9)", -signal.SIGTERM),
}


def _run(body: str, before: str = "", timeout: float = 120) -> subprocess.CompletedProcess[str]:
    code = _START.format(before=before) + "start = time.monotonic()\n" + body
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code],
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.mark.parametrize("work", [ENDLESS, "y = long(x)", MANY, f"{MANY}\ny = endless(y)"])
@sampled("end", ENDS, every=2)
def test_a_process_ends(end: str, work: str) -> None:
    statement, status = ENDS[end]
    start = time.monotonic()
    result = _run(f"{work}\nassert not y.is_ready()\nprint('under way', flush=True)\n{statement}")
    assert result.stdout == "under way\n"
    assert (result.returncode, result.stderr) == (status, "")
    assert time.monotonic() - start < 60


@pytest.mark.slow
@pytest.mark.parametrize("work", [ENDLESS, MANY])
def test_it_does_not_crash_once_in_many_times(work: str) -> None:
    for _ in range(10):
        result = _run(work)
        assert (result.returncode, result.stderr) == (0, "")


def test_functions_of_the_end_may_wait_for_results() -> None:
    # Registered before the library was there, it runs after the library's own.
    result = _run(
        "y = endless(x)", before="atexit.register(lambda: print('at the end', float(y[0, 0])))"
    )
    assert (result.returncode, result.stdout) == (0, "")
    assert "did not compute its results: it was stopped, because the process ends" in result.stderr
    result = _run("y = slow(x)\natexit.register(lambda: print('at the end', float(y[0, 0])))")
    assert (result.returncode, result.stdout) == (0, "at the end 200000.0\n"), result.stderr


def test_functions_of_the_end_may_start_programs() -> None:
    result = _run("atexit.register(lambda: print(float(slow(slow(x))[0, 0])))\ny = slow(x)")
    assert (result.returncode, result.stdout) == (0, "400000.0\n"), result.stderr


@pytest.mark.parametrize(
    "thread",
    [
        "y.block_until_ready()",
        pytest.param("while True: slow(x)", marks=pytest.mark.slow),
        "while True: float(slow(x)[0, 0])",
        pytest.param("while True: np.asarray(product(slow(x)))", marks=pytest.mark.slow),
    ],
)
def test_threads_that_go_on_to_the_end(thread: str) -> None:
    for work in ("y = slow(x)", ENDLESS):
        body = f"""
{work}
def run():
    {thread}
for _ in range(3):
    threading.Thread(target=run, daemon=True).start()
time.sleep(0.2)
print("under way", flush=True)
"""
        result = _run(body)
        assert (result.returncode, result.stdout) == (0, "under way\n"), result.stderr
        assert result.stderr == ""


def test_several_devices() -> None:
    result = _run(
        "ys = [endless(pyjax.device_put(x, d)) for d in pyjax.devices()]\n"
        "print([y.is_ready() for y in ys], flush=True)",
        before="os.environ['PYJAX_NUM_CPU_DEVICES'] = '3'",
    )
    assert (result.returncode, result.stdout) == (0, "[False, False, False]\n"), result.stderr


def test_jobs_of_one_device_that_use_those_of_another() -> None:
    result = _run(
        "a, b = pyjax.devices()\n"
        "y = slow(x)\n"
        "z = pyjax.jit(lambda y, w: turns(y + w, 400_000))(y, pyjax.device_put(x, b))\n"
        "print(float(z[0, 0]), z.device.id)",
        before="os.environ['PYJAX_NUM_CPU_DEVICES'] = '2'",
    )
    assert (result.returncode, result.stdout) == (0, "400000.0 1\n"), result.stderr


def test_alarms_at_random_moments() -> None:
    body = """
import random, signal
class Alarm(Exception): pass
def handle(*_): raise Alarm
# What a handler raises inside a finaliser is lost, by Python's rules: the loop asks for another.
def unraisable(lost): lost.exc_type is Alarm or sys.__unraisablehook__(lost)
sys.unraisablehook = unraisable
signal.signal(signal.SIGALRM, handle)
donate = pyjax.jit(lambda x, n: lax.fori_loop(0, n, lambda i, c: c + 0.5, x), donate_argnums=0)
donate(x.copy(), 10).block_until_ready()
donate(x.copy(), 100_000).block_until_ready()
draw, alarms = random.Random(7), 0
while alarms < 200:
    y, n = x, 0
    signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.0005, 0.02))
    try:
        while True:
            z = turns(y, 2000)
            y = donate(z, 2000)
            n += 1
            if n % 100 == 0:
                signal.setitimer(signal.ITIMER_REAL, 0.001)
            if n % 7 == 0:
                assert float(y[0, 0]) == 2000.0 * n, (float(y[0, 0]), n)
    except Alarm:
        alarms += 1
assert float(turns(x, 10)[0, 0]) == 5
print(alarms)
"""
    result = _run(body)
    assert (result.returncode, result.stdout, result.stderr) == (0, "200\n", "")
