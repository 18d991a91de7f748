"""Long programs go on while their callers do: order, waiting, deletion, donation, errors, signals,
threads and forks. The end of the process: test_async_exit.py."""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import os
import pickle
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.runtime import program
from tests.interrupts import each_interrupt
from xla_backend.process import forks
from xla_backend.targets.cpu import native, work_queue
from xla_backend.targets.cpu.work_queue import queue_of

N = 64


@pyjax.jit
def turns(x: Any, n: Any) -> Any:
    """x + n / 2, in a loop of so many turns, which nothing tells before."""
    return lax.fori_loop(0, n, lambda i, c: c + 0.5, x)


@pyjax.jit
def endless(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] >= 0, lambda c: (c[0] * 0 + 1, c[1] * 0.5 + 1), (0, x))[1]


TIMES = 400_000
X = jnp.zeros((N, N))
QUEUE = queue_of(pyjax.devices()[0])


class _TooSoon(AssertionError):
    """A result was there before the thread that asked for it went on, as happens to threads that
    have to wait for a processor."""


def on_time(test: Callable[..., None]) -> Callable[..., None]:
    """A test in which something must be under way: again, where it was over too soon."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        for _ in range(9):
            with contextlib.suppress(_TooSoon):
                return test(*args, **kwargs)
        return test(*args, **kwargs)

    return run


def assert_pending(*arrays: Any) -> None:
    if any(x.is_ready() for x in arrays):
        raise _TooSoon


def slow(x: Any, times: int = TIMES) -> Any:
    """x + times / 2, after some hundredths of a second."""
    for _ in range(9):
        result = turns(x, times)
        if not result.is_ready():
            break
    assert_pending(result)
    return result


def expected(*times: int) -> Any:
    return pytest.approx(sum(times or (TIMES,)) / 2)


@pytest.fixture(autouse=True)
def nothing_under_way() -> Iterator[None]:
    """Nor is anything left."""
    turns(X, TIMES).block_until_ready()
    yield
    QUEUE.stop(10)
    assert not QUEUE._jobs
    QUEUE._doubtful = False


@contextlib.contextmanager
def alarm(seconds: float, handler: Callable[..., object] | None = None) -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, handler or interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# -- coming back -----------------------------------------------------------------------------------


@on_time
def test_a_call_comes_back_before_its_result_is_there() -> None:
    start = time.perf_counter()
    x = slow(slow(slow(X)))
    back = time.perf_counter() - start
    assert x.block_until_ready() is x
    assert x.is_ready()
    if back > (time.perf_counter() - start) / 2:
        raise _TooSoon
    assert float(x[3, 4]) == expected(TIMES, TIMES, TIMES)


def test_off_a_call_blocks() -> None:
    pyjax.config.update("jax_cpu_enable_async_dispatch", False)
    try:
        assert turns(X, TIMES).is_ready()
    finally:
        pyjax.config.update("jax_cpu_enable_async_dispatch", True)


def test_short_programs_come_back_when_they_are_done() -> None:
    assert (X + 1).is_ready()
    assert pyjax.jit(lambda x: (x @ x)[0])(jnp.ones((8, 8))).is_ready()
    assert turns(X, 1).block_until_ready().is_ready()
    assert turns(X, 1).is_ready()  # it was short the last time
    assert turns(X, TIMES).is_ready()
    slow(X)  # it was long


@on_time
def test_short_programs_that_use_pending_results_come_back_as_well() -> None:
    use = lambda x: (x + 1)[0] * 2
    use(X).sum().block_until_ready()  # compiled
    x = slow(X)
    y = use(x)
    assert_pending(y, x)
    assert float(y.sum()) == pytest.approx((TIMES + 2) * N)


USES: list[Callable[[Any], object]] = [
    np.asarray,
    np.array,
    lambda x: float(x[0, 0]),
    lambda x: bool(x[0, 0]),
    lambda x: x.tolist(),
    lambda x: x[0, 0].item(),
    lambda x: x.tobytes(),
    lambda x: repr(x),
    lambda x: f"{x[0, 0]:.2f}",
    lambda x: next(iter(x)),
    lambda x: memoryview(x),
    lambda x: np.from_dlpack(x),
    lambda x: x.unsafe_buffer_pointer(),
    lambda x: pickle.dumps(x),
    lambda x: copy.copy(x),
    lambda x: pyjax.device_get({"x": x}),
    lambda x: pyjax.block_until_ready({"x": x}),
    lambda x: pyjax.pure_callback(lambda y: np.asarray(y), x, x),
    lambda x: pyjax.jit(lambda y: y + x[0, 0])(1.0).item(),
]


@pytest.mark.parametrize("use", USES)
def test_every_use_waits(use: Callable[[Any], object]) -> None:
    x = slow(X)
    use(x)
    assert x.is_ready()
    assert x.tolist()[5][5] == expected()


@on_time
def test_to_ask_what_an_array_is_waits_for_nothing() -> None:
    x = slow(X)
    assert (x.shape, x.dtype, x.nbytes, x.device.id) == ((N, N), np.float32, 4 * N * N, 0)
    assert x.sharding.device_set == {pyjax.devices()[0]} and not x.is_deleted()
    x.copy_to_host_async()
    assert_pending(x)


def test_moving_it_to_another_device_waits() -> None:
    x = slow(X)
    assert float(pyjax.device_put(x, pyjax.devices()[0])[1, 1]) == expected()


# -- life ------------------------------------------------------------------------------------------


def test_deleting_what_is_computed_and_what_it_is_computed_from() -> None:
    x = X.copy()
    y = slow(x)
    z = slow(y)
    x.delete()
    y.delete()
    assert y.is_deleted() and not z.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        y.block_until_ready()
    with pytest.raises(RuntimeError, match="deleted"):
        y + 1
    assert float(z[0, 0]) == expected(TIMES, TIMES)


def test_what_nobody_refers_to_any_more() -> None:
    class Holder:
        array: Any

    for _ in range(5):
        holder = Holder()
        holder.array = slow(X)
        cycle: list[Any] = [holder]
        cycle.append(cycle)
        dead = weakref.ref(holder)
        del holder, cycle
        gc.collect()
        assert dead() is None
    assert float(slow(X)[0, 0]) == expected()


def test_memory_goes_when_it_is_done() -> None:
    device = pyjax.devices()[0]
    gc.collect()
    before = device.memory_stats()["bytes_in_use"]
    for _ in range(3):
        x = slow(slow(X))
        x.block_until_ready()
    del x
    assert device.memory_stats()["bytes_in_use"] <= before


def test_callers_do_not_get_far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "_MOST_JOBS", 4)
    x, most = X, 0
    for _ in range(20):
        x = turns(x, TIMES // 10)
        most = max(most, len(QUEUE._jobs))
    assert most == 4
    assert float(x[0, 0]) == expected(2 * TIMES)


def test_nor_take_all_memory_for_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "_MOST_BYTES", 3 * 4 * N * N)
    x, most = X, 0
    for _ in range(20):
        x = turns(x, TIMES // 10)
        most = max(most, len(QUEUE._jobs))
    assert 2 <= most <= 4
    assert float(x[0, 0]) == expected(2 * TIMES)


def test_programs_in_a_row_share_their_scratch_memory() -> None:
    e = jnp.ones((N, N)) / N
    f = pyjax.jit(lambda x, n: lax.fori_loop(0, n, lambda i, c: (c @ e) @ e + 1, x))
    f(X, 300).block_until_ready()
    x = slow(X)
    for _ in range(5):
        x = f(x, 300)
    arenas = [id(job.uses.arena) for job in list(QUEUE._jobs)[1:]]
    assert len(arenas) == 5 and len(set(arenas)) == 1 and id(None) not in arenas
    assert float(x[0, 0]) == expected(TIMES, 3000)


# -- donation --------------------------------------------------------------------------------------

_next = pyjax.jit(lambda x, n: lax.fori_loop(0, n, lambda i, c: c + 0.5, x), donate_argnums=0)


@on_time
def test_a_loop_that_donates_stays_in_place() -> None:
    x = X.copy()
    place = x.unsafe_buffer_pointer()
    _next(X.copy(), TIMES).block_until_ready()
    for _ in range(4):
        before, x = x, _next(x, TIMES)
        assert before.is_deleted()
        assert_pending(x)
    assert x.unsafe_buffer_pointer() == place
    assert float(x[0, 0]) == expected(*[TIMES] * 4)


def test_donating_what_somebody_sees_makes_a_copy() -> None:
    x = slow(X)
    view = np.asarray(x)
    y = _next(_next(x, TIMES), TIMES)
    assert float(y[0, 0]) == expected(TIMES, TIMES, TIMES)
    assert view[0, 0] == expected()


def test_donating_what_a_waiting_program_reads() -> None:
    x = X.copy() + 1
    slow(X)
    reader = turns(x, TIMES)
    overwrite = pyjax.jit(lambda x: x * 0, donate_argnums=0)
    zeros = overwrite(x)
    assert x.is_deleted() and float(zeros[0, 0]) == 0
    assert float(reader[0, 0]) == TIMES / 2 + 1


def test_donating_twice() -> None:
    x = slow(X)
    with pytest.raises(pyjax.errors.JaxRuntimeError, match=r"the same array, .*, was passed"):
        pyjax.jit(lambda x, y: (x + 1, y), donate_argnums=0)(x, x)
    assert float(x[0, 0]) == expected()
    y = slow(X)
    _next(y, TIMES)
    with pytest.raises(RuntimeError, match="deleted"):
        _next(y, TIMES)


# -- errors ----------------------------------------------------------------------------------------


def test_what_fails_for_the_caller_fails_at_the_call() -> None:
    device = pyjax.devices()[0]
    reserved = device.memory_stats()["bytes_reserved"]
    big = jnp.zeros((1 << 22,))
    f = pyjax.jit(lambda x: jnp.sin(jnp.tan(x)) * jnp.cos(x))
    y = f(big).block_until_ready()
    pyjax.config.update("jax_cpu_memory_limit", reserved)
    try:
        with pytest.raises(MemoryError, match=r"(?s)test_async_dispatch.*big_again = f\(big\)"):
            for _ in range(100):
                big_again = f(big)
                y = (y, big_again)
    finally:
        pyjax.config.update("jax_cpu_memory_limit", -1)
    assert float(f(big)[0]) == 0


def test_memory_is_refused_only_when_programs_under_way_have_ended() -> None:
    device = pyjax.devices()[0]
    n = 1 << 20
    f = pyjax.jit(lambda x: jnp.sin(jnp.tan(x)) + 1)
    x = f(jnp.zeros((n,))).block_until_ready()
    pyjax.config.update(
        "jax_cpu_memory_limit", device.memory_stats()["bytes_reserved"] + 4 * (4 * n)
    )
    try:
        for _ in range(40):  # each of whose results is free when the next but one begins
            x = f(x)
        x.block_until_ready()
    finally:
        pyjax.config.update("jax_cpu_memory_limit", -1)


def test_a_failure_comes_at_each_wait_and_names_the_call() -> None:
    x = endless(jnp.float32(1))  # the call
    y = turns(x, 10)
    QUEUE.stop(10)
    for array in (x, y, x):
        with pytest.raises(
            pyjax.errors.JaxRuntimeError, match=r"(?s)endless.*test_async_.*x = endless.*# the call"
        ):
            array.block_until_ready()
    with pytest.raises(pyjax.errors.JaxRuntimeError, match="the call"):
        float(y + 1)
    assert float(slow(X)[0, 0]) == expected()


# -- signals ---------------------------------------------------------------------------------------


@on_time
def test_a_handler_ends_the_wait_and_not_the_program() -> None:
    x = slow(slow(X, 3 * TIMES))
    with alarm(0.02), pytest.raises(InterruptedError):
        x.block_until_ready()
    assert_pending(x)
    assert float(x[0, 0]) == expected(TIMES, 3 * TIMES)


def test_a_handler_may_wait_and_start_programs() -> None:
    seen = []
    x = slow(X)

    def handler(*_: object) -> None:
        seen.append(float(turns(x, TIMES)[0, 0]))

    with alarm(0.01, handler):
        assert float(slow(x)[0, 0]) == expected(TIMES, TIMES)
    assert seen == [expected(TIMES, TIMES)]


def test_who_gave_up_waiting_is_not_held_up_by_what_he_gave_up() -> None:
    x = endless(jnp.float32(1))
    with alarm(0.05), pytest.raises(InterruptedError):
        float(x)
    # Not behind it in the queue, as long as somebody may want it yet.
    assert float(turns(X, TIMES)[0, 0]) == expected()
    assert len(QUEUE._jobs) == 1
    del x
    gc.collect()
    assert float(turns(X, TIMES)[0, 0]) == expected()
    assert not QUEUE._jobs  # it was stopped


def test_what_is_waited_for_is_not_stopped() -> None:
    x = endless(jnp.float32(1))
    y = turns(x, TIMES)
    with alarm(0.05), pytest.raises(InterruptedError):
        y.block_until_ready()
    del x
    gc.collect()
    turns(X, TIMES)
    assert len(QUEUE._jobs) == 2 and not y.is_ready()


def _step() -> None:
    x = turns(X, 20_000)
    y = _next(x, 20_000)
    z = y + 1
    assert float(z[0, 0]) == expected(20_002, 20_000)


def test_an_interrupt_at_any_point_leaves_everything_right() -> None:
    def settled() -> None:
        QUEUE.drain(time.monotonic() + 60)
        assert not QUEUE._jobs

    settled()
    gc.collect()
    before = pyjax.devices()[0].memory_stats()["bytes_in_use"]
    turns(X, TIMES).block_until_ready()
    _next(X.copy(), TIMES).block_until_ready()
    number = 0
    for number in each_interrupt(_step, program, native, work_queue):
        if number % 10 == 0:
            settled()
            turns(X, TIMES).block_until_ready()
            _next(X.copy(), TIMES).block_until_ready()
    assert number > 100
    settled()
    gc.collect()
    assert pyjax.devices()[0].memory_stats()["bytes_in_use"] <= before
    _step()


# -- threads ---------------------------------------------------------------------------------------


def _in_threads(count: int, work: Callable[[int], None]) -> None:
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert not errors, errors


def test_threads_get_their_own_results() -> None:
    shared = slow(X)

    def work(number: int) -> None:
        x = X + number
        for _ in range(5):
            x = turns(x, 10_000)
        y = turns(x + shared, 10_000)
        assert float(y[1, 1]) == pytest.approx(number + (TIMES + 60_000) / 2)

    _in_threads(8, work)


def test_a_queue_that_closes_just_now_is_through_with_donated_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a fork in another thread closes it: the program runs on its caller's thread then."""
    _next(X.copy(), TIMES).block_until_ready()
    x = (X + 1).block_until_ready()
    before, reader = slow(X), slow(x)

    def closing(queue: Any, *arguments: Any) -> Any:
        queue.close(True)
        try:
            return submit(queue, *arguments)
        finally:
            queue.close(False)

    submit = work_queue.WorkQueue.submit
    monkeypatch.setattr(work_queue.WorkQueue, "submit", closing)
    assert _next(x, TIMES).is_ready()
    assert (np.asarray(reader) == 1 + TIMES / 2).all()
    assert before.is_ready() and x.is_deleted()


