"""GPUs as devices: which there are, what is missing, and what their options do."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.xla_backend.targets.gpu import fake_cupy
from tests.xla_backend.targets.gpu.fake_cupy import FakeGpu
from xla_backend.targets.gpu.cuda import availability, client, cupy_library, driver, report
from xla_backend.targets.gpu.cuda.client import CudaClient
from xla_backend.targets.gpu.cuda.driver import Driver, Gpu

H200, OLD = Gpu("NVIDIA H200", (9, 0)), Gpu("Tesla V100", (7, 0))
NO_DRIVER = Driver(None, (), "libcuda.so.1 is not found")
CUDA12 = ("cupy-cuda12x", "14.2.0", 12)
CUDA13 = ("cupy-cuda13x", "14.2.0", 13)


@pytest.mark.parametrize(
    "driver, cupy, words",
    [
        (Driver((12, 4), (H200,), ""), CUDA12, []),
        (Driver((13, 0), (H200,), ""), CUDA13, []),
        (Driver((13, 0), (OLD, H200), ""), CUDA12, []),
        (
            NO_DRIVER,
            CUDA12,
            ["no NVIDIA driver (libcuda.so.1 is not found)", "525.60.13 for CUDA 12"],
        ),
        (NO_DRIVER, None, ["no NVIDIA driver", 'pip install "pyjax[cuda12]" (or "pyjax[cuda13]"']),
        (
            Driver((12, 4), (H200,), ""),
            None,
            ['CuPy is not installed: pip install "pyjax[cuda12]"'],
        ),
        (
            Driver((13, 0), (H200,), ""),
            None,
            ['CuPy is not installed: pip install "pyjax[cuda13]"'],
        ),
        (Driver((11, 4), (H200,), ""), CUDA12, ["too old: it runs CUDA 11.4", "525.60.13"]),
        (Driver((12, 4), (), "CUDA_ERROR_NO_DEVICE"), CUDA12, ["finds no GPU (CUDA_ERROR_NO_DEV"]),
        (
            Driver((12, 4), (H200,), ""),
            CUDA13,
            ["cupy-cuda13x is for CUDA 13, and the driver runs CUDA 12.4", "580.65.06"],
        ),
        (Driver((12, 4), (H200,), ""), ("cupy-cuda11x", "13.0", 11), ["is for CUDA 11, which is"]),
        (Driver((12, 4), (H200,), ""), ("cupy", "12.3.0", None), ["CuPy 12.3.0 is too old"]),
        (Driver((12, 4), (OLD,), ""), CUDA12, ["sm_80 (Ampere) and newer", "Tesla V100 (sm_70)"]),
    ],
)
def test_what_is_missing_is_said(
    driver: Driver,
    cupy: tuple[str, str, int | None] | None,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(availability, "find_driver", lambda: driver)
    monkeypatch.setattr(availability, "cupy_is_installed", lambda: cupy is not None)
    monkeypatch.setattr(availability, "cupy_distribution", lambda: cupy)
    monkeypatch.setattr(availability, "absent_libraries", list)
    said = availability.missing()
    assert bool(said) == bool(words), said
    assert all(word in said for word in words), said
    assert availability.is_usable() == (not words)
    if words:
        with pytest.raises(RuntimeError) as error:
            CudaClient()
        assert str(error.value) == said


class Loader:
    """What CuPy finds CUDA's libraries with."""

    class DynamicLibNotFoundError(RuntimeError):
        pass

    def __init__(self, *found: str) -> None:
        self.found, self.asked = found, []  # type: ignore[var-annotated]

    def load_nvidia_dynamic_lib(self, name: str) -> None:
        self.asked.append(name)
        if name not in self.found:
            raise self.DynamicLibNotFoundError(name)


