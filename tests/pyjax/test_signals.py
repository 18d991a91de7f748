"""Signals reach Python's handlers while native code runs: Ctrl-C ends loops and long kernels, the
arrays and programs are good afterwards, and no exception gets lost.

Calls run their programs themselves here (see test_async_dispatch.py for those that do not)."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.errors import JaxRuntimeError

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")


class Alarm(Exception):
    """Raised by the handler of these tests' timer."""


@pytest.fixture(autouse=True)
def at_once():
    pyjax.config.update("jax_cpu_enable_async_dispatch", False)
    yield
    pyjax.config.update("jax_cpu_enable_async_dispatch", True)


@pytest.fixture
def alarm():
    """Calls `alarm(seconds)` set a timer whose handler raises Alarm."""

    def raise_alarm(number, frame):
        raise Alarm

    before = signal.signal(signal.SIGALRM, raise_alarm)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def _while(x):
    return lax.while_loop(lambda c: c[0] >= 0, lambda c: (c[0] * 0 + 1, c[1] * 0.5 + 1), (0, x))[1]


def _scan(x):
    return lax.scan(lambda c, _: (c * 0.5 + 1, None), x, None, length=2**31 - 1)[0]


def _nested(x):
    def outer(i, c):
        return lax.fori_loop(0, 3, lambda j, d: d * 0.5 + 1, c)

    return lax.fori_loop(0, 2**31 - 1, outer, x)


def _branches(x):
    def outer(i, c):
        return lax.cond(c > 1, lambda d: d * 0.5, lambda d: d * 2.0, c)

    return lax.fori_loop(0, 2**31 - 1, outer, x)


def _products(x):
    m = jnp.full((300, 300), x)
    return lax.fori_loop(0, 2**31 - 1, lambda i, c: c @ m * 1e-3, m)


def _callbacks(x):
    def same(v):
        return np.asarray(v)

    return lax.fori_loop(0, 2**31 - 1, lambda i, c: pyjax.pure_callback(same, x, c), x)


def _long_body(x):
    def body(i, c):
        for k in range(500):
            c = jnp.where(c > k, jnp.sort(c[::-1]), c)
        return c

    return lax.fori_loop(0, 2**31 - 1, body, jnp.full((50,), x))


@pytest.mark.parametrize(
    "function", [_while, _scan, _nested, _branches, _products, _callbacks, _long_body]
)
def test_a_handler_that_raises_ends_a_loop(alarm, function):
    x = jnp.float32(1.0)
    compiled = pyjax.jit(function).lower(x).compile()
    for _ in range(2):  # the same program again
        start = time.monotonic()
        alarm(0.2)
        # What it raises in a callback is the callback's exception.
        with pytest.raises((Alarm, JaxRuntimeError)) as info:
            compiled(x)
        assert Alarm in (info.type, type(info.value.__cause__))
        assert time.monotonic() - start < 5
    assert float(x + 1) == 2
    np.testing.assert_array_equal(jnp.ones((200, 200)) @ jnp.ones((200, 1)), np.full((200, 1), 200))


def test_a_handler_that_returns_changes_nothing():
    calls = []
    before = signal.signal(signal.SIGALRM, lambda *_: calls.append(time.monotonic()))
    try:
        x = jnp.float32(0.0)
        loop = pyjax.jit(lambda x, n: lax.fori_loop(0, n, lambda i, c: c * 0.5 + 1, x))
        loop(x, 10)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        expected = float(loop(x, 200_000_000))
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert expected == 2.0
        assert len(calls) > 1  # while the loop ran, not once at its end
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_handler_may_run_programs_itself():
    seen = []

    def handler(number, frame):
        seen.append(float(jnp.sum(jnp.ones((300, 300)) @ jnp.ones((300, 300)))))

    before = signal.signal(signal.SIGALRM, handler)
    try:
        x = jnp.full((400, 400), 1 / 400)
        loop = pyjax.jit(lambda x, n: lax.fori_loop(0, n, lambda i, c: c @ x, x))
        loop(x, 1)
        handler(signal.SIGALRM, None)  # compiled now: a handler that compiles takes a while
        seen.clear()
        signal.setitimer(signal.ITIMER_REAL, 0.03, 0.3)
        result = loop(x, 400)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    np.testing.assert_allclose(result, np.full((400, 400), 1 / 400), rtol=1e-3)
    assert seen and set(seen) == {300.0**3}


