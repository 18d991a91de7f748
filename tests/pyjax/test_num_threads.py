"""The number of threads: of the process at any time, of one thread in a block; never in results."""

import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from tests.threads import together
from xla_backend.runtime import host_threads
from xla_backend.targets.cpu.routines.thread_pool import threads_library

BLOCK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
R = np.random.default_rng(5)
MATRIX = R.normal(size=(700, 650)).astype(np.float32)
LONG = R.normal(size=1_500_001).astype(np.float32)
IMAGES = R.normal(size=(4, 33, 31, 8)).astype(np.float32)
KERNEL = R.normal(size=(3, 3, 8, 16)).astype(np.float32)

PROGRAMS: dict[str, Callable[[], Any]] = {
    "sum": lambda: jnp.sum(LONG),
    "norm of rows": lambda: jnp.sqrt((MATRIX * jnp.asarray(MATRIX)).sum(1)),
    "columns": lambda: jnp.asarray(MATRIX).mean(0),
    "product": lambda: jnp.asarray(MATRIX) @ MATRIX.T,
    "product with epilogue": lambda: jnp.tanh(jnp.asarray(MATRIX).T @ MATRIX + 1),
    "matrix times vector": lambda: jnp.asarray(MATRIX) @ MATRIX[0],
    "convolution": lambda: lax.conv_general_dilated(
        IMAGES, KERNEL, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    ),
    "sort": lambda: jnp.sort(LONG),
    "argsort": lambda: jnp.argsort(LONG),
    "running sum": lambda: jnp.cumsum(LONG),
    "softmax": lambda: pyjax.nn.softmax(jnp.asarray(MATRIX), axis=1),
    "random": lambda: pyjax.random.normal(pyjax.random.key(1), (300_000,)),
    "solve": lambda: jnp.linalg.solve(jnp.asarray(MATRIX[:300, :300]), MATRIX[:300, 0]),
}


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = host_threads.num_threads()
    yield
    pyjax.config.update("jax_num_threads", None)
    host_threads.set_num_threads(before)


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_do_not_depend_on_it(name: str) -> None:
    run = PROGRAMS[name]
    results = []
    for n in (1, 2, 3, 5):
        pyjax.config.update("jax_num_threads", n)
        results.append(np.asarray(run()).tobytes())
    for n in (1, 2, 4):
        with pyjax.num_threads(n):
            results.append(np.asarray(run()).tobytes())
    assert len(set(results)) == 1


def test_it_changes_while_programs_are_kept() -> None:
    f = pyjax.jit(lambda x: jnp.sin(x) @ x)
    x = jnp.ones((400, 400))
    f(x)
    kept = f._cache_size()
    for n in (3, 1, 2):
        pyjax.config.update("jax_num_threads", n)
        f(x)
        assert host_threads.num_threads() == n
    assert f._cache_size() == kept
    with pyjax.num_threads(1):
        f(x)
    assert f._cache_size() == kept + 1


def threads_of_blocks(limit: int | None, blocks: int) -> tuple[list[int], set[int]]:
    """Which blocks ran, and on which threads."""
    seen: list[int] = []
    ids: set[int] = set()

    def block(_: Any, number: int) -> None:
        ids.add(threading.get_native_id())
        seen.append(number)
        threading.Event().wait(0.002)

    callback = BLOCK(block)
    library = threads_library(limit)
    arguments = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    library.function("pyjax_parallel_for", None, *arguments)(
        ctypes.cast(callback, ctypes.c_void_p), None, blocks
    )
    return sorted(seen), ids


@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("blocks", [0, 1, 2, 3, 40])
def test_a_limited_program_uses_no_more(limit: int, blocks: int) -> None:
    host_threads.set_num_threads(5)
    seen, ids = threads_of_blocks(limit, blocks)
    assert seen == list(range(blocks))
    assert len(ids) <= limit
    if blocks:
        assert limit > 1 or ids == {threading.get_native_id()}


def test_the_host_keeps_to_the_limit_too() -> None:
    """What a callback sees stands for LAPACK, which asks for the number in the same place."""
    host_threads.set_num_threads(4)
    seen: list[int] = []

    def look(x: Any) -> Any:
        seen.append(host_threads.num_threads())
        return x

    def f(x: Any) -> Any:
        return pyjax.pure_callback(look, pyjax.ShapeDtypeStruct((), np.float32), x)

    for n in (1, 2, 9):
        with pyjax.num_threads(n):
            pyjax.jit(f)(np.float32(n)).block_until_ready()
    pyjax.jit(f)(np.float32(0)).block_until_ready()
    assert seen == [1, 2, 4, 4]
    assert host_threads.num_threads() == 4


def test_blocks_are_of_one_thread() -> None:
    number = pyjax._config.options.num_threads
    with pyjax.num_threads(1):
        assert together(lambda: number.block_value) == [None]
        assert number.block_value == 1


@pytest.mark.parametrize("bad", [0, -2, 1.5, "all"])
def test_bad_numbers(bad: object) -> None:
    with pytest.raises((ValueError, TypeError), match="jax_num_threads"):
        pyjax.config.update("jax_num_threads", bad)