def test_libraries_that_cupy_comes_without_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain `pip install cupy-cuda13x` brings none of them."""
    installed = ["nvidia-cufft", "nvidia-cusolver-cu12", "cupy-cuda13x"]
    loader = Loader("cublas")

    def version(name: str) -> str:
        if name not in installed:
            raise cupy_library.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(cupy_library, "version", version)
    monkeypatch.setattr(cupy_library, "find_spec", lambda name: name)
    monkeypatch.setattr(cupy_library.importlib, "import_module", lambda name: loader)
    monkeypatch.setattr(availability, "find_driver", lambda: Driver((13, 0), (H200,), ""))
    monkeypatch.setattr(availability, "cupy_is_installed", lambda: True)
    monkeypatch.setattr(availability, "cupy_distribution", lambda: CUDA13)
    said = availability.missing()
    assert said.startswith("CuPy does not find CUDA's libnvrtc, which pip installs with it only")
    assert said.endswith('pip install "pyjax[cuda13]"')
    assert loader.asked == ["cublas", "nvrtc"]  # others are known to be there
    assert dict(report.facts())["cuda libraries"] == said
    loader.found += ("nvrtc",)
    assert not availability.missing()
    assert dict(report.facts())["cuda libraries"] == "found"
    installed[:] = ["cupy-cuda12x"]
    assert availability.missing().endswith(
        'libcusolver, libcufft, which pip installs with it only when asked to: pip install "pyjax['
        'cuda12]"'
    )
    monkeypatch.setattr(cupy_library, "find_spec", lambda name: None)  # CuPy 13 finds them itself
    assert not availability.missing()


def test_a_driver_is_not_asked_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> Driver:
        raise AssertionError("asked")

    monkeypatch.setattr(availability, "find_driver", asked)
    monkeypatch.setattr(availability, "cupy_is_installed", lambda: False)
    assert not availability.is_usable()


class FakeLibrary:
    """What a driver's library answers."""

    def __init__(self, status: int = 0, gpus: tuple[Gpu, ...] = (H200,)) -> None:
        self.status, self.gpus = status, gpus

    def cuInit(self, flags: int) -> int:
        return self.status

    def cuDriverGetVersion(self, version: object) -> int:
        version._obj.value = 12040  # type: ignore[attr-defined]
        return 0

    def cuDeviceGetCount(self, count: object) -> int:
        count._obj.value = len(self.gpus)  # type: ignore[attr-defined]
        return 0

    def cuDeviceGet(self, device: object, number: int) -> int:
        device._obj.value = number  # type: ignore[attr-defined]
        return 0

    def cuDeviceGetName(self, name: object, size: int, device: object) -> int:
        name.value = self.gpus[device.value].name.encode()  # type: ignore[attr-defined]
        return 0

    def cuDeviceGetAttribute(self, value: object, attribute: int, device: object) -> int:
        number = self.gpus[device.value].capability[attribute - 75]  # type: ignore[attr-defined]
        value._obj.value = number  # type: ignore[attr-defined]
        return 0

    def cuGetErrorName(self, status: int, text: object) -> int:
        text._obj.value = b"CUDA_ERROR_NO_DEVICE"  # type: ignore[attr-defined]
        return 0

    def cuGetErrorString(self, status: int, text: object) -> int:
        text._obj.value = b"no CUDA-capable device is detected"  # type: ignore[attr-defined]
        return 0


NO_DEVICE = "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"