def test_one_thread_donates_what_others_wait_for() -> None:
    for _ in range(10):
        x = turns(X, 20_000)
        won = []

        def work(number: int, x: Any = x, won: list[int] = won) -> None:
            try:
                if number % 2:
                    assert float(_next(x, 20_000)[0, 0]) == expected(40_000)
                    won.append(number)
                else:
                    assert float(x[0, 0]) == expected(20_000)
            except RuntimeError as error:
                assert "deleted" in str(error)

        _in_threads(4, work)
        assert len(won) == 1


def test_callbacks_may_wait_for_pending_arrays_of_their_device() -> None:
    x = slow(X)

    def call(y: Any) -> Any:
        return np.float32(x[0, 0] + turns(x, TIMES)[1, 1] + y)

    f = pyjax.jit(lambda y: pyjax.pure_callback(call, pyjax.ShapeDtypeStruct((), jnp.float32), y))
    assert float(f(1.0)) == pytest.approx(1 + 1.5 * TIMES)


# -- what acts on calls ----------------------------------------------------------------------------


def test_faults_are_looked_for_before_a_call_comes_back() -> None:
    with pyjax.debug_nans(True):
        f = pyjax.jit(lambda x, n: lax.fori_loop(0, n, lambda i, c: c * 2.0, x) - jnp.inf)
        with pytest.raises(FloatingPointError):
            f(jnp.full((100, 100), 1e38), 10_000)


