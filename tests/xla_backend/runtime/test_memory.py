"""The memory pool and buffers: size classes, ownership, what goes back to the system, limits."""

from __future__ import annotations

import ctypes
import gc
import itertools
import mmap
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interrupts import Interrupt, each_interrupt
from tests.threads import together
from xla_backend.runtime import memory
from xla_backend.runtime.buffer import BufferHolder
from xla_backend.runtime.host_buffer import HostBufferKind, memory_view, read_only_view
from xla_backend.runtime.memory import ALIGNMENT, KEPT_BYTES, MemoryPool, size_class

MB = 1 << 20


@given(st.integers(0, 1 << 40))
def test_size_classes_cover_and_waste_little(nbytes: int) -> None:
    size = size_class(nbytes)
    assert size >= max(1, nbytes) and size % ALIGNMENT == 0
    assert size <= max(ALIGNMENT, nbytes * 1.25 + ALIGNMENT)
    assert size_class(size) == size


@pytest.mark.parametrize("nbytes", [0, 1, 100, 448, 4096, 5000, 40_000, 1 << 16, 70_000, 3 * MB])
def test_blocks_are_aligned_and_disjoint(nbytes: int) -> None:
    pool = MemoryPool()
    blocks = sorted(pool.allocate(nbytes) for _ in range(100))
    assert all(b % ALIGNMENT == 0 for b in blocks)
    assert all(b - a >= size_class(nbytes) for a, b in itertools.pairwise(blocks))
    for block in blocks:
        memory_view(block, (nbytes,), np.dtype(np.uint8), None)[...] = 255  # all of it is mapped


@pytest.mark.parametrize("nbytes", [100, 5000, 70_000, 3 * MB])
def test_a_block_is_reused_when_its_last_owner_goes(nbytes: int) -> None:
    pool = MemoryPool()
    block = pool.allocate(nbytes)
    address, second_owner = +block, block
    del block
    assert pool.allocate(nbytes) != address
    del second_owner
    assert pool.allocate(size_class(nbytes)) == address  # of the same size class


def test_a_block_is_an_address_with_an_owner() -> None:
    block = MemoryPool().allocate(100)
    assert isinstance(block, int) and type(+block) is int and block == +block


def test_trim_returns_free_blocks_that_have_a_mapping() -> None:
    pool = MemoryPool()
    blocks = [pool.allocate(10 * MB), pool.allocate(100_000)]
    size = size_class(10 * MB) + size_class(100_000)
    assert pool.bytes_reserved() == size and pool.trim() == 0
    del blocks
    assert pool.bytes_reserved() == size  # few enough to keep
    assert pool.trim() == size
    assert pool.bytes_reserved() == 0


def test_few_free_bytes_stay() -> None:
    pool = MemoryPool()
    for nbytes in (5 * MB, 90 * MB, 400 * MB, 1500 * MB, 100 * MB, 700 * MB, 5 * MB):
        block = pool.allocate(nbytes)
        del block
        assert pool.bytes_reserved() <= KEPT_BYTES


def test_few_free_bytes_of_medium_blocks_stay() -> None:
    pool = MemoryPool()
    blocks = [pool.allocate(300_000) for _ in range(1000)]
    assert pool.bytes_reserved() >= 300_000_000
    del blocks
    assert 0 < pool.bytes_reserved() <= memory.MEDIUM_BYTES


