"""pyjax on a platform whose memory the host cannot address: everything goes through buffers.

Platforms are chosen at the start of a process: run as a script, this file runs all checks on the
toy platform and prints what failed; the tests run that script once.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
import traceback
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, lax, vmap
from pyjax.errors import JaxRuntimeError

if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
from tests.pyjax import toy_platform

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def toy() -> Any:
    return pyjax.devices()[0].client


def memory() -> Any:
    return toy().memory[0]


def raises(kind: type[BaseException], text: str, call: Any) -> Any:
    with pytest.raises(kind, match=text) as info:
        call()
    return info.value


def check_it_is_the_default() -> None:
    x = jnp.arange(3.0)
    assert x.platform == "toy" and (x * 2).platform == "toy" and not x.committed
    assert jit(lambda x: x + 1)(x).device is pyjax.devices()[0]


def check_eager_and_jit_and_transformations() -> None:
    def f(x: Any) -> Any:
        return jnp.sin(x).sum() + (x @ x.T).sum()

    want = np.sin(X).sum() + (X @ X.T).sum()
    for call in (f, jit(f)):
        np.testing.assert_allclose(call(X), want, rtol=1e-5)
        np.testing.assert_allclose(grad(call)(X), np.cos(X) + 2 * X.sum(0), rtol=1e-5)
        np.testing.assert_allclose(vmap(call)(X[:, None]), [f(r[None]) for r in X], rtol=1e-5)
    carry, ys = jit(lambda x: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros(3), x))(X)
    np.testing.assert_allclose(carry, X.sum(0))
    np.testing.assert_allclose(ys, [0 * X[0], X[0] * X[1]])
    tree = jit(lambda t: {k: v + 1 for k, v in t.items()})({"a": X, "b": 2})
    np.testing.assert_array_equal(tree["a"], X + 1)
    assert int(tree["b"]) == 3


def check_array_methods() -> None:
    x = jnp.asarray(X)
    assert x[1, 2] == 5 and x[0].tolist() == [0, 1, 2]
    assert [row.tolist() for row in x] == X.tolist()
    np.testing.assert_array_equal(x.at[0].set(7), [[7, 7, 7], [3, 4, 5]])
    assert repr(x[0]) == "Array([0., 1., 2.], dtype=float32)"
    assert pickle.loads(pickle.dumps(x)).tolist() == X.tolist()
    assert bool(x[0, 0] == 0) and float(x[1, 0]) == 3 and x.nbytes == 24
    assert bytes(memoryview(x)) == X.tobytes()
    assert not np.asarray(x).flags.writeable
    key = pyjax.random.key(3)
    on_cpu = pyjax.device_put(pyjax.random.key(3), pyjax.devices("cpu")[0])
    np.testing.assert_array_equal(pyjax.random.normal(key, (4,)), pyjax.random.normal(on_cpu, (4,)))


def check_programs_do_not_go_through_the_host() -> None:
    f, g = jit(lambda x: x * 2), jit(lambda x: (x + 1, x.sum()))
    x = jnp.asarray(X)
    jax_sum = g(f(x) + x)[1]
    before = memory().from_host, memory().to_host
    for _ in range(3):
        x, total = g(f(x) + x)
    assert (memory().from_host, memory().to_host) == before
    assert float(jax_sum) == 45 and float(total) > 0
    assert memory().to_host == before[1] + 2


def check_memory_is_free_when_nobody_holds_it() -> None:
    before = len(memory().content)
    x = jnp.asarray(X)
    y = jit(lambda x: (x + 1, x * 2))(x)
    assert len(memory().content) == before + 3
    x.delete()
    assert len(memory().content) == before + 2
    del y
    assert len(memory().content) == before
    raises(RuntimeError, "deleted", lambda: x + 1)
    raises(RuntimeError, "deleted", lambda: jit(lambda x: x + 1)(x))


def check_donation() -> None:
    f = jit(lambda x, y: (x + y, y * 2), donate_argnums=0)
    x, y = jnp.asarray(X), jnp.asarray(X)
    f(jnp.asarray(X), y)
    number, live = x.buffer.number, len(memory().content)
    first, second = f(x, y)
    assert x.is_deleted() and not y.is_deleted()
    assert first.buffer.number == number and len(memory().content) == live + 1
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, 2 * X)
    raises(RuntimeError, "deleted", lambda: f(x, y))
    raises(JaxRuntimeError, "which is donated", lambda: f(y, y))
    assert not y.is_deleted()


def check_a_donating_call_without_memory_changes_nothing() -> None:
    f = jit(lambda x: (x + 1, x * 2), donate_argnums=0)
    f(jnp.asarray(X))
    x = jnp.asarray(X)
    gc.collect()  # cycles that earlier checks left give memory back whenever they are found
    memory().limit = sum(map(len, memory().content.values()))
    try:
        error = raises(MemoryError, "cannot allocate 24 bytes on the toy", lambda: f(x))
        assert "test_neutral_runtime.py" in str(error) and "it is full" in str(error)
        raises(MemoryError, "cannot allocate", lambda: jnp.asarray(X))
        raises(MemoryError, "cannot allocate", lambda: jit(jnp.sin)(x))
        raises(MemoryError, "cannot allocate", lambda: jnp.float32(3) + x)
    finally:
        memory().limit = 1 << 30
    assert not x.is_deleted() and not any("donated" in note for note in error.__notes__)
    np.testing.assert_array_equal(f(x)[0], X + 1)


def check_a_donating_program_that_fails_has_taken_its_argument() -> None:
    def fail(x: Any) -> Any:
        raise RuntimeError("on purpose")

    def f(x: Any, y: Any) -> Any:
        return pyjax.pure_callback(fail, pyjax.ShapeDtypeStruct(X.shape, X.dtype), x) + y

    x, y = jnp.asarray(X), jnp.asarray(X)
    call = jit(f, donate_argnums=1)
    error = raises(RuntimeError, "on purpose", lambda: call(x, y))
    assert y.is_deleted() and not x.is_deleted()
    assert "donated arguments of f" in error.__notes__[0] and "'y'" in error.__notes__[0]


def check_closed_over_arrays_and_host_values() -> None:
    large = jnp.arange(100.0)
    f = jit(lambda x: x + large)
    np.testing.assert_array_equal(f(1.0), np.arange(100.0) + 1)
    np.testing.assert_array_equal(f(np.ones(100, np.float64)), np.arange(100.0) + 1)
    np.testing.assert_array_equal(large + np.ones(100), np.arange(100.0) + 1)


def check_callbacks() -> None:
    seen = []

    def f(x: Any) -> Any:
        pyjax.debug.callback(lambda v: seen.append(np.asarray(v).tolist()), x[0])
        return pyjax.pure_callback(np.sin, pyjax.ShapeDtypeStruct(X.shape, X.dtype), x)

    np.testing.assert_allclose(jit(f)(X), np.sin(X), rtol=1e-6)
    assert seen == [[0, 1, 2]]


def check_no_addresses() -> None:
    x = jnp.asarray(X)
    raises(RuntimeError, "has no address", x.unsafe_buffer_pointer)
    raises(BufferError, "not host memory", lambda: x.__dlpack__(max_version=(1, 0), copy=False))
    copy = np.from_dlpack(x)
    np.testing.assert_array_equal(copy, X)
    assert jit(jnp.sin).lower(x).compile().runtime_executable().direct is None


def check_waiting_is_the_clients() -> None:
    x = jnp.asarray(X)
    before = memory().waits
    x.block_until_ready()
    pyjax.block_until_ready((x, x))
    assert memory().waits == before + 3 and x.is_ready()


def check_arrays_move_to_the_memory_of_the_program() -> None:
    cpu, second = pyjax.devices("cpu")[0], pyjax.devices()[1]
    x = jnp.asarray(X)
    for device in (cpu, second):
        there = pyjax.device_put(x, device)
        assert (there + 1).device is device
        np.testing.assert_array_equal(there + 1, X + 1)
        # Uncommitted arrays and constants follow: eager, compiled, with large constants.
        np.testing.assert_array_equal(there + x, 2 * X)
        assert (there + x).device is device
        big = jnp.arange(64.0)
        f = jit(lambda a, b: (a + b, big * 2))  # noqa: B023
        for result, want in zip(f(there, x), (2 * X, np.arange(64) * 2)):
            assert result.device is device
            np.testing.assert_array_equal(result, want)
        with pyjax.default_device(device):
            np.testing.assert_array_equal(x * 3, 3 * X)
            np.testing.assert_array_equal(jit(lambda x: x * x)(x), X * X)
            assert (x * 3).device is device
    donated = jit(lambda a, b: (a + b, b * 2), donate_argnums=1)
    there = pyjax.device_put(x, cpu)
    np.testing.assert_array_equal(donated(there, x)[1], 2 * X)


CHECKS = [name for name in dict(globals()) if name.startswith("check_")]


def main() -> None:
    toy_platform.register()
    pyjax.config.update("jax_platforms", "toy,cpu")
    failures = {}
    for name in CHECKS:
        try:
            globals()[name]()
        except BaseException:
            failures[name] = traceback.format_exc()
    print(json.dumps(failures))


@pytest.fixture(scope="module")
def failures() -> Any:
    done = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", CHECKS)
def test_on_the_toy_platform(name: str, failures: Any) -> None:
    assert name not in failures, failures[name]


if __name__ == "__main__":
    main()