def test_effects_are_seen_in_order() -> None:
    seen: list[float] = []

    @pyjax.jit
    def tell(x: Any) -> None:
        pyjax.debug.callback(lambda v: seen.append(float(v)), x[0, 0])

    x = X
    for _ in range(3):
        x = slow(x)
        tell(x)
    pyjax.effects_barrier()
    assert seen == [expected(TIMES * i) for i in (1, 2, 3)]


# -- references ------------------------------------------------------------------------------------


@pyjax.jit
def _write(ref: Any, n: Any) -> None:
    ref[...] = lax.fori_loop(0, n, lambda i, c: c + 0.5, ref[...])


@pyjax.jit
def _read(ref: Any, n: Any) -> Any:
    return lax.fori_loop(0, n, lambda i, c: c + 0.5, ref[...])


def _warm_refs() -> None:
    ref = pyjax.new_ref(X)
    _write(ref, TIMES)
    _read(ref, TIMES).block_until_ready()


@on_time
def test_references_hold_what_is_being_computed() -> None:
    x = slow(X)
    ref = pyjax.new_ref(x)
    read = ref[...]
    assert_pending(x, read)
    assert float(read[0, 0]) == expected() == float(x[0, 0])
    ref[...] = slow(X, 2 * TIMES)
    assert float(pyjax.freeze(ref)[0, 0]) == expected(2 * TIMES)
    assert float(x[0, 0]) == float(read[0, 0]) == expected()


