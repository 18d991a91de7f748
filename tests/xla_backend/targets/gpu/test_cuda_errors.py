"""What goes wrong on GPUs is said in clear words, the process lives, and memory comes back."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from tests.xla_backend.targets.gpu import fake_cupy
from tests.xla_backend.targets.gpu.cuda_programs import compiled, on, started
from tests.xla_backend.targets.gpu.fake_cupy import FakeGpu
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.runtime import places
from xla_backend.runtime.buffer import OutOfMemory
from xla_backend.runtime.custom_calls import register_custom_call
from xla_backend.targets.gpu.cuda import errors
from xla_backend.targets.gpu.cuda.client import CudaClient
from xla_backend.targets.gpu.cuda.cupy_library import load_library

X = np.arange(24, dtype=np.float32).reshape(4, 6)
TWICE = """HloModule twice
ENTRY main { x = f32[4,6] parameter(0)
  ROOT r = f32[4,6] add(x, x)
}"""
DONATING = """HloModule donating, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main { x = f32[4,6] parameter(0)
  a = f32[4,6] negate(x)
  b = f32[4,6] abs(x)
  ROOT r = (f32[4,6], f32[4,6]) tuple(a, b)
}"""


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[FakeGpu]:
    return fake_cupy.install(monkeypatch, 2)


def kind_on(device: Any) -> Any:
    return device.client.buffer_kind(device, X.shape, X.dtype)


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"blocks": 2**31}, "asks for 2147483648 blocks, and the device has at most 2147483647"),
        ({"threads": 1056}, "asks for 1056 threads of a block, and the device has at most 1024"),
        ({"dynamic_shared": 300 << 10}, "asks for 307200 bytes of shared memory of a block, and"),
    ],
)
def test_launches_that_cannot_be(fields: Any, words: str, gpus: list[FakeGpu]) -> None:
    with pytest.raises(RuntimeFailure, match=words):
        compiled(TWICE, **fields)


def test_too_few_registers(gpus: list[FakeGpu], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_cupy, "_most_threads", lambda name: 16)
    with pytest.raises(RuntimeFailure, match="for the registers that each takes, and the device"):
        compiled(TWICE)


def test_shared_memory_that_must_be_asked_for_is(gpus: list[FakeGpu]) -> None:
    executable = compiled(TWICE, dynamic_shared=100 << 10)
    np.testing.assert_array_equal(executable.run_arrays([X])[0], 2 * X)


@pytest.mark.parametrize(
    "ptx, words",
    [
        (".target sm_120", r"on cuda:0 the driver is too old for the PTX.*install a newer driver"),
        ("gibberish", r"on cuda:0 the driver does not take the PTX of a kernel"),
        (".target sm_80", r"on cuda:0 CUDA reported an error \(CUDA_ERROR_NOT_FOUND"),
    ],
)
def test_code_that_the_driver_does_not_take(ptx: str, words: str, gpus: list[FakeGpu]) -> None:
    with pytest.raises(RuntimeFailure, match=words):
        compiled(TWICE, ptx=ptx)


def test_a_kernel_that_fails_is_reported_by_who_waits(
    gpus: list[FakeGpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the caller's words, and the line of the first call that was under way."""
    line = ["train.py:3 (step)"]
    monkeypatch.setattr(places, "_finder", [lambda: line[0]])
    client = CudaClient()
    executable = compiled(TWICE, client)
    device: Any = client.devices()[0]
    (buffer,) = on(device, X)
    _, well = started(executable, [buffer])
    well.wait()
    buffer.address += 1 << 30
    _, first = started(executable, [buffer])
    line[0] = "train.py:9 (log)"
    outputs, second = started(executable, on(device, X))
    with pytest.raises(RuntimeError) as error:
        second.wait()
    said = str(error.value)
    assert said.startswith(
        "f did not compute: on cuda:0 a kernel accessed memory that is not there"
    )
    assert "cudaErrorIllegalAddress" in said and "'gpu_emulator'" in said
    assert said.endswith("calls were under way since train.py:3 (step)")
    assert first.is_done() and second.is_done()
    for job in (first, second):
        with pytest.raises(RuntimeError, match="f did not compute: on cuda:0"):
            job.wait()
    # The device is lost, and says so at once; the other one is as it was.
    with pytest.raises(errors.DeviceLost, match="start the process again"):
        started(executable, outputs)
    with pytest.raises(errors.DeviceLost):
        compiled(TWICE, client)
    well.wait()
    other: Any = client.devices()[1]
    outputs, job = started(executable, on(other, X), device=other)
    np.testing.assert_array_equal(kind_on(other).to_host(outputs[0]), 2 * X)
    del outputs, buffer


