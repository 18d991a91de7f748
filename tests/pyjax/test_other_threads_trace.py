"""What a call does depends on the trace of its own thread, not on whether another one traces."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, lax, vmap
from pyjax.core import axis_env, trace_state
from pyjax.runtime.array import DeviceArray
from tests.threads import together


@contextmanager
def another_thread_tracing() -> Iterator[None]:
    """Inside, another thread is in the middle of tracing a function."""
    inside, leave = threading.Event(), threading.Event()

    def traced(x: Any) -> Any:
        inside.set()
        assert leave.wait(60)
        return x

    thread = threading.Thread(target=lambda: jit(traced)(1.0))
    thread.start()
    assert inside.wait(60)
    try:
        assert trace_state.entered
        yield
    finally:
        leave.set()
        thread.join()


def test_donation_while_another_thread_traces():
    f = jit(lambda x: x + 1, donate_argnums=0)
    for _ in range(2):  # the first call compiles, the second finds the program
        x = jnp.zeros(100)
        with another_thread_tracing():
            y = f(x)
        assert x.is_deleted()
        assert float(y[0]) == 1.0


def test_programs_are_found_while_another_thread_traces():
    f = jit(lambda x: x * 2)
    x = jnp.arange(3.0)
    f(x)
    before = f._cache_size()
    with another_thread_tracing():
        calls: list[Callable[[], Any]] = [lambda: f(x), lambda: x + x, lambda: x[1]]
        assert [np.asarray(call()).tolist() for call in calls] == [[0, 2, 4], [0, 2, 4], 1.0]
        assert f._cache_size() == before
        assert type(f(x)) is DeviceArray


def test_options_and_devices_belong_to_a_thread():
    seen = {}

    def other() -> None:
        seen["dtype"] = jnp.asarray(1.5).dtype
        seen["device"] = jnp.ones(2).device
        seen["names"] = axis_env.axis_names()

    def inside(x: Any) -> Any:
        together(other)
        return lax.psum(x, "i")

    with pyjax.enable_x64(True), pyjax.default_device(pyjax.devices()[-1]):
        vmap(inside, axis_name="i")(jnp.ones(2))
    assert seen == {
        "dtype": np.dtype("float32"),
        "device": pyjax.devices()[0],
        "names": (),
    }


def test_a_value_of_an_enclosing_trace_in_a_block_that_runs_at_once():
    def f(x):
        with pyjax.ensure_compile_time_eval():
            return jit(lambda y: y + x)(jnp.ones(2))

    assert jit(f)(1.0).tolist() == [2.0, 2.0]


def test_calls_within_a_block_that_runs_at_once():
    donated = jit(lambda x: x + 1, donate_argnums=0)

    def f(x):
        with pyjax.ensure_compile_time_eval():
            y = jnp.ones(3)
            z = donated(y)
            assert y.is_deleted()
            number = float(z[0])
        return x + number

    assert float(jit(f)(1.0)) == 3.0


def _tracing_in_a_loop(stop: threading.Event) -> None:
    k = 0
    while not stop.is_set():
        k += 1
        jit(lambda x, k=k: jnp.sin(x) * k)(1.0)
        grad(lambda x, k=k: jit(lambda y: y**2 * k)(x))(2.0)
        vmap(lambda x, k=k: lax.scan(lambda c, _: (c + k, c), x, None, length=2)[0])(jnp.ones(2))


def test_calls_beside_threads_that_trace():
    stop = threading.Event()
    tracers = [threading.Thread(target=_tracing_in_a_loop, args=(stop,)) for _ in range(2)]
    step = jit(lambda x, y: (x + y, y), donate_argnums=0)
    derivative = jit(grad(lambda x: (x**3).sum()))

    def donating() -> None:
        y = jnp.ones(50)
        x = jnp.zeros(50)
        for _ in range(300):
            previous = x
            x, _ = step(x, y)
            assert previous.is_deleted()
        assert np.asarray(x).tolist() == [300.0] * 50

    def differentiating() -> None:
        for i in range(200):
            x = jnp.full(4, float(i))
            assert np.asarray(derivative(x)).tolist() == [3.0 * i * i] * 4
            assert float(grad(lambda v: v * v)(float(i))) == 2.0 * i

    def with_options() -> None:
        for _ in range(200):
            with pyjax.enable_x64(True):
                assert (jnp.arange(3) + 1.5).dtype == np.float64
            assert (jnp.arange(3) + 1.5).dtype == np.float32

    for thread in tracers:
        thread.start()
    try:
        together(donating, differentiating, with_options)
    finally:
        stop.set()
        for thread in tracers:
            thread.join(60)
    assert not trace_state.entered