def is_present(address: int) -> bool:
    """Whether the page of this address is mapped, and has memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    page = ctypes.c_void_p(address // mmap.PAGESIZE * mmap.PAGESIZE)
    state = (ctypes.c_ubyte * 1)()
    found = libc.mincore(page, ctypes.c_size_t(1), state)
    return found == 0 and bool(state[0] & 1)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
@pytest.mark.parametrize("nbytes", [100, 4000, 4096, 5000, 30_000, 60_000, 70_000, 900_000])
def test_pages_around_blocks_are_there(nbytes: int) -> None:
    """Where masked lanes of vectors at the ends of an array may lie."""
    pool = MemoryPool()
    blocks = [pool.allocate(nbytes) for _ in range(40)]
    size = size_class(nbytes)
    for block in blocks:
        assert is_present(block - ALIGNMENT)
        assert is_present(block + size + ALIGNMENT - 1)


@pytest.mark.parametrize("nbytes, count", [(400 * MB, 1), (60 * MB, 5), (900_000, 30)])
def test_what_a_loop_needs_again_and_again_stays(
    nbytes: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = MemoryPool()
    mapped = []
    monkeypatch.setattr(
        memory, "mapping", lambda n, m, real=memory.mapping: (mapped.append(n), real(n, m))[1]
    )
    for step in range(20):
        blocks = [pool.allocate(nbytes) for _ in range(count)]
        if step == 10:
            mapped.clear()
        del blocks
    assert mapped == []


def test_what_was_kept_for_a_loop_goes_back_when_it_is_over() -> None:
    time = [100.0]
    pool = MemoryPool(clock=lambda: time[0])
    for _ in range(5):
        block = pool.allocate(400 * MB)
        del block
    assert pool.bytes_reserved() >= 400 * MB  # hot
    time[0] += memory.HOT_SECONDS + 1
    block = pool.allocate(2 * MB)
    del block
    assert pool.bytes_reserved() <= KEPT_BYTES


def test_impossible_sizes_are_a_memory_error() -> None:
    for nbytes in (1 << 62, 1 << 80):
        with pytest.raises(MemoryError, match=f"cannot allocate {size_class(nbytes)} bytes"):
            MemoryPool().allocate(nbytes)


def test_a_refusal_says_how_much_there_is() -> None:
    pool = MemoryPool()
    pool.limit = 64 * MB
    kept = pool.allocate(32 * MB)
    with pytest.raises(MemoryError) as error:
        pool.allocate(40 * MB)
    what, why, fix = str(error.value).split("\n  ")
    assert what == "cannot allocate 41943040 bytes for an array"
    assert why == (
        "the limit set for this process allows 67108864 bytes in all; 33554432 bytes are in use, "
        "and 0 bytes are free in blocks of other sizes"
    )
    assert "donate_argnums" in fix and "raise the limit" in fix
    assert kept and pool.stats()["bytes_in_use"] == 32 * MB


def test_before_memory_is_refused_everything_free_goes_back() -> None:
    pool = MemoryPool()
    pool.limit = 100 * MB
    block = pool.allocate(60 * MB)
    del block  # kept, and in the way of the next one
    assert pool.allocate(96 * MB)


def test_before_memory_is_refused_garbage_is_collected() -> None:
    pool = MemoryPool()
    pool.limit = 100 * MB
    cycle = [pool.allocate(60 * MB)]
    cycle.append(cycle)
    gc.disable()
    try:
        del cycle
        assert pool.allocate(96 * MB)
    finally:
        gc.enable()


def test_small_blocks_obey_the_limit() -> None:
    pool = MemoryPool()
    pool.limit = 4 * MB
    blocks = []
    with pytest.raises(MemoryError, match="the limit set for this process"):
        while True:
            blocks.append(pool.allocate(1000))
    assert len(blocks) * 1024 >= 3.5 * MB


def test_statistics_count_what_has_an_owner() -> None:
    pool = MemoryPool()
    held = [pool.allocate(n) for n in (100, 5000, 100_000, 3 * MB)]
    in_use = 128 + 5120 + size_class(100_000) + 3 * MB
    stats = pool.stats()
    assert stats["bytes_in_use"] == stats["peak_bytes_in_use"] == in_use
    assert stats["bytes_reserved"] >= in_use
    del held
    stats = pool.stats()
    assert stats["bytes_in_use"] == 0 and stats["peak_bytes_in_use"] == in_use
    pool.limit = 5 * MB
    assert pool.stats()["bytes_limit"] == 5 * MB


def calls_of_python(work: Callable[[], object]) -> list[str]:
    """Names of the functions with byte code that ran in a call, but for its own."""
    names = []
    sys.setprofile(lambda frame, event, _: event == "call" and names.append(frame.f_code.co_name))
    try:
        work()
    finally:
        sys.setprofile(None)
    return names[1:]


@pytest.mark.parametrize("nbytes", [100, 100_000, 3 * MB, 30 * MB])
def test_blocks_come_and_go_without_byte_code(nbytes: int) -> None:
    pool = MemoryPool()
    memory_of = pool.size_class(nbytes)

    def work() -> None:
        first, second = memory_of.take(), memory_of.take()
        del first, second

    blocks = [pool.allocate(nbytes) for _ in range(2)]
    del blocks
    assert calls_of_python(work) == []


def test_the_peak_counts_large_blocks_that_were_free() -> None:
    pool = MemoryPool()
    for _ in range(2):
        for nbytes in (3 * MB, 5 * MB):
            block = pool.allocate(nbytes)
            del block
    assert pool.stats()["peak_bytes_in_use"] == 5 * MB
    blocks = [pool.allocate(5 * MB), pool.allocate(3 * MB)]
    del blocks
    assert pool.stats()["peak_bytes_in_use"] == 8 * MB


def test_free_blocks_stay_within_bounds_where_each_came_without_a_look() -> None:
    pool = MemoryPool(clock=itertools.count(step=10).__next__)  # nothing is asked for again soon
    sizes = [(8 + 2 * k) * MB for k in range(20)]
    for _ in range(3):
        for nbytes in sizes:
            for _ in range(3):
                block = pool.allocate(nbytes)
                del block
            assert pool.bytes_reserved() <= KEPT_BYTES
    blocks = [pool.allocate(nbytes) for nbytes in sizes]
    del blocks
    assert pool.bytes_reserved() <= KEPT_BYTES


def test_the_class_that_was_used_longest_ago_goes_first() -> None:
    pool = MemoryPool(clock=itertools.count(step=10).__next__)
    for nbytes in (40 * MB, 60 * MB, 40 * MB):
        block = pool.allocate(nbytes)
        del block
    block = pool.allocate(50 * MB)
    del block  # 150 MB in all
    with pytest.raises(IndexError):
        pool.size_class(60 * MB).take_free()
    pool.size_class(40 * MB).take_free()


def test_threads_never_get_the_same_block() -> None:
    pool = MemoryPool()

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        held = []
        for _ in range(2000):
            nbytes = int(2.0 ** rng.uniform(3, 22))
            block = pool.allocate(nbytes)
            view = memory_view(block, (8,), np.dtype(np.uint8), block)
            view[...] = number
            held.append(view)
            if len(held) > 20:
                gone = held.pop(int(rng.integers(20)))
                assert set(gone.tolist()) == {number}

    together(*(partial(work, i) for i in range(4)))
    assert pool.stats()["bytes_in_use"] == 0


def test_finalizers_may_allocate_and_free() -> None:
    """Collection may start anywhere, also while the pool holds its lock."""
    pool = MemoryPool()

    class Greedy:
        def __init__(self) -> None:
            self.block = pool.allocate(2 * MB)
            self.me = self

        def __del__(self) -> None:
            pool.allocate(5 * MB)

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for n in range(200):
            Greedy()
            pool.allocate((n % 7 + 1) * 3 * MB)
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert pool.stats()["bytes_in_use"] == 0


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs SIGUSR1")
def test_a_collection_in_the_pool_waits_for_nobody() -> None:
    """A finalizer wants a lock whose holder allocates. The pool used to have a lock of its own, and
    a collection that started under it made the two threads wait for each other."""
    lock = threading.RLock()
    wanted = threading.Event()
    found_free = []

    class Garbage:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            wanted.set()
            found_free.append(lock.acquire(timeout=10))
            if found_free[-1]:
                lock.release()

    def hold(pool: MemoryPool, holds: threading.Event) -> None:
        with lock:
            holds.set()
            wanted.wait(10)
            pool.allocate(3 * MB)

    def work() -> None:
        Garbage()
        pool, holds = MemoryPool(), threading.Event()
        holder = threading.Thread(target=hold, args=(pool, holds))
        holder.start()
        holds.wait(10)
        for nbytes in (5000, 100_000, 150 * MB):
            pool.allocate(nbytes)
        pool.trim()
        wanted.set()
        holder.join(20)
        wanted.clear()

    gc.collect()
    gc.disable()
    try:
        for number in each_interrupt(work, memory, handler=lambda: gc.collect(0)):
            assert found_free == [True], f"two threads wait for each other at point {number}"
            found_free.clear()
    finally:
        gc.enable()
    assert number > 100


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs SIGUSR1")
@pytest.mark.parametrize("sizes", [(100, 5000), (900_000,) * 10, (3 * MB, 200 * MB)])
def test_an_interrupt_loses_no_memory(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = MemoryPool()
    monkeypatch.setattr(sys, "unraisablehook", lambda error: None)  # for those in finalizers

    def work() -> None:
        for _ in range(2):
            blocks = [pool.allocate(n) for n in sizes]
            del blocks
        pool.trim()
        pool.allocate(sizes[0])

    def handler() -> None:
        raise Interrupt

    count = 0
    for number in each_interrupt(work, memory, handler=handler):
        assert pool.stats()["bytes_in_use"] == 0, f"after interrupt {number}"
        pool.trim()
        slabs = 2 * MB if max(sizes) < 10_000 else 0
        assert pool.bytes_reserved() <= slabs, f"after interrupt {number}"
        pool = MemoryPool(clock=itertools.count().__next__)
        count += 1
    assert count > 50


def holder_of(kind: HostBufferKind, array: np.ndarray) -> BufferHolder:
    holder = BufferHolder()
    holder.buffer = kind.from_host(array)
    return holder


def test_views_keep_memory_alive() -> None:
    kind = HostBufferKind((3,), np.dtype(np.int64))
    holder = holder_of(kind, np.array([1, 2, 3]))
    address = +holder.buffer
    view = kind.to_host(holder.buffer)
    other = view[1:].view(np.uint8)
    holder.delete()
    del holder, view
    assert address not in memory.POOL.size_class(kind.nbytes).free and other[0] == 2
    del other
    assert address in memory.POOL.size_class(kind.nbytes).free


def test_delete_frees_once() -> None:
    kind = HostBufferKind((5,), np.dtype(np.float32))
    holder = holder_of(kind, np.zeros(5, np.float32))
    address = +holder.buffer
    holder.delete()
    holder.delete()
    assert holder.is_deleted() and memory.POOL.size_class(kind.nbytes).free.count(address) == 1
    del holder
    assert memory.POOL.size_class(kind.nbytes).free.count(address) == 1


def test_foreign_memory_is_not_given_to_the_pool() -> None:
    array = np.arange(6.0)
    kind = HostBufferKind((6,), array.dtype)
    buffer = kind.wrap_host(array)
    address = array.ctypes.data
    assert buffer == address and not buffer.from_pool
    references = sys.getrefcount(array)
    del buffer
    assert address not in memory.POOL.size_class(kind.nbytes).free
    assert sys.getrefcount(array) == references - 1


@pytest.mark.parametrize("value", [True, 7, -3, 2.5, 1e-3])
@pytest.mark.parametrize(
    "dtype", ["bool", "int32", "int64", "float32", "float64", "int8", "float16"]
)
def test_a_number_is_written_as_numpy_writes_it(dtype: str, value: float) -> None:
    value = np.dtype(dtype).type(value).item()
    kind = HostBufferKind((), np.dtype(dtype))
    assert kind.to_host(kind.from_scalar(value)) == np.asarray(value, dtype)


def test_empty_arrays() -> None:
    assert memory_view(0, (0, 3), np.dtype(np.float32), None).shape == (0, 3)
    assert read_only_view(MemoryPool().allocate(0), (0, 3), np.dtype(np.int8)).shape == (0, 3)


def run_alone(code: str) -> str:
    """Output of a program in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_resident_size_falls_after_a_large_block() -> None:
    output = run_alone(
        """
        import numpy as np
        from xla_backend.runtime.host_buffer import memory_view
        from xla_backend.runtime.memory import POOL

        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * 4096

        before = resident()
        block = POOL.allocate(512 << 20)
        memory_view(block, (512 << 20,), np.dtype(np.uint8), None)[...] = 1
        during = resident()
        del block
        print(during - before >> 20, resident() - before >> 20)
        """
    )
    during, after = map(int, output.split())
    assert during >= 512 and after <= 16