def test_no_memory_for_results_changes_nothing(gpus: list[FakeGpu]) -> None:
    executable = compiled(DONATING)
    device: Any = executable.device
    buffers = on(device, X)
    with device.active():
        device.pool._pool.set_limit(size=device.pool.stats()["bytes_reserved"])
    in_use = device.memory_stats()["bytes_in_use"]
    given = buffers.copy()
    with pytest.raises(OutOfMemory, match=r"cannot allocate 96 bytes on cuda:0 for an array float"):
        started(executable, given, {0})
    assert given[0] is buffers[0] and device.memory_stats()["bytes_in_use"] == in_use
    with device.active():
        device.pool._pool.set_limit(fraction=1.0)
    outputs, _ = started(executable, given, {0})
    np.testing.assert_array_equal(kind_on(device).to_host(outputs[0]), -X)


def test_arguments_of_another_device_are_refused(gpus: list[FakeGpu]) -> None:
    client = CudaClient()
    executable = compiled(TWICE, client)
    second: Any = client.devices()[1]
    with pytest.raises(ValueError, match=r"on cuda:1 was given to cuda:0.*device_put"):
        started(executable, on(second, X))


def test_an_exception_of_a_host_call_reaches_the_caller(gpus: list[FakeGpu]) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("on purpose")

    register_custom_call("cuda_test_fail", fail, replace=True)
    executable = compiled(
        """HloModule m
      ENTRY main { x = f32[4,6] parameter(0)
        ROOT r = f32[4,6] custom-call(x), custom_call_target="cuda_test_fail"
      }"""
    )
    device: Any = executable.device
    buffers = on(device, X)
    in_use = []
    for _ in range(3):  # the first run leaves memory with its context
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            started(executable, buffers.copy())
        in_use.append(device.memory_stats()["bytes_in_use"])
    assert in_use == [1024] * 3
    np.testing.assert_array_equal(kind_on(device).to_host(buffers[0]), X)


@pytest.mark.parametrize("status", [2, 46, 100, 209, 214, 701, 719, 802, 12345])
def test_errors_have_a_meaning_and_an_advice(status: int) -> None:
    error = fake_cupy.CUDARuntimeError(status)
    failure = errors.failure("cuda:3", error)
    said = str(failure)
    assert said.startswith("on cuda:3 ") and str(error) in said and "; " in said
    assert isinstance(failure, errors.DeviceLost) == (status in (214, 719))
    assert errors.status_of(ValueError()) is None


def library_error(kind: str, field: str, number: int) -> Exception:
    """As CuPy raises it: by the names of its classes and of what holds their number."""
    error = type(kind, (RuntimeError,), {})(f"{kind} {number}")
    setattr(error, field, number)
    return error


@pytest.mark.parametrize(
    "kind, field, number, words",
    [
        ("CUBLASError", "status", 3, "cuBLAS has no memory to work in .*jax_cuda_memory_fraction"),
        ("CUBLASError", "status", 1, "cuBLAS cannot start, mostly for want of memory"),
        ("CUBLASError", "status", 8, r"cuBLAS has no code for the device .*pyjax\[cuda13\]"),
        ("CUBLASError", "status", 7, "cuBLAS does not take what it was called with .*; report"),
        ("CUBLASError", "status", 13, "cuBLAS reported an error .*; see `nvidia-smi`"),
        ("CUSOLVERError", "status", 2, "cuSOLVER has no memory to work in"),
        ("CUSOLVERError", "status", 9, "cuSOLVER does not take what it was called with"),
        ("CuFFTError", "result", 2, "cuFFT has no memory to work in"),
        ("CuFFTError", "result", 8, "cuFFT does not take what it was called with"),
        ("NVRTCError", "status", 6, "NVRTC does not take what it was called with"),
        ("NVRTCError", "status", 11, "NVRTC reported an error"),
    ],
)
def test_errors_of_libraries_name_the_device(
    kind: str, field: str, number: int, words: str, gpus: list[FakeGpu]
) -> None:
    device: Any = CudaClient().devices()[1]
    with pytest.raises(RuntimeFailure, match=rf"^on cuda:1 {words}") as raised:
        with device.active():
            raise library_error(kind, field, number)
    assert f"({kind} {number})" in str(raised.value)
    assert not isinstance(raised.value, errors.DeviceLost) and not device.is_lost


@pytest.mark.parametrize("name", ["cublas", "cusolver", "cufft"])
def test_a_library_that_is_not_there_is_named(
    name: str, gpus: list[FakeGpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Without:
        def __getattr__(self, found: str) -> Any:
            raise ImportError(f'Failure finding "lib{found}.so.13"')

    monkeypatch.setattr(sys.modules["cupy"], "cuda", Without())
    words = rf'CuPy does not find CUDA\'s lib{name}, .*pip install "pyjax\[cuda13\]" \(Failure'
    with pytest.raises(RuntimeFailure, match=words):
        load_library(name)
