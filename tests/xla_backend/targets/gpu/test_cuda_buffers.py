"""Arrays in the memory of GPUs, on a stand-in for CuPy whose streams lag behind."""

from __future__ import annotations

import gc
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.xla_backend.targets.gpu import fake_cupy
from tests.xla_backend.targets.gpu.fake_cupy import FakeGpu
from xla_backend.runtime import places
from xla_backend.runtime.buffer import OutOfMemory
from xla_backend.targets.gpu.cuda import transfers
from xla_backend.targets.gpu.cuda.client import CudaClient

KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[FakeGpu]:
    return fake_cupy.install(monkeypatch, 2)


@pytest.fixture
def client(gpus: list[FakeGpu]) -> CudaClient:
    return CudaClient()


def kind_of(client: CudaClient, dimensions: tuple[int, ...], dtype: Any, device: int = 0) -> Any:
    return client.buffer_kind(client.devices()[device], dimensions, np.dtype(dtype))


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.int8, np.float32, np.complex128, ml_dtypes.bfloat16]
)
@pytest.mark.parametrize("dimensions", [(), (0,), (3, 5), (7, 1, 11)])
def test_there_and_back(client: CudaClient, dimensions: tuple[int, ...], dtype: Any) -> None:
    array = np.arange(np.prod(dimensions)).reshape(dimensions).astype(dtype)
    kind = kind_of(client, dimensions, dtype)
    buffer = kind.from_host(array)
    found = kind.to_host(buffer)
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype and found.shape == dimensions and not found.flags.writeable
    scalar = kind_of(client, (), dtype)
    assert scalar.to_host(scalar.from_scalar(1)) == dtype(1)


def test_a_copy_under_way_has_what_was_there_at_the_call(client: CudaClient) -> None:
    array = np.arange(1000.0)
    kind = kind_of(client, (1000,), np.float64)
    buffer = kind.from_host(array)
    assert not kind.is_ready(buffer)
    array[:] = 0
    kind.wait(buffer)
    assert kind.is_ready(buffer)
    np.testing.assert_array_equal(kind.to_host(buffer), np.arange(1000.0))


def test_large_arrays_go_in_pieces(client: CudaClient, gpus: list[FakeGpu]) -> None:
    array = np.random.default_rng(0).integers(0, 256, 9 * MIB + 17, np.uint8)
    kind = kind_of(client, array.shape, np.uint8)
    np.testing.assert_array_equal(kind.to_host(kind.from_host(array)), array)
    assert gpus[0].counts == {"copies 1": 3, "copies 2": 3}


def test_page_locked_memory_is_bounded(client: CudaClient) -> None:
    """Copies that nobody waits for keep 64 MiB of it at most, and a piece more."""
    kind = kind_of(client, (4 * MIB,), np.uint8)
    buffers = [kind.from_host(np.full(4 * MIB, i, np.uint8)) for i in range(24)]
    stream = client.devices()[0].stream  # type: ignore[attr-defined]
    copies = len(stream.queue) // 2
    assert 0 < copies <= 17
    for number in (0, 12, 23):
        assert (kind.to_host(buffers[number]) == number).all()


def test_memory_is_free_when_nobody_holds_it(client: CudaClient, gpus: list[FakeGpu]) -> None:
    device = client.devices()[0]
    kind = kind_of(client, (1000,), np.float32)
    first = kind.from_host(np.zeros(1000))
    address = kind.address(first)
    stats = device.memory_stats()
    assert stats is not None and stats["bytes_in_use"] == stats["bytes_reserved"] == 4096
    del first
    stats = device.memory_stats()
    assert stats is not None and stats["bytes_in_use"] == 0 and stats["bytes_reserved"] == 4096
    # It is taken again while the copy is under way that used it.
    second = kind.from_host(np.ones(1000))
    assert kind.address(second) == address and (kind.to_host(second) == 1).all()
    assert device.memory_stats() == {
        "bytes_in_use": 4096,
        "peak_bytes_in_use": 4096,
        "bytes_reserved": 4096,
        "bytes_limit": int(gpus[0].memory_bytes * 0.95),
        "num_allocs": 2,
    }
    other = client.devices()[1].memory_stats()
    assert other is not None and other["bytes_reserved"] == 0