def test_one_block_at_a_time_fits_a_small_address_space() -> None:
    run_alone(
        """
        import resource
        from xla_backend.runtime.memory import POOL

        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        for round in range(3):
            for nbytes in range(256_000_000, 900_000_000, 4_000_000):
                block = POOL.allocate(nbytes)
                del block
        assert POOL.stats()["bytes_limit"] == 4 << 30
        """
    )


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_while_other_threads_use_the_pool() -> None:
    pool = MemoryPool()
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for nbytes in (2 * MB, 300 * MB, 100_000):
                pool.allocate(nbytes)

    threads = [threading.Thread(target=churn) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                for nbytes in (100, 100_000, 3 * MB, 500 * MB):
                    pool.allocate(nbytes)
                os._exit(7)
            assert os.waitpid(child, 0)[1] == 7 << 8
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_memory_is_private_after_a_fork() -> None:
    pool = MemoryPool()
    blocks = [pool.allocate(n) for n in (100, 100_000, 3 * MB)]
    views = [memory_view(b, (64,), np.dtype(np.uint8), None) for b in blocks]
    for view in views:
        view[...] = 1
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        seen = all(view.min() == 1 for view in views)
        for view in views:
            view[...] = 2
        os.write(write_end, b"y")
        os._exit(7 if seen else 1)
    os.read(read_end, 1)
    assert all(view.min() == view.max() == 1 for view in views)
    assert os.waitpid(child, 0)[1] == 7 << 8