def test_long_programs_read_and_write_references_in_order() -> None:
    _warm_refs()
    ref = pyjax.new_ref(X)
    _write(ref, TIMES)
    first = ref[...]
    _write(ref, TIMES)
    ref[0, 0] = 1.0
    second = _read(ref, TIMES)
    _write(ref, TIMES)
    assert float(ref[1, 1]) == expected(3 * TIMES)
    assert float(ref[0, 0]) == pytest.approx(1 + TIMES / 2)
    assert float(second[1, 1]) == expected(3 * TIMES)
    assert (np.asarray(first) == TIMES / 2).all()
    assert repr(ref).startswith("Ref(")


def test_a_pending_array_in_two_references_is_written_to_in_one() -> None:
    _warm_refs()

    @pyjax.jit
    def both(one: Any, two: Any, y: Any, n: Any) -> Any:
        one[...] = lax.fori_loop(0, n, lambda i, c: c + 0.5, one[...])
        return two[...] + y

    for settled in (False, True):
        x = slow(X)
        one, two = pyjax.new_ref(x), pyjax.new_ref(x)
        if settled:
            x.block_until_ready()
        out = both(one, two, x, TIMES)
        assert float(out[2, 2]) == expected(2 * TIMES)
        assert float(one[2, 2]) == expected(2 * TIMES)
        assert float(two[2, 2]) == float(x[2, 2]) == expected()


def test_no_reference_to_a_deleted_array() -> None:
    x = X + 1
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        pyjax.new_ref(x)


# -- forks -----------------------------------------------------------------------------------------

forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


def _child(work: Callable[[], bool]) -> None:
    """work() in a child of a fork is true."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    end = time.monotonic() + 60
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        assert time.monotonic() < end, "the child hangs"
        time.sleep(0.01)
    assert status == 0


@forking
def test_a_fork_waits() -> None:
    x = slow(slow(X))

    def work() -> bool:
        return x.is_ready() and float(slow(x)[0, 0]) == TIMES * 3 / 2

    _child(work)
    assert x.is_ready()
    assert float(slow(x)[0, 0]) == expected(TIMES * 3)


@forking
def test_a_child_does_not_wait_for_what_its_parent_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forks, "_BOUND", 0.2)
    x = endless(jnp.float32(1))

    def work() -> bool:
        with pytest.raises(pyjax.errors.JaxRuntimeError, match="forked"):
            x.block_until_ready()
        return float(slow(X)[0, 0]) == TIMES / 2

    _child(work)
    assert not x.is_ready()