def test_out_of_memory_names_the_largest_arrays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpus = fake_cupy.install(monkeypatch, [FakeGpu(0, memory_bytes=1 << 20)])
    line = ["train.py:3 (load)"]
    monkeypatch.setattr(places, "_finder", [lambda: line[0]])
    client = CudaClient(memory_fraction=0.5)
    large, small = kind_of(client, (25, KIB), np.float32), kind_of(client, (3,), np.int8)
    kept = [small.from_host(np.zeros(3))]
    for line[0] in ("train.py:7 (init)", "train.py:7 (init)", "train.py:9 (step)"):
        kept.append(large.device.buffer(large))  # type: ignore[attr-defined]
    kept.pop(1)
    with pytest.raises(OutOfMemory) as error:
        huge = kind_of(client, (100, KIB), np.float32)
        huge.from_host(np.broadcast_to(np.float32(0), (100, KIB)))
    said = str(error.value).splitlines()
    assert said[0] == f"cannot allocate {400 * KIB} bytes on cuda:0 for an array float32[100,{KIB}]"
    assert f"use {200 * KIB + 512} bytes there" in said[1]
    assert f"it may take {gpus[0].memory_bytes // 2}; " in said[1]
    assert said[3] == f"    {100 * KIB} bytes: float32[25,{KIB}], made at train.py:7 (init)"
    assert said[5] == "    3 bytes: int8[3], made at train.py:3 (load)"
    assert "donate_argnums" in said[-1] and "jax_cuda_memory_fraction" in said[-1]
    # Nothing is lost: what was free is free again.
    kept.clear()
    assert huge.device.buffer(huge).address


def test_free_memory_in_blocks_of_other_sizes_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cupy.install(monkeypatch, [FakeGpu(0, memory_bytes=1 << 20)])
    client = CudaClient(memory_fraction=0.5)
    for size in (300, 200, 400):
        kind = kind_of(client, (size * KIB,), np.uint8)
        assert kind.device.buffer(kind).address
        gc.collect()


def test_buffers_of_another_device_are_refused(client: CudaClient) -> None:
    first, second = (kind_of(client, (3,), np.int32, i) for i in (0, 1))
    buffer = first.from_host(np.arange(3))
    for use in (second.to_host, second.wait, second.is_ready, second.address, second.shared):
        with pytest.raises(ValueError, match=r"on cuda:0 was given to cuda:1.*device_put"):
            use(buffer)
    with pytest.raises(ValueError, match="another platform's device was given to cuda:0"):
        first.to_host(3)


