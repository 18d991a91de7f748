"""The code of a program's kernels on a device."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.targets.gpu.cuda.device import CudaDevice
from xla_backend.targets.gpu.generated_code import GeneratedCode
from xla_backend.targets.gpu.kernel_functions import LaunchFunction
from xla_backend.targets.gpu.resident_functions import ResidentFunction

Function = LaunchFunction | ResidentFunction


def all_functions(code: GeneratedCode) -> Iterable[Function]:
    """Those of kernels, and of steps that one block runs."""
    return chain(*code.functions.values(), code.residents.values())


def blocks_of(function: Function) -> int:
    """How many blocks a launch has."""
    return 1 if isinstance(function, ResidentFunction) else function.blocks


class LoadedCode:
    """The code on a device, whose driver makes it of PTX.

    Raises:
      RuntimeFailure: the device or its driver does not take it, or a function asks for more than
        a launch can have.
    """

    def __init__(self, code: GeneratedCode, device: CudaDevice) -> None:
        self._device = device
        self._driver = device.cupy.cuda.driver
        self._functions: dict[str, Any] = {}
        functions = list(all_functions(code))
        if not functions:
            return
        self._module = device.cupy.cuda.function.Module()
        with device.active():
            self._module.load(code.ptx.encode())
            for function in functions:
                self._functions[function.name] = self._load(function)

    def pointer(self, name: str) -> int:
        """What launches call a function."""
        return self._functions[name].ptr

    def _load(self, function: Function) -> Any:
        driver, limits = self._driver, self._device.properties
        found = self._module.get_function(function.name)
        most = driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, found.ptr)
        shared, blocks = limits["sharedMemPerBlockOptin"], limits["maxGridSize"][0]
        for wanted, limit, what in (
            (blocks_of(function), blocks, "blocks"),
            (function.threads, limits["maxThreadsPerBlock"], "threads of a block"),
            (function.threads, most, "threads of a block, for the registers that each takes"),
            (function.dynamic_shared, shared, "bytes of shared memory of a block"),
        ):
            if wanted > limit:
                raise RuntimeFailure(
                    f"function {function.name!r} cannot be launched on {self._device}: it asks for "
                    f"{wanted} {what}, and the device has at most {limit}"
                )
        if function.dynamic_shared:
            attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.funcSetAttribute(found.ptr, attribute, function.dynamic_shared)
        return found