@pytest.mark.parametrize("what", ["product", "elementwise"])
def test_long_kernels_stop_between_blocks(alarm, what):
    x = jnp.ones((4000, 4000))
    function = {
        "product": lambda x: x @ x @ x @ x @ x @ x @ x @ x @ x @ x @ x @ x,
        "elementwise": lambda x: lax.fori_loop(0, 500, lambda i, c: jnp.sin(jnp.tan(c)) ** c, x),
    }[what]
    compiled = pyjax.jit(function).lower(x).compile()
    alarm(0.1)
    with pytest.raises(Alarm):
        compiled(x)
    assert float(jnp.sum(x)) == 16_000_000


def test_other_threads_are_not_interrupted(alarm):
    loop = pyjax.jit(lambda x, n: lax.fori_loop(0, n, lambda i, c: c @ x, x))
    x = jnp.full((300, 300), 1 / 300)
    results = []
    thread = threading.Thread(target=lambda: results.append(loop(x, 2000)))
    loop(x, 1)
    thread.start()
    alarm(0.05)
    with pytest.raises(Alarm):
        while True:
            loop(x, 2000)
    thread.join()
    np.testing.assert_allclose(results[0], np.full((300, 300), 1 / 300), rtol=1e-3)


def test_a_donated_loop_that_was_interrupted(alarm):
    loop = pyjax.jit(
        lambda x: lax.fori_loop(0, 2**31 - 1, lambda i, c: c * 0.5 + 1, x), donate_argnums=0
    )
    x, y = jnp.ones((100,)), jnp.arange(100.0)
    compiled = loop.lower(x).compile()
    alarm(0.2)
    with pytest.raises(Alarm):
        compiled(x)
    assert x.is_deleted() or float(x.sum()) >= 0
    np.testing.assert_array_equal(y + 1, np.arange(100) + 1)


def test_an_error_in_a_callback_ends_the_loop_at_once():
    calls = []

    def fail(v):
        calls.append(float(v))
        if len(calls) == 3:
            raise ZeroDivisionError("the third")
        return np.asarray(v) + np.float32(1)

    x = jnp.float32(0)
    loop = pyjax.jit(
        lambda x: lax.fori_loop(0, 100, lambda i, c: pyjax.pure_callback(fail, x, c), x)
    )
    with pytest.raises(pyjax.errors.JaxRuntimeError, match="the third"):
        loop(x)
    assert calls == [0.0, 1.0, 2.0]
    assert float(loop(x)) == 100


def _run(code, timeout=120):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        timeout=timeout,
        text=True,
        env={**os.environ, "PYJAX_CPU_ENABLE_ASYNC_DISPATCH": "0"},
    )


def test_no_exception_gets_lost_around_callbacks():
    """A handler may run before the first bytecode of a callback: there the exception used to be
    printed as ignored."""
    done = _run("""
        import random, signal
        import numpy as np
        import pyjax, pyjax.numpy as jnp
        from pyjax import lax

        class Alarm(Exception):
            pass

        def raise_alarm(number, frame):
            raise Alarm

        def nothing(v):
            return v

        signal.signal(signal.SIGALRM, raise_alarm)
        x = jnp.float32(1)
        body = lambda i, c: pyjax.pure_callback(nothing, x, c)
        compiled = pyjax.jit(lambda x: lax.fori_loop(0, 2**31 - 1, body, x)).lower(x).compile()
        draw = random.Random(0)
        for round in range(150):
            try:
                # Python itself ignores what a handler raises in a finalizer: hence again and again.
                signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.0005, 0.003), 0.2)
                compiled(x)
            except (Alarm, pyjax.errors.JaxRuntimeError) as error:
                signal.setitimer(signal.ITIMER_REAL, 0)
                assert Alarm in (type(error), type(error.__cause__))
                continue
            raise SystemExit("the loop ended without its exception")
        """)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ctypes callback" not in done.stderr


