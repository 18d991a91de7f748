"""Arrays on GPUs as users see them, on a stand-in for CuPy: moving, exchange with other libraries,
memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax.runtime import devices
from tests.xla_backend.targets.gpu import fake_cupy
from xla_backend.runtime.plugins import discover_plugins

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Two GPUs beside the CPU, which stays the default."""
    clients = dict(devices.backends())
    fake_cupy.install(monkeypatch, 2)
    clients["cuda"] = discover_plugins()["cuda"].factory()
    monkeypatch.setattr(devices, "_clients", clients)
    yield pyjax.devices("gpu")
    gc.collect()


def test_arrays_go_there_and_come_back(gpus: list[Any]) -> None:
    x = pyjax.device_put(X, gpus[1])
    assert x.device is gpus[1] and x.platform == "cuda" and str(x.device) == "cuda:1"
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(pyjax.device_put(x, gpus[0]), X)
    np.testing.assert_array_equal(pyjax.device_put(x, pyjax.devices("cpu")[0]), X)
    assert x.tolist() == X.tolist() and x.block_until_ready().is_ready()
    assert repr(pyjax.device_put(np.float32(3), gpus[0])) == "Array(3., dtype=float32)"


def test_they_have_addresses_there(gpus: list[Any]) -> None:
    x = pyjax.device_put(X, gpus[1])
    interface = x.__cuda_array_interface__
    assert interface["data"] == (x.unsafe_buffer_pointer(), False)
    assert (interface["shape"], interface["typestr"]) == ((2, 3), "<f4")
    assert not hasattr(jnp.ones(3), "__cuda_array_interface__")


def test_other_libraries_share_them(gpus: list[Any]) -> None:
    x = pyjax.device_put(X, gpus[1])
    assert x.__dlpack_device__() == (2, 1)
    theirs = x.__dlpack__(stream=1, max_version=(1, 0))
    assert theirs.data.ptr == x.unsafe_buffer_pointer()
    back = jnp.from_dlpack(theirs)
    assert back.device is gpus[1] and back.committed and back.shape == (2, 3)
    assert back.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    x.delete()
    np.testing.assert_array_equal(back, X)
    host = np.from_dlpack(np.asarray(back))
    np.testing.assert_array_equal(host, X)
    half = pyjax.device_put(jnp.ones(3, jnp.bfloat16), gpus[0])
    with pytest.raises(
        BufferError, match=r"bfloat16 cannot be exported through DLPack: Unknown dtype; bitcast"
    ):
        half.__dlpack__()


def test_no_memory_names_the_lines(gpus: list[Any]) -> None:
    with gpus[0].active():
        gpus[0].pool._pool.set_limit(size=1 << 12)
    kept = pyjax.device_put(np.zeros(900, np.float32), gpus[0])
    with pytest.raises(MemoryError) as error:
        pyjax.device_put(np.zeros(300, np.float32), gpus[0])
    said = str(error.value)
    assert "cannot allocate 1200 bytes on cuda:0 for an array float32[300]" in said
    assert "3600 bytes: float32[900], made at test_arrays_on_gpus.py:" in said
    assert "(test_no_memory_names_the_lines)" in said and kept.shape == (900,)