@pytest.mark.parametrize(
    "library, found",
    [
        (FakeLibrary(), Driver((12, 4), (H200,), "")),
        (FakeLibrary(gpus=(OLD, H200)), Driver((12, 4), (OLD, H200), "")),
        (FakeLibrary(status=100), Driver((12, 4), (), NO_DEVICE)),
        (FakeLibrary(gpus=()), Driver((12, 4), (), NO_DEVICE)),
    ],
)
def test_the_driver_is_asked_through_its_own_library(
    library: FakeLibrary, found: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_load", lambda name: library)
    driver.find_driver.clear()
    assert driver.find_driver() == found
    driver.find_driver.clear()


def test_devices_say_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cupy.install(monkeypatch, [FakeGpu(0), FakeGpu(1, "NVIDIA A100", (8, 0), 1 << 29)])
    client = CudaClient()
    first, second = client.devices()
    assert (str(first), repr(second), first.platform) == ("cuda:0", "CudaDevice(id=1)", "cuda")
    assert (first.device_kind, second.device_kind) == ("NVIDIA H200", "NVIDIA A100")
    assert (first.compute_capability, second.compute_capability) == ("9.0", "8.0")
    assert first.core_count == 132 and not first.shares_memory_with(second)
    assert "CuPy 14.2.0, driver for CUDA 12.8" in client.platform_version
    stats = second.memory_stats()
    assert stats is not None and stats["bytes_limit"] == int((1 << 29) * 0.95)
    assert stats["bytes_in_use"] == stats["bytes_reserved"] == 0


def test_devices_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cupy.install(monkeypatch, [FakeGpu(0), FakeGpu(1, "Tesla V100", (7, 0)), FakeGpu(2)])
    chosen = CudaClient(visible_devices=[2, 0]).devices()
    assert [(d.id, d.local_hardware_id) for d in chosen] == [(0, 2), (1, 0)]
    assert [d.local_hardware_id for d in CudaClient(visible_devices=2).devices()] == [2]
    for none in (3, -1):
        with pytest.raises(ValueError, match=f"there is no GPU {none}; this machine has 3"):
            CudaClient(visible_devices=[none])
    with pytest.raises(ValueError, match="GPU 2 is named twice"):
        CudaClient(visible_devices=[2, 0, 2])
    with pytest.raises(ValueError, match=r"GPU 1: code is made for sm_80 .*Tesla V100 \(sm_70\)"):
        CudaClient(visible_devices=[1])
    with pytest.warns(UserWarning, match=r"older than sm_80\): Tesla V100"):
        assert [d.local_hardware_id for d in CudaClient().devices()] == [0, 2]


@pytest.mark.parametrize("given", ["half", 0, 1.5, -0.5])
def test_a_fraction_that_is_none_is_an_error(
    given: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cupy.install(monkeypatch)
    with pytest.raises(ValueError, match="write the part of a GPU's memory"):
        CudaClient(memory_fraction=given)  # type: ignore[arg-type]


def test_memory_is_taken_when_it_is_needed_or_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = fake_cupy.install(monkeypatch, 1)[0]
    CudaClient()
    assert gpu.used() == 0
    client = CudaClient(memory_fraction="0.5", preallocate="true")
    half = gpu.memory_bytes // 2
    assert gpu.used() == half
    (device,) = client.devices()
    assert device.memory_stats() == {
        "bytes_in_use": 0,
        "peak_bytes_in_use": half,
        "bytes_reserved": half,
        "bytes_limit": half,
        "num_allocs": 1,
    }
    with pytest.raises(ValueError, match="preallocate is 'perhaps': write true or false"):
        CudaClient(preallocate="perhaps")


def test_allocators_that_do_nothing_say_why(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    fake_cupy.install(monkeypatch, 1)
    CudaClient(allocator="bfc")
    assert not recwarn.list
    with pytest.warns(UserWarning, match="'platform' does nothing: memory comes from a pool that"):
        CudaClient(allocator="platform")
    with pytest.warns(UserWarning, match="'cuda_async' does nothing: all memory of a device is"):
        CudaClient(allocator="cuda_async")
    with pytest.raises(ValueError, match="allocator is 'best': write one of default, bfc, platf"):
        CudaClient(allocator="best")


def test_a_cupy_of_its_own_making_says_late_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cupy.install(monkeypatch, built=13000, runs=12040)
    with pytest.raises(RuntimeError, match=r"is built for CUDA 13, and the driver runs CUDA 12\.4"):
        CudaClient()


WITHOUT = """
import sys, pyjax
sys.modules["cupy"] = None  # importing it fails
assert pyjax.devices()[0].platform == "cpu"
assert not [m for m in sys.modules if "targets.gpu" in m]
try:
    pyjax.devices("gpu")
except RuntimeError as error:
    print(error)
"""


def test_pyjax_says_how_to_get_gpus() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=120, check=True
    )
    said = done.stdout
    assert said.startswith("Unknown backend 'gpu': "), said
    assert "no NVIDIA driver" in said or "CuPy is not installed: pip install" in said


@pytest.mark.parametrize(
    ("capabilities", "name"),
    [
        ([(9, 0)], "sm_90a"),
        ([(9, 0), (9, 0)], "sm_90a"),
        ([(9, 0), (10, 0)], "sm_90"),
        ([(8, 9)], "sm_80"),
        ([(8, 0), (9, 0)], "sm_80"),
        ([(10, 3)], "sm_100"),
        ([(12, 0)], "sm_120"),
    ],
    ids=str,
)
def test_code_is_made_for_what_all_devices_run(capabilities, name):
    """That of 9.0 alone has instructions that no other one has."""
    devices = [SimpleNamespace(capability=capability) for capability in capabilities]
    assert client._architecture(devices).name == name
