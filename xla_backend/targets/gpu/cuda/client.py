"""The `cuda` platform: NVIDIA GPUs, reached through CuPy."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.compile_target import Target
from xla_backend.hlo.module import HloModule
from xla_backend.process.bounded_cache import BoundedCache, Budget
from xla_backend.runtime.client import Adopted, Device, LoadedExecutable
from xla_backend.runtime.hlo_client import HloClient
from xla_backend.runtime.target_code import TargetCode
from xla_backend.targets.gpu.architectures import ARCHITECTURES, TRIPLE, Architecture
from xla_backend.targets.gpu.autotuning import Autotuner
from xla_backend.targets.gpu.compiler import generate
from xla_backend.targets.gpu.cuda.availability import is_supported, missing, unsupported
from xla_backend.targets.gpu.cuda.buffers import CudaBufferKind, adopt
from xla_backend.targets.gpu.cuda.communicators import Communicators
from xla_backend.targets.gpu.cuda.cupy_library import load_cupy
from xla_backend.targets.gpu.cuda.device import CudaDevice
from xla_backend.targets.gpu.cuda.driver import Gpu
from xla_backend.targets.gpu.cuda.executable import CudaExecutable
from xla_backend.targets.gpu.cuda.timing import CudaTimer
from xla_backend.targets.gpu.product_candidates import Choose
from xla_backend.targets.gpu.target_code import make_target_code

# Of a device's memory: the rest is for the driver, and the workspace of the vendor's libraries.
DEFAULT_FRACTION = 0.95
# JAX's names, and why one does nothing here.
_CHECKED_FROM = 4  # the level of autotuning at which results are compared
_ALLOCATORS = {
    "default": "",
    "bfc": "",
    "platform": "memory comes from a pool that grows as it is needed, and gives back what is free "
    "before it refuses",
    "cuda_async": "all memory of a device is used in the order of one stream, so that its pool "
    "gives it again at once",
}


class CudaClient(HloClient):
    """The GPUs of this machine.

    Args:
      visible_devices: numbers of those to use, in this order; None: all that code is made for.
      memory_fraction: the part of the memory of each that may be taken.
      preallocate: whether all of it is taken now; else it is when it is needed.
      allocator: "default" or "bfc": the pool, whatever its name in JAX. Others ("platform",
        "cuda_async") do nothing here, with a warning.

    Attributes:
      communicators: by which its devices exchange arrays.
    """

    platform = "cuda"
    shared_memory = None

    def __init__(
        self,
        visible_devices: Sequence[int] | int | None = None,
        memory_fraction: float | str = DEFAULT_FRACTION,
        preallocate: bool | str = False,
        allocator: str = "default",
    ) -> None:
        lacking = missing()
        if lacking:
            raise RuntimeError(lacking)
        fraction = _fraction(memory_fraction)
        at_once = _truth(preallocate)
        _check_allocator(allocator)
        cupy = load_cupy()
        _check_versions(cupy)
        if isinstance(visible_devices, int):  # as jax_pjrt_client_create_options has it
            visible_devices = [visible_devices]
        numbers = _numbers(cupy, visible_devices)
        self.communicators = Communicators()
        self._tuners: BoundedCache[tuple[CudaDevice, CompileOptions], Autotuner]
        self._tuners = BoundedCache(Budget("autotuners", entries=16))
        self.platform_version = f"pyjax cuda (CuPy {cupy.__version__}, {_cuda_version(cupy)})"
        self._devices = [
            CudaDevice(self, id, number, cupy, fraction) for id, number in enumerate(numbers)
        ]
        if at_once:
            for device in self._devices:
                device.pool.take_all()

    def devices(self) -> list[Device]:
        return list(self._devices)

    def buffer_kind(  # type: ignore[override]
        self, device: Device, dimensions: tuple[int, ...], dtype: np.dtype
    ) -> CudaBufferKind:
        assert isinstance(device, CudaDevice)
        return CudaBufferKind(device, dimensions, dtype)

    def adopt(self, exporter: Any) -> Adopted | None:
        return adopt(self._devices, exporter)

    def compile(self, module: HloModule, options: CompileOptions) -> LoadedExecutable:
        architecture = _architecture(self._devices)
        options = options._replace(target=Target(TRIPLE, architecture.name))
        # One that takes the code now; the others load it at its first use there.
        device = next((d for d in self._devices if not d.is_lost), self._devices[0])
        planned, code = generate(module, options, self._chooser(device, options))
        return CudaExecutable(
            planned,
            module,
            code,
            device,
            graphs=options.gpu.graphs,
            collective_timeout=options.gpu.collective_timeout,
        )

    def emit(self, module: HloModule, options: CompileOptions) -> TargetCode:
        return make_target_code(module, options)

    def _chooser(self, device: CudaDevice, options: CompileOptions) -> Choose | None:
        """What tries products on a device; None where their sizes alone are to decide."""
        if options.gpu.autotune_level == 0 or options.gpu.deterministic or device.is_lost:
            return None
        options = options._replace(dump=None)
        found = self._tuners.find((device, options))
        if found is None:
            load, dump = options.gpu.autotuned_before, options.gpu.autotune_results
            flags = options.gpu._replace(autotuned_before="", autotune_results="")
            settings = f"{flags} {options.fast_math} {self.platform_version}"
            check = options.gpu.autotune_level >= _CHECKED_FROM
            found = Autotuner(CudaTimer(device, options), settings, load, dump, check=check)
            self._tuners.put((device, options), found)
        return found

    def memory_stats(self, device: Device) -> dict[str, int]:
        assert isinstance(device, CudaDevice)
        return device.pool.stats()


def _architecture(devices: Sequence[CudaDevice]) -> Architecture:
    """The newest that code is made for and that all devices run, and of two of a generation the
    one that is only for it."""
    found = [10 * major + minor for major, minor in (d.capability for d in devices)]
    usable = [a for a in ARCHITECTURES.values() if all(map(a.runs_on, found))]
    return max(usable, key=lambda a: (a.number, a.name))


def _fraction(given: float | str) -> float:
    try:
        fraction = float(given)
    except ValueError:
        fraction = -1.0
    if not 0 < fraction <= 1:
        raise ValueError(
            f"memory_fraction is {given!r}: write the part of a GPU's memory that may be taken, "
            "more than 0 and at most 1"
        )
    return fraction


def _truth(preallocate: bool | str) -> bool:
    known = {"true": True, "false": False}
    found = known.get(str(preallocate).lower())
    if found is None:
        raise ValueError(f"preallocate is {preallocate!r}: write true or false")
    return found


def _check_allocator(allocator: str) -> None:
    if allocator not in _ALLOCATORS:
        raise ValueError(
            f"allocator is {allocator!r}: write one of {', '.join(_ALLOCATORS)}, such as in "
            "XLA_PYTHON_CLIENT_ALLOCATOR"
        )
    reason = _ALLOCATORS[allocator]
    if reason:
        warnings.warn(f"the allocator {allocator!r} does nothing: {reason}", stacklevel=3)


def _cuda_version(cupy: Any) -> str:
    number = cupy.cuda.runtime.driverGetVersion()
    return f"driver for CUDA {number // 1000}.{number % 1000 // 10}"


def _check_versions(cupy: Any) -> None:
    """A CuPy that was built where it is installed says only now what for."""
    runtime = cupy.cuda.runtime
    built, driver = runtime.runtimeGetVersion(), runtime.driverGetVersion()
    if built // 1000 > driver // 1000:
        raise RuntimeError(
            f"CuPy {cupy.__version__} is built for CUDA {built // 1000}, and the driver runs CUDA "
            f"{driver // 1000}.{driver % 1000 // 10}: install a newer driver, or pip install "
            f'"pyjax[cuda{driver // 1000}]" in its place'
        )


def _numbers(cupy: Any, visible: Sequence[int] | None) -> list[int]:
    """Numbers of the GPUs to use."""
    runtime = cupy.cuda.runtime
    found = []
    for number in range(runtime.getDeviceCount()):
        properties = runtime.getDeviceProperties(number)
        capability = properties["major"], properties["minor"]
        found.append(Gpu(properties["name"].decode(), capability))
    if visible is not None:
        for place, number in enumerate(visible):
            if not 0 <= number < len(found):
                raise ValueError(
                    f"there is no GPU {number}; this machine has {len(found)}, counted from 0"
                )
            if number in visible[:place]:
                raise ValueError(
                    f"GPU {number} is named twice (jax_cuda_visible_devices): name each one once"
                )
            if not is_supported(found[number]):
                raise ValueError(f"GPU {number}: {unsupported((found[number],))}")
        return list(visible)
    usable = [number for number, gpu in enumerate(found) if is_supported(gpu)]
    others = tuple(gpu for gpu in found if not is_supported(gpu))
    if not usable:
        raise RuntimeError(unsupported(others))
    if others:
        left = ", ".join(gpu.name for gpu in others)
        warnings.warn(
            f"GPUs are left out that no code is made for (older than sm_80): {left}", stacklevel=2
        )
    return usable