def test_other_libraries_share_the_memory(client: CudaClient) -> None:
    kind = kind_of(client, (2, 3), np.float32, 1)
    buffer = kind.from_host(np.arange(6.0).reshape(2, 3))
    shared = kind.shared(buffer)
    interface = shared.__cuda_array_interface__
    assert interface["data"] == (kind.address(buffer), False) and interface["shape"] == (2, 3)
    assert interface["stream"] == kind.device.stream.ptr
    assert shared.__dlpack_device__() == kind.dlpack_device == (2, 1)
    capsule = shared.__dlpack__(stream=1)
    address = kind.address(buffer)
    del buffer, shared
    assert capsule.data.ptr == address
    stats = kind.device.memory_stats()
    assert stats["bytes_in_use"] == 512  # the consumer has it still
    # And back, without a copy.
    adopted = client.adopt(capsule)
    assert adopted is not None and adopted.device is kind.device
    assert kind.address(adopted.buffer) == address and not adopted.buffer.from_pool  # type: ignore
    np.testing.assert_array_equal(kind.to_host(adopted.buffer), np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("offset, dense", [(0, False), (8, True), (32, True)])
def test_arrays_that_kernels_cannot_read_are_copied(
    offset: int, dense: bool, client: CudaClient
) -> None:
    kind = kind_of(client, (64,), np.float32)
    values = np.arange(64, dtype=np.float32)
    memory = kind.from_host(values)
    owner = fake_cupy.UnownedMemory(memory.address, 256, memory, 0)
    given = fake_cupy.ndarray((2, 3), np.float32, fake_cupy.MemoryPointer(owner, offset), dense)
    adopted: Any = client.adopt(given)
    assert adopted.copied == (offset == 8 or not dense) and adopted.buffer.address % 16 == 0
    part = kind_of(client, (2, 3), np.float32)
    want = values[offset // 4 : offset // 4 + 6].reshape(2, 3)
    np.testing.assert_array_equal(part.to_host(adopted.buffer), want)


def test_arrays_elsewhere_are_not_adopted(client: CudaClient) -> None:
    kind = kind_of(client, (2, 3), np.float32)
    given = kind.shared(kind.from_host(np.zeros((2, 3))))
    assert client.adopt(np.zeros(3)) is None
    assert CudaClient(visible_devices=[1]).adopt(given) is None


def test_reads_outside_of_memory_lose_the_device(client: CudaClient) -> None:
    """The message says what happened and that the process lives; so does everything after it."""
    kind, other = kind_of(client, (4,), np.int32), kind_of(client, (4,), np.int32, 1)
    buffer = kind.from_host(np.arange(4))
    buffer.address += 1 << 30
    words = r"(?s)on cuda:0 a kernel accessed memory that is not there \(cudaErrorIllegalAddress"
    with pytest.raises(RuntimeError, match=words):
        kind.to_host(buffer)
    for use in (lambda: kind.from_host(np.zeros(4)), lambda: kind.wait(buffer)):
        with pytest.raises(RuntimeError, match="start the process again"):
            use()
    np.testing.assert_array_equal(other.to_host(other.from_host(np.arange(4))), np.arange(4))


def test_a_forked_process_is_told(client: CudaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = kind_of(client, (4,), np.int32)
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(RuntimeError, match=r"forked from: CUDA does not go on in a fork.*'spawn'"):
        kind.from_host(np.zeros(4))


# -- what another thread or a signal may see -------------------------------------------------------


def test_memory_is_not_used_again_before_its_copy_is_known(monkeypatch):
    """Another thread's copy comes between a copy and the event that says when it is over."""
    fake_cupy.install(monkeypatch, 1)
    client = CudaClient()
    device = client.devices()[0]
    sending = device._transfers
    kind = client.buffer_kind(device, (4096,), np.dtype("u1"))
    first, second = (kind.from_host(np.zeros(4096, "u1")) for _ in range(2))
    device.synchronize()
    copy, others = sending._copy, []

    def copied(*arguments):
        copy(*arguments)
        if not others:
            data = np.full(4096, 7, "u1")
            others.append(threading.Thread(target=device.to_device, args=(second.address, data)))
            others[0].start()
            others[0].join()

    monkeypatch.setattr(sending, "_copy", copied)
    device.to_device(first.address, np.full(4096, 5, "u1"))
    third = kind.from_host(np.full(4096, 9, "u1"))
    for buffer, value in ((first, 5), (second, 7), (third, 9)):
        np.testing.assert_array_equal(kind.to_host(buffer), np.full(4096, value, "u1"))


def test_memory_of_an_interrupted_wait_stays_until_the_copy_is_over(monkeypatch):
    fake_cupy.install(monkeypatch, 1)
    client = CudaClient()
    device = client.devices()[0]
    kind = client.buffer_kind(device, (4096,), np.dtype("u1"))
    buffer = kind.from_host(np.full(4096, 3, "u1"))

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(transfers, "wait_for", interrupted)
        with pytest.raises(KeyboardInterrupt):
            kind.to_host(buffer)
    assert len(device._transfers._under_way) == 2
    other = kind.from_host(np.full(4096, 9, "u1"))
    np.testing.assert_array_equal(kind.to_host(other), np.full(4096, 9, "u1"))
    np.testing.assert_array_equal(kind.to_host(buffer), np.full(4096, 3, "u1"))
