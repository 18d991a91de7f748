"""Functions on GPUs as users see them, on a stand-in for CuPy that runs the generated programs in
the kernel interpreter."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, lax, vmap
from pyjax.errors import JaxRuntimeError
from pyjax.runtime import devices
from tests.xla_backend.targets.gpu import fake_cupy
from tests.xla_backend.targets.gpu.cuda_programs import run_generated
from xla_backend.runtime.plugins import discover_plugins

X = np.arange(6, dtype=np.float32).reshape(2, 3) / 8


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Two GPUs, the first of which is the default."""
    others = {name: c for name, c in devices.backends().items() if name != "cuda"}
    found = fake_cupy.install(monkeypatch, 2)
    run_generated(monkeypatch)
    clients = {"cuda": discover_plugins()["cuda"].factory(), **others}
    monkeypatch.setattr(devices, "_clients", clients)
    pyjax.clear_caches()
    devices._default_device.cache_clear()
    yield found
    pyjax.clear_caches()
    devices._default_device.cache_clear()
    gc.collect()


@pytest.fixture
def gpus(fakes: list[Any]) -> list[Any]:
    return pyjax.devices("gpu")


def test_eager_jit_and_transformations(gpus: list[Any]) -> None:
    def f(x: Any) -> Any:
        return (jnp.sin(x) * x).sum()

    assert jnp.asarray(X).device is gpus[0] and (jnp.asarray(X) + 1).device is gpus[0]
    want = (np.sin(X) * X).sum()
    slope = np.cos(X) * X + np.sin(X)
    for call in (f, jit(f)):
        np.testing.assert_allclose(call(X), want, rtol=1e-5)
        np.testing.assert_allclose(grad(call)(X), slope, rtol=1e-5)
    np.testing.assert_allclose(vmap(f)(X), (np.sin(X) * X).sum(1), rtol=1e-5)
    np.testing.assert_allclose(jnp.asarray(X) @ X.T, X @ X.T, rtol=1e-6)
    carry, ys = jit(lambda x: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros(3), x))(X)
    np.testing.assert_allclose(carry, X.sum(0))
    np.testing.assert_allclose(ys, [0 * X[0], X[0] * X[1]])


def test_calls_do_not_wait(gpus: list[Any], fakes: list[Any]) -> None:
    f = jit(lambda x: x * 2 + 1)
    x = pyjax.device_put(X, gpus[0])
    f(x).block_until_ready()
    copies = dict(fakes[0].counts)
    with pyjax.transfer_guard("disallow"):
        y = f(f(f(x)))
        assert not y.is_ready()
    assert fakes[0].counts.get("copies 2", 0) == copies.get("copies 2", 0)
    np.testing.assert_allclose(y, 8 * X + 7)
    assert y.is_ready() and not y.is_deleted()


def test_both_gpus_compute(gpus: list[Any]) -> None:
    there = pyjax.device_put(X, gpus[1])
    f = jit(lambda x: x + 1)
    assert f(there).device is gpus[1] and f(X).device is gpus[0]
    np.testing.assert_array_equal(f(there), X + 1)
    # Uncommitted arrays follow, also from the first GPU's memory.
    np.testing.assert_array_equal(there + jnp.asarray(X), 2 * X)
    with pytest.raises(ValueError, match="committed to different devices"):
        there + pyjax.device_put(X, gpus[0])


def test_donation(gpus: list[Any]) -> None:
    f = jit(lambda x, y: (x + y, y * 2), donate_argnums=0)
    x, y = jnp.asarray(X), jnp.asarray(X)
    address = x.unsafe_buffer_pointer()
    first, second = f(x, y)
    assert x.is_deleted() and first.unsafe_buffer_pointer() == address
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, 2 * X)
    with pytest.raises(RuntimeError, match="deleted"):
        f(x, y)
    with pytest.raises(pyjax.errors.JaxRuntimeError, match="which is donated"):
        f(y, y)
    assert not y.is_deleted()


def test_callbacks(gpus: list[Any]) -> None:
    seen = []

    def f(x: Any) -> Any:
        pyjax.debug.callback(lambda v: seen.append(np.asarray(v).tolist()), x[0])
        return pyjax.pure_callback(np.sin, pyjax.ShapeDtypeStruct(X.shape, X.dtype), x * 2)

    np.testing.assert_allclose(jit(f)(X), np.sin(2 * X), rtol=1e-6)
    assert seen == [X[0].tolist()]


def test_failures_are_reported_where_results_are_read(gpus: list[Any]) -> None:
    def step(x: Any) -> Any:
        return x + 1

    x = jnp.asarray(X)
    x.block_until_ready()
    step_on_gpu = jit(step)
    good = step_on_gpu(x)
    np.testing.assert_array_equal(good, X + 1)
    x.buffer.address += 1 << 30
    y = step_on_gpu(x)  # the line that messages name
    line = test_failures_are_reported_where_results_are_read.__code__.co_firstlineno + 10
    for read in (y.block_until_ready, lambda: np.asarray(y), lambda: step_on_gpu(y)):
        with pytest.raises(JaxRuntimeError) as error:
            read()
        said = str(error.value)
        assert re.match(r"step at \S+ did not compute its results: on cuda:0 a kernel acc", said)
        assert f"test_programs_on_gpus.py:{line} in test_failures" in said
        assert "as calls of programs on GPUs do" in said
    there = pyjax.device_put(X, gpus[1])
    np.testing.assert_array_equal(jit(step)(there), X + 1)
    np.testing.assert_array_equal(jit(step)(pyjax.device_put(X, pyjax.devices("cpu")[0])), X + 1)


def test_no_memory_for_a_result_names_the_call_and_the_arrays(gpus: list[Any]) -> None:
    f = jit(lambda x: jnp.zeros((200, 3)) + x[0])
    x = jnp.asarray(X)
    f(x).block_until_ready()
    gc.collect()
    memory = gpus[0].pool
    with gpus[0].active():
        memory.free_blocks()
        memory._pool.set_limit(size=memory.stats()["bytes_reserved"])
    with pytest.raises(MemoryError) as error:
        f(x)
    said = str(error.value)
    assert re.search(
        r"^RESOURCE_EXHAUSTED: cannot allocate 2400 bytes on cuda:0 for an array float32\[200,3\]",
        said,
    )
    assert "in test_no_memory_for_a_result" in said
    assert re.search(r"24 bytes: .*float32\[2,3\], made at test_programs_on_gpus.py", said), said
    assert not x.is_deleted()