@pytest.mark.parametrize("how", ["default", "ignored", "installed later"])
def test_interrupts_follow_the_handler_of_the_moment(how):
    done = _run(f"""
        import os, signal, sys, threading, time
        import pyjax, pyjax.numpy as jnp
        from pyjax import lax
        how = {how!r}
        loop = pyjax.jit(lambda x, n: lax.fori_loop(0, n, lambda i, c: c * 0.5 + 1, x))
        loop(jnp.float32(0), 10)
        rounds = 2**31 - 1
        # Shells start programs in the background with SIGINT ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if how == "ignored":
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            rounds = 10**8
        if how == "installed later":
            signal.signal(signal.SIGINT, lambda *_: sys.exit(7))
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            loop(jnp.float32(0), rounds)
        except KeyboardInterrupt:
            sys.exit(3)
        """)
    assert done.returncode == {"default": 3, "ignored": 0, "installed later": 7}[how], done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_ctrl_c_in_a_process_forked_from_a_thread():
    """The thread that forked is the child's main thread."""
    done = _run("""
        import os, signal, sys, threading
        import pyjax, pyjax.numpy as jnp
        from pyjax import lax
        loop = pyjax.jit(lambda x, n: lax.fori_loop(0, n, lambda i, c: c * 0.5 + 1, x))
        x = jnp.float32(0)
        loop(x, 10)
        codes = []
        def work():
            pid = os.fork()
            if pid == 0:
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                try:
                    loop(x, 2**31 - 1)
                except KeyboardInterrupt:
                    os._exit(3)
                os._exit(4)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert codes == [3], codes
        """)
    assert done.returncode == 0, done.stderr


class _Inner(Exception):
    """Raised by a handler into a program that a callback or another handler runs."""


@pytest.mark.parametrize("where", ["callback", "handler"])
def test_an_interrupt_of_an_inner_program_is_not_one_of_the_outer(alarm, where):
    """Who runs a program inside another one and catches what ended it, has dealt with it: the outer
    program used to end as well, with an error about a callback that had raised nothing."""
    caught = []

    def run_and_catch(*_):
        with pytest.raises(_Inner):
            signal.signal(signal.SIGALRM, raise_inner)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            _jitted(jnp.ones(10))
        caught.append(1)
        return np.float32(1)

    def raise_inner(number, frame):
        raise _Inner

    def steps(n, x):
        return lax.fori_loop(0, n, lambda i, c: jnp.cos(c), x)

    _jitted = pyjax.jit(lambda x: steps(2**31 - 1, x))

    @pyjax.jit
    def outer(n, x):
        if where == "callback":
            x = x * pyjax.pure_callback(run_and_catch, jnp.float32(0), x)
        return steps(n, x)

    n = 300_000
    if where == "handler":
        outer(1, jnp.ones(1000))
        begin = time.perf_counter()
        outer(10_000, jnp.ones(1000)).block_until_ready()
        n = int(10_000 * 0.6 / (time.perf_counter() - begin))
        signal.signal(signal.SIGALRM, run_and_catch)
        alarm(0.15)
    np.testing.assert_allclose(outer(n, jnp.ones(1000)), 0.739085, rtol=1e-5)
    assert caught == [1]


@pytest.mark.parametrize("what", ["callback", "fft"])
def test_after_an_interrupt_the_next_program_makes_host_calls(alarm, what):
    """One without loops, which does not look for signals itself: it took the interrupt of the
    program before for its own, and so did the next one."""
    x = jnp.eye(17)  # a length that the host transforms
    functions = {
        "callback": lambda v: pyjax.pure_callback(lambda v: np.asarray(v) * 2, x, v),
        "fft": lambda v: jnp.fft.ifft(jnp.fft.fft(v)).real * 2,
    }
    compiled = pyjax.jit(functions[what]).lower(x).compile()
    loop = pyjax.jit(_while).lower(jnp.float32(1)).compile()
    alarm(0.2)
    with pytest.raises(Alarm):
        loop(jnp.float32(1))
    for _ in range(2):
        np.testing.assert_allclose(compiled(x), np.eye(17) * 2, rtol=1e-6, atol=1e-6)


def test_handlers_are_heard_between_calls(alarm):
    """Calls that free memory of a program with a finalizer in Python, after native code."""
    columns = pyjax.jit(lambda x: (x @ x).sum(0))
    x = jnp.ones((300, 300))
    columns(columns(x) * x)
    for attempt in range(20):
        alarm(0.005 + attempt * 7e-5)
        with pytest.raises(Alarm):
            until = time.monotonic() + 10
            while time.monotonic() < until:
                columns(x)
