"""Arrays are immutable: what they export cannot be written to, by any way that needs no ctypes."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import io
import signal
import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp

EXPORTS: dict[str, Callable[[pyjax.Array], np.ndarray]] = {
    "asarray": np.asarray,
    "array without copy": lambda x: np.array(x, copy=None),
    "device_get": pyjax.device_get,
    "DLPack": np.from_dlpack,
    "__array__": lambda x: x.__array__(),
    "memoryview": lambda x: np.asarray(memoryview(x)),
    "base array": lambda x: x.stored_array,
}

WAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "assignment": lambda a: a.__setitem__(0, 5),
    "in place": lambda a: a.__iadd__(1),
    "out": lambda a: np.add(a, a, out=a),
    "fill": lambda a: a.fill(3),
    "copyto": lambda a: np.copyto(a, 0),
    "sort": lambda a: a.sort(),
    "writeable": lambda a: setattr(a.flags, "writeable", True),
    "setflags": lambda a: a.setflags(write=True),
    "of a view": lambda a: a[:].setflags(write=True),
    "of other bits": lambda a: a.view(np.uint8).setflags(write=True),
    "of a new shape": lambda a: a.reshape(-1, 1).setflags(write=True),
    "as_strided": lambda a: np.lib.stride_tricks.as_strided(a).__setitem__(0, 5),
    "frombuffer": lambda a: np.frombuffer(a, a.dtype).setflags(write=True),
    "ndarray over it": lambda a: np.ndarray(a.shape, a.dtype, a).setflags(write=True),
    "memoryview": lambda a: memoryview(a).__setitem__(0, 5),
    "memoryview's object": lambda a: memoryview(a).obj.setflags(write=True),
}


def bases(array: Any) -> Iterator[Any]:
    """The array and everything that its memory comes from."""
    while array is not None:
        yield array
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("export", EXPORTS)
def test_exported_memory_cannot_be_written(export: str, way: str) -> None:
    x = jnp.arange(8.0)
    exported = EXPORTS[export](x)
    assert exported.__array_interface__["data"][0] == x.unsafe_buffer_pointer()
    for base in bases(exported):
        if isinstance(base, np.ndarray):
            with pytest.raises((ValueError, TypeError), match=r"read-?only|WRITEABLE"):
                WAYS[way](base)
        else:
            for writable in (bytearray().join, np.frombuffer, memoryview):
                try:
                    view = np.asarray(writable(base))
                except (TypeError, ValueError, BufferError):
                    continue
                assert not view.flags.writeable
    np.testing.assert_array_equal(x, np.arange(8.0))


@pytest.mark.parametrize(
    "dtype",
    [np.bool_, np.int8, np.uint32, np.float16, np.complex64, ml_dtypes.bfloat16, ml_dtypes.int4],
)
def test_every_dtype(dtype: Any) -> None:
    x = jnp.ones(6, dtype)
    view = np.asarray(x)
    assert view.dtype == dtype and view.tolist() == np.ones(6, dtype).tolist()
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.setflags(write=True)


def test_memoryview() -> None:
    x = jnp.arange(6, dtype=np.int16).reshape(2, 3)
    view = memoryview(x)
    assert view.readonly and view.shape == (2, 3) and view.format == "h" and view.nbytes == 12
    assert view.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert bytes(x) == b"".join([x]) == bytearray(x) == x.tobytes()
    assert hashlib.sha256(x).digest() == hashlib.sha256(x.tobytes()).digest()
    assert memoryview(jnp.float32(3)).tolist() == 3.0
    assert memoryview(jnp.zeros((0, 3))).shape == (0, 3)
    assert isinstance(np.asarray(jnp.ones(2, ml_dtypes.bfloat16))[0], ml_dtypes.bfloat16)


def ask_for_buffer(x: Any, flags: int) -> None:
    ctypes.pythonapi.PyObject_GetBuffer(
        ctypes.py_object(x), ctypes.create_string_buffer(200), ctypes.c_int(flags)
    )


def test_buffers_to_write_to_are_refused() -> None:
    x = jnp.arange(8.0)
    with pytest.raises(BufferError, match=r"immutable.*float32\[8\].*np.array\(x\)"):
        ask_for_buffer(x, 1)
    for write in (
        lambda: io.BytesIO(b"0123").readinto(x),
        lambda: struct.pack_into("f", x, 0, 5.0),
        lambda: (ctypes.c_float * 8).from_buffer(x),
        lambda: memoryview(x).__setitem__(0, 5.0),
    ):
        with pytest.raises((TypeError, BufferError)):
            write()
    np.testing.assert_array_equal(x, np.arange(8.0))


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: jnp.ones(3, ml_dtypes.bfloat16), BufferError, "dtype bfloat16 has no form"),
        (lambda: pyjax.random.key(0), TypeError, "key_data"),
    ],
)
def test_what_has_no_buffer(make: Any, error: Any, message: str) -> None:
    x = make()
    for _ in range(3):  # the exception is set anew each time
        with pytest.raises(error, match=message):
            memoryview(x)


def test_a_refused_buffer_keeps_nothing_alive() -> None:
    x = jnp.arange(8.0)
    x.delete()

    def kept() -> int:
        gc.collect()
        return sum(isinstance(each, RuntimeError) for each in gc.get_objects())

    before = kept()
    for _ in range(20):
        with pytest.raises(RuntimeError, match="deleted"):
            memoryview(x)
    assert kept() <= before


def test_key_data() -> None:
    words = pyjax.random.key(7).stored_array
    assert words.tolist() == [0, 7]
    with pytest.raises(ValueError, match="WRITEABLE"):
        words.setflags(write=True)


def test_dlpack_says_that_memory_is_read_only() -> None:
    x = jnp.arange(8.0)

    class Exporter:
        def __init__(self, **given: Any) -> None:
            self.given = given

        def __dlpack__(self, **asked: Any) -> Any:
            return x.__dlpack__(**{**asked, **self.given})

        def __dlpack_device__(self) -> tuple[int, int]:
            return x.__dlpack_device__()

    versioned = np.from_dlpack(Exporter(max_version=(1, 0)))
    assert versioned.ctypes.data == x.unsafe_buffer_pointer() and not versioned.flags.writeable
    # Older versions cannot say it: their consumers may write, to a copy.
    for max_version in (None, (0, 8)):
        old = np.from_dlpack(Exporter(max_version=max_version, copy=None))
        assert old.ctypes.data != x.unsafe_buffer_pointer()
        np.testing.assert_array_equal(old, np.arange(8.0))
        with pytest.raises(BufferError, match=r"read-only.*since version 1\.0"):
            x.__dlpack__(max_version=max_version, copy=False)
    copied = np.from_dlpack(Exporter(max_version=(1, 0), copy=True))
    assert copied.ctypes.data != x.unsafe_buffer_pointer()


def test_imported_memory_is_shared_only_if_asked() -> None:
    source = np.arange(8, dtype=np.float32)
    for make in (jnp.asarray, jnp.array, pyjax.device_put, lambda a: jnp.asarray(a, copy=None)):
        x = make(source)
        assert x.unsafe_buffer_pointer() != source.ctypes.data
    assert jnp.from_dlpack(source).unsafe_buffer_pointer() == source.ctypes.data
    odd = np.frombuffer(bytearray(33), np.float32, 8, offset=1)
    assert not odd.flags.aligned
    assert jnp.from_dlpack(odd).unsafe_buffer_pointer() != odd.ctypes.data  # needs alignment


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_a_handler_that_raises_leaves_no_buffer_half_made():
    """It may run before the first bytecode of what fills the buffer in: its exception used to be
    dropped there, and the process crashed on the buffer."""
    code = """
    import random, signal, struct, time
    import pyjax.numpy as jnp

    class Alarm(Exception):
        pass

    def raise_alarm(number, frame):
        raise Alarm

    def read():
        assert struct.unpack_from("i", x, 8) == (2,)  # native code has no form for it

    signal.signal(signal.SIGALRM, raise_alarm)
    x = jnp.arange(3, dtype=jnp.int32)
    draw = random.Random(0)
    raised = 0
    end = time.monotonic() + 4
    while time.monotonic() < end:
        try:
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.0002, 0.0005))
            for _ in range(1000):
                read()
        except Alarm:
            raised += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert raised > 100
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "ctypes callback" not in done.stderr
