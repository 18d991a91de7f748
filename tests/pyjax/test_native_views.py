"""Whole read-only views of arrays, which native code gives once the first was asked of Python."""

from __future__ import annotations

import gc
import io
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax.runtime.array import DeviceArray

SHAPES: list[tuple[int, ...]] = [(), (5,), (3, 4), (2, 3, 4, 5), (0,), (3, 0, 2), (1, 1)]
DTYPES = ["?", "b", "B", "h", "H", "i", "I", "e", "f", "F"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arrays whose `__buffer__` of Python was called."""
    calls: list[Any] = []
    by_python = DeviceArray.__buffer__

    def noted(self: Any, flags: int) -> memoryview:
        calls.append(self)
        return by_python(self, flags)

    monkeypatch.setattr(DeviceArray, "__buffer__", noted)
    return calls


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_views_are_those_of_python(shape: tuple[int, ...], dtype: str) -> None:
    values = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    x = jnp.asarray(values)
    by_python = x.__buffer__(0)
    for _ in range(2):
        view = memoryview(x)
        array = np.asarray(x)
        for field in ("format", "itemsize", "nbytes", "ndim", "readonly", "shape", "c_contiguous"):
            assert getattr(view, field) == getattr(by_python, field), field
        if view.nbytes:
            assert view.strides == by_python.strides
            assert array.__array_interface__["data"][0] == x.unsafe_buffer_pointer()
        assert array.dtype == values.dtype and array.shape == shape
        assert not array.flags.writeable
        np.testing.assert_array_equal(array, values)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python sets the slot with the method anew")
def test_python_is_asked_once_for_a_kind_of_arrays(asked: list[Any]) -> None:
    x, y = jnp.arange(7.0), jnp.arange(7.0) + 1
    np.asarray(x)
    asked.clear()
    np.asarray(x), np.array(y), memoryview(y), np.asarray(y * 2)
    assert not asked
    np.frombuffer(x, np.uint8)  # of no shape, so it is another request
    assert asked


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4"])
def test_dtypes_without_a_format(dtype: str) -> None:
    x = jnp.asarray([1, 2, 3], dtype)
    for _ in range(3):
        with pytest.raises(BufferError, match=f"dtype {dtype} has no form.*bitcast it to an int"):
            memoryview(x)
        array = np.asarray(x)
        assert array.dtype == getattr(ml_dtypes, dtype) and not array.flags.writeable
        np.testing.assert_array_equal(array.astype(np.float32), [1, 2, 3])


def test_memory_to_write_to_is_refused_after_views_were_given() -> None:
    x = jnp.arange(4.0)
    memoryview(x)
    with pytest.raises((BufferError, TypeError), match=r"immutable|read-write"):
        io.BytesIO(bytes(16)).readinto(x)
    np.testing.assert_array_equal(x, np.arange(4.0))


def test_views_keep_the_memory_of_deleted_arrays() -> None:
    x = jnp.arange(1000.0) + 1
    np.asarray(x)
    view = np.asarray(x)
    x.delete()
    others = [jnp.zeros(1000) for _ in range(20)]
    np.testing.assert_array_equal(view, np.arange(1000.0) + 1)
    assert len(others) == 20
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Array has been deleted"):
            np.asarray(x)


def test_memory_with_views_is_not_donated() -> None:
    add = pyjax.jit(lambda a: a + 1, donate_argnums=0)
    x = add(jnp.arange(1000.0))
    np.asarray(x)
    view = np.asarray(x)
    y = add(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(view, np.arange(1000.0) + 1)
    np.testing.assert_array_equal(y, np.arange(1000.0) + 2)


def test_results_that_are_being_computed_are_waited_for() -> None:
    slow = pyjax.jit(lambda a: pyjax.lax.fori_loop(0, 60, lambda _, b: jnp.tanh(b @ b), a))
    a = jnp.eye(200) * 0.5
    np.asarray(slow(a))
    expected = np.array(slow(a).block_until_ready())
    np.testing.assert_array_equal(np.asarray(slow(a)), expected)


def test_keys_are_refused_each_time() -> None:
    key = pyjax.random.key(0)
    for _ in range(3):
        with pytest.raises(TypeError, match="no NumPy form"):
            np.asarray(key)


def test_nothing_leaks() -> None:
    x, b = jnp.arange(16.0), jnp.arange(16.0).astype(jnp.bfloat16)

    def use() -> None:
        for _ in range(100):
            view = memoryview(x)
            np.asarray(x), np.array(x), np.asarray(b)
            del view
        gc.collect()

    use()
    before = [sys.getrefcount(o) for o in (x.buffer, b.buffer, x.spec.view, b.spec.view)]
    objects, blocks = len(gc.get_objects()), sys.getallocatedblocks()
    use()
    after = [sys.getrefcount(o) for o in (x.buffer, b.buffer, x.spec.view, b.spec.view)]
    assert after == before
    assert abs(len(gc.get_objects()) - objects) < 50
    assert sys.getallocatedblocks() - blocks < 100
